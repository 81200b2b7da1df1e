//! The statistics of reports: what was measured, and how sure that is. Paper: app. metrics.
//!
//! Everything refuses NaN, infinities and nothing at all, so that a number in a report is a number. One value has a
//! mean and no interval.

mod calibration;
mod gains;
mod interval;
mod student;
mod success;
mod summary;

pub use calibration::{calibration_slope, optimism};
pub use gains::{Direction, GainRow, GainSummary, summarize_gains};
pub use interval::{Interval, bootstrap_interval, paired_bootstrap_interval};
pub use student::student_quantile;
pub use success::cumulative_success;
pub use summary::{Summary, paired_differences};

use crate::error::{InvalidInput, Result, finite};

/// Refuses an empty slice and anything in it that is not a finite number, by position.
fn check_values(what: &str, values: &[f64]) -> Result<()> {
    if values.is_empty() {
        return Err(InvalidInput::new(what, "there are none; give at least one"));
    }
    for (position, &value) in values.iter().enumerate() {
        if !value.is_finite() {
            finite(&format!("{what}, number {position}"), value)?;
        }
    }
    Ok(())
}

/// Refuses two slices that can not be paired.
fn check_paired(left: (&str, &[f64]), right: (&str, &[f64])) -> Result<()> {
    check_values(left.0, left.1)?;
    check_values(right.0, right.1)?;
    if left.1.len() == right.1.len() {
        Ok(())
    } else {
        Err(InvalidInput::new(
            right.0,
            format_args!(
                "{} for {} {}; they are compared one to one",
                right.1.len(),
                left.1.len(),
                left.0
            ),
        ))
    }
}

/// Refuses a confidence level outside (0, 1).
fn check_level(level: f64) -> Result<()> {
    if level > 0.0 && level < 1.0 {
        Ok(())
    } else {
        Err(InvalidInput::new(
            "confidence level",
            format_args!("{level} is outside (0, 1); 0.95 is usual"),
        ))
    }
}
