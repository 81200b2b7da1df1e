//! `bench`: measurements that anyone can repeat.

mod lm;
mod serve;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::{
    questions::{QuestionsArguments, questions},
    writing::{WritingArguments, writing},
};
use crate::{config::Config, output::Output};

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The language-model scorer: tokens a second, memory, one retrieval.
    Scorer(lm::ScorerArguments),
    /// Train an adapter on a world with text, and rank sets before and after.
    Lora(lm::LoraArguments),
    /// Learn which memories help a real language model with questions, and where it needs none.
    Questions(QuestionsArguments),
    /// Let a real language model write memories, validate them by execution, and see whether they help.
    Writing(WritingArguments),
    /// Searches a second and their latency, in a store of its own.
    Serve(serve::ServeArguments),
}

pub(crate) async fn bench(arguments: BenchArguments, config: Config, output: Output) -> Result<()> {
    match arguments.what {
        What::Scorer(arguments) => {
            tokio::task::spawn_blocking(move || lm::scorer(&arguments, output)).await?
        }
        What::Lora(arguments) => tokio::task::spawn_blocking(move || lm::lora(&arguments, output)).await?,
        What::Questions(arguments) => questions(arguments, config, output).await,
        What::Writing(arguments) => writing(arguments, config, output).await,
        What::Serve(arguments) => serve::serve(&arguments, &config, output).await,
    }
}
