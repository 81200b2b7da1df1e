//! Questions for a real language model: which memories help it, and where it needs none.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use upliftmem_agent::{
    AnswerScoring, Executor, QuestionExecutor, QuestionSettings,
    chat::{ChatModel, LocalChat, LocalSettings, Sampling},
};
use upliftmem_bench::questions::{QuestionWorld, QuestionWorldSize, RealWork, RememberingExecutor, sort_of};
use upliftmem_core::{Task, UpdateRule};
use upliftmem_engine::{Arm, Evaluation, Seeds, Strategy, TrainingReport, evaluate};
use upliftmem_scorer::TrainerSettings;

use super::{
    evaluate::{Details, HeldOut, table},
    reader::reader,
};
use crate::{
    config::Config,
    context::{Context, model_file},
    output::{Output, strong},
    progress::Show,
};

/// Methods that are compared.
const METHODS: usize = 7;
/// Where answers are kept: a run that was stopped goes on, and asks nothing twice.
const ANSWERS: &str = "answers.jsonl";

/// The sorts of questions, with what they are.
const SORTS: [(&str, &str); 3] = [
    ("private", "facts that only memories hold"),
    ("pair", "facts that need two memories"),
    ("common", "common knowledge"),
];

#[derive(Debug, Args)]
pub(crate) struct QuestionsArguments {
    /// The model: a GGUF file, a directory of the hub, or the name of a model that was pulled.
    #[arg(long, default_value = "smollm2")]
    model: String,
    /// Seeds; each is a world of its own.
    #[arg(long, value_delimiter = ',', default_values_t = [1_u64, 2, 3])]
    seeds: Vec<u64>,
    /// Probes of each strategy.
    #[arg(long, default_value_t = 300)]
    probes: usize,
    /// A smaller world.
    #[arg(long)]
    small: bool,
    /// Also train a language-model scorer on the same executions, beside the model of this file; takes long.
    #[arg(long, value_name = "MODEL")]
    reader: Option<PathBuf>,
    /// Passes of the language-model scorer over the executions.
    #[arg(long, default_value_t = 3, requires = "reader")]
    reader_epochs: usize,
    /// First learning rate of the language-model scorer.
    #[arg(long, default_value_t = 1e-3, requires = "reader")]
    reader_rate: f64,
    /// Where stores and answers are written; the same place again goes on where a run stopped.
    #[arg(long, default_value = "upliftmem-questions")]
    out: PathBuf,
    #[command(flatten)]
    suited: SuitedArguments,
}

impl QuestionsArguments {
    /// A small world, in minutes.
    pub(crate) fn small(model: String, seed: u64, out: PathBuf) -> Self {
        Self {
            model,
            seeds: vec![seed],
            probes: 80,
            small: true,
            reader: None,
            reader_epochs: 3,
            reader_rate: 1e-3,
            out,
            suited: SuitedArguments::default(),
        }
    }

    fn size(&self) -> QuestionWorldSize {
        if self.small {
            QuestionWorldSize::SMALL
        } else {
            QuestionWorldSize::FULL
        }
    }

    /// About how many executions all worlds take, those of one question counted once for each method that wants it.
    fn executions(&self) -> u64 {
        let each = |&seed: &u64| {
            let world = QuestionWorld::generate(self.size(), seed);
            let learning = 2 * (2 * world.train.len() + self.probes);
            // Held-out questions are gone through all together, and once more by sort.
            learning + 2 * METHODS * world.test.len()
        };
        self.seeds.iter().map(|seed| each(seed) as u64).sum()
    }
}

/// Answers are a few words.
const ANSWER_TOKENS_MAX: usize = 16;
/// Batches of probes in the stream.
const BATCHES: usize = 4;

/// One world, learned with each strategy.
#[derive(Debug, Serialize)]
struct Learned {
    seed: u64,
    memories: usize,
    train: usize,
    test: usize,
    training: BTreeMap<String, TrainingReport>,
    /// By sort of question, and all together under `all`.
    evaluation: BTreeMap<String, Evaluation>,
}

#[derive(Debug, Serialize)]
struct Shown {
    model: String,
    worlds: Vec<Learned>,
    work: RealWork,
    seconds: f64,
}

/// What suits a small model that answers without chance, chosen in worlds of their own (docs/results-llm.md): what is
/// beside the point distracts it, what it knows it forgets if a memory says otherwise, and asked the same it says the same.
/// The configuration is not looked at for these.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct SuitedArguments {
    /// What a memory is expected to cost, in place of `scorer.member_cost`.
    #[arg(long, default_value_t = SuitedArguments::default().member_cost)]
    member_cost: f64,
    /// What it is expected to cost beside that where the model succeeds alone, in place of `scorer.meddling_cost`.
    #[arg(long, default_value_t = SuitedArguments::default().meddling_cost)]
    meddling_cost: f64,
    /// Noise of an answer without memories as a share of that of the others, in place of `scorer.reference_noise`.
    #[arg(long, default_value_t = SuitedArguments::default().reference_noise)]
    reference_noise: f64,
}

impl Default for SuitedArguments {
    fn default() -> Self {
        Self {
            member_cost: 0.15,
            meddling_cost: 0.3,
            reference_noise: 0.2,
        }
    }
}

/// A model in this process that answers questions, and the settings that suit it.
pub(crate) struct Answerer {
    pub(crate) model: Arc<LocalChat>,
    pub(crate) executor: Arc<RememberingExecutor>,
    pub(crate) config: Config,
}

impl Answerer {
    /// Reads the model; stores go to `out`.
    pub(crate) async fn new(
        model: &str,
        out: &Path,
        suited: SuitedArguments,
        mut config: Config,
        output: Output,
    ) -> Result<Self> {
        let local = LocalSettings::new(model_of(&config, model, output)?);
        let model = Arc::new(tokio::task::spawn_blocking(move || LocalChat::load(&local)).await??);
        // Its own words, not the likeliest of given choices: by choices a quarter is right by chance.
        let settings = QuestionSettings {
            scoring: AnswerScoring::Contains,
            sampling: Sampling {
                max_tokens: ANSWER_TOKENS_MAX,
                ..Sampling::default()
            },
            ..QuestionSettings::default()
        };
        let chat: Arc<dyn ChatModel> = model.clone();
        let inner = Arc::new(QuestionExecutor::new(chat, None, settings));
        std::fs::create_dir_all(out).with_context(|| format!("{} can not be made", out.display()))?;
        let answers = out.join(ANSWERS);
        let executor = RememberingExecutor::in_file(inner, &answers)
            .with_context(|| format!("{} can not be used", answers.display()))?;
        config.directory = std::path::absolute(out)?;
        // A model in this process answers one question at a time.
        config.executor.concurrency = 2;
        config.utility.efficiency_weight = 0.0;
        config.utility.cost_max = 10_000.0;
        config.retrieval.candidates = 12;
        config.retrieval.memories_max = 3;
        config.scorer.member_cost = suited.member_cost;
        config.scorer.meddling_cost = suited.meddling_cost;
        config.scorer.reference_noise = suited.reference_noise;
        Ok(Self {
            model,
            executor: Arc::new(executor),
            config,
        })
    }
}

pub(crate) async fn questions(arguments: QuestionsArguments, config: Config, output: Output) -> Result<()> {
    let Answerer { executor, config, .. } =
        Answerer::new(&arguments.model, &arguments.out, arguments.suited, config, output).await?;
    let started = Instant::now();
    let show = Show::of(output, Some(arguments.executions()));
    let mut worlds = Vec::new();
    for &seed in &arguments.seeds {
        worlds.push(one_world(&arguments, &config, &executor, seed, &show, output).await?);
    }
    show.finish();
    let shown = Shown {
        model: executor.name().to_owned(),
        worlds,
        work: executor.work(),
        seconds: started.elapsed().as_secs_f64(),
    };
    output.result(&shown, || told(&shown))
}

/// Where a model is; says what is read.
fn model_of(config: &Config, model: &str, output: Output) -> Result<PathBuf> {
    // From where the command was given, not from where a configuration file is.
    let here = PathBuf::from(model);
    let file = if here.exists() {
        here
    } else {
        model_file(config, "--model", model)?
    };
    output.note(&format!("reading {}", file.display()));
    Ok(file)
}

async fn one_world(
    arguments: &QuestionsArguments,
    config: &Config,
    executor: &Arc<RememberingExecutor>,
    seed: u64,
    show: &Show,
    output: Output,
) -> Result<Learned> {
    let world = QuestionWorld::generate(arguments.size(), seed);
    let mut config = config.clone();
    config.training.seed = seed;
    let (mut arms, mut training) = (Vec::<Arm>::new(), BTreeMap::new());
    let (mut last, mut executed) = (None, Vec::new());
    for strategy in [Strategy::Random, Strategy::Evsi] {
        config.acquisition.strategy = strategy;
        let seeds = world.train.len() / 4;
        let tasks = world.train.len() - seeds;
        let interval = (tasks / BATCHES).max(1);
        config.acquisition.acquisition_interval = interval as u64;
        config.acquisition.probe_budget = arguments.probes / (tasks / interval).max(1);
        // The model answers one after the other: learning often costs nothing beside it.
        config.training.batch = interval.div_ceil(2);
        config.training.updates = UpdateRule::Every(interval.div_ceil(2) as u64);
        let name = format!("questions-{seed}-{strategy}.db");
        let context = Context::fresh(config.clone(), &name, output).await?;
        context.fill(&world.memories).await?;
        let (first, stream) = world.train.split_at(seeds);
        let run: Arc<dyn Executor> = Arc::clone(executor) as Arc<dyn Executor>;
        let trainer = context.trainer("questions", run, first.to_vec(), stream.to_vec())?;
        let trained = trainer.train(&|progress| show.take(progress)).await?;
        let held_out = HeldOut::new(&context.texts, &config.retrieval, &world.test).await?;
        let labels = upliftmem_engine::labels_of(context.store.as_ref(), &context.scope)
            .await?
            .remove(executor.name())
            .unwrap_or_default();
        if arms.is_empty() {
            for method in ["none", "random", "bm25", "dense"] {
                arms.push(held_out.baseline(method, &labels, seed)?);
            }
        } else {
            arms.push(held_out.baseline("per-memory", &labels, seed)?);
        }
        // The one that `eval` and `search` have from now on: hyper-parameters chosen on all labels.
        let scorer = context.scorer().await?;
        arms.push(held_out.searched(&format!("uplift ({strategy})"), scorer.as_ref())?);
        training.insert(strategy.to_string(), trained.report);
        // It knows nothing of similarity: what probes by lot tried is what shows it sets that do nothing.
        executed.extend(labels);
        if let Some(model) = arguments.reader.clone().filter(|_| strategy == Strategy::Evsi) {
            let settings = TrainerSettings {
                epochs: arguments.reader_epochs,
                learning_rate: arguments.reader_rate,
                batch_labels: 8,
                seed,
                ..TrainerSettings::default()
            };
            let (memories, tasks) = (world.memories.clone(), world.train.clone());
            let labels = std::mem::take(&mut executed);
            let read = tokio::task::spawn_blocking(move || {
                let reader = reader(&model, &memories, &tasks, &labels, settings, output)?;
                anyhow::Ok([
                    held_out.beamed("lm, untrained", &reader.untrained)?,
                    held_out.beamed("uplift (lm)", reader.trained.as_ref())?,
                ])
            });
            arms.extend(read.await??);
        }
        last = Some(context);
    }
    let mut evaluation = BTreeMap::new();
    if let Some(context) = last {
        context
            .store
            .put_tasks(&context.scope, world.test.clone())
            .await?;
        let rollouts = context.rollouts(Arc::clone(executor) as Arc<dyn Executor>)?;
        for sort in std::iter::once("all").chain(SORTS.map(|(sort, _)| sort)) {
            let tasks: Vec<Task> = world
                .test
                .iter()
                .filter(|task| sort == "all" || sort_of(task) == sort)
                .cloned()
                .collect();
            let seeds = Seeds::new("evaluation", seed);
            let result = evaluate(&rollouts, &seeds, &tasks, &arms, 1, &|progress| {
                show.take(progress);
            })
            .await?;
            if sort == "all" {
                let path = arguments.out.join(format!("details-{seed}.jsonl"));
                Details::create(&path)?.write(&result.details)?;
            }
            evaluation.insert(sort.to_owned(), result);
        }
    }
    Ok(Learned {
        seed,
        memories: world.memories.len(),
        train: world.train.len(),
        test: world.test.len(),
        training,
        evaluation,
    })
}

fn told(shown: &Shown) -> String {
    let mut text = String::new();
    for world in &shown.worlds {
        text += &strong(&format!(
            "World {}: {} memories, {} questions to learn from, {} held out",
            world.seed, world.memories, world.train, world.test
        ));
        text.push('\n');
        for (strategy, report) in &world.training {
            let line = |name: &str| report.ledger.get(name).map_or(0, |line| line.executions);
            text += &format!(
                "{strategy}: {} references, {} retrievals, {} probes\n",
                line("reference"),
                line("retrieval"),
                line("probe")
            );
        }
        for (sort, what) in std::iter::once(("all", "all questions")).chain(SORTS) {
            if let Some(evaluation) = world.evaluation.get(sort) {
                text += &format!("\n{}\n{}\n", strong(what), table(evaluation));
            }
        }
        text.push('\n');
    }
    let work = json!(shown.work);
    text + &format!("{} really did: {work} in {:.0} s", shown.model, shown.seconds)
}
