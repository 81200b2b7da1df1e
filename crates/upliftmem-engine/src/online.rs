//! Learning from an agent at work: outcomes of earlier retrievals become labels, the probe queue offers executions.

use std::{collections::BTreeSet, sync::Arc};

use serde::Serialize;
use serde_json::{Map, Value};
use upliftmem_core::{
    Cost, InvalidInput, MemorySet, Observation, Outcome, Performance, Purpose, Reference, RetrievalId,
    Rollout, RolloutId, TaskId, TrajectoryStep, UtilityRule,
};
use upliftmem_store::{
    EntryKind, Error as StoreError, ExecutionReport, JournalEntry, JournalFilter, NewTicket, RetrievalRecord,
    Scope, Store, Timestamp,
};

use crate::{
    error::{Error, Result},
    seeds::Seeds,
};

/// What the batches of a server are marked with.
pub(crate) const ONLINE: &str = "online";

/// How an episode went.
#[derive(Debug, Clone, PartialEq)]
pub struct OutcomeReport {
    /// The retrieval whose memories were used.
    pub retrieval: RetrievalId,
    /// How well it did.
    pub performance: Performance,
    /// What it cost.
    pub cost: Cost,
    /// What happened, step by step.
    pub trajectory: Vec<TrajectoryStep>,
    /// Anything else worth keeping.
    pub diagnostics: Map<String, Value>,
}

/// What an outcome taught.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "became", rename_all = "snake_case")]
pub enum Learnt {
    /// The task without memory: labels of the task are measured against it.
    Reference {
        /// Labels that had been waiting for it.
        labels: usize,
    },
    /// A label.
    Label {
        /// Utility with the set minus utility without.
        uplift: f64,
    },
    /// Nothing yet: the task has no reference to compare with.
    Waiting {
        /// Whether an execution without memory was asked for.
        reference_requested: bool,
    },
}

/// When a task that has no reference gets one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferencePolicy {
    /// As soon as an outcome needs it.
    #[default]
    Request,
    /// Only when an agent reports an episode without memory by itself.
    Wait,
}

/// Takes the outcomes of one scope.
pub struct Outcomes {
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Whose.
    pub scope: Scope,
    /// What an execution is worth.
    pub utility: UtilityRule,
    /// The name of the agent that reports.
    pub agent: String,
    /// When a task gets a reference.
    pub references: ReferencePolicy,
    /// Attempts of a requested execution.
    pub attempts_max: u32,
}

impl Outcomes {
    fn seeds(&self) -> Seeds {
        Seeds::new(ONLINE, 0)
    }

    async fn retrieval(&self, id: RetrievalId) -> Result<RetrievalRecord> {
        let found = self
            .store
            .entry(&self.scope, EntryKind::Retrieval, &id.to_string())
            .await?;
        match found.map(|found| found.entry) {
            Some(JournalEntry::Retrieval(record)) => Ok(record),
            _ => Err(upliftmem_store::Error::NotFound {
                kind: "retrieval",
                id: id.to_string(),
                scope: self.scope.to_string(),
            }
            .into()),
        }
    }

    /// Makes an outcome durable, and learns from it what can be learned. The same outcome twice is one.
    pub async fn take(&self, report: OutcomeReport) -> Result<Learnt> {
        let record = self.retrieval(report.retrieval).await?;
        let Some(task) = record.task else {
            return Err(InvalidInput::new(
                format_args!("retrieval {}", report.retrieval),
                "names no task; name the task when memories are searched for",
            )
            .into());
        };
        let rollout = Rollout {
            id: RolloutId::from_u128(report.retrieval.as_u128()),
            task,
            set: record.set,
            purpose: Purpose::Retrieval,
            executor: self.agent.clone(),
            seed: 0,
        };
        let outcome = Outcome {
            rollout: rollout.id,
            performance: report.performance,
            cost: report.cost,
        };
        // Refused before anything is written.
        self.utility.utility(outcome.performance, outcome.cost)?;
        let execution = ExecutionReport {
            outcome,
            trajectory: report.trajectory,
            diagnostics: report.diagnostics,
        };
        self.store
            .record_execution(&self.scope, Timestamp::now(), rollout.clone(), execution)
            .await?;
        self.learn(rollout, outcome).await
    }

    /// Learns from an execution that is durable: one that was just reported, or a ticket that was completed.
    pub async fn learn(&self, rollout: Rollout, outcome: Outcome) -> Result<Learnt> {
        let utility = self.utility.utility(outcome.performance, outcome.cost)?;
        if rollout.set.is_empty() {
            let reference = Reference {
                id: rollout.id.into(),
                task: rollout.task,
                executor: rollout.executor,
                utility,
            };
            let waiting = self.waiting(&reference).await?;
            let labels = waiting.len();
            let mut entries = vec![JournalEntry::Reference(reference)];
            entries.extend(waiting.into_iter().map(JournalEntry::Observation));
            self.append(entries).await?;
            return Ok(Learnt::Reference { labels });
        }
        let Some(reference) = self.reference(rollout.task).await? else {
            let reference_requested = match self.references {
                ReferencePolicy::Wait => false,
                ReferencePolicy::Request => self.request_within_quota(rollout.task).await?,
            };
            return Ok(Learnt::Waiting { reference_requested });
        };
        let id = self.seeds().observation(rollout.id);
        let observation = Observation::new(id, &rollout, utility, &reference)?;
        let uplift = observation.uplift.get();
        self.append(vec![JournalEntry::Observation(observation)]).await?;
        Ok(Learnt::Label { uplift })
    }

    /// Learns from those of these executions that a server asked for: references and probes of its batches. A training
    /// run learns from its own by itself.
    pub async fn learn_asked_for(&self, done: Vec<(Rollout, Outcome)>) -> Result<()> {
        let mut probes = None;
        for (rollout, outcome) in done {
            let asked_for = match rollout.purpose {
                Purpose::Reference => rollout.id == self.reference_rollout(rollout.task).id,
                Purpose::Probe => {
                    if probes.is_none() {
                        probes = Some(self.planned_probes().await?);
                    }
                    probes.as_ref().is_some_and(|probes| probes.contains(&rollout.id))
                }
                _ => false,
            };
            if asked_for {
                self.learn(rollout, outcome).await?;
            }
        }
        Ok(())
    }

    /// The probes of the latest batches that a server planned.
    async fn planned_probes(&self) -> Result<BTreeSet<RolloutId>> {
        /// Batches that may still be executed.
        const BATCHES_MAX: usize = 8;
        let batches = self
            .store
            .latest_entries(&self.scope, EntryKind::ProbeBatch, None, BATCHES_MAX)
            .await?;
        let mut probes = BTreeSet::new();
        for found in batches {
            if let JournalEntry::ProbeBatch(record) = found.entry
                && record.decision.get("origin").and_then(Value::as_str) == Some(ONLINE)
            {
                probes.extend(record.probes.iter().map(|probe| probe.rollout));
            }
        }
        Ok(probes)
    }

    /// Learns from those of these that are completed and taught nothing yet; says of how many something was learned. One whose
    /// task has no reference still teaches nothing.
    pub(crate) async fn learn_completed(&self, rollouts: &[RolloutId]) -> Result<usize> {
        let mut count = 0;
        for some in rollouts.chunks(self.store.limits().page_rows_max) {
            for (ticket, outcome) in self.store.settled(&self.scope, some).await? {
                let Some(outcome) = outcome else { continue };
                let name = self.seeds().observation(ticket.rollout.id).to_string();
                let known = self
                    .store
                    .entry(&self.scope, EntryKind::Observation, &name)
                    .await?;
                if known.is_none() {
                    let learnt = self.learn(ticket.rollout, outcome).await?;
                    count += usize::from(!matches!(learnt, Learnt::Waiting { .. }));
                }
            }
        }
        Ok(count)
    }

    pub(crate) fn reference_rollout(&self, task: TaskId) -> Rollout {
        self.seeds()
            .rollout(Purpose::Reference, (0, 0), &self.agent, task, &MemorySet::EMPTY)
    }

    async fn append(&self, entries: Vec<JournalEntry>) -> Result<()> {
        self.store.append(&self.scope, Timestamp::now(), entries).await?;
        Ok(())
    }

    async fn of_task(&self, kind: EntryKind, task: TaskId) -> Result<Vec<JournalEntry>> {
        let filter = JournalFilter {
            kind: Some(kind),
            task: Some(task),
            after: 0,
        };
        let rows = self.store.limits().page_rows_max;
        let page = self.store.list_entries(&self.scope, filter, rows).await?;
        Ok(page.into_iter().map(|journaled| journaled.entry).collect())
    }

    /// The reference of a task by this agent.
    pub(crate) async fn reference(&self, task: TaskId) -> Result<Option<Reference>> {
        let found = self.of_task(EntryKind::Reference, task).await?.into_iter();
        Ok(found
            .filter_map(|entry| match entry {
                JournalEntry::Reference(reference) => Some(reference),
                _ => None,
            })
            .find(|reference| reference.executor == self.agent))
    }

    /// Asks for an execution without memory; says whether it was not asked for before.
    pub(crate) async fn request_reference(&self, task: TaskId) -> Result<bool> {
        let ticket = NewTicket {
            rollout: self.reference_rollout(task),
            attempts_max: self.attempts_max,
        };
        let new = self
            .store
            .enqueue(&self.scope, Timestamp::now(), vec![ticket])
            .await?;
        Ok(new > 0)
    }

    /// [`Self::request_reference`] for an outcome that is durable already: a quota that is used up does not turn it
    /// into a failure. Says whether there is a request.
    async fn request_within_quota(&self, task: TaskId) -> Result<bool> {
        match self.request_reference(task).await {
            Ok(_) => Ok(true),
            Err(Error::Store(StoreError::Quota { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Labels of executions that had no reference until now.
    async fn waiting(&self, reference: &Reference) -> Result<Vec<Observation>> {
        let labelled: BTreeSet<RolloutId> = self
            .of_task(EntryKind::Observation, reference.task)
            .await?
            .into_iter()
            .filter_map(|entry| match entry {
                JournalEntry::Observation(seen) => Some(seen.rollout),
                _ => None,
            })
            .collect();
        let mut labels = Vec::new();
        for entry in self.of_task(EntryKind::Retrieval, reference.task).await? {
            let JournalEntry::Retrieval(record) = entry else {
                continue;
            };
            let id = RolloutId::from_u128(record.id.as_u128());
            if record.set.is_empty() || labelled.contains(&id) {
                continue;
            }
            let (Some(ticket), Some(stored)) = (
                self.store.ticket(&self.scope, id).await?,
                self.store.report(&self.scope, id).await?,
            ) else {
                continue;
            };
            let outcome = stored.report.outcome;
            let utility = self.utility.utility(outcome.performance, outcome.cost)?;
            let name = self.seeds().observation(id);
            labels.push(Observation::new(name, &ticket.rollout, utility, reference)?);
        }
        Ok(labels)
    }
}
