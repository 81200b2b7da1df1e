//! Who executes a suite's tasks, and where: a scripted agent or a language model, in the native environment or in a program that
//! stands in for it.

use std::{
    collections::BTreeMap,
    fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use upliftmem_agent::{
    ActExecutor, ActSettings, AttachedSettings, AttachedWorlds, Environment, EnvironmentError,
    EnvironmentSource, Execution, ExecutionRequest, Executor, ExecutorError, Turn,
    chat::{ChatModel, Sampling},
    prompts::ActStyle,
};
use upliftmem_core::{Cost, Task, TrajectoryStep};

use crate::questions::RememberingExecutor;

/// A language model that executes tasks.
#[derive(Clone)]
pub struct ModelAgent {
    /// The model.
    pub model: Arc<dyn ChatModel>,
    /// How it speaks; the seed is the execution's.
    pub sampling: Sampling,
    /// Executions at once.
    pub concurrency: usize,
    /// A folder that keeps every execution, so that none is done twice; none keeps nothing.
    pub kept: Option<PathBuf>,
}

impl ModelAgent {
    /// What decides its executions, besides its name.
    pub(super) fn settings(&self) -> Value {
        json!({
            "model": self.model.name(),
            "temperature": self.sampling.temperature,
            "top_p": self.sampling.top_p,
            "max_tokens": self.sampling.max_tokens,
        })
    }

    /// The executor, remembering what it did. A model that always takes the likeliest token does not depend on the seed.
    pub(super) fn keeping(&self, executor: Arc<dyn Executor>) -> io::Result<Arc<dyn Executor>> {
        let Some(folder) = &self.kept else {
            return Ok(executor);
        };
        fs::create_dir_all(folder)?;
        let hash = Sha256::digest(format!("{} {}", executor.name(), self.settings()));
        let hash: String = hash[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let remembering =
            RememberingExecutor::in_file(executor, &folder.join(format!("answers-{hash}.jsonl")))?;
        Ok(Arc::new(if self.sampling.temperature > 0.0 {
            remembering.by_seed()
        } else {
            remembering
        }))
    }
}

/// Who acts, and where.
#[derive(Clone, Default)]
pub struct Acting {
    /// The model that acts; without one, the scripted agent.
    pub model: Option<ModelAgent>,
    /// The program that is the environment; without one, the native environment.
    pub attached: Option<AttachedSettings>,
}

/// An agent that needs no model: it acts on what an agent sees, and on the memories it was made with.
pub(super) trait ScriptedAgent: Send {
    /// The next action; none if it gives up.
    fn act(&mut self, turn: &Turn) -> Option<String>;
}

/// What a suite says about acting in its environment.
#[derive(Clone, Copy)]
pub(super) struct Role {
    /// How a model is told about it.
    pub(super) style: ActStyle,
    /// The scripted agent's name in records.
    pub(super) scripted_name: &'static str,
    /// The scripted agent's name in tables.
    pub(super) scripted_title: &'static str,
    /// Makes a scripted agent of memories and a seed; the task stays on this side.
    pub(super) scripted: fn(&ExecutionRequest) -> Box<dyn ScriptedAgent>,
    /// Most actions.
    pub(super) actions_max: usize,
    /// Whether giving up is no way to save actions: an episode that is not won has cost all of them.
    pub(super) failure_costs_all: bool,
}

/// Who executes a suite's tasks.
pub struct Actor {
    /// What runs tasks.
    pub executor: Arc<dyn Executor>,
    /// What it is called in tables.
    pub title: String,
    /// What decides executions besides the executor's name; null where nothing does.
    pub settings: Value,
}

impl Actor {
    /// The scripted agent in the native environment.
    pub(super) fn scripted(role: Role, native: impl Environment + Clone + Sync + 'static) -> Self {
        Self {
            executor: Arc::new(ScriptedExecutor {
                name: role.scripted_name.to_owned(),
                world: Arc::new(Native(native)),
                places: None,
                role,
            }),
            title: role.scripted_title.to_owned(),
            settings: Value::Null,
        }
    }

    /// Whoever is to act, wherever; a model is shown the examples of the task's kind.
    pub(super) fn new(
        role: Role,
        native: impl Environment + Clone + Sync + 'static,
        acting: Acting,
        examples: BTreeMap<String, String>,
    ) -> io::Result<Self> {
        let at_once = match &acting.model {
            Some(agent) => agent.concurrency.max(1),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let attached = acting.attached.map(|settings| {
            let world = AttachedWorlds::from(settings);
            (format!("@{}", world.name()), Reused::of(Arc::new(world)))
        });
        let (place, world): (String, Arc<dyn EnvironmentSource>) = match attached {
            Some((place, world)) => (place, Arc::new(world)),
            None if acting.model.is_none() => return Ok(Self::scripted(role, native)),
            None => (String::new(), Arc::new(Native(native))),
        };
        let Some(agent) = acting.model else {
            return Ok(Self {
                executor: Arc::new(ScriptedExecutor {
                    name: format!("{}{place}", role.scripted_name),
                    world,
                    places: Some(Semaphore::new(at_once)),
                    role,
                }),
                title: format!("{}{place}", role.scripted_title),
                settings: Value::Null,
            });
        };
        let settings = ActSettings {
            style: role.style,
            examples,
            steps_max: role.actions_max,
            sampling: agent.sampling.clone(),
            concurrency: at_once,
            ..ActSettings::default()
        };
        let executor = ActExecutor::new(Arc::clone(&agent.model), world, settings);
        Ok(Self {
            executor: agent.keeping(Arc::new(executor))?,
            title: format!("language model {}{place}", agent.model.name()),
            settings: agent.settings(),
        })
    }
}

/// A world in this process: every episode has a copy of it.
struct Native<E>(E);

impl<E: Environment + Clone + Sync + 'static> EnvironmentSource for Native<E> {
    fn name(&self) -> &str {
        "native"
    }

    fn environment(&self) -> Result<Box<dyn Environment>, EnvironmentError> {
        Ok(Box::new(self.0.clone()))
    }
}

type Idle = Arc<Mutex<Vec<Box<dyn Environment>>>>;

/// Worlds that take a while to start: one whose episode is over plays the next.
struct Reused {
    inner: Arc<dyn EnvironmentSource>,
    idle: Idle,
}

impl Reused {
    fn of(inner: Arc<dyn EnvironmentSource>) -> Self {
        Self {
            inner,
            idle: Idle::default(),
        }
    }
}

impl EnvironmentSource for Reused {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn environment(&self) -> Result<Box<dyn Environment>, EnvironmentError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let world = match idle {
            Some(world) => world,
            None => self.inner.environment()?,
        };
        Ok(Box::new(Lent {
            world: Some(world),
            idle: Arc::clone(&self.idle),
        }))
    }
}

/// A world that goes back when its episode is over, unless it broke.
struct Lent {
    world: Option<Box<dyn Environment>>,
    idle: Idle,
}

impl Lent {
    fn ask(
        &mut self,
        ask: impl FnOnce(&mut dyn Environment) -> Result<Turn, EnvironmentError>,
    ) -> Result<Turn, EnvironmentError> {
        let world = self.world.as_mut().ok_or(EnvironmentError::NotRunning)?;
        let turn = ask(world.as_mut());
        if turn.is_err() {
            self.world = None;
        }
        turn
    }
}

impl Environment for Lent {
    fn reset(&mut self, task: &Task) -> Result<Turn, EnvironmentError> {
        self.ask(|world| world.reset(task))
    }

    fn step(&mut self, action: &str) -> Result<Turn, EnvironmentError> {
        self.ask(|world| world.step(action))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(world) = self.world.take() {
            self.idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(world);
        }
    }
}

/// Acts with a scripted agent. What it answers depends on the task, the texts of the memories in their order, and the seed.
struct ScriptedExecutor {
    name: String,
    world: Arc<dyn EnvironmentSource>,
    /// Episodes at once, where a world has to be waited for.
    places: Option<Semaphore>,
    role: Role,
}

#[async_trait]
impl Executor for ScriptedExecutor {
    fn name(&self) -> &str {
        &self.name
    }

    fn steps_max(&self) -> Option<usize> {
        Some(self.role.actions_max)
    }

    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        let agent = (self.role.scripted)(request);
        let Some(places) = &self.places else {
            return episode(self.world.as_ref(), self.role, &request.task, agent);
        };
        let _place = places.acquire().await.ok();
        let (world, role, task) = (Arc::clone(&self.world), self.role, request.task.clone());
        let work = tokio::task::spawn_blocking(move || episode(world.as_ref(), role, &task, agent));
        work.await
            .map_err(|error| ExecutorError::Failed(format!("an episode stopped: {error}")))?
    }
}

/// One episode: until it is over, the agent gives up, or its actions are used up.
fn episode(
    world: &dyn EnvironmentSource,
    role: Role,
    task: &Task,
    mut agent: Box<dyn ScriptedAgent>,
) -> Result<Execution, ExecutorError> {
    let failed = |error: EnvironmentError| ExecutorError::Failed(error.to_string());
    let mut world = world
        .environment()
        .map_err(|error| ExecutorError::Unavailable(error.to_string()))?;
    let mut turn = world.reset(task).map_err(failed)?;
    let mut trajectory = Vec::with_capacity(role.actions_max);
    while !turn.done && trajectory.len() < role.actions_max {
        let Some(action) = agent.act(&turn) else {
            break;
        };
        turn = world.step(&action).map_err(failed)?;
        trajectory.push(TrajectoryStep {
            action,
            observation: turn.observation.clone(),
        });
    }
    let actions = if role.failure_costs_all && turn.performance.get() < 1.0 {
        role.actions_max
    } else {
        trajectory.len()
    };
    Ok(Execution {
        performance: turn.performance,
        cost: Cost::new(actions as f64).map_err(|error| ExecutorError::Failed(error.to_string()))?,
        trajectory,
        diagnostics: Map::new(),
    })
}
