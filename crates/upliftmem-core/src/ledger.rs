//! What was paid for. Paper: app. utility, rollout accounting.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Cost, Purpose, RolloutId};

/// Every execution once, by the purpose it was asked for, however often its outcome was used.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Ledger {
    executions: BTreeMap<RolloutId, (Purpose, Cost)>,
}

/// Executions of one purpose, and what they cost together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LedgerLine {
    /// Number of distinct executions.
    pub executions: u64,
    /// Their costs, added up.
    pub cost: f64,
}

impl Ledger {
    /// Enters an execution. Says whether it was new; one that is already entered stays as it was, so a
    /// reference that a validation reuses is still one execution.
    pub fn enter(&mut self, rollout: RolloutId, purpose: Purpose, cost: Cost) -> bool {
        match self.executions.entry(rollout) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert((purpose, cost));
                true
            }
            std::collections::btree_map::Entry::Occupied(_) => false,
        }
    }

    /// Whether an execution is entered.
    pub fn contains(&self, rollout: RolloutId) -> bool {
        self.executions.contains_key(&rollout)
    }

    /// Executions and cost of one purpose.
    pub fn line(&self, purpose: Purpose) -> LedgerLine {
        self.sum(|entered| entered == purpose)
    }

    /// What learning cost: everything but evaluation.
    pub fn training(&self) -> LedgerLine {
        self.sum(|entered| entered != Purpose::Evaluation)
    }

    /// Everything.
    pub fn total(&self) -> LedgerLine {
        self.sum(|_| true)
    }

    fn sum(&self, wanted: impl Fn(Purpose) -> bool) -> LedgerLine {
        let mut line = LedgerLine::default();
        for &(purpose, cost) in self.executions.values() {
            if wanted(purpose) {
                line.executions += 1;
                line.cost += cost.get();
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_used_twice_counts_once() {
        let mut ledger = Ledger::default();
        let cost = Cost::new(2.0).unwrap();
        assert!(ledger.enter(RolloutId::from_u128(1), Purpose::Reference, cost));
        assert!(ledger.enter(RolloutId::from_u128(2), Purpose::Probe, cost));
        assert!(!ledger.enter(RolloutId::from_u128(1), Purpose::Validation, cost));
        assert!(ledger.enter(RolloutId::from_u128(3), Purpose::Evaluation, cost));
        assert_eq!(
            ledger.line(Purpose::Reference),
            LedgerLine {
                executions: 1,
                cost: 2.0
            }
        );
        assert_eq!(ledger.line(Purpose::Validation), LedgerLine::default());
        assert_eq!(ledger.training().executions, 2);
        assert_eq!(
            ledger.total(),
            LedgerLine {
                executions: 3,
                cost: 6.0
            }
        );
    }
}
