//! Where the numbers of a model come from: a directory of safetensors files, or one GGUF file.
//!
//! Tensors are asked for by the names of the Hugging Face hub and in the shape that the configuration says; whatever
//! does not fit is one error that names the file and the tensor. Numbers are given in single precision, matrices in the few
//! bits of a GGUF file where that is asked for.

mod gguf;
mod safetensors;

use std::path::{Path, PathBuf};

pub(crate) use gguf::GgufFile;
pub(crate) use safetensors::TensorFiles;

use crate::{
    error::{LmError, Result},
    ops::CodedRows,
};

/// Tensors by name.
pub(crate) enum Weights {
    /// A directory of the hub.
    Directory(TensorFiles),
    /// One file of llama.cpp.
    Gguf(Box<GgufFile>),
}

impl Weights {
    /// Opens a directory with `config.json`, or a file that ends in `.gguf`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return TensorFiles::open(path).map(Self::Directory);
        }
        if path
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("gguf"))
        {
            return GgufFile::open(path).map(|file| Self::Gguf(Box::new(file)));
        }
        Err(problem(
            path,
            "is no model; give a directory with config.json and model.safetensors, or a file that ends in .gguf",
        ))
    }

    /// A tensor in this shape.
    pub(crate) fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        match self {
            Self::Directory(files) => files.tensor(name, shape),
            Self::Gguf(file) => file.tensor(name, shape),
        }
    }

    /// A matrix in this shape, in the bits that the file has if they are few and wanted.
    pub(crate) fn matrix(&mut self, name: &str, shape: [usize; 2], few_bits: bool) -> Result<Rows> {
        if let Self::Gguf(file) = self
            && few_bits
            && let Some(rows) = file.coded(name, shape)?
        {
            return Ok(Rows::Coded(rows));
        }
        self.tensor(name, &shape).map(Rows::Single)
    }
}

/// The rows of a matrix.
pub(crate) enum Rows {
    /// In single precision.
    Single(Vec<f32>),
    /// In as few bits as the file has.
    Coded(CodedRows),
}

/// An error about a file.
pub fn problem(file: &Path, problem: impl std::fmt::Display) -> LmError {
    LmError::Model {
        file: PathBuf::from(file),
        problem: problem.to_string(),
    }
}

/// A tensor in the wrong shape.
fn wrong_shape(file: &Path, name: &str, found: &[usize], wanted: &[usize]) -> LmError {
    problem(
        file,
        format_args!("tensor {name:?} has the shape {found:?}; the configuration asks for {wanted:?}"),
    )
}

/// Entries that are numbers.
fn finite(file: &Path, name: &str, entries: Vec<f32>) -> Result<Vec<f32>> {
    match entries.iter().position(|entry| !entry.is_finite()) {
        Some(at) => Err(problem(
            file,
            format_args!(
                "tensor {name:?} has {} at entry {at}; get the file again",
                entries[at]
            ),
        )),
        None => Ok(entries),
    }
}
