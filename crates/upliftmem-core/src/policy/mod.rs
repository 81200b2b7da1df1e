//! How ordinary retrieval explores while it learns: one memory after another, better gains more often.

mod likelihood;
mod sample;

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use crate::{
    MemoryId, MemorySet,
    error::{InvalidInput, Result, finite, positive, unit_interval},
};

pub use likelihood::PathLikelihood;
pub use sample::SamplePath;

/// What a set is worth beyond the set it extends. Paper: g_theta, eq. conditional_gain. Stopping gains 0.
pub fn conditional_gain(extended: f64, base: f64) -> f64 {
    extended - base
}

/// The training policy: a softmax over conditional gains. Paper: pi_theta, eq. retrieval_policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PolicyFields", into = "PolicyFields")]
pub struct PathPolicy {
    sampling_temperature: f64,
    stop_prior: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFields {
    sampling_temperature: f64,
    stop_prior: f64,
}

impl PathPolicy {
    /// `sampling_temperature` (paper: tau_tr), above 0, is the gain that makes an action e times as likely.
    /// `stop_prior` in [0, 1] adds that share of ln(number of additions) to the logit of stopping, which
    /// otherwise drowns among many additions that gain nothing; 0 is the paper's policy.
    pub fn new(sampling_temperature: f64, stop_prior: f64) -> Result<Self> {
        Ok(Self {
            sampling_temperature: positive("sampling_temperature", sampling_temperature)?,
            stop_prior: unit_interval("stop_prior", stop_prior)?,
        })
    }

    /// The gain that makes an action e times as likely.
    pub const fn sampling_temperature(&self) -> f64 {
        self.sampling_temperature
    }

    /// The share of ln(number of additions) that is added to the logit of stopping.
    pub const fn stop_prior(&self) -> f64 {
        self.stop_prior
    }

    /// The probabilities of stopping and of each addition, given the gains of all feasible additions.
    pub fn action_distribution(&self, gains: &[f64]) -> Result<ActionDistribution> {
        for &gain in gains {
            finite("conditional gain", gain)?;
        }
        let mut distribution = ActionDistribution::certain_stop();
        self.fill(gains.iter().copied(), &mut distribution);
        Ok(distribution)
    }

    /// As `action_distribution`, for gains known to be finite, into a buffer that is used again.
    fn fill(&self, gains: impl Iterator<Item = f64>, distribution: &mut ActionDistribution) {
        let logits = &mut distribution.logits;
        logits.clear();
        logits.push(0.0);
        logits.extend(gains);
        let best_gain = logits.iter().copied().fold(0.0, f64::max);
        for logit in logits.iter_mut() {
            // Subtracting first: a gain divided by a tiny temperature may overflow, a deficit only underflows.
            *logit = (*logit - best_gain) / self.sampling_temperature;
        }
        let additions = logits.len() - 1;
        if additions > 0 {
            logits[0] += self.stop_prior * (additions as f64).ln();
        }
        // The best addition has 0 by now; only stopping can be above it.
        let best = logits[0].max(0.0);
        let mut best_actions = 0.0;
        let mut others = 0.0;
        for logit in logits {
            *logit -= best;
            if *logit < 0.0 {
                others += logit.exp();
            } else {
                best_actions += 1.0;
            }
        }
        // One best action's term is exactly 1; leaving it to ln_1p keeps what tiny competitors add.
        distribution.ln_normalizer = (others + (best_actions - 1.0)).ln_1p();
        distribution.temperature = self.sampling_temperature;
    }
}

impl TryFrom<PolicyFields> for PathPolicy {
    type Error = InvalidInput;

    fn try_from(fields: PolicyFields) -> Result<Self> {
        Self::new(fields.sampling_temperature, fields.stop_prior)
    }
}

impl From<PathPolicy> for PolicyFields {
    fn from(policy: PathPolicy) -> Self {
        Self {
            sampling_temperature: policy.sampling_temperature,
            stop_prior: policy.stop_prior,
        }
    }
}

/// The choice at one state: stopping, or one of the additions in the order of their gains.
///
/// Kept as logits below the best one and the normalizer, so that tiny probabilities keep their logarithm.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionDistribution {
    /// (gain - best gain) / temperature, at most 0; stopping first.
    logits: Vec<f64>,
    /// ln of the sum of their exponentials, at least 0. Paper: ln Z_t, eq. path_normalizer.
    ln_normalizer: f64,
    temperature: f64,
}

impl ActionDistribution {
    /// Nothing to add; also a buffer to fill.
    fn certain_stop() -> Self {
        Self {
            logits: vec![0.0],
            ln_normalizer: 0.0,
            temperature: 1.0,
        }
    }

    /// Probability of stopping here.
    pub fn stop(&self) -> f64 {
        self.ln_stop().exp()
    }

    /// Its logarithm.
    pub fn ln_stop(&self) -> f64 {
        self.ln_probability(0)
    }

    /// Probability of the addition with the gain at this position.
    pub fn add(&self, position: usize) -> f64 {
        self.ln_add(position).exp()
    }

    /// Its logarithm.
    pub fn ln_add(&self, position: usize) -> f64 {
        self.ln_probability(position + 1)
    }

    /// How much less stopping gains than the best action. Paper: delta_t of eq. path_deficit. With a stop prior,
    /// stopping has the gain that makes it as likely as it is.
    pub fn stop_deficit(&self) -> f64 {
        self.deficit(0)
    }

    /// How much less the addition at this position gains than the best action.
    pub fn add_deficit(&self, position: usize) -> f64 {
        self.deficit(position + 1)
    }

    /// Number of additions.
    pub fn additions(&self) -> usize {
        self.logits.len() - 1
    }

    /// `action` 0 is stopping, `n` the n-th addition.
    fn ln_probability(&self, action: usize) -> f64 {
        self.logits[action] - self.ln_normalizer
    }

    /// The deficit in units of the temperature.
    pub(crate) fn scaled_deficit(&self, action: usize) -> f64 {
        // Not a negation, which would print a zero as -0.
        0.0 - self.logits[action]
    }

    fn deficit(&self, action: usize) -> f64 {
        self.scaled_deficit(action) * self.temperature
    }

    /// Draws an action: 0 is stopping, `n` the n-th addition. One uniform number per draw.
    fn sample(&self, rng: &mut impl Rng) -> usize {
        let mut left = rng.random::<f64>() * self.ln_normalizer.exp();
        let mut chosen = 0;
        for (action, logit) in self.logits.iter().enumerate() {
            let weight = logit.exp();
            // An action of probability zero is never chosen, not even by the rounding that `left` collects.
            if weight > 0.0 {
                chosen = action;
                if left < weight {
                    break;
                }
                left -= weight;
            }
        }
        chosen
    }
}

/// The gains of extensions over their base; refuses values that are not finite, naming the set.
fn check_values(sets: &[MemorySet], values: &[f64], base: f64) -> Result<()> {
    check_scores(sets, values)?;
    for (set, &value) in sets.iter().zip(values) {
        if !conditional_gain(value, base).is_finite() {
            return Err(InvalidInput::new(
                format_args!("value of memory set {set:?}"),
                format_args!("{value} is too far from {base}, the value of the set it extends"),
            ));
        }
    }
    Ok(())
}

/// Refuses scores that are not one finite number for each set, naming the set.
pub(crate) fn check_scores(sets: &[MemorySet], values: &[f64]) -> Result<()> {
    if sets.len() != values.len() {
        return Err(InvalidInput::new(
            "set values",
            format_args!(
                "{} values for {} sets; give one value for each set, in order",
                values.len(),
                sets.len()
            ),
        ));
    }
    match sets.iter().zip(values).find(|(_, value)| !value.is_finite()) {
        None => Ok(()),
        Some((set, value)) => Err(InvalidInput::new(
            format_args!("value of memory set {set:?}"),
            format_args!("{value} is not a finite number"),
        )),
    }
}

/// The sets that one addition makes.
fn extensions(state: &MemorySet, mask: &[MemoryId], sets: &mut Vec<MemorySet>) {
    sets.extend(mask.iter().map(|&addition| state.with(addition)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn policy(temperature: f64, stop_prior: f64) -> PathPolicy {
        PathPolicy::new(temperature, stop_prior).unwrap()
    }

    #[test]
    fn a_policy_that_makes_no_sense_is_refused_by_name() {
        let error = PathPolicy::new(0.0, 0.0).unwrap_err();
        assert_eq!(error.to_string(), "sampling_temperature: 0 is not above 0");
        let error = PathPolicy::new(0.1, 1.5).unwrap_err();
        assert_eq!(error.to_string(), "stop_prior: 1.5 is outside [0, 1]");
        assert!(PathPolicy::new(f64::NAN, 0.0).is_err());
        assert!(
            serde_json::from_str::<PathPolicy>(r#"{"sampling_temperature":-1.0,"stop_prior":0.0}"#).is_err()
        );
        assert!(policy(0.1, 0.0).action_distribution(&[0.0, f64::NAN]).is_err());
        assert!(policy(0.1, 0.0).action_distribution(&[f64::INFINITY]).is_err());
    }

    #[test]
    fn stopping_drowns_among_fifty_and_the_stop_prior_lifts_it() {
        let gains = [0.0; 50];
        let stop = |stop_prior| {
            policy(0.05, stop_prior)
                .action_distribution(&gains)
                .unwrap()
                .stop()
        };
        assert!((stop(0.0) - 1.0 / 51.0).abs() < 1e-15);
        assert!((stop(1.0) - 0.5).abs() < 1e-15);
        let middle = 50_f64.sqrt();
        assert!((stop(0.5) - middle / (middle + 50.0)).abs() < 1e-15);
    }

    #[test]
    fn nothing_to_add_leaves_stopping() {
        for stop_prior in [0.0, 1.0] {
            let distribution = policy(0.1, stop_prior).action_distribution(&[]).unwrap();
            assert_eq!((distribution.ln_stop(), distribution.additions()), (0.0, 0));
            assert!(distribution.stop_deficit().abs() < 1e-300);
        }
    }

    #[test]
    fn extreme_gains_keep_their_logarithms_and_overflow_nothing() {
        let distribution = policy(0.01, 0.0).action_distribution(&[-50.0, 20.0]).unwrap();
        assert!((distribution.ln_add(0) + 7000.0).abs() < 1e-9);
        assert!((distribution.ln_stop() + 2000.0).abs() < 1e-9);
        assert_eq!((distribution.ln_add(1), distribution.add(0)), (0.0, 0.0));
        let distribution = policy(1.0, 0.0).action_distribution(&[-40.0]).unwrap();
        let expected = -(-40_f64).exp();
        assert!((distribution.ln_stop() / expected - 1.0).abs() < 1e-15);
        let distribution = policy(1e-300, 0.0).action_distribution(&[1e300, -1e300]).unwrap();
        assert_eq!((distribution.add(0), distribution.add(1)), (1.0, 0.0));
        let distribution_hot = policy(f64::MAX, 1.0)
            .action_distribution(&[f64::MAX, 0.0])
            .unwrap();
        // e, 1 and the 2 that stopping is lifted to.
        let total = std::f64::consts::E + 3.0;
        assert!((distribution_hot.stop() - 2.0 / total).abs() < 1e-15);
        assert!((distribution_hot.add(1) - 1.0 / total).abs() < 1e-15);
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        assert!((0..100).all(|_| distribution.sample(&mut rng) == 1));
    }

    proptest! {
        #[test]
        fn probabilities_are_the_softmax_and_sum_to_one(
            gains in proptest::collection::vec(-3.0..3.0, 0..40),
            temperature in 0.05..10.0,
            stop_prior in 0.0..=1.0,
        ) {
            let distribution = policy(temperature, stop_prior).action_distribution(&gains).unwrap();
            let stop = if gains.is_empty() { 0.0 } else { stop_prior * (gains.len() as f64).ln() };
            let weights: Vec<f64> = gains.iter().map(|gain| (gain / temperature).exp()).collect();
            let total = weights.iter().sum::<f64>() + stop.exp();
            prop_assert!((distribution.stop() - stop.exp() / total).abs() < 1e-12);
            for (position, weight) in weights.iter().enumerate() {
                prop_assert!((distribution.add(position) - weight / total).abs() < 1e-12);
            }
            let sum = distribution.stop() + (0..gains.len()).map(|at| distribution.add(at)).sum::<f64>();
            prop_assert!((sum - 1.0).abs() < 1e-12);
            // 1 <= Z <= number of actions.
            prop_assert!(distribution.ln_normalizer >= 0.0);
            prop_assert!(distribution.ln_normalizer <= ((gains.len() + 1) as f64).ln() + 1e-12);
        }

        #[test]
        fn a_deficit_bounds_its_probability(
            gains in proptest::collection::vec(-3.0..3.0, 1..10), temperature in 0.01..10.0,
        ) {
            let distribution = policy(temperature, 0.0).action_distribution(&gains).unwrap();
            let best = gains.iter().copied().fold(0.0, f64::max);
            for (position, gain) in gains.iter().enumerate() {
                prop_assert!((distribution.add_deficit(position) - (best - gain)).abs() < 1e-12);
                prop_assert!(distribution.ln_add(position) <= -distribution.add_deficit(position) / temperature);
            }
            prop_assert!((distribution.stop_deficit() - best).abs() < 1e-12);
        }
    }
}
