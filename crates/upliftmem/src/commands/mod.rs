//! One file a group of commands; each takes its arguments and a context.

mod bench;
mod demo;
mod evaluate;
mod keys;
mod memories;
mod probe;
mod questions;
mod quotas;
mod reader;
mod score;
mod search;
mod serve;
mod setup;
mod train;
mod worker;
mod writing;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::{
    config::{self, Config},
    context::Context,
    output::Output,
};

/// Memory for LLM agents that learns from outcomes which memories help, and when to use none.
#[derive(Debug, Parser)]
#[command(name = "upliftmem", version, max_term_width = 80)]
pub(crate) struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Global {
    /// The configuration file [default: upliftmem.toml here or in a directory above].
    #[arg(long, global = true, env = "UPLIFTMEM_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Sets one key of the configuration, e.g. retrieval.candidates=30.
    #[arg(long, global = true, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Prints JSON for programs instead of text for people.
    #[arg(long, global = true)]
    json: bool,
    /// Shows no progress and no hints.
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// See in a minute what this is about: a world where similar memories hurt.
    Demo(demo::DemoArguments),
    /// Make a configuration file and a store in a directory.
    Init(setup::InitArguments),
    /// Add a memory.
    Add(memories::AddArguments),
    /// Import memories or tasks from a file, all or nothing.
    Import(memories::ImportArguments),
    /// Export memories, tasks, executions, the journal or the scorer.
    Export(memories::ExportArguments),
    /// List memories, tasks, executions or retrievals.
    List(memories::ListArguments),
    /// Search the set of memories that helps with a task, if any does.
    Search(search::SearchArguments),
    /// Score given sets with a scorer given by flags; JSON Lines in and out.
    Score(score::ScoreArguments),
    /// Explain an answered search: gains, runners-up, and what else could have been chosen.
    Explain(search::ExplainArguments),
    /// Report how a task went with the memories of a search.
    Outcome(search::OutcomeArguments),
    /// Learn from executions on a stream of tasks, within a budget.
    Train(train::TrainArguments),
    /// Execute what training runs and servers want, as one of many workers.
    Worker(worker::WorkerArguments),
    /// Plan a batch of probes and show why each was chosen.
    Probe(probe::ProbeArguments),
    /// Compare methods side by side on held-out tasks.
    Eval(evaluate::EvalArguments),
    /// Does memory help? What executions say so far.
    Report(train::ReportArguments),
    /// Serve memories over HTTP: REST, MCP, dashboard, OpenAI-compatible chat.
    Serve(serve::ServeArguments),
    /// Serve memories to one agent over MCP on standard input and output.
    Mcp(serve::McpArguments),
    /// Make, list and revoke keys of the server.
    Keys(keys::KeysArguments),
    /// Say how much a tenant may use, and see how much it has used.
    Quotas(quotas::QuotasArguments),
    /// Measure parts of this program on this machine.
    Bench(bench::BenchArguments),
    /// Check configuration, store, models and executor.
    Doctor,
    /// Show the configuration: as it is, or every key with its default.
    Config(setup::ConfigArguments),
    /// List, get and locate models.
    Models(setup::ModelsArguments),
    /// Print completions for a shell.
    Completions(setup::CompletionsArguments),
    /// Write manual pages into a directory.
    Man(setup::ManArguments),
}

impl Arguments {
    /// Whether the command is one long computation, and not a service that has to leave memory to others.
    pub(crate) const fn computes_and_ends(&self) -> bool {
        match &self.command {
            Command::Train(_) => true,
            Command::Bench(arguments) => !arguments.serves(),
            _ => false,
        }
    }

    /// What is logged unless `UPLIFTMEM_LOG` says otherwise: a server's log is all it shows.
    pub(crate) const fn default_log(&self) -> &'static str {
        match self.command {
            Command::Serve(_) | Command::Worker(_) => "info,rmcp=warn",
            _ => "warn",
        }
    }
}

/// Does what was asked.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { global, command } = arguments;
    let output = Output {
        json: global.json,
        quiet: global.quiet,
    };
    match command {
        Command::Completions(arguments) => return setup::completions(&arguments, output),
        Command::Man(arguments) => return setup::man(&arguments, output),
        Command::Models(arguments) => return setup::models(arguments, output).await,
        Command::Init(arguments) => return setup::init(arguments, output).await,
        Command::Score(arguments) => return score::score(arguments, &global, output).await,
        _ => {}
    }
    let environment = config::environment()?;
    let mut config = Config::load(global.config.as_deref(), &environment, &global.set)?;
    if let Command::Worker(arguments) = &command {
        arguments.apply(&mut config);
    }
    match command {
        Command::Config(arguments) => return setup::show_config(&arguments, &config, output),
        Command::Demo(arguments) => return demo::demo(arguments, config, output).await,
        Command::Bench(arguments) => return bench::bench(arguments, config, output).await,
        Command::Doctor => return setup::doctor(config, output).await,
        _ => {}
    }
    let context = match command {
        Command::Serve(_) | Command::Train(_) | Command::Worker(_) => {
            Context::open_patiently(config, output).await?
        }
        _ => Context::open(config, output).await?,
    };
    match command {
        Command::Add(arguments) => memories::add(&context, arguments).await,
        Command::Import(arguments) => memories::import(&context, arguments).await,
        Command::Export(arguments) => memories::export(&context, arguments).await,
        Command::List(arguments) => memories::list(&context, arguments).await,
        Command::Search(arguments) => search::search(&context, arguments).await,
        Command::Explain(arguments) => search::explain(&context, &arguments).await,
        Command::Outcome(arguments) => search::outcome(&context, &arguments).await,
        Command::Train(arguments) => train::train(context, arguments).await,
        Command::Worker(arguments) => worker::worker(&context, arguments).await,
        Command::Report(arguments) => train::report(&context, &arguments).await,
        Command::Probe(arguments) => probe::probe(&context, arguments).await,
        Command::Eval(arguments) => evaluate::eval(&context, arguments).await,
        Command::Serve(arguments) => serve::serve(context, arguments).await,
        Command::Mcp(arguments) => serve::mcp(context, arguments).await,
        Command::Keys(arguments) => keys::keys(&context, arguments).await,
        Command::Quotas(arguments) => quotas::quotas(&context, arguments).await,
        Command::Bench(_)
        | Command::Demo(_)
        | Command::Init(_)
        | Command::Score(_)
        | Command::Doctor
        | Command::Config(_)
        | Command::Models(_)
        | Command::Completions(_)
        | Command::Man(_) => Ok(()),
    }
}
