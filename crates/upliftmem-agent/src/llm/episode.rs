//! Acting in a text world, step by step. Paper: the ReAct executor of app. prompt_actors.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::Semaphore;
use upliftmem_core::{Cost, Performance, Task, TrajectoryStep};

use crate::{
    Environment, EnvironmentError, Execution, ExecutionRequest, Executor, ExecutorError, Turn,
    chat::{ChatError, ChatModel, ChatRequest, Sampling, Usage},
    prompts::{ActStyle, InjectedMemories, MemoryBudget, PublicTask, PublicTurn, Scene, TakenStep},
    text::short_hash,
};

/// What the agent sees after an action that is not on the list. The world is not asked.
const NOT_AVAILABLE: &str = "That action is not available.";
/// What it sees after it said nothing that could be done.
const NO_ACTION: &str = "No action was given. Give one action.";

/// Makes an environment for one episode.
pub trait EnvironmentSource: Send + Sync {
    /// A stable name of the world.
    fn name(&self) -> &str;

    /// A world of its own for an episode.
    fn environment(&self) -> Result<Box<dyn Environment>, EnvironmentError>;
}

/// How an agent acts.
#[derive(Debug, Clone, PartialEq)]
pub struct ActSettings {
    /// How it is told about the world.
    pub style: ActStyle,
    /// Most actions of an episode.
    pub steps_max: usize,
    /// Most tokens that an episode may take, read and said; 0 is no limit.
    pub tokens_max: u64,
    /// How actions are drawn; the seed is the execution's.
    pub sampling: Sampling,
    /// How much of the prompt memories may take.
    pub budget: MemoryBudget,
    /// Examples by type of task; those under the empty name are for all others.
    pub examples: BTreeMap<String, String>,
    /// Episodes at once.
    pub concurrency: usize,
}

impl Default for ActSettings {
    fn default() -> Self {
        Self {
            style: ActStyle::Generic,
            steps_max: 30,
            tokens_max: 0,
            sampling: Sampling {
                max_tokens: 64,
                ..Sampling::default()
            },
            budget: MemoryBudget::default(),
            examples: BTreeMap::new(),
            concurrency: 4,
        }
    }
}

/// A language model that acts in a world. The cost of an execution is the number of actions.
pub struct ActExecutor {
    name: String,
    model: Arc<dyn ChatModel>,
    world: Arc<dyn EnvironmentSource>,
    settings: ActSettings,
    places: Semaphore,
}

/// Why an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Steps,
    Tokens,
    Context,
}

impl End {
    const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Steps => "step cap",
            Self::Tokens => "token cap",
            Self::Context => "context full",
        }
    }
}

impl ActExecutor {
    /// An agent in a world.
    pub fn new(model: Arc<dyn ChatModel>, world: Arc<dyn EnvironmentSource>, settings: ActSettings) -> Self {
        Self {
            name: format!("llm:{}@{}", model.name(), world.name()),
            places: Semaphore::new(settings.concurrency.max(1)),
            model,
            world,
            settings,
        }
    }

    fn examples(&self, task: &PublicTask) -> Option<&str> {
        let own = task.kind().and_then(|kind| self.settings.examples.get(kind));
        own.or_else(|| self.settings.examples.get("")).map(String::as_str)
    }

    async fn episode(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        let task = PublicTask::of(&request.task);
        let memories = InjectedMemories::new(&request.memories, self.settings.budget);
        let mut world = World::open(&self.world).await?;
        let mut now = world.reset(request.task.clone()).await?;
        let first = PublicTurn::of(&now);
        let (mut steps, mut trajectory): (Vec<TakenStep>, Vec<TrajectoryStep>) = Default::default();
        let (mut usage, mut refused) = (Usage::default(), 0_u64);
        let end = loop {
            if now.done {
                break End::Done;
            }
            if steps.len() >= self.settings.steps_max {
                break End::Steps;
            }
            let spent = usage.prompt_tokens + usage.completion_tokens;
            if self.settings.tokens_max > 0 && spent >= self.settings.tokens_max {
                break End::Tokens;
            }
            let messages = self.settings.style.messages(Scene {
                task: &task,
                memories: &memories,
                examples: self.examples(&task),
                first: &first,
                steps: &steps,
            });
            let sampling = Sampling {
                seed: request.seed.wrapping_add(steps.len() as u64),
                ..self.settings.sampling.clone()
            };
            let reply = match self.model.chat(&ChatRequest { messages, sampling }).await {
                Ok(reply) => reply,
                // What was done so far counts; the model could not read on.
                Err(ChatError::TooLong(_)) if !steps.is_empty() => break End::Context,
                Err(error) => return Err(error.into()),
            };
            usage += reply.usage;
            let action = self.settings.style.action(&reply.text).unwrap_or_default();
            match admissible(&action, now.actions.as_deref()) {
                Some(admitted) => {
                    now = world.step(admitted.clone()).await?;
                    trajectory.push(TrajectoryStep {
                        action: admitted.clone(),
                        observation: PublicTurn::of(&now).observation().to_owned(),
                    });
                    steps.push(taken(reply.text, admitted, &now));
                }
                None => {
                    refused += 1;
                    let notice = if action.is_empty() {
                        NO_ACTION
                    } else {
                        NOT_AVAILABLE
                    };
                    // The world is as it was: what it showed last still holds, and some prompts show nothing older.
                    let shown = Turn {
                        observation: format!("{notice}\n{}", now.observation),
                        ..now.clone()
                    };
                    trajectory.push(TrajectoryStep {
                        action: action.clone(),
                        observation: notice.to_owned(),
                    });
                    steps.push(taken(reply.text, action, &shown));
                }
            }
        };
        let mut notes = usage.told(self.model.name());
        notes.insert("end".into(), json!(end.name()));
        notes.insert("refused_actions".into(), json!(refused));
        notes.insert("memories_cut".into(), json!(memories.cut()));
        Ok(Execution {
            performance: now.performance,
            cost: Cost::new(steps.len() as f64).map_err(|error| ExecutorError::Failed(error.to_string()))?,
            trajectory,
            diagnostics: notes,
        })
    }
}

fn taken(reply: String, action: String, turn: &Turn) -> TakenStep {
    TakenStep {
        reply,
        action,
        turn: PublicTurn::of(turn),
    }
}

/// The action as the world lists it; any action where it lists none.
fn admissible(action: &str, listed: Option<&[String]>) -> Option<String> {
    if action.is_empty() {
        return None;
    }
    let Some(listed) = listed else {
        return Some(action.to_owned());
    };
    let same = |own: &str, other: &str| {
        own.split_whitespace().map(str::to_lowercase).eq(other
            .trim_end_matches('.')
            .split_whitespace()
            .map(str::to_lowercase))
    };
    let exact = listed.iter().find(|own| same(own, action));
    // Some worlds list a form with a place to fill in, such as `search[...]`.
    exact.cloned().or_else(|| {
        let (verb, rest) = action.split_once('[')?;
        let open = listed.iter().any(|own| {
            own.split_once('[').is_some_and(|(own, inner)| {
                own.eq_ignore_ascii_case(verb) && matches!(inner, "...]" | "keywords]")
            })
        });
        (open && rest.ends_with(']')).then(|| action.to_owned())
    })
}

/// A world whose calls block, kept off the threads that wait.
struct World(Option<Box<dyn Environment>>);

impl World {
    async fn open(source: &Arc<dyn EnvironmentSource>) -> Result<Self, ExecutorError> {
        let source = Arc::clone(source);
        let made = tokio::task::spawn_blocking(move || source.environment()).await;
        made.map_err(|_| ExecutorError::Failed("the environment panicked".into()))?
            .map(|world| Self(Some(world)))
            .map_err(|error| ExecutorError::Unavailable(error.to_string()))
    }

    async fn reset(&mut self, task: Task) -> Result<Turn, ExecutorError> {
        self.call(move |world| world.reset(&task)).await
    }

    async fn step(&mut self, action: String) -> Result<Turn, ExecutorError> {
        self.call(move |world| world.step(&action)).await
    }

    async fn call(
        &mut self,
        act: impl FnOnce(&mut dyn Environment) -> Result<Turn, EnvironmentError> + Send + 'static,
    ) -> Result<Turn, ExecutorError> {
        let Some(mut world) = self.0.take() else {
            return Err(ExecutorError::Failed("the environment is gone".into()));
        };
        let (world, turn) = tokio::task::spawn_blocking(move || {
            let turn = act(world.as_mut());
            (world, turn)
        })
        .await
        .map_err(|_| ExecutorError::Failed("the environment panicked".into()))?;
        self.0 = Some(world);
        turn.map_err(|error| ExecutorError::Failed(error.to_string()))
    }
}

#[async_trait]
impl Executor for ActExecutor {
    fn name(&self) -> &str {
        &self.name
    }

    fn steps_max(&self) -> Option<usize> {
        Some(self.settings.steps_max)
    }

    /// Changes with the prompts too: they are part of what is hashed, filled in for an example.
    fn version(&self) -> String {
        let settings = &self.settings;
        let turn = PublicTurn::of(&Turn {
            observation: "!".into(),
            actions: Some(vec!["!".into()]),
            performance: Performance::FAILURE,
            done: false,
        });
        let step = TakenStep {
            reply: "!".into(),
            action: "!".into(),
            turn: turn.clone(),
        };
        let scene = Scene {
            task: &PublicTask::of(&Task::new("", "?")),
            memories: &InjectedMemories::example(settings.budget),
            examples: Some("!"),
            first: &turn,
            steps: &[step],
        };
        short_hash(&json!([
            settings.style.messages(scene),
            settings.steps_max,
            settings.tokens_max,
            settings.sampling,
            settings.budget,
            settings.examples,
            self.model.version(),
        ]))
    }

    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        let _place = self.places.acquire().await.ok();
        self.episode(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_those_of_the_list() {
        let listed = [
            "go to desk 1".to_owned(),
            "click[Buy Now]".to_owned(),
            "search[...]".to_owned(),
        ];
        let admitted = |action: &str| admissible(action, Some(&listed));
        assert_eq!(admitted("Go to  desk 1.").as_deref(), Some("go to desk 1"));
        assert_eq!(admitted("click[buy now]").as_deref(), Some("click[Buy Now]"));
        assert_eq!(
            admitted("search[red shoes]").as_deref(),
            Some("search[red shoes]")
        );
        assert_eq!(admitted("click[red]"), None);
        assert_eq!(admitted("fly"), None);
        assert_eq!(admitted(""), None);
        assert_eq!(admissible("fly", None).as_deref(), Some("fly"));
    }
}
