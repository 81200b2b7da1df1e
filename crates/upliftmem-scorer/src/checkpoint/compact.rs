//! The compact scorer on disk: what it was told, in order, and the hyper-parameters. Loading conditions on the labels
//! again, which gives the same bits.

use std::{path::Path, sync::Arc};

use serde::{Deserialize, Serialize};
use upliftmem_core::{MemoryId, ReferenceId, TaskId};

use super::{
    CheckpointError, CheckpointKind, Manifest, Provenance,
    files::{MODEL, Tensor, Tensors, Verified, tensor_bytes, write},
};
use crate::{
    CompactLearner, CompactScorer, CompactSettings, Embedding, ScorerVersion,
    compact::{CompactParts, Fitted, LabelParts},
    embedder::Generation,
};

/// What the tensors do not say.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    settings: CompactSettings,
    version: u64,
    dimension: usize,
    tasks: Vec<TaskId>,
    memories: Vec<MemoryId>,
    references: Vec<ReferenceId>,
    labels: usize,
    members: usize,
    fitted: Option<Fitted>,
}

/// What a checkpoint of the compact scorer gives back.
pub struct LoadedCompact {
    /// The version as it was published last; the first, if none ever was.
    pub scorer: Arc<CompactScorer>,
    /// Learning goes on from here as if it had never stopped.
    pub learner: CompactLearner,
    /// What the checkpoint says about itself.
    pub manifest: Manifest,
}

const TASKS: &str = "tasks.embedding";
const MEMORIES: &str = "memories.embedding";
const VALUES: &str = "labels.value";
const TIMES: &str = "labels.time";
const TASK_OF: &str = "labels.task";
const REFERENCE_OF: &str = "labels.reference";
const OBSERVED: &str = "labels.observed";
const SIZES: &str = "labels.size";
const MEMBERS: &str = "labels.members";
/// Stands for a label without a reference.
const NO_REFERENCE: u32 = u32::MAX;

impl CompactLearner {
    /// Writes the learner to a directory that must not exist yet.
    pub fn save(&self, directory: &Path, provenance: &Provenance) -> Result<Manifest, CheckpointError> {
        let parts = self.to_parts();
        let labels = &parts.labels;
        let members: Vec<u32> = labels.iter().flat_map(|label| label.memories.clone()).collect();
        let numbers = |number: &dyn Fn(&LabelParts) -> u32| labels.iter().map(number).collect::<Vec<u32>>();
        let reals = |real: &dyn Fn(&LabelParts) -> f64| labels.iter().map(real).collect::<Vec<f64>>();
        let dimension = parts.tasks.iter().map(|(_, text)| text.dimension()).next();
        let dimension = dimension
            .or_else(|| parts.memories.iter().map(|(_, text)| text.dimension()).next())
            .unwrap_or(0);
        let size = |label: &LabelParts| u32::try_from(label.memories.len()).unwrap_or(u32::MAX);
        let tensors = [
            texts(TASKS, dimension, parts.tasks.iter().map(|(_, text)| text)),
            texts(MEMORIES, dimension, parts.memories.iter().map(|(_, text)| text)),
            Tensor::f64(VALUES, vec![labels.len()], &reals(&|label| label.value)),
            Tensor::f64(TIMES, vec![labels.len()], &reals(&|label| label.time)),
            Tensor::u32(TASK_OF, &numbers(&|label| label.task)),
            Tensor::u32(
                REFERENCE_OF,
                &numbers(&|label| label.reference.unwrap_or(NO_REFERENCE)),
            ),
            Tensor::u32(OBSERVED, &numbers(&|label| u32::from(label.observed))),
            Tensor::u32(SIZES, &numbers(&size)),
            Tensor::u32(MEMBERS, &members),
        ];
        let details = Details {
            settings: parts.settings,
            version: parts.version,
            dimension,
            tasks: parts.tasks.iter().map(|(id, _)| *id).collect(),
            memories: parts.memories.iter().map(|(id, _)| *id).collect(),
            references: parts.references,
            labels: labels.len(),
            members: members.len(),
            fitted: parts.fitted,
        };
        let details = serde_json::to_value(details).map_err(|error| CheckpointError::Io {
            file: directory.to_owned(),
            problem: format!("can not be written: {error}"),
        })?;
        let model = tensor_bytes(&directory.join(MODEL), &tensors)?;
        let kind = CheckpointKind::Compact;
        let manifest = Manifest::new(kind, ScorerVersion(parts.version), provenance, &model, details);
        write(directory, &manifest, &model)?;
        Ok(manifest)
    }

    /// Reads what [`CompactLearner::save`] wrote. An embedder that is named must be the one it was made with.
    pub fn load(directory: &Path, embedder: Option<&Generation>) -> Result<LoadedCompact, CheckpointError> {
        let verified = Verified::read(directory, CheckpointKind::Compact, embedder)?;
        let details: Details = serde_json::from_value(verified.manifest.details.clone())
            .map_err(|error| CheckpointError::damaged(&verified.file, error))?;
        let labels = read_labels(&verified, &details)?;
        let tensors = verified.tensors()?;
        let tasks = read_texts(&verified, &tensors, TASKS, &details.tasks, details.dimension)?;
        let memories = read_texts(
            &verified,
            &tensors,
            MEMORIES,
            &details.memories,
            details.dimension,
        )?;
        let parts = CompactParts {
            settings: details.settings,
            // Publishing counts up to the version that was saved.
            version: details.version.saturating_sub(1),
            tasks,
            memories,
            references: details.references,
            labels,
            fitted: details.fitted,
        };
        let mut learner = Self::from_parts(&parts).map_err(|source| CheckpointError::Scorer {
            file: verified.file.clone(),
            source,
        })?;
        Ok(LoadedCompact {
            scorer: learner.publish(),
            learner,
            manifest: verified.manifest,
        })
    }
}

fn texts<'a>(name: &str, dimension: usize, texts: impl Iterator<Item = &'a Embedding>) -> Tensor {
    let values: Vec<f32> = texts.flat_map(|text| text.values().iter().copied()).collect();
    Tensor::f32(name, vec![values.len() / dimension.max(1), dimension], &values)
}

fn read_texts<I: Copy>(
    verified: &Verified,
    tensors: &Tensors<'_>,
    name: &str,
    ids: &[I],
    dimension: usize,
) -> Result<Vec<(I, Embedding)>, CheckpointError> {
    let values = tensors.f32(name, &[ids.len(), dimension])?;
    ids.iter()
        .zip(values.chunks_exact(dimension.max(1)))
        .map(|(&id, text)| {
            let text = Embedding::from_unit(text).map_err(|error| {
                CheckpointError::damaged(&verified.file, format_args!("tensor {name:?}: {error}"))
            })?;
            Ok((id, text))
        })
        .collect()
}

fn read_labels(verified: &Verified, details: &Details) -> Result<Vec<LabelParts>, CheckpointError> {
    let tensors = verified.tensors()?;
    let count = details.labels;
    let values = tensors.f64(VALUES, &[count])?;
    let times = tensors.f64(TIMES, &[count])?;
    let tasks = tensors.u32(TASK_OF, count)?;
    let references = tensors.u32(REFERENCE_OF, count)?;
    let observed = tensors.u32(OBSERVED, count)?;
    let sizes = tensors.u32(SIZES, count)?;
    let members = tensors.u32(MEMBERS, details.members)?;
    let mut rest = members.as_slice();
    let mut labels = Vec::with_capacity(count);
    for at in 0..count {
        let Some((own, later)) = rest.split_at_checked(sizes[at] as usize) else {
            return Err(CheckpointError::damaged(
                &verified.file,
                format_args!("tensor {SIZES:?} names more members than there are"),
            ));
        };
        rest = later;
        labels.push(LabelParts {
            task: tasks[at],
            memories: own.to_vec(),
            value: values[at],
            reference: (references[at] != NO_REFERENCE).then_some(references[at]),
            time: times[at],
            observed: observed[at] != 0,
        });
    }
    Ok(labels)
}
