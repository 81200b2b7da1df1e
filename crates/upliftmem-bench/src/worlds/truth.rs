//! How the worlds' agent really works: what decides whether an execution succeeds.
//!
//! A task has routes to its goal; a route needs facts. The agent knows some facts, memories supply or falsify
//! others, and a memory may suggest a route for which the rest is missing. Whatever is read costs attention. Nothing
//! here adds up: facts combine as a noisy OR, needs as AND, routes as OR, and attention multiplies.

use rand::{Rng, RngExt};
use upliftmem_core::{Cost, InvalidInput, Performance, Result, UtilityRule};

/// Something that must be got right.
pub(super) type FactId = u32;
/// A way of doing things that a memory can suggest.
pub(super) type ProcedureId = u32;

/// The most steps an execution may take.
pub(super) const STEPS_MAX: f64 = 30.0;

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
    fn performance(self, met: usize, needs: usize) -> f64 {
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

/// What is the same for all tasks of a world.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Habits {
    /// Tokens at which what a memory says gets through half as often.
    pub(super) half_tokens: f64,
    /// How much of a falsehood is left when another memory says the truth.
    pub(super) doubt: f64,
    /// How often the agent goes the way that a memory suggests.
    pub(super) trust: f64,
    /// How often wavering between two suggestions ends in failure.
    pub(super) clash: f64,
    /// Chance that reading a memory that can help costs the task.
    pub(super) reading: f64,
    /// Chance that reading one that can not does.
    pub(super) distraction: f64,
}

/// One way an execution may end.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ending {
    probability: f64,
    performance: f64,
    steps: f64,
}

/// What the memories in the context amount to, for one task.
struct Context<'a> {
    memories: &'a [&'a MemoryTruth],
    attention: f64,
    focus: f64,
    detours: f64,
}

impl Habits {
    /// The expected utility, exactly.
    pub(super) fn expected_utility(
        &self,
        rule: &UtilityRule,
        task: &TaskTruth,
        memories: &[&MemoryTruth],
    ) -> Result<f64> {
        let mut expected = 0.0;
        for ending in self.endings(task, memories) {
            // The wobble of the steps is symmetric and utility is linear in them, so the middle stands for all.
            let utility = rule.utility(Performance::new(ending.performance)?, Cost::new(ending.steps)?)?;
            expected += ending.probability * utility.get();
        }
        Ok(expected)
    }

    /// One execution.
    pub(super) fn execute(
        &self,
        task: &TaskTruth,
        memories: &[&MemoryTruth],
        rng: &mut impl Rng,
    ) -> Result<(Performance, Cost)> {
        let endings = self.endings(task, memories);
        let mut left: f64 = rng.random();
        let wobble = f64::from(rng.random_range(-1..=1_i8));
        let ending = endings
            .iter()
            .find(|ending| {
                left -= ending.probability;
                left < 0.0
            })
            .or(endings.last())
            .ok_or_else(|| InvalidInput::new("task", "it has no route to its goal"))?;
        let steps = if ending.steps < STEPS_MAX {
            ending.steps + wobble
        } else {
            STEPS_MAX
        };
        Ok((Performance::new(ending.performance)?, Cost::new(steps)?))
    }

    /// Every way an execution may end; the probabilities add up to one.
    fn endings(&self, task: &TaskTruth, memories: &[&MemoryTruth]) -> Vec<Ending> {
        let context = self.context(task, memories);
        let mut endings = match task.strategy {
            Strategy::Commit => self.commit(task, &context),
            Strategy::TryEach => self.try_each(task, &context),
        };
        for ending in &mut endings {
            ending.probability *= context.focus;
            if ending.performance == 0.0 {
                ending.steps = STEPS_MAX;
            }
        }
        endings.push(Ending {
            probability: 1.0 - context.focus,
            performance: 0.0,
            steps: STEPS_MAX,
        });
        endings
    }

    fn context<'a>(&self, task: &TaskTruth, memories: &'a [&'a MemoryTruth]) -> Context<'a> {
        let tokens: f64 = memories.iter().map(|memory| memory.tokens).sum();
        let (mut focus, mut detours) = (task.luck, 0.0);
        for memory in memories {
            if memory.can_help(task) {
                focus *= 1.0 - self.reading;
            } else {
                focus *= 1.0 - self.distraction;
                detours += 0.5;
            }
        }
        Context {
            memories,
            attention: 1.0 / (1.0 + (tokens / self.half_tokens).powi(2)),
            focus,
            detours,
        }
    }

    /// Goes the ordinary way, or one that is suggested if it trusts that, or wavers between several.
    fn commit(&self, task: &TaskTruth, context: &Context<'_>) -> Vec<Ending> {
        let suggested: Vec<&Route> = task
            .routes
            .iter()
            .filter(|route| {
                route.procedure.is_some_and(|procedure| {
                    context
                        .memories
                        .iter()
                        .any(|memory| memory.effects.contains(&Effect::Suggests(procedure)))
                })
            })
            .collect();
        let wavering = if suggested.len() > 1 {
            self.trust * self.clash
        } else {
            0.0
        };
        let following = if suggested.is_empty() {
            0.0
        } else {
            self.trust - wavering
        };
        let ordinary = task.routes.first().into_iter();
        let ways = ordinary.map(|route| (1.0 - following - wavering, route)).chain(
            suggested
                .iter()
                .map(|&route| (following / suggested.len() as f64, route)),
        );
        let mut endings: Vec<Ending> = ways
            .flat_map(|(share, route)| {
                self.walk(task, route, context, 0.0)
                    .into_iter()
                    .map(move |ending| Ending {
                        probability: share * ending.probability,
                        ..ending
                    })
            })
            .collect();
        endings.push(Ending {
            probability: wavering,
            performance: 0.0,
            steps: STEPS_MAX,
        });
        endings
    }

    /// Tries the routes in order; each failure costs half the task's steps again.
    fn try_each(&self, task: &TaskTruth, context: &Context<'_>) -> Vec<Ending> {
        let mut endings = Vec::new();
        let mut arriving = 1.0;
        for (number, route) in task.routes.iter().enumerate() {
            let late = 0.5 * task.steps * number as f64;
            let mut failing = 0.0;
            for ending in self.walk(task, route, context, late) {
                if ending.performance >= 1.0 {
                    endings.push(Ending {
                        probability: arriving * ending.probability,
                        ..ending
                    });
                } else {
                    failing += ending.probability;
                }
            }
            arriving *= failing;
        }
        endings.push(Ending {
            probability: arriving,
            performance: 0.0,
            steps: STEPS_MAX,
        });
        endings
    }

    /// How one route ends, by how many of its needs are met.
    fn walk(&self, task: &TaskTruth, route: &Route, context: &Context<'_>, late: f64) -> Vec<Ending> {
        let mut met_probability = vec![1.0];
        let mut saved = 0.0;
        for need in &route.needs {
            let probability = self.met(need, context);
            // What is told need not be found out.
            saved += (probability - need.own).max(0.0);
            // One more need: the number met stays or rises by one.
            met_probability.push(0.0);
            for met in (0..met_probability.len()).rev() {
                let from_below = if met > 0 { met_probability[met - 1] } else { 0.0 };
                met_probability[met] = met_probability[met] * (1.0 - probability) + from_below * probability;
            }
        }
        let steps = (task.steps + late + context.detours - saved).clamp(2.0, STEPS_MAX - 1.0);
        met_probability
            .iter()
            .enumerate()
            .map(|(met, &probability)| Ending {
                probability,
                performance: task.grading.performance(met, route.needs.len()),
                steps,
            })
            .collect()
    }

    /// How probably a need is met.
    fn met(&self, need: &Need, context: &Context<'_>) -> f64 {
        let (mut unknown, mut supplied) = (1.0 - need.own, false);
        for effect in context.memories.iter().flat_map(|memory| &memory.effects) {
            if let &Effect::Supplies(fact, strength) = effect
                && fact == need.fact
            {
                unknown *= 1.0 - context.attention * strength;
                supplied = true;
            }
        }
        let remaining = if supplied { self.doubt } else { 1.0 };
        let mut right = 1.0 - unknown;
        for effect in context.memories.iter().flat_map(|memory| &memory.effects) {
            if let &Effect::Falsifies(fact, strength) = effect
                && fact == need.fact
            {
                right *= 1.0 - remaining * strength;
            }
        }
        right
    }
}
