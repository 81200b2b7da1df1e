//! Set networks on disk: parameters and optimiser of every member, and where training stands.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};
use upliftmem_core::MemoryId;

use super::{
    CheckpointError, CheckpointKind, Manifest, Provenance,
    files::{MODEL, Tensor, Tensors, Verified, tensor_bytes, write},
};
use crate::{
    Ensemble, NetworkModel, NetworkSettings, ScorerVersion, Trainer, TrainerSettings,
    embedder::Generation,
    network::{Adam, Body, Frame, Parameters, Part, State},
    trainer::{TrainableModel, upcast},
};

/// What the tensors do not say.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    trainer: TrainerSettings,
    version: u64,
    scale: f64,
    members: Vec<MemberDetails>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberDetails {
    settings: NetworkSettings,
    seed: u64,
    /// `None` for a member that has seen nothing yet.
    state: Option<StateDetails>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateDetails {
    /// Entries of a text.
    dimension: usize,
    relevance_mean: f64,
    relevance_sd: f64,
    unit: f64,
    /// Known memories in the order of their identities.
    memories: Vec<MemoryId>,
    steps: u64,
}

/// What a network checkpoint gives back.
pub struct LoadedNetwork {
    /// The version as it was published.
    pub scorer: Arc<Ensemble>,
    /// Training goes on from here as if it had never stopped.
    pub trainer: Trainer<NetworkModel>,
    /// What the checkpoint says about itself.
    pub manifest: Manifest,
}

impl Trainer<NetworkModel> {
    /// Writes the networks and their optimisers to a directory that must not exist yet.
    pub fn save(&self, directory: &Path, provenance: &Provenance) -> Result<Manifest, CheckpointError> {
        let mut tensors = Vec::new();
        let members = self
            .models
            .iter()
            .enumerate()
            .map(|(member, model)| member_details(member, model, &mut tensors))
            .collect();
        let details = Details {
            trainer: self.settings,
            version: self.version,
            scale: self.scale,
            members,
        };
        let details = serde_json::to_value(details).map_err(|error| CheckpointError::Io {
            file: directory.to_owned(),
            problem: format!("can not be written: {error}"),
        })?;
        let model = tensor_bytes(&directory.join(MODEL), &tensors)?;
        let kind = CheckpointKind::Network;
        let manifest = Manifest::new(kind, ScorerVersion(self.version), provenance, &model, details);
        write(directory, &manifest, &model)?;
        Ok(manifest)
    }

    /// Reads what [`Trainer::save`] wrote. An embedder that is named must be the one it was trained with.
    pub fn load(directory: &Path, embedder: Option<&Generation>) -> Result<LoadedNetwork, CheckpointError> {
        let verified = Verified::read(directory, CheckpointKind::Network, embedder)?;
        let details: Details = serde_json::from_value(verified.manifest.details.clone())
            .map_err(|error| CheckpointError::damaged(&verified.file, error))?;
        let wrong = |source| CheckpointError::Scorer {
            file: verified.file.clone(),
            source,
        };
        let tensors = verified.tensors()?;
        let mut models = Vec::with_capacity(details.members.len());
        for (member, details) in details.members.into_iter().enumerate() {
            let mut model = NetworkModel::new(details.settings, details.seed).map_err(wrong)?;
            if let Some(state) = details.state {
                model.state = Some(read_state(member, details.settings, state, &tensors)?);
            }
            models.push(model);
        }
        let version = ScorerVersion(details.version);
        let members: Vec<_> = models
            .iter()
            .map(|model| model.publish(version, details.scale))
            .collect::<crate::Result<_>>()
            .map_err(wrong)?;
        let mut trainer = Self::new(details.trainer, models).map_err(wrong)?;
        trainer.version = details.version;
        trainer.scale = details.scale;
        Ok(LoadedNetwork {
            scorer: Arc::new(Ensemble::new(version, upcast(&members)).map_err(wrong)?),
            trainer,
            manifest: verified.manifest,
        })
    }
}

/// The three tensors that are kept of every part.
const PARAMETERS: &str = "parameters";
const MEAN: &str = "adam.mean";
const SQUARE: &str = "adam.square";
/// The centres of texts.
const TASK_MEAN: &str = "frame.task_mean";
const MEMORY_MEAN: &str = "frame.memory_mean";

fn tensor_name(member: usize, of: &str, part: Part) -> String {
    format!("members.{member}.{of}.{}", part.name())
}

fn member_details(member: usize, model: &NetworkModel, tensors: &mut Vec<Tensor>) -> MemberDetails {
    let state = model.state.as_ref().map(|state| {
        let body = &state.body;
        let (dimension, count) = (body.frame.dimension(), body.slots.len());
        for (of, values) in [
            (PARAMETERS, &body.parameters),
            (MEAN, &state.adam.mean),
            (SQUARE, &state.adam.square),
        ] {
            for part in Part::ALL {
                let shape = part.shape(&body.settings, dimension, count);
                tensors.push(Tensor::f64(tensor_name(member, of, part), shape, &values[part]));
            }
        }
        let by_slot: BTreeMap<usize, MemoryId> = body.slots.iter().map(|(&id, &slot)| (slot, id)).collect();
        for (of, mean) in [
            (TASK_MEAN, &body.frame.task_mean),
            (MEMORY_MEAN, &body.frame.memory_mean),
        ] {
            tensors.push(Tensor::f64(
                format!("members.{member}.{of}"),
                vec![dimension],
                mean,
            ));
        }
        StateDetails {
            dimension,
            relevance_mean: body.frame.relevance_mean,
            relevance_sd: body.frame.relevance_sd,
            unit: body.frame.unit,
            memories: by_slot.into_values().collect(),
            steps: state.adam.steps,
        }
    });
    MemberDetails {
        settings: model.settings,
        seed: model.seed,
        state,
    }
}

fn read_state(
    member: usize,
    settings: NetworkSettings,
    details: StateDetails,
    tensors: &Tensors<'_>,
) -> Result<State, CheckpointError> {
    let (dimension, count) = (details.dimension, details.memories.len());
    let zero = Parameters::zero(&settings, dimension, count);
    let read = |of: &str| -> Result<Parameters, CheckpointError> {
        let mut values = zero.clone();
        for part in Part::ALL {
            let shape = part.shape(&settings, dimension, count);
            values[part] = tensors.f64(&tensor_name(member, of, part), &shape)?;
        }
        Ok(values)
    };
    Ok(State {
        body: Body {
            settings,
            frame: Frame {
                task_mean: tensors.f64(&format!("members.{member}.{TASK_MEAN}"), &[dimension])?,
                memory_mean: tensors.f64(&format!("members.{member}.{MEMORY_MEAN}"), &[dimension])?,
                relevance_mean: details.relevance_mean,
                relevance_sd: details.relevance_sd,
                unit: details.unit,
            },
            slots: details
                .memories
                .into_iter()
                .enumerate()
                .map(|(slot, id)| (id, slot))
                .collect(),
            parameters: read(PARAMETERS)?,
        },
        adam: Adam {
            steps: details.steps,
            mean: read(MEAN)?,
            square: read(SQUARE)?,
        },
        gradient: zero.clone(),
    })
}
