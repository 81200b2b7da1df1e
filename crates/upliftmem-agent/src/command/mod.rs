//! Executors that are child processes: requests on stdin, responses on stdout, one JSON object a line.

mod health;
mod process;
mod settings;
mod worker;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    task::JoinHandle,
};
use upliftmem_core::InvalidInput;

pub use self::{health::CommandHealth, settings::CommandSettings};
use self::{
    health::Health,
    worker::{Job, Worker},
};
use crate::{Execution, ExecutionRequest, Executor, ExecutorError, protocol::write_request};

/// Runs tasks in child processes of one program.
///
/// Children start with the first request. [`CommandExecutor::shut_down`] ends them in peace; an executor that is
/// dropped does the same in the background, and a runtime that goes away kills them.
pub struct CommandExecutor {
    settings: Arc<CommandSettings>,
    name: String,
    health: Health,
    /// One permit for each request that the children may have at once.
    places: Arc<Semaphore>,
    crew: Mutex<Crew>,
}

/// The workers, one for each child.
enum Crew {
    Idle,
    Working(Vec<Slot>),
    Gone,
}

struct Slot {
    jobs: mpsc::Sender<Job>,
    load: Arc<AtomicUsize>,
    worker: JoinHandle<()>,
}

/// A request's place with a child, until the child is done with it.
struct Place {
    load: Arc<AtomicUsize>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.load.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CommandExecutor {
    /// Checks the settings. Nothing is started yet.
    pub fn new(settings: CommandSettings) -> Result<Self, InvalidInput> {
        settings.check()?;
        Ok(Self {
            name: settings.name(),
            health: Health::default(),
            places: Arc::new(Semaphore::new(settings.processes * settings.in_flight)),
            crew: Mutex::new(Crew::Idle),
            settings: Arc::new(settings),
        })
    }

    /// What the children did so far.
    pub fn health(&self) -> CommandHealth {
        self.health.snapshot()
    }

    /// Closes the children's input, gives them `grace` to answer and end, then kills what is left of them and of what
    /// they started. Requests that are still open fail.
    pub async fn shut_down(&self) {
        let crew = std::mem::replace(&mut *self.crew(), Crew::Gone);
        if let Crew::Working(slots) = crew {
            let workers: Vec<_> = slots.into_iter().map(|slot| slot.worker).collect();
            for worker in workers {
                worker.await.ok();
            }
        }
    }

    fn crew(&self) -> std::sync::MutexGuard<'_, Crew> {
        self.crew.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The child with the least to do, and a place there. With a permit in hand there is always one.
    fn place(&self, permit: OwnedSemaphorePermit) -> Result<(mpsc::Sender<Job>, Place), ExecutorError> {
        let mut crew = self.crew();
        if matches!(*crew, Crew::Idle) {
            *crew = Crew::Working((0..self.settings.processes).map(|_| self.slot()).collect());
        }
        let Crew::Working(slots) = &*crew else {
            return Err(self.gone());
        };
        let slot = slots
            .iter()
            .min_by_key(|slot| slot.load.load(Ordering::Relaxed))
            .ok_or_else(|| self.gone())?;
        slot.load.fetch_add(1, Ordering::Relaxed);
        let place = Place {
            load: Arc::clone(&slot.load),
            _permit: permit,
        };
        Ok((slot.jobs.clone(), place))
    }

    fn slot(&self) -> Slot {
        let (jobs, receiver) = mpsc::channel(self.settings.in_flight);
        let worker = Worker::new(
            Arc::clone(&self.settings),
            self.name.clone(),
            receiver,
            self.health.clone(),
        );
        Slot {
            jobs,
            load: Arc::default(),
            worker: tokio::spawn(worker.run()),
        }
    }

    fn gone(&self) -> ExecutorError {
        ExecutorError::Unavailable(format!("executor {} was shut down", self.name))
    }
}

#[async_trait]
impl Executor for CommandExecutor {
    fn name(&self) -> &str {
        &self.name
    }

    /// A call that is dropped leaves its request with the child, which is not told; its answer goes nowhere. The
    /// same request asked again meanwhile takes over what is being done.
    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        let mut line = write_request(request)
            .map_err(|error| ExecutorError::Failed(format!("request {}: {error}", request.id)))?;
        line.push(b'\n');
        let permit = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(|_| self.gone())?;
        let (jobs, place) = self.place(permit)?;
        let (reply, answer) = oneshot::channel();
        let job = Job {
            id: request.id,
            line,
            reply,
            place,
        };
        jobs.send(job).await.map_err(|_| self.gone())?;
        drop(jobs);
        answer.await.map_err(|_| self.gone())?
    }
}
