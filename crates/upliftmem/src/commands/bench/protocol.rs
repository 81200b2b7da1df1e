//! `bench run | ablations | probes | budget-k`: the paper's evaluation on a suite.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use upliftmem_agent::{
    AttachedSettings, LlmWriter,
    chat::{ChatModel, Sampling},
};
use upliftmem_bench::{
    bigcodebench::{CodeTask, PythonSandbox},
    protocol::{
        BUDGETS_K, Bench, Event, Method, PROBE_BUDGETS, Sizes, Work, ablations, budget_k, estimate,
        evaluate_methods, probe_curves, write_ablations, write_budget_k, write_main, write_probes,
    },
    suite::{Acting, AlfworldSuite, BigCodeBenchSuite, MemsycoSuite, ModelAgent, Suite, WebshopSuite},
    systems::Steps,
};
use upliftmem_engine::Strategy;
use upliftmem_scorer::CompactSettings;

use crate::{
    config::{ChatKind, Config, ScorerKind},
    context::{open_chat, open_embedder},
    output::Output,
    png,
};

/// The benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SuiteName {
    /// Household games.
    Alfworld,
    /// A shop.
    Webshop,
    /// Programming tasks, judged by their tests; the model of `[chat]` writes the programs.
    Bigcodebench,
    /// Questions of a user whose preferences are remembered; the model of `[chat]` answers.
    Memsyco,
}

/// Who acts in a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AgentName {
    /// A script that follows memories.
    Scripted,
    /// The model of `[chat]`, with the paper's prompts.
    Llm,
}

/// Who does the steps of memory systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StepsBy {
    Rules,
    Llm,
}

impl SuiteName {
    /// The paper's sizes.
    const fn sizes(self) -> Sizes {
        match self {
            Self::Alfworld => Sizes::ALFWORLD,
            Self::Webshop => Sizes::WEBSHOP,
            Self::Bigcodebench => Sizes::BIGCODEBENCH,
            Self::Memsyco => Sizes::MEMSYCO,
        }
    }

    /// Whether it is a world to act in.
    const fn is_world(self) -> bool {
        matches!(self, Self::Alfworld | Self::Webshop)
    }

    /// Tokens of an answer: an action, a program, a few sentences.
    const fn answer_tokens(self) -> usize {
        match self {
            Self::Alfworld | Self::Webshop => 64,
            Self::Bigcodebench => 1_024,
            Self::Memsyco => 256,
        }
    }

    /// Where its data can be, the likeliest first.
    const fn places(self) -> &'static [&'static str] {
        match self {
            Self::Alfworld => &["alfworld/games.tar.xz", "games.tar.xz", "alfworld", ""],
            Self::Webshop => &["webshop", ""],
            Self::Bigcodebench => &["bigcodebench", ""],
            Self::Memsyco => &["memsyco", ""],
        }
    }

    fn find(self, data: &Path) -> Result<PathBuf> {
        let mut places = self.places().iter().map(|place| data.join(place));
        let found = places.find(|path| path.exists());
        found.with_context(|| format!("{}: there is no such folder; --data names it", data.display()))
    }
}

/// What executes.
struct Players {
    chat: Option<Arc<dyn ChatModel>>,
    model: Option<ModelAgent>,
    judge: Option<Arc<dyn ChatModel>>,
    attached: Option<AttachedSettings>,
    python: PathBuf,
    standard_library: bool,
}

impl Players {
    fn load(self, name: SuiteName, data: &Path, sizes: &Sizes) -> Result<Arc<dyn Suite>> {
        let found = name.find(data)?;
        let model = || self.model.as_ref().context("no model executes");
        let suite: Arc<dyn Suite> = match name {
            SuiteName::Alfworld => {
                let acting = self.acting();
                Arc::new(AlfworldSuite::load(&found, sizes)?.acted_by(acting)?)
            }
            SuiteName::Webshop => {
                let acting = self.acting();
                Arc::new(WebshopSuite::load(&found, sizes)?.acted_by(acting)?)
            }
            SuiteName::Bigcodebench => {
                let sandbox = PythonSandbox::new(&self.python)?;
                let only = self.standard_library;
                let wanted = move |task: &CodeTask| !only || task.is_standard_library_only();
                Arc::new(BigCodeBenchSuite::load(&found, sizes, model()?, sandbox, wanted)?)
            }
            SuiteName::Memsyco => Arc::new(MemsycoSuite::load(&found, sizes, model()?, self.judge.clone())?),
        };
        let partition = suite.partition();
        let nothing_to_learn = sizes.seed > 0 && partition.seed.is_empty();
        let nothing_to_judge =
            sizes.evaluation != Some(0) && partition.evaluation.iter().all(|part| part.tasks.is_empty());
        if nothing_to_learn || nothing_to_judge {
            bail!(
                "{}: the suite's tasks are not here; --data names the folder that has them (docs/evaluation.md says what each suite needs)",
                found.display()
            );
        }
        Ok(suite)
    }

    fn acting(&self) -> Acting {
        Acting {
            model: self.model.clone(),
            attached: self.attached.clone(),
        }
    }
}

/// What all evaluations need.
#[derive(Debug, Args)]
pub(super) struct SuiteArguments {
    /// The benchmark.
    #[arg(long, value_enum, default_value = "alfworld")]
    suite: SuiteName,
    /// Its data: a folder with `alfworld/games.tar.xz`, `webshop/`, `bigcodebench/` or `memsyco/`, or that itself.
    #[arg(long, env = "UPLIFTMEM_BENCH_DIR", value_name = "DIR")]
    data: PathBuf,
    /// Where stores, results, tables and figures go; the same folder goes on where it was stopped.
    #[arg(long, default_value = "upliftmem-bench", value_name = "DIR")]
    out: PathBuf,
    /// Times that every task is executed with every method.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Tasks whose plays memories are made of [default: the paper's].
    #[arg(long)]
    seed_tasks: Option<usize>,
    /// Tasks to learn from [default: the paper's].
    #[arg(long)]
    runtime_tasks: Option<usize>,
    /// How many of those are for warm-up [default: 200].
    #[arg(long)]
    warm_up: Option<usize>,
    /// What UpliftMem expects a memory to cost of which nothing is known, in place of `scorer.member_cost`; a suite has its
    /// own, chosen on its validation tasks.
    #[arg(long)]
    member_cost: Option<f64>,
    /// Use only so many tasks of each part of the evaluation.
    #[arg(long)]
    limit: Option<usize>,
    /// Randomness of everything.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Let UpliftMem write memories while it trains; each is validated by executions before it is admitted.
    #[arg(long)]
    writing: bool,
    /// Only say how many executions it takes.
    #[arg(long)]
    estimate: bool,
    /// Who acts [default: scripted in alfworld and webshop; always llm in the others].
    #[arg(long, value_enum)]
    agent: Option<AgentName>,
    /// Who does what memory systems ask a language model for: rules, or the model of `[chat]`.
    #[arg(long, value_enum, default_value = "rules")]
    steps: StepsBy,
    /// Tokens of an answer of the model at most [default: 64 for an action, 1024 for a program, 256 for sentences].
    #[arg(long, value_name = "N")]
    answer_tokens: Option<usize>,
    /// MemSyco: the model that judges answers, of the kind that `[chat]` names; without one, likelihoods stand in.
    #[arg(long, value_name = "MODEL")]
    judge: Option<String>,
    /// BigCodeBench: the Python that runs programs.
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    python: PathBuf,
    /// BigCodeBench: only tasks that need Python's standard library and no other.
    #[arg(long)]
    standard_library: bool,
    /// ALFWorld, WebShop: a program that is the environment, as `upliftmem bench env` is one, with its arguments. Everything
    /// after it belongs to it, so it comes last.
    #[arg(long, num_args = 1.., allow_hyphen_values = true, value_name = "PROGRAM")]
    environment: Vec<String>,
}

impl SuiteArguments {
    /// What executes, as far as the flags make sense together.
    fn players(&self, config: &Config) -> Result<Players> {
        let name = self.suite;
        if !name.is_world() {
            if self.agent == Some(AgentName::Scripted) {
                bail!("--agent scripted: there are scripted agents for alfworld and webshop alone");
            }
            if !self.environment.is_empty() {
                bail!("--environment: alfworld and webshop are played in an environment, the others are not");
            }
        }
        if self.judge.is_some() && name != SuiteName::Memsyco {
            bail!("--judge: only the answers of memsyco are judged by a model");
        }
        if self.writing && name == SuiteName::Memsyco {
            bail!(
                "--writing: in memsyco every question has memories of its own, and none is written for another"
            );
        }
        let speaks = self.agent == Some(AgentName::Llm) || !name.is_world();
        if name == SuiteName::Memsyco && self.judge.is_none() && config.chat.kind == ChatKind::Openai {
            bail!(
                "chat.kind: an endpoint does not tell how likely answers are; name a judge with --judge, or use a local model"
            );
        }
        let needed = speaks || self.steps == StepsBy::Llm;
        let chat = needed.then(|| open_chat(config)).transpose()?;
        let model = chat.clone().filter(|_| speaks).map(|model| ModelAgent {
            model,
            sampling: Sampling {
                temperature: config.chat.temperature,
                max_tokens: self.answer_tokens.unwrap_or(name.answer_tokens()),
                ..Sampling::default()
            },
            concurrency: config.chat.concurrency,
            kept: (!self.estimate).then(|| self.out.clone()),
        });
        let judge = self.judge.as_ref().map(|judge| {
            let mut config = config.clone();
            config.chat.model.clone_from(judge);
            open_chat(&config)
        });
        let attached = self
            .environment
            .split_first()
            .map(|(program, arguments)| AttachedSettings {
                name: Some(self.environment.join(" ")),
                ..AttachedSettings::new(program, arguments)
            });
        Ok(Players {
            chat,
            model,
            judge: judge.transpose()?,
            attached,
            python: self.python.clone(),
            standard_library: self.standard_library,
        })
    }
}

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    #[command(flatten)]
    suite: SuiteArguments,
    /// The methods [default: all].
    #[arg(long, value_delimiter = ',')]
    methods: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct AblationArguments {
    #[command(flatten)]
    suite: SuiteArguments,
}

#[derive(Debug, Args)]
pub(super) struct ProbeArguments {
    #[command(flatten)]
    suite: SuiteArguments,
    /// The strategies [default: all].
    #[arg(long, value_delimiter = ',')]
    strategies: Vec<Strategy>,
    /// The budgets.
    #[arg(long, value_delimiter = ',', default_values_t = PROBE_BUDGETS)]
    budgets: Vec<usize>,
    /// Trials, each with its own warm-up.
    #[arg(long, default_value_t = 5)]
    trials: usize,
}

#[derive(Debug, Args)]
pub(super) struct BudgetArguments {
    #[command(flatten)]
    suite: SuiteArguments,
    /// The numbers of memories.
    #[arg(long, value_delimiter = ',', default_values_t = BUDGETS_K)]
    k: Vec<usize>,
}

/// A bench that can begin.
async fn open(arguments: &SuiteArguments, config: &Config, output: Output) -> Result<Bench> {
    let name = arguments.suite;
    let usual = name.sizes();
    let sizes = Sizes {
        seed: arguments.seed_tasks.unwrap_or(usual.seed),
        runtime: arguments.runtime_tasks.unwrap_or(usual.runtime),
        warm_up: arguments.warm_up.unwrap_or(usual.warm_up),
        evaluation: arguments.limit,
    };
    if arguments.runs == 0 {
        bail!("--runs 0 evaluates nothing; give 1 at least");
    }
    if config.scorer.kind != ScorerKind::Compact {
        bail!("scorer.kind: the paper's evaluation runs with the compact scorer here; set it to \"compact\"");
    }
    let players = arguments.players(config)?;
    let waits = players.model.is_some() || players.attached.is_some();
    let chat = players.chat.clone();
    let speaks = players.model.is_some();
    let data = arguments.data.clone();
    let suite = tokio::task::spawn_blocking(move || players.load(name, &data, &sizes)).await??;
    let mut bench = Bench::new(
        suite,
        open_embedder(config)?,
        sizes,
        std::path::absolute(&arguments.out)?,
    );
    bench.runs = arguments.runs;
    bench.seed = arguments.seed;
    bench.writes = arguments.writing;
    bench.compact = CompactSettings {
        member_cost: arguments.member_cost.unwrap_or(bench.compact.member_cost),
        ..config.scorer.compact()
    };
    bench.engine.acquisition = config.acquisition.clone();
    bench.engine.training = config.training.clone();
    bench.engine.retrieval.candidates = config.retrieval.candidates;
    if waits {
        bench.engine.execution = config.engine().execution;
    }
    if let Some(chat) = chat {
        if arguments.steps == StepsBy::Llm {
            let kept = (!arguments.estimate).then(|| bench.folder.join("steps.jsonl"));
            let steps = Steps::new(Arc::clone(&chat), kept.as_deref())?;
            bench.steps = Some(Arc::new(steps));
        }
        if arguments.writing && speaks {
            let sampling = Sampling {
                temperature: config.writer.temperature,
                max_tokens: config.writer.max_tokens,
                ..Sampling::default()
            };
            bench.writer = Some(Arc::new(LlmWriter::new(chat, bench.suite.domain(), sampling)));
        }
    }
    let bar = output.bar(0, "starting");
    bench.on_event = Arc::new(move |event| match event {
        Event::Step { what, executions } => {
            bar.reset();
            bar.set_length(executions as u64);
            bar.set_message(what);
        }
        Event::Executed(count) => bar.inc(count as u64),
        // The figure itself is there: a run is not lost for its PNG.
        Event::Figure { file, svg } => {
            if let Err(error) = png::beside(&file, &svg, output) {
                output.note(&format!("{error:#}"));
            }
        }
        Event::Note(line) => {
            if bar.is_hidden() {
                output.note(&line);
            } else {
                bar.println(line);
            }
        }
    });
    Ok(bench)
}

/// Says what some work will cost; whether that was all that was asked.
fn is_estimate(bench: &Bench, work: &Work, arguments: &SuiteArguments, output: Output) -> Result<bool> {
    let cost = estimate(bench, work);
    output.note(&format!(
        "at most {} executions to train and {} to evaluate; what {} holds already is not done again",
        cost.training,
        cost.evaluation,
        bench.folder.display()
    ));
    if arguments.estimate {
        output.result(&cost, || {
            format!("{} executions", cost.training + cost.evaluation)
        })?;
    }
    Ok(arguments.estimate)
}

/// Shows the table that was written, and says where.
fn show(output: Output, table: &Path) -> Result<()> {
    let text =
        std::fs::read_to_string(table).with_context(|| format!("{} can not be read", table.display()))?;
    output.result(&json!({ "table": table }), || {
        format!("{text}\n{}", table.display())
    })
}

pub(super) async fn run(arguments: &RunArguments, config: &Config, output: Output) -> Result<()> {
    let mut methods: Vec<Method> = arguments
        .methods
        .iter()
        .map(|name| name.parse())
        .collect::<Result<_, _>>()?;
    let bench = open(&arguments.suite, config, output).await?;
    if methods.is_empty() {
        methods = Method::all(bench.suite.as_ref());
    }
    if is_estimate(&bench, &Work::Main(methods.clone()), &arguments.suite, output)? {
        return Ok(());
    }
    let scores = evaluate_methods(&bench, &methods).await?;
    show(output, &write_main(&bench, &scores)?)
}

pub(super) async fn run_ablations(
    arguments: &AblationArguments,
    config: &Config,
    output: Output,
) -> Result<()> {
    let bench = open(&arguments.suite, config, output).await?;
    if is_estimate(&bench, &Work::Ablations, &arguments.suite, output)? {
        return Ok(());
    }
    let scores = ablations(&bench).await?;
    show(output, &write_ablations(&bench, &scores)?)
}

pub(super) async fn run_probes(arguments: &ProbeArguments, config: &Config, output: Output) -> Result<()> {
    let mut strategies = arguments.strategies.clone();
    if strategies.is_empty() {
        strategies = Strategy::ALL.to_vec();
    }
    if arguments.trials == 0 || !arguments.budgets.is_sorted_by(|a, b| a < b) || arguments.budgets.is_empty()
    {
        bail!("--trials must be 1 at least, and --budgets must grow, as in 20,50,80");
    }
    let work = Work::Probes {
        strategies: strategies.len(),
        budget: arguments.budgets.last().copied().unwrap_or(0),
        checkpoints: arguments.budgets.len(),
        trials: arguments.trials,
    };
    let bench = open(&arguments.suite, config, output).await?;
    if is_estimate(&bench, &work, &arguments.suite, output)? {
        return Ok(());
    }
    let curves = probe_curves(&bench, &strategies, &arguments.budgets, arguments.trials).await?;
    show(output, &write_probes(&bench, &curves, arguments.trials)?)
}

pub(super) async fn run_budgets(arguments: &BudgetArguments, config: &Config, output: Output) -> Result<()> {
    let work = Work::BudgetK(arguments.k.len());
    let bench = open(&arguments.suite, config, output).await?;
    if is_estimate(&bench, &work, &arguments.suite, output)? {
        return Ok(());
    }
    let rows = budget_k(&bench, &arguments.k).await?;
    show(output, &write_budget_k(&bench, &rows)?)
}
