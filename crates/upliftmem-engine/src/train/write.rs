//! Writing memories from episodes, and validating them by execution. Paper: WriteMemory, app. writing.
//!
//! A draft is stored out of recall before it is executed, under a name that depends on the episode and the version alone:
//! a run that was killed finds its drafts and their validations, and asks for neither again. What is admitted becomes
//! visible only after the step that it belongs to is durable.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use upliftmem_agent::{
    Draft, Writer, WriterError,
    chat::{ChatError, Usage},
    is_near_duplicate,
    prompts::{Episode, Outcome as EpisodeOutcome, PublicTask, ValidatedMemory},
    transcript,
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
/// Of these, so many are shown to the writer.
const RELATED: usize = 3;
/// Characters of an episode of another task that the writer is shown.
const RELATED_CHARS: usize = 700;

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
    /// What is known of similar tasks.
    related: Vec<String>,
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
            let drafted = self.drafts(&writing, open, &mut ended).await?;
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
        let related = self.related(&episode.task).await?;
        Ok(Some(Attempt {
            count: episode.count,
            task: episode.task,
            reference,
            injected: injected.iter().map(|memory| memory.text.clone()).collect(),
            related,
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

    /// What is known of similar tasks: memories, those of tasks of the same type first, and how a task of the same type was
    /// done. Of tasks without a type nothing says what is related to them: what is only the most similar of what there is, a
    /// small model writes down again (docs/results-llm.md).
    async fn related(&self, task: &Task) -> Result<Vec<String>> {
        let trainer = self.trainer;
        let Some(kind) = PublicTask::of(task).kind().map(str::to_owned) else {
            return Ok(Vec::new());
        };
        let of_kind = |other: &Task| PublicTask::of(other).kind() == Some(kind.as_str());
        let mut settings = trainer.settings.retrieval.clone();
        settings.candidates = COMPARED;
        let mut related = Vec::new();
        if let Some(known) = trainer.texts.tasks(std::slice::from_ref(task)).await?.pop() {
            let offer = trainer.texts.recall(&known, &settings).await?;
            let ids: Vec<MemoryId> = offer.ranked.iter().map(|memory| memory.id).collect();
            let stored = trainer.store.memories(&trainer.scope, &ids).await?;
            let same_kind = |id: MemoryId| {
                let found = stored.iter().find(|memory| memory.memory.id == id);
                let source = found.and_then(|memory| memory.memory.source_task);
                source
                    .and_then(|source| self.tasks.get(&source))
                    .is_some_and(of_kind)
            };
            let mut ranked = offer.ranked;
            ranked.sort_by_key(|memory| !same_kind(memory.id));
            related.extend(ranked.iter().take(RELATED).map(|memory| memory.text.clone()));
        }
        // The best one is the one that may have succeeded.
        let best = self
            .state
            .references
            .values()
            .filter(|reference| reference.task != task.id)
            .filter_map(|reference| Some((reference, self.tasks.get(&reference.task)?)))
            .filter(|(_, other)| of_kind(other))
            .max_by(|(left, _), (right, _)| left.utility.get().total_cmp(&right.utility.get()));
        if let Some((reference, other)) = best
            && let Some(stored) = trainer.store.report(&trainer.scope, reference.id.into()).await?
            && self.outcome(&stored.report.outcome).success
            && !stored.report.trajectory.is_empty()
        {
            let shown = transcript(&stored.report.trajectory, RELATED_CHARS);
            related.push(format!(
                "A task of the same type, done without memories: {}\n{shown}",
                excerpt(&other.context)
            ));
        }
        Ok(related)
    }

    /// Gets the next version of every attempt, the stored one or a new one, in order.
    async fn drafts(
        &self,
        writing: &Writing,
        open: Vec<Attempt>,
        ended: &mut Vec<Ended>,
    ) -> Result<Vec<Attempt>> {
        let trainer = self.trainer;
        let (mut waiting, mut asked) = (Vec::new(), Vec::new());
        for mut attempt in open {
            let id = self.version_id(&attempt);
            let stored = trainer.store.memories(&trainer.scope, &[id]).await?.pop();
            let is_stored = stored.is_some();
            if let Some(stored) = stored {
                attempt.versions.push(Version {
                    id,
                    text: stored.memory.text,
                    seen: None,
                });
            } else {
                asked.push(self.asked(writing, &attempt));
            }
            waiting.push((attempt, is_stored));
        }
        let at_once = trainer.settings.execution.concurrency;
        let mut proposed = proposals(asked, at_once).await?.into_iter();
        let (mut drafted, mut unavailable) = (Vec::new(), None);
        for (attempt, is_stored) in waiting {
            if is_stored {
                drafted.push(attempt);
                continue;
            }
            let proposed = proposed
                .next()
                .ok_or_else(|| Error::Internal("a proposal is missing".into()))?;
            match proposed {
                // What others brought back at the same time is kept before the bad news is told.
                Err(WriterError::Chat(ChatError::Unavailable(problem))) => unavailable = Some(problem),
                proposed => match self.keep(writing, attempt, proposed).await? {
                    Ok(attempt) => drafted.push(attempt),
                    Err(over) => ended.push(over),
                },
            }
        }
        match unavailable {
            None => Ok(drafted),
            Some(problem) => Err(Error::Executor {
                executor: writing.writer.name().to_owned(),
                problem,
            }),
        }
    }

    /// The name of the next version of an attempt.
    fn version_id(&self, attempt: &Attempt) -> MemoryId {
        self.seeds.memory(attempt.count, attempt.versions.len() as u64)
    }

    /// Stores a draft as the next version of its attempt, unless it is none.
    async fn keep(
        &self,
        writing: &Writing,
        mut attempt: Attempt,
        proposed: Result<Draft, WriterError>,
    ) -> Result<Result<Attempt, Ended>> {
        let trainer = self.trainer;
        let usage = match &proposed {
            Ok(draft) => draft.usage,
            // It was paid for all the same.
            Err(WriterError::Malformed { usage, .. }) => *usage,
            Err(WriterError::Chat(_)) => Usage::default(),
        };
        attempt.tokens += usage.prompt_tokens + usage.completion_tokens;
        let draft = match proposed {
            Ok(draft) => draft,
            Err(error) => return Ok(Err(Ended::with_best(attempt, error.to_string()))),
        };
        if let Some(other) = self.repeats(&attempt, &draft.text).await? {
            return Ok(Err(Ended::with_best(attempt, other)));
        }
        let (version, id) = (attempt.versions.len(), self.version_id(&attempt));
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
        let id = match stored.into_iter().next().map(|item| item.status) {
            // The same text did not help elsewhere; here it may.
            Some(ItemStatus::Duplicate { of }) if self.may_be_tried_again(&attempt, of).await? => of,
            Some(ItemStatus::Duplicate { of }) => {
                let why = format!("memory {of} has the same text");
                return Ok(Err(Ended::with_best(attempt, why)));
            }
            Some(ItemStatus::Failed { reason }) => return Ok(Err(Ended::with_best(attempt, reason))),
            Some(ItemStatus::Stored | ItemStatus::Quarantined { .. }) | None => id,
        };
        attempt.versions.push(Version {
            id,
            text: draft.text,
            seen: None,
        });
        Ok(Ok(attempt))
    }

    /// Whether a memory is out of recall only because it was not admitted, and no version of this attempt.
    async fn may_be_tried_again(&self, attempt: &Attempt, id: MemoryId) -> Result<bool> {
        let trainer = self.trainer;
        let stored = trainer.store.memories(&trainer.scope, &[id]).await?.pop();
        let is_put_aside = stored.is_some_and(|memory| {
            memory.status == MemoryStatus::Quarantined && memory.quarantine_reason.as_deref() == Some(REASON)
        });
        Ok(is_put_aside && attempt.versions.iter().all(|version| version.id != id))
    }

    /// What the writer is asked for next.
    fn asked(&self, writing: &Writing, attempt: &Attempt) -> Asked {
        let current = attempt.versions.last().map(|latest| Current {
            text: latest.text.clone(),
            utility: latest.seen.as_ref().map_or(0.0, |(_, _, utility)| *utility),
            baseline: attempt.reference.utility.get(),
            accept_above: writing.settings.accept_above,
        });
        Asked {
            writer: Arc::clone(&writing.writer),
            task: PublicTask::of(&attempt.task),
            trajectory: attempt.trajectory.clone(),
            outcome: attempt.outcome,
            steps_max: self.trainer.rollouts.executor.steps_max(),
            related: attempt.related.clone(),
            current,
            seed: self.version_id(attempt).as_u128() as u64,
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
        let mut texts: Vec<(MemoryId, String)> = Vec::new();
        for end in &mut ended {
            end.give_way(&mut texts);
        }
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

/// What the writer is asked for: all that it needs, so that many can be asked at once.
struct Asked {
    writer: Arc<dyn Writer>,
    task: PublicTask,
    trajectory: Vec<TrajectoryStep>,
    outcome: EpisodeOutcome,
    steps_max: Option<usize>,
    related: Vec<String>,
    /// The version that is to be revised, if there is one.
    current: Option<Current>,
    seed: u64,
}

/// A version that was validated.
struct Current {
    text: String,
    utility: f64,
    baseline: f64,
    accept_above: f64,
}

impl Asked {
    async fn propose(self) -> Result<Draft, WriterError> {
        let episode = Episode {
            task: &self.task,
            trajectory: &self.trajectory,
            outcome: self.outcome,
            steps_max: self.steps_max,
            references: &self.related,
        };
        match &self.current {
            None => self.writer.write(episode, self.seed).await,
            Some(current) => {
                let memory = ValidatedMemory {
                    text: &current.text,
                    utility: current.utility,
                    baseline: current.baseline,
                    accept_above: current.accept_above,
                };
                self.writer.revise(episode, memory, self.seed).await
            }
        }
    }
}

/// Asks for all of these, so many at once, and gives what came back in the order of the questions.
async fn proposals(asked: Vec<Asked>, at_once: usize) -> Result<Vec<Result<Draft, WriterError>>> {
    let mut answers: Vec<Option<Result<Draft, WriterError>>> = asked.iter().map(|_| None).collect();
    let mut waiting = asked.into_iter().enumerate();
    let mut running = JoinSet::new();
    loop {
        while running.len() < at_once.max(1)
            && let Some((place, asked)) = waiting.next()
        {
            running.spawn(async move { (place, asked.propose().await) });
        }
        let Some(ended) = running.join_next().await else {
            break;
        };
        let (place, answer) = ended.map_err(|error| Error::Internal(format!("a writer stopped: {error}")))?;
        answers[place] = Some(answer);
    }
    Ok(answers.into_iter().flatten().collect())
}

/// The beginning of a task.
fn excerpt(context: &str) -> String {
    context.chars().take(200).collect()
}

impl Ended {
    /// Of memories of a batch that say the same, only the first is admitted; the others stay labels.
    fn give_way(&mut self, admitted: &mut Vec<(MemoryId, String)>) {
        let Some(selected) = self.selected.as_mut().filter(|selected| selected.admitted) else {
            return;
        };
        let Some(version) = self.attempt.versions.get(selected.version) else {
            return;
        };
        let other = admitted
            .iter()
            .find(|(_, text)| is_near_duplicate(&version.text, [text.as_str()]));
        match other {
            Some((id, _)) => {
                selected.admitted = false;
                self.why = format!("memory {id}, which is admitted, says the same");
            }
            None => admitted.push((version.id, version.text.clone())),
        }
    }

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
