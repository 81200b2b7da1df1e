//! A real language model that writes memories from what it is told after it answered, starting from none.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use upliftmem_agent::{Executor, LlmWriter, chat::Sampling, prompts::Domain};
use upliftmem_bench::questions::{QuestionWorld, QuestionWorldSize, RealWork, sort_of};
use upliftmem_core::{Task, UpdateRule};
use upliftmem_engine::{Evaluation, Seeds, Strategy, TrainingReport, Writing, WritingSettings, evaluate};
use upliftmem_store::{EntryKind, JournalEntry, JournalFilter};

use super::{
    evaluate::{HeldOut, table},
    questions::{Answerer, SuitedArguments},
};
use crate::{
    config::Config,
    context::Context,
    output::{Output, cut, signed, strong},
    progress::Show,
};

#[derive(Debug, Args)]
pub(crate) struct WritingArguments {
    /// The model: a GGUF file, a directory of the hub, or the name of a model that was pulled.
    #[arg(long, default_value = "smollm2")]
    model: String,
    /// Which world.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A smaller world.
    #[arg(long)]
    small: bool,
    /// Where the store is written.
    #[arg(long, default_value = "upliftmem-writing")]
    out: PathBuf,
}

/// What became of the drafts.
#[derive(Debug, Default, Serialize)]
struct Counts {
    episodes: usize,
    drafts: usize,
    validations: usize,
    revisions: usize,
    admitted: usize,
    refused: usize,
    /// Why attempts ended.
    ends: BTreeMap<String, usize>,
}

#[derive(Debug, Serialize)]
struct Shown {
    model: String,
    counts: Counts,
    examples: Vec<Value>,
    training: TrainingReport,
    evaluation: Evaluation,
    work: RealWork,
}

pub(crate) async fn writing(arguments: WritingArguments, config: Config, output: Output) -> Result<()> {
    let Answerer {
        model,
        executor,
        mut config,
    } = Answerer::new(
        &arguments.model,
        &arguments.out,
        SuitedArguments::default(),
        config,
        output,
    )
    .await?;
    config.training.seed = arguments.seed;
    config.training.batch = 20;
    config.training.updates = UpdateRule::Every(20);
    config.acquisition.strategy = Strategy::None;
    let size = if arguments.small {
        QuestionWorldSize::SMALL
    } else {
        QuestionWorldSize::FULL
    };
    let world = QuestionWorld::generate(size, arguments.seed);
    let private = |tasks: &[Task]| -> Vec<Task> {
        let private = tasks.iter().filter(|task| sort_of(task) == "private");
        private.cloned().collect()
    };
    let context = Context::fresh(config.clone(), "writing.db", output).await?;
    let run: Arc<dyn Executor> = Arc::clone(&executor) as Arc<dyn Executor>;
    let mut trainer = context.trainer("writing", Arc::clone(&run), Vec::new(), private(&world.train))?;
    let sampling = Sampling {
        max_tokens: 60,
        ..Sampling::default()
    };
    trainer.writing = Some(Writing {
        writer: Arc::new(LlmWriter::new(model, Domain::Generic, sampling)),
        settings: WritingSettings {
            episodes_max: 20,
            ..WritingSettings::default()
        },
    });
    let show = Show::new(output);
    let trained = trainer.train(&|progress| show.take(progress)).await?;
    show.finish();
    let (counts, examples) = told_by(&context).await?;
    let held_out = HeldOut::new(&context.texts, &config.retrieval, &private(&world.test)).await?;
    let arms = vec![
        held_out.baseline("none", &[], arguments.seed)?,
        held_out.baseline("dense", &[], arguments.seed)?,
        held_out.searched("uplift", trained.scorer.as_ref())?,
    ];
    let tasks = private(&world.test);
    context.store.put_tasks(&context.scope, tasks.clone()).await?;
    let rollouts = context.rollouts(run)?;
    let seeds = Seeds::new("evaluation", arguments.seed);
    let evaluation = evaluate(&rollouts, &seeds, &tasks, &arms, 1, &|_| {}).await?;
    let shown = Shown {
        model: executor.name().to_owned(),
        counts,
        examples,
        training: trained.report,
        evaluation,
        work: executor.work(),
    };
    output.result(&shown, || told(&shown))
}

/// What the journal says about writing, with an example of each end.
async fn told_by(context: &Context) -> Result<(Counts, Vec<Value>)> {
    let (mut counts, mut examples) = (Counts::default(), BTreeMap::<(String, usize), Value>::new());
    let mut after = 0;
    loop {
        let filter = JournalFilter {
            kind: Some(EntryKind::TrainingEvent),
            task: None,
            after,
        };
        let page = context.store.list_entries(&context.scope, filter, 100).await?;
        let Some(last) = page.last() else { break };
        after = last.sequence;
        for entry in &page {
            let JournalEntry::TrainingEvent(event) = &entry.entry else {
                continue;
            };
            let records = event.detail.get("records").and_then(Value::as_array);
            for record in records.into_iter().flatten() {
                let end = record["end"].as_str().unwrap_or_default();
                let end = end.split([';', ':']).next().unwrap_or_default();
                let end = if end.starts_with("memory ") {
                    "a memory says the same"
                } else {
                    end
                };
                let versions = record["versions"].as_array().map_or(0, Vec::len);
                let validated = record["versions"].as_array().map_or(0, |all| {
                    all.iter().filter(|version| !version["uplift"].is_null()).count()
                });
                counts.episodes += 1;
                counts.drafts += versions;
                counts.validations += validated;
                counts.revisions += versions.saturating_sub(1);
                let admitted = record["selected"]["admitted"] == true;
                counts.admitted += usize::from(admitted);
                counts.refused += usize::from(!admitted);
                *counts.ends.entry(end.to_owned()).or_default() += 1;
                examples
                    .entry((end.to_owned(), versions.min(2)))
                    .or_insert_with(|| record.clone());
            }
        }
    }
    Ok((counts, examples.into_values().collect()))
}

fn told(shown: &Shown) -> String {
    let counts = &shown.counts;
    let mut text = format!(
        "{}\n{} episodes, {} drafts, {} validations, {} revisions; {} admitted, {} refused\n",
        strong("Memories written from nothing"),
        counts.episodes,
        counts.drafts,
        counts.validations,
        counts.revisions,
        counts.admitted,
        counts.refused
    );
    for (end, count) in &counts.ends {
        text += &format!("  {count:4} {end}\n");
    }
    for example in &shown.examples {
        text += &format!(
            "\n{} ({})\n",
            example["task"],
            example["end"].as_str().unwrap_or_default()
        );
        for version in example["versions"].as_array().into_iter().flatten() {
            let uplift = version["uplift"]
                .as_f64()
                .map_or_else(|| "not run".into(), signed);
            text += &format!(
                "  {uplift}  {}\n",
                cut(version["text"].as_str().unwrap_or_default(), 100)
            );
        }
    }
    text + &format!("\n{}\n{}", strong("Held-out questions"), table(&shown.evaluation))
}
