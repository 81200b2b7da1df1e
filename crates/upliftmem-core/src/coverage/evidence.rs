//! What coverage means for learning: when direct evidence arrives, and what is lost without it.

use crate::error::{Result, unit_interval};

/// Expected executions of a set that each of `runs` independent runs returns with this probability.
/// Paper: expectation of N_B(n), eq. direct_evidence_count. Given an upper bound on the probability, it is an upper bound.
pub fn expected_executions(probability: f64, runs: u64) -> Result<f64> {
    Ok(unit_interval("probability", probability)? * runs as f64)
}

/// Probability that none of `runs` independent runs executes the set. Paper: eq. direct_evidence_count.
pub fn no_evidence_probability(probability: f64, runs: u64) -> Result<f64> {
    Ok(ln_no_evidence(unit_interval("probability", probability)?, runs).exp())
}

/// What an upper bound on the probability guarantees: no evidence with at least this probability.
/// Paper: the union bound of eq. direct_evidence_count.
pub fn no_evidence_lower_bound(upper_bound: f64, runs: u64) -> Result<f64> {
    Ok((1.0 - expected_executions(upper_bound, runs)?).max(0.0))
}

/// Probability of at least one execution when an independent probe batch includes the set with probability
/// `probe_probability`, on top of `runs` ordinary runs. Paper: eq. probe_coverage.
pub fn probe_coverage(probability: f64, runs: u64, probe_probability: f64) -> Result<f64> {
    let ordinary = ln_no_evidence(unit_interval("probability", probability)?, runs);
    let probe = (-unit_interval("probe_probability", probe_probability)?).ln_1p();
    // 1 - x for x near 1: the form that keeps a tiny coverage.
    Ok(-(ordinary + probe).exp_m1())
}

/// Whoever tells the sign of the set's uplift from `runs` ordinary runs alone errs with at least this
/// probability in one of two worlds that differ only in this set. Paper: eq. coverage_lower_bound.
pub fn coverage_lower_bound(probability: f64, runs: u64) -> Result<f64> {
    Ok(0.5 * no_evidence_probability(probability, runs)?)
}

/// What holds for a policy that changes between rounds. Paper: eq. adaptive_coverage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveCoverage {
    /// At most this many executions of the set are expected.
    pub expected_executions_max: f64,
    /// With at least this probability there are none.
    pub no_evidence_min: f64,
    /// With at least this probability the sign of its uplift is told wrongly in one of two worlds.
    pub sign_error_min: f64,
}

/// The bounds when round t executes the set with probability at most `upper_bounds[t]`, whatever came before.
pub fn adaptive_coverage(upper_bounds: &[f64]) -> Result<AdaptiveCoverage> {
    let mut sum = 0.0;
    for &bound in upper_bounds {
        sum += unit_interval("bound on the probability of a round", bound)?;
    }
    let no_evidence_min = (1.0 - sum).max(0.0);
    Ok(AdaptiveCoverage {
        expected_executions_max: sum,
        no_evidence_min,
        sign_error_min: 0.5 * no_evidence_min,
    })
}

/// ln (1 - p)^n; with no runs it is ln 1, also for a certain set.
fn ln_no_evidence(probability: f64, runs: u64) -> f64 {
    if runs == 0 {
        0.0
    } else {
        runs as f64 * (-probability).ln_1p()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(value: Result<f64>, expected: f64) {
        let value = value.unwrap();
        assert!(
            (value - expected).abs() <= 1e-14 * expected.abs(),
            "{value} is not {expected}"
        );
    }

    #[test]
    fn tiny_probabilities_are_not_lost() {
        check(probe_coverage(1e-20, 3, 0.0), 3e-20);
        check(probe_coverage(0.0, 1_000, 1e-300), 1e-300);
        check(
            no_evidence_probability(1e-18, 1_000_000_000_000_000_000),
            (-1_f64).exp(),
        );
        check(expected_executions(1e-300, 10), 1e-299);
    }

    #[test]
    fn certain_and_impossible_sets_and_no_runs() {
        check(no_evidence_probability(1.0, 0), 1.0);
        check(no_evidence_probability(1.0, 1), 0.0);
        check(no_evidence_probability(0.0, u64::MAX), 1.0);
        check(probe_coverage(1.0, 0, 0.0), 0.0);
        check(probe_coverage(1.0, 1, 1.0), 1.0);
        check(probe_coverage(0.3, 0, 1.0), 1.0);
        check(coverage_lower_bound(0.0, 1_000), 0.5);
        check(no_evidence_lower_bound(0.25, 3), 0.25);
        check(no_evidence_lower_bound(0.25, 5), 0.0);
        let none = adaptive_coverage(&[]).unwrap();
        check(Ok(none.expected_executions_max), 0.0);
        check(Ok(none.no_evidence_min), 1.0);
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        assert!(no_evidence_probability(-0.1, 1).is_err());
        assert!(probe_coverage(0.5, 1, f64::NAN).is_err());
        assert!(expected_executions(1.1, 1).is_err());
        let error = adaptive_coverage(&[0.5, 2.0]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "bound on the probability of a round: 2 is outside [0, 1]"
        );
    }

    proptest! {
        #[test]
        fn a_loop_over_runs_agrees(p in 0.0..=1.0, r in 0.0..=1.0, n in 0_u64..40) {
            let none = (0..n).fold(1.0, |none, _| none * (1.0 - p));
            prop_assert!((no_evidence_probability(p, n).unwrap() - none).abs() < 1e-13);
            prop_assert!((probe_coverage(p, n, r).unwrap() - (1.0 - none * (1.0 - r))).abs() < 1e-13);
            prop_assert!(no_evidence_probability(p, n).unwrap() >= no_evidence_lower_bound(p, n).unwrap() - 1e-15);
            // A probe never takes coverage away.
            prop_assert!(probe_coverage(p, n, r).unwrap() >= probe_coverage(p, n, 0.0).unwrap());
            // A fixed policy is a changing one that does not change.
            let adaptive = adaptive_coverage(&vec![p; usize::try_from(n).unwrap()]).unwrap();
            prop_assert!((adaptive.expected_executions_max - expected_executions(p, n).unwrap()).abs() < 1e-12);
            prop_assert!(adaptive.no_evidence_min <= none + 1e-12);
            prop_assert!(adaptive.sign_error_min <= coverage_lower_bound(p, n).unwrap() + 1e-12);
        }
    }
}
