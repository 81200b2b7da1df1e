//! The one way in which this crate fails: input that no decision can be made from.

use std::fmt;

/// Input refused at the boundary. The message names the thing, its value and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {problem}")]
pub struct InvalidInput {
    what: String,
    problem: String,
}

impl InvalidInput {
    /// `what` names the input, `problem` says what is wrong with it and what would be right.
    pub fn new(what: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Self {
            what: what.to_string(),
            problem: problem.to_string(),
        }
    }

    /// The input that was refused.
    pub fn what(&self) -> &str {
        &self.what
    }
}

/// Shorthand for everything that validates its input.
pub type Result<T, E = InvalidInput> = std::result::Result<T, E>;

/// Refuses NaN and infinities.
pub(crate) fn finite(what: &str, value: f64) -> Result<f64> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(InvalidInput::new(
            what,
            format_args!("{value} is not a finite number"),
        ))
    }
}

/// Refuses anything but a finite number of at least zero.
pub(crate) fn non_negative(what: &str, value: f64) -> Result<f64> {
    if finite(what, value)? >= 0.0 {
        Ok(value)
    } else {
        Err(InvalidInput::new(what, format_args!("{value} is negative")))
    }
}

/// Refuses anything but a finite number above zero.
pub(crate) fn positive(what: &str, value: f64) -> Result<f64> {
    if finite(what, value)? > 0.0 {
        Ok(value)
    } else {
        Err(InvalidInput::new(what, format_args!("{value} is not above 0")))
    }
}

/// Refuses anything but a finite number in [0, 1].
pub(crate) fn unit_interval(what: &str, value: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&finite(what, value)?) {
        Ok(value)
    } else {
        Err(InvalidInput::new(what, format_args!("{value} is outside [0, 1]")))
    }
}
