//! Tensors of a GGUF file, in single precision or in the few bits that they have there.

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
};

use candle_core::{
    Device,
    quantized::{
        QTensor,
        gguf_file::{Content, Value},
    },
};

use super::{finite, problem, wrong_shape};
use crate::{
    config::{Architecture, GgufKeys, LmConfig},
    error::{LmError, Result},
    ops::CodedRows,
};

/// An open GGUF file.
pub(crate) struct GgufFile {
    path: PathBuf,
    reader: BufReader<File>,
    content: Content,
    config: LmConfig,
}

struct Keys<'a>(&'a Content);

impl GgufKeys for Keys<'_> {
    fn number(&self, key: &str) -> Option<usize> {
        usize::try_from(self.0.metadata.get(key)?.to_u64().ok()?).ok()
    }

    fn real(&self, key: &str) -> Option<f64> {
        let value = self.0.metadata.get(key)?;
        value.to_f32().map(f64::from).or_else(|_| value.to_f64()).ok()
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.metadata.get(key)?.to_string().ok().map(String::as_str)
    }
}

impl GgufFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file =
            File::open(path).map_err(|error| problem(path, format_args!("can not be read: {error}")))?;
        let mut reader = BufReader::new(file);
        let content = Content::read(&mut reader).map_err(|error| {
            problem(
                path,
                format_args!("is truncated or not a GGUF file: {error}; get it again"),
            )
        })?;
        let Some(embedding) = content.tensor_infos.get("token_embd.weight") else {
            return Err(problem(path, "has no tensor \"token_embd.weight\""));
        };
        let vocabulary = embedding.shape.dims().first().copied().unwrap_or(0);
        // Files of models with a tied head often hold it a second time, in higher precision: that copy serves as both.
        let tied = !content.tensor_infos.contains_key("output.weight");
        let config =
            LmConfig::from_gguf(&Keys(&content), vocabulary, tied).map_err(|what| problem(path, what))?;
        if content.tensor_infos.contains_key("rope_freqs.weight") {
            return Err(problem(
                path,
                "tensor \"rope_freqs.weight\" is not supported here",
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            reader,
            content,
            config,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) const fn config(&self) -> &LmConfig {
        &self.config
    }

    /// A key of the file.
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.content.metadata.get(key)
    }

    /// A text among the keys.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.value(key)?.to_string().ok().map(String::as_str)
    }

    /// Reads a tensor and says how it is called in the file.
    fn read(&mut self, name: &str, shape: &[usize]) -> Result<(String, QTensor)> {
        let own = own_name(name)
            .ok_or_else(|| problem(&self.path, format_args!("has no place for tensor {name:?}")))?;
        let found = self.content.tensor_infos.get(&own);
        let info = found.ok_or_else(|| problem(&self.path, format_args!("has no tensor {own:?}")))?;
        if info.shape.dims() != shape {
            return Err(wrong_shape(&self.path, &own, info.shape.dims(), shape));
        }
        let tensor = info
            .read(&mut self.reader, self.content.tensor_data_offset, &Device::Cpu)
            .map_err(|error| unreadable(&self.path, &own, &error))?;
        Ok((own, tensor))
    }

    /// A tensor in single precision.
    pub(crate) fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let (own, tensor) = self.read(name, shape)?;
        let entries = tensor
            .dequantize(&Device::Cpu)
            .and_then(|tensor| tensor.flatten_all()?.to_vec1::<f32>())
            .map_err(|error| unreadable(&self.path, &own, &error))?;
        let entries = finite(&self.path, &own, entries)?;
        let Some(from) = self.unpaired(&own) else {
            return Ok(entries);
        };
        let inputs = entries.len() / shape[0].max(1);
        let rows = (0..shape[0]).flat_map(|row| &entries[from(row) * inputs..(from(row) + 1) * inputs]);
        Ok(rows.copied().collect())
    }

    /// A matrix in the bits that the file has; `None` if they are not few.
    pub(super) fn coded(&mut self, name: &str, shape: [usize; 2]) -> Result<Option<CodedRows>> {
        let (own, tensor) = self.read(name, &shape)?;
        let bytes = tensor
            .data()
            .map_err(|error| unreadable(&self.path, &own, &error))?;
        let Some(rows) = CodedRows::decode(tensor.dtype(), &bytes, shape[0], shape[1]) else {
            return Ok(None);
        };
        if !rows.finite() {
            return Err(problem(
                &self.path,
                format_args!("tensor {own:?} has a scale that is no number; get the file again"),
            ));
        }
        Ok(Some(match self.unpaired(&own) {
            Some(from) => rows.reordered(from),
            None => rows,
        }))
    }

    /// llama.cpp turns neighbouring entries of Llama's heads, this program entries half a head apart: where each row of a
    /// tensor goes back to where the model was trained with it. `None` for tensors that stand as they are.
    fn unpaired(&self, own: &str) -> Option<impl Fn(usize) -> usize + use<>> {
        let turned = matches!(own.rsplit_once("attn_"), Some((_, "q.weight" | "k.weight")));
        let size = self.config.head_size;
        (turned && self.config.architecture == Architecture::Llama).then_some(move |row| {
            let (head, at) = (row / size, row % size);
            head * size + 2 * (at % (size / 2)) + at / (size / 2)
        })
    }
}

fn unreadable(path: &Path, own: &str, error: &candle_core::Error) -> LmError {
    problem(
        path,
        format_args!("tensor {own:?} can not be read: {error}; get the file again"),
    )
}

/// The name that llama.cpp gives a tensor of the hub.
fn own_name(name: &str) -> Option<String> {
    let fixed = match name {
        "model.embed_tokens.weight" => Some("token_embd.weight"),
        "model.norm.weight" => Some("output_norm.weight"),
        "lm_head.weight" => Some("output.weight"),
        _ => None,
    };
    if let Some(fixed) = fixed {
        return Some(fixed.to_owned());
    }
    let (layer, part) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (module, kind) = part.rsplit_once('.')?;
    let module = match module {
        "input_layernorm" => "attn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "post_attention_layernorm" => "ffn_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        _ => return None,
    };
    Some(format!("blk.{layer}.{module}.{kind}"))
}
