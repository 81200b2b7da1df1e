//! How long it takes to select a batch of probes, and how that grows.
//!
//! `cargo bench -p upliftmem-core --bench probe_batch` prints the tables of docs/benchmarks.md. Arguments select rows:
//! `-- paper`, `-- growth`, `-- sweep`, or one of your own: `-- one TASKS DIMENSION PICKS TEMPERATURE`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::time::Instant;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{AcquisitionSettings, Evaluation, select_probes};

#[allow(dead_code)]
#[path = "../tests/synthetic/mod.rs"]
mod synthetic;
use synthetic::{Recipe, Window, window};

/// The paper's window: 400 tasks, 50 candidates, sets of up to five.
const PAPER: Recipe = Recipe {
    seed: 1,
    tasks: 400,
    candidates: 50,
    memories_max: 5,
    dimension: 64,
    labels: 1_200,
    run_variance: 0.16,
    reference_variance: 0.09,
    twins: false,
    level: false,
};

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let runs = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    println!("threads: {}", rayon::current_num_threads());
    if let [one, tasks, dimension, picks, temperature] = &wanted[..]
        && one == "one"
    {
        header();
        let made = window(Recipe {
            tasks: tasks.parse().unwrap(),
            dimension: dimension.parse().unwrap(),
            ..PAPER
        });
        return row(
            "your own",
            &made,
            temperature.parse().unwrap(),
            picks.parse().unwrap(),
        );
    }
    if runs("paper") {
        paper();
    }
    if runs("growth") {
        growth();
    }
    if runs("sweep") {
        sweep();
    }
}

fn header() {
    println!(
        "\n| window | probes | comparisons | temperature | picks | seconds | CPU seconds | whole evaluations a pick | peak MB (before) | H(Q) |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
}

fn row(name: &str, made: &Window, temperature: f64, picks: usize) {
    let settings = AcquisitionSettings {
        probe_budget: picks,
        acquisition_temperature: temperature,
        evaluation: Evaluation::Bounded,
        ..AcquisitionSettings::default()
    };
    forget_peak();
    let before = status_kilobytes("VmRSS") / 1024.0;
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let batch = select_probes(made.question(), &settings, &mut ChaCha8Rng::seed_from_u64(1)).unwrap();
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let pairs =
        batch.work.pairs_evaluated as f64 / made.family.len() as f64 + batch.work.probes_evaluated as f64;
    println!(
        "| {name} | {} | {} | {temperature} | {picks} | {seconds:.1} | {cpu:.1} | {:.1} | {:.0} ({before:.0}) | {:.6} |",
        made.pool.len(),
        made.family.len(),
        pairs / batch.picks.len() as f64,
        peak_megabytes(),
        batch.batch_value,
    );
}

fn paper() {
    header();
    for dimension in [64, 256] {
        let made = window(Recipe { dimension, ..PAPER });
        for temperature in [0.0, 0.1] {
            row(
                &format!("400 tasks, 50 candidates, dimension {dimension}"),
                &made,
                temperature,
                300,
            );
        }
    }
    let made = window(Recipe { labels: 100, ..PAPER });
    row("dimension 64, after 100 labels instead of 1,200", &made, 0.0, 300);
}

fn growth() {
    header();
    for tasks in [100, 200, 400, 800] {
        row(
            &format!("{tasks} tasks"),
            &window(Recipe { tasks, ..PAPER }),
            0.1,
            100,
        );
    }
    for candidates in [20, 50, 100] {
        row(
            &format!("{candidates} candidates"),
            &window(Recipe {
                candidates,
                tasks: 200,
                ..PAPER
            }),
            0.1,
            100,
        );
    }
    for dimension in [16, 64, 128, 256] {
        row(
            &format!("dimension {dimension}"),
            &window(Recipe {
                dimension,
                tasks: 200,
                ..PAPER
            }),
            0.1,
            100,
        );
    }
    let made = window(Recipe { tasks: 200, ..PAPER });
    for picks in [50, 100, 200, 400] {
        row(&format!("{picks} picks"), &made, 0.1, picks);
    }
}

/// The same picks by evaluating everything, on a window small enough to wait for.
fn sweep() {
    println!("\n| window | picks | bounded, s | full sweep, s | ratio | same picks |");
    println!("|---|---|---|---|---|---|");
    for (tasks, dimension) in [(20, 64), (40, 64), (40, 256)] {
        let made = window(Recipe {
            tasks,
            dimension,
            ..PAPER
        });
        let run = |evaluation| {
            let settings = AcquisitionSettings {
                probe_budget: 20,
                evaluation,
                ..AcquisitionSettings::default()
            };
            let start = Instant::now();
            let batch = select_probes(made.question(), &settings, &mut ChaCha8Rng::seed_from_u64(1)).unwrap();
            let picks: Vec<u32> = batch.picks.iter().map(|pick| pick.probe).collect();
            (start.elapsed().as_secs_f64(), picks)
        };
        let (bounded, swept) = (run(Evaluation::Bounded), run(Evaluation::Sweep));
        println!(
            "| {tasks} tasks, dimension {dimension} | 20 | {:.2} | {:.1} | {:.0} | {} |",
            bounded.0,
            swept.0,
            swept.0 / bounded.0,
            if bounded.1 == swept.1 { "yes" } else { "NO" },
        );
    }
}

fn status_kilobytes(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with(field))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|number| number.parse().ok())
        .unwrap_or(f64::NAN)
}

fn peak_megabytes() -> f64 {
    status_kilobytes("VmHWM") / 1024.0
}

/// Starts the peak anew; where the system can not, the peak of everything so far is shown.
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// CPU time of this process: the figure that other work on the machine disturbs least.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<f64>().ok())
            .unwrap_or(f64::NAN)
    };
    (ticks(11) + ticks(12)) / 100.0
}
