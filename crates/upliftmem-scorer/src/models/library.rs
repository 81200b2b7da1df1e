//! A directory with a directory for each model.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    Hub, KNOWN_MODELS, KnownModel, ModelFile, ModelsError, Result,
    arrival::{Arrival, verified},
    download,
    error::disk,
};
use crate::embedder::{BertEmbedder, Embedder, EmbedderError, StaticEmbedder};

/// Where a model's files come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// The Hugging Face hub or a mirror of it.
    Hub(Hub),
    /// A directory that already holds the files.
    Directory(PathBuf),
}

/// How far a file has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The file's path in the model.
    pub file: &'a str,
    /// Bytes that are here.
    pub done: u64,
    /// Bytes of the whole file, if the source says so.
    pub total: Option<u64>,
}

/// Models on this machine.
#[derive(Debug, Clone)]
pub struct ModelLibrary {
    root: PathBuf,
}

impl ModelLibrary {
    /// The library in a directory, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where a known model lies, or would lie.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        Ok(self.root.join(KnownModel::find(name)?.name))
    }

    /// The known models that are here, in the order of the list. A directory that lacks files is an error.
    pub fn present(&self) -> Result<Vec<&'static KnownModel>> {
        let mut present = Vec::new();
        for model in KNOWN_MODELS {
            if self.is_present(model)? {
                present.push(model);
            }
        }
        Ok(present)
    }

    fn is_present(&self, model: &KnownModel) -> Result<bool> {
        let directory = self.root.join(model.name);
        if !directory.exists() {
            return Ok(false);
        }
        match model
            .files
            .iter()
            .find(|file| !directory.join(file.path).is_file())
        {
            None => Ok(true),
            Some(missing) => Err(ModelsError::Incomplete {
                directory,
                file: missing.path.to_owned(),
            }),
        }
    }

    /// Whether a known model is here, whole.
    pub fn has(&self, name: &str) -> Result<bool> {
        self.is_present(KnownModel::find(name)?)
    }

    /// Opens a known model that is here.
    pub fn open(&self, name: &str) -> Result<Box<dyn Embedder>> {
        let model = KnownModel::find(name)?;
        if !self.is_present(model)? {
            return Err(ModelsError::Absent {
                name: name.to_owned(),
                directory: self.root.clone(),
            });
        }
        open_directory(&self.root.join(name))
    }

    /// Gets a known model and returns its directory; a model that is here already is left as it is.
    ///
    /// The model appears only when all its files have arrived and their hashes are right. A broken transfer is continued by
    /// the next call.
    pub fn pull(
        &self,
        name: &str,
        source: &Source,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<PathBuf> {
        let model = KnownModel::find(name)?;
        self.pull_model(model, source, progress)
    }

    /// [`Self::pull`] for a model that is not in the list.
    pub fn pull_model(
        &self,
        model: &KnownModel,
        source: &Source,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<PathBuf> {
        let target = self.root.join(model.name);
        if self.is_present(model)? {
            return Ok(target);
        }
        let staging = self.root.join(format!(".{}.partial", model.name));
        for file in model.files {
            let path = staging.join(file.path);
            if path.is_file() && verified(&path, file)? {
                continue;
            }
            let parent = path.parent().unwrap_or(&staging);
            fs::create_dir_all(parent).map_err(disk(parent))?;
            let fetched = match source {
                Source::Hub(hub) => download::fetch(hub, model, file, &path, progress),
                Source::Directory(directory) => copy(directory, model, file, &path, progress),
            };
            if let Err(ModelsError::WrongHash { .. }) = fetched {
                // A source that gives one wrong file is not trusted with the others.
                fs::remove_dir_all(&staging).map_err(disk(&staging))?;
            }
            fetched?;
        }
        fs::rename(&staging, &target).map_err(disk(&target))?;
        Ok(target)
    }
}

/// Opens the model in a directory, whatever kind it is.
pub fn open_directory(directory: &Path) -> Result<Box<dyn Embedder>> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default)]
        model_type: String,
    }
    let file = directory.join("config.json");
    let kind = fs::read(&file)
        .map_err(|error| error.to_string())
        .and_then(|content| serde_json::from_slice::<Kind>(&content).map_err(|error| error.to_string()));
    let problem = match kind {
        Ok(kind) if kind.model_type == "model2vec" => return Ok(Box::new(StaticEmbedder::load(directory)?)),
        Ok(kind) if kind.model_type == "bert" => return Ok(Box::new(BertEmbedder::load(directory)?)),
        Ok(kind) => format!(
            "is of a {:?} model; \"bert\" and \"model2vec\" are known here",
            kind.model_type
        ),
        Err(error) => format!("does not say what the model is: {error}"),
    };
    Err(EmbedderError::Model { file, problem }.into())
}

/// Takes a file from a directory.
fn copy(
    directory: &Path,
    model: &KnownModel,
    file: &ModelFile,
    path: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<()> {
    let from = directory.join(file.path);
    let origin = from.display().to_string();
    let failed = |problem: io::Error| ModelsError::Fetch {
        model: model.name.to_owned(),
        file: file.path.to_owned(),
        origin: origin.clone(),
        problem: problem.to_string(),
    };
    let mut source = File::open(&from).map_err(failed)?;
    let total = source.metadata().map_err(failed)?.len();
    let mut arrival = Arrival::start(path)?;
    arrival
        .receive(&mut source, &mut |done| {
            progress(Progress {
                file: file.path,
                done,
                total: Some(total),
            });
        })?
        .map_err(failed)?;
    arrival.finish(model, file, &origin)
}
