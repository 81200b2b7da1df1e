//! Adapters in training on disk: parameters and optimiser of every member, and where training stands.
//!
//! The frozen base is not in it: whoever loads gives it. To use an adapter elsewhere see
//! [`save_adapter`](crate::lm::save_adapter).

use std::{path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    CheckpointError, CheckpointKind, Manifest, Provenance,
    files::{MODEL, Tensor, Tensors, Verified, tensor_bytes, write},
};
use crate::{
    Ensemble, ScorerVersion, Trainer, TrainerSettings,
    lm::{LmBase, LmModel, LmState, LoraSettings, Moved},
    trainer::{TrainableModel, upcast},
};

/// What the tensors do not say.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    trainer: TrainerSettings,
    version: u64,
    scale: f64,
    lora: LoraSettings,
    members: Vec<MemberDetails>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemberDetails {
    seed: u64,
    /// `None` for a member that has seen nothing yet.
    steps: Option<u64>,
}

/// What a checkpoint of adapters in training gives back.
pub struct LoadedLm {
    /// The version as it was published.
    pub scorer: Arc<Ensemble>,
    /// Training goes on from here as if it had never stopped.
    pub trainer: Trainer<LmModel>,
    /// What the checkpoint says about itself.
    pub manifest: Manifest,
}

const PARTS: [&str; 3] = ["parameters", "adam.mean", "adam.square"];

impl Trainer<LmModel> {
    /// Writes the adapters and their optimisers to a directory that must not exist yet.
    pub fn save(&self, directory: &Path, provenance: &Provenance) -> Result<Manifest, CheckpointError> {
        let mut tensors = Vec::new();
        for (member, model) in self.models.iter().enumerate() {
            if let Some(state) = &model.state {
                tensors.extend(state_tensors(&format!("members.{member}"), state));
            }
        }
        let lora = self
            .models
            .first()
            .map(|model| model.base.settings().lora.clone());
        let details = Details {
            trainer: self.settings,
            version: self.version,
            scale: self.scale,
            lora: lora.unwrap_or_default(),
            members: self
                .models
                .iter()
                .map(|model| MemberDetails {
                    seed: model.seed,
                    steps: model.state.as_ref().map(|state| state.optimiser.steps),
                })
                .collect(),
        };
        let details = serde_json::to_value(details).map_err(|error| CheckpointError::Io {
            file: directory.to_owned(),
            problem: format!("can not be written: {error}"),
        })?;
        let model = tensor_bytes(&directory.join(MODEL), &tensors)?;
        let version = ScorerVersion(self.version);
        let manifest = Manifest::new(CheckpointKind::Lm, version, provenance, &model, details);
        write(directory, &manifest, &model)?;
        Ok(manifest)
    }

    /// Reads what [`Trainer::save`] wrote, for the base that it was trained with.
    pub fn load(directory: &Path, base: &Arc<LmBase>) -> Result<LoadedLm, CheckpointError> {
        let verified = Verified::read(directory, CheckpointKind::Lm, None)?;
        let details: Details = serde_json::from_value(verified.manifest.details.clone())
            .map_err(|error| CheckpointError::damaged(&verified.file, error))?;
        if details.lora != base.settings().lora {
            return Err(CheckpointError::unfit(
                &verified.file,
                "was trained with other settings of lm.lora; set the same rank, alpha, dropout and modules",
            ));
        }
        let wrong = |source| CheckpointError::Scorer {
            file: verified.file.clone(),
            source,
        };
        let tensors = verified.tensors()?;
        let mut models = Vec::with_capacity(details.members.len());
        for (member, details) in details.members.iter().enumerate() {
            let mut model = LmModel::new(Arc::clone(base), details.seed);
            if let Some(steps) = details.steps {
                let mut state = model.first_state().map_err(wrong)?;
                state.optimiser.steps = steps;
                read_state(&format!("members.{member}"), &mut state, &tensors)?;
                model.state = Some(state);
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
        Ok(LoadedLm {
            scorer: Arc::new(Ensemble::new(version, upcast(&members)).map_err(wrong)?),
            trainer,
            manifest: verified.manifest,
        })
    }
}

fn matrix_name(owner: &str, part: &str, at: usize) -> String {
    format!("{owner}.{part}.{at}")
}

fn calibration_name(owner: &str, part: &str) -> String {
    format!("{owner}.{part}.calibration")
}

/// Parameters and optimiser of one adapter.
pub(super) fn state_tensors(owner: &str, state: &LmState) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    let all = [&state.moved, &state.optimiser.mean, &state.optimiser.square];
    for (part, moved) in PARTS.into_iter().zip(all) {
        for (at, matrix) in moved.matrices.iter().enumerate() {
            let name = matrix_name(owner, part, at);
            tensors.push(Tensor::f32(name, vec![matrix.len()], matrix));
        }
        let name = calibration_name(owner, part);
        tensors.push(Tensor::f64(name, vec![2], &moved.calibration));
    }
    tensors
}

pub(super) fn read_state(
    owner: &str,
    state: &mut LmState,
    tensors: &Tensors<'_>,
) -> Result<(), CheckpointError> {
    let all: [&mut Moved; 3] = [
        &mut state.moved,
        &mut state.optimiser.mean,
        &mut state.optimiser.square,
    ];
    for (part, moved) in PARTS.into_iter().zip(all) {
        for (at, matrix) in moved.matrices.iter_mut().enumerate() {
            *matrix = tensors.f32(&matrix_name(owner, part, at), &[matrix.len()])?;
        }
        let calibration = tensors.f64(&calibration_name(owner, part), &[2])?;
        moved.calibration.copy_from_slice(&calibration);
    }
    Ok(())
}
