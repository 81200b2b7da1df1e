//! Writing whole or not at all, and reading only what is whole.

use std::{
    borrow::Cow,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use safetensors::{Dtype, SafeTensors, View};

use super::{CheckpointError, CheckpointKind, Manifest};
use crate::embedder::Generation;

pub(super) const MODEL: &str = "model.safetensors";
const MANIFEST: &str = "manifest.json";
/// A manifest beyond this is not ours.
const MANIFEST_MAX: u64 = 256 << 20;

/// A tensor to be written.
pub(super) struct Tensor {
    pub(super) name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Tensor {
    pub(super) fn f64(name: impl Into<String>, shape: Vec<usize>, values: &[f64]) -> Self {
        Self {
            name: name.into(),
            dtype: Dtype::F64,
            shape,
            bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }

    pub(super) fn f32(name: impl Into<String>, shape: Vec<usize>, values: &[f32]) -> Self {
        Self {
            name: name.into(),
            dtype: Dtype::F32,
            shape,
            bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }

    pub(super) fn u32(name: impl Into<String>, values: &[u32]) -> Self {
        Self {
            name: name.into(),
            dtype: Dtype::U32,
            shape: vec![values.len()],
            bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }
}

impl View for &Tensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// The bytes of a safetensors file.
pub(super) fn tensor_bytes(file: &Path, tensors: &[Tensor]) -> Result<Vec<u8>, CheckpointError> {
    let named = tensors.iter().map(|tensor| (tensor.name.as_str(), tensor));
    safetensors::serialize(named, None).map_err(|error| CheckpointError::Io {
        file: file.to_owned(),
        problem: format!("can not be written: {error}"),
    })
}

/// Writes both files beside `directory`, flushes them, and moves them into place in one step.
pub(super) fn write(directory: &Path, manifest: &Manifest, model: &[u8]) -> Result<(), CheckpointError> {
    let unwritable = |error: std::io::Error| CheckpointError::unwritable(directory, &error);
    if directory.exists() {
        return Err(CheckpointError::Io {
            file: directory.to_owned(),
            problem: "is already there; a checkpoint is never overwritten".to_owned(),
        });
    }
    let parent = directory
        .parent()
        .filter(|path| !path.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(unwritable)?;
    let temporary = temporary(directory);
    // What an earlier attempt left when it was killed.
    if temporary.exists() {
        fs::remove_dir_all(&temporary).map_err(unwritable)?;
    }
    let written = fs::create_dir(&temporary)
        .and_then(|()| flushed(&temporary.join(MODEL), model))
        .and_then(|()| flushed(&temporary.join(MANIFEST), &manifest.bytes()))
        .and_then(|()| File::open(&temporary)?.sync_all())
        .and_then(|()| fs::rename(&temporary, directory))
        .and_then(|()| File::open(parent)?.sync_all());
    if let Err(error) = written {
        // The error that matters is the first; leftovers are removed by the next attempt if not now.
        let _ = fs::remove_dir_all(&temporary);
        return Err(unwritable(error));
    }
    Ok(())
}

fn temporary(directory: &Path) -> PathBuf {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    directory.with_file_name(format!(".{name}.{}.unfinished", std::process::id()))
}

fn flushed(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A checkpoint whose every byte was verified.
pub(super) struct Verified {
    pub(super) manifest: Manifest,
    pub(super) file: PathBuf,
    model: Vec<u8>,
}

impl Verified {
    /// Reads a checkpoint of this kind, made with this embedder if one is named.
    pub(super) fn read(
        directory: &Path,
        kind: CheckpointKind,
        embedder: Option<&Generation>,
    ) -> Result<Self, CheckpointError> {
        let file = directory.join(MANIFEST);
        let manifest = Manifest::parse(&file, &read_file(&file, MANIFEST_MAX)?)?;
        if manifest.kind != kind {
            return Err(CheckpointError::unfit(
                &file,
                format_args!(
                    "holds a scorer of kind {:?}, and {kind:?} was asked for",
                    manifest.kind
                ),
            ));
        }
        if let (Some(written), Some(used)) = (&manifest.embedder, embedder)
            && let Err(error) = written.check_same(used)
        {
            return Err(CheckpointError::unfit(&file, error));
        }
        let file = directory.join(MODEL);
        let model = read_file(&file, manifest.model_bytes)?;
        manifest.check_model(&file, &model)?;
        Ok(Self {
            manifest,
            file,
            model,
        })
    }

    pub(super) fn tensors(&self) -> Result<Tensors<'_>, CheckpointError> {
        let tensors = SafeTensors::deserialize(&self.model)
            .map_err(|error| CheckpointError::damaged(&self.file, error))?;
        Ok(Tensors {
            file: &self.file,
            tensors,
        })
    }
}

/// A file of at most `limit` bytes: a damaged length must not fill the memory.
fn read_file(file: &Path, limit: u64) -> Result<Vec<u8>, CheckpointError> {
    let size = fs::metadata(file)
        .map_err(|error| CheckpointError::unreadable(file, &error))?
        .len();
    if size > limit {
        return Err(CheckpointError::damaged(
            file,
            format_args!("has {size} bytes, at most {limit} were expected"),
        ));
    }
    fs::read(file).map_err(|error| CheckpointError::unreadable(file, &error))
}

/// The tensors of a checkpoint.
pub(super) struct Tensors<'a> {
    file: &'a Path,
    tensors: SafeTensors<'a>,
}

impl Tensors<'_> {
    fn damaged(&self, name: &str, problem: impl std::fmt::Display) -> CheckpointError {
        CheckpointError::damaged(self.file, format_args!("tensor {name:?} {problem}"))
    }

    /// The entries of a tensor of exactly this type and shape.
    fn entries<const WIDTH: usize>(
        &self,
        name: &str,
        dtype: Dtype,
        shape: &[usize],
    ) -> Result<Vec<[u8; WIDTH]>, CheckpointError> {
        let tensor = self
            .tensors
            .tensor(name)
            .map_err(|_| self.damaged(name, "is missing"))?;
        if tensor.dtype() != dtype || tensor.shape() != shape {
            return Err(self.damaged(
                name,
                format_args!(
                    "is {:?} of shape {:?} instead of {dtype:?} of shape {shape:?}",
                    tensor.dtype(),
                    tensor.shape()
                ),
            ));
        }
        Ok(tensor.data().as_chunks::<WIDTH>().0.to_vec())
    }

    /// Numbers in double precision, all of them finite.
    pub(super) fn f64(&self, name: &str, shape: &[usize]) -> Result<Vec<f64>, CheckpointError> {
        let entries = self.entries(name, Dtype::F64, shape)?;
        let values: Vec<f64> = entries.into_iter().map(f64::from_le_bytes).collect();
        match values.iter().position(|value| !value.is_finite()) {
            Some(at) => Err(self.damaged(name, format_args!("has {} at entry {at}", values[at]))),
            None => Ok(values),
        }
    }

    /// Numbers in single precision.
    pub(super) fn f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let entries = self.entries(name, Dtype::F32, shape)?;
        Ok(entries.into_iter().map(f32::from_le_bytes).collect())
    }

    /// Counts and positions.
    pub(super) fn u32(&self, name: &str, count: usize) -> Result<Vec<u32>, CheckpointError> {
        let entries = self.entries(name, Dtype::U32, &[count])?;
        Ok(entries.into_iter().map(u32::from_le_bytes).collect())
    }
}
