//! Recall.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_store::*;

use crate::support::*;

pub(crate) async fn words_vectors_and_both_find_what_they_should(store: TestStore) {
    let batch = vec![
        note(1, "The blue mug stands in the kitchen.").with_embedding(embedding(&[1.0, 0.0, 0.0])),
        note(2, "Heat the potato before serving, then serve the potato.")
            .with_embedding(embedding(&[0.0, 1.0, 0.0])),
        note(
            3,
            "A mug can be heated in the microwave of the kitchen or of the office, whichever is near.",
        )
        .with_embedding(embedding(&[0.6, 0.8, 0.0])),
        note(4, "Nothing in common").with_embedding(embedding(&[0.0, 0.0, 1.0])),
        note(5, "A potato without a vector"),
    ];
    add(&store, batch).await;
    let ask = async |query| store.recall(&alice(), at(0), query).await.unwrap();
    assert_eq!(
        found(&ask(by_words("MUG, kitchen?", 10)).await),
        [1, 3],
        "the shorter one first"
    );
    assert_eq!(found(&ask(by_words("potato", 10)).await), [2, 5]);
    assert_eq!(
        found(&ask(by_words("unheard of-ness", 10)).await),
        [3],
        "a word that is there counts"
    );
    let dense = ask(by_vector(&[0.0, 1.0, 0.0], 3)).await;
    assert_eq!(found(&dense), [2, 3, 1]);
    assert!((dense.hits[1].cosine.unwrap() - 0.8).abs() < 1e-6);
    let hybrid = RecallQuery {
        text: "potato".into(),
        embedding: Some(embedding(&[0.0, 1.0, 0.0])),
        candidates: 4,
        mode: RecallMode::Hybrid,
    };
    let fused = ask(hybrid.clone()).await;
    assert_eq!(fused.hits[0].id, memory_id(2), "found both ways");
    assert!(fused.hits[0].bm25.is_some() && fused.hits[0].cosine.is_some());
    assert_eq!(fused.hits.len(), 4);
    assert_eq!(fused.pool().unwrap().len(), 4);
    let without_vector = RecallQuery {
        embedding: None,
        ..hybrid.clone()
    };
    assert_eq!(found(&ask(without_vector.clone()).await), [2, 5]);
    let dense_without = RecallQuery {
        mode: RecallMode::Dense,
        ..without_vector
    };
    assert!(store.recall(&alice(), at(0), dense_without).await.is_err());
    assert_eq!(
        store
            .recall(&Scope::user("nobody").unwrap(), at(0), hybrid)
            .await
            .unwrap()
            .hits,
        []
    );
}

pub(crate) async fn status_and_expiry_are_applied_before_the_cut(store: TestStore) {
    // The forty best by either measure are expired, quarantined or superseded; the ten worst remain.
    let batch = (1..=50_u128)
        .map(|number| {
            let mut new = note(number, &format!("mug {}", "word ".repeat(number as usize)));
            new.memory.text.push_str(&number.to_string());
            let angle = number as f32 * 0.01;
            new.embedding = Some(embedding(&[angle.cos(), angle.sin()]));
            match number {
                1..=20 => new.expires_at = Some(at(2_000)),
                21..=30 => new.quarantine = Some("test".into()),
                _ => {}
            }
            new
        })
        .collect();
    add(&store, batch).await;
    for old in 31..=40 {
        store
            .supersede_memory(&alice(), at(2_000), memory_id(old), memory_id(50))
            .await
            .unwrap();
    }
    let now = at(2_000);
    for query in [by_words("mug", 10), by_vector(&[1.0, 0.0], 10)] {
        let hits = found(&store.recall(&alice(), now, query).await.unwrap());
        assert_eq!(hits, (41..=50).collect::<Vec<_>>());
    }
    assert_eq!(
        found(
            &store
                .recall(&alice(), at(1_999), by_words("mug", 3))
                .await
                .unwrap()
        ),
        [1, 2, 3]
    );
}

pub(crate) async fn any_text_is_data(store: TestStore) {
    add(
        &store,
        vec![
            note(1, "plain words"),
            note(2, "日本語 の テキスト"),
            note(3, "naïve café"),
        ],
    )
    .await;
    let hostile = [
        "\"",
        "'",
        "words\"",
        "words AND",
        "NEAR(words, 5)",
        "words*",
        "^words",
        "text:words",
        "-words",
        "(words",
        "words) OR (",
        "words; DROP TABLE memories",
        "words & !x | y",
        "\\",
        "%_",
        "words\0words",
        "$1",
        "?1",
        "{words}",
        "words:*",
        "<->",
        "\u{202e}",
        "words''",
        "0_words",
        "1_words",
    ];
    for text in hostile {
        let hits = store
            .recall(&alice(), at(0), by_words(text, 5))
            .await
            .unwrap_or_else(|e| panic!("{text}: {e}"));
        let wanted: &[u128] = if text.contains("words") { &[1] } else { &[] };
        assert_eq!(found(&hits), wanted, "{text:?}");
    }
    assert_eq!(
        found(&store.recall(&alice(), at(0), by_words("本", 5)).await.unwrap()),
        [2]
    );
    assert_eq!(
        found(&store.recall(&alice(), at(0), by_words("CAFÉ", 5)).await.unwrap()),
        [3]
    );
    let long = "words ".repeat(5_000);
    assert_eq!(
        found(&store.recall(&alice(), at(0), by_words(&long, 5)).await.unwrap()),
        [1]
    );
}

pub(crate) async fn another_generation_is_refused(store: TestStore) {
    add(
        &store,
        vec![note(1, "one").with_embedding(embedding(&[1.0, 0.0]))],
    )
    .await;
    let other = Embedding::new(generation("other", 2), vec![1.0, 0.0]).unwrap();
    let query = RecallQuery {
        text: "one".into(),
        embedding: Some(other.clone()),
        candidates: 1,
        mode: RecallMode::Hybrid,
    };
    let error = store.recall(&alice(), at(0), query).await.unwrap_err();
    assert!(
        error.to_string().contains("test/2/d1") && error.to_string().contains("other/2/d1"),
        "{error}"
    );
    let statuses = add(
        &store,
        vec![note(2, "two").with_embedding(other), note(3, "three")],
    )
    .await;
    assert!(
        matches!(&statuses[0], ItemStatus::Failed { reason } if reason.contains("reembed")),
        "{statuses:?}"
    );
    assert_eq!(statuses[1], ItemStatus::Stored);
    let (active, target) = store.generations(&alice()).await.unwrap();
    assert_eq!((active, target), (Some(generation("test", 2)), None));
}

pub(crate) async fn order_is_deterministic_and_ties_go_by_id(store: TestStore) {
    let batch = [5, 3, 9, 1, 7]
        .into_iter()
        .map(|number| note(number, &format!("same words {number}")).with_embedding(embedding(&[0.6, 0.8])))
        .collect();
    add(&store, batch).await;
    let hybrid = RecallQuery {
        text: "same words".into(),
        embedding: Some(embedding(&[0.6, 0.8])),
        candidates: 4,
        mode: RecallMode::Hybrid,
    };
    for query in [by_words("same words", 4), by_vector(&[0.6, 0.8], 4), hybrid] {
        let first = store.recall(&alice(), at(0), query.clone()).await.unwrap();
        assert_eq!(found(&first), [1, 3, 5, 7]);
        assert_eq!(store.recall(&alice(), at(0), query).await.unwrap(), first);
    }
}

pub(crate) async fn large_scopes_are_searched_well_under_a_filter(store: TestStore) {
    // In two scopes that share a table.
    const COUNT: u128 = 11_000;
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut vector = move |centre: usize| -> Vec<f32> {
        (0..16)
            .map(|i| f32::from(u8::from(i == centre % 16)) + rng.random_range(-0.4..0.4))
            .collect()
    };
    let bob = Scope::user("bob").unwrap();
    let mut stored = Vec::new();
    for number in 1..=COUNT {
        let mut new = note(number, &format!("memory {number}"));
        new.embedding = Some(embedding(&vector(number as usize)));
        // One in a hundred outlives the filter.
        if number % 100 != 0 {
            new.expires_at = Some(at(5_000));
        }
        stored.push(new);
    }
    let small: Vec<NewMemory> = stored.iter().take(30).cloned().collect();
    for chunk in stored.chunks(2_000) {
        store.add_memories(&alice(), at(0), chunk.to_vec()).await.unwrap();
    }
    store.add_memories(&bob, at(0), small).await.unwrap();
    // The first question has the index made, where there is one.
    store
        .recall(&alice(), at(0), by_vector(&vector(0), 50))
        .await
        .unwrap();
    while store.unindexed(&alice()).await.unwrap() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let exact = |query: &[f32], now: Timestamp| -> Vec<u128> {
        let query = embedding(query);
        let mut all: Vec<(f32, u128)> = stored
            .iter()
            .filter(|new| new.expires_at.is_none_or(|end| end > now))
            .map(|new| {
                let vector = new.embedding.as_ref().unwrap().vector();
                let cosine: f32 = vector.iter().zip(query.vector()).map(|(a, b)| a * b).sum();
                (cosine, new.memory.id.as_u128())
            })
            .collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        all.into_iter().take(50).map(|(_, number)| number).collect()
    };
    for now in [at(0), at(5_000)] {
        let mut hit = 0;
        for round in 0..10 {
            let query = vector(round);
            let truth = exact(&query, now);
            let answer = found(&store.recall(&alice(), now, by_vector(&query, 50)).await.unwrap());
            assert_eq!(answer.len(), 50, "as many as there are");
            hit += answer.iter().filter(|number| truth.contains(number)).count();
        }
        assert!(hit >= 490, "{hit} of 500 at {now:?}");
    }
    let query = vector(3);
    let answer = store.recall(&bob, at(0), by_vector(&query, 50)).await.unwrap();
    assert_eq!(
        answer.hits.len(),
        30,
        "a small scope beside a large one is found whole"
    );
}

pub(crate) async fn changes_are_seen_at_once(store: TestStore) {
    for number in 1..=20_u128 {
        let new = note(number, &format!("word{number}")).with_embedding(embedding(&[number as f32, 1.0]));
        add(&store, vec![new]).await;
        let hits = store
            .recall(&alice(), at(0), by_vector(&[number as f32, 1.0], 50))
            .await
            .unwrap();
        assert_eq!(hits.hits.len(), number as usize);
        assert_eq!(hits.hits[0].id, memory_id(number));
    }
}
