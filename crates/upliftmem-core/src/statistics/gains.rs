//! Gains over native retrieval, on the same memory stores. Paper: app. metrics.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::error::{InvalidInput, Result, finite};

/// Which way a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Accuracy, reward, correct-memory use.
    HigherIsBetter,
    /// Sycophancy, outdated-memory use, steps.
    LowerIsBetter,
}

impl Direction {
    /// The difference to the native score, turned so that better is above zero.
    pub fn gain(self, ours: f64, native: f64) -> f64 {
        match self {
            Self::HigherIsBetter => ours - native,
            Self::LowerIsBetter => native - ours,
        }
    }
}

/// One metric of one scenario on one memory store, each score already averaged over its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GainRow {
    /// What is asked of the memory.
    pub scenario: String,
    /// Which memory system built the store.
    pub store: String,
    /// What is measured.
    pub metric: String,
    /// Which way it improves.
    pub direction: Direction,
    /// The score with our retrieval.
    pub ours: f64,
    /// The score with the store's own retrieval.
    pub native: f64,
}

/// Direction-aligned gains, averaged with equal weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GainSummary {
    /// Per scenario: the mean over its metrics, then over stores.
    pub scenarios: BTreeMap<String, f64>,
    /// The mean over scenarios.
    pub overall: f64,
}

/// Averages gains the way the paper's tables do: metrics within a store, stores within a scenario, then scenarios,
/// each with equal weight. Refuses a table with holes, which would weigh some stores more than others.
pub fn summarize_gains(rows: &[GainRow]) -> Result<GainSummary> {
    let mut table: BTreeMap<&str, BTreeMap<&str, BTreeMap<&str, f64>>> = BTreeMap::new();
    for row in rows {
        let gain = finite(&row_name(row), row.direction.gain(row.ours, row.native))?;
        let store = table
            .entry(&row.scenario)
            .or_default()
            .entry(&row.store)
            .or_default();
        if store.insert(&row.metric, gain).is_some() {
            return Err(InvalidInput::new(
                row_name(row),
                "it is given twice; average its runs first",
            ));
        }
    }
    if table.is_empty() {
        return Err(InvalidInput::new(
            "gains",
            "there are none; give at least one row",
        ));
    }
    check_complete(&table)?;
    let scenarios: BTreeMap<String, f64> = table
        .iter()
        .map(|(&scenario, stores)| {
            let gain = mean(stores.values().map(|metrics| mean(metrics.values().copied())));
            (scenario.to_owned(), gain)
        })
        .collect();
    Ok(GainSummary {
        overall: mean(scenarios.values().copied()),
        scenarios,
    })
}

fn row_name(row: &GainRow) -> String {
    format!("{} of {} on {}", row.metric, row.scenario, row.store)
}

/// Every scenario has every store, and every store of a scenario its metrics.
fn check_complete(table: &BTreeMap<&str, BTreeMap<&str, BTreeMap<&str, f64>>>) -> Result<()> {
    let all_stores: BTreeSet<&str> = table.values().flat_map(BTreeMap::keys).copied().collect();
    for (scenario, stores) in table {
        let all_metrics: BTreeSet<&str> = stores.values().flat_map(BTreeMap::keys).copied().collect();
        for store in &all_stores {
            let missing = match stores.get(store) {
                None => Some("every metric"),
                Some(metrics) => all_metrics
                    .iter()
                    .copied()
                    .find(|metric| !metrics.contains_key(metric)),
            };
            if let Some(metric) = missing {
                return Err(InvalidInput::new(
                    format_args!("{metric} of {scenario} on {store}"),
                    "missing; an average over a table with holes would mislead",
                ));
            }
        }
    }
    Ok(())
}

/// The mean of at least one value; [`check_complete`] has seen to it that there is one.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(scenario: &str, store: &str, metric: &str, ours: f64, native: f64) -> GainRow {
        let direction = if metric == "syco" {
            Direction::LowerIsBetter
        } else {
            Direction::HigherIsBetter
        };
        GainRow {
            scenario: scenario.into(),
            store: store.into(),
            metric: metric.into(),
            direction,
            ours,
            native,
        }
    }

    fn table() -> Vec<GainRow> {
        vec![
            row("fact", "rag", "acc", 50.0, 35.0),
            row("fact", "rag", "syco", 49.0, 74.0),
            row("fact", "mem0", "acc", 57.0, 52.0),
            row("fact", "mem0", "syco", 40.0, 54.0),
            row("use", "rag", "acc", 86.0, 85.0),
            row("use", "mem0", "acc", 59.0, 60.0),
        ]
    }

    #[test]
    fn metrics_then_stores_then_scenarios_weigh_equally() {
        let summary = summarize_gains(&table()).unwrap();
        assert!((summary.scenarios["fact"] - ((15.0 + 25.0) / 2.0 + (5.0 + 14.0) / 2.0) / 2.0).abs() < 1e-12);
        assert!(summary.scenarios["use"].abs() < 1e-12);
        assert!((summary.overall - summary.scenarios["fact"] / 2.0).abs() < 1e-12);
    }

    fn check_refused(change: impl Fn(&mut Vec<GainRow>), message: &str) {
        let mut rows = table();
        change(&mut rows);
        let error = summarize_gains(&rows).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }

    #[test]
    fn holes_repetitions_and_no_numbers_are_refused() {
        check_refused(Vec::clear, "there are none");
        check_refused(|rows| drop(rows.pop()), "every metric of use on mem0: missing");
        check_refused(|rows| drop(rows.remove(1)), "syco of fact on rag: missing");
        check_refused(
            |rows| rows.push(rows[0].clone()),
            "acc of fact on rag: it is given twice",
        );
        check_refused(|rows| rows[0].ours = f64::NAN, "acc of fact on rag: NaN");
    }
}
