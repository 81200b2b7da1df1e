//! Tables of learning curves.

use std::collections::{BTreeMap, BTreeSet};

use upliftmem_bench::{
    learning::{Measurement, Run},
    worlds::WorldKind,
};

/// The strategy that others are compared with.
const YARDSTICK: &str = "random";

/// Prints all tables.
pub(crate) fn report(runs: &[Run], kinds: &[WorldKind], losses: bool) {
    let Some(first) = runs.first() else {
        return;
    };
    let names = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>();
    println!(
        "| learner | labels | share | 95 % | optimism | sign | size | probed | {} |",
        names.join(" | ")
    );
    println!("|---|---|---|---|---|---|---|---|{}", "---|".repeat(names.len()));
    for at in 0..first.measurements.len() {
        row(runs, kinds, at);
    }
    paired(runs, |m| Some(m.share), "share");
    paired(runs, |m| m.probed, "true uplift of probes");
    if losses {
        lost(runs, kinds);
    }
}

fn row(runs: &[Run], kinds: &[WorldKind], at: usize) {
    let first = &runs[0].measurements[at];
    let of = |get: fn(&Measurement) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(|run| get(&run.measurements[at])).collect();
        if values.is_empty() {
            "-".to_owned()
        } else {
            format!("{:.3}", mean(&values))
        }
    };
    let (centre, half) = over_seeds(runs.iter().map(|run| (run.seed, run.measurements[at].share)));
    let worlds: Vec<String> = kinds
        .iter()
        .map(|&kind| {
            let of_kind = runs.iter().filter(|run| run.kind == kind);
            let shares: Vec<f64> = of_kind.map(|run| run.measurements[at].share).collect();
            format!("{:.2}", mean(&shares))
        })
        .collect();
    println!(
        "| {} | {} | {centre:.3} | ±{half:.3} | {} | {} | {} | {} | {} |",
        first.learner,
        first.labels,
        of(|m| m.optimism),
        of(|m| m.sign_accuracy),
        of(|m| Some(m.size)),
        of(|m| m.probed),
        worlds.join(" | ")
    );
}

/// How far each strategy is from the yardstick, paired by world and seed.
fn paired(runs: &[Run], get: fn(&Measurement) -> Option<f64>, what: &str) {
    let split = |m: &Measurement| {
        let (row, strategy) = m.learner.rsplit_once(", ")?;
        Some((row.to_owned(), strategy.to_owned(), m.labels))
    };
    let mut differences: BTreeMap<(String, String, usize), Vec<(u64, f64)>> = BTreeMap::new();
    for run in runs {
        let values: BTreeMap<_, f64> = run
            .measurements
            .iter()
            .filter_map(|m| Some((split(m)?, get(m)?)))
            .collect();
        for ((row, strategy, labels), value) in &values {
            let yardstick = values.get(&(row.clone(), YARDSTICK.to_owned(), *labels));
            if let Some(yardstick) = yardstick.filter(|_| strategy != YARDSTICK) {
                let key = (row.clone(), strategy.clone(), *labels);
                differences
                    .entry(key)
                    .or_default()
                    .push((run.seed, value - yardstick));
            }
        }
    }
    if differences.is_empty() {
        return;
    }
    println!("\n| {what}, less that of {YARDSTICK} | labels | difference | 95 % | seeds |");
    println!("|---|---|---|---|---|");
    for ((row, strategy, labels), values) in differences {
        let seeds: BTreeSet<u64> = values.iter().map(|(seed, _)| *seed).collect();
        let (centre, half) = over_seeds(values.into_iter());
        println!(
            "| {row}, {strategy} | {labels} | {centre:+.3} | ±{half:.3} | {} |",
            seeds.len()
        );
    }
}

fn lost(runs: &[Run], kinds: &[WorldKind]) {
    println!("\n| learner | labels | world | meddling | missed | useless members | choice |");
    println!("|---|---|---|---|---|---|---|");
    for (at, first) in runs[0].measurements.iter().enumerate() {
        for &kind in kinds {
            let part = |get: fn(&Measurement) -> f64| {
                let of_kind = runs.iter().filter(|run| run.kind == kind);
                mean(&of_kind.map(|run| get(&run.measurements[at])).collect::<Vec<_>>())
            };
            println!(
                "| {} | {} | {kind} | {:.3} | {:.3} | {:.3} | {:.3} |",
                first.learner,
                first.labels,
                part(|m| m.loss.meddling),
                part(|m| m.loss.missed),
                part(|m| m.loss.useless),
                part(|m| m.loss.choice),
            );
        }
    }
}

/// Mean and half the 95 % interval, where each seed's mean is one observation.
fn over_seeds(values: impl Iterator<Item = (u64, f64)>) -> (f64, f64) {
    let mut by_seed: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (seed, value) in values {
        by_seed.entry(seed).or_default().push(value);
    }
    let means: Vec<f64> = by_seed.values().map(|values| mean(values)).collect();
    let centre = mean(&means);
    let squares: f64 = means.iter().map(|x| (x - centre).powi(2)).sum();
    let spread = squares / (means.len() as f64 - 1.0).max(1.0);
    (centre, 2.0 * (spread / means.len() as f64).sqrt())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
