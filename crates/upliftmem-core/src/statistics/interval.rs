//! Intervals by resampling, for measures that are far from normal.

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use super::{check_level, check_values, paired_differences};
use crate::error::{InvalidInput, Result};

/// A range that holds the true value with the stated confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// How often such a range holds the truth, in (0, 1).
    pub level: f64,
}

impl Interval {
    /// Whether it lies wholly above or wholly below zero: the sign is settled.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// Where the true mean lies, by the percentiles of the means of resampled values; `None` for one value.
///
/// Good from a few dozen values on. Below that it is too narrow (with ten values a nominal 95 % holds about 90 %);
/// prefer [`super::Summary::t_interval`] there.
pub fn bootstrap_interval(
    values: &[f64],
    level: f64,
    resamples: usize,
    rng: &mut impl Rng,
) -> Result<Option<Interval>> {
    check_values("values", values)?;
    check_level(level)?;
    if resamples == 0 {
        return Err(InvalidInput::new(
            "resamples",
            "0 give no percentiles; 2000 are usual",
        ));
    }
    if values.len() == 1 {
        return Ok(None);
    }
    let mut means: Vec<f64> = (0..resamples)
        .map(|_| {
            let sum: f64 = values
                .iter()
                .map(|_| values[rng.random_range(0..values.len())])
                .sum();
            sum / values.len() as f64
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    Ok(Some(Interval {
        low: percentile(&means, 0.5 - 0.5 * level),
        high: percentile(&means, 0.5 + 0.5 * level),
        level,
    }))
}

/// Where the true mean difference of pairs lies, treated minus control: pairs are resampled whole.
pub fn paired_bootstrap_interval(
    treated: &[f64],
    control: &[f64],
    level: f64,
    resamples: usize,
    rng: &mut impl Rng,
) -> Result<Option<Interval>> {
    bootstrap_interval(&paired_differences(treated, control)?, level, resamples, rng)
}

/// The value below which this share of sorted values lies, interpolated.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (place - place.floor()) * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::statistics::Summary;

    #[test]
    fn percentiles_interpolate() {
        for (share, expected) in [(0.0, 1.0), (0.5, 2.5), (0.9, 4.4), (1.0, 5.0)] {
            assert!((percentile(&[1.0, 2.0, 3.0, 5.0], share) - expected).abs() < 1e-12);
        }
        assert!((percentile(&[4.0], 0.3) - 4.0).abs() < 1e-12);
    }

    #[test]
    fn equal_values_leave_no_doubt_and_one_value_no_interval() {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let interval = bootstrap_interval(&[0.5; 8], 0.95, 100, &mut rng)
            .unwrap()
            .unwrap();
        assert_eq!((interval.low, interval.high), (0.5, 0.5));
        assert!(interval.excludes_zero());
        assert_eq!(bootstrap_interval(&[0.5], 0.95, 100, &mut rng).unwrap(), None);
        assert!(bootstrap_interval(&[0.5, 1.0], 0.95, 0, &mut rng).is_err());
        assert!(bootstrap_interval(&[], 0.95, 100, &mut rng).is_err());
        assert!(bootstrap_interval(&[f64::INFINITY, 0.0], 0.95, 100, &mut rng).is_err());
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let values: Vec<f64> = (0..40).map(|number| f64::from(number % 7)).collect();
        let run = |seed| bootstrap_interval(&values, 0.9, 500, &mut ChaCha8Rng::seed_from_u64(seed)).unwrap();
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
    }

    /// Share of seeded experiments in which an interval holds the truth. With 1000 experiments the share of a
    /// true 95 % interval is within 0.95 +- 0.035 by five standard errors.
    fn coverage(truth: f64, mut interval: impl FnMut(&mut ChaCha8Rng) -> Interval) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(20);
        let experiments = 1_000;
        let held = (0..experiments)
            .filter(|_| {
                let interval = interval(&mut rng);
                interval.low <= truth && truth <= interval.high
            })
            .count();
        held as f64 / f64::from(experiments)
    }

    /// A nearly normal number: twelve uniform ones, centred.
    fn normal(rng: &mut ChaCha8Rng) -> f64 {
        (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
    }

    #[test]
    fn t_intervals_of_five_values_cover_as_promised() {
        let share = coverage(2.0, |rng| {
            let values: Vec<f64> = (0..5).map(|_| 2.0 + normal(rng)).collect();
            Summary::of(&values).unwrap().t_interval(0.95).unwrap().unwrap()
        });
        assert!((share - 0.95).abs() < 0.035, "{share}");
    }

    #[test]
    fn bootstrap_intervals_of_paired_outcomes_cover_as_promised() {
        // Successes with and without memory on the same 60 tasks: 0.7 against 0.5, strongly dependent.
        let share = coverage(0.2, |rng| {
            let (treated, control): (Vec<f64>, Vec<f64>) = (0..60)
                .map(|_| {
                    let difficulty: f64 = rng.random();
                    let outcome = |threshold| f64::from(u8::from(difficulty < threshold));
                    (outcome(0.7), outcome(0.5))
                })
                .unzip();
            paired_bootstrap_interval(&treated, &control, 0.95, 400, rng)
                .unwrap()
                .unwrap()
        });
        assert!((share - 0.94).abs() < 0.045, "{share}");
    }

    #[test]
    fn the_warning_about_few_values_is_true() {
        let share = coverage(0.0, |rng| {
            let values: Vec<f64> = (0..10).map(|_| normal(rng)).collect();
            bootstrap_interval(&values, 0.95, 400, rng).unwrap().unwrap()
        });
        assert!((share - 0.90).abs() < 0.035, "{share}");
    }
}
