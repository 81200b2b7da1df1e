//! Scorers that read texts, end to end on a tiny random model: trained, resumed, probed with, served, swapped.
#![allow(clippy::unwrap_used)]

#[path = "../../upliftmem-scorer/tests/embedders/server.rs"]
#[allow(dead_code)] // The embedders use all of it.
mod server;
#[allow(dead_code)] // Other files use all of it.
mod support;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use upliftmem_core::{MemoryId, MemorySet, Task};
use upliftmem_engine::{
    BelievingScorer, CascadePlan, Error, Live, LiveSettings, LmPlan, LmPlanSettings, Progress,
    ReferencePolicy, RemotePlan, RetrievalRequest, Retriever, RunEnd, ScorerPlan, Strategy, Texts, Trainer,
    active_scorer, labels_of,
};
use upliftmem_scorer::{
    Ask, CompactSettings, ScorerVersion, TrainerSettings,
    embedder::HashEmbedder,
    lm::{
        Calibration, CascadeSettings, Device, LmBase, LmSettings, LoraSettings, RemoteScore, RemoteScorer,
        RemoteSettings, load_adapter,
    },
};
use upliftmem_store::{EntryKind, JournalEntry, JournalFilter, SqlitePlace, Store};

use self::{
    server::{Reply, Request, Server},
    support::{Mood, fill, open, scope, settings, tasks, trainer},
};

fn lm(directory: &Path) -> Arc<LmPlan> {
    let model = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../upliftmem-scorer/fixtures/lm/qwen3");
    let settings = LmSettings {
        lora: LoraSettings {
            rank: 2,
            alpha: 4.0,
            ..LoraSettings::default()
        },
        ..LmSettings::default()
    };
    let plan = LmPlanSettings {
        base: "tiny".into(),
        adapter: None,
        directory: directory.to_owned(),
        trainer: TrainerSettings {
            epochs: 2,
            learning_rate: 1e-2,
            batch_labels: 8,
            restart: false,
            calibrate: false,
            ..TrainerSettings::default()
        },
        paths_max: 3,
        belief_dimension: 24,
        belief_labels: 40,
    };
    Arc::new(LmPlan::new(
        LmBase::load(&model, settings, &Device::Cpu).unwrap(),
        plan,
    ))
}

fn cascade(directory: &Path, distilled: usize) -> ScorerPlan {
    let plan = CascadePlan {
        settings: CascadeSettings {
            rescored: 6,
            budget_ms: 600_000,
        },
        distilled,
    };
    ScorerPlan::Cascade(CompactSettings::default(), lm(directory), plan)
}

/// A short run with few candidates.
fn short(store: &Arc<dyn Store>, mood: &Arc<Mood>, scorer: ScorerPlan, strategy: Strategy) -> Trainer {
    let mut settings = settings();
    settings.retrieval.candidates = 5;
    settings.retrieval.memories_max = 2;
    settings.acquisition.acquisition_interval = 6;
    settings.acquisition.probe_budget = 3;
    settings.acquisition.challengers_max = 3;
    settings.acquisition.strategy = strategy;
    settings.training.updates = upliftmem_core::UpdateRule::Every(6);
    settings.training.batch = 3;
    Trainer {
        scorer,
        seed_tasks: tasks("seed", 8),
        stream: tasks("stream", 12),
        ..trainer(store, mood, settings)
    }
}

async fn filled() -> Arc<dyn Store> {
    let store = open(SqlitePlace::Memory).await;
    fill(&store).await;
    store
}

/// Values of all single memories for a task.
async fn values(store: &Arc<dyn Store>, scorer: &Arc<dyn BelievingScorer>) -> Vec<f64> {
    let texts = Texts::new(Arc::clone(store), scope(), Arc::new(HashEmbedder::default()));
    let task = texts.tasks(&tasks("value", 1)).await.unwrap().remove(0);
    let ids: Vec<MemoryId> = (1..=12).map(MemoryId::from_u128).collect();
    let offer = texts.offer(&ids).await.unwrap();
    let sets: Vec<MemorySet> = ids.iter().map(|id| std::iter::once(*id).collect()).collect();
    let bound = scorer.bind(task.input(), &offer.inputs()).unwrap();
    bound.score(&sets, Ask::VALUES).unwrap().values
}

async fn adapters(store: &Arc<dyn Store>) -> Vec<PathBuf> {
    let filter = JournalFilter {
        kind: Some(EntryKind::ScorerVersion),
        task: None,
        after: 0,
    };
    let page = store.list_entries(&scope(), filter, 100).await.unwrap();
    page.into_iter()
        .filter_map(|found| match found.entry {
            JournalEntry::ScorerVersion(record) if !record.location.is_empty() => {
                Some(PathBuf::from(record.location))
            }
            _ => None,
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_run_goes_on_to_the_same_adapter() {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mood = Arc::new(Mood::default());
    let store = filled().await;
    let tokens = std::sync::Mutex::new(Vec::new());
    let expected = short(&store, &mood, ScorerPlan::Lm(lm(whole.path())), Strategy::Evsi)
        .train(&|progress| {
            if let Progress::Learning { tokens: done, total } = progress {
                tokens.lock().unwrap().push((done, total));
            }
        })
        .await
        .unwrap();
    assert_eq!(expected.report.end, RunEnd::Finished);
    assert!(
        expected.report.scorer.starts_with("lm@"),
        "{}",
        expected.report.scorer
    );
    assert!(
        expected.report.ledger["probe"].executions > 0,
        "probes were bought"
    );
    let tokens = tokens.into_inner().unwrap();
    assert!(
        tokens.iter().any(|(done, total)| done == total && *total > 0),
        "{tokens:?}"
    );
    let expected_values = values(&store, &expected.scorer).await;

    // The same run, stopped twice on the way; a new process reads the base and the adapter again.
    let again = filled().await;
    let mood = Arc::new(Mood::default());
    let mut found = None;
    for stops_after in [22, 33, 0] {
        mood.stops_after.store(stops_after, Ordering::SeqCst);
        let run = short(&again, &mood, ScorerPlan::Lm(lm(parts.path())), Strategy::Evsi);
        match run.train(&|_| {}).await {
            Ok(trained) => found = Some(trained),
            Err(error) => assert!(matches!(error, Error::Executor { .. }), "{error}"),
        }
    }
    let found = found.unwrap();
    assert_eq!(found.report, expected.report);
    assert_eq!(values(&again, &found.scorer).await, expected_values);

    // What it wrote is an adapter that anyone reads, and it is what search uses.
    let written = adapters(&again).await;
    let newest = written.last().unwrap();
    load_adapter(newest, lm(parts.path()).base().base().config(), &Device::Cpu).unwrap();
    let labels = labels_of(again.as_ref(), &scope()).await.unwrap();
    let texts = Texts::new(Arc::clone(&again), scope(), Arc::new(HashEmbedder::default()));
    let plan = ScorerPlan::Lm(lm(parts.path()));
    let served = active_scorer(&again, &scope(), &texts, &plan, &labels["small-world"])
        .await
        .unwrap();
    let served = values(&again, &served).await;
    for (one, other) in served.iter().zip(&expected_values) {
        assert!((one - other).abs() < 1e-9, "{one} for {other}");
    }

    // Without its adapter a run can not go on, and says which directory is missing.
    std::fs::remove_dir_all(newest).unwrap();
    let run = short(&again, &mood, plan, Strategy::Evsi);
    let error = run.restore().await.err().unwrap().to_string();
    assert!(error.contains("version-"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_strategies_choose_probes_with_a_language_model() {
    for strategy in [Strategy::Random, Strategy::McStd, Strategy::Thompson] {
        let directory = tempfile::tempdir().unwrap();
        let (store, mood) = (filled().await, Arc::new(Mood::default()));
        let run = short(&store, &mood, ScorerPlan::Lm(lm(directory.path())), strategy);
        let trained = run.train(&|_| {}).await.unwrap();
        assert!(trained.report.ledger["probe"].executions > 0, "{strategy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_language_model_of_a_cascade_has_the_last_word() {
    let directory = tempfile::tempdir().unwrap();
    let (store, mood) = (filled().await, Arc::new(Mood::default()));
    let run = short(&store, &mood, cascade(directory.path(), 30), Strategy::Evsi);
    let trained = run.train(&|_| {}).await.unwrap();
    assert!(trained.report.scorer.starts_with("cascade@"));
    let texts = Arc::new(Texts::new(
        Arc::clone(&store),
        scope(),
        Arc::new(HashEmbedder::default()),
    ));
    let retriever = |scorer: &Arc<dyn BelievingScorer>| Retriever {
        store: Arc::clone(&store),
        scope: scope(),
        texts: Arc::clone(&texts),
        settings: run.settings.retrieval.clone(),
        scorer: Arc::clone(scorer),
    };
    let request = |budget: Option<Duration>| RetrievalRequest {
        query: "Please repair the ladder of customer 1 in some street".into(),
        budget,
        ..RetrievalRequest::default()
    };
    let decided = retriever(&trained.scorer).retrieve(request(None)).await.unwrap();
    // The value is the language model's: what it says of the same set by itself.
    let reader = lm(directory.path());
    let adapter = adapters(&store).await.pop().unwrap();
    let alone = LmPlan::new(
        Arc::clone(reader.base()),
        LmPlanSettings {
            adapter: Some(adapter),
            ..reader.settings().clone()
        },
    );
    let plan = ScorerPlan::Lm(Arc::new(alone));
    let lm = active_scorer(&store, &scope(), &texts, &plan, &[]).await.unwrap();
    let set: MemorySet = decided.memories.iter().map(|memory| memory.id).collect();
    let task = texts
        .tasks(&[Task::new("q", request(None).query)])
        .await
        .unwrap()
        .remove(0);
    let offer = texts.offer(set.members()).await.unwrap();
    let value = lm
        .bind(task.input(), &offer.inputs())
        .unwrap()
        .score(&[set], Ask::VALUES)
        .unwrap()
        .values[0];
    assert!(
        (decided.predicted_uplift - value).abs() < 1e-4,
        "{} for {value}",
        decided.predicted_uplift
    );
    // Without time it is the compact scorer's answer.
    let hurried = retriever(&trained.scorer)
        .retrieve(request(Some(Duration::ZERO)))
        .await
        .unwrap();
    assert!(hurried.interrupted);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_language_model_says_teaches_the_compact_scorer() {
    let mut found = Vec::new();
    for distilled in [0, 48] {
        let directory = tempfile::tempdir().unwrap();
        let (store, mood) = (filled().await, Arc::new(Mood::default()));
        let mut run = short(
            &store,
            &mood,
            cascade(directory.path(), distilled),
            Strategy::None,
        );
        // Warm-up alone: the same labels in both runs.
        run.settings.training.epochs = 0;
        let trained = run.train(&|_| {}).await.unwrap();
        found.push(values(&store, &trained.scorer).await);
        let restored = run.restore().await.unwrap();
        assert_eq!(values(&store, &restored.scorer).await, found[found.len() - 1]);
    }
    assert_ne!(found[0], found[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_ends_a_search_within_its_first_depth() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled().await;
    let texts = Arc::new(Texts::new(
        Arc::clone(&store),
        scope(),
        Arc::new(HashEmbedder::default()),
    ));
    let plan = ScorerPlan::Lm(lm(directory.path()));
    let retriever = Retriever {
        scorer: active_scorer(&store, &scope(), &texts, &plan, &[]).await.unwrap(),
        store: Arc::clone(&store),
        scope: scope(),
        texts,
        settings: settings().retrieval,
    };
    let request = |budget| RetrievalRequest {
        query: "repair the violin".into(),
        budget,
        ..RetrievalRequest::default()
    };
    let hurried = retriever.retrieve(request(Some(Duration::ZERO))).await.unwrap();
    assert!(hurried.interrupted && hurried.abstained);
    assert_eq!(hurried.sets_scored, 0);
    let patient = retriever
        .retrieve(request(Some(Duration::from_secs(600))))
        .await
        .unwrap();
    let endless = retriever.retrieve(request(None)).await.unwrap();
    assert!(!patient.interrupted && patient.sets_scored > 12);
    assert_eq!(patient.predicted_uplift, endless.predicted_uplift);
    assert_eq!(patient.memories, endless.memories);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_takes_over_what_training_wrote_and_requests_keep_theirs() {
    let directory = tempfile::tempdir().unwrap();
    let (store, mood) = (filled().await, Arc::new(Mood::default()));
    let plan = ScorerPlan::Lm(lm(directory.path()));
    let live = Live::new(
        Arc::clone(&store),
        Arc::new(HashEmbedder::default()),
        LiveSettings {
            retrieval: settings().retrieval,
            utility: settings().utility.rule().unwrap(),
            utility_cost_max: 30.0,
            acquisition: settings().acquisition,
            scorer: plan.clone(),
            agent: "agent".into(),
            labels_of: None,
            references: ReferencePolicy::Request,
            attempts_max: 2,
            scopes_max: 2,
            look_after: Duration::from_secs(3_600),
        },
    );
    let served = live.scope(&scope()).await.unwrap();
    let ids: Vec<MemoryId> = (1..=3).map(MemoryId::from_u128).collect();
    let under_way = served.retriever().unwrap();
    let before = under_way.alone("repair the kettle", &ids).await.unwrap();
    short(&store, &mood, plan, Strategy::None)
        .train(&|_| {})
        .await
        .unwrap();
    served.catch_up().await.unwrap();
    let after = served
        .retriever()
        .unwrap()
        .alone("repair the kettle", &ids)
        .await
        .unwrap();
    assert_ne!(before, after, "another adapter answers");
    assert_eq!(under_way.alone("repair the kettle", &ids).await.unwrap(), before);
    let names: Vec<String> = served
        .versions(0, 100)
        .await
        .unwrap()
        .into_iter()
        .map(|version| version.record.name)
        .collect();
    assert!(names.iter().any(|name| name.starts_with("lm:")), "{names:?}");
    assert!(served.behind().is_none());
}

/// Counts hints: a model as simple as can be.
fn score_server() -> Server {
    Server::start(|_, request: &Request| {
        let body: Value = serde_json::from_str(&request.body).unwrap();
        let rows = body["text_2"].as_array().unwrap().iter().enumerate().map(|(index, text)| {
            json!({"index": index, "score": text.as_str().unwrap().matches("hint").count() as f64 - 0.5})
        });
        let rows: Vec<Value> = rows.collect();
        Reply::new(200, json!({"data": rows}).to_string())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_scorer_searches_probes_and_is_sure_of_what_was_executed() {
    let server = score_server();
    let remote = RemoteSettings {
        score: RemoteScore::Margin,
        ..RemoteSettings::new(format!("{}/score", server.url()), "tiny")
    };
    let scorer = RemoteScorer::new(ScorerVersion(0), remote, Calibration::NONE).unwrap();
    let plan = ScorerPlan::Remote(Arc::new(RemotePlan {
        scorer: Arc::new(scorer),
        name: "tiny".into(),
        belief_dimension: 24,
        belief_labels: 100,
    }));
    let (store, mood) = (filled().await, Arc::new(Mood::default()));
    let trained = short(&store, &mood, plan, Strategy::Evsi)
        .train(&|_| {})
        .await
        .unwrap();
    assert!(trained.report.scorer.starts_with("remote@"));
    assert!(trained.report.ledger["probe"].executions > 0);
    let values = values(&store, &trained.scorer).await;
    assert_eq!(
        (values[0], values[1]),
        (0.5, -0.5),
        "hints help, traps do not: {values:?}"
    );
}
