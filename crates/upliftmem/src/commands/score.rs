//! `score`: the value of given sets by any scorer.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use upliftmem_core::{MemoryId, MemorySet, TaskId};
use upliftmem_scorer::{
    Ask, Embedding, MemoryInput, ScorerVersion, SetScorer, TaskInput,
    lm::{
        Calibration, Device, LmBase, LmScorer, LmSettings, RemoteScorer, RemoteSettings, load_adapter,
        prompt::INSTRUCTION,
    },
};

use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct ScoreArguments {
    /// Tasks with their sets, as JSON Lines; - is standard input.
    #[arg(default_value = "-", value_name = "FILE")]
    input: PathBuf,
    /// What scores them.
    #[arg(long, value_enum, default_value_t = Kind::Lm)]
    scorer: Kind,
    /// The model of lm: a directory with safetensors, or a GGUF file. Of
    /// remote: the name that the server knows it by.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The adapter: a directory in the layout of PEFT.
    #[arg(long, value_name = "DIRECTORY")]
    adapter: Option<PathBuf>,
    /// What the prompt asks.
    #[arg(long, default_value = INSTRUCTION)]
    instruction: String,
    /// The score endpoint of remote, e.g. http://localhost:8000/score.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Also print the features of every set.
    #[arg(long)]
    features: bool,
    /// Seconds that one request to a server may take.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    timeout: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A language model on this machine.
    Lm,
    /// A language model behind vLLM's score endpoint.
    Remote,
}

/// A line of the input.
#[derive(Deserialize)]
struct Line {
    task: LineTask,
    memories: Vec<LineMemory>,
}

#[derive(Deserialize)]
struct LineTask {
    #[serde(default)]
    id: Option<String>,
    context: String,
}

#[derive(Deserialize)]
struct LineMemory {
    id: String,
    text: String,
}

/// A line of the output.
#[derive(Serialize)]
struct Scored<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    memories: Vec<&'a str>,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    logit_margin: Option<f64>,
    scorer: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<Vec<f32>>,
}

/// What can score.
enum Scorer {
    Lm(LmScorer, String),
    Remote(Box<RemoteScorer>, String),
}

pub(crate) fn score(arguments: &ScoreArguments, output: Output) -> Result<()> {
    let reader: Box<dyn Read> = if arguments.input == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        let file = std::fs::File::open(&arguments.input);
        Box::new(file.with_context(|| format!("{} can not be read", arguments.input.display()))?)
    };
    let scorer = open(arguments, output)?;
    for (line, number) in BufReader::new(reader).lines().zip(1_usize..) {
        let text =
            line.with_context(|| format!("{}: line {number} can not be read", arguments.input.display()))?;
        if text.trim().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_str(&text).with_context(|| {
            format!(
                "{}: line {number} is not a task with its memories",
                arguments.input.display()
            )
        })?;
        let scored = scorer
            .score(&line, arguments.features)
            .with_context(|| format!("{}: line {number}", arguments.input.display()))?;
        output.line(&serde_json::to_string(&scored)?)?;
    }
    Ok(())
}

fn open(arguments: &ScoreArguments, output: Output) -> Result<Scorer> {
    let Some(model) = &arguments.model else {
        bail!("--model is missing; name a directory with safetensors or a GGUF file");
    };
    let calibration_of = |config: Option<&upliftmem_scorer::lm::LmConfig>| -> Result<_> {
        match (&arguments.adapter, config) {
            (Some(directory), Some(config)) => {
                let (adapter, calibration) = load_adapter(directory, config, &Device::Cpu)?;
                Ok((Some(Arc::new(adapter)), calibration))
            }
            (Some(directory), None) => Ok((None, Calibration::load(directory)?)),
            (None, _) => Ok((None, Calibration::NONE)),
        }
    };
    match arguments.scorer {
        Kind::Lm => {
            let settings = LmSettings {
                instruction: arguments.instruction.clone(),
                ..LmSettings::default()
            };
            output.note(&format!("reading {model}"));
            let base = LmBase::load(Path::new(model), settings, &Device::Cpu)?;
            let (adapter, calibration) = calibration_of(Some(base.base().config()))?;
            let name = match &arguments.adapter {
                Some(adapter) => format!("lm {model} with {}", adapter.display()),
                None => format!("lm {model}"),
            };
            Ok(Scorer::Lm(
                LmScorer::new(ScorerVersion(0), base, adapter, calibration),
                name,
            ))
        }
        Kind::Remote => {
            let Some(url) = &arguments.url else {
                bail!("--url is missing; name the score endpoint of the server");
            };
            let settings = RemoteSettings {
                instruction: arguments.instruction.clone(),
                timeout: Duration::from_secs(arguments.timeout),
                ..RemoteSettings::new(url, model)
            };
            let (_, calibration) = calibration_of(None)?;
            let scorer = RemoteScorer::new(ScorerVersion(0), settings, calibration)?;
            Ok(Scorer::Remote(
                Box::new(scorer),
                format!("remote {model} at {url}"),
            ))
        }
    }
}

impl Scorer {
    /// The members are taken in the order of their creation: that of their ids where these are UUIDs, else as given.
    fn score<'a>(&'a self, line: &'a Line, features: bool) -> Result<Scored<'a>> {
        let blank = Embedding::new(&[1.0])?;
        let task = TaskInput {
            id: TaskId::from_name(line.task.id.as_deref().unwrap_or(&line.task.context)),
            context: &line.task.context,
            embedding: &blank,
        };
        let mut names: Vec<&str> = line.memories.iter().map(|memory| memory.id.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("memory {:?} is in the set twice", pair[0]);
        }
        let own: Option<Vec<MemoryId>> = line
            .memories
            .iter()
            .map(|memory| memory.id.parse().ok())
            .collect();
        let ids = own.unwrap_or_else(|| {
            (0..line.memories.len() as u128)
                .map(MemoryId::from_u128)
                .collect()
        });
        let memories: Vec<MemoryInput<'_>> = line
            .memories
            .iter()
            .zip(ids)
            .map(|(memory, id)| MemoryInput {
                id,
                text: &memory.text,
                embedding: &blank,
            })
            .collect();
        let set: MemorySet = memories.iter().map(|memory| memory.id).collect();
        let names = line.memories.iter().map(|memory| memory.id.as_str()).collect();
        let (value, logit_margin, found, scorer) = match self {
            Self::Lm(scorer, name) => {
                let bound = scorer.bind_task(task, &memories);
                let reading = bound
                    .read(&[set], None)?
                    .pop()
                    .flatten()
                    .context("the set was not read")?;
                (
                    reading.value,
                    Some(reading.logit_margin),
                    Some(reading.features),
                    name,
                )
            }
            Self::Remote(scorer, name) => {
                let scores = scorer.bind(task, &memories)?.score(&[set], Ask::VALUES)?;
                (scores.values[0], None, None, name)
            }
        };
        Ok(Scored {
            task: line.task.id.as_deref(),
            memories: names,
            value,
            logit_margin,
            scorer,
            features: found.filter(|_| features),
        })
    }
}
