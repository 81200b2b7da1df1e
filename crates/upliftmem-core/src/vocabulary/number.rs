//! Numbers that are finite, and in range, by construction.

use serde::{Deserialize, Serialize};

use crate::error::{InvalidInput, Result, finite, non_negative, unit_interval};

macro_rules! numbers {
    ($($(#[$doc:meta])+ $name:ident, $what:literal, $check:ident;)+) => {$(
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(try_from = "f64", into = "f64")]
        pub struct $name(f64);

        impl $name {
            /// Checks the value; the error names it.
            pub fn new(value: f64) -> Result<Self> {
                $check($what, value).map(Self)
            }

            /// The plain number.
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        impl TryFrom<f64> for $name {
            type Error = InvalidInput;

            fn try_from(value: f64) -> Result<Self> {
                Self::new(value)
            }
        }

        impl From<$name> for f64 {
            fn from(value: $name) -> f64 {
                value.0
            }
        }
    )+};
}

numbers! {
    /// How well an execution did, in [0, 1]. Paper: R.
    Performance, "performance", unit_interval;
    /// What an execution cost in the units of its protocol (actions, tokens), at least 0. Paper: C.
    Cost, "cost", non_negative;
    /// What an execution was worth. Paper: U, eq. task_utility.
    Utility, "utility", finite;
    /// How much more one execution was worth than the same task without memory. Paper: y, eq. observed_uplift.
    Uplift, "uplift", finite;
}

impl Performance {
    /// Nothing of the task was done.
    pub const FAILURE: Self = Self(0.0);
    /// The task was done in full.
    pub const SUCCESS: Self = Self(1.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_their_range_are_refused_by_name() {
        assert_eq!(
            Performance::new(1.5).unwrap_err().to_string(),
            "performance: 1.5 is outside [0, 1]"
        );
        assert_eq!(Cost::new(-1.0).unwrap_err().to_string(), "cost: -1 is negative");
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(Utility::new(value).is_err());
            assert!(Uplift::new(value).is_err());
        }
    }

    #[test]
    fn a_number_out_of_range_does_not_deserialize() {
        assert!(serde_json::from_str::<Performance>("1.01").is_err());
        assert_eq!(
            serde_json::from_str::<Performance>("1").unwrap(),
            Performance::new(1.0).unwrap()
        );
    }
}
