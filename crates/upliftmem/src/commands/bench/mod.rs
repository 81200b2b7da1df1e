//! `bench`: measurements that anyone can repeat.

mod chat;
mod environment;
mod lm;
mod protocol;
mod queue;
mod serve;
mod training;

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

impl BenchArguments {
    /// Whether it measures a server, which is to be as it is in service.
    pub(crate) const fn serves(&self) -> bool {
        matches!(self.what, What::Serve(_))
    }
}

#[derive(Debug, Subcommand)]
enum What {
    /// Serve an environment to other agents over standard input and output.
    Env(environment::EnvironmentArguments),
    /// The language-model scorer: tokens a second, memory, one retrieval.
    Scorer(lm::ScorerArguments),
    /// A model in this process that answers: tokens a second, reading and answering.
    Chat(chat::ChatArguments),
    /// Train an adapter on a world with text, and rank sets before and after.
    Lora(lm::LoraArguments),
    /// The paper's main table on a benchmark: every method, seen and unseen tasks.
    Run(protocol::RunArguments),
    /// What each part of the method is worth.
    Ablations(protocol::AblationArguments),
    /// Probe strategies under growing budgets, from one warm-up checkpoint.
    Probes(protocol::ProbeArguments),
    /// Retrieval within fixed stores, with few and with many memories.
    BudgetK(protocol::BudgetArguments),
    /// Executions a second that workers get through when executing takes no time.
    Queue(queue::QueueArguments),
    /// Training tasks a second when executing takes no time, and what the time goes to.
    Train(training::TrainingArguments),
    /// Learn which memories help a real language model with questions, and where it needs none.
    Questions(QuestionsArguments),
    /// Let a real language model write memories, validate them by execution, and see whether they help.
    Writing(WritingArguments),
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
        What::Chat(arguments) => tokio::task::spawn_blocking(move || chat::chat(&arguments, output)).await?,
        What::Lora(arguments) => tokio::task::spawn_blocking(move || lm::lora(&arguments, output)).await?,
        What::Run(arguments) => protocol::run(&arguments, &config, output).await,
        What::Ablations(arguments) => protocol::run_ablations(&arguments, &config, output).await,
        What::Probes(arguments) => protocol::run_probes(&arguments, &config, output).await,
        What::BudgetK(arguments) => protocol::run_budgets(&arguments, &config, output).await,
        What::Queue(arguments) => queue::queue(&arguments, &config, output).await,
        What::Train(arguments) => training::training(&arguments, &config, output).await,
        What::Questions(arguments) => questions(arguments, config, output).await,
        What::Writing(arguments) => writing(arguments, config, output).await,
        What::Serve(arguments) => serve::serve(&arguments, &config, output).await,
    }
}
