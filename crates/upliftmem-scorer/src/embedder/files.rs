//! Reads the files of a model, names the file in every error, and hashes what was read.

use std::{
    fs,
    path::{Path, PathBuf},
};

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::{EmbedderError, Generation, Result};

/// A model as a directory of files in the layout of the Hugging Face hub.
pub(crate) struct ModelDirectory {
    path: PathBuf,
    hasher: Sha256,
}

impl ModelDirectory {
    /// `method` names the way the vectors are made: it is part of the generation, as a change of method changes vectors.
    pub(crate) fn open(path: &Path, method: &str) -> Result<Self> {
        if !path.is_dir() {
            return Err(problem(
                path,
                "is not a directory; give the directory that holds the model's config.json",
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            hasher: Sha256::new_with_prefix(method),
        })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The content of a file that must be there.
    pub(crate) fn bytes(&mut self, name: &str) -> Result<Vec<u8>> {
        let path = self.file(name);
        let bytes = fs::read(&path).map_err(|error| {
            let what = if error.kind() == std::io::ErrorKind::NotFound {
                "is missing; get the model's files again".to_owned()
            } else {
                format!("can not be read: {error}")
            };
            problem(&path, what)
        })?;
        self.hasher.update(name);
        self.hasher.update((bytes.len() as u64).to_le_bytes());
        self.hasher.update(&bytes);
        Ok(bytes)
    }

    /// The content of a JSON file that must be there.
    pub(crate) fn json<T: DeserializeOwned>(&mut self, name: &str) -> Result<T> {
        let bytes = self.bytes(name)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            problem(
                &self.file(name),
                format_args!("is not what was expected: {error}"),
            )
        })
    }

    /// The content of a JSON file, if it is there.
    pub(crate) fn json_if_present<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>> {
        if self.file(name).exists() {
            self.json(name).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The identity of the vectors made from all files read so far, under the directory's name.
    pub(crate) fn generation(self, dimension: usize) -> Generation {
        let name = self
            .path
            .canonicalize()
            .ok()
            .and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
            .unwrap_or_else(|| self.path.display().to_string());
        Generation::new(name, dimension, self.hasher)
    }
}

/// An error about a file.
pub(crate) fn problem(file: &Path, problem: impl std::fmt::Display) -> EmbedderError {
    EmbedderError::Model {
        file: file.to_owned(),
        problem: problem.to_string(),
    }
}

/// The tensors of one safetensors file.
pub(crate) struct Tensors<'a> {
    file: PathBuf,
    tensors: SafeTensors<'a>,
}

impl<'a> Tensors<'a> {
    pub(crate) fn parse(file: PathBuf, bytes: &'a [u8]) -> Result<Self> {
        match SafeTensors::deserialize(bytes) {
            Ok(tensors) => Ok(Self { file, tensors }),
            Err(error) => Err(problem(
                &file,
                format_args!(
                    "is truncated or not a safetensors file ({} bytes: {error}); get it again",
                    bytes.len()
                ),
            )),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    fn view(&self, name: &str) -> Result<TensorView<'_>> {
        self.tensors
            .tensor(name)
            .map_err(|_| problem(&self.file, format_args!("has no tensor {name:?}")))
    }

    pub(crate) fn shape(&self, name: &str) -> Result<Vec<usize>> {
        Ok(self.view(name)?.shape().to_vec())
    }

    /// A tensor of numbers in the given shape, in single precision whatever it is stored in.
    pub(crate) fn numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let view = self.view(name)?;
        if view.shape() != shape {
            return Err(problem(
                &self.file,
                format_args!(
                    "tensor {name:?} has the shape {:?}; the configuration asks for {shape:?}",
                    view.shape()
                ),
            ));
        }
        let data = view.data();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "embeddings are computed in single precision"
        )]
        let numbers = match view.dtype() {
            Dtype::F32 => convert(data, f32::from_le_bytes),
            Dtype::F16 => convert(data, |bytes| f16::from_le_bytes(bytes).to_f32()),
            Dtype::BF16 => convert(data, |bytes| bf16::from_le_bytes(bytes).to_f32()),
            Dtype::F64 => convert(data, |bytes| f64::from_le_bytes(bytes) as f32),
            Dtype::I8 => convert(data, |bytes| f32::from(i8::from_le_bytes(bytes))),
            other => return Err(self.unknown_type(name, other)),
        };
        Ok(numbers)
    }

    /// A tensor of row numbers, each below `rows`.
    pub(crate) fn row_numbers(&self, name: &str, rows: usize) -> Result<Vec<u32>> {
        let view = self.view(name)?;
        let numbers: Vec<i64> = match view.dtype() {
            Dtype::I64 => convert(view.data(), i64::from_le_bytes),
            Dtype::I32 => convert(view.data(), |bytes| i64::from(i32::from_le_bytes(bytes))),
            other => return Err(self.unknown_type(name, other)),
        };
        numbers
            .into_iter()
            .map(|number| {
                u32::try_from(number)
                    .ok()
                    .filter(|&row| (row as usize) < rows)
                    .ok_or_else(|| {
                        problem(
                            &self.file,
                            format_args!("tensor {name:?} points to row {number} of {rows}"),
                        )
                    })
            })
            .collect()
    }

    fn unknown_type(&self, name: &str, dtype: Dtype) -> EmbedderError {
        problem(
            &self.file,
            format_args!("tensor {name:?} is stored as {dtype:?}, which is not known here"),
        )
    }
}

fn convert<const WIDTH: usize, T>(data: &[u8], number: impl Fn([u8; WIDTH]) -> T) -> Vec<T> {
    data.as_chunks::<WIDTH>()
        .0
        .iter()
        .map(|&bytes| number(bytes))
        .collect()
}
