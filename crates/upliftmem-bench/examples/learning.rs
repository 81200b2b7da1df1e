//! How fast retrievers learn in the synthetic worlds:
//! `cargo run --release -p upliftmem-bench --example learning -- [option ...] [world ...]`.
//!
//! Options: `seeds=0..10`, `budgets=300,700,1900`, `strategies=evsi,random` (how labels beyond the first 300 are chosen),
//! `rows=hash,told,baselines` or `rows=all`, `potion=DIRECTORY` (a model2vec directory, for the row `potion`), `losses`
//! (where the rest of the best sets' gain went).
//!
//! Prints, for each learner and number of labels, the share of the best set's gain over no memory that is reached on
//! unseen tasks, with the 95 % interval over seeds (each seed's mean over the worlds is one observation).

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a report for people")]

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rayon::prelude::*;
use upliftmem_bench::{
    learning::{BUDGETS, Measurement, Plan, Run, Texts, run},
    worlds::WorldKind,
};
use upliftmem_engine::Strategy;
use upliftmem_scorer::{
    CompactSettings,
    embedder::{HashEmbedder, StaticEmbedder},
};

struct Asked {
    kinds: Vec<WorldKind>,
    seeds: std::ops::Range<u64>,
    plan: Plan,
    losses: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let asked = Asked::parse(std::env::args().skip(1))?;
    let jobs: Vec<(WorldKind, u64)> = asked
        .seeds
        .clone()
        .flat_map(|seed| asked.kinds.iter().map(move |&kind| (kind, seed)))
        .collect();
    let done = AtomicUsize::new(0);
    let runs: Vec<Run> = jobs
        .par_iter()
        .map(|&(kind, seed)| {
            let result = run(kind, seed, &asked.plan);
            let count = done.fetch_add(1, Ordering::Relaxed) + 1;
            eprint!("\r{count}/{} {kind} {seed}        ", jobs.len());
            result
        })
        .collect::<Result<_, _>>()?;
    eprintln!();
    report(&runs, &asked);
    Ok(())
}

impl Asked {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let (mut seeds, mut budgets, mut losses) = (0..2, BUDGETS.to_vec(), false);
        let mut strategies = vec![Strategy::Evsi];
        let (mut rows, mut kinds, mut potion) = (String::from("hash"), Vec::new(), None);
        for argument in arguments {
            match argument.split_once('=') {
                Some(("seeds", range)) => {
                    let (first, end) = range.split_once("..").ok_or("seeds are given as 0..10")?;
                    seeds = first.parse()?..end.parse()?;
                }
                Some(("budgets", list)) => {
                    budgets = list.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                Some(("strategies", list)) => {
                    strategies = list.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                Some(("rows", list)) => rows = list.to_owned(),
                Some(("potion", directory)) => potion = Some(directory.to_owned()),
                Some((other, _)) => return Err(format!("{other} is no option").into()),
                None if argument == "losses" => losses = true,
                None => kinds.push(argument.parse()?),
            }
        }
        if rows == "all" {
            "hash,baselines,told,potion".clone_into(&mut rows);
        }
        let mut plan = Plan {
            compact: Vec::new(),
            strategies,
            settings: CompactSettings::default(),
            baselines: false,
            budgets,
        };
        let hash = || Texts::Read(Arc::new(HashEmbedder::default()));
        for row in rows.split(',') {
            let (texts, name) = match row {
                "hash" => (hash(), "compact"),
                "told" => (Texts::Told, "compact, told the structure"),
                "potion" => {
                    let directory = potion.as_ref().ok_or("row potion needs potion=DIRECTORY")?;
                    let embedder = StaticEmbedder::load(directory.as_ref())?;
                    (Texts::Read(Arc::new(embedder)), "compact, potion")
                }
                "baselines" => {
                    plan.baselines = true;
                    continue;
                }
                other => return Err(format!("{other} is no row").into()),
            };
            plan.compact.push((name.to_owned(), texts));
        }
        if kinds.is_empty() {
            kinds = WorldKind::ALL.to_vec();
        }
        Ok(Self {
            kinds,
            seeds,
            plan,
            losses,
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn report(runs: &[Run], asked: &Asked) {
    let names = asked.kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>();
    println!(
        "| learner | labels | share | 95 % | optimism | sign | size | {} |",
        names.join(" | ")
    );
    println!("|---|---|---|---|---|---|---|{}", "---|".repeat(names.len()));
    for at in 0..runs[0].measurements.len() {
        row(runs, asked, at);
    }
    if asked.losses {
        println!("\n| learner | labels | world | meddling | missed | useless members | choice |");
        println!("|---|---|---|---|---|---|---|");
        for (at, first) in runs[0].measurements.iter().enumerate() {
            for &kind in &asked.kinds {
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
}

fn row(runs: &[Run], asked: &Asked, at: usize) {
    let first = &runs[0].measurements[at];
    let of = |get: fn(&Measurement) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(|run| get(&run.measurements[at])).collect();
        if values.is_empty() {
            "-".to_owned()
        } else {
            format!("{:.3}", mean(&values))
        }
    };
    let share = |chosen: &dyn Fn(&Run) -> bool| {
        let chosen = runs.iter().filter(|run| chosen(run));
        mean(&chosen.map(|run| run.measurements[at].share).collect::<Vec<_>>())
    };
    let by_seed: Vec<f64> = asked
        .seeds
        .clone()
        .map(|seed| share(&|run| run.seed == seed))
        .collect();
    let centre = mean(&by_seed);
    let spread =
        by_seed.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / (by_seed.len() as f64 - 1.0).max(1.0);
    let half = 2.0 * (spread / by_seed.len() as f64).sqrt();
    let worlds: Vec<String> = asked
        .kinds
        .iter()
        .map(|&kind| format!("{:.2}", share(&|run| run.kind == kind)))
        .collect();
    println!(
        "| {} | {} | {centre:.3} | ±{half:.3} | {} | {} | {} | {} |",
        first.learner,
        first.labels,
        of(|m| m.optimism),
        of(|m| m.sign_accuracy),
        of(|m| Some(m.size)),
        worlds.join(" | ")
    );
}
