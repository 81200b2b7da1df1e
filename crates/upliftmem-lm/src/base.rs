//! A frozen causal language model.

use std::{ops::Range, path::Path, sync::Arc};

use candle_core::{DType, Device, Tensor};

use super::{
    Adapter, KvCache, LmConfig, LmTokenizer, Module,
    layer::{Beside, Layer, Space},
    numerical,
    ops::{FrozenLinear, KeptLayers, rms_norm, with_entries},
    pass::{Pass, Segment},
    table::Table,
    weights::{Weights, problem},
};
use crate::{
    error::{Result, invalid},
    mix,
};

const CONFIG: &str = "config.json";

/// A frozen causal language model: embedding, layers, norm and head. Adapters stand beside it and are given to each pass.
pub struct Base {
    config: LmConfig,
    device: Device,
    frequencies: Vec<f64>,
    embedding: Table,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Table,
}

impl std::fmt::Debug for Base {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Base")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// What a pass gives.
pub struct PassOutput {
    /// Normalised hidden states of the wanted rows.
    pub hidden: Tensor,
    /// Keys and values of the rows that were to be kept, in the order they were named.
    pub kept: Vec<KeptLayers>,
}

impl Base {
    /// Reads a model from a directory of the Hugging Face hub or a GGUF file, with its tokenizer.
    pub fn load(path: &Path, device: &Device) -> Result<(Self, LmTokenizer)> {
        Self::load_all(path, device, false)
    }

    /// Reads a model to answer with: matrices stay in the few bits of a GGUF file, and what they multiply is rounded to
    /// eight. Faster, smaller, and not to be trained. What has no few bits is as [`Self::load`] reads it.
    pub fn load_in_few_bits(path: &Path) -> Result<(Self, LmTokenizer)> {
        Self::load_all(path, &Device::Cpu, true)
    }

    fn load_all(path: &Path, device: &Device, few_bits: bool) -> Result<(Self, LmTokenizer)> {
        let weights = Weights::open(path)?;
        let tokenizer = LmTokenizer::load(&weights)?;
        let base = Self::from_weights(weights, device, few_bits)?;
        if tokenizer.ids_end() > base.config.vocabulary {
            return Err(problem(
                path,
                format_args!(
                    "the tokenizer has {} tokens and the embedding {} rows: they belong to different models",
                    tokenizer.ids_end(),
                    base.config.vocabulary
                ),
            ));
        }
        Ok((base, tokenizer))
    }

    /// Reads the weights alone.
    pub fn load_weights(path: &Path, device: &Device) -> Result<Self> {
        Self::from_weights(Weights::open(path)?, device, false)
    }

    fn from_weights(mut weights: Weights, device: &Device, few_bits: bool) -> Result<Self> {
        let config = match &weights {
            Weights::Directory(files) => {
                let file = files.directory().join(CONFIG);
                let bytes = std::fs::read(&file)
                    .map_err(|error| problem(&file, format_args!("can not be read: {error}")))?;
                let mut config = LmConfig::from_json(&bytes).map_err(|what| problem(&file, what))?;
                // Some files of tied models hold the head a second time, some of untied ones do not say that they are.
                config.tied = config.tied || !files.has("lm_head.weight");
                config
            }
            Weights::Gguf(file) => file.config().clone(),
        };
        let table = |name: &str, weights: &mut Weights| {
            let shape = [config.vocabulary, config.hidden];
            Table::load(weights, name, shape, device, few_bits)
        };
        let mut embedding = table("model.embed_tokens.weight", &mut weights)?;
        let mut head = embedding.clone();
        if !config.tied {
            head = table("lm_head.weight", &mut weights)?;
            // llama.cpp stores a tied head twice, the head in higher precision: then it is the better embedding too.
            if matches!(weights, Weights::Gguf(_))
                && embedding
                    .says_the_same(&head, config.vocabulary)
                    .map_err(numerical)?
            {
                embedding = head.clone();
            }
        }
        let layers = (0..config.layers)
            .map(|index| Layer::load(&mut weights, &config, index, device, few_bits))
            .collect::<Result<_>>()?;
        let norm = weights.tensor("model.norm.weight", &[config.hidden])?;
        Ok(Self {
            frequencies: config.frequencies(),
            device: device.clone(),
            head,
            embedding,
            layers,
            norm: Tensor::from_vec(norm, config.hidden, device).map_err(numerical)?,
            config,
        })
    }

    /// A model of this shape with random numbers, to measure with.
    pub fn random(config: LmConfig, seed: u64, device: &Device) -> Result<Self> {
        config
            .check()
            .map_err(|problem| invalid("model shape", problem))?;
        let mut place = mix(seed);
        let mut entries = |count: usize, size: f32| -> Vec<f32> {
            (0..count)
                .map(|_| {
                    place = place.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    (((mix(place) >> 40) as f32 / 16_777_216.0) - 0.5) * size
                })
                .collect()
        };
        let mut layers = Vec::with_capacity(config.layers);
        for index in 0..config.layers {
            let mut maps = Vec::with_capacity(Module::ALL.len());
            for module in Module::ALL {
                let (outputs, inputs) = module.shape(&config);
                #[expect(clippy::cast_possible_truncation, reason = "entries are in single precision")]
                let size = (2.0 / (inputs as f64).sqrt()) as f32;
                let bias = (config.attention_bias && module <= Module::Value).then(|| entries(outputs, 0.1));
                let rows = entries(outputs * inputs, size);
                maps.push(
                    FrozenLinear::new(&rows, outputs, inputs, bias.as_deref(), device).map_err(numerical)?,
                );
            }
            let ones = || Tensor::ones(config.head_size, DType::F32, device).map_err(numerical);
            let head_norms = if config.architecture == super::Architecture::Qwen3 {
                Some((ones()?, ones()?))
            } else {
                None
            };
            layers.push(Layer::of(&config, index, maps, head_norms, device)?);
        }
        let shape = (config.vocabulary, config.hidden);
        let rows = entries(config.vocabulary * config.hidden, 0.1);
        let embedding = Table::Single(Tensor::from_vec(rows, shape, device).map_err(numerical)?);
        Ok(Self {
            frequencies: config.frequencies(),
            device: device.clone(),
            head: embedding.clone(),
            embedding,
            layers,
            norm: Tensor::ones(config.hidden, DType::F32, device).map_err(numerical)?,
            config,
        })
    }

    /// Its shape.
    pub const fn config(&self) -> &LmConfig {
        &self.config
    }

    /// Where it computes.
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Its layers, from the embedding on.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The norm after the last layer.
    pub const fn norm(&self) -> &Tensor {
        &self.norm
    }

    /// Continues a text: normalised hidden states of all given tokens, whose keys and values are added to the cache.
    pub fn forward(&self, tokens: &[u32], cache: &mut KvCache, adapter: Option<&Adapter>) -> Result<Tensor> {
        let segment = Segment {
            tokens: tokens.to_vec(),
            position: cache.len(),
            before: cache.before(),
            wanted: true,
        };
        let pass = self.pass(&[segment], true)?;
        let every = pass.rows(0);
        let mut output = self.run(&pass, adapter, std::slice::from_ref(&every))?;
        // A pass holds what it saw, and only what nobody holds can grow in place.
        drop(pass);
        if let Some(kept) = output.kept.pop() {
            cache.push(kept, tokens.len()).map_err(numerical)?;
        }
        Ok(output.hidden)
    }

    /// Continues one text in several ways, none of which sees another: normalised hidden states of every way's tokens. The
    /// cache stays as it is.
    pub fn branches(&self, ways: &[Vec<u32>], cache: &KvCache) -> Result<Vec<Tensor>> {
        if ways.is_empty() {
            return Ok(Vec::new());
        }
        let segments: Vec<Segment> = ways
            .iter()
            .map(|tokens| Segment {
                tokens: tokens.clone(),
                position: cache.len(),
                before: cache.before(),
                wanted: true,
            })
            .collect();
        let pass = self.pass(&segments, true)?;
        let hidden = self.run(&pass, None, &[])?.hidden;
        (0..ways.len())
            .map(|way| {
                let rows = pass.rows(way);
                hidden.narrow(0, rows.start, rows.len()).map_err(numerical)
            })
            .collect()
    }

    /// The logits of all tokens after each hidden state.
    pub fn logits(&self, hidden: &Tensor) -> Result<Tensor> {
        self.head.products(hidden).map_err(numerical)
    }

    /// The likeliest token after one of the hidden states.
    pub fn likeliest(&self, hidden: &Tensor, row: usize) -> Result<u32> {
        let logits = self.logits(&hidden.narrow(0, row, 1).map_err(numerical)?)?;
        let best = logits.flatten_all().and_then(|logits| logits.argmax(0));
        best.and_then(|best| best.to_scalar()).map_err(numerical)
    }

    /// The direction that tells one token's logit from another's.
    pub fn margin_direction(&self, yes: u32, no: u32) -> Result<Tensor> {
        let row = |token: u32| self.head.row(token as usize, &self.device).map_err(numerical);
        (row(yes)? - row(no)?)
            .and_then(|direction| direction.unsqueeze(1)?.contiguous())
            .map_err(numerical)
    }

    /// Checks segments and lays them out.
    pub fn pass(&self, segments: &[Segment], every_row: bool) -> Result<Pass> {
        for segment in segments {
            if let Some(token) = segment
                .tokens
                .iter()
                .find(|&&token| token as usize >= self.config.vocabulary)
            {
                return Err(invalid(
                    format_args!("token {token}"),
                    format_args!("the model knows {} tokens", self.config.vocabulary),
                ));
            }
            let length = segment.position + segment.tokens.len();
            if length > self.config.positions || segment.tokens.is_empty() {
                return Err(invalid(
                    format_args!("a text of {length} tokens"),
                    format_args!(
                        "the model reads 1 to {} tokens; shorten the memories",
                        self.config.positions
                    ),
                ));
            }
        }
        Ok(Pass::new(segments, &self.frequencies, every_row))
    }

    /// The embedding of a pass's tokens.
    pub fn embed(&self, pass: &Pass) -> candle_core::Result<Tensor> {
        self.embedding.rows(pass.tokens(), &self.device)
    }

    /// One pass without a way back. Keeps keys and values of the named rows.
    pub fn run(&self, pass: &Pass, adapter: Option<&Adapter>, keep: &[Range<usize>]) -> Result<PassOutput> {
        let work = || -> candle_core::Result<PassOutput> {
            let mut kept: Vec<Vec<(Tensor, Tensor)>> =
                vec![Vec::with_capacity(self.layers.len()); keep.len()];
            let rows = if self.device.is_cpu() {
                self.read_layers(pass, adapter, keep, &mut kept)?
            } else {
                self.run_layers(pass, adapter, keep, &mut kept)?
            };
            Ok(PassOutput {
                hidden: rms_norm(&rows, &self.norm, self.config.norm_epsilon)?,
                kept: kept.into_iter().map(Arc::new).collect(),
            })
        };
        work().map_err(numerical)
    }

    /// All layers on a processor.
    fn read_layers(
        &self,
        pass: &Pass,
        adapter: Option<&Adapter>,
        keep: &[Range<usize>],
        kept: &mut [Vec<(Tensor, Tensor)>],
    ) -> candle_core::Result<Tensor> {
        let hidden = with_entries(&self.embed(pass)?, |rows| Ok(rows.to_vec()))?;
        let mut rows = Space::new(&self.config, hidden);
        let width = self.config.key_size();
        for (index, layer) in self.layers.iter().enumerate() {
            layer.read(&mut rows, pass, index + 1 == self.layers.len(), adapter)?;
            for (kept, own) in kept.iter_mut().zip(keep) {
                let part = |all: &[f32]| {
                    let entries = &all[own.start * width..own.end * width];
                    Tensor::from_slice(entries, (own.len(), width), &self.device)
                };
                kept.push((part(&rows.keys)?, part(&rows.values)?));
            }
        }
        let count = rows.hidden.len() / self.config.hidden;
        Tensor::from_vec(rows.hidden, (count, self.config.hidden), &self.device)
    }

    /// All layers on another device.
    fn run_layers(
        &self,
        pass: &Pass,
        adapter: Option<&Adapter>,
        keep: &[Range<usize>],
        kept: &mut [Vec<(Tensor, Tensor)>],
    ) -> candle_core::Result<Tensor> {
        let beside = Beside {
            adapter,
            dropout: None,
        };
        let mut rows = self.embed(pass)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let output = layer.forward(&rows, pass, index + 1 == self.layers.len(), beside)?;
            for (kept, own) in kept.iter_mut().zip(keep) {
                let part = |all: &Tensor| all.narrow(0, own.start, own.len())?.force_contiguous();
                kept.push((part(&output.keys)?, part(&output.values)?));
            }
            rows = output.rows;
        }
        Ok(rows)
    }

    /// Bytes that keys and values of one token take.
    pub const fn kept_bytes(&self) -> usize {
        self.config.layers * 2 * self.config.key_size() * size_of::<f32>()
    }
}
