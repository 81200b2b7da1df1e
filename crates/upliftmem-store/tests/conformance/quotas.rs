//! What a tenant may use.

use upliftmem_core::Purpose;
use upliftmem_store::*;

use crate::support::*;

fn memories_max(most: u64) -> QuotaLimits {
    QuotaLimits {
        memories_max: Some(most),
        ..QuotaLimits::default()
    }
}

fn executions_max(most: u64) -> QuotaLimits {
    QuotaLimits {
        executions_max: Some(most),
        ..QuotaLimits::default()
    }
}

/// A scope of alice's that is not the one of her name alone.
fn her_run() -> Scope {
    Scope::new(ScopeParts {
        run_id: Some("r".into()),
        ..alice().parts().clone()
    })
    .unwrap()
}

/// What the tenant has used: memories, executions.
async fn used(store: &TestStore, tenant: &ScopeParts) -> (u64, u64) {
    let all = store.list_quotas(None, 100).await.unwrap();
    let quota = all.into_iter().find(|quota| quota.tenant == *tenant).unwrap();
    (quota.memories, quota.executions)
}

fn refused<T: std::fmt::Debug>(answer: Result<T>, what: &str, allowed: u64, got: u64) {
    let error = answer.unwrap_err();
    assert_eq!(error.actor(), Actor::Caller);
    assert!(error.to_string().contains("upliftmem quotas set"), "{error}");
    match error {
        Error::Quota {
            what: named,
            allowed: most,
            got: found,
            ..
        } => assert_eq!((named, most, found), (what, allowed, got)),
        other => panic!("{other}"),
    }
}

pub(crate) async fn memories_of_a_tenant_are_counted_and_bounded(store: TestStore) {
    let (alice, run, bob) = (alice(), her_run(), Scope::user("bob").unwrap());
    let tenant = alice.parts().clone();
    let put = async |scope: &Scope, batch| store.add_memories(scope, at(0), batch).await;
    put(&alice, vec![note(1, "one")]).await.unwrap();
    put(&run, vec![note(2, "two")]).await.unwrap();
    put(&bob, vec![note(3, "three")]).await.unwrap();
    let quota = store.set_quota(&tenant, memories_max(3)).await.unwrap();
    assert_eq!(
        (quota.memories, quota.executions),
        (2, 0),
        "what there was counts"
    );

    refused(
        put(&run, vec![note(4, "four"), note(5, "five")]).await,
        "memories",
        3,
        4,
    );
    let listed = store
        .list_memories(&run, MemoryFilter::default(), 9)
        .await
        .unwrap();
    assert_eq!(listed.len(), 1, "a batch is refused whole");
    // What is not stored is not counted.
    put(&run, vec![note(4, "four"), note(6, "two"), note(7, "")])
        .await
        .unwrap();
    assert_eq!(used(&store, &tenant).await, (3, 0));
    refused(put(&alice, vec![note(8, "eight")]).await, "memories", 3, 4);
    put(&bob, vec![note(9, "nine")]).await.unwrap();

    // A new text in place of an old one is one more; deleting makes room.
    let mut instead = note(10, "ten");
    instead.supersedes = Some(memory_id(1));
    refused(put(&alice, vec![instead]).await, "memories", 3, 4);
    assert!(store.delete_memory(&run, memory_id(4)).await.unwrap());
    assert!(!store.delete_memory(&run, memory_id(4)).await.unwrap());
    assert_eq!(used(&store, &tenant).await, (2, 0));

    let lines = "{\"text\": \"eleven\"}\n{\"text\": \"twelve\"}\n";
    let import = async |lines: &str| {
        let mut next = 100;
        let mint: MintId = Box::new(move |_| {
            next += 1;
            memory_id(next)
        });
        let input = std::io::Cursor::new(lines.to_owned());
        let source = json_lines(ExportKind::Memories, "lines", input, store.limits(), at(0), mint);
        store.import(&alice, at(0), source, Box::new(|_| {})).await
    };
    refused(import(lines).await, "memories", 3, 4);
    import("{\"text\": \"eleven\"}\n{\"text\": \"one\"}\n")
        .await
        .unwrap();
    assert_eq!(used(&store, &tenant).await, (3, 0));

    assert!(store.remove_quota(&tenant).await.unwrap());
    assert!(!store.remove_quota(&tenant).await.unwrap());
    put(&alice, vec![note(11, "free")]).await.unwrap();
}

pub(crate) async fn executions_that_are_asked_for_are_bounded_and_outcomes_never(store: TestStore) {
    let (alice, everyone) = (alice(), ScopeParts::default());
    let ask = async |numbers: std::ops::Range<u128>| {
        let tickets = numbers.map(|number| ticket(number, Purpose::Probe)).collect();
        store.enqueue(&alice, at(0), tickets).await
    };
    ask(1..3).await.unwrap();
    let own = rollout(50, &[1], Purpose::Retrieval);
    store
        .record_execution(&alice, at(0), own, report(50, 1.0))
        .await
        .unwrap();
    let quota = store.set_quota(&everyone, executions_max(3)).await.unwrap();
    assert_eq!(quota.executions, 2, "an agent's own are not counted");
    assert_eq!(quota.executions_left(), Some(1));
    refused(ask(1..5).await, "executions", 3, 4);
    assert_eq!(
        ask(1..4).await.unwrap(),
        1,
        "those that were asked for are not counted again"
    );
    refused(ask(4..5).await, "executions", 3, 4);
    let leased = store.lease(&alice, at(0), lease_request("w", 9)).await.unwrap();
    assert_eq!(leased.len(), 3);
    for ticket in leased {
        let number = ticket.lease.rollout.as_u128();
        store
            .complete(&alice, at(0), ticket.lease, report(number, 1.0))
            .await
            .unwrap();
    }
    let own = rollout(51, &[1], Purpose::Retrieval);
    store
        .record_execution(&alice, at(0), own, report(51, 1.0))
        .await
        .unwrap();
    assert_eq!(used(&store, &everyone).await, (0, 3));
    let raised = store.set_quota(&everyone, executions_max(4)).await.unwrap();
    assert_eq!(raised.executions, 3, "counted anew, it is the same");
    ask(4..5).await.unwrap();
}

pub(crate) async fn every_tenant_that_a_scope_is_within_counts(store: TestStore) {
    let run = her_run();
    let of_run = ScopeParts {
        run_id: Some("r".into()),
        ..ScopeParts::default()
    };
    for (tenant, most) in [(alice().parts(), 9), (&of_run, 1), (&ScopeParts::default(), 9)] {
        store.set_quota(tenant, memories_max(most)).await.unwrap();
    }
    let put = async |scope: &Scope, batch| store.add_memories(scope, at(0), batch).await;
    put(&alice(), vec![note(1, "one")]).await.unwrap();
    put(&run, vec![note(2, "two")]).await.unwrap();
    refused(put(&run, vec![note(3, "three")]).await, "memories", 1, 2);
    assert_eq!(used(&store, alice().parts()).await, (2, 0));
    assert_eq!(used(&store, &of_run).await, (1, 0));
    assert_eq!(
        used(&store, &ScopeParts::default()).await,
        (2, 0),
        "a refusal counts nowhere"
    );
    let over = async |parts: &ScopeParts| store.quotas_over(parts).await.unwrap().len();
    assert_eq!(over(run.parts()).await, 3);
    assert_eq!(over(Scope::user("bob").unwrap().parts()).await, 1);
    let first = store.list_quotas(None, 2).await.unwrap();
    let rest = store.list_quotas(Some(&first[1].tenant), 2).await.unwrap();
    assert_eq!((first.len(), rest.len()), (2, 1));
    let nothing = ScopeParts {
        user_id: Some(String::new()),
        ..ScopeParts::default()
    };
    assert!(store.set_quota(&nothing, memories_max(1)).await.is_err());
}

pub(crate) async fn writers_at_once_never_pass_a_quota_together(store: TestStore) {
    store.set_quota(alice().parts(), memories_max(10)).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8_u128 {
        let store = store.clone();
        let scope = if writer % 2 == 0 { alice() } else { her_run() };
        writers.spawn(async move {
            let mut stored = 0;
            for number in 0..4 {
                let new = note(writer * 100 + number, &format!("{writer} {number}"));
                match store.add_memories(&scope, at(0), vec![new]).await {
                    Ok(_) => stored += 1,
                    Err(Error::Quota { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            stored
        });
    }
    let stored: Vec<i32> = writers.join_all().await;
    assert_eq!(stored.iter().sum::<i32>(), 10);
    assert_eq!(used(&store, alice().parts()).await, (10, 0));
}
