//! Moving to a new embedder.

use std::sync::atomic::{AtomicUsize, Ordering};

use upliftmem_store::*;

use crate::support::*;

/// Embeds a text by its length; fails after some batches.
struct Embedder {
    generation: EmbedderGeneration,
    batches: AtomicUsize,
    fails_after: usize,
}

impl Embedder {
    fn new(fails_after: usize) -> Self {
        Self {
            generation: generation("new", 3),
            batches: AtomicUsize::new(0),
            fails_after,
        }
    }
}

#[async_trait::async_trait]
impl EmbedTexts for Embedder {
    fn generation(&self) -> &EmbedderGeneration {
        &self.generation
    }

    async fn embed(&self, texts: Vec<String>) -> std::result::Result<Vec<Vec<f32>>, String> {
        if self.batches.fetch_add(1, Ordering::Relaxed) >= self.fails_after {
            return Err("the embedder is gone".into());
        }
        Ok(texts
            .iter()
            .map(|text| vec![text.len() as f32, 1.0, 0.0])
            .collect())
    }
}

fn new_query() -> RecallQuery {
    RecallQuery {
        text: String::new(),
        embedding: Some(Embedding::new(generation("new", 3), vec![8.0, 1.0, 0.0]).unwrap()),
        candidates: 300,
        mode: RecallMode::Dense,
    }
}

pub(crate) async fn a_scope_moves_to_a_new_embedder_and_resumes(store: TestStore) {
    let batch = (1..=200)
        .map(|number| {
            note(number, &format!("memory {number}")).with_embedding(embedding(&[1.0, number as f32]))
        })
        .collect();
    add(&store, batch).await;
    add(&store, vec![note(201, "no vector yet")]).await;
    let broken = Embedder::new(2);
    let error = reembed(&*store, &alice(), &broken, |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("the embedder is gone"), "{error}");
    // Until the switch the old generation is searched, and the new one refused.
    assert_eq!(
        store
            .recall(&alice(), at(0), by_vector(&[1.0, 1.0], 300))
            .await
            .unwrap()
            .hits
            .len(),
        200
    );
    assert!(matches!(
        store.recall(&alice(), at(0), new_query()).await,
        Err(Error::Generation { .. })
    ));
    assert!(matches!(
        store.reembed_begin(&alice(), &generation("third", 4)).await,
        Err(Error::Conflict { .. })
    ));
    assert!(
        store.reembed_finish(&alice()).await.unwrap().done < 201,
        "it does not switch early"
    );
    // Memories written during the move, by either embedder, are moved too.
    let by_new = Embedding::new(generation("new", 3), vec![1.0, 1.0, 0.0]).unwrap();
    let during = vec![
        note(202, "old embedder").with_embedding(embedding(&[1.0, 1.0])),
        note(203, "new embedder").with_embedding(by_new),
    ];
    assert_eq!(
        add(&store, during).await,
        [ItemStatus::Stored, ItemStatus::Stored]
    );
    let mut seen = Vec::new();
    let works = Embedder::new(usize::MAX);
    let end = reembed(&*store, &alice(), &works, |progress| seen.push(progress))
        .await
        .unwrap();
    assert_eq!((end.done, end.total), (203, 203));
    assert_eq!(seen[0].done, 129, "it went on where it stopped");
    assert_eq!(works.batches.load(Ordering::Relaxed), 2);
    assert_eq!(
        store.generations(&alice()).await.unwrap(),
        (Some(generation("new", 3)), None)
    );
    let hits = store.recall(&alice(), at(0), new_query()).await.unwrap();
    assert_eq!(hits.hits.len(), 203);
    assert_eq!(hits.hits[0].id, memory_id(1));
    let old = store.recall(&alice(), at(0), by_vector(&[1.0, 1.0], 3)).await;
    assert!(matches!(old, Err(Error::Generation { .. })));
}

pub(crate) async fn a_move_can_be_given_up(store: TestStore) {
    add(
        &store,
        vec![note(1, "one").with_embedding(embedding(&[1.0, 0.0]))],
    )
    .await;
    assert!(store.reembed_abort(&alice()).await.is_err());
    assert!(store.reembed_pending(&alice(), 5).await.is_err());
    store
        .reembed_begin(&alice(), &generation("new", 3))
        .await
        .unwrap();
    store
        .reembed_put(&alice(), vec![(memory_id(1), vec![1.0, 0.0, 0.0])])
        .await
        .unwrap();
    assert!(
        store
            .reembed_put(&alice(), vec![(memory_id(1), vec![1.0, 0.0])])
            .await
            .is_err(),
        "wrong dimension"
    );
    store.reembed_abort(&alice()).await.unwrap();
    assert_eq!(
        store.generations(&alice()).await.unwrap(),
        (Some(generation("test", 2)), None)
    );
    assert_eq!(
        store
            .recall(&alice(), at(0), by_vector(&[1.0, 0.0], 3))
            .await
            .unwrap()
            .hits
            .len(),
        1
    );
}
