//! Every method of the trait, tried across tenants.

use std::{collections::BTreeSet, time::Duration};

use upliftmem_core::{Purpose, RolloutId, TaskId};
use upliftmem_store::*;

use crate::{files::exported, journal::one_of_each, support::*};

/// Methods that take no scope because they touch no row.
const WITHOUT_ROWS: [&str; 3] = ["limits", "watch", "clock"];

const KINDS: [ExportKind; 5] = [
    ExportKind::Memories,
    ExportKind::Tasks,
    ExportKind::Executions,
    ExportKind::Tickets,
    ExportKind::Journal,
];

pub(crate) async fn no_method_crosses_scopes(store: TestStore) {
    fill(&store, &alice()).await;
    let mut before = Vec::new();
    for kind in KINDS {
        before.push(exported(&store, &alice(), kind).await);
    }
    let ticket = store.ticket(&alice(), RolloutId::from_u128(50)).await.unwrap();
    let strangers = [
        Scope::user("bob").unwrap(),
        Scope::agent("alice").unwrap(),
        Scope::user("alice\",null").unwrap(),
        Scope::user("Alice").unwrap(),
        Scope::new(ScopeParts {
            user_id: Some("alice".into()),
            run_id: Some("r".into()),
            ..ScopeParts::default()
        })
        .unwrap(),
    ];
    for stranger in strangers {
        let tried = try_everything(&store, &stranger).await;
        let source = include_str!("../../src/store.rs");
        let (_, source) = source.split_once("pub trait Store").unwrap();
        let methods: BTreeSet<&str> = source
            .split("fn ")
            .skip(1)
            .map(|rest| rest.split('(').next().unwrap())
            .filter(|name| !WITHOUT_ROWS.contains(name))
            .collect();
        assert_eq!(tried, methods, "every method is tried");
    }
    for (kind, before) in KINDS.into_iter().zip(before) {
        assert_eq!(
            exported(&store, &alice(), kind).await,
            before,
            "{kind:?} was changed from outside"
        );
    }
    assert_eq!(
        store.ticket(&alice(), RolloutId::from_u128(50)).await.unwrap(),
        ticket
    );
    assert_eq!(
        store.generations(&alice()).await.unwrap(),
        (Some(generation("test", 2)), None)
    );
}

async fn fill(store: &TestStore, scope: &Scope) {
    let secrets = (1..=5)
        .map(|number| {
            note(number, &format!("secret {number}")).with_embedding(embedding(&[1.0, number as f32]))
        })
        .collect();
    store.add_memories(scope, at(0), secrets).await.unwrap();
    store.put_tasks(scope, vec![task("t")]).await.unwrap();
    let entries = one_of_each(store, scope).await;
    store.append(scope, at(0), entries).await.unwrap();
    store
        .enqueue(scope, at(0), vec![ticket(50, Purpose::Probe)])
        .await
        .unwrap();
    assert_eq!(
        store
            .lease(scope, at(0), lease_request("w", 1))
            .await
            .unwrap()
            .len(),
        1
    );
}

async fn try_everything(store: &TestStore, scope: &Scope) -> BTreeSet<&'static str> {
    let mut tried = BTreeSet::new();
    let first = memory_id(1);
    let rollout = RolloutId::from_u128(50);
    let lease = Lease { rollout, attempt: 1 };

    tried.insert("memories");
    assert_eq!(store.memories(scope, &[first]).await.unwrap(), []);
    tried.insert("list_memories");
    assert_eq!(
        store
            .list_memories(scope, MemoryFilter::default(), 9)
            .await
            .unwrap(),
        []
    );
    tried.insert("pool_version");
    assert_eq!(store.pool_version(scope).await.unwrap(), 0);
    tried.insert("last_memory");
    assert_eq!(store.last_memory(scope).await.unwrap(), None);
    tried.insert("recall");
    for query in [by_words("secret", 9), by_vector(&[1.0, 1.0], 9)] {
        assert_eq!(store.recall(scope, at(0), query).await.unwrap().hits, []);
    }
    tried.insert("unindexed");
    assert_eq!(store.unindexed(scope).await.unwrap(), 0);
    tried.insert("generations");
    assert_eq!(store.generations(scope).await.unwrap(), (None, None));
    tried.insert("task");
    assert_eq!(store.task(scope, TaskId::from_name("t")).await.unwrap(), None);
    tried.insert("list_tasks");
    assert_eq!(store.list_tasks(scope, None, 9).await.unwrap(), []);
    tried.insert("latest_entries");
    for kind in [EntryKind::Retrieval, EntryKind::TrainingEvent] {
        assert_eq!(store.latest_entries(scope, kind, None, 9).await.unwrap(), []);
    }
    tried.insert("ticket");
    assert_eq!(store.ticket(scope, rollout).await.unwrap(), None);
    tried.insert("list_tickets");
    assert_eq!(
        store
            .list_tickets(scope, TicketFilter::default(), 9)
            .await
            .unwrap(),
        []
    );
    tried.insert("report");
    assert_eq!(store.report(scope, RolloutId::from_u128(1)).await.unwrap(), None);
    tried.insert("list_reports");
    assert_eq!(store.list_reports(scope, None, 9).await.unwrap(), []);
    tried.insert("ledger");
    assert_eq!(store.ledger(scope).await.unwrap().total().executions, 0);
    tried.insert("entry");
    assert_eq!(
        store
            .entry(scope, EntryKind::TrainingEvent, "epoch-1")
            .await
            .unwrap(),
        None
    );
    tried.insert("list_entries");
    assert_eq!(
        store
            .list_entries(scope, JournalFilter::default(), 9)
            .await
            .unwrap(),
        []
    );
    tried.insert("export");
    for kind in KINDS {
        assert_eq!(exported(store, scope, kind).await, "");
    }
    tried.insert("reembed_pending");
    assert_eq!(store.reembed_pending(scope, 9).await.unwrap(), []);

    tried.insert("change_memory");
    let change = MemoryChange {
        metadata: Some(serde_json::Map::new()),
        expires_at: Some(Some(at(1))),
    };
    assert!(
        store
            .change_memory(scope, at(2_000), first, change)
            .await
            .is_err()
    );
    tried.insert("quarantine_memory");
    assert!(
        store
            .quarantine_memory(scope, at(2_000), first, "x")
            .await
            .is_err()
    );
    tried.insert("release_memory");
    assert!(store.release_memory(scope, at(2_000), first).await.is_err());
    tried.insert("supersede_memory");
    assert!(
        store
            .supersede_memory(scope, at(2_000), first, memory_id(2))
            .await
            .is_err()
    );
    tried.insert("delete_memory");
    assert!(!store.delete_memory(scope, first).await.unwrap());
    tried.insert("expire_memories");
    assert_eq!(store.expire_memories(scope, at(u64::MAX)).await.unwrap(), 0);
    tried.insert("lease");
    assert_eq!(
        store
            .lease(scope, at(9_999), lease_request("thief", 9))
            .await
            .unwrap(),
        []
    );
    tried.insert("lease_of");
    let leased = store
        .lease_of(scope, at(9_999), lease_request("thief", 9), "executor")
        .await;
    assert_eq!(leased.unwrap(), []);
    tried.insert("settled");
    assert_eq!(store.settled(scope, &[rollout]).await.unwrap(), []);
    tried.insert("lead");
    assert!(store.lead(scope, "run").await.unwrap().is_some());
    tried.insert("heartbeat");
    assert!(
        store
            .heartbeat(scope, at(0), lease, Duration::from_secs(9))
            .await
            .is_err()
    );
    tried.insert("complete_many");
    let many = store
        .complete_many(scope, at(0), vec![(lease, report(50, 0.0))])
        .await
        .unwrap();
    assert!(
        many[0]
            .as_ref()
            .is_err_and(|error| matches!(error, Error::NotFound { .. }))
    );
    tried.insert("complete");
    assert!(
        store
            .complete(scope, at(0), lease, report(50, 0.0))
            .await
            .is_err()
    );
    tried.insert("fail");
    assert!(store.fail(scope, lease, "x").await.is_err());
    tried.insert("take_back");
    assert_eq!(store.take_back(scope, "w").await.unwrap(), 0);
    tried.insert("expire_leases");
    assert_eq!(store.expire_leases(scope, at(9_999)).await.unwrap(), 0);

    // The same ids and texts in another scope are other rows.
    tried.insert("add_memories");
    let mut replacing = note(9, "mine");
    replacing.supersedes = Some(first);
    let added = store
        .add_memories(scope, at(0), vec![note(1, "secret 1"), replacing])
        .await
        .unwrap();
    assert_eq!(
        added[0].status,
        ItemStatus::Stored,
        "another tenant's text is not a duplicate, and not betrayed"
    );
    // Superseding reaches the scope's own memory of that id, which was written a moment ago.
    assert_eq!(added[1].status, ItemStatus::Stored);
    tried.insert("put_tasks");
    let mut other = task("t");
    other.context = "another".into();
    assert_eq!(store.put_tasks(scope, vec![other]).await.unwrap(), 1);
    tried.insert("enqueue");
    let mut own = ticket(50, Purpose::Probe);
    own.rollout.seed = 1;
    assert_eq!(store.enqueue(scope, at(0), vec![own]).await.unwrap(), 1);
    tried.insert("record_execution");
    let own = crate::support::rollout(1, &[], Purpose::Reference);
    store
        .record_execution(scope, at(0), own, report(1, 0.9))
        .await
        .unwrap();
    tried.insert("append");
    assert_eq!(
        store
            .append(scope, at(0), vec![crate::journal::event("epoch-1")])
            .await
            .unwrap(),
        [1]
    );
    tried.insert("record_retrieval");
    // Neither the other scope's task of that name nor its retrieval of that id is in the way.
    let mut own = task("t");
    own.context = "another".into();
    let record = crate::journal::retrieval(6, &own);
    let place = store.record_retrieval(scope, at(0), own, record).await;
    assert_eq!(place.unwrap(), 2);
    tried.insert("reembed_begin");
    assert_eq!(
        store
            .reembed_begin(scope, &generation("mine", 2))
            .await
            .unwrap()
            .total,
        2
    );
    tried.insert("reembed_put");
    let progress = store
        .reembed_put(scope, vec![(memory_id(3), vec![1.0, 0.0])])
        .await
        .unwrap();
    assert_eq!(progress.done, 0, "a memory of another scope gets no vector");
    tried.insert("reembed_finish");
    assert!(store.reembed_finish(scope).await.unwrap().done < 2);
    tried.insert("reembed_abort");
    store.reembed_abort(scope).await.unwrap();
    tried.insert("import");
    let input = std::io::Cursor::new(b"{\"text\":\"mine too\"}\n".to_vec());
    let mint: MintId = Box::new(|_| memory_id(77));
    let source = json_lines(ExportKind::Memories, "f", input, &limits(), at(0), mint);
    store
        .import(scope, at(0), source, Box::new(|_| {}))
        .await
        .unwrap();
    tried
}
