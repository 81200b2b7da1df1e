//! Where an update of adapters stands, on disk after every epoch, so that one that was stopped goes on from there.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    CheckpointError, CheckpointKind, Manifest, Provenance,
    files::{MODEL, Verified, tensor_bytes, write},
    lm::{read_state, state_tensors},
};
use crate::{
    Keeper, MemberReport, Midway, ScorerVersion,
    error::{Result, invalid},
    lm::{LmBase, LmModel, LmState},
};

/// Keeps where an update of adapters stands in a directory of its own.
pub struct LmKeeper {
    directory: PathBuf,
    base: Arc<LmBase>,
    /// What the update is of; another one's files are not gone on from.
    update: String,
}

/// What the tensors do not say.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    update: String,
    report: MemberReport,
    /// As text: JSON has no numbers of this size.
    words: String,
    steps: u64,
    best_steps: Option<u64>,
}

impl LmKeeper {
    /// Keeps the state of an update; `update` names it with all that it learns from.
    pub fn new(directory: PathBuf, base: Arc<LmBase>, update: String) -> Self {
        Self {
            directory,
            base,
            update,
        }
    }

    /// Removes what was kept: the update is over.
    pub fn clear(&self) -> Result<(), CheckpointError> {
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(CheckpointError::unwritable(&self.directory, &error))
            }
            _ => Ok(()),
        }
    }

    /// Two places in turn: while one is written the other is whole.
    fn place(&self, member: usize, epoch: usize) -> PathBuf {
        self.directory.join(format!("member-{member}-{}", epoch % 2))
    }

    fn read(&self, directory: &Path) -> Result<Option<Midway<Option<LmState>>>, CheckpointError> {
        if !directory.exists() {
            return Ok(None);
        }
        let verified = Verified::read(directory, CheckpointKind::Lm, None)?;
        let Ok(details) = serde_json::from_value::<Details>(verified.manifest.details.clone()) else {
            return Ok(None);
        };
        let Ok(words) = details.words.parse() else {
            return Ok(None);
        };
        if details.update != self.update {
            return Ok(None);
        }
        let tensors = verified.tensors()?;
        let state = |name: &str, steps: u64| {
            let first = LmModel::new(Arc::clone(&self.base), 0).first_state();
            let mut state = first.map_err(|source| CheckpointError::Scorer {
                file: verified.file.clone(),
                source,
            })?;
            state.optimiser.steps = steps;
            read_state(name, &mut state, &tensors)?;
            Ok::<_, CheckpointError>(Some(state))
        };
        Ok(Some(Midway {
            report: details.report,
            words,
            now: state("now", details.steps)?,
            best: details.best_steps.map(|steps| state("best", steps)).transpose()?,
        }))
    }

    fn write(&self, member: usize, midway: &Midway<&Option<LmState>>) -> Result<(), CheckpointError> {
        let Some(now) = midway.now else { return Ok(()) };
        let best = midway.best.and_then(Option::as_ref);
        let mut tensors = state_tensors("now", now);
        if let Some(best) = best {
            tensors.extend(state_tensors("best", best));
        }
        let details = Details {
            update: self.update.clone(),
            report: midway.report.clone(),
            words: midway.words.to_string(),
            steps: now.optimiser.steps,
            best_steps: best.map(|best| best.optimiser.steps),
        };
        let directory = self.place(member, midway.report.epochs);
        let unwritable = |error: std::io::Error| CheckpointError::unwritable(&directory, &error);
        let details = serde_json::to_value(details).map_err(|error| unwritable(error.into()))?;
        if directory.exists() {
            fs::remove_dir_all(&directory).map_err(unwritable)?;
        }
        let model = tensor_bytes(&directory.join(MODEL), &tensors)?;
        let version = ScorerVersion(midway.report.epochs as u64);
        let manifest = Manifest::new(
            CheckpointKind::Lm,
            version,
            &Provenance::default(),
            &model,
            details,
        );
        write(&directory, &manifest, &model)
    }
}

impl Keeper<Option<LmState>> for LmKeeper {
    /// What can not be read is as if it had never been kept: the epoch is learned again.
    fn load(&self, member: usize) -> Result<Option<Midway<Option<LmState>>>> {
        let both = [0, 1].map(|place| self.read(&self.place(member, place)).ok().flatten());
        Ok(both
            .into_iter()
            .flatten()
            .max_by_key(|midway| midway.report.epochs))
    }

    fn save(&self, member: usize, midway: &Midway<&Option<LmState>>) -> Result<()> {
        self.write(member, midway)
            .map_err(|error| invalid("the state of an update", error))
    }
}
