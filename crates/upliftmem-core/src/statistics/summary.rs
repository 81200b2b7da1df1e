//! Mean, spread, and what a paired comparison is made of.

use serde::{Deserialize, Serialize};

use super::{Interval, check_level, check_paired, check_values, student_quantile};
use crate::error::{Result, finite};

/// What repeated measurements say together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Sample standard deviation, with count - 1 below; `None` for one value.
    pub standard_deviation: Option<f64>,
    /// Standard error of the mean; `None` for one value.
    pub standard_error: Option<f64>,
}

impl Summary {
    /// Summarises at least one finite value.
    pub fn of(values: &[f64]) -> Result<Self> {
        check_values("values", values)?;
        let (mut mean, mut squares) = (0.0, 0.0);
        for (before, &value) in values.iter().enumerate() {
            // Running updates: two large sums are never subtracted from each other.
            let from_old = value - mean;
            mean += from_old / (before + 1) as f64;
            squares += from_old * (value - mean);
        }
        finite("mean of the values", mean)?;
        let count = values.len();
        let standard_deviation = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        if let Some(deviation) = standard_deviation {
            finite("standard deviation of the values", deviation)?;
        }
        Ok(Self {
            count,
            mean,
            standard_deviation,
            standard_error: standard_deviation.map(|deviation| deviation / (count as f64).sqrt()),
        })
    }

    /// Where the true mean lies, by Student's t; `None` for one value.
    pub fn t_interval(&self, level: f64) -> Result<Option<Interval>> {
        check_level(level)?;
        let Some(error) = self.standard_error else {
            return Ok(None);
        };
        let reach = student_quantile(level, self.count as u64 - 1)? * error;
        Ok(Some(Interval {
            low: self.mean - reach,
            high: self.mean + reach,
            level,
        }))
    }
}

/// What each pair differs by, treated minus control: a paired comparison is a summary of these.
pub fn paired_differences(treated: &[f64], control: &[f64]) -> Result<Vec<f64>> {
    check_paired(("treated values", treated), ("control values", control))?;
    Ok(treated
        .iter()
        .zip(control)
        .map(|(treated, control)| treated - control)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_made_example() {
        let summary = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((summary.count, summary.mean), (8, 5.0));
        assert!((summary.standard_deviation.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-15);
        assert!((summary.standard_error.unwrap() - (4.0_f64 / 7.0).sqrt()).abs() < 1e-15);
        let interval = summary.t_interval(0.95).unwrap().unwrap();
        assert!((interval.high - 5.0 - 2.364_624_251 * (4.0_f64 / 7.0).sqrt()).abs() < 1e-8);
        assert!((interval.low + interval.high - 10.0).abs() < 1e-12);
    }

    #[test]
    fn one_value_has_a_mean_and_no_interval() {
        let summary = Summary::of(&[3.0]).unwrap();
        assert_eq!((summary.mean, summary.standard_deviation), (3.0, None));
        assert_eq!(summary.t_interval(0.95).unwrap(), None);
    }

    #[test]
    fn a_large_offset_does_not_drown_the_spread() {
        let summary = Summary::of(&[1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0]).unwrap();
        assert!((summary.standard_deviation.unwrap() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn nothing_and_no_numbers_are_refused() {
        assert_eq!(
            Summary::of(&[]).unwrap_err().to_string(),
            "values: there are none; give at least one"
        );
        assert_eq!(
            Summary::of(&[0.0, f64::NAN]).unwrap_err().to_string(),
            "values, number 1: NaN is not a finite number"
        );
        assert!(Summary::of(&[f64::MAX, -f64::MAX]).is_err());
        let summary = Summary::of(&[0.0, 1.0]).unwrap();
        for level in [0.0, 1.0, -0.5, 95.0, f64::NAN] {
            assert!(summary.t_interval(level).is_err());
        }
    }

    #[test]
    fn pairs_are_compared_one_to_one() {
        assert_eq!(paired_differences(&[3.0, 1.0], &[1.0, 2.0]).unwrap(), [2.0, -1.0]);
        assert_eq!(
            paired_differences(&[3.0], &[1.0, 2.0]).unwrap_err().to_string(),
            "control values: 2 for 1 treated values; they are compared one to one"
        );
        assert!(paired_differences(&[], &[]).is_err());
    }
}
