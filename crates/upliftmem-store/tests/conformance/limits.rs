//! Every size that is bounded, gone beyond.

use std::collections::BTreeSet;

use serde_json::json;
use upliftmem_core::Purpose;
use upliftmem_store::*;

use crate::support::*;

pub(crate) async fn every_limit_is_named_in_its_error(store: TestStore) {
    let mut named = BTreeSet::new();
    let most = *store.limits();
    let mut check = |limit: &'static str, told: String| {
        assert!(told.contains(limit), "{limit}: {told}");
        named.insert(limit);
    };

    let mut wide = note(2, "wide");
    wide.memory
        .metadata
        .insert("k".into(), json!("x".repeat(most.metadata_bytes_max)));
    let mut odd = note(3, "odd");
    odd.kind = "k".repeat(most.name_bytes_max + 1);
    let vector = vec![1.0; most.embedding_dimension_max + 1];
    let long = generation("long", u32::try_from(vector.len()).unwrap());
    let deep = note(4, "deep").with_embedding(Embedding::new(long.clone(), vector).unwrap());
    let batch = vec![note(1, &"x".repeat(most.text_bytes_max + 1)), wide, odd, deep];
    let limits = [
        "text_bytes_max",
        "metadata_bytes_max",
        "name_bytes_max",
        "embedding_dimension_max",
    ];
    for (status, limit) in add(&store, batch).await.into_iter().zip(limits) {
        match status {
            ItemStatus::Failed { reason } => check(limit, reason),
            other => panic!("{limit}: {other:?}"),
        }
    }
    let error = store.reembed_begin(&alice(), &long).await.unwrap_err();
    check("embedding_dimension_max", error.to_string());

    let many: Vec<NewMemory> = (0..=most.batch_items_max as u128)
        .map(|number| note(number, "x"))
        .collect();
    let error = store.add_memories(&alice(), at(0), many).await.unwrap_err();
    check("batch_items_max", error.to_string());
    for (query, limit) in [
        (
            by_words("x", most.recall_candidates_max + 1),
            "recall_candidates_max",
        ),
        (
            by_words(&"x".repeat(most.query_bytes_max + 1), 1),
            "query_bytes_max",
        ),
    ] {
        let error = store.recall(&alice(), at(0), query).await.unwrap_err();
        check(limit, error.to_string());
    }
    let rows = most.page_rows_max + 1;
    let error = store.list_tasks(&alice(), None, rows).await.unwrap_err();
    check("page_rows_max", error.to_string());
    let request = lease_request("w", most.lease_tickets_max + 1);
    let error = store.lease(&alice(), at(0), request).await.unwrap_err();
    check("lease_tickets_max", error.to_string());

    let mut chatty = report(1, 0.5);
    let words = "x".repeat(most.trajectory_bytes_max);
    chatty.diagnostics.insert("log".into(), json!(words));
    let own = rollout(1, &[], Purpose::Reference);
    let error = store
        .record_execution(&alice(), at(0), own, chatty)
        .await
        .unwrap_err();
    check("trajectory_bytes_max", error.to_string());
    let mut detail = serde_json::Map::new();
    detail.insert("log".into(), json!("x".repeat(most.entry_bytes_max)));
    let entry = JournalEntry::TrainingEvent(TrainingEvent {
        key: "k".into(),
        event: "updated".into(),
        detail,
    });
    let error = store.append(&alice(), at(0), vec![entry]).await.unwrap_err();
    check("entry_bytes_max", error.to_string());
    let line = std::io::Cursor::new(vec![b' '; most.line_bytes_max + 1]);
    let mint: MintId = Box::new(|_| memory_id(77));
    let source = json_lines(ExportKind::Memories, "f", line, &most, at(0), mint);
    let error = store
        .import(&alice(), at(0), source, Box::new(|_| {}))
        .await
        .unwrap_err();
    check("line_bytes_max", error.to_string());

    let source = include_str!("../../src/limits.rs");
    let (_, source) = source.split_once("pub struct StoreLimits {").unwrap();
    let (fields, _) = source.split_once("\n}").unwrap();
    let fields: BTreeSet<&str> = fields
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub ")?.strip_suffix(": usize,"))
        .collect();
    assert_eq!(named, fields, "every limit is tried");
    assert_eq!(store.ledger(&alice()).await.unwrap().total().executions, 0);
    let all = store
        .list_memories(&alice(), MemoryFilter::default(), 9)
        .await
        .unwrap();
    assert_eq!(all, [], "what was refused left nothing");
}
