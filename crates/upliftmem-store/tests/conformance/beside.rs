//! Processes beside each other: one leads, all hear, requests that come again are answered once.

use std::time::Duration;

use upliftmem_core::{Purpose, RolloutId};
use upliftmem_store::*;

use crate::support::*;

fn event(key: &str) -> Vec<JournalEntry> {
    vec![JournalEntry::TrainingEvent(TrainingEvent {
        key: key.into(),
        event: "test".into(),
        detail: serde_json::Map::new(),
    })]
}

pub(crate) async fn one_leads_and_a_deposed_leader_writes_nothing(store: TestStore) {
    let first = store.lead(&alice(), "run").await.unwrap().unwrap();
    assert!(
        store.lead(&alice(), "run").await.unwrap().is_none(),
        "one at a time"
    );
    assert!(store.lead(&alice(), "other").await.unwrap().is_some());
    let bob = Scope::user("bob").unwrap();
    assert!(store.lead(&bob, "run").await.unwrap().is_some());
    first.store.append(&alice(), at(0), event("a")).await.unwrap();

    let (old, token) = (std::sync::Arc::clone(&first.store), first.token);
    drop(first);
    let second = lead_soon(&store).await;
    assert_eq!(second.token, token + 1);
    let refused = old.append(&alice(), at(0), event("b")).await;
    let Err(error @ Error::Deposed { .. }) = refused else {
        panic!("a write of a deposed leader was taken: {refused:?}");
    };
    assert!(error.to_string().contains("another process"), "{error}");
    assert!(
        old.enqueue(&alice(), at(0), vec![ticket(1, Purpose::Probe)])
            .await
            .is_err()
    );
    assert!(old.put_tasks(&alice(), vec![task("t")]).await.is_err());
    assert_eq!(
        old.list_tasks(&alice(), None, 9).await.unwrap().len(),
        0,
        "reading is free"
    );
    second.store.append(&alice(), at(0), event("b")).await.unwrap();
    store.append(&alice(), at(0), event("c")).await.unwrap();
    let all = store
        .list_entries(&alice(), JournalFilter::default(), 9)
        .await
        .unwrap();
    assert_eq!(all.len(), 3);
}

/// A connection that was closed gives its locks back a moment later.
async fn lead_soon(store: &TestStore) -> Leadership {
    for _ in 0..500 {
        if let Some(led) = store.lead(&alice(), "run").await.unwrap() {
            return led;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the lock never came back");
}

pub(crate) async fn what_is_written_is_heard(store: TestStore) {
    let mut watch = store.watch();
    // The first words say that listening began.
    while watch.heard(Topic::Tickets, Duration::from_millis(1_500)).await {}
    store
        .enqueue(&alice(), at(0), vec![ticket(1, Purpose::Probe)])
        .await
        .unwrap();
    assert!(watch.heard(Topic::Tickets, Duration::from_secs(10)).await);
    let leased = store.lease(&alice(), at(0), lease_request("w", 1)).await.unwrap();
    store
        .complete(&alice(), at(1), leased[0].lease, report(1, 1.0))
        .await
        .unwrap();
    assert!(watch.heard(Topic::Reports, Duration::from_secs(10)).await);
    store.append(&alice(), at(0), event("a")).await.unwrap();
    assert!(watch.heard(Topic::Scorers, Duration::from_secs(10)).await);
    let clock = store.clock().await.unwrap();
    let apart = Timestamp::now().millis().abs_diff(clock.millis());
    assert!(apart < 60_000, "the database's clock is {apart} ms away");
}

pub(crate) async fn many_tickets_are_looked_at_together(store: TestStore) {
    let all: Vec<NewTicket> = (1..=700).map(|number| ticket(number, Purpose::Probe)).collect();
    store.enqueue(&alice(), at(0), all).await.unwrap();
    let leased = store.lease(&alice(), at(0), lease_request("w", 2)).await.unwrap();
    store
        .complete(&alice(), at(1), leased[1].lease, report(2, 0.5))
        .await
        .unwrap();
    let ids: Vec<RolloutId> = (1..=800).map(RolloutId::from_u128).collect();
    let mut found = store.settled(&alice(), &ids).await.unwrap();
    found.sort_by_key(|(ticket, _)| ticket.rollout.id);
    assert_eq!(found.len(), 700);
    assert_eq!(found[0].0.state, TicketState::Leased);
    assert_eq!(found[1].0.state, TicketState::Completed);
    let outcomes: Vec<_> = found.iter().filter_map(|(_, outcome)| *outcome).collect();
    assert_eq!(outcomes, [report(2, 0.5).outcome]);
    assert!(
        store
            .settled(&Scope::user("bob").unwrap(), &ids)
            .await
            .unwrap()
            .is_empty()
    );
}

pub(crate) async fn work_is_found_wherever_it_waits(store: TestStore) {
    let everyone = ScopeParts::default();
    let found = async |tenant: &ScopeParts, now| store.scopes_with_tickets(tenant, at(now), 9).await.unwrap();
    assert!(found(&everyone, 0).await.is_empty());
    let bob = Scope::user("bob").unwrap();
    for scope in [alice(), bob.clone()] {
        store
            .enqueue(&scope, at(0), vec![ticket(1, Purpose::Probe)])
            .await
            .unwrap();
    }
    assert_eq!(store.waiting_tickets().await.unwrap(), 2);
    assert_eq!(found(&everyone, 0).await, [alice(), bob.clone()]);
    assert_eq!(found(bob.parts(), 0).await, std::slice::from_ref(&bob));
    store.lease(&alice(), at(0), lease_request("w", 1)).await.unwrap();
    assert_eq!(found(&everyone, 50).await, std::slice::from_ref(&bob));
    assert_eq!(
        found(&everyone, 100).await,
        [alice(), bob],
        "a lease that is over is work"
    );
}

pub(crate) async fn a_request_that_comes_again_is_answered_once(store: TestStore) {
    let key = AnswerKey {
        key: [1; 32],
        request: [2; 32],
    };
    let claim = async |key: &AnswerKey, now| store.claim_answer(key, at(now), at(now - 100)).await.unwrap();
    assert_eq!(claim(&key, 1_000).await, Claim::Granted);
    assert_eq!(claim(&key, 1_050).await, Claim::Underway);
    assert_eq!(
        claim(&key, 1_200).await,
        Claim::Granted,
        "whoever had it was killed"
    );
    store.settle_answer(&key, at(1_200), None).await.unwrap();
    assert_eq!(claim(&key, 1_201).await, Claim::Granted, "it was given back");
    let answer = KeptAnswer {
        status: 200,
        body: "{\"n\": 1}".into(),
    };
    store
        .settle_answer(&key, at(1_300), Some(answer.clone()))
        .await
        .unwrap();
    assert_eq!(claim(&key, 9_000).await, Claim::Answered(answer));
    let other = AnswerKey {
        request: [3; 32],
        ..key.clone()
    };
    assert_eq!(claim(&other, 9_000).await, Claim::OtherRequest);
    assert_eq!(store.forget_answers(at(1_300)).await.unwrap(), 0);
    assert_eq!(store.forget_answers(at(1_301)).await.unwrap(), 1);
    assert_eq!(claim(&other, 9_000).await, Claim::Granted);
}

#[tokio::test]
async fn postgres_shows_a_role_of_its_own_one_scope_and_no_other() {
    let Some(place) = PostgresSchema::new() else {
        return;
    };
    let (schema, owner) = (place.place().schema, place.open().await);
    add(
        &owner,
        vec![note(1, "alice's mug").with_embedding(embedding(&[1.0, 0.0]))],
    )
    .await;
    let role = format!("app_{schema}");
    place.operate(format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}"
    ));
    let mut as_role = place.place();
    as_role.url = as_role.url.replace("upliftmem@", &format!("{role}@"));
    {
        let store = open_postgres(as_role.clone(), limits()).await.unwrap();
        let bob = Scope::user("bob").unwrap();
        let new = note(2, "bob's mug").with_embedding(embedding(&[0.0, 1.0]));
        store.add_memories(&bob, at(0), vec![new]).await.unwrap();
        for (scope, number) in [(alice(), 1), (bob, 2)] {
            for query in [by_words("mug", 5), by_vector(&[1.0, 1.0], 5)] {
                assert_eq!(
                    found(&store.recall(&scope, at(0), query).await.unwrap()),
                    [number]
                );
            }
        }
        let everyone = ScopeParts::default();
        let of = store.scope_of_memory(&everyone, memory_id(1)).await.unwrap();
        assert_eq!(of, Some(alice()));
    }
    let counted = std::thread::spawn(move || {
        let mut client = postgres::Client::connect(&as_role.url, postgres::NoTls).unwrap();
        let schema = as_role.schema;
        let mut count = |before: &str| -> Vec<i64> {
            client.batch_execute(before).unwrap();
            ["memories", "embeddings", "lexicon"]
                .iter()
                .map(|table| {
                    let query = format!("SELECT count(*) FROM {schema}.{table}");
                    client.query_one(&query, &[]).unwrap().get(0)
                })
                .collect()
        };
        let nothing = count("SELECT 1");
        let number = format!("(SELECT number::text FROM {schema}.scopes WHERE key LIKE '%alice%')");
        let one = count(&format!("SELECT set_config('upliftmem.scope', {number}, false)"));
        (nothing, one)
    })
    .join()
    .unwrap();
    assert_eq!(
        counted.0,
        [0, 0, 0],
        "a statement that entered no scope sees nothing"
    );
    assert_eq!(counted.1[..2], [1, 1], "one that did sees that scope only");
    drop(owner);
    place.operate(format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}
