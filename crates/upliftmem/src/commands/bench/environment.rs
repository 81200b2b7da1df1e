//! `bench env`: an environment for other people's agents, over standard input and output.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use upliftmem_agent::{Environment, serve_environment};
use upliftmem_bench::{
    alfworld::{self, Alfworld, Split},
    bigcodebench::{Benchmark, CodeEnvironment, PythonSandbox},
    webshop::{self, Shop, WebShop},
};
use upliftmem_core::Task;

#[derive(Debug, Args)]
pub(super) struct EnvironmentArguments {
    /// Which environment.
    #[arg(value_enum)]
    name: Name,
    /// Where its data is: its own folder, or one that has a folder of its name.
    #[arg(long, env = "UPLIFTMEM_BENCH_DIR", value_name = "DIR")]
    data: PathBuf,
    /// ALFWorld: only the games of these splits.
    #[arg(long, value_delimiter = ',', value_name = "SPLIT")]
    split: Vec<SplitName>,
    /// Actions after which an episode ends [default: 30 in ALFWorld, 15 in WebShop].
    #[arg(long, value_name = "N")]
    actions_max: Option<usize>,
    /// BigCodeBench: the Python that runs programs.
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    python: PathBuf,
    /// Lists the tasks as JSON Lines and serves nothing.
    #[arg(long)]
    tasks: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Household games: the official `game.tw-pddl` files, or an archive of them.
    Alfworld,
    /// A shop: the converted catalogue, or the official `items_*.json` files.
    Webshop,
    /// Programming tasks: the one action of an episode is an answer with a program, which is tested.
    Bigcodebench,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum SplitName {
    Train,
    ValidSeen,
    ValidTrain,
    ValidUnseen,
}

impl SplitName {
    const fn split(self) -> Split {
        match self {
            Self::Train => Split::Train,
            Self::ValidSeen => Split::ValidSeen,
            Self::ValidTrain => Split::ValidTrain,
            Self::ValidUnseen => Split::ValidUnseen,
        }
    }
}

/// Serves until standard input ends. Answers are JSON whatever the output is set to: programs read them.
pub(super) fn environment(arguments: &EnvironmentArguments) -> Result<()> {
    match arguments.name {
        Name::Alfworld => {
            let mut environment = load_alfworld(arguments)?;
            let tasks = environment.tasks();
            run(&mut environment, tasks, arguments.tasks)
        }
        Name::Bigcodebench => {
            if !arguments.split.is_empty() || arguments.actions_max.is_some() {
                bail!(
                    "--split and --actions-max are for the other environments: an episode has one action here"
                );
            }
            let benchmark =
                Benchmark::load(within(&arguments.data, "bigcodebench")).context("BigCodeBench's tasks")?;
            let sandbox = PythonSandbox::new(&arguments.python)?;
            let mut environment = CodeEnvironment::new(benchmark.tasks().iter().cloned(), sandbox);
            let tasks = environment.tasks();
            run(&mut environment, tasks, arguments.tasks)
        }
        Name::Webshop => {
            if !arguments.split.is_empty() {
                bail!("--split is for alfworld: WebShop's tasks 0 to 499 are its test tasks");
            }
            let folder = within(&arguments.data, "webshop");
            let shop = Shop::load(&folder).context("WebShop's catalogue")?;
            let actions_max = arguments.actions_max.unwrap_or(webshop::ACTIONS_MAX);
            let mut environment = WebShop::new(Arc::new(shop)).with_actions_max(actions_max);
            let tasks: Vec<_> = if arguments.tasks {
                environment.tasks().collect()
            } else {
                Vec::new()
            };
            run(&mut environment, tasks, arguments.tasks)
        }
    }
}

fn load_alfworld(arguments: &EnvironmentArguments) -> Result<Alfworld> {
    let folder = within(&arguments.data, "alfworld");
    let archive = folder.join("games.tar.xz");
    let collection = if archive.is_file() { archive } else { folder };
    let wanted = |game: &str| {
        arguments.split.is_empty()
            || Split::of(game).is_some_and(|split| arguments.split.iter().any(|name| name.split() == split))
    };
    let environment = Alfworld::load(&collection, wanted).context("ALFWorld's games")?;
    if environment.games().len() == 0 {
        bail!(
            "{}: no `game.tw-pddl` file here that is asked for; get them with `alfworld-download`",
            collection.display()
        );
    }
    Ok(environment.with_actions_max(arguments.actions_max.unwrap_or(alfworld::ACTIONS_MAX)))
}

/// The folder of an environment: beneath the data's, if it is there, else the data's.
fn within(data: &Path, name: &str) -> PathBuf {
    let folder = data.join(name);
    if folder.is_dir() { folder } else { data.to_owned() }
}

fn run(environment: &mut dyn Environment, tasks: Vec<Task>, lists: bool) -> Result<()> {
    let mut output = io::stdout().lock();
    if !lists {
        return serve_environment(environment, io::stdin().lock(), output)
            .context("standard input or output");
    }
    for task in tasks {
        let line = json!({"id": task.name, "context": task.context, "metadata": task.metadata});
        match writeln!(output, "{line}") {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written.context("standard output")?,
        }
    }
    Ok(())
}
