//! What commands work with: the store, the texts and the executor that the configuration names.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use upliftmem_agent::{
    ActExecutor, ActSettings, AttachedSettings, AttachedWorlds, CommandExecutor, CommandSettings, Distiller,
    Executor, HttpExecutor, HttpExecutorSettings, LlmWriter, QuestionExecutor, QuestionSettings,
    chat::{ChatModel, LocalChat, LocalSettings, OpenAiChat, OpenAiSettings, ReplyCache, Sampling},
};
use upliftmem_bench::{
    WorldExecutor,
    worlds::{World, WorldKind},
};
use upliftmem_core::{Memory, Task};
use upliftmem_engine::{
    BelievingScorer, CascadePlan, Error as EngineError, Labelled, Live, LiveSettings, LmPlan, LmPlanSettings,
    Pause, ReferencePolicy, RemotePlan, Retriever, Rollouts, ScorerPlan, Texts, Trainer, Writing,
    active_scorer, labels_of, save_scorer,
};
use upliftmem_scorer::{
    ScorerVersion, TrainerSettings,
    checkpoint::Manifest,
    embedder::{Embedder, HashEmbedder, HttpEmbedder, HttpSettings},
    lm::{Calibration, CascadeSettings, Device, LmBase, RemoteScorer, RemoteSettings},
    models::{ModelLibrary, open_directory},
};
use upliftmem_store::{
    Error as StoreError, NewMemory, PostgresPlace, Scope, SqlitePlace, Store, StoreLimits, Timestamp,
    open_postgres, open_sqlite,
};

use crate::{
    config::{ChatKind, Config, EmbedderKind, ExecutorKind, ScorerKind, WriterKind},
    output::Output,
};

/// The name of an agent that reports outcomes by itself.
const AGENT: &str = "agent";

/// Everything a command needs.
pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) output: Output,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) scope: Scope,
    pub(crate) texts: Arc<Texts>,
    pub(crate) embedder: Arc<dyn Embedder>,
    /// Made when it is first asked for: a language model takes a while to read.
    scorer: Arc<OnceLock<ScorerPlan>>,
}

impl Context {
    /// Opens what the configuration names. A store that is not there is made only by `init`.
    pub(crate) async fn open(config: Config, output: Output) -> Result<Self> {
        let scope = Scope::new(config.scope.clone())?;
        let store = open_store(&config, false).await?;
        let embedder = open_embedder(&config)?;
        let texts = Arc::new(Texts::new(
            Arc::clone(&store),
            scope.clone(),
            Arc::clone(&embedder),
        ));
        Ok(Self {
            config,
            output,
            store,
            scope,
            texts,
            embedder,
            scorer: Arc::default(),
        })
    }

    /// An empty store of this name, in place of what may be there.
    pub(crate) async fn fresh(mut config: Config, name: &str, output: Output) -> Result<Self> {
        name.clone_into(&mut config.store.location);
        let file = config.directory.join(name);
        for suffix in ["", "-wal", "-shm"] {
            let old = PathBuf::from(format!("{}{suffix}", file.display()));
            if old.exists() {
                std::fs::remove_file(&old)
                    .with_context(|| format!("{} can not be replaced", old.display()))?;
            }
        }
        open_store(&config, true).await?;
        Self::open(config, output).await
    }

    /// Adds memories with their vectors, at a fixed time: the same store every time.
    pub(crate) async fn fill(&self, memories: &[Memory]) -> Result<()> {
        let new = memories.iter().map(|memory| NewMemory {
            memory: memory.clone(),
            ..NewMemory::note(memory.id, "")
        });
        let batch = self.texts.with_vectors(new.collect()).await?;
        let now = Timestamp::from_millis(1);
        self.store.add_memories(&self.scope, now, batch).await?;
        Ok(())
    }

    /// [`Self::open`] for what runs for long: a database server that is away is waited for.
    pub(crate) async fn open_patiently(config: Config, output: Output) -> Result<Self> {
        let mut pause = Pause::default();
        loop {
            let error = match Self::open(config.clone(), output).await {
                Ok(context) => return Ok(context),
                Err(error) if !is_postgres(&config.store.location) => return Err(error),
                Err(error) => error,
            };
            let wait = match error.downcast::<StoreError>() {
                Ok(error) => {
                    let error = EngineError::from(error);
                    let Some(wait) = pause.after(&error) else {
                        return Err(error.into());
                    };
                    tracing::warn!(%error, "waiting for the database");
                    wait
                }
                Err(other) => return Err(other),
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// The same with another way to the store: one whose writes carry a leader's token.
    pub(crate) fn through(&self, store: Arc<dyn Store>) -> Self {
        let texts = Arc::new(Texts::new(
            Arc::clone(&store),
            self.scope.clone(),
            Arc::clone(&self.embedder),
        ));
        Self {
            config: self.config.clone(),
            output: self.output,
            store,
            scope: self.scope.clone(),
            texts,
            embedder: Arc::clone(&self.embedder),
            scorer: Arc::clone(&self.scorer),
        }
    }

    /// The executor that the configuration names.
    pub(crate) fn executor(&self) -> Result<Arc<dyn Executor>> {
        open_executor(&self.config)
    }

    pub(crate) fn rollouts(&self, executor: Arc<dyn Executor>) -> Result<Rollouts> {
        Ok(Rollouts {
            store: Arc::clone(&self.store),
            scope: self.scope.clone(),
            texts: Arc::clone(&self.texts),
            executor,
            settings: self.config.engine().execution,
            utility: self.config.utility.rule()?,
        })
    }

    pub(crate) fn trainer(
        &self,
        run: &str,
        executor: Arc<dyn Executor>,
        seed_tasks: Vec<Task>,
        stream: Vec<Task>,
    ) -> Result<Trainer> {
        Ok(Trainer {
            store: Arc::clone(&self.store),
            scope: self.scope.clone(),
            texts: Arc::clone(&self.texts),
            rollouts: self.rollouts(executor)?,
            settings: self.config.engine(),
            scorer: self.scorer_plan()?,
            run: run.to_owned(),
            seed_tasks,
            stream,
            writing: self.writing()?,
        })
    }

    /// The writer that the configuration names.
    fn writing(&self) -> Result<Option<Writing>> {
        let settings = &self.config.writer;
        if settings.kind == WriterKind::None {
            return Ok(None);
        }
        let sampling = Sampling {
            temperature: settings.temperature,
            max_tokens: settings.max_tokens,
            ..Sampling::default()
        };
        Ok(Some(Writing {
            writer: Arc::new(LlmWriter::new(
                open_chat(&self.config)?,
                settings.domain,
                sampling,
            )),
            settings: self.config.writing(),
        }))
    }

    /// The name under which outcomes are compared: the configured executor's, or that of an agent that reports them.
    pub(crate) fn agent(&self) -> Result<String> {
        Ok(match self.config.executor.kind {
            ExecutorKind::None => AGENT.to_owned(),
            _ => self.executor()?.name().to_owned(),
        })
    }

    /// The labels to learn from: the configured executor's; without one, those of whichever has most.
    pub(crate) async fn labels(&self) -> Result<Vec<Labelled>> {
        let mut all = labels_of(self.store.as_ref(), &self.scope).await?;
        if self.config.executor.kind != ExecutorKind::None {
            return Ok(all.remove(&self.agent()?).unwrap_or_default());
        }
        let most = all.into_values().max_by_key(Vec::len);
        Ok(most.unwrap_or_default())
    }

    /// The scorer that the labels so far make.
    pub(crate) async fn scorer(&self) -> Result<Arc<dyn BelievingScorer>> {
        let (plan, labels) = (self.scorer_plan()?, self.labels().await?);
        Ok(active_scorer(&self.store, &self.scope, &self.texts, &plan, &labels).await?)
    }

    /// Writes the compact scorer to a directory.
    pub(crate) async fn save_scorer(&self, directory: &Path) -> Result<Manifest> {
        let (plan, labels) = (self.scorer_plan()?, self.labels().await?);
        Ok(save_scorer(&self.store, &self.scope, &self.texts, &plan, &labels, directory).await?)
    }

    /// The scorer that the configuration names, and how it learns.
    pub(crate) fn scorer_plan(&self) -> Result<ScorerPlan> {
        if let Some(plan) = self.scorer.get() {
            return Ok(plan.clone());
        }
        let plan = open_scorer(&self.config, self.output)?;
        Ok(self.scorer.get_or_init(|| plan).clone())
    }

    /// What distils conversations, if the configuration has a writer.
    pub(crate) fn distiller(&self) -> Result<Option<Distiller>> {
        Ok(match self.config.writer.kind {
            WriterKind::None => None,
            WriterKind::Llm => Some(Distiller::new(
                open_chat(&self.config)?,
                self.config.writer.temperature,
            )),
        })
    }

    /// Many scopes at once, learning while they are used.
    pub(crate) fn live(&self) -> Result<Arc<Live>> {
        let (config, server) = (&self.config, &self.config.server);
        let agent = self.agent()?;
        let settings = LiveSettings {
            retrieval: config.retrieval.clone(),
            utility: config.utility.rule()?,
            utility_cost_max: config.utility.cost_max,
            acquisition: config.acquisition.clone(),
            scorer: self.scorer_plan()?,
            labels_of: (config.executor.kind != ExecutorKind::None).then(|| agent.clone()),
            agent,
            references: ReferencePolicy::Request,
            attempts_max: config.executor.retries + 1,
            scopes_max: server.scopes_max,
            look_after: Duration::from_secs(server.look_after_seconds),
        };
        Ok(Live::new(
            Arc::clone(&self.store),
            Arc::clone(&self.embedder),
            settings,
        ))
    }

    pub(crate) async fn retriever(&self) -> Result<Retriever> {
        Ok(Retriever {
            store: Arc::clone(&self.store),
            scope: self.scope.clone(),
            texts: Arc::clone(&self.texts),
            settings: self.config.retrieval.clone(),
            scorer: self.scorer().await?,
        })
    }
}

/// Whether a store is a database server's.
pub(crate) fn is_postgres(location: &str) -> bool {
    location.starts_with("postgres://") || location.starts_with("postgresql://")
}

/// The store that the configuration names.
pub(crate) async fn open_store(config: &Config, make: bool) -> Result<Arc<dyn Store>> {
    let location = &config.store.location;
    if is_postgres(location) {
        let place = PostgresPlace {
            in_process_max: config.store.in_process_max,
            ..PostgresPlace::new(location)
        };
        return Ok(open_postgres(place, StoreLimits::default()).await?);
    }
    let file = config.directory.join(location);
    if !make && !file.exists() {
        bail!(
            "there is no store at {}\n  `upliftmem init` makes one here; `--config FILE` uses another",
            file.display()
        );
    }
    Ok(open_sqlite(SqlitePlace::File(file), StoreLimits::default()).await?)
}

/// Where models are kept.
pub(crate) fn model_library() -> ModelLibrary {
    let root = std::env::var_os("UPLIFTMEM_MODELS")
        .map(PathBuf::from)
        .or_else(|| {
            let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
            let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
            data.or(home).map(|data| data.join("upliftmem/models"))
        })
        .unwrap_or_else(|| PathBuf::from("models"));
    ModelLibrary::new(root)
}

pub(crate) fn open_embedder(config: &Config) -> Result<Arc<dyn Embedder>> {
    let settings = &config.embedder;
    Ok(match settings.kind {
        EmbedderKind::Hash => Arc::new(HashEmbedder::default()),
        EmbedderKind::Directory => Arc::from(open_directory(&config.directory.join(&settings.directory))?),
        EmbedderKind::Http => {
            let mut http = HttpSettings::new(&settings.url, &settings.model);
            if !settings.key_variable.is_empty() {
                let key = std::env::var(&settings.key_variable).with_context(|| {
                    format!("embedder.key_variable: {} is not set", settings.key_variable)
                })?;
                http.key = Some(key);
            }
            Arc::new(HttpEmbedder::connect(http)?)
        }
        // What is lost without a model is told by `init` and `doctor`, not by every command.
        EmbedderKind::Auto => Arc::from(model_library().auto()?.embedder),
    })
}

/// The world that the configuration names.
pub(crate) fn open_world(config: &Config) -> Result<World> {
    let kind: WorldKind = config.executor.world.parse()?;
    Ok(World::generate(kind, config.executor.world_seed)?)
}

/// The language model that the configuration names.
pub(crate) fn open_chat(config: &Config) -> Result<Arc<dyn ChatModel>> {
    let settings = &config.chat;
    match settings.kind {
        ChatKind::Local => {
            let mut local = LocalSettings::new(model_file(config, "chat.model", &settings.model)?);
            local.context_tokens = settings.context_tokens;
            local.concurrency = settings.concurrency;
            Ok(Arc::new(LocalChat::load(&local)?))
        }
        ChatKind::Openai => {
            let mut endpoint = OpenAiSettings::new(&settings.url, &settings.model);
            if !settings.key_variable.is_empty() {
                let key = std::env::var(&settings.key_variable)
                    .with_context(|| format!("chat.key_variable: {} is not set", settings.key_variable))?;
                endpoint.key = Some(key);
            }
            endpoint.concurrency = settings.concurrency;
            endpoint.requests_per_minute = settings.requests_per_minute;
            endpoint.timeout = Duration::from_secs(settings.timeout_seconds);
            endpoint.retries = settings.retries;
            if !settings.replies.is_empty() {
                endpoint.replies = Some(ReplyCache::new(config.directory.join(&settings.replies)));
            }
            Ok(Arc::new(OpenAiChat::new(endpoint)?))
        }
    }
}

/// The scorer that the configuration names.
fn open_scorer(config: &Config, output: Output) -> Result<ScorerPlan> {
    let compact = config.scorer.compact();
    Ok(match config.scorer.kind {
        ScorerKind::Compact => ScorerPlan::Compact(compact),
        ScorerKind::Lm => ScorerPlan::Lm(open_lm(config, output)?),
        ScorerKind::Cascade => {
            let plan = CascadePlan {
                settings: CascadeSettings {
                    rescored: config.cascade.rescored,
                    budget_ms: config.cascade.budget_ms,
                },
                distilled: config.cascade.distilled,
            };
            if plan.distilled > 0 && compact.labels == upliftmem_scorer::LabelKind::Paired {
                bail!(
                    "cascade.distilled: what was never executed has no reference; set scorer.labels to \"smoothed\""
                );
            }
            ScorerPlan::Cascade(compact, open_lm(config, output)?, plan)
        }
        ScorerKind::Remote => ScorerPlan::Remote(Arc::new(open_remote(config)?)),
    })
}

/// The language model that scores.
fn open_lm(config: &Config, output: Output) -> Result<Arc<LmPlan>> {
    let settings = &config.lm;
    if settings.model.is_empty() {
        bail!(
            "lm.model is empty\n  name a directory with safetensors, a GGUF file, or a model that was pulled \
             (`upliftmem models pull smollm2`)"
        );
    }
    let file = model_file(config, "lm.model", &settings.model)?;
    output.note(&format!("reading {}", file.display()));
    let base = LmBase::load(&file, settings.settings(), &Device::Cpu)?;
    let directory = std::path::absolute(config.directory.join(&settings.adapters))?;
    let plan = LmPlanSettings {
        base: settings.model.clone(),
        adapter: named(&settings.adapter).map(|adapter| config.directory.join(adapter)),
        directory,
        trainer: TrainerSettings {
            losses: settings.losses.settings(),
            epochs: settings.epochs,
            learning_rate: settings.learning_rate,
            batch_labels: settings.batch_labels,
            // An adapter goes on from update to update: to start anew each time would take longer and longer.
            restart: false,
            sampling_temperature: config.retrieval.sampling_temperature,
            stop_prior: config.retrieval.stop_prior,
            seed: config.training.seed,
            ..TrainerSettings::default()
        },
        paths_max: settings.paths_max,
        belief_dimension: config.acquisition.belief_dimension,
        belief_labels: settings.belief_labels,
    };
    Ok(Arc::new(LmPlan::new(base, plan)))
}

fn open_remote(config: &Config) -> Result<RemotePlan> {
    let settings = &config.remote;
    if settings.url.is_empty() || settings.model.is_empty() {
        bail!(
            "remote.url or remote.model is empty\n  name the score endpoint and its model: url = \"http://localhost:8000/score\", \
             model = \"Qwen/Qwen3-Reranker-0.6B\""
        );
    }
    let mut remote = RemoteSettings {
        instruction: config.lm.instruction.clone(),
        score: settings.score,
        batch_size: settings.batch_size,
        timeout: Duration::from_secs(settings.timeout_seconds),
        retries: settings.retries,
        ..RemoteSettings::new(&settings.url, &settings.model)
    };
    if !settings.key_variable.is_empty() {
        let key = std::env::var(&settings.key_variable)
            .with_context(|| format!("remote.key_variable: {} is not set", settings.key_variable))?;
        remote.key = Some(key);
    }
    let calibration = match named(&settings.calibration) {
        Some(directory) => Calibration::load(&config.directory.join(directory))?,
        None => Calibration::NONE,
    };
    Ok(RemotePlan {
        scorer: Arc::new(RemoteScorer::new(ScorerVersion(0), remote, calibration)?),
        name: format!("{} at {}", settings.model, settings.url),
        belief_dimension: config.acquisition.belief_dimension,
        belief_labels: config.lm.belief_labels,
    })
}

fn named(text: &str) -> Option<&Path> {
    (!text.is_empty()).then(|| Path::new(text))
}

/// A model by path, or by the name under which it was pulled. `key` is the setting that names it.
pub(crate) fn model_file(config: &Config, key: &str, model: &str) -> Result<PathBuf> {
    let path = config.directory.join(model);
    if path.exists() {
        return Ok(path);
    }
    if let Ok(place) = model_library().path(model)
        && place.is_dir()
    {
        let mut files = std::fs::read_dir(&place)?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|file| file.extension().is_some_and(|end| end == "gguf"));
        return Ok(files.next().unwrap_or(place));
    }
    bail!(
        "{key}: {model:?} is neither a file here nor a model that was pulled\n  \
         `upliftmem models pull smollm2` gets a small one (98 MB); a path to any GGUF file of a Qwen or Llama model works too"
    )
}

/// The executor that the configuration names.
pub(crate) fn open_executor(config: &Config) -> Result<Arc<dyn Executor>> {
    let settings = &config.executor;
    let timeout = Duration::from_secs(settings.timeout_seconds);
    let name = Some(settings.name.clone()).filter(|name| !name.is_empty());
    match settings.kind {
        ExecutorKind::World => Ok(Arc::new(WorldExecutor::new(Arc::new(open_world(config)?)))),
        ExecutorKind::Command => {
            let Some((program, arguments)) = settings.command.split_first() else {
                bail!("executor.command is empty\n  write it as command = [\"python3\", \"agent.py\"]");
            };
            let mut command = CommandSettings::new(program, arguments.iter().cloned());
            command.directory = Some(config.directory.clone());
            command.name = name;
            command.in_flight = settings.concurrency;
            command.timeout = timeout;
            command.retries = settings.retries;
            Ok(Arc::new(CommandExecutor::new(command)?))
        }
        ExecutorKind::Http => {
            let mut http = HttpExecutorSettings::new(&settings.url);
            http.name = name;
            http.concurrency = settings.concurrency;
            http.timeout = timeout;
            Ok(Arc::new(HttpExecutor::new(http)?))
        }
        ExecutorKind::Qa => {
            let questions = QuestionSettings {
                scoring: settings.scoring,
                sampling: chat_sampling(config),
                ..QuestionSettings::default()
            };
            Ok(Arc::new(QuestionExecutor::new(
                open_chat(config)?,
                None,
                questions,
            )))
        }
        ExecutorKind::Llm => {
            let Some((program, arguments)) = settings.command.split_first() else {
                bail!(
                    "executor.command is empty\n  name the environment: command = [\"python3\", \"environment.py\"]"
                );
            };
            let mut world = AttachedSettings::new(program, arguments.iter().cloned());
            world.directory = Some(config.directory.clone());
            world.timeout = timeout;
            world.name = name;
            let acting = ActSettings {
                style: settings.style,
                steps_max: settings.steps_max,
                tokens_max: settings.tokens_max,
                sampling: chat_sampling(config),
                concurrency: settings.concurrency,
                examples: read_examples(config)?,
                ..ActSettings::default()
            };
            let worlds = Arc::new(AttachedWorlds::from(world));
            Ok(Arc::new(ActExecutor::new(open_chat(config)?, worlds, acting)))
        }
        ExecutorKind::None => bail!(
            "no executor is configured\n  set [executor] kind = \"command\" and command = [\"python3\", \"agent.py\"]\n  \
             in upliftmem.toml, or try a synthetic world with `--set executor.kind=world`"
        ),
    }
}

/// The examples that the configuration names, by type of task.
fn read_examples(config: &Config) -> Result<BTreeMap<String, String>> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Texts {
        One(String),
        Many(Vec<String>),
    }
    let Some(file) = named(&config.executor.examples) else {
        return Ok(BTreeMap::new());
    };
    let file = config.directory.join(file);
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("executor.examples: {} can not be read", file.display()))?;
    if file.extension().is_none_or(|end| end != "json") {
        let text = text.trim();
        if text.is_empty() {
            bail!("executor.examples: {} is empty", file.display());
        }
        return Ok(BTreeMap::from([(String::new(), text.to_owned())]));
    }
    let by_type: BTreeMap<String, Texts> = serde_json::from_str(&text).with_context(|| {
        format!(
            "executor.examples: {} is no object from types of tasks to a text or a list of texts",
            file.display()
        )
    })?;
    let joined = by_type.into_iter().map(|(kind, texts)| match texts {
        Texts::One(text) => (kind, text),
        Texts::Many(texts) => (kind, texts.join("\n\n")),
    });
    Ok(joined.collect())
}

fn chat_sampling(config: &Config) -> Sampling {
    Sampling {
        temperature: config.chat.temperature,
        max_tokens: config.chat.max_tokens,
        ..Sampling::default()
    }
}

/// The tasks of a JSON Lines file, in order.
pub(crate) fn read_tasks(file: &Path) -> Result<Vec<Task>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("{} can not be read", file.display()))?;
    let mut tasks = Vec::new();
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let place = || format!("{}, line {}", file.display(), number + 1);
        let mut fields: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(line).with_context(|| format!("{}: not a JSON object", place()))?;
        let mut text = |field: &str| match fields.remove(field) {
            Some(serde_json::Value::String(text)) if !text.is_empty() => Ok(text),
            Some(other) => bail!("{}, field {field:?}: {other} is not a text", place()),
            None => bail!("{}: field {field:?} is missing", place()),
        };
        let (id, context) = (text("id")?, text("context")?);
        let mut task = Task::new(id, context);
        match fields.remove("metadata") {
            None | Some(serde_json::Value::Null) => {}
            Some(serde_json::Value::Object(metadata)) => task.metadata = metadata,
            Some(other) => bail!("{}, field \"metadata\": {other} is not an object", place()),
        }
        task.metadata.extend(fields);
        tasks.push(task);
    }
    if tasks.is_empty() {
        bail!(
            "{}: no task in it; a line looks like {{\"id\":\"t1\",\"context\":\"...\"}}",
            file.display()
        );
    }
    let mut ids: Vec<_> = tasks.iter().map(|task| task.id).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() != tasks.len() {
        bail!("{}: two lines have the same id", file.display());
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples(name: &str, text: &str) -> Result<BTreeMap<String, String>> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(name), text).unwrap();
        let mut config = Config {
            directory: directory.path().to_owned(),
            ..Config::default()
        };
        config.executor.examples = name.into();
        read_examples(&config)
    }

    #[test]
    fn examples_are_a_text_or_texts_by_type() {
        assert_eq!(examples("all.txt", "> look\n").unwrap()[""], "> look");
        let by_type = examples("types.json", r#"{"put": ["> a", "> b"], "": "> c"}"#).unwrap();
        assert_eq!(
            (by_type["put"].as_str(), by_type[""].as_str()),
            ("> a\n\n> b", "> c")
        );
        assert!(examples("all.txt", "\n").is_err());
        let error = examples("types.json", "[]").unwrap_err().to_string();
        assert!(error.contains("executor.examples"), "{error}");
        assert!(read_examples(&Config::default()).unwrap().is_empty());
        let mut config = Config::default();
        config.executor.examples = "no-such-file".into();
        let error = read_examples(&config).unwrap_err().to_string();
        assert!(error.contains("no-such-file"), "{error}");
    }
}
