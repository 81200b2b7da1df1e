//! Tensors of a directory: one file, or several with an index. A tensor is read when it is asked for.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use half::{bf16, f16};
use safetensors::{
    Dtype,
    tensor::{Metadata, TensorInfo},
};
use serde::Deserialize;

use super::{finite, problem, wrong_shape};
use crate::error::Result;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// A header beyond this is not one.
const HEADER_MAX: u64 = 100 << 20;

/// Where every tensor of a directory is.
pub(crate) struct TensorFiles {
    directory: PathBuf,
    tensors: BTreeMap<String, Place>,
}

struct Place {
    file: PathBuf,
    info: TensorInfo,
    /// Where the tensors of its file start.
    start: u64,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl TensorFiles {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        let index = directory.join(INDEX);
        if index.exists() {
            let bytes = fs::read(&index).map_err(|error| problem(&index, error))?;
            let parsed: Index = serde_json::from_slice(&bytes)
                .map_err(|error| problem(&index, format_args!("is not an index of tensors: {error}")))?;
            let mut files: Vec<&String> = parsed.weight_map.values().collect();
            files.sort_unstable();
            files.dedup();
            for name in files {
                // A name that leads out of the directory is no name of a shard.
                if Path::new(name).components().count() != 1 {
                    return Err(problem(
                        &index,
                        format_args!("names {name:?}, which is not a file beside it"),
                    ));
                }
                read_header(&directory.join(name), &mut tensors)?;
            }
            if let Some(name) = parsed.weight_map.keys().find(|name| !tensors.contains_key(*name)) {
                return Err(problem(
                    &directory.join(&parsed.weight_map[name]),
                    format_args!("has no tensor {name:?}, which {INDEX} places there; get the file again"),
                ));
            }
        } else {
            read_header(&directory.join(SINGLE), &mut tensors)?;
        }
        Ok(Self {
            directory: directory.to_owned(),
            tensors,
        })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let Some(place) = self.tensors.get(name) else {
            return Err(problem(&self.directory, format_args!("has no tensor {name:?}")));
        };
        let Place { file, info, start } = place;
        if info.shape != shape {
            return Err(wrong_shape(file, name, &info.shape, shape));
        }
        let (from, to) = info.data_offsets;
        let mut bytes = vec![0; to - from];
        let read = File::open(file).and_then(|mut source| {
            source.seek(SeekFrom::Start(start + from as u64))?;
            source.read_exact(&mut bytes)
        });
        read.map_err(|error| {
            problem(
                file,
                format_args!("tensor {name:?} can not be read: {error}; get the file again"),
            )
        })?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the model computes in single precision"
        )]
        let entries = match info.dtype {
            Dtype::F32 => convert(&bytes, f32::from_le_bytes),
            Dtype::F16 => convert(&bytes, |entry| f16::from_le_bytes(entry).to_f32()),
            Dtype::BF16 => convert(&bytes, |entry| bf16::from_le_bytes(entry).to_f32()),
            Dtype::F64 => convert(&bytes, |entry| f64::from_le_bytes(entry) as f32),
            other => {
                return Err(problem(
                    file,
                    format_args!(
                        "tensor {name:?} is stored as {other:?}; only F32, F16, BF16 and F64 are known here"
                    ),
                ));
            }
        };
        finite(file, name, entries)
    }
}

fn read_header(file: &Path, tensors: &mut BTreeMap<String, Place>) -> Result<()> {
    let unreadable = |error: std::io::Error| {
        let what = if error.kind() == std::io::ErrorKind::NotFound {
            "is missing; get the model's files again".to_owned()
        } else {
            format!("can not be read: {error}")
        };
        problem(file, what)
    };
    let mut source = File::open(file).map_err(unreadable)?;
    let size = source.metadata().map_err(unreadable)?.len();
    let mut length = [0; 8];
    let damaged = |error: &dyn std::fmt::Display| {
        problem(
            file,
            format_args!("is truncated or not a safetensors file ({size} bytes: {error}); get it again"),
        )
    };
    source.read_exact(&mut length).map_err(|error| damaged(&error))?;
    let header = u64::from_le_bytes(length);
    if header > HEADER_MAX.min(size.saturating_sub(8)) {
        return Err(damaged(&format_args!("a header of {header} bytes")));
    }
    let mut bytes = Vec::new();
    source.take(header).read_to_end(&mut bytes).map_err(unreadable)?;
    let metadata: Metadata = serde_json::from_slice(&bytes).map_err(|error| damaged(&error))?;
    let start = 8 + header;
    for (name, info) in metadata.tensors() {
        let (from, to) = info.data_offsets;
        let bits = info
            .shape
            .iter()
            .try_fold(info.dtype.bitsize(), |product, &side| product.checked_mul(side));
        if to.checked_sub(from).and_then(|bytes| bytes.checked_mul(8)) != bits {
            return Err(problem(
                file,
                format_args!(
                    "tensor {name:?} has {from}..{to} as its place, which does not fit its shape; get it again"
                ),
            ));
        }
        if start + to as u64 > size {
            return Err(problem(
                file,
                format_args!("is truncated: tensor {name:?} ends beyond its {size} bytes; get it again"),
            ));
        }
        let place = Place {
            file: file.to_owned(),
            info: info.clone(),
            start,
        };
        tensors.insert(name, place);
    }
    Ok(())
}

fn convert<const WIDTH: usize>(bytes: &[u8], number: impl Fn([u8; WIDTH]) -> f32) -> Vec<f32> {
    bytes
        .as_chunks::<WIDTH>()
        .0
        .iter()
        .map(|&entry| number(entry))
        .collect()
}
