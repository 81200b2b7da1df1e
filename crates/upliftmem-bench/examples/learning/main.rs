//! How fast retrievers learn in the synthetic worlds:
//! `cargo run --release -p upliftmem-bench --example learning -- [option ...] [world ...]`.
//!
//! Options: `seeds=0..10`, `budgets=300,700,1900`, `strategies=evsi,random` (how labels beyond the first 300 are chosen),
//! `rows=hash,told,baselines` or `rows=all`, `potion=DIRECTORY` (a model2vec directory, for the row `potion`), `losses`
//! (where the rest of the best sets' gain went); rows with a part left out: `paired` (labels are uplifts over one reference, as in
//! the paper, not utilities), `no-headroom` (what a task has left to gain is not looked at), `no-exploration` (sampled sets follow
//! the expected values, as in the paper), `no-cost` (a memory costs nothing until labels say so);
//! `member_cost=0.07` and `meddling_cost=0.3` (what a memory is expected to cost), `reference_noise=0.2`, `out=FILE` (every world that is done goes there at once; the same command again goes on).
//!
//! Prints, for each learner and number of labels, the share of the best set's gain over no memory that is reached on
//! unseen tasks, with the 95 % interval over seeds (each seed's mean over its worlds is one observation), and how far strategies are
//! from `random`, paired by world and seed.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a report for people")]

mod report;

use std::{
    error::Error,
    fs::{File, OpenOptions},
    io::Write,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use rayon::prelude::*;
use upliftmem_bench::{
    learning::{BUDGETS, CompactRow, Plan, Run, Texts, run},
    worlds::WorldKind,
};
use upliftmem_engine::Strategy;
use upliftmem_scorer::{
    CompactSettings, LabelKind,
    embedder::{HashEmbedder, StaticEmbedder},
};

struct Asked {
    kinds: Vec<WorldKind>,
    seeds: std::ops::Range<u64>,
    plan: Plan,
    losses: bool,
    out: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let asked = Asked::parse(std::env::args().skip(1))?;
    let mut runs = asked.done()?;
    let jobs: Vec<(WorldKind, u64)> = asked
        .seeds
        .clone()
        .flat_map(|seed| asked.kinds.iter().map(move |&kind| (kind, seed)))
        .filter(|&(kind, seed)| !runs.iter().any(|run| run.kind == kind && run.seed == seed))
        .collect();
    let out = asked.out.as_ref().map(|path| {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.map(Mutex::new)
    });
    let out = out.transpose()?;
    let done = AtomicUsize::new(0);
    let new: Vec<Run> = jobs
        .par_iter()
        .map(|&(kind, seed)| {
            let result = run(kind, seed, &asked.plan)?;
            if let Some(out) = &out {
                write(out, &result)?;
            }
            let count = done.fetch_add(1, Ordering::Relaxed) + 1;
            eprint!("\r{count}/{} {kind} {seed}        ", jobs.len());
            Ok::<_, Box<dyn Error + Send + Sync>>(result)
        })
        .collect::<Result<_, _>>()
        .map_err(|error| error as Box<dyn Error>)?;
    eprintln!();
    runs.extend(new);
    report::report(&runs, &asked.kinds, asked.losses);
    Ok(())
}

fn write(out: &Mutex<File>, run: &Run) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut line = serde_json::to_string(run)?;
    line.push('\n');
    let mut file = out.lock().map_err(|_| "a writer stopped")?;
    Ok(file.write_all(line.as_bytes())?)
}

impl Asked {
    /// What an earlier run has done of this. A line that it could not finish is taken away.
    fn done(&self) -> Result<Vec<Run>, Box<dyn Error>> {
        let Some(path) = self.out.as_ref().filter(|path| path.exists()) else {
            return Ok(Vec::new());
        };
        let text = std::fs::read_to_string(path)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
        }
        let mut runs = Vec::new();
        for line in text[..whole].lines() {
            let run: Run = serde_json::from_str(line)?;
            let rows = run.measurements.iter().map(|m| (m.learner.clone(), m.labels));
            if rows.collect::<Vec<_>>() != self.plan.rows() {
                let file = path.display();
                return Err(
                    format!("{file} has other rows or budgets than asked for; name another file").into(),
                );
            }
            if self.kinds.contains(&run.kind) && self.seeds.contains(&run.seed) {
                runs.push(run);
            }
        }
        Ok(runs)
    }

    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let (mut seeds, mut budgets, mut losses) = (0..2, BUDGETS.to_vec(), false);
        let mut strategies = vec![Strategy::Evsi];
        let mut settings = CompactSettings::default();
        let (mut rows, mut kinds, mut potion, mut out) = (String::from("hash"), Vec::new(), None, None);
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
                Some(("member_cost", cost)) => settings.member_cost = cost.parse()?,
                Some(("meddling_cost", cost)) => settings.meddling_cost = cost.parse()?,
                Some(("reference_noise", share)) => settings.reference_noise = share.parse()?,
                Some(("out", path)) => out = Some(PathBuf::from(path)),
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
            baselines: false,
            budgets,
        };
        let hash = || Texts::Read(Arc::new(HashEmbedder::default()));
        for row in rows.split(',') {
            let mut compact = match row {
                "baselines" => {
                    plan.baselines = true;
                    continue;
                }
                "hash" => CompactRow::new("compact", hash()),
                "told" => CompactRow::new("compact, told the structure", Texts::Told),
                "potion" => {
                    let directory = potion.as_ref().ok_or("row potion needs potion=DIRECTORY")?;
                    let embedder = StaticEmbedder::load(directory.as_ref())?;
                    CompactRow::new("compact, potion", Texts::Read(Arc::new(embedder)))
                }
                "paired" | "no-headroom" | "no-exploration" | "no-cost" => {
                    CompactRow::new(&format!("compact, {}", row.replace('-', " ")), hash())
                }
                other => return Err(format!("{other} is no row").into()),
            };
            compact.settings = settings;
            match row {
                "paired" => compact.settings.labels = LabelKind::Paired,
                "no-headroom" => compact.settings.headroom = false,
                "no-exploration" => compact.retrieval.exploration = 0.0,
                "no-cost" => compact.settings.member_cost = 0.0,
                _ => {}
            }
            plan.compact.push(compact);
        }
        if kinds.is_empty() {
            kinds = WorldKind::ALL.to_vec();
        }
        Ok(Self {
            kinds,
            seeds,
            plan,
            losses,
            out,
        })
    }
}
