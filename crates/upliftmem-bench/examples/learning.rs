//! How fast retrievers learn in the synthetic worlds:
//! `cargo run --release -p upliftmem-bench --example learning -- [seeds] [compact] [world ...]`.
//!
//! Prints, for each learner and number of labels, the share of the best set's gain over no memory that is reached on
//! unseen tasks, with the 95 % interval over seeds (each seed's mean over the worlds is one observation).

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a report for people")]

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use upliftmem_bench::{
    learning::{BUDGETS, Run, run},
    worlds::WorldKind,
};
use upliftmem_core::InvalidInput;

fn main() -> Result<(), upliftmem_scorer::ScorerError> {
    let mut seeds = 2;
    let mut only_compact = false;
    let mut kinds: Vec<WorldKind> = Vec::new();
    for argument in std::env::args().skip(1) {
        if let Ok(number) = argument.parse() {
            seeds = number;
        } else if argument == "compact" {
            only_compact = true;
        } else {
            kinds.push(argument.parse().map_err(|error: InvalidInput| error)?);
        }
    }
    if kinds.is_empty() {
        kinds = WorldKind::ALL.to_vec();
    }
    let jobs: Vec<(WorldKind, u64)> = (1..=seeds)
        .flat_map(|seed| kinds.iter().map(move |&kind| (kind, seed)))
        .collect();
    let done = AtomicUsize::new(0);
    let runs: Vec<Run> = jobs
        .par_iter()
        .map(|&(kind, seed)| {
            let result = run(kind, seed, only_compact);
            let count = done.fetch_add(1, Ordering::Relaxed) + 1;
            eprintln!("{count}/{} {kind} {seed}", jobs.len());
            result
        })
        .collect::<Result<_, _>>()?;
    report(&runs, &kinds, seeds);
    Ok(())
}

fn report(runs: &[Run], kinds: &[WorldKind], seeds: u64) {
    let names = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>();
    println!(
        "| learner | labels | share | 95 % | optimism | sign | size | seconds | {} |",
        names.join(" | ")
    );
    println!("|---|---|---|---|---|---|---|---|{}", "---|".repeat(kinds.len()));
    let first = &runs[0].measurements;
    for (at, measurement) in first.iter().enumerate() {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let of = |get: &dyn Fn(&upliftmem_bench::learning::Measurement) -> Option<f64>| {
            let values: Vec<f64> = runs.iter().filter_map(|run| get(&run.measurements[at])).collect();
            if values.is_empty() {
                "-".to_owned()
            } else {
                format!("{:+.3}", mean(&values))
            }
        };
        let by_seed: Vec<f64> = (1..=seeds)
            .map(|seed| {
                let values: Vec<f64> = runs
                    .iter()
                    .filter(|run| run.seed == seed)
                    .map(|run| run.measurements[at].share)
                    .collect();
                mean(&values)
            })
            .collect();
        let centre = mean(&by_seed);
        let spread =
            by_seed.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / (by_seed.len() as f64 - 1.0).max(1.0);
        let half = 2.0 * (spread / by_seed.len() as f64).sqrt();
        let worlds: Vec<String> = kinds
            .iter()
            .map(|&kind| {
                let values: Vec<f64> = runs
                    .iter()
                    .filter(|run| run.kind == kind)
                    .map(|run| run.measurements[at].share)
                    .collect();
                format!("{:.2}", mean(&values))
            })
            .collect();
        println!(
            "| {} | {} | {centre:.3} | ±{half:.3} | {} | {} | {} | {} | {} |",
            measurement.learner,
            measurement.labels,
            of(&|m| m.optimism),
            of(&|m| m.sign_accuracy),
            of(&|m| Some(m.size)),
            of(&|m| Some(m.seconds)),
            worlds.join(" | ")
        );
    }
    debug_assert_eq!(BUDGETS.len() * (first.len() / BUDGETS.len()), first.len());
}
