//! The hyper-parameters of the compact model and what is believed about them before any label.

use serde::{Deserialize, Serialize};

/// Spread of the gate's centre towards an open gate. Opening is easily undone, since what is behind an open gate gets
/// tried; closing is not.
const OPENING_SPREAD: f64 = 2.0;

/// Number of hyper-parameters.
pub(crate) const COUNT: usize = 20;

/// One hyper-parameter. Scales are kept as logarithms, the share as a logit, the threshold as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Parameter {
    /// Standard deviation of the no-memory utility over tasks.
    BaseSd,
    /// How fast the no-memory utility changes with the task's text.
    BaseScale,
    /// Standard deviation of what is peculiar to one task.
    TaskSd,
    /// Standard deviation of one execution's outcome.
    NoiseSd,
    /// Standard deviation of a reference's outcome (paired labels only).
    ReferenceSd,
    /// Standard deviation of the effect of having any memory at all.
    AnySd,
    /// Standard deviation of the effect of each further memory, whatever it says.
    CountSd,
    /// Standard deviation of the effect of a relevant memory that depends on the task alone.
    CommonSd,
    /// Standard deviation of the effect that memories of similar text share.
    TextSd,
    /// Standard deviation of a memory's own effect.
    IdentitySd,
    /// Standard deviation of the effect of a pair beyond its members' own.
    PairSd,
    /// Share of an effect's variance that all tasks have in common.
    Share,
    /// How fast effects change with the task's text.
    EffectScale,
    /// How fast shared effects change with the memory's text.
    TextScale,
    /// Similarity of task and memory at which the relevance gate is half open, in standard deviations.
    GateCentre,
    /// Width of the relevance gate, in standard deviations of similarity.
    GateWidth,
    /// Standard deviation of the effect of being very similar to the task, whatever the memory.
    NearSd,
    /// Plain similarity of task and memory from which a memory counts as very similar.
    NearCentre,
    /// Width of that transition.
    NearWidth,
    /// How much effects are forgotten over the time the labels span.
    DriftRate,
}

impl Parameter {
    /// All of them, in the order of their positions.
    pub const ALL: [Self; COUNT] = [
        Self::BaseSd,
        Self::BaseScale,
        Self::TaskSd,
        Self::NoiseSd,
        Self::ReferenceSd,
        Self::AnySd,
        Self::CountSd,
        Self::CommonSd,
        Self::TextSd,
        Self::IdentitySd,
        Self::PairSd,
        Self::Share,
        Self::EffectScale,
        Self::TextScale,
        Self::GateCentre,
        Self::GateWidth,
        Self::NearSd,
        Self::NearCentre,
        Self::NearWidth,
        Self::DriftRate,
    ];

    /// The prior: centre in natural units and spread on the transformed scale.
    ///
    /// What says how far effects reach and how large they are is held tightly. Labels are gathered by the model itself: a
    /// gate that has closed is never contradicted, since nothing behind it is tried, and sets that were chosen because they
    /// help make any memory look helpful. With wide priors both happen (docs/learning-quality.md). What being very similar
    /// does is free: it may be most of what there is to know, as with facts that are asked for, or a trap.
    const fn prior(self) -> (f64, f64) {
        match self {
            Self::BaseSd => (0.35, 0.8),
            Self::BaseScale => (0.5, 0.8),
            Self::TaskSd => (0.06, 0.8),
            Self::NoiseSd | Self::ReferenceSd => (0.4, 0.8),
            Self::AnySd => (0.02, 0.2),
            Self::CountSd => (0.01, 0.2),
            Self::CommonSd => (0.03, 0.3),
            Self::TextSd => (0.07, 0.3),
            Self::IdentitySd => (0.22, 0.3),
            Self::PairSd => (0.05, 1.0),
            Self::Share => (0.4, 1.0),
            Self::EffectScale => (0.4, 0.5),
            Self::TextScale => (0.3, 0.8),
            Self::GateCentre => (0.0, 0.2),
            Self::GateWidth => (0.7, 0.2),
            Self::NearSd => (0.1, 1.0),
            Self::NearCentre => (1.5, 1.0),
            Self::NearWidth => (0.4, 1.0),
            Self::DriftRate => (0.05, 1.5),
        }
    }

    /// Typical inverse curvature of the negative log evidence of `labels` labels: the optimiser's first guess.
    const fn first_step(self, labels: f64) -> f64 {
        match self {
            Self::NoiseSd => 0.5 / labels,
            Self::BaseSd | Self::ReferenceSd => 0.03,
            _ => 0.2,
        }
    }

    /// Whether the value is a standard deviation in units of utility.
    const fn scales_with_utility(self) -> bool {
        matches!(
            self,
            Self::BaseSd
                | Self::TaskSd
                | Self::NoiseSd
                | Self::ReferenceSd
                | Self::AnySd
                | Self::CountSd
                | Self::CommonSd
                | Self::TextSd
                | Self::IdentitySd
                | Self::PairSd
                | Self::NearSd
        )
    }
}

/// A point in hyper-parameter space.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// Transformed values: logarithms, one logit, one plain number.
    pub(crate) point: [f64; COUNT],
}

impl Parameters {
    /// The prior's centre for utilities that spread over about `unit` (1 for utilities in [0, 1]).
    pub fn centre(unit: f64) -> Self {
        Self {
            point: Parameter::ALL.map(|parameter| {
                let (natural, _) = parameter.prior();
                match parameter {
                    Parameter::GateCentre | Parameter::NearCentre => natural,
                    Parameter::Share => (natural / (1.0 - natural)).ln(),
                    _ if parameter.scales_with_utility() => (natural * unit).ln(),
                    _ => natural.ln(),
                }
            }),
        }
    }

    /// The value in natural units.
    pub fn get(&self, parameter: Parameter) -> f64 {
        let transformed = self.point[parameter as usize];
        match parameter {
            Parameter::GateCentre | Parameter::NearCentre => transformed,
            Parameter::Share => sigmoid(transformed),
            _ => transformed.exp(),
        }
    }

    /// The same point with one value, given in natural units, changed.
    #[must_use]
    pub fn with(mut self, parameter: Parameter, natural: f64) -> Self {
        self.point[parameter as usize] = match parameter {
            Parameter::GateCentre | Parameter::NearCentre => natural,
            Parameter::Share => (natural / (1.0 - natural)).ln(),
            _ => natural.ln(),
        };
        self
    }
}

/// Negative log density of the prior at `point`, up to a constant; its gradient is added to `gradient`.
pub(crate) fn penalty(point: &[f64; COUNT], centre: &Parameters, gradient: &mut [f64; COUNT]) -> f64 {
    let mut sum = 0.0;
    for parameter in Parameter::ALL {
        let at = parameter as usize;
        let offset = point[at] - centre.point[at];
        let spread = match parameter {
            Parameter::GateCentre if offset < 0.0 => OPENING_SPREAD,
            _ => parameter.prior().1,
        };
        let distance = offset / spread;
        sum += 0.5 * distance * distance;
        gradient[at] += distance / spread;
    }
    sum
}

/// The diagonal of the optimiser's first inverse Hessian.
pub(crate) fn first_steps(labels: usize) -> [f64; COUNT] {
    Parameter::ALL.map(|parameter| parameter.first_step(labels.max(1) as f64))
}

/// The logistic function.
pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_follow_the_declaration() {
        for (position, parameter) in Parameter::ALL.into_iter().enumerate() {
            assert_eq!(parameter as usize, position);
        }
    }

    #[test]
    fn natural_values_come_back() {
        for parameter in Parameter::ALL {
            let set = Parameters::centre(1.0).with(parameter, 0.3);
            assert!((set.get(parameter) - 0.3).abs() < 1e-12, "{parameter:?}");
        }
    }

    #[test]
    fn the_penalty_is_zero_at_the_centre_and_its_gradient_is_right() {
        let centre = Parameters::centre(2.0);
        let mut gradient = [0.0; COUNT];
        assert!(penalty(&centre.point, &centre, &mut gradient).abs() < 1e-15);
        let mut point = centre.point;
        for (position, value) in point.iter_mut().enumerate() {
            *value += 0.1 * position as f64;
        }
        penalty(&point, &centre, &mut gradient);
        for at in 0..COUNT {
            let mut moved = point;
            moved[at] += 1e-6;
            let up = penalty(&moved, &centre, &mut [0.0; COUNT]);
            moved[at] -= 2e-6;
            let down = penalty(&moved, &centre, &mut [0.0; COUNT]);
            assert!(((up - down) / 2e-6 - gradient[at]).abs() < 1e-6);
        }
    }
}
