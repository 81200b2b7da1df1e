//! `bench`: measurements that anyone can repeat.

mod environment;
mod lm;
mod serve;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::{config::Config, output::Output};

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Serve an environment to other agents over standard input and output.
    Env(environment::EnvironmentArguments),
    /// The language-model scorer: tokens a second, memory, one retrieval.
    Scorer(lm::ScorerArguments),
    /// Train an adapter on a world with text, and rank sets before and after.
    Lora(lm::LoraArguments),
    /// Searches a second and their latency, in a store of its own.
    Serve(serve::ServeArguments),
}

pub(crate) async fn bench(arguments: BenchArguments, config: Config, output: Output) -> Result<()> {
    match arguments.what {
        What::Env(arguments) => {
            tokio::task::spawn_blocking(move || environment::environment(&arguments)).await?
        }
        What::Scorer(arguments) => {
            tokio::task::spawn_blocking(move || lm::scorer(&arguments, output)).await?
        }
        What::Lora(arguments) => tokio::task::spawn_blocking(move || lm::lora(&arguments, output)).await?,
        What::Serve(arguments) => serve::serve(&arguments, &config, output).await,
    }
}
