//! Writing, reading and retiring memories.

use serde_json::json;
use upliftmem_core::TaskId;
use upliftmem_store::*;

use crate::support::*;

pub(crate) async fn a_batch_says_what_became_of_each_item(store: TestStore) {
    add(&store, vec![note(1, "known")]).await;
    let mut flagged = note(6, "flagged");
    flagged.quarantine = Some("the writer is not trusted".into());
    let mut orphan = note(7, "orphan");
    orphan.supersedes = Some(memory_id(99));
    let statuses = add(
        &store,
        vec![
            note(2, "new"),
            note(3, "  known "),
            note(4, ""),
            note(5, "hidden \u{202e} text"),
            flagged,
            orphan,
            note(1, "another text under a known id"),
            note(8, "zero \0 character"),
            note(9, "new"),
        ],
    )
    .await;
    let words: Vec<&str> = statuses
        .iter()
        .map(|status| match status {
            ItemStatus::Stored => "stored",
            ItemStatus::Duplicate { .. } => "duplicate",
            ItemStatus::Quarantined { .. } => "quarantined",
            ItemStatus::Failed { .. } => "failed",
        })
        .collect();
    assert_eq!(
        words,
        [
            "stored",
            "duplicate",
            "failed",
            "quarantined",
            "quarantined",
            "failed",
            "failed",
            "failed",
            "duplicate"
        ]
    );
    assert_eq!(statuses[1], ItemStatus::Duplicate { of: memory_id(1) });
    assert_eq!(statuses[8], ItemStatus::Duplicate { of: memory_id(2) });
    let all = store
        .list_memories(&alice(), MemoryFilter::default(), 100)
        .await
        .unwrap();
    assert_eq!(all.len(), 4, "failed and duplicate items wrote nothing");
}

pub(crate) async fn what_is_stored_reads_back_whole(store: TestStore) {
    let mut new = note(1, "Größe: 日本 🎉\nsecond line");
    new.kind = "procedure".into();
    new.memory.tokens = 17;
    new.memory.source_task = Some(TaskId::from_name("t"));
    new.memory.metadata = json!({"n": 1.5, "deep": {"list": [1, null, "x\u{0}y"]}})
        .as_object()
        .unwrap()
        .clone();
    new.provenance = json!({"tool": "test"}).as_object().unwrap().clone();
    new.expires_at = Some(at(5_000));
    new.embedding = Some(embedding(&[0.1, 0.7, -0.3]));
    add(&store, vec![new.clone()]).await;
    let stored = store
        .memories(&alice(), &[memory_id(1), memory_id(2)])
        .await
        .unwrap();
    assert_eq!(
        stored,
        [StoredMemory {
            memory: new.memory,
            kind: new.kind,
            provenance: new.provenance,
            status: MemoryStatus::Active,
            quarantine_reason: None,
            created_at: at(1_000),
            updated_at: None,
            expires_at: new.expires_at,
            superseded_by: None,
            embedding: new.embedding,
            extra: serde_json::Map::new(),
        }]
    );
}

pub(crate) async fn duplicates_are_recognised_until_they_expire(store: TestStore) {
    let mut short_lived = note(1, "the code is 4711");
    short_lived.expires_at = Some(at(2_000));
    add(&store, vec![short_lived]).await;
    let again = |number| vec![note(number, "the code\nis 4711")];
    let early = store.add_memories(&alice(), at(1_999), again(2)).await.unwrap();
    assert_eq!(early[0].status, ItemStatus::Duplicate { of: memory_id(1) });
    let late = store.add_memories(&alice(), at(2_000), again(3)).await.unwrap();
    assert_eq!(late[0].status, ItemStatus::Stored);
    let old = store.memories(&alice(), &[memory_id(1)]).await.unwrap();
    assert_eq!(old[0].status, MemoryStatus::Expired);
    let found = found(
        &store
            .recall(&alice(), at(2_000), by_words("4711", 9))
            .await
            .unwrap(),
    );
    assert_eq!(found, [3]);
}

pub(crate) async fn what_is_beside_a_text_can_change(store: TestStore) {
    add(
        &store,
        vec![note(1, "blue mug").with_embedding(embedding(&[1.0, 0.0]))],
    )
    .await;
    let recalled = async |millis| {
        let query = || [by_words("mug", 5), by_vector(&[1.0, 0.0], 5)];
        let mut hits = 0;
        for query in query() {
            hits += store
                .recall(&alice(), at(millis), query)
                .await
                .unwrap()
                .hits
                .len();
        }
        hits
    };
    assert_eq!(recalled(0).await, 2);
    let metadata: serde_json::Map<_, _> = [("colour".to_owned(), "blue".into())].into_iter().collect();
    let change = MemoryChange {
        metadata: Some(metadata.clone()),
        expires_at: Some(Some(at(10))),
    };
    store
        .change_memory(&alice(), at(2_000), memory_id(1), change)
        .await
        .unwrap();
    let stored = store.memories(&alice(), &[memory_id(1)]).await.unwrap();
    assert_eq!(stored[0].memory.metadata, metadata);
    assert_eq!(stored[0].expires_at, Some(at(10)));
    assert_eq!(stored[0].updated_at, Some(at(2_000)), "and when it was changed");
    assert_eq!((recalled(9).await, recalled(11).await), (2, 0));
    let never = MemoryChange {
        metadata: None,
        expires_at: Some(None),
    };
    store
        .change_memory(&alice(), at(2_000), memory_id(1), never)
        .await
        .unwrap();
    assert_eq!(recalled(11).await, 2);
    let stored = store.memories(&alice(), &[memory_id(1)]).await.unwrap();
    assert_eq!(stored[0].memory.metadata, metadata);
    let missing = store
        .change_memory(&alice(), at(2_000), memory_id(9), MemoryChange::default())
        .await;
    assert!(matches!(missing, Err(Error::NotFound { .. })));
}

pub(crate) async fn quarantine_and_release(store: TestStore) {
    add(
        &store,
        vec![note(1, "blue mug").with_embedding(embedding(&[1.0, 0.0]))],
    )
    .await;
    let recalled = async || {
        let words = store.recall(&alice(), at(0), by_words("mug", 5)).await.unwrap();
        let vector = store
            .recall(&alice(), at(0), by_vector(&[1.0, 0.0], 5))
            .await
            .unwrap();
        (words.hits.len(), vector.hits.len())
    };
    assert_eq!(recalled().await, (1, 1));
    store
        .quarantine_memory(&alice(), at(2_000), memory_id(1), "it lied")
        .await
        .unwrap();
    assert_eq!(recalled().await, (0, 0));
    let stored = store.memories(&alice(), &[memory_id(1)]).await.unwrap();
    assert_eq!(stored[0].quarantine_reason.as_deref(), Some("it lied"));
    let again = add(&store, vec![note(2, "blue mug")]).await;
    assert_eq!(
        again[0],
        ItemStatus::Duplicate { of: memory_id(1) },
        "quarantine is not evaded by writing again"
    );
    store
        .release_memory(&alice(), at(2_000), memory_id(1))
        .await
        .unwrap();
    assert_eq!(recalled().await, (1, 1));
    let error = store
        .quarantine_memory(&alice(), at(2_000), memory_id(9), "x")
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

pub(crate) async fn superseding_links_both_and_retires_one(store: TestStore) {
    add(&store, vec![note(1, "the mug is in drawer one")]).await;
    let mut newer = note(2, "the mug is in drawer two");
    newer.supersedes = Some(memory_id(1));
    assert_eq!(add(&store, vec![newer]).await, [ItemStatus::Stored]);
    let old = store.memories(&alice(), &[memory_id(1)]).await.unwrap();
    assert_eq!(
        (old[0].status, old[0].superseded_by),
        (MemoryStatus::Superseded, Some(memory_id(2)))
    );
    assert_eq!(
        found(
            &store
                .recall(&alice(), at(0), by_words("mug drawer", 5))
                .await
                .unwrap()
        ),
        [2]
    );
    add(&store, vec![note(3, "the mug is broken")]).await;
    store
        .supersede_memory(&alice(), at(2_000), memory_id(2), memory_id(3))
        .await
        .unwrap();
    assert_eq!(
        found(
            &store
                .recall(&alice(), at(0), by_words("mug drawer", 5))
                .await
                .unwrap()
        ),
        [3]
    );
    assert!(
        store
            .supersede_memory(&alice(), at(2_000), memory_id(3), memory_id(3))
            .await
            .is_err()
    );
    assert!(
        store
            .supersede_memory(&alice(), at(2_000), memory_id(3), memory_id(4))
            .await
            .is_err()
    );
    let active = MemoryFilter {
        status: Some(MemoryStatus::Active),
        after: None,
    };
    assert_eq!(store.list_memories(&alice(), active, 9).await.unwrap().len(), 1);
}

pub(crate) async fn deleted_memories_are_gone(store: TestStore) {
    let vector = [1.0, 0.0];
    add(
        &store,
        vec![note(1, "one mug").with_embedding(embedding(&vector))],
    )
    .await;
    assert_eq!(
        store
            .recall(&alice(), at(0), by_vector(&vector, 5))
            .await
            .unwrap()
            .hits
            .len(),
        1
    );
    assert!(store.delete_memory(&alice(), memory_id(1)).await.unwrap());
    assert!(!store.delete_memory(&alice(), memory_id(1)).await.unwrap());
    assert_eq!(
        store
            .recall(&alice(), at(0), by_vector(&vector, 5))
            .await
            .unwrap()
            .hits,
        []
    );
    assert_eq!(
        store
            .recall(&alice(), at(0), by_words("mug", 5))
            .await
            .unwrap()
            .hits,
        []
    );
    assert_eq!(store.memories(&alice(), &[memory_id(1)]).await.unwrap(), []);
    assert_eq!(add(&store, vec![note(2, "one mug")]).await, [ItemStatus::Stored]);
}

pub(crate) async fn pages_follow_creation_order(store: TestStore) {
    add(
        &store,
        (1..=25).rev().map(|n| note(n, &format!("text {n}"))).collect(),
    )
    .await;
    let mut filter = MemoryFilter::default();
    let mut seen = Vec::new();
    loop {
        let page = store.list_memories(&alice(), filter, 10).await.unwrap();
        let Some(last) = page.last() else { break };
        filter.after = Some(last.memory.id);
        seen.extend(page.iter().map(|stored| stored.memory.id.as_u128()));
    }
    assert_eq!(seen, (1..=25).collect::<Vec<_>>());
}

pub(crate) async fn versions_grow_with_every_change(store: TestStore) {
    let mut last = store.pool_version(&alice()).await.unwrap();
    assert_eq!(last, 0);
    let mut grown = async || {
        let version = store.pool_version(&alice()).await.unwrap();
        let grown = version > last;
        last = version;
        grown
    };
    let mut expiring = note(1, "a");
    expiring.expires_at = Some(at(2_000));
    add(&store, vec![expiring, note(2, "b"), note(3, "c")]).await;
    assert!(grown().await);
    store
        .quarantine_memory(&alice(), at(2_000), memory_id(2), "x")
        .await
        .unwrap();
    assert!(grown().await);
    store.delete_memory(&alice(), memory_id(3)).await.unwrap();
    assert!(grown().await);
    assert_eq!(store.expire_memories(&alice(), at(2_000)).await.unwrap(), 1);
    assert!(grown().await);
    assert!(!grown().await);
}
