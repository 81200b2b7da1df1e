//! Batches of probes that belong to no training run: their names, their records, and buying one.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use serde_json::{Map, Value, json};
use upliftmem_core::{MemorySet, Purpose, Rollout, RolloutId, Task, TaskId};
use upliftmem_store::{
    EntryKind, JournalEntry, JournalFilter, NewTicket, ProbeBatchRecord, ProbeRecord, Scope, Store,
    TicketState, Timestamp,
};

use crate::{
    acquire::Plan,
    error::Result,
    online::{Learnt, ONLINE, Outcomes, ReferencePolicy},
    rollouts::{OnSettled, Rollouts, Settled},
    seeds::Seeds,
    settings::Strategy,
};

/// The batches so far.
#[derive(Default)]
pub(crate) struct Batches {
    count: u64,
    /// Where the last one is in the journal.
    pub(crate) last: u64,
    record: Option<ProbeBatchRecord>,
}

impl Batches {
    pub(crate) async fn load(store: &dyn Store, scope: &Scope) -> Result<Self> {
        let rows = store.limits().page_rows_max;
        let mut batches = Self::default();
        loop {
            let filter = JournalFilter {
                kind: Some(EntryKind::ProbeBatch),
                task: None,
                after: batches.last,
            };
            let page = store.list_entries(scope, filter, rows).await?;
            let whole = page.len() == rows;
            for found in page {
                batches.count += 1;
                batches.last = found.sequence;
                if let JournalEntry::ProbeBatch(record) = found.entry {
                    batches.record = Some(record);
                }
            }
            if !whole {
                return Ok(batches);
            }
        }
    }

    /// The number of the batch that comes after these.
    pub(crate) fn next(&self) -> u64 {
        self.count + 1
    }

    /// The last batch, with its tickets, unless it is a training run's: those are the run's own business.
    pub(crate) fn last_of_ours(
        &self,
        agent: &str,
        attempts_max: u32,
    ) -> Option<(&ProbeBatchRecord, Vec<NewTicket>)> {
        let record = self.record.as_ref()?;
        let probes = record.probes.iter().map(|probe| (probe.task, probe.set.clone()));
        let tickets = tickets(self.count, agent, attempts_max, probes);
        let ours = tickets
            .iter()
            .zip(&record.probes)
            .all(|(ticket, probe)| ticket.rollout.id == probe.rollout);
        ours.then_some((record, tickets))
    }
}

/// Names and randomness of all batches outside of runs.
pub(crate) fn seeds() -> Seeds {
    Seeds::new(ONLINE, 0)
}

/// The executions of the batch of this number.
pub(crate) fn tickets(
    count: u64,
    agent: &str,
    attempts_max: u32,
    probes: impl Iterator<Item = (TaskId, MemorySet)>,
) -> Vec<NewTicket> {
    (0..)
        .zip(probes)
        .map(|(index, (task, set))| NewTicket {
            rollout: seeds().rollout(Purpose::Probe, (count, index), agent, task, &set),
            attempts_max,
        })
        .collect()
}

/// What is kept of a batch: what it asks for, and why.
pub(crate) fn record(
    count: u64,
    seed: u64,
    strategy: Strategy,
    scorer: String,
    plan: &Plan,
    tickets: &[NewTicket],
) -> ProbeBatchRecord {
    let probes = tickets.iter().zip(&plan.chosen);
    ProbeBatchRecord {
        id: seeds().batch(count),
        strategy: strategy.name().to_owned(),
        scorer,
        seed,
        probes: probes
            .map(|(ticket, chosen)| ProbeRecord {
                rollout: ticket.rollout.id,
                task: chosen.task,
                set: chosen.set.clone(),
                marginal_value: chosen.pick.marginal_value,
            })
            .collect(),
        decision: decision(plan),
    }
}

fn decision(plan: &Plan) -> Map<String, Value> {
    let picks = plan.chosen.iter().map(|chosen| {
        json!({
            "incumbent": chosen.incumbent,
            "score": chosen.pick.score,
            "marginal_value": chosen.pick.marginal_value,
            "helps": chosen.pick.helps,
        })
    });
    [
        ("origin", json!(ONLINE)),
        ("pool", json!(plan.pool)),
        ("capped", json!(plan.capped)),
        ("comparisons", json!(plan.comparisons)),
        ("batch_value", json!(plan.batch_value)),
        ("residual_share", json!(plan.residual_share)),
        ("picks", picks.collect()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// A probe that was executed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bought {
    /// The task.
    pub task: TaskId,
    /// The set that was tried.
    pub set: MemorySet,
    /// What the batch expected of it.
    pub marginal_value: f64,
    /// Utility with the set minus utility without, unless an execution failed.
    pub uplift: Option<f64>,
    /// Why there is no outcome.
    pub failed: Option<String>,
}

/// Buys batches: the executions are tickets, durable before they are used, and what was paid for is not paid for again.
pub struct Buyer {
    rollouts: Rollouts,
    outcomes: Outcomes,
}

impl Buyer {
    /// Buys with these executions.
    pub fn new(rollouts: Rollouts) -> Self {
        let outcomes = Outcomes {
            store: Arc::clone(&rollouts.store),
            scope: rollouts.scope.clone(),
            utility: rollouts.utility,
            agent: rollouts.executor.name().to_owned(),
            references: ReferencePolicy::Wait,
            attempts_max: rollouts.settings.retries + 1,
        };
        Self { rollouts, outcomes }
    }

    /// The number that the next batch will have: its randomness may depend on it.
    pub async fn next_batch(&self) -> Result<u64> {
        Ok(self.batches().await?.next())
    }

    async fn batches(&self) -> Result<Batches> {
        Batches::load(self.rollouts.store.as_ref(), &self.rollouts.scope).await
    }

    /// Finishes the last batch if whoever bought it was stopped; `None` if there is nothing to finish.
    pub async fn go_on(&self, on_settled: OnSettled<'_>) -> Result<Option<Vec<Bought>>> {
        self.rollouts.take_back().await?;
        let batches = self.batches().await?;
        let (agent, attempts_max) = (&self.outcomes.agent, self.outcomes.attempts_max);
        let Some((record, tickets)) = batches.last_of_ours(agent, attempts_max) else {
            return Ok(None);
        };
        let ids: Vec<RolloutId> = tickets.iter().map(|ticket| ticket.rollout.id).collect();
        let settled = self.rollouts.store.settled(&self.rollouts.scope, &ids).await?;
        let over = |state| matches!(state, TicketState::Completed | TicketState::Failed);
        let all_over = settled.iter().filter(|(ticket, _)| over(ticket.state)).count() == ids.len();
        if all_over && self.outcomes.learn_completed(&ids).await? == 0 {
            return Ok(None);
        }
        let wanted = tickets.into_iter().map(|ticket| ticket.rollout).collect();
        Ok(Some(
            self.execute(record, wanted, &BTreeMap::new(), on_settled).await?,
        ))
    }

    /// Buys what was planned.
    pub async fn buy(
        &self,
        plan: &Plan,
        strategy: Strategy,
        scorer: String,
        tasks: &BTreeMap<TaskId, Task>,
        on_settled: OnSettled<'_>,
    ) -> Result<Vec<Bought>> {
        let (store, scope) = (&self.rollouts.store, &self.rollouts.scope);
        let count = self.next_batch().await?;
        let sets = plan.chosen.iter().map(|chosen| (chosen.task, chosen.set.clone()));
        let tickets = tickets(count, &self.outcomes.agent, self.outcomes.attempts_max, sets);
        let record = record(count, count, strategy, scorer, plan, &tickets);
        let wanted_tasks: Vec<Task> = tasks.values().cloned().collect();
        for some in wanted_tasks.chunks(store.limits().batch_items_max) {
            store.put_tasks(scope, some.to_vec()).await?;
        }
        let entry = JournalEntry::ProbeBatch(record.clone());
        store.append(scope, Timestamp::now(), vec![entry]).await?;
        let wanted = tickets.into_iter().map(|ticket| ticket.rollout).collect();
        self.execute(&record, wanted, tasks, on_settled).await
    }

    /// Executes tasks without memory where that was never done, then the probes, and learns from both.
    async fn execute(
        &self,
        record: &ProbeBatchRecord,
        wanted: Vec<Rollout>,
        tasks: &BTreeMap<TaskId, Task>,
        on_settled: OnSettled<'_>,
    ) -> Result<Vec<Bought>> {
        let mut without = BTreeMap::new();
        for rollout in &wanted {
            if self.outcomes.reference(rollout.task).await?.is_none() {
                without.insert(rollout.task, self.outcomes.reference_rollout(rollout.task));
            }
        }
        let references: Vec<Rollout> = without.into_values().collect();
        self.learn_from(&references, tasks, on_settled).await?;
        let mut ends = self.learn_from(&wanted, tasks, on_settled).await?;
        let bought = wanted.iter().zip(&record.probes).map(|(rollout, probe)| {
            let (uplift, failed) = match ends.remove(&rollout.id) {
                Some(Ok(uplift)) => (uplift, None),
                Some(Err(reason)) => (None, Some(reason)),
                None => (None, None),
            };
            Bought {
                task: rollout.task,
                set: rollout.set.clone(),
                marginal_value: probe.marginal_value,
                uplift,
                failed,
            }
        });
        Ok(bought.collect())
    }

    async fn learn_from(
        &self,
        wanted: &[Rollout],
        tasks: &BTreeMap<TaskId, Task>,
        on_settled: OnSettled<'_>,
    ) -> Result<BTreeMap<RolloutId, Result<Option<f64>, String>>> {
        let mut settled = self.rollouts.settle(wanted, tasks, on_settled).await?;
        let mut ends = BTreeMap::new();
        for rollout in wanted {
            let end = match settled.remove(&rollout.id) {
                Some(Settled::Done(outcome)) => match self.outcomes.learn(rollout.clone(), outcome).await? {
                    Learnt::Label { uplift } => Ok(Some(uplift)),
                    Learnt::Reference { .. } => Ok(None),
                    Learnt::Waiting { .. } => Err("the task could not be executed without memory".into()),
                },
                Some(Settled::Failed(reason)) => Err(reason),
                None => continue,
            };
            ends.insert(rollout.id, end);
        }
        Ok(ends)
    }
}
