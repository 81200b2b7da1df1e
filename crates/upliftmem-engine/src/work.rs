//! A worker: takes executions that are wanted, wherever they wait, and brings their outcomes back.
//!
//! Any number of workers share a store. A ticket is one worker's as long as its heartbeats come; one that is killed or hangs
//! loses it to another, and of two outcomes of one ticket the first counts. A store that is away is waited for: what was
//! executed meanwhile is kept and brought back when it answers.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use serde::Serialize;
use tokio::task::JoinSet;
use upliftmem_agent::{Execution, ExecutionRequest, Executor, ExecutorError, MemoryText};
use upliftmem_core::{Outcome, Rollout, Task, TaskId, UtilityRule};
use upliftmem_store::{
    Actor, Error as StoreError, ExecutionReport, Lease, LeaseRequest, LeasedTicket, Scope, ScopeParts, Store,
    Topic,
};

use crate::{
    clock::StoreClock,
    error::{Error, Result},
    online::Outcomes,
};

/// Scopes that are looked into at once.
const SCOPES_MAX: usize = 64;
/// Tasks that are remembered.
const TASKS_MAX: usize = 1_024;
/// The longest pause between two attempts to reach what is away.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// The name under which it holds tickets; no other process may have it.
    pub name: String,
    /// Executions at once.
    pub concurrency: usize,
    /// How long a ticket is kept without a heartbeat.
    pub lease: Duration,
    /// How often it looks for tickets when it hears of none.
    pub look_after: Duration,
    /// How long executions get to finish when it is told to stop.
    pub patience: Duration,
    /// Only scopes with these parts; without any, all.
    pub tenant: ScopeParts,
}

/// What a worker did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WorkReport {
    /// Outcomes that were taken.
    pub executed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Outcomes that came after someone else's.
    pub late: u64,
}

/// Executes what is wanted.
pub struct Worker {
    /// Where tickets are.
    pub store: Arc<dyn Store>,
    /// What executes; only tickets of its name are taken.
    pub executor: Arc<dyn Executor>,
    /// What an execution is worth: one that can not be valued has failed.
    pub utility: UtilityRule,
    /// How it works.
    pub settings: WorkerSettings,
}

/// One execution that ended, with the right to report it.
struct Ended {
    scope: Scope,
    ticket: LeasedTicket,
    end: Result<Execution, ExecutorError>,
}

/// Everything that changes while it works.
struct Shift {
    clock: StoreClock,
    running: JoinSet<Ended>,
    ended: Vec<Ended>,
    /// Scopes in which it may hold something.
    scopes: BTreeSet<Scope>,
    /// Tasks that were read a while ago: they never change.
    tasks: HashMap<(Scope, TaskId), Task>,
    report: WorkReport,
    /// The executor can not go on for now.
    executor_away: Option<String>,
}

impl Worker {
    /// Works until told to stop; then lets executions finish, and gives back those that do not in time.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<WorkReport> {
        let mut stop = std::pin::pin!(stop);
        let mut watch = self.store.watch();
        let mut shift = Shift {
            clock: StoreClock::default(),
            running: JoinSet::new(),
            ended: Vec::new(),
            scopes: BTreeSet::new(),
            tasks: HashMap::new(),
            report: WorkReport::default(),
            executor_away: None,
        };
        let mut pause = Pause::default();
        while !stopped(&mut stop) {
            let taken = match self.round(&mut shift).await {
                Ok(taken) => {
                    pause = Pause::default();
                    taken
                }
                Err(error) => {
                    let Some(wait) = pause.after(&error) else {
                        return Err(error);
                    };
                    tracing::warn!(%error, milliseconds = wait.as_millis() as u64, "waiting, then trying again");
                    tokio::select! {
                        () = tokio::time::sleep(wait) => continue,
                        () = &mut stop => break,
                    }
                }
            };
            let full = shift.running.len() >= self.settings.concurrency.max(1);
            if taken && !full {
                continue;
            }
            tokio::select! {
                Some(done) = shift.running.join_next() => shift.take_ended(done)?,
                _ = watch.heard(Topic::Tickets, self.settings.look_after), if !full => {}
                () = &mut stop => break,
            }
        }
        self.drain(shift).await
    }

    /// Brings back what ended and takes what waits; says whether it took anything.
    async fn round(&self, shift: &mut Shift) -> Result<bool> {
        shift.clock.look(self.store.as_ref()).await?;
        self.bring_back(shift).await?;
        if let Some(problem) = shift.executor_away.clone() {
            if !shift.running.is_empty() {
                return Ok(false);
            }
            // What it could not even try does not count as tried.
            self.give_back(shift).await?;
            shift.executor_away = None;
            return Err(Error::Executor {
                executor: self.executor.name().to_owned(),
                problem,
            });
        }
        let mut free = self
            .settings
            .concurrency
            .max(1)
            .saturating_sub(shift.running.len());
        if free == 0 {
            return Ok(false);
        }
        let now = shift.clock.now();
        let scopes = self
            .store
            .scopes_with_tickets(&self.settings.tenant, now, SCOPES_MAX)
            .await?;
        let mut taken = false;
        for scope in scopes {
            let request = LeaseRequest {
                worker: self.settings.name.clone(),
                tickets: free.min(self.store.limits().lease_tickets_max),
                duration: self.settings.lease,
                purpose: None,
            };
            let leased = self
                .store
                .lease_of(&scope, shift.clock.now(), request, self.executor.name())
                .await?;
            for ticket in leased {
                taken = true;
                free -= 1;
                self.start(shift, scope.clone(), ticket).await?;
            }
            if free == 0 {
                break;
            }
        }
        Ok(taken)
    }

    /// Starts an execution with heartbeats for as long as it takes.
    async fn start(&self, shift: &mut Shift, scope: Scope, ticket: LeasedTicket) -> Result<()> {
        shift.scopes.insert(scope.clone());
        // A store that is away now gets the ticket back when the lease is over.
        let request = self.request(shift, &scope, &ticket.rollout).await?;
        let executor = Arc::clone(&self.executor);
        let alive = keep_alive(
            Arc::clone(&self.store),
            scope.clone(),
            ticket.lease,
            self.settings.lease,
            shift.clock,
        );
        shift.running.spawn(async move {
            let end = match request {
                Err(missing) => Err(ExecutorError::Failed(missing)),
                Ok(request) => tokio::select! {
                    end = executor.execute(&request) => end,
                    never = alive => match never {},
                },
            };
            Ended { scope, ticket, end }
        });
        Ok(())
    }

    /// What the executor is told, or what is missing for it.
    async fn request(
        &self,
        shift: &mut Shift,
        scope: &Scope,
        rollout: &Rollout,
    ) -> Result<Result<ExecutionRequest, String>> {
        let Some(task) = self.task(shift, scope, rollout.task).await? else {
            return Ok(Err(format!("task {} is not in the store", rollout.task)));
        };
        let members = match rollout.set.members() {
            [] => Vec::new(),
            members => self.store.memories(scope, members).await?,
        };
        if members.len() != rollout.set.len() {
            let gone = rollout.set.len() - members.len();
            return Ok(Err(format!("{gone} of the memories of its set are gone")));
        }
        let memories = members.into_iter().map(|found| MemoryText {
            id: found.memory.id,
            text: found.memory.text,
        });
        Ok(Ok(ExecutionRequest {
            id: rollout.id,
            task,
            memories: memories.collect(),
            seed: rollout.seed,
            purpose: rollout.purpose,
        }))
    }

    async fn task(&self, shift: &mut Shift, scope: &Scope, id: TaskId) -> Result<Option<Task>> {
        let key = (scope.clone(), id);
        if let Some(task) = shift.tasks.get(&key) {
            return Ok(Some(task.clone()));
        }
        let task = self.store.task(scope, id).await?;
        if let Some(task) = &task {
            if shift.tasks.len() >= TASKS_MAX {
                shift.tasks.clear();
            }
            shift.tasks.insert(key, task.clone());
        }
        Ok(task)
    }

    /// Makes ended executions durable, those of one scope in one transaction. What could not be written stays.
    async fn bring_back(&self, shift: &mut Shift) -> Result<()> {
        while let Some(first) = shift.ended.first() {
            let scope = first.scope.clone();
            let mut done = Vec::new();
            let mut settled: Vec<(Lease, Rollout, Outcome)> = Vec::new();
            let mut failed: Vec<(Lease, String)> = Vec::new();
            for ended in shift.ended.iter().filter(|ended| ended.scope == scope) {
                let lease = ended.ticket.lease;
                match self.judged(ended) {
                    Judged::Done(report) => {
                        settled.push((lease, ended.ticket.rollout.clone(), report.outcome));
                        done.push((lease, *report));
                    }
                    Judged::Failed(reason) => failed.push((lease, reason)),
                    Judged::Untried(problem) => shift.executor_away = Some(problem),
                }
            }
            let mut report = shift.report;
            let answers = self.store.complete_many(&scope, shift.clock.now(), done).await?;
            let mut learnt = Vec::new();
            for (answer, (lease, rollout, outcome)) in answers.into_iter().zip(settled) {
                match answer {
                    Ok(_) => {
                        report.executed += 1;
                        learnt.push((rollout, outcome));
                    }
                    Err(error) => {
                        report.late += 1;
                        tracing::info!(rollout = %lease.rollout, %error, "an outcome was not taken");
                    }
                }
            }
            for (lease, reason) in &failed {
                match self.store.fail(&scope, *lease, reason).await {
                    Ok(_) => report.failed += 1,
                    Err(error) if error.actor() == Actor::Caller => report.late += 1,
                    Err(error) => return Err(error.into()),
                }
            }
            self.learn(&scope, learnt).await?;
            shift.report = report;
            shift.ended.retain(|ended| ended.scope != scope);
        }
        Ok(())
    }

    fn judged(&self, ended: &Ended) -> Judged {
        let execution = match &ended.end {
            Ok(execution) => execution,
            Err(ExecutorError::Failed(reason)) => return Judged::Failed(reason.clone()),
            Err(ExecutorError::Unavailable(problem)) => return Judged::Untried(problem.clone()),
        };
        let outcome = Outcome {
            rollout: ended.ticket.rollout.id,
            performance: execution.performance,
            cost: execution.cost,
        };
        match self.utility.utility(outcome.performance, outcome.cost) {
            Err(error) => Judged::Failed(error.to_string()),
            Ok(_) => Judged::Done(Box::new(ExecutionReport {
                outcome,
                trajectory: execution.trajectory.clone(),
                diagnostics: execution.diagnostics.clone(),
            })),
        }
    }

    /// Learns from what a server asked for. A training run learns from its own executions by itself.
    async fn learn(&self, scope: &Scope, done: Vec<(Rollout, Outcome)>) -> Result<()> {
        let outcomes = Outcomes {
            store: Arc::clone(&self.store),
            scope: scope.clone(),
            utility: self.utility,
            agent: self.executor.name().to_owned(),
            references: crate::online::ReferencePolicy::Request,
            attempts_max: 1,
        };
        outcomes.learn_asked_for(done).await
    }

    /// Takes back everything that this worker holds, as if it had never been handed out.
    async fn give_back(&self, shift: &Shift) -> Result<u64> {
        let mut count = 0;
        for scope in &shift.scopes {
            count += self.store.take_back(scope, &self.settings.name).await?;
        }
        Ok(count)
    }

    /// Lets executions finish, brings them back, gives back the rest.
    async fn drain(&self, mut shift: Shift) -> Result<WorkReport> {
        let deadline = tokio::time::Instant::now() + self.settings.patience;
        let mut pause = Pause::default();
        loop {
            while let Ok(Some(done)) = tokio::time::timeout_at(deadline, shift.running.join_next()).await {
                shift.take_ended(done)?;
            }
            shift.running.abort_all();
            let end = async {
                self.bring_back(&mut shift).await?;
                self.give_back(&shift).await
            };
            match end.await {
                Ok(given_back) => {
                    tracing::info!(given_back, "drained");
                    return Ok(shift.report);
                }
                Err(error) => {
                    let Some(wait) = pause.after(&error) else {
                        return Err(error);
                    };
                    if tokio::time::Instant::now() + wait > deadline {
                        return Err(error);
                    }
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}

/// What an execution amounts to.
enum Judged {
    Done(Box<ExecutionReport>),
    Failed(String),
    /// The executor could not try.
    Untried(String),
}

impl Shift {
    fn take_ended(&mut self, first: Result<Ended, tokio::task::JoinError>) -> Result<()> {
        let stopped = |error| Error::Internal(format!("an execution stopped: {error}"));
        self.ended.push(first.map_err(stopped)?);
        while let Some(next) = self.running.try_join_next() {
            self.ended.push(next.map_err(stopped)?);
        }
        Ok(())
    }
}

/// Says again and again that an execution is under way.
async fn keep_alive(
    store: Arc<dyn Store>,
    scope: Scope,
    lease: Lease,
    duration: Duration,
    clock: StoreClock,
) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(duration / 3).await;
        // If it fails, the lease runs out, and whoever gets the ticket next is told apart from this one.
        if let Err(error) = store.heartbeat(&scope, clock.now(), lease, duration).await {
            tracing::debug!(rollout = %lease.rollout, %error, "a heartbeat was not taken");
        }
    }
}

/// Whether a future is done, without waiting for it.
fn stopped(stop: &mut std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    stop.as_mut().poll(&mut context).is_ready()
}

/// Pauses that grow while something is away.
#[derive(Debug, Default)]
pub struct Pause(u32);

impl Pause {
    /// How long to wait after this error before the next attempt; nothing if time does not mend it.
    pub fn after(&mut self, error: &Error) -> Option<Duration> {
        let mends = match error {
            Error::Store(error) => matches!(error, StoreError::Busy(_) | StoreError::Unavailable(_)),
            Error::Executor { .. } => true,
            _ => false,
        };
        let wait = Duration::from_millis(100) * 2_u32.saturating_pow(self.0.min(10));
        self.0 += 1;
        mends.then(|| wait.min(PAUSE_MAX))
    }
}
