//! `bench chat`: how fast a model in this process reads and answers.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use upliftmem_bench::lm::speed::{self, Rate};
use upliftmem_scorer::lm::Base;

use crate::output::{Output, Table};

#[derive(Debug, Args)]
pub(super) struct ChatArguments {
    /// A GGUF file, or a directory of the hub.
    #[arg(long, value_name = "MODEL")]
    model: PathBuf,
    /// Tokens that are read.
    #[arg(long, default_value_t = 512)]
    prompt: usize,
    /// Tokens that are answered, one after another.
    #[arg(long, default_value_t = 128)]
    answer: usize,
    /// How often.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

#[derive(Serialize)]
struct Report {
    model: String,
    prompt: Rate,
    answer: Rate,
}

pub(super) fn chat(arguments: &ChatArguments, output: Output) -> Result<()> {
    if arguments.prompt == 0 || arguments.answer == 0 || arguments.rounds == 0 {
        bail!("--prompt, --answer and --rounds are at least 1");
    }
    let (base, _) = Base::load_in_few_bits(&arguments.model)?;
    let [prompt, answer] = speed::chat(&base, arguments.prompt, arguments.answer, arguments.rounds)?;
    let report = Report {
        model: arguments.model.display().to_string(),
        prompt,
        answer,
    };
    output.result(&report, || {
        let mut table = Table::new(&["what", "tokens", "seconds", "CPU s", "tokens/CPU s"]);
        for (what, rate) in [("reading", &report.prompt), ("answering", &report.answer)] {
            table.row(vec![
                what.to_owned(),
                rate.tokens.to_string(),
                format!("{:.2}", rate.seconds),
                format!("{:.2}", rate.cpu_seconds),
                format!("{:.1}", rate.per_cpu_second()),
            ]);
        }
        format!("{}\n\n{}", report.model, table.text())
    })
}
