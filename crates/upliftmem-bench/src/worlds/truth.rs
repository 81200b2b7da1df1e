//! What is true of tasks and memories: which facts decide, and what memories do about them.
//!
//! A task has routes to its goal; a route needs facts. The agent knows some facts, memories supply or falsify
//! others, and a memory may suggest a route for which the rest is missing. Whatever is read costs attention. Nothing
//! here adds up: facts combine as a noisy OR, needs as AND, routes as OR, and attention multiplies.

/// Something that must be got right.
pub(super) type FactId = u32;
/// A way of doing things that a memory can suggest.
pub(super) type ProcedureId = u32;

/// A fact that a route depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Need {
    pub(super) fact: FactId,
    /// How probably the agent gets it right by itself.
    pub(super) own: f64,
}

/// One way to the goal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Route {
    /// What a memory must suggest for the agent to go this way; the first route of a task is the one it takes anyway.
    pub(super) procedure: Option<ProcedureId>,
    pub(super) needs: Vec<Need>,
}

/// How an agent deals with several routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// It goes one way: mostly what memories suggest, else the first. Between two suggestions it wavers.
    Commit,
    /// It tries one after the other until one works.
    TryEach,
}

/// What counts as how well done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grading {
    /// Every need, or nothing.
    All,
    /// The share of needs that are met.
    Share,
    /// So many of the needs, or nothing.
    AtLeast(usize),
}

impl Grading {
    pub(super) fn performance(self, met: usize, needs: usize) -> f64 {
        match self {
            Self::All => f64::from(u8::from(met == needs)),
            Self::Share => met as f64 / needs as f64,
            Self::AtLeast(enough) => f64::from(u8::from(met >= enough)),
        }
    }
}

/// The truth about a task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TaskTruth {
    pub(super) routes: Vec<Route>,
    pub(super) strategy: Strategy,
    pub(super) grading: Grading,
    /// How probably nothing else goes wrong.
    pub(super) luck: f64,
    /// Steps it takes without memory, in the usual case.
    pub(super) steps: f64,
}

/// What reading a memory does to the agent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Effect {
    /// It settles the fact rightly, with this probability when it is alone in the context.
    Supplies(FactId, f64),
    /// It settles the fact wrongly, with this probability.
    Falsifies(FactId, f64),
    /// It sends the agent this way.
    Suggests(ProcedureId),
}

/// The truth about a memory.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MemoryTruth {
    pub(super) effects: Vec<Effect>,
    pub(super) tokens: f64,
}

impl MemoryTruth {
    /// Whether it could do this task any good: it supplies one of its needs or suggests one of its routes. Without
    /// either it can only take attention and mislead, so no best set has it.
    pub(super) fn can_help(&self, task: &TaskTruth) -> bool {
        self.effects.iter().any(|&effect| match effect {
            Effect::Supplies(fact, _) => task
                .routes
                .iter()
                .any(|route| route.needs.iter().any(|need| need.fact == fact)),
            Effect::Suggests(procedure) => task.routes.iter().any(|route| route.procedure == Some(procedure)),
            Effect::Falsifies(..) => false,
        })
    }
}
