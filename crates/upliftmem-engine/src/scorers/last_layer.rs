//! A belief for scorers that read texts: a Bayesian last layer over what the model saw at the scored position.
//!
//! The mean of a value is the scorer's own; the layer says how uncertain it is and what moves together. The empty set has no
//! features: nothing is uncertain about it.

use std::collections::{BTreeMap, BTreeSet};

use upliftmem_core::{
    FitBounds, LabelRow, LinearBelief, LinearPrior, MemoryId, ReferenceBelief, ReferenceId, TaskId,
};

use crate::error::Result;

/// Labels from which the prior's scales are fitted; fewer leave them as they are.
const FITTED_FROM: usize = 20;
/// Prior variances of a value by its hidden state, for any set at all, and by each member: utilities are between 0 and about 1.
const HIDDEN_VARIANCE: f64 = 0.05;
const CONSTANT_VARIANCE: f64 = 0.02;
const MEMBER_VARIANCE: f64 = 0.1;
/// Noise of an execution.
const NOISE: f64 = 0.1;
/// What a member counts that has nothing to do with the task.
const RELEVANCE_MIN: f64 = 0.1;

/// A set as the layer sees it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// The hidden state; empty if the scorer has none to show.
    pub(crate) hidden: Vec<f32>,
    /// The members with how relevant each is to the task.
    pub(crate) members: Vec<(MemoryId, f64)>,
}

/// A label of a set.
pub(crate) struct SeenLabel {
    pub(crate) seen: Seen,
    pub(crate) task: TaskId,
    pub(crate) uplift: f64,
    pub(crate) reference: ReferenceId,
}

/// The belief.
pub(crate) struct LastLayer {
    /// Coordinates of the hidden state, and of the members.
    hidden: usize,
    members: usize,
    centre: Vec<f64>,
    scale: f64,
    /// Each known memory has a coordinate of its own as long as there are enough.
    places: BTreeMap<MemoryId, usize>,
    belief: LinearBelief,
    references: BTreeMap<TaskId, ReferenceId>,
}

impl LastLayer {
    /// The belief after these labels, in at most `dimension` coordinates.
    pub(crate) fn fit(dimension: usize, labels: &[SeenLabel]) -> Result<Self> {
        let width = labels.first().map_or(0, |label| label.seen.hidden.len());
        let hidden = width.min(dimension / 2);
        let members = dimension.saturating_sub(hidden + 1).max(1);
        let known: BTreeSet<MemoryId> = labels
            .iter()
            .flat_map(|label| label.seen.members.iter().map(|(id, _)| *id))
            .collect();
        let (centre, scale) = centred(labels, width);
        let first = LinearPrior::new(
            vec![
                (hidden, HIDDEN_VARIANCE),
                (1, CONSTANT_VARIANCE),
                (members, MEMBER_VARIANCE),
            ],
            NOISE,
            NOISE,
        )?;
        let mut layer = Self {
            hidden,
            members,
            centre,
            scale,
            places: known.into_iter().zip(0..members).collect(),
            belief: LinearBelief::new(first.clone(), &[])?,
            references: labels.iter().map(|label| (label.task, label.reference)).collect(),
        };
        let rows: Vec<LabelRow> = labels
            .iter()
            .map(|label| LabelRow {
                features: layer.features(&label.seen),
                residual: label.uplift,
                reference: label.reference,
            })
            .collect();
        let prior = if rows.len() >= FITTED_FROM {
            first.fitted(&rows, &FitBounds::default())?
        } else {
            first
        };
        layer.belief = LinearBelief::new(prior, &rows)?;
        Ok(layer)
    }

    /// Coordinates in which the covariance of two values is an inner product.
    pub(crate) fn coordinates(&self, seen: &Seen) -> Vec<f64> {
        self.belief.whitened(&self.features(seen))
    }

    /// Variance of a label around the value of its set.
    pub(crate) fn run_variance(&self) -> f64 {
        self.belief.prior().run_variance()
    }

    /// The noise of the reference that a new label of a task would be measured against.
    pub(crate) fn reference(&self, task: TaskId) -> ReferenceBelief {
        self.belief.reference(self.references.get(&task).copied())
    }

    fn features(&self, seen: &Seen) -> Vec<f64> {
        let mut features = vec![0.0; self.hidden + 1 + self.members];
        if seen.members.is_empty() {
            return features;
        }
        if seen.hidden.len() == self.centre.len() {
            let moved: Vec<f64> = seen
                .hidden
                .iter()
                .zip(&self.centre)
                .map(|(value, centre)| (f64::from(*value) - centre) * self.scale)
                .collect();
            project(&moved, &mut features[..self.hidden]);
        }
        features[self.hidden] = 1.0;
        for &(id, relevance) in &seen.members {
            let weight = relevance.clamp(RELEVANCE_MIN, 1.0);
            // A memory without a place shares one with others; its sign is its own.
            let (place, sign) = match self.places.get(&id) {
                Some(&place) => (place, 1.0),
                None => {
                    let mixed = mix(id.as_u128() as u64 ^ (id.as_u128() >> 64) as u64);
                    let sign = if mixed >> 63 == 0 { 1.0 } else { -1.0 };
                    ((mixed % self.members as u64) as usize, sign)
                }
            };
            features[self.hidden + 1 + place] += sign * weight;
        }
        features
    }
}

/// Hidden states of one prompt have much in common: what differs is what counts.
fn centred(labels: &[SeenLabel], width: usize) -> (Vec<f64>, f64) {
    let count = labels.len().max(1) as f64;
    let mut centre = vec![0.0; width];
    for label in labels {
        for (sum, value) in centre.iter_mut().zip(&label.seen.hidden) {
            *sum += f64::from(*value) / count;
        }
    }
    let square: f64 = labels
        .iter()
        .flat_map(|label| label.seen.hidden.iter().zip(&centre))
        .map(|(value, centre)| (f64::from(*value) - centre).powi(2) / count)
        .sum();
    let scale = if square > 0.0 { square.sqrt().recip() } else { 1.0 };
    (centre, scale)
}

/// As it is where it fits, else through a fixed random projection, which keeps inner products on average.
fn project(values: &[f64], into: &mut [f64]) {
    if values.len() <= into.len() {
        into[..values.len()].copy_from_slice(values);
        return;
    }
    let share = (into.len() as f64).sqrt().recip();
    for (at, coordinate) in into.iter_mut().enumerate() {
        let signed = values.iter().enumerate().map(|(from, value)| {
            let bit = mix(((at as u64) << 32) | from as u64) >> 63;
            if bit == 0 { *value } else { -value }
        });
        *coordinate = share * signed.sum::<f64>();
    }
}

/// Spreads the bits of a number over all places.
const fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(id: u128, hidden: [f32; 2]) -> Seen {
        Seen {
            hidden: hidden.to_vec(),
            members: vec![(MemoryId::from_u128(id), 1.0)],
        }
    }

    fn label(id: u128, hidden: [f32; 2], uplift: f64, at: u128) -> SeenLabel {
        SeenLabel {
            seen: seen(id, hidden),
            task: TaskId::from_u128(at),
            uplift,
            reference: ReferenceId::from_u128(at),
        }
    }

    fn variance(layer: &LastLayer, seen: &Seen) -> f64 {
        layer.coordinates(seen).iter().map(|value| value * value).sum()
    }

    #[test]
    fn labels_make_sure_of_what_they_are_about() {
        let labels: Vec<SeenLabel> = (0..40)
            .map(|at| {
                let sign = if at % 2 == 0 { 1.0 } else { -1.0 };
                label(at % 2, [sign as f32, 0.1], 0.3 * sign, at)
            })
            .collect();
        let layer = LastLayer::fit(16, &labels).unwrap();
        let (known, unknown) = (seen(0, [1.0, 0.1]), seen(9, [0.0, 3.0]));
        assert!(variance(&layer, &known) < 0.5 * variance(&layer, &unknown));
        assert_eq!(
            variance(&layer, &Seen::default()),
            0.0,
            "nothing is uncertain about nothing"
        );
        let told = layer.reference(TaskId::from_u128(3));
        let untold = layer.reference(TaskId::from_u128(77));
        assert!(told.variance <= untold.variance);
    }

    #[test]
    fn a_projection_keeps_lengths_about() {
        let values: Vec<f64> = (0..400).map(|at| f64::from(at % 7) - 3.0).collect();
        let mut into = vec![0.0; 100];
        project(&values, &mut into);
        let square = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
        let ratio = square(&into) / square(&values);
        assert!((0.6..1.5).contains(&ratio), "{ratio}");
    }
}
