//! `bench run | ablations | probes | budget-k`: the paper's evaluation on a suite.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use upliftmem_bench::{
    protocol::{
        BUDGETS_K, Bench, Event, Method, PROBE_BUDGETS, Sizes, Work, ablations, budget_k, estimate,
        evaluate_methods, probe_curves, write_ablations, write_budget_k, write_main, write_probes,
    },
    suite::{AlfworldSuite, Suite, WebshopSuite},
};
use upliftmem_engine::Strategy;

use crate::{
    config::{Config, ScorerKind},
    context::open_embedder,
    output::Output,
    png,
};

/// The benchmarks that have an agent.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum SuiteName {
    /// Household games, with a scripted player that follows memories.
    Alfworld,
    /// A shop, with a scripted customer that follows memories.
    Webshop,
}

impl SuiteName {
    /// The paper's sizes.
    const fn sizes(self) -> Sizes {
        match self {
            Self::Alfworld => Sizes::ALFWORLD,
            Self::Webshop => Sizes::WEBSHOP,
        }
    }

    /// Where its data can be, the likeliest first.
    const fn places(self) -> &'static [&'static str] {
        match self {
            Self::Alfworld => &["alfworld/games.tar.xz", "alfworld", ""],
            Self::Webshop => &["webshop", ""],
        }
    }

    fn load(self, data: &Path, sizes: &Sizes) -> Result<Arc<dyn Suite>> {
        let found = self
            .places()
            .iter()
            .map(|place| data.join(place))
            .find(|path| path.exists());
        let found =
            found.with_context(|| format!("{}: there is no such folder; --data names it", data.display()))?;
        Ok(match self {
            Self::Alfworld => Arc::new(AlfworldSuite::load(&found, sizes)?),
            Self::Webshop => Arc::new(WebshopSuite::load(&found, sizes)?),
        })
    }
}

/// What all evaluations need.
#[derive(Debug, Args)]
pub(super) struct SuiteArguments {
    /// The benchmark.
    #[arg(long, value_enum, default_value = "alfworld")]
    suite: SuiteName,
    /// Its data: a folder with `alfworld/games.tar.xz` or `webshop/`, or the games or the catalogue themselves.
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

/// A bench, and what it will cost; none if only that was asked.
async fn open(
    arguments: &SuiteArguments,
    config: &Config,
    output: Output,
    work: &Work,
) -> Result<Option<Bench>> {
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
    let data = arguments.data.clone();
    let suite = tokio::task::spawn_blocking(move || name.load(&data, &sizes)).await??;
    let mut bench = Bench::new(
        suite,
        open_embedder(config)?,
        sizes,
        std::path::absolute(&arguments.out)?,
    );
    bench.runs = arguments.runs;
    bench.seed = arguments.seed;
    bench.writes = arguments.writing;
    if config.scorer.kind != ScorerKind::Compact {
        bail!("scorer.kind: the paper's evaluation runs with the compact scorer here; set it to \"compact\"");
    }
    bench.compact = config.scorer.compact();
    bench.engine.acquisition = config.acquisition.clone();
    bench.engine.training = config.training.clone();
    bench.engine.retrieval.candidates = config.retrieval.candidates;
    let cost = estimate(&bench, work);
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
        return Ok(None);
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
    Ok(Some(bench))
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
    if methods.is_empty() {
        methods = Method::all();
    }
    let work = Work::Main(methods.clone());
    let Some(bench) = open(&arguments.suite, config, output, &work).await? else {
        return Ok(());
    };
    let scores = evaluate_methods(&bench, &methods).await?;
    show(output, &write_main(&bench, &scores)?)
}

pub(super) async fn run_ablations(
    arguments: &AblationArguments,
    config: &Config,
    output: Output,
) -> Result<()> {
    let Some(bench) = open(&arguments.suite, config, output, &Work::Ablations).await? else {
        return Ok(());
    };
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
    let Some(bench) = open(&arguments.suite, config, output, &work).await? else {
        return Ok(());
    };
    let curves = probe_curves(&bench, &strategies, &arguments.budgets, arguments.trials).await?;
    show(output, &write_probes(&bench, &curves, arguments.trials)?)
}

pub(super) async fn run_budgets(arguments: &BudgetArguments, config: &Config, output: Output) -> Result<()> {
    let work = Work::BudgetK(arguments.k.len());
    let Some(bench) = open(&arguments.suite, config, output, &work).await? else {
        return Ok(());
    };
    let rows = budget_k(&bench, &arguments.k).await?;
    show(output, &write_budget_k(&bench, &rows)?)
}
