//! The journal.

use serde_json::json;
use upliftmem_core::*;
use upliftmem_store::{
    EntryKind, Error, JournalEntry, JournalFilter, ProbeBatchRecord, ProbeRecord, RecordedPath,
    RetrievalRecord, Scope, ScorerVersion, TrainingEvent,
};

use crate::support::*;

pub(crate) fn event(key: &str) -> JournalEntry {
    JournalEntry::TrainingEvent(TrainingEvent {
        key: key.into(),
        event: "updated".into(),
        detail: serde_json::Map::new(),
    })
}

/// One entry of every kind; their executions are recorded first.
pub(crate) async fn one_of_each(store: &TestStore, scope: &Scope) -> Vec<JournalEntry> {
    for (number, set, purpose) in [
        (1, &[][..], Purpose::Reference),
        (2, &[1, 2][..], Purpose::Retrieval),
    ] {
        let executed = rollout(number, set, purpose);
        store
            .record_execution(scope, at(1), executed, report(number, 0.5))
            .await
            .unwrap();
    }
    let reference = Reference {
        id: ReferenceId::from_u128(1),
        task: TaskId::from_name("t"),
        executor: "executor".into(),
        utility: Utility::new(0.1).unwrap(),
    };
    let executed = rollout(2, &[1, 2], Purpose::Retrieval);
    let utility = Utility::new(1.0 / 3.0).unwrap();
    let observation = Observation::new(ObservationId::from_u128(5), &executed, utility, &reference).unwrap();
    let candidate = |number| Candidate {
        id: memory_id(number),
        tokens: 3,
    };
    let pool = CandidatePool::new(vec![candidate(2), candidate(1)]).unwrap();
    let path = RetrievalPath {
        steps: vec![PathStep {
            state: MemorySet::EMPTY,
            mask: vec![memory_id(1), memory_id(2)],
            action: Action::Add(memory_id(1)),
        }],
        terminal: MemorySet::EMPTY.with(memory_id(1)),
    };
    let detail = json!({"step": 0.1}).as_object().unwrap().clone();
    vec![
        JournalEntry::Reference(reference),
        JournalEntry::Observation(observation),
        JournalEntry::Path(RecordedPath {
            run: "main".into(),
            rollout: RolloutId::from_u128(2),
            count: 3,
            task: TaskId::from_name("t"),
            scorer: "compact@0".into(),
            pool: pool.clone(),
            path,
        }),
        JournalEntry::Retrieval(RetrievalRecord {
            id: RetrievalId::from_u128(6),
            task: None,
            query: "where \0 is it?".into(),
            pool,
            set: MemorySet::EMPTY,
            predicted_uplift: Uplift::new(-0.0).unwrap(),
            scorer: "compact@0".into(),
            trace: detail.clone(),
        }),
        JournalEntry::ProbeBatch(ProbeBatchRecord {
            id: ProbeBatchId::from_u128(7),
            strategy: "evsi".into(),
            scorer: "compact@0".into(),
            seed: u64::MAX,
            probes: vec![ProbeRecord {
                rollout: RolloutId::from_u128(9),
                task: TaskId::from_name("t"),
                set: MemorySet::EMPTY.with(memory_id(2)),
                marginal_value: 1e-17,
            }],
            decision: detail.clone(),
        }),
        JournalEntry::ScorerVersion(ScorerVersion {
            name: "compact".into(),
            version: 1,
            digest: "d".into(),
            location: "scorers/1".into(),
            metrics: detail,
        }),
        event("epoch-1"),
    ]
}

/// A search for a task that found nothing.
pub(crate) fn retrieval(number: u128, task: &Task) -> RetrievalRecord {
    RetrievalRecord {
        id: RetrievalId::from_u128(number),
        task: Some(task.id),
        query: task.context.clone(),
        pool: CandidatePool::new(Vec::new()).unwrap(),
        set: MemorySet::EMPTY,
        predicted_uplift: Uplift::new(0.0).unwrap(),
        scorer: "compact@0".into(),
        trace: serde_json::Map::new(),
    }
}

pub(crate) async fn a_retrieval_is_recorded_with_its_task_or_not_at_all(store: TestStore) {
    let task = Task::new("a task", "what is asked");
    for (number, at_millis) in [(1, 1), (2, 2), (1, 3)] {
        let place = store
            .record_retrieval(&alice(), at(at_millis), task.clone(), retrieval(number, &task))
            .await
            .unwrap();
        assert_eq!(u128::from(place), number, "the same again is where it was");
    }
    assert_eq!(store.task(&alice(), task.id).await.unwrap(), Some(task.clone()));
    let other = Task::new("a task", "another question under its name");
    let refused = store
        .record_retrieval(&alice(), at(4), other.clone(), retrieval(3, &other))
        .await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    let filter = JournalFilter {
        kind: Some(EntryKind::Retrieval),
        ..JournalFilter::default()
    };
    assert_eq!(store.list_entries(&alice(), filter, 10).await.unwrap().len(), 2);
}

pub(crate) async fn entries_are_appended_in_order_and_never_changed(store: TestStore) {
    let first = store
        .append(&alice(), at(1), vec![event("a"), event("b")])
        .await
        .unwrap();
    assert_eq!(first, [1, 2]);
    assert_eq!(
        store
            .append(&alice(), at(2), vec![event("b"), event("c")])
            .await
            .unwrap(),
        [2, 3]
    );
    let mut other = event("a");
    if let JournalEntry::TrainingEvent(event) = &mut other {
        event.event = "rewritten".into();
    }
    let error = store
        .append(&alice(), at(3), vec![event("d"), other])
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    let filter = JournalFilter {
        after: 1,
        ..JournalFilter::default()
    };
    let rest = store.list_entries(&alice(), filter, 10).await.unwrap();
    let seen: Vec<_> = rest
        .iter()
        .map(|entry| (entry.sequence, entry.at, entry.entry.key()))
        .collect();
    assert_eq!(seen, [(2, at(1), "b".to_owned()), (3, at(2), "c".to_owned())]);
}

pub(crate) async fn the_latest_entries_come_newest_first(store: TestStore) {
    let entries = ["a", "b", "c"].map(event).to_vec();
    store.append(&alice(), at(1), entries).await.unwrap();
    let kind = EntryKind::TrainingEvent;
    let keys = async |kind, before, rows| -> Vec<(u64, String)> {
        let found = store.latest_entries(&alice(), kind, before, rows).await.unwrap();
        found
            .iter()
            .map(|entry| (entry.sequence, entry.entry.key()))
            .collect()
    };
    assert_eq!(
        keys(kind, None, 2).await,
        [(3, "c".to_owned()), (2, "b".to_owned())]
    );
    assert_eq!(keys(kind, Some(2), 2).await, [(1, "a".to_owned())]);
    assert_eq!(keys(kind, Some(u64::MAX), 9).await.len(), 3);
    assert_eq!(keys(kind, Some(0), 9).await, []);
    assert_eq!(keys(EntryKind::Retrieval, None, 9).await, []);
    let elsewhere = Scope::user("bob").unwrap();
    assert_eq!(store.latest_entries(&elsewhere, kind, None, 9).await.unwrap(), []);
}

pub(crate) async fn what_is_learned_from_must_have_been_executed(store: TestStore) {
    let elsewhere = Scope::user("bob").unwrap();
    let entries = one_of_each(&store, &elsewhere).await;
    // In another scope nothing of it was executed.
    for entry in &entries[..3] {
        let error = store
            .append(&alice(), at(1), vec![entry.clone()])
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
    }
    // A label needs its reference.
    let error = store
        .append(&elsewhere, at(1), vec![entries[1].clone()])
        .await
        .unwrap_err();
    assert!(error.to_string().contains("reference"), "{error}");
    // A reference has no memories.
    let JournalEntry::Reference(mut wrong) = entries[0].clone() else {
        unreachable!()
    };
    wrong.id = ReferenceId::from_u128(2);
    let error = store
        .append(&elsewhere, at(1), vec![JournalEntry::Reference(wrong)])
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    store.append(&elsewhere, at(1), entries).await.unwrap();
}

pub(crate) async fn every_kind_reads_back_whole(store: TestStore) {
    let entries = one_of_each(&store, &alice()).await;
    store.append(&alice(), at(4), entries.clone()).await.unwrap();
    for entry in &entries {
        let stored = store
            .entry(&alice(), entry.kind(), &entry.key())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(stored.entry, *entry);
        let filter = JournalFilter {
            kind: Some(entry.kind()),
            ..JournalFilter::default()
        };
        assert_eq!(store.list_entries(&alice(), filter, 9).await.unwrap().len(), 1);
    }
    let filter = JournalFilter {
        task: Some(TaskId::from_name("t")),
        ..JournalFilter::default()
    };
    assert_eq!(store.list_entries(&alice(), filter, 9).await.unwrap().len(), 3);
}
