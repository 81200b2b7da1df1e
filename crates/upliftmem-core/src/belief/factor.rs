//! A factor of a covariance that is only known entry by entry.

use super::{PoolBelief, ReferenceBelief};
use crate::error::{InvalidInput, Result, finite, positive};

impl PoolBelief {
    /// The belief with these means and covariances, by pivoted Cholesky.
    ///
    /// `covariance(p, q)` is that of the values of two probes' sets. Rows stop at `dimension_max`, or when no
    /// probe has more than `tolerance` of the largest variance left; what is left of each probe's variance is
    /// counted as noise of its own label, and the largest of it is returned beside the belief.
    pub fn from_covariance(
        means: &[f64],
        covariance: impl Fn(usize, usize) -> f64,
        label_noise: &[f64],
        references: impl IntoIterator<Item = ReferenceBelief>,
        dimension_max: usize,
        tolerance: f64,
    ) -> Result<(Self, f64)> {
        positive("tolerance", tolerance)?;
        if means.len() != label_noise.len() {
            return Err(InvalidInput::new(
                "belief",
                format_args!("{} means and {} label noises", means.len(), label_noise.len()),
            ));
        }
        let probes = means.len();
        let mut left = Vec::with_capacity(probes);
        for probe in 0..probes {
            left.push(finite("variance", covariance(probe, probe))?.max(0.0));
        }
        let largest = left.iter().copied().fold(0.0, f64::max);
        let mut columns: Vec<Vec<f64>> = Vec::new();
        while columns.len() < dimension_max {
            // The first of equals, so that the factor does not depend on anything but the input.
            let pivot = (0..probes).reduce(|best, probe| if left[probe] > left[best] { probe } else { best });
            let Some(pivot) = pivot.filter(|&pivot| left[pivot] > tolerance * largest) else {
                break;
            };
            let root = left[pivot].sqrt();
            let mut column = Vec::with_capacity(probes);
            for probe in 0..probes {
                let explained: f64 = columns.iter().map(|column| column[probe] * column[pivot]).sum();
                column.push((finite("covariance", covariance(probe, pivot))? - explained) / root);
            }
            column[pivot] = root;
            for (left, entry) in left.iter_mut().zip(&column) {
                *left = (*left - entry * entry).max(0.0);
            }
            left[pivot] = 0.0;
            columns.push(column);
        }
        let mut belief = Self::with_capacity(columns.len(), probes);
        let mut row = vec![0.0; columns.len()];
        for probe in 0..probes {
            for (entry, column) in row.iter_mut().zip(&columns) {
                *entry = column[probe];
            }
            belief.push(means[probe], &row, label_noise[probe] + left[probe])?;
        }
        for reference in references {
            belief.push_reference(reference)?;
        }
        Ok((belief, left.into_iter().fold(0.0, f64::max)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gram(rows: &[Vec<f64>]) -> impl Fn(usize, usize) -> f64 + '_ {
        |p, q| rows[p].iter().zip(&rows[q]).map(|(a, b)| a * b).sum()
    }

    proptest! {
        #[test]
        fn the_factor_reproduces_the_covariance(
            rows in proptest::collection::vec(proptest::collection::vec(-1.0..1.0_f64, 4), 1..20),
        ) {
            let means: Vec<f64> = (0..rows.len()).map(|probe| probe as f64).collect();
            let noise = vec![0.1; rows.len()];
            let (belief, left) = PoolBelief::from_covariance(&means, gram(&rows), &noise, [], 64, 1e-12).unwrap();
            prop_assert!(belief.dimension() <= 4);
            prop_assert!(left < 1e-10);
            for (p, &mean) in means.iter().enumerate() {
                prop_assert_eq!(belief.value_mean(p), mean);
                for q in 0..rows.len() {
                    prop_assert!((belief.value_covariance(p, q) - gram(&rows)(p, q)).abs() < 1e-9);
                }
            }
        }

        #[test]
        fn what_is_cut_off_becomes_noise_of_the_label(
            rows in proptest::collection::vec(proptest::collection::vec(-1.0..1.0_f64, 6), 6..12),
        ) {
            let (means, noise) = (vec![0.0; rows.len()], vec![0.1; rows.len()]);
            let reference = ReferenceBelief::default();
            let (belief, _) =
                PoolBelief::from_covariance(&means, gram(&rows), &noise, [reference], 2, 1e-12).unwrap();
            for probe in 0..rows.len() {
                let label = belief.label_covariance((probe, 0), (probe, 0));
                prop_assert!((label - gram(&rows)(probe, probe) - 0.1).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn a_covariance_that_is_not_a_number_is_refused() {
        let error = PoolBelief::from_covariance(&[0.0], |_, _| f64::NAN, &[0.1], [], 8, 1e-9).unwrap_err();
        assert_eq!(error.to_string(), "variance: NaN is not a finite number");
    }
}
