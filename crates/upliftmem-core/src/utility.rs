//! What an execution is worth. Paper: eq. task_utility.

use serde::{Deserialize, Serialize};

use crate::{
    Cost, Performance, Utility,
    error::{InvalidInput, Result, non_negative, positive, unit_interval},
};

/// The utility of one benchmark or product, fixed for its whole life.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "UtilityFields", into = "UtilityFields")]
pub struct UtilityRule {
    efficiency_weight: f64,
    performance_threshold: f64,
    cost_max: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UtilityFields {
    efficiency_weight: f64,
    performance_threshold: f64,
    cost_max: f64,
}

impl UtilityRule {
    /// `efficiency_weight` (paper: gamma) is the most that saving cost can add to a full performance,
    /// `performance_threshold` (paper: rho) the performance from which saving counts, `cost_max` the cap.
    pub fn new(efficiency_weight: f64, performance_threshold: f64, cost_max: f64) -> Result<Self> {
        Ok(Self {
            efficiency_weight: non_negative("efficiency_weight", efficiency_weight)?,
            performance_threshold: unit_interval("performance_threshold", performance_threshold)?,
            cost_max: positive("cost_max", cost_max)?,
        })
    }

    /// Performance, and a bonus for what was not spent once the threshold is met.
    ///
    /// Refuses a cost above the cap: it means that executor and rule disagree about the unit or the cap.
    pub fn utility(&self, performance: Performance, cost: Cost) -> Result<Utility> {
        if cost.get() > self.cost_max {
            return Err(InvalidInput::new(
                "cost",
                format_args!(
                    "{} is above cost_max {}; raise cost_max or make the executor stop there",
                    cost.get(),
                    self.cost_max
                ),
            ));
        }
        let performance = performance.get();
        let bonus = if performance >= self.performance_threshold {
            self.efficiency_weight * (1.0 - cost.get() / self.cost_max)
        } else {
            0.0
        };
        Utility::new(performance * (1.0 + bonus))
    }

    /// The largest utility there is: full performance at no cost.
    pub fn utility_max(&self) -> f64 {
        1.0 + self.efficiency_weight
    }
}

impl TryFrom<UtilityFields> for UtilityRule {
    type Error = InvalidInput;

    fn try_from(fields: UtilityFields) -> Result<Self> {
        Self::new(
            fields.efficiency_weight,
            fields.performance_threshold,
            fields.cost_max,
        )
    }
}

impl From<UtilityRule> for UtilityFields {
    fn from(rule: UtilityRule) -> Self {
        Self {
            efficiency_weight: rule.efficiency_weight,
            performance_threshold: rule.performance_threshold,
            cost_max: rule.cost_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(performance: f64, cost: f64, expected: f64) {
        let rule = UtilityRule::new(0.2, 1.0, 30.0).unwrap();
        let utility = rule
            .utility(Performance::new(performance).unwrap(), Cost::new(cost).unwrap())
            .unwrap();
        assert!(
            (utility.get() - expected).abs() < 1e-15,
            "{utility:?} is not {expected}"
        );
    }

    #[test]
    fn saving_counts_only_from_the_threshold_on() {
        check(1.0, 0.0, 1.2);
        check(1.0, 15.0, 1.1);
        check(1.0, 30.0, 1.0);
        check(0.99, 0.0, 0.99);
        check(0.0, 0.0, 0.0);
    }

    #[test]
    fn a_cost_above_the_cap_is_refused_with_both_numbers() {
        let rule = UtilityRule::new(0.2, 1.0, 30.0).unwrap();
        let error = rule
            .utility(Performance::new(1.0).unwrap(), Cost::new(31.0).unwrap())
            .unwrap_err();
        assert!(error.to_string().contains("31 is above cost_max 30"), "{error}");
    }

    #[test]
    fn a_rule_that_makes_no_sense_is_refused() {
        assert!(UtilityRule::new(-0.1, 1.0, 30.0).is_err());
        assert!(UtilityRule::new(0.2, 1.1, 30.0).is_err());
        assert!(UtilityRule::new(0.2, 1.0, 0.0).is_err());
        assert!(UtilityRule::new(f64::NAN, 1.0, 30.0).is_err());
    }
}
