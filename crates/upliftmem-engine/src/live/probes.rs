//! The probe queue: which executions are wanted, who works on them, and when more are planned.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rand::RngExt;
use serde::Serialize;
use upliftmem_core::{
    InvalidInput, MemoryId, ProbeBatchId, Purpose, RetrievalPath, Rollout, Task, TaskId, WindowEntry,
};
use upliftmem_store::{
    AfterFailure, EntryKind, Error as StoreError, JournalEntry, JournalFilter, Lease, LeaseRequest,
    RetrievalRecord, Timestamp,
};

use super::LiveScope;
use crate::{
    acquire::{Scene, plan},
    batches::{self, Batches},
    error::{Error, Result},
    scoring::scorer_label,
    settings::Strategy,
};

/// Tickets that can not be executed any more which one call clears away at most.
const HOPELESS_MAX: usize = 32;
/// Retrievals that are looked through for a window at most.
const LOOKED_THROUGH_MAX: usize = 5_000;

/// An execution in someone's hands.
#[derive(Debug, Clone, PartialEq)]
pub struct Handed {
    /// What to execute.
    pub rollout: Rollout,
    /// The right to report on it.
    pub lease: Lease,
    /// Until when, unless a heartbeat extends it.
    pub expires_at: Timestamp,
    /// The task.
    pub task: Task,
    /// The memories to give the agent, in the order in which they are shown.
    pub memories: Vec<(MemoryId, String)>,
}

/// A batch of executions that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Planned {
    /// The batch, if there are probes in it.
    pub batch: Option<ProbeBatchId>,
    /// Probes that wait to be executed.
    pub probes: usize,
    /// Executions without memory that were asked for first: a probe is compared with one.
    pub references: usize,
    /// EVSI of the whole batch.
    pub batch_value: f64,
    /// Tasks that were looked at.
    pub tasks: usize,
}

impl LiveScope {
    /// Hands out the next execution that is wanted. If none is and enough was retrieved since the last batch, plans
    /// the next one first.
    pub async fn next_probe(
        self: &Arc<Self>,
        worker: &str,
        duration: Duration,
        purpose: Option<Purpose>,
    ) -> Result<Option<Handed>> {
        if let Some(handed) = self.lease_one(worker, duration, purpose).await? {
            return Ok(Some(handed));
        }
        if self.settings.acquisition.strategy == Strategy::None || !self.plan_if_due().await? {
            return Ok(None);
        }
        self.lease_one(worker, duration, purpose).await
    }

    async fn lease_one(
        &self,
        worker: &str,
        duration: Duration,
        purpose: Option<Purpose>,
    ) -> Result<Option<Handed>> {
        for _ in 0..HOPELESS_MAX {
            let request = LeaseRequest {
                worker: worker.to_owned(),
                tickets: 1,
                duration,
                purpose,
            };
            // Replicas and workers whose clocks are apart must agree on when a lease ends.
            let now = self.store.clock().await?;
            let leased = self.store.lease(&self.scope, now, request).await?;
            let Some(ticket) = leased.into_iter().next() else {
                return Ok(None);
            };
            let task = self.store.task(&self.scope, ticket.rollout.task).await?;
            let members = self
                .store
                .memories(&self.scope, ticket.rollout.set.members())
                .await?;
            match task {
                Some(task) if members.len() == ticket.rollout.set.len() => {
                    let memories = members
                        .into_iter()
                        .map(|found| (found.memory.id, found.memory.text));
                    return Ok(Some(Handed {
                        memories: memories.collect(),
                        lease: ticket.lease,
                        expires_at: ticket.expires_at,
                        rollout: ticket.rollout,
                        task,
                    }));
                }
                _ => {
                    let reason = "the task or a memory of its set is gone";
                    self.store.fail(&self.scope, ticket.lease, reason).await?;
                }
            }
        }
        Ok(None)
    }

    /// Says that an execution is under way; until when it is kept.
    pub async fn probe_heartbeat(&self, lease: Lease, duration: Duration) -> Result<Timestamp> {
        let now = self.store.clock().await?;
        self.store.heartbeat(&self.scope, now, lease, duration).await?;
        Ok(now.after(duration))
    }

    /// Gives an execution back; says whether it will be tried again.
    pub async fn fail_probe(&self, lease: Lease, reason: &str) -> Result<bool> {
        let after = self.store.fail(&self.scope, lease, reason).await?;
        Ok(after == AfterFailure::WillRetry)
    }

    async fn plan_if_due(self: &Arc<Self>) -> Result<bool> {
        let Ok(_one) = self.planning.try_lock() else {
            return Ok(false);
        };
        let batches = self.batches().await?;
        self.ask_again(&batches).await?;
        let interval = usize::try_from(self.settings.acquisition.acquisition_interval).unwrap_or(usize::MAX);
        let window = self.window(batches.last).await?;
        if window.1 < interval.max(1) {
            return Ok(false);
        }
        let planned = self.plan_window(batches, window.0, None, None).await?;
        Ok(planned.probes + planned.references > 0)
    }

    /// Plans a batch from what was retrieved since the last one, whether it is due or not.
    pub async fn plan_probes(
        self: &Arc<Self>,
        budget: Option<usize>,
        strategy: Option<Strategy>,
    ) -> Result<Planned> {
        let _one = self.planning.lock().await;
        let batches = self.batches().await?;
        let (window, _) = self.window(batches.last).await?;
        self.plan_window(batches, window, budget, strategy).await
    }

    async fn batches(&self) -> Result<Batches> {
        Batches::load(self.store.as_ref(), &self.scope).await
    }

    /// Asks for the executions of the last batch again: whoever planned it may have been killed before it did. Those
    /// that were asked for are not asked for twice.
    async fn ask_again(self: &Arc<Self>, batches: &Batches) -> Result<()> {
        let (agent, attempts_max) = (&self.settings.agent, self.settings.attempts_max);
        let Some((record, tickets)) = batches.last_of_ours(agent, attempts_max) else {
            return Ok(());
        };
        self.store.enqueue(&self.scope, Timestamp::now(), tickets).await?;
        // Whoever executed may have been killed before it told what was learned.
        let ids: Vec<_> = record.probes.iter().map(|probe| probe.rollout).collect();
        if self.outcomes().learn_completed(&ids).await? > 0 {
            self.learn_soon();
        }
        Ok(())
    }

    /// The latest retrieval of each task since a place in the journal, and how many retrievals there were.
    async fn window(&self, after: u64) -> Result<(Vec<RetrievalRecord>, usize)> {
        let interval = usize::try_from(self.settings.acquisition.acquisition_interval).unwrap_or(usize::MAX);
        let mut latest: BTreeMap<TaskId, (usize, RetrievalRecord)> = BTreeMap::new();
        let (mut after, mut seen) = (after, 0);
        while seen < LOOKED_THROUGH_MAX {
            let filter = JournalFilter {
                kind: Some(EntryKind::Retrieval),
                task: None,
                after,
            };
            let page = self.store.list_entries(&self.scope, filter, 500).await?;
            let Some(last) = page.last() else { break };
            after = last.sequence;
            for found in page {
                let JournalEntry::Retrieval(record) = found.entry else {
                    continue;
                };
                seen += 1;
                if let Some(task) = record.task {
                    latest.insert(task, (seen, record));
                }
            }
        }
        let mut window: Vec<(usize, RetrievalRecord)> = latest.into_values().collect();
        window.sort_by_key(|(place, _)| *place);
        let skipped = window.len().saturating_sub(interval.max(1));
        let window = window.into_iter().skip(skipped).map(|(_, record)| record);
        Ok((window.collect(), seen))
    }

    async fn plan_window(
        &self,
        batches: Batches,
        window: Vec<RetrievalRecord>,
        budget: Option<usize>,
        strategy: Option<Strategy>,
    ) -> Result<Planned> {
        let mut settings = self.settings.acquisition.clone();
        settings.strategy = strategy.unwrap_or(settings.strategy);
        let budget = budget.unwrap_or(settings.probe_budget).min(settings.probe_budget);
        if budget == 0 {
            return Err(InvalidInput::new("budget", "0 is asked for; ask for at least 1").into());
        }
        let allowed = self.executions_left().await?;
        let tasks = window.len();
        let (scenes, references) = self.scenes(window, budget.min(allowed)).await?;
        let budget = budget.min(allowed - references);
        if budget == 0 {
            return Ok(Planned {
                batch: None,
                probes: 0,
                references,
                batch_value: 0.0,
                tasks,
            });
        }
        let count = batches.next();
        let scorer = self.scorer()?;
        let label = scorer_label(&scorer);
        let retrieval = self.settings.retrieval.clone();
        let chosen_by = settings.strategy;
        let mut rng = batches::seeds().rng("acquire", count);
        let seed = rng.random();
        let work = tokio::task::spawn_blocking(move || {
            plan(scorer.as_ref(), &scenes, &retrieval, &settings, budget, &mut rng)
        });
        let plan = work
            .await
            .map_err(|error| Error::Internal(format!("planning stopped: {error}")))??;
        let mut planned = Planned {
            batch: None,
            probes: 0,
            references,
            batch_value: plan.batch_value,
            tasks,
        };
        if plan.chosen.is_empty() {
            return Ok(planned);
        }
        let sets = plan.chosen.iter().map(|chosen| (chosen.task, chosen.set.clone()));
        let (agent, attempts_max) = (&self.settings.agent, self.settings.attempts_max);
        let tickets = batches::tickets(count, agent, attempts_max, sets);
        let record = batches::record(count, seed, chosen_by, label, &plan, &tickets);
        planned.batch = Some(record.id);
        planned.probes = tickets.len();
        let entry = JournalEntry::ProbeBatch(record);
        let now = Timestamp::now();
        match self.store.append(&self.scope, now, vec![entry]).await {
            Ok(_) => {}
            // Another process planned at the same time: its batch counts.
            Err(StoreError::Conflict { .. }) => {
                planned.probes = 0;
                return Ok(planned);
            }
            Err(error) => return Err(error.into()),
        }
        self.store.enqueue(&self.scope, now, tickets).await?;
        Ok(planned)
    }

    /// Executions that the scope's quotas leave; none left is refused by the quota that is used up.
    async fn executions_left(&self) -> Result<usize> {
        let mut left = usize::MAX;
        for quota in self.store.quotas_over(self.scope.parts()).await? {
            match (quota.executions_left(), quota.limits.executions_max) {
                (Some(0), Some(allowed)) => {
                    return Err(StoreError::Quota {
                        tenant: quota.tenant.to_string(),
                        what: "executions",
                        allowed,
                        got: quota.executions.saturating_add(1),
                    }
                    .into());
                }
                (Some(more), _) => left = left.min(usize::try_from(more).unwrap_or(usize::MAX)),
                (None, _) => {}
            }
        }
        Ok(left)
    }

    /// What deciding about a window needs. A task that was never done without memory is asked for that first.
    async fn scenes(&self, window: Vec<RetrievalRecord>, budget: usize) -> Result<(Vec<Scene>, usize)> {
        let outcomes = self.outcomes();
        let mut scenes = Vec::new();
        let mut references = 0;
        for record in window {
            let Some(id) = record.task else { continue };
            if outcomes.reference(id).await?.is_none() {
                if references < budget && outcomes.request_reference(id).await? {
                    references += 1;
                }
                continue;
            }
            let Some(task) = self.store.task(&self.scope, id).await? else {
                continue;
            };
            let ids: Vec<MemoryId> = record.pool.candidates().iter().map(|found| found.id).collect();
            let usable = self.usable(&ids).await?;
            let ids: Vec<MemoryId> = ids.into_iter().filter(|id| usable.contains(id)).collect();
            if ids.is_empty() {
                continue;
            }
            let offer = self.texts.offer(&ids).await?;
            let kept = record.set.iter().filter(|id| usable.contains(id));
            let path = RetrievalPath {
                steps: Vec::new(),
                terminal: kept.copied().collect(),
            };
            let limits = self.settings.retrieval.limits();
            scenes.push(Scene {
                entry: WindowEntry::of_path(id, offer.pool, &path, limits),
                task: self.texts.tasks(&[task]).await?.remove(0),
                memories: offer.ranked,
            });
        }
        Ok((scenes, references))
    }
}
