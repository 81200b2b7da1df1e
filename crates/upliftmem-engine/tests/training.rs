//! Algorithm 1 on a small world: it learns, it goes on after it was stopped, it keeps to its budget.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::{Arc, atomic::Ordering};

use support::{Mood, fill, open, scope, settings, success, tasks, trainer};
use upliftmem_core::Purpose;
use upliftmem_engine::{Error, RetrievalRequest, Retriever, RunEnd, Strategy};
use upliftmem_store::{JournalFilter, SqlitePlace, Store};

/// The journal without its times.
async fn journal(store: &Arc<dyn Store>) -> Vec<String> {
    let mut entries = Vec::new();
    let mut after = 0;
    loop {
        let filter = JournalFilter {
            after,
            ..JournalFilter::default()
        };
        let page = store.list_entries(&scope(), filter, 500).await.unwrap();
        let Some(last) = page.last() else { return entries };
        after = last.sequence;
        entries.extend(
            page.iter()
                .map(|entry| serde_json::to_string(&entry.entry).unwrap()),
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_learns_what_helps_and_what_to_leave_alone() {
    let store = open(SqlitePlace::Memory).await;
    fill(&store).await;
    let mood = Arc::new(Mood::default());
    let trained = trainer(&store, &mood, settings()).train(&|_| {}).await.unwrap();
    assert_eq!(trained.report.end, RunEnd::Finished);
    assert_eq!(trained.report.tasks, 40);
    assert!(
        trained.report.ledger["probe"].executions == 20,
        "{:?}",
        trained.report
    );
    let one = trainer(&store, &mood, settings());
    let retriever = Retriever {
        store: Arc::clone(&store),
        scope: scope(),
        texts: Arc::clone(&one.texts),
        settings: one.settings.retrieval.clone(),
        scorer: trained.scorer,
    };
    let (mut with, mut without) = (0.0, 0.0);
    for task in tasks("new", 24) {
        let request = RetrievalRequest {
            query: task.context.clone(),
            ..RetrievalRequest::default()
        };
        let retrieval = retriever.retrieve(request).await.unwrap();
        assert_eq!(retrieval.abstained, retrieval.memories.is_empty());
        let texts: Vec<&str> = retrieval
            .memories
            .iter()
            .map(|memory| memory.text.as_str())
            .collect();
        with += success(&task.context, &texts);
        without += success(&task.context, &[]);
    }
    assert!(with > without + 4.0, "with memory {with}, without {without}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_stopped_anywhere_ends_as_if_it_had_not_been() {
    let whole = open(SqlitePlace::Memory).await;
    fill(&whole).await;
    let mood = Arc::new(Mood::default());
    let expected = trainer(&whole, &mood, settings()).train(&|_| {}).await.unwrap();
    let paid = mood.executed.load(Ordering::SeqCst);
    let broken = open(SqlitePlace::Memory).await;
    fill(&broken).await;
    let mood = Arc::new(Mood::default());
    let mut stops = 0;
    let resumed = loop {
        mood.stops_after
            .store(mood.executed.load(Ordering::SeqCst) + 13, Ordering::SeqCst);
        match trainer(&broken, &mood, settings()).train(&|_| {}).await {
            Ok(trained) => break trained,
            Err(Error::Executor { problem, .. }) => assert_eq!(problem, "out of breath"),
            Err(other) => panic!("{other}"),
        }
        stops += 1;
        assert!(stops < 50);
    };
    assert!(stops > 5, "it was stopped {stops} times");
    assert_eq!(resumed.report, expected.report);
    assert_eq!(journal(&broken).await, journal(&whole).await);
    assert_eq!(
        broken.ledger(&scope()).await.unwrap(),
        whole.ledger(&scope()).await.unwrap()
    );
    // Executions in flight when it stopped are lost with it; none that was reported is repeated.
    let again = mood.executed.load(Ordering::SeqCst) - paid;
    assert!(
        again <= stops * settings().execution.concurrency as u64,
        "{again} repeated"
    );
    let restored = trainer(&broken, &mood, settings()).restore().await.unwrap();
    assert_eq!(restored.report, expected.report);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_is_never_exceeded_and_a_larger_one_goes_on() {
    let store = open(SqlitePlace::Memory).await;
    fill(&store).await;
    let mood = Arc::new(Mood::default());
    for (most, end) in [
        (11, RunEnd::Budget),
        (47, RunEnd::Budget),
        (90, RunEnd::Budget),
        (0, RunEnd::Finished),
    ] {
        let mut settings = settings();
        settings.training.max_executions = most;
        let trained = trainer(&store, &mood, settings).train(&|_| {}).await.unwrap();
        assert_eq!(trained.report.end, end);
        let paid = store.ledger(&scope()).await.unwrap().training().executions;
        assert_eq!(paid, mood.executed.load(Ordering::SeqCst));
        if most > 0 {
            assert!(paid <= most && paid + 2 > most, "{paid} of {most}");
        }
    }
    let mut settings = settings();
    settings.training.max_cost = 100.0;
    let fresh = open(SqlitePlace::Memory).await;
    fill(&fresh).await;
    let trained = trainer(&fresh, &mood, settings).train(&|_| {}).await.unwrap();
    assert_eq!(trained.report.end, RunEnd::Budget);
    assert!(fresh.ledger(&scope()).await.unwrap().training().cost <= 100.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_budgets_cut_is_bought_to_its_end() {
    let store = open(SqlitePlace::Memory).await;
    fill(&store).await;
    let mood = Arc::new(Mood::default());
    // So many budgets, five apart, that several end within a batch of ten probes.
    for most in (60..=140).step_by(5).chain([0]) {
        let mut settings = settings();
        settings.training.max_executions = most;
        let trained = trainer(&store, &mood, settings).train(&|_| {}).await.unwrap();
        if most == 0 {
            assert_eq!(trained.report.ledger["probe"].executions, 20);
            assert_eq!(trained.report.end, RunEnd::Finished);
        }
    }
    assert_eq!(
        store.ledger(&scope()).await.unwrap().training().executions,
        mood.executed.load(Ordering::SeqCst),
        "nothing was executed twice"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_of_another_executor_are_not_learned_from() {
    let store = open(SqlitePlace::Memory).await;
    fill(&store).await;
    let mood = Arc::new(Mood::default());
    let alone = trainer(&store, &mood, settings()).train(&|_| {}).await.unwrap();
    let both = open(SqlitePlace::Memory).await;
    fill(&both).await;
    let mut other = trainer(&both, &mood, settings());
    other.run = "other".into();
    other.rollouts.executor = Arc::new(support::Renamed(support::SmallWorld {
        mood: Arc::clone(&mood),
    }));
    other.train(&|_| {}).await.unwrap();
    let beside = trainer(&both, &mood, settings()).train(&|_| {}).await.unwrap();
    assert_eq!(beside.report.labels, alone.report.labels);
    assert_eq!(beside.report.scorer, alone.report.scorer);
    assert_eq!(beside.report.retrieval_uplift, alone.report.retrieval_uplift);
    let labels = upliftmem_engine::labels_of(both.as_ref(), &scope())
        .await
        .unwrap();
    let executors: Vec<&str> = labels.keys().map(String::as_str).collect();
    assert_eq!(executors, ["another-world", "small-world"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_failed_is_never_a_label() {
    let store = open(SqlitePlace::Memory).await;
    fill(&store).await;
    let mood = Arc::new(Mood::default());
    mood.fails_every.store(4, Ordering::SeqCst);
    let trained = trainer(&store, &mood, settings()).train(&|_| {}).await.unwrap();
    let ledger = store.ledger(&scope()).await.unwrap();
    assert!(trained.report.references < 60 && trained.report.references > 30);
    assert_eq!(
        ledger.line(Purpose::Reference).executions as usize,
        trained.report.references
    );
    let with = ledger.training().executions - ledger.line(Purpose::Reference).executions;
    assert!(trained.report.labels as u64 <= with);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_not_continued_with_other_settings() {
    let store = open(SqlitePlace::Memory).await;
    fill(&store).await;
    let mood = Arc::new(Mood::default());
    let mut first = settings();
    first.training.max_executions = 10;
    trainer(&store, &mood, first).train(&|_| {}).await.unwrap();
    let mut other = settings();
    other.acquisition.strategy = Strategy::Random;
    let error = trainer(&store, &mood, other).train(&|_| {}).await.err().unwrap();
    let text = error.to_string();
    assert!(text.contains("another acquisition"), "{text}");
    let mut faster = settings();
    faster.execution.concurrency = 1;
    faster.training.max_executions = 12;
    trainer(&store, &mood, faster).train(&|_| {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_strategy_spends_its_budget() {
    for strategy in Strategy::ALL {
        let store = open(SqlitePlace::Memory).await;
        fill(&store).await;
        let mut settings = settings();
        settings.acquisition.strategy = strategy;
        let trained = trainer(&store, &Arc::new(Mood::default()), settings)
            .train(&|_| {})
            .await
            .unwrap();
        assert_eq!(trained.report.ledger["probe"].executions, 20, "{strategy}");
    }
}
