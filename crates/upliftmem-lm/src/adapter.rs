//! Low-rank adapters: what is learned beside a frozen base.

use std::fmt;

use candle_core::{Device, Tensor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{LmConfig, numerical, ops::Dropout};
use crate::error::{Result, invalid};

/// A linear map of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Module {
    /// Queries.
    #[serde(rename = "q_proj")]
    Query,
    /// Keys.
    #[serde(rename = "k_proj")]
    Key,
    /// Values.
    #[serde(rename = "v_proj")]
    Value,
    /// The way out of attention.
    #[serde(rename = "o_proj")]
    Output,
    /// The gate of the feed-forward block.
    #[serde(rename = "gate_proj")]
    Gate,
    /// What the gate is multiplied with.
    #[serde(rename = "up_proj")]
    Up,
    /// The way out of the feed-forward block.
    #[serde(rename = "down_proj")]
    Down,
}

impl Module {
    /// Every linear map, in the order of a layer.
    pub const ALL: [Self; 7] = [
        Self::Query,
        Self::Key,
        Self::Value,
        Self::Output,
        Self::Gate,
        Self::Up,
        Self::Down,
    ];

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Query => "q_proj",
            Self::Key => "k_proj",
            Self::Value => "v_proj",
            Self::Output => "o_proj",
            Self::Gate => "gate_proj",
            Self::Up => "up_proj",
            Self::Down => "down_proj",
        }
    }

    /// Its place in a layer.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Query => "self_attn.q_proj",
            Self::Key => "self_attn.k_proj",
            Self::Value => "self_attn.v_proj",
            Self::Output => "self_attn.o_proj",
            Self::Gate => "mlp.gate_proj",
            Self::Up => "mlp.up_proj",
            Self::Down => "mlp.down_proj",
        }
    }

    /// Outputs and inputs.
    pub const fn shape(self, config: &LmConfig) -> (usize, usize) {
        match self {
            Self::Query => (config.query_size(), config.hidden),
            Self::Key | Self::Value => (config.key_size(), config.hidden),
            Self::Output => (config.hidden, config.query_size()),
            Self::Gate | Self::Up => (config.intermediate, config.hidden),
            Self::Down => (config.hidden, config.intermediate),
        }
    }
}

impl fmt::Display for Module {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// The shape of an adapter. Paper: tab. training_config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoraSettings {
    /// Rank of every product.
    pub rank: usize,
    /// Scaling; what is added is multiplied by this over the rank.
    pub alpha: f64,
    /// Share of inputs that are dropped while learning.
    pub dropout: f64,
    /// The maps that are adapted.
    pub modules: Vec<Module>,
}

impl Default for LoraSettings {
    fn default() -> Self {
        Self {
            rank: 8,
            alpha: 16.0,
            dropout: 0.1,
            modules: vec![Module::Query, Module::Key, Module::Value, Module::Output],
        }
    }
}

impl LoraSettings {
    /// Refuses adapters that can not be.
    pub fn check(&self) -> Result<()> {
        if self.rank == 0 || self.rank > 1024 {
            return Err(invalid(
                "lora.rank",
                format_args!("{} is not between 1 and 1024", self.rank),
            ));
        }
        if !(self.alpha.is_finite() && self.alpha > 0.0) {
            return Err(invalid(
                "lora.alpha",
                format_args!("{} is not above 0", self.alpha),
            ));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(invalid(
                "lora.dropout",
                format_args!("{} is not in [0, 1)", self.dropout),
            ));
        }
        let mut modules = self.modules.clone();
        modules.sort_unstable();
        modules.dedup();
        if modules.is_empty() || modules.len() != self.modules.len() {
            return Err(invalid(
                "lora.modules",
                "name each adapted map once, and at least one",
            ));
        }
        Ok(())
    }

    /// What the product is multiplied with.
    pub fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }
}

/// The two matrices beside one map: `x A^T B^T`.
#[derive(Debug, Clone)]
pub struct LowRank {
    /// Rank by inputs.
    pub down: Tensor,
    /// Outputs by rank.
    pub up: Tensor,
}

/// An adapter for every layer of a base.
#[derive(Debug, Clone)]
pub struct Adapter {
    /// Its shape.
    pub settings: LoraSettings,
    /// Layer by layer, the maps in the order of the settings.
    pub layers: Vec<Vec<LowRank>>,
}

impl Adapter {
    /// An adapter that changes nothing yet: random on the way down, zero on the way up.
    pub fn first(config: &LmConfig, settings: LoraSettings, seed: u64, device: &Device) -> Result<Self> {
        settings.check()?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut layers = Vec::with_capacity(config.layers);
        for _ in 0..config.layers {
            let mut layer = Vec::with_capacity(settings.modules.len());
            for module in &settings.modules {
                let (outputs, inputs) = module.shape(config);
                // Kaiming's bound with the slope sqrt(5), as PEFT starts: one over the root of the inputs.
                #[expect(clippy::cast_possible_truncation, reason = "entries are in single precision")]
                let bound = (1.0 / (inputs as f64).sqrt()) as f32;
                let entries: Vec<f32> = (0..settings.rank * inputs)
                    .map(|_| rng.random_range(-bound..bound))
                    .collect();
                layer.push(LowRank {
                    down: Tensor::from_vec(entries, (settings.rank, inputs), device).map_err(numerical)?,
                    up: Tensor::zeros((outputs, settings.rank), candle_core::DType::F32, device)
                        .map_err(numerical)?,
                });
            }
            layers.push(layer);
        }
        Ok(Self { settings, layers })
    }

    /// Its shape.
    pub const fn settings(&self) -> &LoraSettings {
        &self.settings
    }

    /// Every matrix with its name in PEFT's files.
    pub fn matrices(&self) -> Result<Vec<(String, Vec<f32>)>> {
        let mut all = Vec::new();
        for (layer, pairs) in self.layers.iter().enumerate() {
            for (pair, module) in pairs.iter().zip(&self.settings.modules) {
                for (which, matrix) in [("A", &pair.down), ("B", &pair.up)] {
                    let name = format!(
                        "base_model.model.model.layers.{layer}.{}.lora_{which}.weight",
                        module.path()
                    );
                    let entries = matrix
                        .flatten_all()
                        .and_then(|matrix| matrix.to_vec1())
                        .map_err(numerical)?;
                    all.push((name, entries));
                }
            }
        }
        Ok(all)
    }

    /// One function drawn by dropout: the same inputs are left out whatever is read, so that all sets are valued by one
    /// function.
    pub fn drawn(&self, seed: u64) -> Result<Self> {
        let dropout = Dropout {
            rate: self.settings.dropout,
            seed,
        };
        let mut drawn = self.clone();
        for (layer, pairs) in drawn.layers.iter_mut().enumerate() {
            for (pair, &module) in pairs.iter_mut().zip(&self.settings.modules) {
                let own = dropout.at(place(layer, module));
                let inputs = pair.down.dim(1).map_err(numerical)? as u64;
                let factors: Vec<f32> = (0..inputs).map(|input| own.factor(input)).collect();
                let factors = Tensor::from_vec(
                    factors,
                    (1, pair.down.dim(1).map_err(numerical)?),
                    pair.down.device(),
                );
                pair.down = factors
                    .and_then(|factors| pair.down.broadcast_mul(&factors))
                    .map_err(numerical)?;
            }
        }
        Ok(drawn)
    }

    /// The pair beside a map, if it is adapted.
    pub(crate) fn pair(&self, layer: usize, module: Module) -> Option<&LowRank> {
        let at = self.settings.modules.iter().position(|&own| own == module)?;
        self.layers.get(layer)?.get(at)
    }
}

/// Names the place of a map in a model.
pub(crate) const fn place(layer: usize, module: Module) -> u64 {
    (layer * Module::ALL.len()) as u64 + module as u64
}
