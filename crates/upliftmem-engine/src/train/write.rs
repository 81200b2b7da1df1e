//! Writing memories from episodes, and validating them by execution. Paper: WriteMemory, app. writing.
//!
//! A draft is stored out of recall before it is executed, under a name that depends on the episode and the version alone:
//! a run that was killed finds its drafts and their validations, and asks for neither again. What is admitted becomes
//! visible only after the step that it belongs to is durable.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use upliftmem_agent::{
    Writer, WriterError,
    chat::ChatError,
    is_near_duplicate,
    prompts::{Episode, Outcome as EpisodeOutcome, PublicTask, ValidatedMemory},
};
use upliftmem_core::{
    MemoryId, MemorySet, Observation, Outcome, Purpose, Reference, Revision, RevisionRule, RevisionStep,
    Rollout, RolloutId, SelectedVersion, Task, TaskId, TrajectoryStep, Uplift,
};
use upliftmem_store::{ItemStatus, JournalEntry, MemoryStatus, NewMemory, Timestamp, estimated_tokens};

use super::run::Running;
use crate::{
    error::{Error, Result},
    rollouts::Settled,
    texts::KnownTask,
};

/// Why a draft is out of recall.
const REASON: &str = "written and not admitted";
/// Memories that a draft is compared with, the most similar ones.
const COMPARED: usize = 8;

/// How memories are written.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WritingSettings {
    /// A memory is admitted when its uplift is above this. Paper: tau_accept.
    pub accept_above: f64,
    /// Most revisions of a draft. Paper: T.
    pub revisions_max: u32,
    /// Episodes of a batch of tasks that are written about.
    pub episodes_max: usize,
}

impl Default for WritingSettings {
    fn default() -> Self {
        Self {
            accept_above: 0.0,
            revisions_max: 3,
            episodes_max: 8,
        }
    }
}

/// Who writes, and how.
#[derive(Clone)]
pub struct Writing {
    /// Proposes memories.
    pub writer: Arc<dyn Writer>,
    /// When they are admitted.
    pub settings: WritingSettings,
}

/// An episode that is over.
pub(super) struct Finished {
    /// Its place in the stream.
    pub(super) count: u64,
    pub(super) task: Task,
    pub(super) rollout: RolloutId,
    pub(super) set: MemorySet,
}

/// What writing came to.
#[derive(Default)]
pub(super) struct Written {
    /// Labels of the selected versions, and what happened.
    pub(super) entries: Vec<JournalEntry>,
    /// Memories that may be recalled once the entries are durable.
    pub(super) admitted: Vec<MemoryId>,
}

/// A memory on its way.
struct Attempt {
    count: u64,
    task: Task,
    reference: Reference,
    /// Texts that were injected into the episode: none of them is written again.
    injected: Vec<String>,
    /// The episode that the next version is written from.
    trajectory: Vec<TrajectoryStep>,
    outcome: EpisodeOutcome,
    revision: Revision,
    versions: Vec<Version>,
    tokens: u64,
}

struct Version {
    id: MemoryId,
    text: String,
    /// Once it was validated.
    seen: Option<(Rollout, Outcome, f64)>,
}

/// How an attempt ended, for the record.
struct Ended {
    attempt: Attempt,
    selected: Option<SelectedVersion>,
    why: String,
}

impl Running<'_> {
    /// Writes about some of these episodes and validates what was written. `references` are those of this step.
    pub(super) async fn write_memories(
        &mut self,
        step: u64,
        episodes: Vec<Finished>,
        references: &BTreeMap<TaskId, Reference>,
    ) -> Result<Written> {
        let Some(writing) = self.trainer.writing.clone() else {
            return Ok(Written::default());
        };
        let rule = RevisionRule {
            accept_above: Uplift::new(writing.settings.accept_above)?,
            revisions_max: writing.settings.revisions_max,
        };
        let mut open = Vec::new();
        for episode in episodes {
            if open.len() == writing.settings.episodes_max {
                break;
            }
            let known = references.get(&episode.task.id);
            let Some(reference) = known
                .or_else(|| self.state.references.get(&episode.task.id))
                .cloned()
            else {
                continue;
            };
            if let Some(attempt) = self.attempt(episode, reference, rule).await? {
                open.push(attempt);
            }
        }
        let mut ended = Vec::new();
        while !open.is_empty() {
            let mut drafted = Vec::new();
            for attempt in open {
                match self.draft(&writing, attempt).await? {
                    Ok(attempt) => drafted.push(attempt),
                    Err(over) => ended.push(over),
                }
            }
            open = self.validate(drafted, &mut ended).await?;
        }
        self.concluded(step, ended)
    }

    /// An episode with what it showed; `None` if it showed nothing.
    async fn attempt(
        &self,
        episode: Finished,
        reference: Reference,
        rule: RevisionRule,
    ) -> Result<Option<Attempt>> {
        let trainer = self.trainer;
        let Some(stored) = trainer.store.report(&trainer.scope, episode.rollout).await? else {
            return Ok(None);
        };
        if stored.report.trajectory.is_empty() {
            return Ok(None);
        }
        let injected = trainer.texts.memories(episode.set.members()).await?;
        Ok(Some(Attempt {
            count: episode.count,
            task: episode.task,
            reference,
            injected: injected.iter().map(|memory| memory.text.clone()).collect(),
            outcome: self.outcome(&stored.report.outcome),
            trajectory: stored.report.trajectory,
            revision: Revision::new(rule),
            versions: Vec::new(),
            tokens: 0,
        }))
    }

    fn outcome(&self, outcome: &Outcome) -> EpisodeOutcome {
        let performance = outcome.performance.get();
        EpisodeOutcome {
            success: performance >= self.trainer.settings.utility.performance_threshold,
            performance,
        }
    }

    /// Gets the next version of an attempt: the stored one, or a new one.
    async fn draft(&self, writing: &Writing, mut attempt: Attempt) -> Result<Result<Attempt, Ended>> {
        let version = attempt.versions.len();
        let id = self.seeds.memory(attempt.count, version as u64);
        let trainer = self.trainer;
        if let Some(stored) = trainer.store.memories(&trainer.scope, &[id]).await?.pop() {
            attempt.versions.push(Version {
                id,
                text: stored.memory.text,
                seen: None,
            });
            return Ok(Ok(attempt));
        }
        let proposed = self.propose(writing, &attempt).await;
        let draft = match proposed {
            Ok(draft) => draft,
            Err(WriterError::Chat(ChatError::Unavailable(problem))) => {
                return Err(Error::Executor {
                    executor: writing.writer.name().to_owned(),
                    problem,
                });
            }
            Err(error) => return Ok(Err(Ended::with_best(attempt, error.to_string()))),
        };
        attempt.tokens += draft.usage.prompt_tokens + draft.usage.completion_tokens;
        if let Some(other) = self.repeats(&attempt, &draft.text).await? {
            return Ok(Err(Ended::with_best(attempt, other)));
        }
        let mut provenance = serde_json::Map::new();
        provenance.insert("writer".into(), json!(writing.writer.name()));
        provenance.insert("run".into(), json!(trainer.run));
        provenance.insert("version".into(), json!(version));
        let mut new = NewMemory::note(id, draft.text.clone());
        new.memory.tokens = estimated_tokens(&draft.text);
        new.memory.source_task = Some(attempt.task.id);
        new.kind = if attempt.outcome.success {
            "procedure"
        } else {
            "reflection"
        }
        .into();
        new.provenance = provenance;
        new.quarantine = Some(REASON.into());
        let batch = trainer.texts.with_vectors(vec![new]).await?;
        let stored = trainer
            .store
            .add_memories(&trainer.scope, Timestamp::now(), batch)
            .await?;
        let refused = stored.into_iter().find_map(|item| match item.status {
            ItemStatus::Duplicate { of } => Some(format!("memory {of} has the same text")),
            ItemStatus::Failed { reason } => Some(reason),
            ItemStatus::Stored | ItemStatus::Quarantined { .. } => None,
        });
        if let Some(refused) = refused {
            return Ok(Err(Ended::with_best(attempt, refused)));
        }
        attempt.versions.push(Version {
            id,
            text: draft.text,
            seen: None,
        });
        Ok(Ok(attempt))
    }

    async fn propose(
        &self,
        writing: &Writing,
        attempt: &Attempt,
    ) -> Result<upliftmem_agent::Draft, WriterError> {
        let task = PublicTask::of(&attempt.task);
        let episode = Episode {
            task: &task,
            trajectory: &attempt.trajectory,
            outcome: attempt.outcome,
            steps_max: self.trainer.settings.utility.cost_max as usize,
            references: &[],
        };
        let seed = self
            .seeds
            .memory(attempt.count, attempt.versions.len() as u64)
            .as_u128() as u64;
        match attempt.versions.last() {
            None => writing.writer.write(episode, seed).await,
            Some(latest) => {
                let utility = latest.seen.as_ref().map_or(0.0, |(_, _, utility)| *utility);
                let memory = ValidatedMemory {
                    text: &latest.text,
                    utility,
                    baseline: attempt.reference.utility.get(),
                    accept_above: writing.settings.accept_above,
                };
                writing.writer.revise(episode, memory, seed).await
            }
        }
    }

    /// Whether a draft says what a memory says already, and which.
    async fn repeats(&self, attempt: &Attempt, text: &str) -> Result<Option<String>> {
        let injected = attempt.injected.iter().map(String::as_str);
        if is_near_duplicate(text, injected) {
            return Ok(Some("it repeats a memory that was injected".into()));
        }
        let texts = &self.trainer.texts;
        let Some(embedding) = texts.embed(vec![text.to_owned()]).await?.pop() else {
            return Ok(None);
        };
        let query = KnownTask {
            task: Task::new("draft", text),
            embedding,
        };
        let mut settings = self.trainer.settings.retrieval.clone();
        settings.candidates = COMPARED;
        let similar = texts.recall(&query, &settings).await?;
        Ok(similar
            .ranked
            .iter()
            .find(|memory| is_near_duplicate(text, [memory.text.as_str()]))
            .map(|memory| format!("memory {} says the same", memory.id)))
    }

    /// Executes the latest version of each, alone on its source task; those that are to be revised stay open.
    async fn validate(&mut self, drafted: Vec<Attempt>, ended: &mut Vec<Ended>) -> Result<Vec<Attempt>> {
        let executor = self.trainer.rollouts.executor.name().to_owned();
        let wanted: Vec<Rollout> = drafted
            .iter()
            .filter_map(|attempt| {
                let latest = attempt.versions.last()?;
                let place = (attempt.count, attempt.versions.len() as u64 - 1);
                let set = std::iter::once(latest.id).collect();
                Some(
                    self.seeds
                        .rollout(Purpose::Validation, place, &executor, attempt.task.id, &set),
                )
            })
            .collect();
        let affordable = self.affordable(&wanted);
        let settled = self.settle("validation", &wanted[..affordable]).await?;
        let mut open = Vec::new();
        for (mut attempt, rollout) in drafted.into_iter().zip(wanted) {
            let outcome = match settled.get(&rollout.id) {
                Some(Settled::Done(outcome)) => *outcome,
                Some(Settled::Failed(reason)) => {
                    ended.push(Ended::with_best(attempt, format!("validation failed: {reason}")));
                    continue;
                }
                None => {
                    ended.push(Ended::with_best(attempt, "the budget is spent".into()));
                    continue;
                }
            };
            let utility = self.trainer.rollouts.worth(&outcome)?.get();
            let uplift = Uplift::new(utility - attempt.reference.utility.get())?;
            if let Some(report) = self.trainer.store.report(&self.trainer.scope, rollout.id).await? {
                attempt.trajectory = report.report.trajectory;
            }
            attempt.outcome = self.outcome(&outcome);
            if let Some(latest) = attempt.versions.last_mut() {
                latest.seen = Some((rollout, outcome, utility));
            }
            match attempt.revision.observe(uplift)? {
                RevisionStep::Revise { .. } => open.push(attempt),
                RevisionStep::Done(selected) => ended.push(Ended {
                    why: if selected.admitted {
                        "admitted"
                    } else {
                        "no version helped"
                    }
                    .into(),
                    attempt,
                    selected: Some(selected),
                }),
            }
        }
        Ok(open)
    }

    /// Labels of the selected versions, and the record of all.
    fn concluded(&self, step: u64, mut ended: Vec<Ended>) -> Result<Written> {
        ended.sort_by_key(|end| end.attempt.count);
        let mut written = Written::default();
        let mut records = Vec::new();
        for end in &ended {
            let selected = end
                .selected
                .and_then(|selected| Some((selected, end.attempt.versions.get(selected.version)?)));
            if let Some((selected, version)) = selected {
                if let Some((rollout, outcome, _)) = &version.seen {
                    let id = self.seeds.observation(rollout.id);
                    let utility = self.trainer.rollouts.worth(outcome)?;
                    let seen = Observation::new(id, rollout, utility, &end.attempt.reference)?;
                    written.entries.push(JournalEntry::Observation(seen));
                }
                if selected.admitted {
                    written.admitted.push(version.id);
                }
            }
            records.push(end.record());
        }
        if !ended.is_empty() {
            written.entries.push(self.state.event(
                &format!("write/{step}"),
                "write",
                json!({ "admitted": written.admitted, "records": records }),
            ));
        }
        Ok(written)
    }

    /// Makes admitted memories visible. Those that somebody else has put aside meanwhile stay where they are.
    pub(super) async fn admit(&self, admitted: &[MemoryId]) -> Result<()> {
        let (store, scope) = (&self.trainer.store, &self.trainer.scope);
        for memory in store.memories(scope, admitted).await? {
            let ours = memory.quarantine_reason.as_deref() == Some(REASON);
            if memory.status == MemoryStatus::Quarantined && ours {
                store
                    .release_memory(scope, Timestamp::now(), memory.memory.id)
                    .await?;
            }
        }
        Ok(())
    }
}

impl Ended {
    /// The best version so far stands for the memory.
    fn with_best(attempt: Attempt, why: String) -> Self {
        Self {
            selected: attempt.revision.best(),
            attempt,
            why,
        }
    }

    fn record(&self) -> Value {
        let versions: Vec<Value> = self
            .attempt
            .versions
            .iter()
            .map(|version| {
                let uplift = version
                    .seen
                    .as_ref()
                    .map(|(_, _, utility)| utility - self.attempt.reference.utility.get());
                json!({ "id": version.id, "text": version.text, "uplift": uplift })
            })
            .collect();
        json!({
            "task": self.attempt.task.name,
            "versions": versions,
            "selected": self.selected,
            "end": self.why,
            "tokens": self.attempt.tokens,
        })
    }
}
