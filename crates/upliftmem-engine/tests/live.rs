//! Scopes that are served: versions, probes, what is brought, many at once.
#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use upliftmem_core::{Cost, MemoryId, Performance, Purpose};
use upliftmem_engine::{
    Brought, Learnt, Live, LiveScope, LiveSettings, OutcomeReport, ProbeSettings, ReferencePolicy, Reported,
    RetrievalRequest, RetrievalSettings, UtilitySettings,
};
use upliftmem_scorer::{CompactSettings, embedder::HashEmbedder};
use upliftmem_store::{NewMemory, Scope, SqlitePlace, Store, StoreLimits, Timestamp, open_sqlite};

fn settings(scopes_max: usize) -> LiveSettings {
    LiveSettings {
        retrieval: RetrievalSettings::default(),
        utility: UtilitySettings::default().rule().unwrap(),
        utility_cost_max: 30.0,
        acquisition: ProbeSettings {
            probe_budget: 6,
            acquisition_interval: 4,
            ..ProbeSettings::default()
        },
        scorer: CompactSettings::default().into(),
        agent: "agent".into(),
        labels_of: None,
        references: ReferencePolicy::Request,
        attempts_max: 2,
        scopes_max,
        look_after: Duration::from_secs(3_600),
    }
}

async fn store() -> Arc<dyn Store> {
    open_sqlite(SqlitePlace::Memory, StoreLimits::default())
        .await
        .unwrap()
}

fn live(store: &Arc<dyn Store>, scopes_max: usize) -> Arc<Live> {
    Live::new(
        Arc::clone(store),
        Arc::new(HashEmbedder::default()),
        settings(scopes_max),
    )
}

fn reported(performance: f64) -> Reported {
    Reported {
        performance: Performance::new(performance).unwrap(),
        cost: Cost::new(3.0).unwrap(),
        trajectory: Vec::new(),
        diagnostics: serde_json::Map::new(),
    }
}

async fn add(live: &LiveScope, store: &Arc<dyn Store>, text: &str) -> MemoryId {
    let new = vec![NewMemory::note(live.mint_memory(), text)];
    let batch = live.texts().with_vectors(new).await.unwrap();
    store
        .add_memories(live.scope(), Timestamp::now(), batch)
        .await
        .unwrap()[0]
        .id
}

/// Tasks of even numbers are solved alone; the others need the hint.
fn performance(task: &str, texts: &[String]) -> f64 {
    let number: u64 = task.split([' ', ':']).nth(1).unwrap().parse().unwrap();
    let hinted = texts.iter().any(|text| text.contains("lever"));
    f64::from(u8::from(number.is_multiple_of(2) || hinted))
}

/// Searches and reports once.
async fn episode(live: &Arc<LiveScope>, task: &str) -> Learnt {
    let request = RetrievalRequest {
        query: task.to_owned(),
        ..RetrievalRequest::default()
    };
    let retrieval = live.retriever().unwrap().retrieve(request).await.unwrap();
    let texts: Vec<String> = retrieval
        .memories
        .iter()
        .map(|memory| memory.text.clone())
        .collect();
    let report = reported(performance(task, &texts));
    let report = OutcomeReport {
        retrieval: retrieval.id,
        performance: report.performance,
        cost: report.cost,
        trajectory: report.trajectory,
        diagnostics: report.diagnostics,
    };
    live.take_outcome(report).await.unwrap().learnt
}

/// Works on everything that is wanted; how many executions of each purpose it was.
async fn work(live: &Arc<LiveScope>) -> (usize, usize) {
    let (mut references, mut probes) = (0, 0);
    while let Some(handed) = live.next_probe("w", Duration::from_secs(60), None).await.unwrap() {
        match handed.rollout.purpose {
            Purpose::Reference => references += 1,
            Purpose::Probe => probes += 1,
            other => panic!("{other:?} was handed out"),
        }
        let texts: Vec<String> = handed.memories.iter().map(|(_, text)| text.clone()).collect();
        let outcome = reported(performance(&handed.task.context, &texts));
        live.take_rollout(handed.rollout.id, Some(handed.lease.attempt), outcome)
            .await
            .unwrap();
    }
    (references, probes)
}

async fn taught(live: &Arc<LiveScope>, store: &Arc<dyn Store>) -> u64 {
    add(live, store, "door: pull the lever beside the door").await;
    add(live, store, "door: paint the door").await;
    for number in 0..6 {
        episode(live, &format!("door {number}: open the door")).await;
    }
    live.plan_probes(Some(6), None).await.unwrap();
    let (_, probes) = work(live).await;
    assert!(probes > 0);
    live.catch_up().await.unwrap().version
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_are_planned_worked_on_and_learned_from() {
    let store = store().await;
    let live = live(&store, 4).scope(&Scope::user("a").unwrap()).await.unwrap();
    let version = taught(&live, &store).await;
    assert!(version >= 7, "{version}");
    assert_eq!(live.active().labels, version);
    let ledger = store.ledger(live.scope()).await.unwrap();
    assert!(ledger.line(Purpose::Probe).executions > 0);
    let none = live.next_probe("w", Duration::from_secs(60), None).await.unwrap();
    assert_eq!(none, None, "everything wanted is done and nothing is due");
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_the_same_for_whoever_makes_them_and_can_be_gone_back_to() {
    let store = store().await;
    let scope = Scope::user("a").unwrap();
    let first = live(&store, 4).scope(&scope).await.unwrap();
    let newest = taught(&first, &store).await;
    let answer = async |live: &Arc<LiveScope>| {
        let request = RetrievalRequest {
            query: "door 3: open the door".into(),
            ..RetrievalRequest::default()
        };
        let found = live.retriever().unwrap().retrieve(request).await.unwrap();
        let ids: Vec<MemoryId> = found.memories.iter().map(|memory| memory.id).collect();
        (found.scorer, ids, found.predicted_uplift.to_bits())
    };
    let one = answer(&first).await;
    let again = live(&store, 4).scope(&scope).await.unwrap();
    assert_eq!(
        answer(&again).await,
        one,
        "learned step by step or at once is the same"
    );

    let versions: Vec<u64> = first
        .versions(0, 100)
        .await
        .unwrap()
        .iter()
        .map(|found| found.record.version)
        .collect();
    assert!(versions.contains(&newest));
    let earlier = versions
        .iter()
        .copied()
        .find(|&version| version < newest)
        .unwrap();
    let pinned = first.activate(Some(earlier)).await.unwrap();
    assert_eq!(
        (pinned.version, pinned.pinned, pinned.labels),
        (earlier, true, newest)
    );
    episode(&first, "door 8: open the door").await;
    let still = first.catch_up().await.unwrap();
    assert_eq!(
        still.version, earlier,
        "new labels do not move a version that was chosen"
    );
    assert_eq!(
        again.catch_up().await.unwrap().version,
        earlier,
        "others follow the choice"
    );
    let free = first.activate(None).await.unwrap();
    assert_eq!((free.version, free.pinned), (free.labels, false));
    assert!(first.activate(Some(9_999)).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_is_served_whatever_its_labels_are() {
    let store = store().await;
    let scope = Scope::user("a").unwrap();
    let first = live(&store, 4).scope(&scope).await.unwrap();
    add(&first, &store, "a mug").await;
    // The same outcome of many tasks in one word: as little to learn from as there can be.
    for number in 0..80 {
        episode(
            &first,
            &format!("door {}: open the door number {number}", 2 * number),
        )
        .await;
    }
    first.catch_up().await.unwrap();
    let again = live(&store, 4).scope(&scope).await.unwrap();
    assert_eq!(again.active().labels, 80);
    let request = RetrievalRequest {
        query: "door 3: open the door".into(),
        ..RetrievalRequest::default()
    };
    again.retriever().unwrap().retrieve(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_recently_used_scope_makes_room() {
    let store = store().await;
    let live = live(&store, 2);
    let scope = |name: &str| Scope::user(name).unwrap();
    let first = live.scope(&scope("a")).await.unwrap();
    live.scope(&scope("b")).await.unwrap();
    live.scope(&scope("a")).await.unwrap();
    live.scope(&scope("c")).await.unwrap();
    assert_eq!(live.kept_scopes(), 2);
    assert!(Arc::ptr_eq(&first, &live.scope(&scope("a")).await.unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_brought_is_known_again_and_never_recalled() {
    let store = store().await;
    let live = live(&store, 2).scope(&Scope::user("a").unwrap()).await.unwrap();
    let item = |text: &str| Brought {
        id: Some("x".into()),
        text: text.into(),
    };
    let first = live
        .bring(&[item("a mug"), item("a cup"), item("a mug")])
        .await
        .unwrap();
    assert_eq!(first[0], first[2]);
    assert_ne!(first[0], first[1]);
    assert_eq!(live.bring(&[item("a mug")]).await.unwrap(), first[..1]);
    let request = RetrievalRequest {
        query: "mug".into(),
        ..RetrievalRequest::default()
    };
    let found = live.retriever().unwrap().retrieve(request).await.unwrap();
    assert_eq!(found.candidates, 0);
    store
        .quarantine_memory(live.scope(), Timestamp::now(), first[0].unwrap(), "poison")
        .await
        .unwrap();
    assert_eq!(live.bring(&[item("a mug")]).await.unwrap(), [None]);
    assert!(live.bring(&[item("")]).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_whose_memory_is_gone_is_not_handed_out() {
    let store = store().await;
    let live = live(&store, 2).scope(&Scope::user("a").unwrap()).await.unwrap();
    taught(&live, &store).await;
    for number in 10..16 {
        episode(&live, &format!("door {number}: open the door")).await;
    }
    live.plan_probes(None, None).await.unwrap();
    for memory in store
        .list_memories(live.scope(), Default::default(), 9)
        .await
        .unwrap()
    {
        store.delete_memory(live.scope(), memory.memory.id).await.unwrap();
        live.forget(memory.memory.id);
    }
    let (_, probes) = work(&live).await;
    assert_eq!(probes, 0);
}
