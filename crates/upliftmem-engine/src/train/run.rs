//! A run under way: from step to step, within its budget.

use std::{collections::BTreeMap, sync::Arc};

use upliftmem_core::{
    Ledger, MemorySet, Observation, Purpose, Reference, Rollout, RolloutId, ScheduleStep, Task, TaskId,
};
use upliftmem_store::{JournalEntry, Timestamp};

use super::{OnProgress, Progress, RunEnd, Trained, Trainer, TrainingReport};
use crate::{
    error::Result,
    learning::Learning,
    rollouts::Settled,
    scoring::{BelievingScorer, scorer_label},
    seeds::Seeds,
    state::{Labelled, RunState},
};

/// A run under way.
pub(super) struct Running<'t> {
    pub(super) trainer: &'t Trainer,
    pub(super) seeds: Seeds,
    pub(super) state: RunState,
    pub(super) learning: Learning,
    pub(super) scorer: Arc<dyn BelievingScorer>,
    pub(super) tasks: BTreeMap<TaskId, Task>,
    pub(super) ledger: Ledger,
    pub(super) progress: OnProgress<'t>,
}

impl Running<'_> {
    pub(super) async fn go(&mut self) -> Result<RunEnd> {
        loop {
            let done = match self.state.schedule.due() {
                ScheduleStep::WarmUp => self.warm_up().await?,
                ScheduleStep::Task(_) => self.stream().await?,
                ScheduleStep::Acquire(count) => self.acquire(count).await?,
                ScheduleStep::Update(count) => {
                    self.update(Some(count), Vec::new()).await?;
                    true
                }
                ScheduleStep::Finished => {
                    self.learn_the_rest().await?;
                    return Ok(RunEnd::Finished);
                }
            };
            if !done {
                self.learn_the_rest().await?;
                return Ok(RunEnd::Budget);
            }
        }
    }

    /// Whatever was paid for is learned from.
    async fn learn_the_rest(&mut self) -> Result<()> {
        if self.state.learned.labels < self.state.labels.len() {
            self.update(None, Vec::new()).await?;
        }
        Ok(())
    }

    pub(super) fn finish(self, end: RunEnd) -> Result<Trained> {
        let mean = |purpose: Purpose| {
            let uplifts: Vec<f64> = self
                .observations()
                .filter(|seen| seen.purpose == purpose)
                .map(|seen| seen.uplift.get())
                .collect();
            (!uplifts.is_empty()).then(|| uplifts.iter().sum::<f64>() / uplifts.len() as f64)
        };
        let ledger = Purpose::ALL.map(|purpose| (purpose.name().to_owned(), self.ledger.line(purpose)));
        let report = TrainingReport {
            run: self.trainer.run.clone(),
            end,
            tasks: self.state.tasks_done(),
            labels: self.observations().count(),
            references: self.state.references.len(),
            scorer: scorer_label(&self.scorer),
            ledger: ledger.into_iter().collect(),
            retrieval_uplift: mean(Purpose::Retrieval),
            probe_uplift: mean(Purpose::Probe),
        };
        Ok(Trained {
            scorer: self.scorer,
            report,
            state: self.state,
        })
    }

    fn observations(&self) -> impl Iterator<Item = &Observation> {
        self.state.labels.iter().filter_map(|label| match label {
            Labelled::Observation(seen) => Some(seen),
            Labelled::Reference(_) => None,
        })
    }

    /// Executions that the budget still allows.
    pub(super) fn executions_left(&self) -> usize {
        let training = &self.trainer.settings.training;
        let spent = self.ledger.training();
        let by_count = match training.max_executions {
            0 => u64::MAX,
            most => most.saturating_sub(spent.executions),
        };
        // An execution may cost as much as the cap; only what fits even then is started.
        let by_cost = if training.max_cost > 0.0 {
            ((training.max_cost - spent.cost) / self.trainer.settings.utility.cost_max).max(0.0) as u64
        } else {
            u64::MAX
        };
        usize::try_from(by_count.min(by_cost)).unwrap_or(usize::MAX)
    }

    /// How many of the first executions the budget allows; those already paid for are free.
    pub(super) fn affordable(&self, wanted: &[Rollout]) -> usize {
        let (mut paid, left) = (0, self.executions_left());
        wanted
            .iter()
            .position(|rollout| {
                paid += usize::from(!self.ledger.contains(rollout.id));
                paid > left
            })
            .unwrap_or(wanted.len())
    }

    /// Gets executions done and pays for them.
    pub(super) async fn settle(
        &mut self,
        what: &str,
        wanted: &[Rollout],
    ) -> Result<BTreeMap<RolloutId, Settled>> {
        (self.progress)(Progress::Step {
            what: what.to_owned(),
            executions: wanted.len(),
        });
        let progress = self.progress;
        let on_settled = move |count: usize| progress(Progress::Executed(count));
        let settled = self
            .trainer
            .rollouts
            .settle(wanted, &self.tasks, &on_settled)
            .await?;
        for rollout in wanted {
            if let Some(Settled::Done(outcome)) = settled.get(&rollout.id) {
                self.ledger.enter(rollout.id, rollout.purpose, outcome.cost);
            }
        }
        Ok(settled)
    }

    /// Writes entries in one transaction, then takes them.
    pub(super) async fn commit(&mut self, entries: Vec<JournalEntry>) -> Result<()> {
        let trainer = self.trainer;
        trainer
            .store
            .append(&trainer.scope, Timestamp::now(), entries.clone())
            .await?;
        for entry in &entries {
            self.state.take(entry)?;
        }
        Ok(())
    }

    /// The execution of a task without memory.
    fn reference_rollout(&self, task: TaskId) -> Rollout {
        let executor = self.trainer.rollouts.executor.name();
        self.seeds
            .rollout(Purpose::Reference, (0, 0), executor, task, &MemorySet::EMPTY)
    }

    /// The reference that a task needs, if it has none yet.
    pub(super) fn missing_reference(&self, task: TaskId) -> Option<Rollout> {
        (!self.state.references.contains_key(&task)).then(|| self.reference_rollout(task))
    }

    /// The execution that is a task's reference, or will be.
    pub(super) fn reference_of(&self, task: TaskId) -> RolloutId {
        match self.state.references.get(&task) {
            Some(reference) => reference.id.into(),
            None => self.reference_rollout(task).id,
        }
    }

    /// What executions taught, in order: references that are new, then labels. What failed teaches nothing.
    pub(super) fn labels(
        &self,
        wanted: &[Rollout],
        settled: &BTreeMap<RolloutId, Settled>,
    ) -> Result<Vec<JournalEntry>> {
        let mut references: BTreeMap<TaskId, Reference> = BTreeMap::new();
        let mut entries = Vec::new();
        for rollout in wanted {
            let Some(Settled::Done(outcome)) = settled.get(&rollout.id) else {
                continue;
            };
            let utility = self.trainer.rollouts.worth(outcome)?;
            if rollout.set.is_empty() {
                let reference = Reference {
                    id: rollout.id.into(),
                    task: rollout.task,
                    executor: rollout.executor.clone(),
                    utility,
                };
                entries.push(JournalEntry::Reference(reference.clone()));
                references.insert(rollout.task, reference);
                continue;
            }
            let known = references.get(&rollout.task);
            let Some(reference) = known.or_else(|| self.state.references.get(&rollout.task)) else {
                continue;
            };
            let id = self.seeds.observation(rollout.id);
            entries.push(JournalEntry::Observation(Observation::new(
                id, rollout, utility, reference,
            )?));
        }
        Ok(entries)
    }
}
