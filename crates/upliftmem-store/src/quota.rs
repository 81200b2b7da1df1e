//! How much a tenant may use, and how much it has used.

use serde::{Deserialize, Serialize};

use crate::{
    ScopeParts,
    error::{Error, Result},
};

/// What a tenant may use; nothing is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct QuotaLimits {
    /// Memories that are stored, whatever their status; deleting one makes room.
    pub memories_max: Option<u64>,
    /// Executions that are asked for, from the first on. Those that an agent runs by itself are not counted.
    pub executions_max: Option<u64>,
    /// Requests a second, on average, of all keys of the tenant together.
    pub requests_per_second: Option<f64>,
}

impl QuotaLimits {
    /// Refuses numbers that no database holds, and a pace that is none.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, limit) in [
            ("memories_max", self.memories_max),
            ("executions_max", self.executions_max),
        ] {
            if limit.is_some_and(|limit| i64::try_from(limit).is_err()) {
                return Err(Error::invalid(
                    name,
                    format_args!("at most {} can be counted", i64::MAX),
                ));
            }
        }
        if self
            .requests_per_second
            .is_some_and(|pace| !pace.is_finite() || pace <= 0.0)
        {
            return Err(Error::invalid(
                "requests_per_second",
                "give a number above 0; to shut a tenant out, revoke its keys",
            ));
        }
        Ok(())
    }
}

/// A tenant's quota. Whatever happens in a scope counts towards every tenant that the scope is within.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Quota {
    /// Whose it is: every scope that has these parts.
    pub tenant: ScopeParts,
    /// What it may use.
    #[serde(flatten)]
    pub limits: QuotaLimits,
    /// Memories that it has.
    pub memories: u64,
    /// Executions that were asked for.
    pub executions: u64,
}

impl Quota {
    /// Executions that may still be asked for; nothing is no limit.
    pub fn executions_left(&self) -> Option<u64> {
        let most = self.limits.executions_max?;
        Some(most.saturating_sub(self.executions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_limits_are_refused() {
        let check = |memories_max, requests_per_second| {
            let limits = QuotaLimits {
                memories_max,
                executions_max: None,
                requests_per_second,
            };
            limits.check().is_ok()
        };
        assert!(check(None, None));
        assert!(check(Some(0), Some(0.5)), "nothing is a quota too");
        assert!(!check(Some(u64::MAX), None));
        for pace in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(!check(None, Some(pace)), "{pace}");
        }
    }
}
