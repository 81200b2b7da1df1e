//! The numbers of a set network, part by part, by the names they have in a checkpoint.

use std::ops::{Index, IndexMut};

use rand::{Rng, RngExt};

use super::settings::NetworkSettings;

/// One tensor of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Part {
    /// Reduces a text, task or memory.
    Projection,
    /// A memory's hidden layer.
    MemoryWeight,
    MemoryBias,
    /// From a hidden vector to what is multiplied pairwise.
    PairWeight,
    /// The layer over the pooled set.
    TopWeight,
    TopBias,
    /// The value.
    OutWeight,
    OutBias,
    /// Slope and offset of the relevance gate.
    Gate,
    /// Who each known memory is.
    Identity,
    /// What each known memory does where it is relevant, whatever else is in the set.
    Effect,
}

impl Part {
    pub(crate) const ALL: [Self; 11] = [
        Self::Projection,
        Self::MemoryWeight,
        Self::MemoryBias,
        Self::PairWeight,
        Self::TopWeight,
        Self::TopBias,
        Self::OutWeight,
        Self::OutBias,
        Self::Gate,
        Self::Identity,
        Self::Effect,
    ];

    /// Its name in a checkpoint.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Projection => "projection.weight",
            Self::MemoryWeight => "memory.weight",
            Self::MemoryBias => "memory.bias",
            Self::PairWeight => "pair.weight",
            Self::TopWeight => "top.weight",
            Self::TopBias => "top.bias",
            Self::OutWeight => "out.weight",
            Self::OutBias => "out.bias",
            Self::Gate => "gate",
            Self::Identity => "identity.embedding",
            Self::Effect => "identity.effect",
        }
    }

    /// Its shape for texts of this many entries and this many known memories. Inputs come before outputs.
    pub(crate) fn shape(self, settings: &NetworkSettings, dimension: usize, memories: usize) -> Vec<usize> {
        let pooled = settings.hidden + settings.pairs;
        match self {
            Self::Projection => vec![dimension, settings.projection],
            Self::MemoryWeight => vec![settings.inputs(), settings.hidden],
            Self::MemoryBias => vec![settings.hidden],
            Self::PairWeight => vec![settings.hidden, settings.pairs],
            Self::TopWeight => vec![pooled, settings.top],
            Self::TopBias | Self::OutWeight => vec![settings.top],
            Self::OutBias => vec![1],
            Self::Gate => vec![2],
            Self::Identity => vec![memories, settings.identity],
            Self::Effect => vec![memories],
        }
    }

    /// How strongly it decays towards zero, in units of the weight decay. What is peculiar to one memory rests on few
    /// labels and decays faster; offsets do not decay.
    pub(super) const fn decay(self) -> f64 {
        match self {
            Self::Projection | Self::MemoryWeight | Self::PairWeight | Self::TopWeight | Self::OutWeight => {
                1.0
            }
            Self::MemoryBias | Self::TopBias | Self::OutBias | Self::Gate => 0.0,
            Self::Identity | Self::Effect => 3.0,
        }
    }

    /// Spread of its first values; what starts at zero makes an untrained network predict exactly zero, and a memory
    /// without labels the same as one never seen.
    fn first_deviation(self, settings: &NetworkSettings) -> f64 {
        let pooled = settings.hidden + settings.pairs;
        match self {
            Self::Projection => 1.0,
            Self::MemoryWeight => 1.0 / (settings.inputs() as f64).sqrt(),
            Self::PairWeight => 1.0 / (settings.hidden as f64).sqrt(),
            Self::TopWeight => 1.0 / (pooled as f64).sqrt(),
            _ => 0.0,
        }
    }
}

/// A number for every entry of every part: parameters, gradients or moments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parameters([Vec<f64>; Part::ALL.len()]);

impl Index<Part> for Parameters {
    type Output = Vec<f64>;

    fn index(&self, part: Part) -> &Vec<f64> {
        &self.0[part as usize]
    }
}

impl IndexMut<Part> for Parameters {
    fn index_mut(&mut self, part: Part) -> &mut Vec<f64> {
        &mut self.0[part as usize]
    }
}

impl Parameters {
    /// All zero.
    pub(crate) fn zero(settings: &NetworkSettings, dimension: usize, memories: usize) -> Self {
        Self(Part::ALL.map(|part| vec![0.0; part.shape(settings, dimension, memories).iter().product()]))
    }

    /// The values training starts from.
    pub(super) fn first(
        settings: &NetworkSettings,
        dimension: usize,
        memories: usize,
        rng: &mut impl Rng,
    ) -> Self {
        let mut first = Self::zero(settings, dimension, memories);
        for part in Part::ALL {
            let deviation = part.first_deviation(settings);
            if deviation > 0.0 {
                for value in &mut first[part] {
                    *value = deviation * normal(rng);
                }
            }
        }
        // The gate opens with relevance from the start: half open at the usual relevance.
        first[Part::Gate][0] = 1.0;
        first
    }

    /// Makes room for more memories, which start unknown.
    pub(super) fn grow(&mut self, settings: &NetworkSettings, memories: usize) {
        self[Part::Identity].resize(memories * settings.identity, 0.0);
        self[Part::Effect].resize(memories, 0.0);
    }

    pub(super) fn clear(&mut self) {
        for part in &mut self.0 {
            part.fill(0.0);
        }
    }

    /// Euclidean length of all entries together.
    pub(super) fn norm(&self) -> f64 {
        self.0
            .iter()
            .flatten()
            .map(|value| value * value)
            .sum::<f64>()
            .sqrt()
    }
}

/// A standard normal number by the Box-Muller transform.
fn normal(rng: &mut impl Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * rng.random::<f64>()).cos()
}
