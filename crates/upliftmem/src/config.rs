//! The configuration: a file, then the environment, then flags. An unknown key is an error that names the nearest.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use upliftmem_agent::{
    AnswerScoring,
    prompts::{ActStyle, Domain},
};
use upliftmem_core::objectives::LossPreset;
use upliftmem_engine::{
    EngineSettings, ExecutionSettings, ProbeSettings, RetrievalSettings, TrainingSettings, UtilitySettings,
    WritingSettings,
};
use upliftmem_scorer::{
    CompactSettings, LabelKind,
    lm::{CascadeSettings, LmSettings, LoraSettings, Module, RemoteScore, RemoteSettings},
};
use upliftmem_server::ServerSettings;
use upliftmem_store::ScopeParts;

/// Every setting with its default and its reason.
pub(crate) const REFERENCE: &str = include_str!("reference.toml");
/// What the file is called.
pub(crate) const FILE_NAME: &str = "upliftmem.toml";

/// Where everything is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StoreConfig {
    pub(crate) location: String,
    pub(crate) in_process_max: u64,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            location: "upliftmem.db".into(),
            in_process_max: upliftmem_store::PostgresPlace::IN_PROCESS_MAX,
        }
    }
}

/// How texts become vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EmbedderKind {
    #[default]
    Auto,
    Hash,
    Directory,
    Http,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EmbedderConfig {
    pub(crate) kind: EmbedderKind,
    pub(crate) directory: String,
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) key_variable: String,
}

/// What predicts uplift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScorerKind {
    #[default]
    Compact,
    Lm,
    Cascade,
    Remote,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ScorerConfig {
    pub(crate) kind: ScorerKind,
    pub(crate) labels: LabelKind,
    pub(crate) headroom: bool,
    pub(crate) exact_max: usize,
    pub(crate) refit_growth: f64,
    pub(crate) member_cost: f64,
    pub(crate) meddling_cost: f64,
    pub(crate) reference_noise: f64,
}

impl Default for ScorerConfig {
    fn default() -> Self {
        let compact = CompactSettings::default();
        Self {
            kind: ScorerKind::Compact,
            labels: compact.labels,
            headroom: compact.headroom,
            exact_max: compact.exact_max,
            refit_growth: compact.refit_growth,
            member_cost: compact.member_cost,
            meddling_cost: compact.meddling_cost,
            reference_noise: compact.reference_noise,
        }
    }
}

impl ScorerConfig {
    pub(crate) fn compact(&self) -> CompactSettings {
        CompactSettings {
            labels: self.labels,
            headroom: self.headroom,
            exact_max: self.exact_max,
            refit_growth: self.refit_growth,
            member_cost: self.member_cost,
            meddling_cost: self.meddling_cost,
            reference_noise: self.reference_noise,
            ..CompactSettings::default()
        }
    }
}

/// The language model that scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LmConfig {
    pub(crate) model: String,
    pub(crate) adapter: String,
    pub(crate) adapters: String,
    pub(crate) instruction: String,
    pub(crate) pass_tokens: usize,
    pub(crate) cache_mb: usize,
    pub(crate) rank: usize,
    pub(crate) alpha: f64,
    pub(crate) dropout: f64,
    pub(crate) modules: Vec<Module>,
    pub(crate) losses: LossPreset,
    pub(crate) epochs: usize,
    pub(crate) learning_rate: f64,
    pub(crate) batch_labels: usize,
    pub(crate) paths_max: usize,
    pub(crate) micro_batch_tokens: usize,
    pub(crate) activation_mb: usize,
    pub(crate) belief_labels: usize,
}

impl Default for LmConfig {
    fn default() -> Self {
        let LmSettings {
            instruction,
            pass_tokens,
            cache_bytes,
            lora,
            micro_batch_tokens,
            activation_bytes,
            ..
        } = LmSettings::default();
        Self {
            model: String::new(),
            adapter: String::new(),
            adapters: "adapters".into(),
            instruction,
            pass_tokens,
            cache_mb: cache_bytes >> 20,
            rank: lora.rank,
            alpha: lora.alpha,
            dropout: lora.dropout,
            modules: lora.modules,
            losses: LossPreset::Calibrated,
            epochs: 3,
            learning_rate: 1e-4,
            batch_labels: 16,
            paths_max: 32,
            micro_batch_tokens,
            activation_mb: activation_bytes >> 20,
            belief_labels: 500,
        }
    }
}

impl LmConfig {
    pub(crate) fn settings(&self) -> LmSettings {
        LmSettings {
            instruction: self.instruction.clone(),
            pass_tokens: self.pass_tokens,
            cache_bytes: self.cache_mb << 20,
            lora: LoraSettings {
                rank: self.rank,
                alpha: self.alpha,
                dropout: self.dropout,
                modules: self.modules.clone(),
            },
            micro_batch_tokens: self.micro_batch_tokens,
            activation_bytes: self.activation_mb << 20,
            ..LmSettings::default()
        }
    }
}

/// What the language model may do after the compact scorer has searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CascadeConfig {
    pub(crate) rescored: usize,
    pub(crate) budget_ms: u64,
    pub(crate) distilled: usize,
}

impl Default for CascadeConfig {
    fn default() -> Self {
        let CascadeSettings { rescored, budget_ms } = CascadeSettings::default();
        Self {
            rescored,
            budget_ms,
            distilled: 0,
        }
    }
}

/// A language model behind a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RemoteConfig {
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) key_variable: String,
    pub(crate) score: RemoteScore,
    pub(crate) calibration: String,
    pub(crate) batch_size: usize,
    pub(crate) timeout_seconds: u64,
    pub(crate) retries: u32,
}

impl Default for RemoteConfig {
    fn default() -> Self {
        let usual = RemoteSettings::new("", "");
        Self {
            url: usual.url,
            model: usual.model,
            key_variable: String::new(),
            score: usual.score,
            calibration: String::new(),
            batch_size: usual.batch_size,
            timeout_seconds: usual.timeout.as_secs(),
            retries: usual.retries,
        }
    }
}

/// What runs tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExecutorKind {
    #[default]
    None,
    Command,
    Http,
    World,
    Qa,
    Llm,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ExecutorConfig {
    pub(crate) kind: ExecutorKind,
    pub(crate) command: Vec<String>,
    pub(crate) url: String,
    pub(crate) world: String,
    pub(crate) world_seed: u64,
    pub(crate) scoring: AnswerScoring,
    pub(crate) style: ActStyle,
    pub(crate) steps_max: usize,
    pub(crate) tokens_max: u64,
    pub(crate) examples: String,
    pub(crate) name: String,
    pub(crate) concurrency: usize,
    pub(crate) retries: u32,
    pub(crate) timeout_seconds: u64,
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        let execution = ExecutionSettings::default();
        Self {
            kind: ExecutorKind::None,
            command: Vec::new(),
            url: String::new(),
            world: "look_alikes".into(),
            world_seed: 0,
            scoring: AnswerScoring::Contains,
            style: ActStyle::Generic,
            steps_max: 30,
            tokens_max: 0,
            examples: String::new(),
            name: String::new(),
            concurrency: execution.concurrency,
            retries: execution.retries,
            timeout_seconds: 600,
        }
    }
}

/// Where a language model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChatKind {
    #[default]
    Local,
    Openai,
}

/// The language model that executes tasks and writes memories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ChatConfig {
    pub(crate) kind: ChatKind,
    pub(crate) model: String,
    pub(crate) url: String,
    pub(crate) key_variable: String,
    pub(crate) temperature: f64,
    pub(crate) max_tokens: usize,
    pub(crate) context_tokens: usize,
    pub(crate) concurrency: usize,
    pub(crate) requests_per_minute: u32,
    pub(crate) timeout_seconds: u64,
    pub(crate) retries: u32,
    pub(crate) replies: String,
}

impl Default for ChatConfig {
    fn default() -> Self {
        Self {
            kind: ChatKind::Local,
            model: "smollm2".into(),
            url: String::new(),
            key_variable: String::new(),
            temperature: 0.0,
            max_tokens: 64,
            context_tokens: 4096,
            concurrency: 1,
            requests_per_minute: 0,
            timeout_seconds: 300,
            retries: 6,
            replies: String::new(),
        }
    }
}

/// What turns episodes into memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WriterKind {
    #[default]
    None,
    Llm,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WriterConfig {
    pub(crate) kind: WriterKind,
    pub(crate) domain: Domain,
    pub(crate) temperature: f64,
    pub(crate) max_tokens: usize,
    pub(crate) accept_above: f64,
    pub(crate) revisions_max: u32,
    pub(crate) episodes_max: usize,
}

impl Default for WriterConfig {
    fn default() -> Self {
        let writing = WritingSettings::default();
        Self {
            kind: WriterKind::None,
            domain: Domain::Generic,
            temperature: 0.0,
            max_tokens: 160,
            accept_above: writing.accept_above,
            revisions_max: writing.revisions_max,
            episodes_max: writing.episodes_max,
        }
    }
}

/// All settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) store: StoreConfig,
    pub(crate) scope: ScopeParts,
    pub(crate) embedder: EmbedderConfig,
    pub(crate) scorer: ScorerConfig,
    pub(crate) lm: LmConfig,
    pub(crate) cascade: CascadeConfig,
    pub(crate) remote: RemoteConfig,
    pub(crate) retrieval: RetrievalSettings,
    pub(crate) utility: UtilitySettings,
    pub(crate) executor: ExecutorConfig,
    pub(crate) chat: ChatConfig,
    pub(crate) writer: WriterConfig,
    pub(crate) acquisition: ProbeSettings,
    pub(crate) training: TrainingSettings,
    pub(crate) server: ServerSettings,
    /// The directory that relative paths start from.
    #[serde(skip)]
    pub(crate) directory: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            store: StoreConfig::default(),
            scope: ScopeParts {
                agent_id: Some("default".into()),
                ..ScopeParts::default()
            },
            embedder: EmbedderConfig::default(),
            scorer: ScorerConfig::default(),
            lm: LmConfig::default(),
            cascade: CascadeConfig::default(),
            remote: RemoteConfig::default(),
            retrieval: RetrievalSettings::default(),
            utility: UtilitySettings::default(),
            executor: ExecutorConfig::default(),
            chat: ChatConfig::default(),
            writer: WriterConfig::default(),
            acquisition: ProbeSettings::default(),
            training: TrainingSettings::default(),
            server: ServerSettings::default(),
            directory: PathBuf::from("."),
        }
    }
}

impl Config {
    /// What the engine needs of it.
    pub(crate) fn engine(&self) -> EngineSettings {
        EngineSettings {
            retrieval: self.retrieval.clone(),
            utility: self.utility,
            execution: ExecutionSettings {
                concurrency: self.executor.concurrency,
                retries: self.executor.retries,
                lease_seconds: self.executor.timeout_seconds.saturating_mul(2).max(60),
            },
            acquisition: self.acquisition.clone(),
            training: self.training.clone(),
        }
    }

    /// How written memories are validated.
    pub(crate) const fn writing(&self) -> WritingSettings {
        WritingSettings {
            accept_above: self.writer.accept_above,
            revisions_max: self.writer.revisions_max,
            episodes_max: self.writer.episodes_max,
        }
    }

    /// The configuration of this invocation. `file` is one that was asked for; without it, the nearest one upwards.
    pub(crate) fn load(
        file: Option<&Path>,
        environment: &[(String, String)],
        flags: &[String],
    ) -> Result<Self> {
        let file = match file {
            Some(file) => Some(file.to_path_buf()),
            None => nearest_file(),
        };
        let mut table = toml::Table::new();
        let mut directory = PathBuf::from(".");
        if let Some(file) = &file {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("{} can not be read", file.display()))?;
            // Parsed as a whole first: its messages name line and column.
            toml::from_str::<Self>(&text).map_err(|error| {
                let problem = error.to_string();
                explained(&error, &format!("{}: {}", file.display(), problem.trim_end()))
            })?;
            table = text.parse().context("the file was parsed once already")?;
            if let Some(parent) = file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                directory = parent.to_path_buf();
            }
        }
        for (name, value) in environment {
            if let Some((section, key)) = section_and_key(name)? {
                set(&mut table, &section, &key, value);
            }
        }
        for flag in flags {
            let (path, value) = flag
                .split_once('=')
                .ok_or_else(|| anyhow!("--set {flag}: write it as section.key=value"))?;
            let (section, key) = path
                .split_once('.')
                .ok_or_else(|| anyhow!("--set {flag}: write it as section.key=value"))?;
            set(&mut table, section.trim(), key.trim(), value.trim());
        }
        let text = toml::to_string(&table)?;
        let mut config: Self = toml::from_str(&text)
            .map_err(|error| explained(&error, &format!("--set and UPLIFTMEM_*: {}", error.message())))?;
        config.directory = directory;
        Ok(config)
    }
}

/// The variables of the environment that may be settings.
pub(crate) fn environment() -> Result<Vec<(String, String)>> {
    let ours = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        name.starts_with("UPLIFTMEM_").then_some((name, value))
    });
    ours.map(|(name, value)| match value.into_string() {
        Ok(value) => Ok((name, value)),
        Err(_) => bail!("{name}: its value is not Unicode text"),
    })
    .collect()
}

/// The file in this directory or the nearest one above it.
fn nearest_file() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let found = here.ancestors().map(|directory| directory.join(FILE_NAME));
    found.into_iter().find(|file| file.is_file())
}

/// What a variable of the environment sets, if it is one of ours.
fn section_and_key(name: &str) -> Result<Option<(String, String)>> {
    // These are for the program itself or for its clients, not for its settings.
    const OWN: [&str; 8] = [
        "UPLIFTMEM_BINARY",
        "UPLIFTMEM_URL",
        "UPLIFTMEM_CONFIG",
        "UPLIFTMEM_KEY",
        "UPLIFTMEM_LOG",
        "UPLIFTMEM_LOG_FORMAT",
        "UPLIFTMEM_MODELS",
        "UPLIFTMEM_HUB",
    ];
    let Some(rest) = name.strip_prefix("UPLIFTMEM_") else {
        return Ok(None);
    };
    if OWN.contains(&name) || rest.starts_with("BENCH_") || rest.starts_with("TEST_") {
        return Ok(None);
    }
    let rest = rest.to_lowercase();
    let sections = sections();
    let found = sections.iter().find_map(|section| {
        rest.strip_prefix(&format!("{section}_"))
            .map(|key| (section, key))
    });
    match found {
        Some((section, key)) => Ok(Some((section.clone(), key.to_owned()))),
        None => bail!(
            "{name} sets nothing: it must start with UPLIFTMEM_ and a section ({})",
            sections.join(", ")
        ),
    }
}

fn sections() -> Vec<String> {
    let table: toml::Table = REFERENCE.parse().unwrap_or_default();
    table.keys().cloned().collect()
}

/// Sets a value: as TOML if it is that, else as text.
fn set(table: &mut toml::Table, section: &str, key: &str, value: &str) {
    let parsed = format!("value = {value}")
        .parse::<toml::Table>()
        .ok()
        .and_then(|mut table| table.remove("value"));
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let section = table
        .entry(section)
        .or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if let toml::Value::Table(section) = section {
        section.insert(key.to_owned(), value);
    }
}

/// What is wrong with a configuration, and the key that was perhaps meant.
fn explained(error: &toml::de::Error, text: &str) -> anyhow::Error {
    let message = error.message();
    let mut hint = String::new();
    if let Some(rest) = message.strip_prefix("unknown field `")
        && let Some((unknown, expected)) = rest.split_once('`')
    {
        let known = expected.split('`').skip(1).step_by(2);
        let nearest = known.min_by_key(|known| strsim::damerau_levenshtein(known, unknown));
        if let Some(nearest) = nearest {
            hint = format!("\n  did you mean `{nearest}`? `upliftmem config --reference` shows every key");
        }
    }
    anyhow!("{text}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(environment: &[(&str, &str)], flags: &[&str]) -> Result<Config> {
        let environment: Vec<(String, String)> = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Config::load(Some(&written("")), &environment, &flags)
    }

    fn written(text: &str) -> PathBuf {
        let directory = tempfile::tempdir().unwrap().keep();
        let file = directory.join(FILE_NAME);
        std::fs::write(&file, text).unwrap();
        file
    }

    #[test]
    fn the_reference_has_every_key_with_its_default() {
        let config: Config = toml::from_str(REFERENCE).unwrap();
        assert_eq!(config, Config::default());
        let reference: toml::Table = REFERENCE.parse().unwrap();
        let defaults = toml::Table::try_from(Config::default()).unwrap();
        for (section, keys) in &defaults {
            for key in keys.as_table().unwrap().keys() {
                assert!(
                    reference[section].as_table().unwrap().contains_key(key),
                    "{section}.{key} is not in the reference"
                );
            }
        }
    }

    #[test]
    fn flags_win_over_the_environment_and_both_over_the_file() {
        let file = written("[retrieval]\ncandidates = 10\nbeam_width = 3\nrunners_up = 9\n");
        let environment = [
            ("UPLIFTMEM_RETRIEVAL_CANDIDATES".to_owned(), "20".to_owned()),
            ("UPLIFTMEM_RETRIEVAL_BEAM_WIDTH".to_owned(), "4".to_owned()),
            ("UPLIFTMEM_LOG".to_owned(), "debug".to_owned()),
            ("UPLIFTMEM_BENCH_DIR".to_owned(), "data".to_owned()),
            ("HOME".to_owned(), "/".to_owned()),
        ];
        let config = Config::load(Some(&file), &environment, &["retrieval.candidates=30".into()]).unwrap();
        assert_eq!(config.retrieval.candidates, 30);
        assert_eq!(config.retrieval.beam_width, 4);
        assert_eq!(config.retrieval.runners_up, 9);
        assert_eq!(config.directory, file.parent().unwrap());
    }

    #[test]
    fn an_unknown_key_is_named_with_its_place_and_the_nearest_one() {
        let file = written("[retrieval]\ncandidate = 10\n");
        let error = Config::load(Some(&file), &[], &[]).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
        assert!(error.contains("did you mean `candidates`?"), "{error}");
        let error = load(&[], &["retreival.candidates=3"]).unwrap_err().to_string();
        assert!(error.contains("did you mean `retrieval`?"), "{error}");
        let error = load(&[("UPLIFTMEM_RETREIVAL_X", "1")], &[])
            .unwrap_err()
            .to_string();
        assert!(error.contains("retrieval"), "{error}");
        assert!(load(&[], &["retrieval"]).is_err());
    }

    #[test]
    fn values_are_toml_or_text() {
        let config = load(&[], &["training.updates={ every = 7 }", "scope.agent_id=a b"]).unwrap();
        assert_eq!(config.training.updates, upliftmem_core::UpdateRule::Every(7));
        assert_eq!(config.scope.agent_id.as_deref(), Some("a b"));
        assert!(load(&[], &["retrieval.candidates=many"]).is_err());
    }
}
