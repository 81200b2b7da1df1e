//! A small world: four topics, two memories that help only together, look-alikes that harm.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use upliftmem_agent::{Execution, ExecutionRequest, Executor, ExecutorError};
use upliftmem_core::{Cost, MemoryId, Performance, Task};
use upliftmem_engine::{EngineSettings, Rollouts, Texts, Trainer};
use upliftmem_scorer::{CompactSettings, embedder::HashEmbedder};
use upliftmem_store::{NewMemory, Scope, SqlitePlace, Store, StoreLimits, Timestamp, open_sqlite};

pub(crate) const TOPICS: [&str; 4] = ["kettle", "ladder", "violin", "garden"];

/// What the executor does besides its work.
#[derive(Default)]
pub(crate) struct Mood {
    /// Executions that ended well.
    pub(crate) executed: AtomicU64,
    /// After so many it stops for good; 0 never does.
    pub(crate) stops_after: AtomicU64,
    /// Every so many fail; 0 none.
    pub(crate) fails_every: AtomicU64,
}

pub(crate) struct SmallWorld {
    pub(crate) mood: Arc<Mood>,
}

/// The chance of success: even topics succeed alone unless a trap is given, odd ones need a hint.
pub(crate) fn success(task: &str, texts: &[&str]) -> f64 {
    let topic = TOPICS.iter().position(|topic| task.contains(topic)).unwrap_or(0);
    let of_topic = |word: &str| {
        texts
            .iter()
            .any(|text| text.contains(TOPICS[topic]) && text.contains(word))
    };
    let alone: f64 = if topic % 2 == 0 { 0.9 } else { 0.1 };
    let helped = if of_topic("hint") { alone.max(0.95) } else { alone };
    if of_topic("trap") {
        helped - 0.7_f64.min(helped)
    } else {
        helped
    }
}

#[async_trait]
impl Executor for SmallWorld {
    fn name(&self) -> &str {
        "small-world"
    }

    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        let mood = &self.mood;
        let stops = mood.stops_after.load(Ordering::SeqCst);
        if stops > 0 && mood.executed.load(Ordering::SeqCst) >= stops {
            return Err(ExecutorError::Unavailable("out of breath".into()));
        }
        let fails = mood.fails_every.load(Ordering::SeqCst);
        if fails > 0 && request.seed.is_multiple_of(fails) {
            return Err(ExecutorError::Failed("a bad day".into()));
        }

        let texts: Vec<&str> = request
            .memories
            .iter()
            .map(|memory| memory.text.as_str())
            .collect();
        let chance = success(&request.task.context, &texts);
        // The seed decides, so that the same request always ends the same.
        let draw = (request.seed >> 11) as f64 / (1_u64 << 53) as f64;
        mood.executed.fetch_add(1, Ordering::SeqCst);
        Ok(Execution {
            performance: Performance::new(if draw < chance { 1.0 } else { 0.0 }).unwrap(),
            cost: Cost::new(3.0).unwrap(),
            trajectory: Vec::new(),
            diagnostics: serde_json::Map::new(),
        })
    }
}

/// The same world under another name.
pub(crate) struct Renamed(pub(crate) SmallWorld);

#[async_trait]
impl Executor for Renamed {
    fn name(&self) -> &str {
        "another-world"
    }

    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        self.0.execute(request).await
    }
}

pub(crate) fn tasks(prefix: &str, count: usize) -> Vec<Task> {
    (0..count)
        .map(|number| {
            let topic = TOPICS[number % 4];
            Task::new(
                format!("{prefix}-{number}"),
                format!("Please repair the {topic} of customer {number} in {prefix} street"),
            )
        })
        .collect()
}

pub(crate) fn scope() -> Scope {
    Scope::agent("mechanic").unwrap()
}

pub(crate) async fn open(place: SqlitePlace) -> Arc<dyn Store> {
    open_sqlite(place, StoreLimits::default()).await.unwrap()
}

/// Twelve memories: a hint, a trap and a bit of gossip for each topic.
pub(crate) async fn fill(store: &Arc<dyn Store>) {
    let embedder = Arc::new(HashEmbedder::default());
    let texts = Texts::new(Arc::clone(store), scope(), embedder);
    let mut batch = Vec::new();
    for (number, topic) in TOPICS.iter().enumerate() {
        for (kind, what) in ["hint", "trap", "gossip"].iter().enumerate() {
            let id = MemoryId::from_u128((number * 3 + kind + 1) as u128);
            batch.push(NewMemory::note(
                id,
                format!("A {what} about how to repair a {topic}"),
            ));
        }
    }
    let batch = texts.with_vectors(batch).await.unwrap();
    store
        .add_memories(&scope(), Timestamp::from_millis(1), batch)
        .await
        .unwrap();
}

pub(crate) fn settings() -> EngineSettings {
    let mut settings = EngineSettings::default();
    settings.acquisition.acquisition_interval = 20;
    settings.acquisition.probe_budget = 10;
    settings.training.updates = upliftmem_core::UpdateRule::Every(20);
    settings.training.batch = 7;
    settings.training.seed = 5;
    settings
}

pub(crate) fn trainer(store: &Arc<dyn Store>, mood: &Arc<Mood>, settings: EngineSettings) -> Trainer {
    let texts = Arc::new(Texts::new(
        Arc::clone(store),
        scope(),
        Arc::new(HashEmbedder::default()),
    ));
    let executor = Arc::new(SmallWorld {
        mood: Arc::clone(mood),
    });
    Trainer {
        store: Arc::clone(store),
        scope: scope(),
        texts: Arc::clone(&texts),
        rollouts: Rollouts {
            store: Arc::clone(store),
            scope: scope(),
            texts,
            executor,
            settings: settings.execution.clone(),
            utility: settings.utility.rule().unwrap(),
        },
        scorer: CompactSettings::default().into(),
        run: "main".into(),
        seed_tasks: tasks("seed", 20),
        stream: tasks("stream", 40),
        writing: None,
        settings,
    }
}
