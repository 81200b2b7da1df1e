//! `bench scorer` and `bench lora`: the language-model scorer.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use upliftmem_bench::{
    lm::{
        learning::{LearningPlan, learn},
        retrieval::{self, DrawnTime, RetrievalTime},
        speed::{self, Rate},
    },
    worlds::WorldKind,
};
use upliftmem_scorer::{
    TrainerSettings,
    lm::{Base, Device, LmBase, LmSettings, save_adapter},
};

use crate::output::{Output, Table};

#[derive(Debug, Args)]
pub(super) struct ScorerArguments {
    /// A model to measure with its own weights [default: the shape of
    /// Qwen3-Reranker-0.6B with random numbers].
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Tokens of the text that is read.
    #[arg(long, default_value_t = 256)]
    tokens: usize,
    /// How often it is read.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Candidates of the retrieval; 0 leaves it out.
    #[arg(long, default_value_t = 50)]
    candidates: usize,
    /// Further retrievals, in which chance says what sets are kept.
    #[arg(long, default_value_t = 0)]
    draws: u64,
    /// Megabytes that may be kept for the way back.
    #[arg(long, default_value_t = 2048, value_name = "MB")]
    activations: usize,
}

#[derive(Debug, Args)]
pub(super) struct LoraArguments {
    /// The base: a directory with safetensors, or a GGUF file.
    #[arg(long, value_name = "MODEL")]
    model: PathBuf,
    /// The world.
    #[arg(long, default_value = "look_alikes")]
    world: WorldKind,
    /// Its seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Labels to learn from.
    #[arg(long, default_value_t = 400)]
    labels: usize,
    /// Sets to judge by.
    #[arg(long, default_value_t = 200)]
    tests: usize,
    /// Passes over the labels; 0 only ranks with the base.
    #[arg(long, default_value_t = 3)]
    epochs: usize,
    /// First learning rate.
    #[arg(long, default_value_t = 5e-4)]
    learning_rate: f64,
    /// Labels of a step.
    #[arg(long, default_value_t = 16)]
    batch: usize,
    /// Where the adapter is written to.
    #[arg(long, value_name = "DIRECTORY")]
    save: Option<PathBuf>,
}

#[derive(Serialize)]
struct ScorerReport {
    model: String,
    forward: Rate,
    lora_step: Rate,
    retrieval: Vec<RetrievalTime>,
    drawn: Vec<DrawnTime>,
}

pub(super) fn scorer(arguments: &ScorerArguments, output: Output) -> Result<()> {
    let (model, base) = match &arguments.model {
        Some(path) => (
            path.display().to_string(),
            Base::load_weights(path, &Device::Cpu)?,
        ),
        None => {
            let shape = speed::qwen3_reranker_shape();
            (
                "Qwen3-Reranker-0.6B, random numbers".to_owned(),
                Base::random(shape, 1, &Device::Cpu)?,
            )
        }
    };
    let forward = speed::forward(&base, arguments.tokens, arguments.rounds)?;
    let lora_step = speed::lora_step(
        &base,
        arguments.tokens,
        arguments.rounds,
        arguments.activations << 20,
    )?;
    let retrieval = if arguments.candidates > 0 {
        retrieval::retrieval(&base, arguments.candidates)?
    } else {
        Vec::new()
    };
    let drawn = retrieval::drawn_retrievals(&base, arguments.candidates, arguments.draws)?;
    let report = ScorerReport {
        model,
        forward,
        lora_step,
        retrieval,
        drawn,
    };
    output.result(&report, || {
        let mut rates = Table::new(&["what", "tokens", "CPU s", "tokens/CPU s", "peak MB"]);
        for (what, rate) in [("forward", &report.forward), ("LoRA step", &report.lora_step)] {
            rates.row(vec![
                what.to_owned(),
                rate.tokens.to_string(),
                format!("{:.2}", rate.cpu_seconds),
                format!("{:.1}", rate.per_cpu_second()),
                rate.peak_bytes
                    .map_or_else(String::new, |bytes| (bytes >> 20).to_string()),
            ]);
        }
        let mut ways = Table::new(&[
            "sets share",
            "sets",
            "measured",
            "tokens",
            "CPU s",
            "seconds",
            "gap",
        ]);
        for way in &report.retrieval {
            ways.row(vec![
                way.sharing.clone(),
                way.sets.to_string(),
                way.measured.to_string(),
                way.tokens.to_string(),
                format!("{:.1}", way.cpu_seconds),
                format!("{:.1}", way.seconds),
                format!("{:.1e}", way.largest_gap),
            ]);
        }
        let mut text = format!("{}\n\n{}", report.model, rates.text());
        if !report.retrieval.is_empty() {
            text += &format!("\none beam retrieval\n\n{}", ways.text());
        }
        if !report.drawn.is_empty() {
            let mut draws = Table::new(&[
                "seed",
                "sets",
                "tokens one by one",
                "in the tree",
                "CPU s",
                "seconds",
            ]);
            for draw in &report.drawn {
                draws.row(vec![
                    draw.seed.to_string(),
                    draw.sets.to_string(),
                    draw.whole.to_string(),
                    draw.tokens.to_string(),
                    format!("{:.1}", draw.cpu_seconds),
                    format!("{:.1}", draw.seconds),
                ]);
            }
            text += &format!("\nbeams drawn at random, through the tree\n\n{}", draws.text());
        }
        text
    })
}

pub(super) fn lora(arguments: &LoraArguments, output: Output) -> Result<()> {
    let settings = LmSettings::default();
    let base = LmBase::load(&arguments.model, settings, &Device::Cpu)?;
    let plan = LearningPlan {
        world: arguments.world,
        seed: arguments.seed,
        labels: arguments.labels,
        tests: arguments.tests,
        trainer: TrainerSettings {
            epochs: arguments.epochs,
            learning_rate: arguments.learning_rate,
            batch_labels: arguments.batch,
            calibrate: false,
            seed: arguments.seed,
            ..TrainerSettings::default()
        },
    };
    let mut watch = None;
    let (report, model) = learn(
        &base,
        &plan,
        &mut |counter, total| watch = Some(Watch::start(counter, total, output)),
        &|progress| {
            let held_out = progress
                .held_out
                .map_or_else(String::new, |loss| format!(", held out {loss:.4}"));
            output.note(&format!(
                "epoch {} of {}: loss {:.4}{held_out}",
                progress.epoch, progress.epochs, progress.training.total
            ));
        },
    )?;
    if let Some(watch) = watch {
        output.note(&watch.end());
    }
    if let Some(directory) = &arguments.save {
        let (adapter, calibration) = model.adapter()?;
        let name = arguments
            .model
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        save_adapter(directory, &adapter, calibration, &name)?;
        output.note(&format!("adapter written to {}", Path::new(directory).display()));
    }
    output.result(&report, || {
        let mut table = Table::new(&[
            "",
            "sign AUC",
            "pairs right",
            "signs right",
            "correlation",
            "sets",
        ]);
        let after = report.after.as_ref().map(|ranking| ("after", ranking));
        for (when, ranking) in [("before", &report.before)].into_iter().chain(after) {
            table.row(vec![
                when.to_owned(),
                format!("{:.3}", ranking.sign_auc),
                format!("{:.3}", ranking.pair_accuracy),
                format!("{:.3}", ranking.sign_accuracy),
                format!("{:.3}", ranking.correlation),
                ranking.sets.to_string(),
            ]);
        }
        table.text()
    })
}

/// Shows tokens a second and the time that is left.
struct Watch {
    counter: Arc<AtomicU64>,
    started: Instant,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watch {
    fn start(counter: Arc<AtomicU64>, total: u64, output: Output) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let bar = output.bar(total, "learning");
        if let Ok(style) = indicatif::ProgressStyle::with_template(
            "{msg:10} {wide_bar} {pos}/{len} tokens  {per_sec}  {eta} left",
        ) {
            bar.set_style(style);
        }
        let (seen, stopped) = (Arc::clone(&counter), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                bar.set_position(seen.load(Ordering::Relaxed).min(total));
                std::thread::sleep(Duration::from_millis(200));
            }
            bar.finish_and_clear();
        });
        Self {
            counter,
            started: Instant::now(),
            stop,
            thread: Some(thread),
        }
    }

    fn end(mut self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A bar that broke has nothing to tell.
            let _ = thread.join();
        }
        let (tokens, seconds) = (
            self.counter.load(Ordering::Relaxed),
            self.started.elapsed().as_secs_f64(),
        );
        format!(
            "{tokens} tokens in {seconds:.0} s, {:.0} a second",
            tokens as f64 / seconds
        )
    }
}
