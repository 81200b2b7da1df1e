//! What an observation is worth to a decision, in closed form. Paper: Theorem 1 and app. evsi_proof.
//!
//! All of it follows from one fact: before a probe is executed, the margin that will be believed afterwards is
//! Gaussian around today's margin, with the variance that the probe resolves.

mod family;
mod psi;

pub use family::family_evsi;
pub(crate) use psi::{decision_slope, decision_value};
pub use psi::{log_psi, normal_density, normal_upper_tail, psi};

use crate::error::{InvalidInput, Result, finite, non_negative, positive};

/// Expected value of sample information for one comparison, in units of utility. Paper: eq. evsi.
///
/// `margin_mean` is what is believed of the margin today, `resolved_sd` how far the observation is expected to
/// move that belief.
///
/// ```
/// use upliftmem_core::evsi;
///
/// // A coin flip between two sets: an observation that moves the margin by 0.3 is worth 0.12.
/// assert!((evsi(0.0, 0.3)? - 0.1197).abs() < 1e-4);
/// // The same observation is worth next to nothing when one set is clearly ahead.
/// assert!(evsi(1.0, 0.3)? < 1e-4);
/// # Ok::<(), upliftmem_core::InvalidInput>(())
/// ```
pub fn evsi(margin_mean: f64, resolved_sd: f64) -> Result<f64> {
    let margin = finite("margin_mean", margin_mean)?.abs();
    let sd = non_negative("resolved_sd", resolved_sd)?;
    Ok(if sd > 0.0 { sd * psi(margin / sd) } else { 0.0 })
}

/// How [`evsi`] changes: with the resolved standard deviation, and with the absolute margin.
/// Paper: eq. evsi_monotonicity.
pub fn evsi_derivatives(margin_mean: f64, resolved_sd: f64) -> Result<(f64, f64)> {
    let ratio = finite("margin_mean", margin_mean)?.abs() / positive("resolved_sd", resolved_sd)?;
    Ok((normal_density(ratio), -normal_upper_tail(ratio)))
}

/// The most that any observation resolving `resolved_sd` can be worth, whatever the margin.
/// Paper: eq. evsi_monotonicity.
pub fn evsi_upper_bound(resolved_sd: f64) -> Result<f64> {
    Ok(non_negative("resolved_sd", resolved_sd)? * normal_density(0.0))
}

/// Expected loss of deciding now instead of with full knowledge of the margin. Paper: app. evsi_proof.
///
/// An observation's EVSI is the expected reduction of this loss.
pub fn opportunity_loss(margin_mean: f64, margin_sd: f64) -> Result<f64> {
    evsi(margin_mean, margin_sd)
}

/// Nats that the observation tells about the margin; infinite when it reveals it. Paper: eq. information_bridge.
pub fn information_gain(margin_variance: f64, resolved_variance: f64) -> Result<f64> {
    let margin = positive("margin_variance", margin_variance)?;
    let resolved = non_negative("resolved_variance", resolved_variance)?;
    if resolved > margin {
        return Err(InvalidInput::new(
            "resolved_variance",
            format_args!("{resolved} exceeds the margin's variance {margin}"),
        ));
    }
    Ok(-0.5 * (-resolved / margin).ln_1p())
}

/// The variance that so many nats about the margin resolve: the inverse of [`information_gain`].
pub fn resolved_variance(margin_variance: f64, information: f64) -> Result<f64> {
    let margin = positive("margin_variance", margin_variance)?;
    if information.is_nan() || information < 0.0 {
        return Err(InvalidInput::new(
            "information",
            format_args!("{information} is not at least 0"),
        ));
    }
    Ok(-margin * (-2.0 * information).exp_m1())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Standard normals by Box and Muller.
    fn normals(seed: u64, count: usize) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (0..count)
            .map(|_| {
                let (radius, angle): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
                (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
            })
            .collect()
    }

    #[test]
    fn the_closed_form_is_the_mean_of_simulated_decisions() {
        let draws = normals(11, 200_000);
        for mean in [-1.0, -0.2, 0.0, 0.05, 0.6] {
            for sd in [0.05, 0.4, 1.5] {
                let gains: Vec<f64> = draws
                    .iter()
                    .map(|z| (mean + sd * z).max(0.0) - f64::max(mean, 0.0))
                    .collect();
                let count = gains.len() as f64;
                let average = gains.iter().sum::<f64>() / count;
                let variance = gains.iter().map(|gain| (gain - average).powi(2)).sum::<f64>() / count;
                let error = (average - evsi(mean, sd).unwrap()).abs();
                assert!(
                    error <= 5.0 * (variance / count).sqrt() + 1e-12,
                    "mean {mean} sd {sd}: {error}"
                );
            }
        }
    }

    #[test]
    fn no_information_has_no_value_and_a_revealed_margin_the_value_of_perfect_information() {
        assert_eq!(evsi(0.3, 0.0).unwrap(), 0.0);
        assert_eq!(information_gain(1.0, 1.0).unwrap(), f64::INFINITY);
        assert_eq!(resolved_variance(2.0, f64::INFINITY).unwrap(), 2.0);
        assert_eq!(evsi(0.3, 2.0).unwrap(), opportunity_loss(0.3, 2.0).unwrap());
    }

    #[test]
    fn numbers_that_are_not_numbers_are_refused() {
        assert!(evsi(f64::NAN, 1.0).is_err());
        assert!(evsi(0.0, f64::INFINITY).is_err());
        assert!(evsi(0.0, -1.0).is_err());
        assert!(evsi_derivatives(0.0, 0.0).is_err());
        assert!(information_gain(1.0, 1.1).is_err());
        assert!(resolved_variance(1.0, -0.1).is_err());
    }

    proptest! {
        #[test]
        fn derivatives_are_those_of_the_value(margin in -3.0..3.0_f64, sd in 0.2..3.0_f64) {
            let step = 1e-5;
            let (by_sd, by_margin) = evsi_derivatives(margin, sd).unwrap();
            let value = |margin: f64, sd: f64| evsi(margin, sd).unwrap();
            let numeric = (value(margin, sd + step) - value(margin, sd - step)) / (2.0 * step);
            prop_assert!((by_sd - numeric).abs() < 1e-8);
            let margin = margin.abs() + step;
            let (_, by_margin_here) = evsi_derivatives(margin, sd).unwrap();
            let numeric = (value(margin + step, sd) - value(margin - step, sd)) / (2.0 * step);
            prop_assert!((by_margin_here - numeric).abs() < 1e-8);
            prop_assert!(by_sd > 0.0 && by_margin < 0.0);
        }

        #[test]
        fn value_lies_between_zero_and_its_bound(margin in -50.0..50.0_f64, sd in 0.0..10.0_f64) {
            let value = evsi(margin, sd).unwrap();
            prop_assert!(value >= 0.0 && value <= evsi_upper_bound(sd).unwrap() * (1.0 + 1e-14));
        }

        #[test]
        fn value_and_information_rank_probes_of_one_comparison_alike(
            margin in -2.0..2.0_f64, variance in 0.1..4.0_f64, first in 0.0..0.99_f64, second in 0.0..0.99_f64,
        ) {
            let [low, high] = if first < second { [first, second] } else { [second, first] };
            let nats = |share: f64| information_gain(variance, share * variance).unwrap();
            let value = |share: f64| evsi(margin, (share * variance).sqrt()).unwrap();
            prop_assert!(nats(low) <= nats(high) && value(low) <= value(high));
            prop_assert!((resolved_variance(variance, nats(high)).unwrap() - high * variance).abs() < 1e-12);
        }

        #[test]
        fn deciding_later_loses_less_by_exactly_the_value(
            margin in -2.0..2.0_f64, variance in 0.1..4.0_f64, share in 0.01..0.99_f64,
        ) {
            // The loss that remains is averaged over the margins the observation may lead to.
            let remaining = (variance * (1.0 - share)).sqrt();
            let moved = (variance * share).sqrt();
            let steps = 4_000;
            let mut after = 0.0;
            for step in 0..steps {
                let z = -8.0 + 16.0 * (f64::from(step) + 0.5) / f64::from(steps);
                let weight = normal_density(z) * 16.0 / f64::from(steps);
                after += weight * opportunity_loss(margin + moved * z, remaining).unwrap();
            }
            let before = opportunity_loss(margin, variance.sqrt()).unwrap();
            prop_assert!((before - after - evsi(margin, moved).unwrap()).abs() < 1e-6);
        }
    }
}
