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
use upliftmem_engine::scorer_label;
use upliftmem_scorer::{
    Ask, CompactLearner, Embedding, MemoryInput, NetworkModel, ScorerVersion, SetScorer, TaskInput, Trainer,
    embedder::Embedder,
    lm::{
        Calibration, Device, LmBase, LmScorer, LmSettings, RemoteScorer, RemoteSettings, load_adapter,
        prompt::INSTRUCTION,
    },
};

use super::Global;
use crate::{
    config::{self, Config, ScorerKind},
    context::{Context, open_embedder},
    output::Output,
};

#[derive(Debug, Args)]
pub(crate) struct ScoreArguments {
    /// Tasks with their sets, as JSON Lines; - is standard input.
    #[arg(default_value = "-", value_name = "FILE")]
    input: PathBuf,
    /// What scores them.
    #[arg(long, value_enum, default_value_t = Kind::Lm)]
    scorer: Kind,
    /// The model of lm: a directory with safetensors, or a GGUF file. Of
    /// remote: the name that the server knows it by. Of compact and network:
    /// the directory of a checkpoint.
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
    /// The compact scorer: a checkpoint, or without --model what the store's
    /// labels make.
    Compact,
    /// The set network, from a checkpoint.
    Network,
    /// Whatever the configuration names, with the store's labels.
    Configured,
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
    Lm(LmScorer),
    Remote(Box<RemoteScorer>),
    /// Scorers that read vectors beside texts, with what makes them.
    Other(Arc<dyn SetScorer>, Arc<dyn Embedder>),
}

pub(crate) async fn score(arguments: ScoreArguments, global: &Global, output: Output) -> Result<()> {
    let (scorer, name) = open(&arguments, global, output).await?;
    tokio::task::spawn_blocking(move || score_lines(&arguments, &scorer, &name, output)).await?
}

fn score_lines(arguments: &ScoreArguments, scorer: &Scorer, name: &str, output: Output) -> Result<()> {
    let reader: Box<dyn Read> = if arguments.input == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        let file = std::fs::File::open(&arguments.input);
        Box::new(file.with_context(|| format!("{} can not be read", arguments.input.display()))?)
    };
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
            .score(&line, name, arguments.features)
            .with_context(|| format!("{}: line {number}", arguments.input.display()))?;
        output.line(&serde_json::to_string(&scored)?)?;
    }
    Ok(())
}

impl ScoreArguments {
    fn model(&self, what: &str) -> Result<&str> {
        let model = self.model.as_deref();
        model.with_context(|| format!("--model is missing; name {what}"))
    }

    fn config(global: &Global) -> Result<Config> {
        Config::load(global.config.as_deref(), &config::environment()?, &global.set)
    }
}

/// The scorer, and what its lines call it.
async fn open(arguments: &ScoreArguments, global: &Global, output: Output) -> Result<(Scorer, String)> {
    match arguments.scorer {
        Kind::Lm => open_lm(arguments, output),
        Kind::Remote => open_remote(arguments),
        Kind::Network => {
            let model = arguments.model("the directory of a checkpoint")?;
            let embedder = open_embedder(&ScoreArguments::config(global)?)?;
            let loaded = Trainer::<NetworkModel>::load(Path::new(model), Some(embedder.generation()))?;
            Ok((Scorer::Other(loaded.scorer, embedder), format!("network {model}")))
        }
        Kind::Compact if arguments.model.is_some() => {
            let model = arguments.model("the directory of a checkpoint")?;
            let embedder = open_embedder(&ScoreArguments::config(global)?)?;
            let loaded = CompactLearner::load(Path::new(model), Some(embedder.generation()))?;
            let scorer: Arc<dyn SetScorer> = loaded.scorer;
            Ok((Scorer::Other(scorer, embedder), format!("compact {model}")))
        }
        Kind::Compact | Kind::Configured => {
            let mut config = ScoreArguments::config(global)?;
            if arguments.scorer == Kind::Compact {
                config.scorer.kind = ScorerKind::Compact;
            }
            let context = Context::open(config, output).await?;
            let scorer = context.scorer().await?;
            let name = scorer_label(&scorer);
            Ok((Scorer::Other(scorer, Arc::clone(&context.embedder)), name))
        }
    }
}

fn open_lm(arguments: &ScoreArguments, output: Output) -> Result<(Scorer, String)> {
    let model = arguments.model("a directory with safetensors or a GGUF file")?;
    let settings = LmSettings {
        instruction: arguments.instruction.clone(),
        ..LmSettings::default()
    };
    output.note(&format!("reading {model}"));
    let base = LmBase::load(Path::new(model), settings, &Device::Cpu)?;
    let mut name = format!("lm {model}");
    let (mut adapter, mut calibration) = (None, Calibration::NONE);
    if let Some(directory) = &arguments.adapter {
        let (loaded, found) = load_adapter(directory, base.base().config(), &Device::Cpu)?;
        (adapter, calibration) = (Some(Arc::new(loaded)), found);
        name += &format!(" with {}", directory.display());
    }
    let scorer = LmScorer::new(ScorerVersion(0), base, adapter, calibration);
    Ok((Scorer::Lm(scorer), name))
}

fn open_remote(arguments: &ScoreArguments) -> Result<(Scorer, String)> {
    let model = arguments.model("the model as the server knows it")?;
    let Some(url) = &arguments.url else {
        bail!("--url is missing; name the score endpoint of the server");
    };
    let settings = RemoteSettings {
        instruction: arguments.instruction.clone(),
        timeout: Duration::from_secs(arguments.timeout),
        ..RemoteSettings::new(url, model)
    };
    let calibration = match &arguments.adapter {
        Some(directory) => Calibration::load(directory)?,
        None => Calibration::NONE,
    };
    let scorer = RemoteScorer::new(ScorerVersion(0), settings, calibration)?;
    Ok((
        Scorer::Remote(Box::new(scorer)),
        format!("remote {model} at {url}"),
    ))
}

impl Embedded {
    /// Vectors of the task and of each memory; models that read texts alone get one for all.
    fn of(line: &Line, embedder: Option<&dyn Embedder>) -> Result<Self> {
        let Some(embedder) = embedder else {
            let blank = Embedding::new(&[1.0])?;
            return Ok(Self {
                task: blank.clone(),
                memories: vec![blank; line.memories.len()],
            });
        };
        let texts: Vec<&str> = std::iter::once(line.task.context.as_str())
            .chain(line.memories.iter().map(|memory| memory.text.as_str()))
            .collect();
        let mut all = embedder.embed(&texts)?;
        let memories = all.split_off(1);
        let task = all.pop().context("the embedder gave no vector")?;
        Ok(Self { task, memories })
    }
}

/// The vectors of a line.
struct Embedded {
    task: Embedding,
    memories: Vec<Embedding>,
}

impl Scorer {
    /// The members are taken in the order of their creation: that of their ids where these are UUIDs, else as given.
    fn score<'a>(&self, line: &'a Line, scorer: &'a str, features: bool) -> Result<Scored<'a>> {
        let embedder = match self {
            Self::Other(_, embedder) => Some(embedder.as_ref()),
            Self::Lm(_) | Self::Remote(_) => None,
        };
        let vectors = Embedded::of(line, embedder)?;
        let task = TaskInput {
            id: TaskId::from_name(line.task.id.as_deref().unwrap_or(&line.task.context)),
            context: &line.task.context,
            embedding: &vectors.task,
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
            .zip(&vectors.memories)
            .map(|((memory, id), embedding)| MemoryInput {
                id,
                text: &memory.text,
                embedding,
            })
            .collect();
        let set: MemorySet = memories.iter().map(|memory| memory.id).collect();
        let names = line.memories.iter().map(|memory| memory.id.as_str()).collect();
        let read = match self {
            Self::Lm(scorer) => scorer
                .bind_task(task, &memories)
                .read(std::slice::from_ref(&set), None)?,
            Self::Remote(scorer) => scorer
                .bind_task(task, &memories)
                .read(std::slice::from_ref(&set), None)?,
            Self::Other(..) => Vec::new(),
        };
        let (value, logit_margin, found) = match (self, read.into_iter().next().flatten()) {
            (Self::Other(scorer, _), _) => {
                let scores = scorer.bind(task, &memories)?.score(&[set], Ask::VALUES)?;
                (scores.values[0], None, Vec::new())
            }
            (_, Some(reading)) => (reading.value, Some(reading.logit_margin), reading.features),
            (_, None) => bail!("the set was not read"),
        };
        Ok(Scored {
            task: line.task.id.as_deref(),
            memories: names,
            value,
            logit_margin,
            scorer,
            features: (features && !found.is_empty()).then_some(found),
        })
    }
}
