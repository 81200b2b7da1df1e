//! The task stream: a path for each task, executed and compared with the task's reference.

use std::{collections::BTreeMap, sync::Arc};

use rayon::prelude::*;
use serde_json::json;
use tokio::task::JoinSet;
use upliftmem_core::{Purpose, Reference, RetrievalPath, Rollout, RolloutId, ScheduleStep, Task, TaskId};
use upliftmem_store::{JournalEntry, RecordedPath};

use super::{Progress, run::Running, write::Finished};
use crate::{
    error::{Error, Result},
    rollouts::Settled,
    scoring::{sample, scorer_label},
    texts::{KnownTask, Offer},
};

impl Running<'_> {
    /// Recalls for many tasks at once.
    pub(super) async fn recall_all(&self, tasks: &[Arc<KnownTask>]) -> Result<Vec<Offer>> {
        let mut recalls = JoinSet::new();
        for (place, task) in tasks.iter().enumerate() {
            let (texts, task) = (Arc::clone(&self.trainer.texts), Arc::clone(task));
            let settings = self.trainer.settings.retrieval.clone();
            recalls.spawn(async move { (place, texts.recall(&task, &settings).await) });
        }
        let mut offers: BTreeMap<usize, Offer> = BTreeMap::new();
        while let Some(joined) = recalls.join_next().await {
            let (place, offer) =
                joined.map_err(|error| Error::Internal(format!("a recall stopped: {error}")))?;
            offers.insert(place, offer?);
        }
        Ok(offers.into_values().collect())
    }

    /// The next tasks of the stream, up to where the scorer or the window changes.
    fn next_counts(&self) -> Result<Vec<u64>> {
        let mut schedule = self.state.schedule.clone();
        let mut counts = Vec::new();
        while let ScheduleStep::Task(count) = schedule.due() {
            if counts.len() == self.trainer.settings.training.batch.max(1) {
                break;
            }
            counts.push(count);
            schedule.complete(ScheduleStep::Task(count))?;
        }
        Ok(counts)
    }

    fn sample_paths(
        &self,
        counts: &[u64],
        tasks: &[Arc<KnownTask>],
        offers: &[Offer],
    ) -> Result<Vec<RetrievalPath>> {
        let settings = &self.trainer.settings.retrieval;
        let policy = settings.policy()?;
        if settings.exploration > 0.0 {
            self.scorer.prepare()?;
        }
        counts
            .par_iter()
            .zip(tasks)
            .zip(offers)
            .map(|((&count, task), offer)| {
                let bound = self.scorer.bind(task.input(), &offer.inputs())?;
                let mut rng = self.seeds.rng("path", count);
                sample(bound.as_ref(), &offer.pool, settings, policy, &mut rng)
            })
            .collect()
    }

    /// Samples a path for each of the next tasks and executes it. Paper: SamplePath and Observe.
    pub(super) async fn stream(&mut self) -> Result<bool> {
        let counts = self.next_counts()?;
        let stream = &self.trainer.stream;
        let tasks: Vec<Task> = counts
            .iter()
            .map(|&count| {
                let (_, place) = self.state.schedule.place(count);
                stream[usize::try_from(place).unwrap_or(usize::MAX)].clone()
            })
            .collect();
        let known = self.trainer.texts.tasks(&tasks).await?;
        let offers = self.recall_all(&known).await?;
        let paths = self.sample_paths(&counts, &known, &offers)?;
        let executor = self.trainer.rollouts.executor.name();
        let mut wanted: Vec<Rollout> = Vec::new();
        let mut paths_taken = Vec::new();
        let mut done = 0;
        let mut left = self.executions_left();
        for (((&count, task), offer), path) in counts.iter().zip(&tasks).zip(&offers).zip(paths) {
            let rollout =
                self.seeds
                    .rollout(Purpose::Retrieval, (count, 0), executor, task.id, &path.terminal);
            let reference = self
                .missing_reference(task.id)
                .filter(|reference| wanted.iter().all(|other| other.id != reference.id));
            let needed: Vec<Rollout> = reference
                .into_iter()
                .chain((!path.terminal.is_empty()).then(|| rollout.clone()))
                .collect();
            let new = needed
                .iter()
                .filter(|rollout| !self.ledger.contains(rollout.id))
                .count();
            if new > left {
                break;
            }
            left -= new;
            done = count;
            wanted.extend(needed);
            let executed = if path.terminal.is_empty() {
                self.reference_of(task.id)
            } else {
                rollout.id
            };
            let recorded = RecordedPath {
                run: self.trainer.run.clone(),
                rollout: executed,
                count,
                task: task.id,
                scorer: scorer_label(&self.scorer),
                pool: offer.pool.clone(),
                path,
            };
            paths_taken.push(recorded);
        }
        if done == 0 {
            return Ok(false);
        }
        let settled = self.settle("stream", &wanted).await?;
        let mut entries = self.labels(&wanted, &settled)?;
        let references: BTreeMap<TaskId, Reference> = entries
            .iter()
            .filter_map(|entry| match entry {
                JournalEntry::Reference(reference) => Some((reference.task, reference.clone())),
                _ => None,
            })
            .collect();
        // A path that led to no outcome is nothing to learn from.
        paths_taken.retain(|path| {
            let known = self.state.references.get(&path.task);
            known.is_some_and(|reference| RolloutId::from(reference.id) == path.rollout)
                || matches!(settled.get(&path.rollout), Some(Settled::Done(_)))
        });
        let finished = |path: &RecordedPath| {
            Some(Finished {
                count: path.count,
                task: self.tasks.get(&path.task)?.clone(),
                rollout: path.rollout,
                set: path.path.terminal.clone(),
            })
        };
        let episodes: Vec<Finished> = paths_taken.iter().filter_map(finished).collect();
        let written = self.write_memories(done, episodes, &references).await?;
        entries.extend(paths_taken.into_iter().map(JournalEntry::Path));
        entries.extend(written.entries);
        let failed = wanted
            .iter()
            .filter(|rollout| matches!(settled.get(&rollout.id), Some(Settled::Failed(_))))
            .count();
        entries.push(self.state.event(
            &format!("tasks/{done}"),
            "tasks",
            json!({ "last": done, "failed": failed }),
        ));
        self.commit(entries).await?;
        self.admit(&written.admitted).await?;
        let rule = self.state.schedule.rule();
        (self.progress)(Progress::Stream {
            done,
            total: rule.tasks * rule.epochs,
        });
        Ok(counts.last() == Some(&done))
    }
}
