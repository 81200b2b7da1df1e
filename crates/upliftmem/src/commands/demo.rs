//! `demo`: in a minute, what this is about.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;
use upliftmem_bench::{
    WorldExecutor,
    figures::{Bar, Bars},
    worlds::{World, WorldKind},
};
use upliftmem_core::{MemoryId, MemorySet, Task, UpdateRule};
use upliftmem_engine::{
    Arm, BelievingScorer, Evaluation, RetrievalRequest, Retriever, Seeds, Strategy, TrainingReport, evaluate,
};

use super::{
    evaluate::{HeldOut, table},
    questions::{QuestionsArguments, questions},
    setup::pull_if_missing,
};
use crate::{
    config::{Config, ExecutorKind},
    context::Context,
    figures::{self, Figure},
    output::{Output, cut, signed, strong},
    progress::Show,
};

/// Tasks of the stream before which random sets are tried.
const SEED_TASKS: usize = 100;
const RUNS: usize = 3;

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// The world: one of recipes, look_alikes, self_reliant, drift, versions, graded, routes, sub_types, crowding, mixed.
    #[arg(long, default_value = "look_alikes")]
    world: WorldKind,
    /// With a real language model that answers questions, in this process; takes some minutes.
    #[arg(long)]
    llm: bool,
    /// The language model: a GGUF file, or the name of a model that was pulled.
    #[arg(long, default_value = "smollm2", requires = "llm")]
    model: String,
    /// Which of the worlds of that kind.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where stores and the report are written.
    #[arg(long, default_value = "upliftmem-demo")]
    out: PathBuf,
}

/// A retrieval in words.
#[derive(Debug, Serialize)]
struct Explained {
    why: &'static str,
    task: String,
    predicted_uplift: f64,
    true_uplift: f64,
    memories: Vec<String>,
    alone: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct Shown {
    world: String,
    memories: usize,
    training: Vec<TrainingReport>,
    evaluation: Evaluation,
    explained: Vec<Explained>,
    report: PathBuf,
}

pub(crate) async fn demo(arguments: DemoArguments, mut config: Config, output: Output) -> Result<()> {
    if arguments.llm {
        pull_if_missing(&arguments.model, output).await?;
        let small = QuestionsArguments::small(arguments.model, arguments.seed, arguments.out);
        return questions(small, config, output).await;
    }
    let world = Arc::new(World::generate(arguments.world, arguments.seed)?);
    std::fs::create_dir_all(&arguments.out)
        .with_context(|| format!("{} can not be made", arguments.out.display()))?;
    let rule = world.utility_rule();
    config.directory = std::path::absolute(&arguments.out)?;
    config.executor.kind = ExecutorKind::World;
    config.executor.world = arguments.world.name().into();
    config.executor.world_seed = arguments.seed;
    config.executor.concurrency = 64;
    config.training.seed = arguments.seed;
    config.training.updates = UpdateRule::Every(50);
    config.utility = serde_json::from_value(serde_json::to_value(rule)?)?;
    output.note(&format!(
        "world {}: {} memories, {} tasks to learn from, {} unseen ones",
        arguments.world.name(),
        world.memories().len(),
        world.train_tasks().len(),
        world.test_tasks().len()
    ));
    let mut arms: Vec<Arm> = Vec::new();
    let mut training = Vec::new();
    let mut trained_by: Vec<(String, Context, HeldOut, Arc<dyn BelievingScorer>)> = Vec::new();
    for strategy in [Strategy::Random, Strategy::Evsi] {
        config.acquisition.strategy = strategy;
        let context = opened(&config, &world, strategy, output).await?;
        let report = trained(&context, &world).await?;
        let held_out = HeldOut::new(&context.texts, &config.retrieval, world.test_tasks()).await?;
        let labels = context.labels().await?;
        if arms.is_empty() {
            for method in ["none", "random", "bm25", "dense"] {
                arms.push(held_out.baseline(method, &labels, arguments.seed)?);
            }
        } else {
            arms.push(held_out.baseline("per-memory", &labels, arguments.seed)?);
        }
        let scorer = context.scorer().await?;
        arms.push(held_out.searched(&format!("uplift ({strategy})"), scorer.as_ref())?);
        training.push(report);
        trained_by.push((strategy.to_string(), context, held_out, scorer));
    }
    let Some((_, context, held_out, scorer)) = trained_by.last() else {
        return Ok(());
    };
    arms.push(oracle(&world, held_out, config.retrieval.memories_max)?);
    let rollouts = context.rollouts(Arc::new(WorldExecutor::new(Arc::clone(&world))))?;
    let show = Show::new(output);
    let seeds = Seeds::new("demo", arguments.seed);
    let tasks = world.test_tasks();
    context.store.put_tasks(&context.scope, tasks.to_vec()).await?;
    let progress = |progress| show.take(progress);
    let evaluation = evaluate(&rollouts, &seeds, tasks, &arms, RUNS, &progress).await?;
    show.finish();
    let retriever = Retriever {
        store: Arc::clone(&context.store),
        scope: context.scope.clone(),
        texts: Arc::clone(&context.texts),
        settings: config.retrieval.clone(),
        scorer: Arc::clone(scorer),
    };
    let explained = explain_some(&retriever, &world).await?;
    let stores: Vec<(String, &Context)> = (trained_by.iter())
        .map(|(name, context, ..)| (name.clone(), context))
        .collect();
    let mut figures = vec![figures::learning(&stores).await?];
    figures.extend(figures::of_store(context).await?);
    figures::write(&arguments.out, &figures, output)?;
    let report = arguments.out.join("report.html");
    let shown = Shown {
        world: world.kind().to_string(),
        memories: world.memories().len(),
        training,
        evaluation,
        explained,
        report: report.clone(),
    };
    std::fs::write(&report, page(&shown, &figures))
        .with_context(|| format!("{} can not be written", report.display()))?;
    output.result(&shown, || told(&shown))
}

/// A fresh store with the world's memories.
async fn opened(config: &Config, world: &World, strategy: Strategy, output: Output) -> Result<Context> {
    let context = Context::fresh(config.clone(), &format!("{strategy}.db"), output).await?;
    context.fill(world.memories()).await?;
    Ok(context)
}

async fn trained(context: &Context, world: &Arc<World>) -> Result<TrainingReport> {
    let tasks = world.train_tasks();
    let (seeds, stream) = tasks.split_at(SEED_TASKS.min(tasks.len()));
    let executor = Arc::new(WorldExecutor::new(Arc::clone(world)));
    let trainer = context.trainer("demo", executor, seeds.to_vec(), stream.to_vec())?;
    let show = Show::new(context.output);
    let trained = trainer.train(&|progress| show.take(progress)).await?;
    show.finish();
    Ok(trained.report)
}

/// The best set there is, which only the world knows.
fn oracle(world: &World, held_out: &HeldOut, memories_max: usize) -> Result<Arm> {
    let mut arm = Arm {
        name: "best possible".into(),
        sets: std::collections::BTreeMap::new(),
        predicted: std::collections::BTreeMap::new(),
    };
    for task in world.test_tasks() {
        if let Some(place) = held_out.position(task.id) {
            let best = world.best_set(task, &held_out.candidates(place), memories_max)?;
            arm.sets.insert(task.id, best.set);
        }
    }
    Ok(arm)
}

/// An abstention that was right, a pair whose members help only together, and the largest gain.
async fn explain_some(retriever: &Retriever, world: &World) -> Result<Vec<Explained>> {
    let mut found: [Option<(f64, Explained)>; 3] = [None, None, None];
    for task in world.test_tasks() {
        let request = RetrievalRequest {
            query: task.context.clone(),
            task: Some(task.name.clone()),
            ..RetrievalRequest::default()
        };
        let retrieval = retriever.retrieve(request).await?;
        let set: MemorySet = retrieval.memories.iter().map(|memory| memory.id).collect();
        let without = world.expected_utility(task, &MemorySet::EMPTY)?;
        let truth = world.expected_utility(task, &set)? - without;
        let alone: Vec<f64> = (retrieval.memories.iter())
            .map(|memory| single(world, task, memory.id).map(|value| value - without))
            .collect::<Result<_>>()?;
        let explained = |why| Explained {
            why,
            task: task.context.clone(),
            predicted_uplift: retrieval.predicted_uplift,
            true_uplift: truth,
            memories: retrieval
                .memories
                .iter()
                .map(|memory| memory.text.clone())
                .collect(),
            alone: alone.clone(),
        };
        let synergy = truth - alone.iter().sum::<f64>();
        let cases = [
            (
                retrieval.abstained,
                without,
                "it abstains: the agent does well alone",
            ),
            (
                set.len() == 2 && truth > 0.0 && alone.iter().all(|&value| value < truth),
                synergy,
                "two memories that do more together than each alone",
            ),
            (!retrieval.abstained, truth, "the largest gain"),
        ];
        for (slot, (applies, score, why)) in found.iter_mut().zip(cases) {
            if applies && slot.as_ref().is_none_or(|(best, _)| score > *best) {
                *slot = Some((score, explained(why)));
            }
        }
    }
    Ok(found
        .into_iter()
        .flatten()
        .map(|(_, explained)| explained)
        .collect())
}

fn single(world: &World, task: &Task, id: MemoryId) -> Result<f64> {
    Ok(world.expected_utility(task, &std::iter::once(id).collect())?)
}

fn told(shown: &Shown) -> String {
    let mut text = format!("{}\n\n{}\n\n", strong("Unseen tasks"), table(&shown.evaluation));
    for explained in &shown.explained {
        text += &format!(
            "{}\n  task      {}\n",
            strong(explained.why),
            cut(&explained.task, 66)
        );
        for (memory, alone) in explained.memories.iter().zip(&explained.alone) {
            text += &format!("  memory    {} (alone {})\n", cut(memory, 50), signed(*alone));
        }
        text += &format!(
            "  predicted {}, true {}\n\n",
            signed(explained.predicted_uplift),
            signed(explained.true_uplift)
        );
    }
    text + &format!(
        "report: {}\nnext, with your own agent: `upliftmem init`, `upliftmem import memories.jsonl`,\n\
         [executor] command = [\"python3\", \"agent.py\"] in upliftmem.toml, and then\n\
         `upliftmem train --tasks tasks.jsonl`",
        shown.report.display()
    )
}

/// The same as a page.
fn page(shown: &Shown, figures: &[Figure]) -> String {
    let bars = shown.evaluation.arms.iter().map(|arm| Bar {
        name: arm.name.clone(),
        value: arm.uplift,
        interval: arm.interval.map(|interval| (interval.low, interval.high)),
    });
    let bars = Bars {
        title: "Uplift over no memory on unseen tasks",
        x: "utility with memories minus utility without",
        bars: bars.collect(),
    };
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>UpliftMem demo</title><style>\
         body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#1d2530;background:#fff}\
         table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #dde3ea}\
         td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto}\
         @media(prefers-color-scheme:dark){body{color:#dde3ea;background:#14181d}td,th{border-color:#333c46}}</style>",
    );
    page += &format!(
        "<h1>Does memory help?</h1><p>World <b>{}</b> with {} memories, {} unseen tasks.</p>",
        escape(&shown.world),
        shown.memories,
        shown.evaluation.tasks
    );
    page += &bars.svg();
    page += "<table><tr><th>method<th>success<th>utility<th>uplift<th>harmed<th>no memory</tr>";
    for arm in &shown.evaluation.arms {
        page += &format!(
            "<tr><td>{}<td>{:.1} %<td>{:.3}<td>{}<td>{:.0} %<td>{:.0} %</tr>",
            escape(&arm.name),
            100.0 * arm.performance,
            arm.utility,
            signed(arm.uplift),
            100.0 * arm.harmed,
            100.0 * arm.abstained
        );
    }
    page += "</table>";
    for explained in &shown.explained {
        page += &format!(
            "<h2>{}</h2><p>{}</p><ul>",
            escape(explained.why),
            escape(&explained.task)
        );
        for (memory, alone) in explained.memories.iter().zip(&explained.alone) {
            page += &format!(
                "<li>{} <small>(alone {})</small></li>",
                escape(memory),
                signed(*alone)
            );
        }
        page += &format!(
            "</ul><p>predicted {}, true {}</p>",
            signed(explained.predicted_uplift),
            signed(explained.true_uplift)
        );
    }
    page += "<h2>How it learned</h2>";
    for figure in figures {
        page += &figure.svg;
    }
    page + "</html>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
