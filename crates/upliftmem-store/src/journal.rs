//! What is written once and never changed: references, labels, paths, retrievals, batches, scorers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use upliftmem_core::{
    CandidatePool, MemorySet, Observation, ProbeBatchId, Reference, RetrievalId, RetrievalPath, RolloutId,
    TaskId, Uplift,
};

use crate::Timestamp;

/// One line of a scope's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "entry", rename_all = "snake_case")]
pub enum JournalEntry {
    /// A no-memory execution that labels are measured against.
    Reference(Reference),
    /// An uplift label. Paper: an element of D_v.
    Observation(Observation),
    /// A sampled path. Paper: an element of D_pi.
    Path(RecordedPath),
    /// An answered retrieval: the injection log.
    Retrieval(RetrievalRecord),
    /// A batch of probes with the decision behind it.
    ProbeBatch(ProbeBatchRecord),
    /// A state of a scorer.
    ScorerVersion(ScorerVersion),
    /// Something that happened to learning.
    TrainingEvent(TrainingEvent),
}

/// The kinds of [`JournalEntry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// See [`JournalEntry::Reference`].
    Reference,
    /// See [`JournalEntry::Observation`].
    Observation,
    /// See [`JournalEntry::Path`].
    Path,
    /// See [`JournalEntry::Retrieval`].
    Retrieval,
    /// See [`JournalEntry::ProbeBatch`].
    ProbeBatch,
    /// See [`JournalEntry::ScorerVersion`].
    ScorerVersion,
    /// See [`JournalEntry::TrainingEvent`].
    TrainingEvent,
}

impl EntryKind {
    /// The word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Observation => "observation",
            Self::Path => "path",
            Self::Retrieval => "retrieval",
            Self::ProbeBatch => "probe_batch",
            Self::ScorerVersion => "scorer_version",
            Self::TrainingEvent => "training_event",
        }
    }
}

/// A path with the execution that it led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPath {
    /// The run that sampled it; empty if it was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run: String,
    /// The execution of the terminal set; the reference, if that set is empty.
    pub rollout: RolloutId,
    /// Its place in the stream of its run, counted from 1; 0 if it has none. Several paths may end at one reference.
    #[serde(default)]
    pub count: u64,
    /// The task.
    pub task: TaskId,
    /// The scorer that sampled it, as `name@version`; a path is learned from under that version only.
    pub scorer: String,
    /// The memories it could choose from.
    pub pool: CandidatePool,
    /// States, masks and actions.
    pub path: RetrievalPath,
}

/// One answered retrieval with its trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetrievalRecord {
    /// Outcomes are reported against it.
    pub id: RetrievalId,
    /// The task, if the caller named one.
    pub task: Option<TaskId>,
    /// The text that was searched for.
    pub query: String,
    /// The memories that were offered.
    pub pool: CandidatePool,
    /// The memories that were returned; empty when it abstained.
    pub set: MemorySet,
    /// The uplift that was predicted for them.
    pub predicted_uplift: Uplift,
    /// The scorer that chose, as `name@version`.
    pub scorer: String,
    /// Gains, runners-up, timings: what `explain` shows.
    pub trace: Map<String, Value>,
}

/// One probe of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeRecord {
    /// The ticket that executes it.
    pub rollout: RolloutId,
    /// The task.
    pub task: TaskId,
    /// The set.
    pub set: MemorySet,
    /// What it was expected to add to the batch's value when it was picked. Paper: V_t(q).
    pub marginal_value: f64,
}

/// A batch of probes that were selected together, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeBatchRecord {
    /// The batch's name.
    pub id: ProbeBatchId,
    /// How it was selected (`evsi`, `random`, ...).
    pub strategy: String,
    /// The scorer whose belief was used, as `name@version`.
    pub scorer: String,
    /// Randomness of the selection.
    pub seed: u64,
    /// The probes in the order in which they were picked.
    pub probes: Vec<ProbeRecord>,
    /// Sizes of pool and family, temperature, caps that were hit.
    pub decision: Map<String, Value>,
}

/// One state of a scorer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScorerVersion {
    /// Which scorer.
    pub name: String,
    /// Its state, counted from 0.
    pub version: u64,
    /// Hash of its parameters.
    pub digest: String,
    /// Where the parameters are.
    pub location: String,
    /// Calibration, optimism, losses.
    pub metrics: Map<String, Value>,
}

/// Something that happened to learning: an update, an acquisition, a resumption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainingEvent {
    /// The caller's name for it, unique in the scope, so that it is recorded once.
    pub key: String,
    /// What happened.
    pub event: String,
    /// Anything else.
    pub detail: Map<String, Value>,
}

impl JournalEntry {
    /// Which kind it is.
    pub const fn kind(&self) -> EntryKind {
        match self {
            Self::Reference(_) => EntryKind::Reference,
            Self::Observation(_) => EntryKind::Observation,
            Self::Path(_) => EntryKind::Path,
            Self::Retrieval(_) => EntryKind::Retrieval,
            Self::ProbeBatch(_) => EntryKind::ProbeBatch,
            Self::ScorerVersion(_) => EntryKind::ScorerVersion,
            Self::TrainingEvent(_) => EntryKind::TrainingEvent,
        }
    }

    /// Its name, unique among the scope's entries of its kind.
    pub fn key(&self) -> String {
        match self {
            Self::Reference(entry) => entry.id.to_string(),
            Self::Observation(entry) => entry.id.to_string(),
            Self::Path(entry) if entry.run.is_empty() => format!("{}/{}", entry.rollout, entry.count),
            // Runs may share references, so their paths may end at one execution.
            Self::Path(entry) => format!("{}/{}/{}", entry.run, entry.rollout, entry.count),
            Self::Retrieval(entry) => entry.id.to_string(),
            Self::ProbeBatch(entry) => entry.id.to_string(),
            Self::ScorerVersion(entry) => format!("{}@{}", entry.name, entry.version),
            Self::TrainingEvent(entry) => entry.key.clone(),
        }
    }

    /// The task it is about, if it is about one.
    pub const fn task(&self) -> Option<TaskId> {
        match self {
            Self::Reference(entry) => Some(entry.task),
            Self::Observation(entry) => Some(entry.task),
            Self::Path(entry) => Some(entry.task),
            Self::Retrieval(entry) => entry.task,
            Self::ProbeBatch(_) | Self::ScorerVersion(_) | Self::TrainingEvent(_) => None,
        }
    }
}

/// An entry that is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Journaled {
    /// Its place in the scope's journal, counted from 1.
    pub sequence: u64,
    /// When it was written.
    pub at: Timestamp,
    /// The entry.
    #[serde(flatten)]
    pub entry: JournalEntry,
}

/// Which entries a listing shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JournalFilter {
    /// Only those of this kind.
    pub kind: Option<EntryKind>,
    /// Only those about this task.
    pub task: Option<TaskId>,
    /// Only those after this place.
    pub after: u64,
}
