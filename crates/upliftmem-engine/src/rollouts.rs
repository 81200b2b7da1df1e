//! Executions: asked for as tickets, run by workers of this process or of others, durable before they are used.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use tokio::task::JoinSet;
use upliftmem_agent::{Execution, ExecutionRequest, Executor, ExecutorError, MemoryText};
use upliftmem_core::{Outcome, Rollout, RolloutId, Task, TaskId, Utility, UtilityRule};
use upliftmem_store::{
    AfterFailure, Error as StoreError, ExecutionReport, Lease, LeaseRequest, LeasedTicket, NewTicket, Scope,
    Store, TicketState, Timestamp, Topic,
};

use crate::{
    clock::StoreClock,
    error::{Error, Result},
    settings::ExecutionSettings,
    texts::Texts,
};

/// How long to wait for word that others have finished something, before looking anyway.
const POLL: Duration = Duration::from_millis(500);

/// How an execution that was wanted ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// With an outcome.
    Done(Outcome),
    /// Every attempt failed, the last one for this reason. It is never a label.
    Failed(String),
}

/// Called whenever executions have ended, with how many.
pub type OnSettled<'a> = &'a (dyn Fn(usize) + Send + Sync);

/// Gets executions done.
pub struct Rollouts {
    /// Where tickets are.
    pub store: Arc<dyn Store>,
    /// Whose.
    pub scope: Scope,
    /// Where memory texts come from.
    pub texts: Arc<Texts>,
    /// What executes.
    pub executor: Arc<dyn Executor>,
    /// How many at once, and how often again.
    pub settings: ExecutionSettings,
    /// What an execution is worth.
    pub utility: UtilityRule,
}

/// One execution that ended, with the right to report it.
type Ended = (LeasedTicket, Result<Execution, ExecutorError>);

impl Rollouts {
    /// The name under which this process holds tickets.
    fn worker(&self) -> String {
        format!("train:{}", self.executor.name())
    }

    /// What an outcome is worth.
    pub fn worth(&self, outcome: &Outcome) -> Result<Utility> {
        Ok(self.utility.utility(outcome.performance, outcome.cost)?)
    }

    /// Takes back what a process of this name held when it was killed.
    pub async fn take_back(&self) -> Result<u64> {
        Ok(self.store.take_back(&self.scope, &self.worker()).await?)
    }

    /// Gets all of these done, and says how each ended. What was done before is not done again.
    pub async fn settle(
        &self,
        wanted: &[Rollout],
        tasks: &BTreeMap<TaskId, Task>,
        on_settled: OnSettled<'_>,
    ) -> Result<BTreeMap<RolloutId, Settled>> {
        let mut settled = self.already(wanted).await?;
        on_settled(settled.len());
        let tickets: Vec<NewTicket> = wanted
            .iter()
            .filter(|rollout| !settled.contains_key(&rollout.id))
            .map(|rollout| NewTicket {
                rollout: rollout.clone(),
                attempts_max: self.settings.retries + 1,
            })
            .collect();
        if tickets.is_empty() {
            return Ok(settled);
        }
        let mut open: BTreeSet<RolloutId> = tickets.iter().map(|ticket| ticket.rollout.id).collect();
        for tickets in tickets.chunks(self.store.limits().batch_items_max) {
            self.store
                .enqueue(&self.scope, Timestamp::now(), tickets.to_vec())
                .await?;
        }
        let mut running: JoinSet<Ended> = JoinSet::new();
        let mut watch = self.store.watch();
        let mut clock = StoreClock::default();
        while !open.is_empty() {
            clock.look(self.store.as_ref()).await?;
            self.start_more(&mut running, tasks, clock).await?;
            let ended = match running.join_next().await {
                Some(first) => {
                    let mut ended = vec![joined(first)?];
                    while let Some(next) = running.try_join_next() {
                        ended.push(joined(next)?);
                    }
                    ended
                }
                // Others hold what is still wanted.
                None => {
                    watch.heard(Topic::Reports, POLL).await;
                    let elsewhere = self.elsewhere(&open).await?;
                    on_settled(elsewhere.len());
                    for (id, end) in elsewhere {
                        open.remove(&id);
                        settled.insert(id, end);
                    }
                    continue;
                }
            };
            for (id, end) in self.report(ended, clock).await? {
                if open.remove(&id) {
                    settled.insert(id, end);
                    on_settled(1);
                }
            }
        }
        Ok(settled)
    }

    /// Those that ended earlier.
    async fn already(&self, wanted: &[Rollout]) -> Result<BTreeMap<RolloutId, Settled>> {
        let ids = wanted.iter().map(|rollout| rollout.id).collect();
        self.elsewhere(&ids).await
    }

    /// Those of these that have ended, whoever ran them.
    async fn elsewhere(&self, open: &BTreeSet<RolloutId>) -> Result<BTreeMap<RolloutId, Settled>> {
        let mut found = BTreeMap::new();
        let open: Vec<RolloutId> = open.iter().copied().collect();
        for some in open.chunks(self.store.limits().page_rows_max) {
            for (ticket, outcome) in self.store.settled(&self.scope, some).await? {
                let id = ticket.rollout.id;
                match (ticket.state, outcome) {
                    (TicketState::Completed, Some(outcome)) => {
                        found.insert(id, Settled::Done(outcome));
                    }
                    (TicketState::Failed, _) => {
                        let reason = ticket.last_error.unwrap_or_else(|| "no attempt came back".into());
                        found.insert(id, Settled::Failed(reason));
                    }
                    (TicketState::Completed | TicketState::Waiting | TicketState::Leased, _) => {}
                }
            }
        }
        Ok(found)
    }

    /// Takes as many tickets as may run at once.
    async fn start_more(
        &self,
        running: &mut JoinSet<Ended>,
        tasks: &BTreeMap<TaskId, Task>,
        clock: StoreClock,
    ) -> Result<()> {
        let free = self.settings.concurrency.saturating_sub(running.len());
        if free == 0 {
            return Ok(());
        }
        let request = LeaseRequest {
            worker: self.worker(),
            tickets: free,
            duration: Duration::from_secs(self.settings.lease_seconds),
            purpose: None,
        };
        let leased = self
            .store
            .lease_of(&self.scope, clock.now(), request, self.executor.name())
            .await?;
        for ticket in leased {
            let request = self.request(&ticket.rollout, tasks).await?;
            let executor = Arc::clone(&self.executor);
            let alive = self.keep_alive(ticket.lease, clock);
            running.spawn(async move {
                let end = match request {
                    Ok(request) => tokio::select! {
                        end = executor.execute(&request) => end,
                        never = alive => match never {},
                    },
                    Err(missing) => Err(ExecutorError::Failed(missing)),
                };
                (ticket, end)
            });
        }
        Ok(())
    }

    /// Says again and again that an execution is under way.
    fn keep_alive(
        &self,
        lease: Lease,
        clock: StoreClock,
    ) -> impl Future<Output = Infallible> + Send + 'static {
        let (store, scope) = (Arc::clone(&self.store), self.scope.clone());
        let duration = Duration::from_secs(self.settings.lease_seconds);
        async move {
            loop {
                tokio::time::sleep(duration / 3).await;
                // If it fails, the lease runs out, and whoever gets the ticket next is told apart from this one.
                let _ = store.heartbeat(&scope, clock.now(), lease, duration).await;
            }
        }
    }

    /// What the executor is told, or what is missing for it.
    async fn request(
        &self,
        rollout: &Rollout,
        tasks: &BTreeMap<TaskId, Task>,
    ) -> Result<Result<ExecutionRequest, String>> {
        let task = match tasks.get(&rollout.task) {
            Some(task) => Some(task.clone()),
            None => self.store.task(&self.scope, rollout.task).await?,
        };
        let Some(task) = task else {
            return Ok(Err(format!("task {} is not in the store", rollout.task)));
        };
        let members = self.texts.memories(rollout.set.members()).await?;
        if members.len() != rollout.set.len() {
            return Ok(Err(format!(
                "{} of the {} memories of its set are gone",
                rollout.set.len() - members.len(),
                rollout.set.len()
            )));
        }
        let memories = members.iter().map(|memory| MemoryText {
            id: memory.id,
            text: memory.text.clone(),
        });
        Ok(Ok(ExecutionRequest {
            id: rollout.id,
            task,
            memories: memories.collect(),
            seed: rollout.seed,
            purpose: rollout.purpose,
        }))
    }

    /// Makes ended executions durable, those that ended together in one transaction; says which of them are over.
    async fn report(&self, ended: Vec<Ended>, clock: StoreClock) -> Result<Vec<(RolloutId, Settled)>> {
        let mut over = Vec::new();
        let mut done = Vec::new();
        let mut unavailable = None;
        for (ticket, end) in ended {
            let failed = match end.map(|execution| self.checked(&ticket, execution)) {
                Ok(Ok(report)) => {
                    done.push((ticket.lease, report));
                    continue;
                }
                Ok(Err(refused)) => refused,
                Err(ExecutorError::Failed(reason)) => reason,
                Err(ExecutorError::Unavailable(problem)) => {
                    unavailable = Some(problem);
                    continue;
                }
            };
            match self.store.fail(&self.scope, ticket.lease, &failed).await {
                Ok(AfterFailure::GivenUp) => over.push((ticket.rollout.id, Settled::Failed(failed))),
                Ok(AfterFailure::WillRetry) | Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let outcomes: Vec<Outcome> = done.iter().map(|(_, report)| report.outcome).collect();
        let completed = self.store.complete_many(&self.scope, clock.now(), done).await?;
        for (completion, outcome) in completed.into_iter().zip(outcomes) {
            match completion {
                Ok(_) => over.push((outcome.rollout, Settled::Done(outcome))),
                // The lease was over, and a worker was first: its outcome counts, and is found where it is looked for.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // What others brought back at the same time is kept before the bad news is told.
        match unavailable {
            None => Ok(over),
            Some(problem) => Err(Error::Executor {
                executor: self.executor.name().to_owned(),
                problem,
            }),
        }
    }

    /// The report of an execution, unless its outcome can not be valued.
    fn checked(&self, ticket: &LeasedTicket, execution: Execution) -> Result<ExecutionReport, String> {
        let outcome = Outcome {
            rollout: ticket.rollout.id,
            performance: execution.performance,
            cost: execution.cost,
        };
        self.worth(&outcome).map_err(|error| error.to_string())?;
        Ok(ExecutionReport {
            outcome,
            trajectory: execution.trajectory,
            diagnostics: execution.diagnostics,
        })
    }
}

fn joined(result: Result<Ended, tokio::task::JoinError>) -> Result<Ended> {
    result.map_err(|error| Error::Internal(format!("an execution stopped: {error}")))
}
