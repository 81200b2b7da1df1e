//! `probe`: plan a batch, show why, and buy it.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use upliftmem_core::{RetrievalPath, WindowEntry};
use upliftmem_engine::{Bought, Buyer, Plan, Scene, Strategy, plan, scorer_label};

use super::train::tasks_of;
use crate::{
    context::Context,
    output::{Table, signed, strong},
};

#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    /// The tasks of the window: a JSON Lines file [default: tasks of the world].
    #[arg(long, value_name = "FILE")]
    tasks: Option<PathBuf>,
    /// How probes are chosen; several are shown side by side.
    #[arg(long, value_delimiter = ',')]
    strategy: Vec<Strategy>,
    /// Probes to plan.
    #[arg(long, default_value_t = 10)]
    budget: usize,
    /// Use only so many tasks.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Execute the batch, and learn from it. A batch that was stopped half way is finished first.
    #[arg(long)]
    run: bool,
}

#[derive(Serialize)]
struct Planned {
    strategy: Strategy,
    #[serde(flatten)]
    plan: Plan,
    /// What came of it, if it was executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    bought: Option<Vec<Bought>>,
}

pub(crate) async fn probe(context: &Context, arguments: ProbeArguments) -> Result<()> {
    let mut tasks = tasks_of(&context.config, arguments.tasks.as_ref(), false)?;
    tasks.truncate(arguments.limit);
    let retrieval = &context.config.retrieval;
    let mut scenes = Vec::with_capacity(tasks.len());
    for task in context.texts.tasks(&tasks).await? {
        let offer = context.texts.recall(&task, retrieval).await?;
        let nothing = RetrievalPath {
            steps: Vec::new(),
            terminal: upliftmem_core::MemorySet::EMPTY,
        };
        scenes.push(Scene {
            entry: WindowEntry::of_path(task.task.id, offer.pool, &nothing, retrieval.limits()),
            task,
            memories: offer.ranked,
        });
    }
    let strategies = if arguments.strategy.is_empty() {
        vec![context.config.acquisition.strategy]
    } else {
        arguments.strategy
    };
    if arguments.run && strategies.len() > 1 {
        bail!(
            "--run: {} strategies are given; a batch is bought by one, name it with --strategy",
            strategies.len()
        );
    }
    let buyer = match arguments.run {
        true => Some(Buyer::new(context.rollouts(context.executor()?)?)),
        false => None,
    };
    if let Some(buyer) = &buyer {
        finish_begun(context, buyer).await?;
    }
    let scorer = context.scorer().await?;
    let mut plans = Vec::new();
    for strategy in strategies {
        let mut settings = context.config.acquisition.clone();
        settings.strategy = strategy;
        settings.incumbent = upliftmem_engine::Incumbent::Current;
        let mut rng: ChaCha8Rng = rand::SeedableRng::seed_from_u64(context.config.training.seed);
        let plan = plan(
            scorer.as_ref(),
            &scenes,
            retrieval,
            &settings,
            arguments.budget,
            &mut rng,
        )?;
        let bought = match &buyer {
            Some(buyer) if !plan.chosen.is_empty() => {
                let tasks: BTreeMap<_, _> = tasks.iter().map(|task| (task.id, task.clone())).collect();
                let bar = context.output.bar(0, "executing");
                let count = |executed| bar.inc(executed as u64);
                let label = scorer_label(&scorer);
                let bought = buyer.buy(&plan, strategy, label, &tasks, &count).await?;
                bar.finish_and_clear();
                Some(bought)
            }
            _ => None,
        };
        plans.push(Planned {
            strategy,
            plan,
            bought,
        });
    }
    if context.output.json {
        for planned in &plans {
            context.output.line(&serde_json::to_string(planned)?)?;
        }
        return Ok(());
    }
    for planned in &plans {
        context.output.line(&shown(planned, &scenes))?;
    }
    context.output.line(
        "Worth: what the outcome should improve, after those above it.\nNow: memories that retrieval would return.",
    )
}

/// Finishes what an earlier purchase left behind.
async fn finish_begun(context: &Context, buyer: &Buyer) -> Result<()> {
    let bar = context.output.bar(0, "executing");
    let finished = buyer.go_on(&|executed| bar.inc(executed as u64)).await?;
    bar.finish_and_clear();
    if let Some(finished) = finished {
        context.output.note(&format!(
            "a batch of {} that was begun earlier is executed now",
            finished.len()
        ));
    }
    Ok(())
}

fn shown(planned: &Planned, scenes: &[Scene]) -> String {
    let plan = &planned.plan;
    let head = strong(&format!("strategy {}", planned.strategy));
    if plan.chosen.is_empty() {
        return format!("{head}\nnothing is worth a probe in these tasks\n");
    }
    let mut heads = vec!["#", "worth", "now", "probe", "task"];
    if planned.bought.is_some() {
        heads.insert(4, "came to");
    }
    let mut table = Table::new(&heads);
    for (place, chosen) in plan.chosen.iter().enumerate() {
        let task = scenes.iter().find(|scene| scene.entry.task == chosen.task);
        let mut row = vec![
            (place + 1).to_string(),
            signed(chosen.pick.marginal_value),
            chosen.incumbent.len().to_string(),
            change(chosen.incumbent.members(), chosen.set.members()),
        ];
        if let Some(bought) = &planned.bought {
            row.push(bought[place].uplift.map_or_else(|| "failed".into(), signed));
        }
        row.push(task.map_or_else(String::new, |scene| scene.task.task.context.clone()));
        table.row(row);
    }
    format!(
        "{head}\n{}\n{} probes to choose from ({} left out), {} decisions.\nThe batch is worth {} in all.\n",
        table.text(),
        plan.pool,
        plan.capped,
        plan.comparisons,
        signed(plan.batch_value)
    )
}

/// How a probe differs from what retrieval would return.
fn change<T: PartialEq>(incumbent: &[T], probe: &[T]) -> String {
    let added = probe.iter().filter(|id| !incumbent.contains(id)).count();
    let removed = incumbent.iter().filter(|id| !probe.contains(id)).count();
    match (added, removed) {
        (0, 0) => "the same again".into(),
        (0, _) => "one removed".into(),
        (_, 0) => "one added".into(),
        _ => "one replaced".into(),
    }
}
