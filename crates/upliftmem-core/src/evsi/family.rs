//! Choosing one set of many after an observation. Paper: eqs. full_evsi, scalar_kg.

use super::psi;
use crate::error::{InvalidInput, Result, finite};

/// One alternative as a line: its mean, and how far one standard deviation of the observation moves it.
#[derive(Clone, Copy)]
struct Line {
    mean: f64,
    slope: f64,
}

/// Expected gain of choosing the best of several sets after a scalar observation instead of before it.
///
/// `means[k]` is the believed value of alternative k, `slopes[k]` its covariance with the observation divided by
/// the observation's standard deviation (paper: beta). Exact, by the upper envelope of the lines
/// `means[k] + slopes[k] z` over a standard normal z.
pub fn family_evsi(means: &[f64], slopes: &[f64]) -> Result<f64> {
    if means.is_empty() || means.len() != slopes.len() {
        return Err(InvalidInput::new(
            "alternatives",
            format_args!(
                "{} means and {} slopes; give one of each per alternative",
                means.len(),
                slopes.len()
            ),
        ));
    }
    let mut lines = Vec::with_capacity(means.len());
    for (&mean, &slope) in means.iter().zip(slopes) {
        lines.push(Line {
            mean: finite("mean", mean)?,
            slope: finite("slope", slope)?,
        });
    }
    let envelope = upper_envelope(lines);
    // Each corner of the envelope is a decision between two neighbours: a binary comparison.
    Ok(envelope
        .windows(2)
        .map(|pair| (pair[1].slope - pair[0].slope) * psi(crossing(pair[0], pair[1]).abs()))
        .sum())
}

/// Where the steeper `right` overtakes `left`.
fn crossing(left: Line, right: Line) -> f64 {
    (left.mean - right.mean) / (right.slope - left.slope)
}

/// The lines that are highest somewhere, by rising slope.
fn upper_envelope(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by(|a, b| a.slope.total_cmp(&b.slope).then(a.mean.total_cmp(&b.mean)));
    let mut envelope: Vec<Line> = Vec::with_capacity(lines.len());
    for line in lines {
        // Of parallel lines the higher comes later and hides the other.
        if envelope.last().is_some_and(|last| last.slope >= line.slope) {
            envelope.pop();
        }
        while let [.., left, right] = envelope[..] {
            if crossing(right, line) > crossing(left, right) {
                break;
            }
            envelope.pop();
        }
        envelope.push(line);
    }
    envelope
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::evsi::{evsi, normal_density};

    /// Integrates the maximum over the observation.
    fn brute_force(means: &[f64], slopes: &[f64]) -> f64 {
        let steps = 40_000;
        let mut sum = 0.0;
        for step in 0..steps {
            let z = -9.0 + 18.0 * (f64::from(step) + 0.5) / f64::from(steps);
            let best = means
                .iter()
                .zip(slopes)
                .map(|(mean, slope)| mean + slope * z)
                .fold(f64::MIN, f64::max);
            sum += best * normal_density(z) * 18.0 / f64::from(steps);
        }
        sum - means.iter().copied().fold(f64::MIN, f64::max)
    }

    #[test]
    fn two_alternatives_are_a_binary_comparison() {
        let value = family_evsi(&[0.1, 0.4], &[0.5, -0.2]).unwrap();
        assert!((value - evsi(0.3, 0.7).unwrap()).abs() < 1e-15);
    }

    #[test]
    fn a_single_alternative_or_parallel_ones_leave_nothing_to_decide() {
        assert_eq!(family_evsi(&[0.3], &[2.0]).unwrap(), 0.0);
        assert_eq!(family_evsi(&[0.3, 0.9, 0.1], &[2.0, 2.0, 2.0]).unwrap(), 0.0);
    }

    #[test]
    fn a_duplicate_counts_once_here_and_twice_in_a_sum_of_comparisons() {
        // Paper, app. information: F1 = F2 = Z against F0 = 0.
        let together = family_evsi(&[0.0, 0.0, 0.0], &[0.0, 1.0, 1.0]).unwrap();
        assert!((together - evsi(0.0, 1.0).unwrap()).abs() < 1e-15);
    }

    #[test]
    fn malformed_families_are_refused() {
        assert!(family_evsi(&[], &[]).is_err());
        assert!(family_evsi(&[0.0], &[]).is_err());
        assert!(family_evsi(&[f64::NAN], &[0.0]).is_err());
    }

    proptest! {
        #[test]
        fn the_envelope_is_the_integral_and_lies_between_the_binary_bounds(
            lines in proptest::collection::vec((-1.0..1.0_f64, -1.0..1.0_f64), 2..12),
        ) {
            let (means, slopes): (Vec<f64>, Vec<f64>) = lines.into_iter().unzip();
            let value = family_evsi(&means, &slopes).unwrap();
            prop_assert!((value - brute_force(&means, &slopes)).abs() < 1e-6);
            // Paper: eq. evsi_bounds, against the predicted best.
            let best = (0..means.len()).max_by(|&a, &b| means[a].total_cmp(&means[b])).unwrap();
            let binary: Vec<f64> = (0..means.len())
                .filter(|&other| other != best)
                .map(|other| evsi(means[other] - means[best], (slopes[other] - slopes[best]).abs()).unwrap())
                .collect();
            let (largest, sum) = (binary.iter().copied().fold(0.0, f64::max), binary.iter().sum::<f64>());
            prop_assert!(largest <= value + 1e-12 && value <= sum + 1e-12);
        }
    }
}
