//! Tickets, reports and the ledger.

use std::{collections::BTreeSet, time::Duration};

use upliftmem_core::{Purpose, RolloutId};
use upliftmem_store::*;

use crate::support::*;

pub(crate) async fn a_ticket_is_leased_completed_and_counted_once(store: TestStore) {
    let tickets = vec![
        ticket(1, Purpose::Reference),
        ticket(2, Purpose::Probe),
        ticket(3, Purpose::Evaluation),
    ];
    assert_eq!(store.enqueue(&alice(), at(0), tickets.clone()).await.unwrap(), 3);
    assert_eq!(
        store.enqueue(&alice(), at(9), tickets.clone()).await.unwrap(),
        0,
        "asking again is not more"
    );
    let mut other = ticket(1, Purpose::Reference);
    other.rollout.seed = 1;
    assert!(matches!(
        store.enqueue(&alice(), at(0), vec![other]).await,
        Err(Error::Conflict { .. })
    ));

    let leased = store.lease(&alice(), at(0), lease_request("w", 2)).await.unwrap();
    assert_eq!(
        leased.iter().map(|l| l.rollout.clone()).collect::<Vec<_>>(),
        [tickets[0].rollout.clone(), tickets[1].rollout.clone()]
    );
    assert_eq!(leased[0].expires_at, at(100));
    let state = store
        .ticket(&alice(), RolloutId::from_u128(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (state.state, state.attempts, state.worker.as_deref()),
        (TicketState::Leased, 1, Some("w"))
    );

    let done = async |report| store.complete(&alice(), at(50), leased[0].lease, report).await;
    assert_eq!(done(report(1, 0.5)).await.unwrap(), Completion::Recorded);
    assert_eq!(done(report(1, 0.5)).await.unwrap(), Completion::AlreadyRecorded);
    assert!(
        matches!(done(report(1, 0.6)).await, Err(Error::Conflict { .. })),
        "an outcome is never replaced"
    );
    let stored = store
        .report(&alice(), RolloutId::from_u128(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stored.report, report(1, 0.5));
    assert_eq!((stored.attempt, stored.completed_at), (1, at(50)));

    let waiting = TicketFilter {
        state: Some(TicketState::Waiting),
        ..TicketFilter::default()
    };
    assert_eq!(store.list_tickets(&alice(), waiting, 10).await.unwrap().len(), 1);
    let ledger = store.ledger(&alice()).await.unwrap();
    assert_eq!(ledger.line(Purpose::Reference).executions, 1);
    assert_eq!(ledger.total().executions, 1);
    assert!((ledger.total().cost - 2.5).abs() < 1e-12);
}

pub(crate) async fn a_lease_that_is_not_kept_alive_goes_to_another(store: TestStore) {
    store
        .enqueue(&alice(), at(0), vec![ticket(1, Purpose::Probe)])
        .await
        .unwrap();
    let first = store
        .lease(&alice(), at(0), lease_request("a", 5))
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        store
            .lease(&alice(), at(99), lease_request("b", 5))
            .await
            .unwrap(),
        []
    );
    store
        .heartbeat(&alice(), at(99), first.lease, Duration::from_millis(100))
        .await
        .unwrap();
    assert_eq!(
        store
            .lease(&alice(), at(198), lease_request("b", 5))
            .await
            .unwrap(),
        []
    );
    let second = store
        .lease(&alice(), at(199), lease_request("b", 5))
        .await
        .unwrap()
        .remove(0);
    assert_eq!(second.lease.attempt, 2);
    let error = store
        .heartbeat(&alice(), at(200), first.lease, Duration::from_millis(1))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    assert!(
        store.fail(&alice(), first.lease, "late").await.is_err(),
        "only the holder gives up"
    );
    assert_eq!(store.expire_leases(&alice(), at(1_000)).await.unwrap(), 1);
    let ticket = store
        .ticket(&alice(), RolloutId::from_u128(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(ticket.state, TicketState::Failed, "two attempts were allowed");
}

pub(crate) async fn what_a_killed_worker_held_comes_back_untried(store: TestStore) {
    store
        .enqueue(&alice(), at(0), vec![ticket(1, Purpose::Probe)])
        .await
        .unwrap();
    // As many kills as there are attempts, and one more.
    for attempt in 1..=3 {
        let leased = store
            .lease(&alice(), at(attempt), lease_request("a", 5))
            .await
            .unwrap()
            .remove(0);
        assert_eq!(u64::from(leased.lease.attempt), attempt);
        assert_eq!(store.take_back(&alice(), "b").await.unwrap(), 0);
        assert_eq!(store.take_back(&alice(), "a").await.unwrap(), 1);
        let late = store
            .heartbeat(&alice(), at(attempt), leased.lease, Duration::from_secs(1))
            .await;
        assert!(late.is_err(), "it is not its any more");
    }
    let leased = store.lease(&alice(), at(9), lease_request("b", 5)).await.unwrap();
    assert_eq!(leased.len(), 1);
}

pub(crate) async fn a_late_report_is_taken_unless_somebody_finished(store: TestStore) {
    store
        .enqueue(
            &alice(),
            at(0),
            vec![ticket(1, Purpose::Probe), ticket(2, Purpose::Probe)],
        )
        .await
        .unwrap();
    let slow = store
        .lease(&alice(), at(0), lease_request("slow", 2))
        .await
        .unwrap();
    let fast = store
        .lease(&alice(), at(500), lease_request("fast", 2))
        .await
        .unwrap();
    assert_eq!(fast.len(), 2);
    // The first ticket: the slow worker is late, but nobody finished. What it paid for is kept.
    let late = store
        .complete(&alice(), at(510), slow[0].lease, report(1, 1.0))
        .await
        .unwrap();
    assert_eq!(late, Completion::Recorded);
    let error = store
        .complete(&alice(), at(520), fast[0].lease, report(1, 1.0))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    // The second: the new holder finished first.
    store
        .complete(&alice(), at(520), fast[1].lease, report(2, 0.0))
        .await
        .unwrap();
    let error = store
        .complete(&alice(), at(530), slow[1].lease, report(2, 0.0))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    assert_eq!(store.ledger(&alice()).await.unwrap().total().executions, 2);
    let reports = store.list_reports(&alice(), None, 10).await.unwrap();
    assert_eq!(reports.iter().map(|r| r.attempt).collect::<Vec<_>>(), [1, 2]);
}

pub(crate) async fn failures_are_retried_up_to_the_limit(store: TestStore) {
    store
        .enqueue(&alice(), at(0), vec![ticket(1, Purpose::Probe)])
        .await
        .unwrap();
    let first = store
        .lease(&alice(), at(0), lease_request("w", 1))
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        store.fail(&alice(), first.lease, "out of memory").await.unwrap(),
        AfterFailure::WillRetry
    );
    assert_eq!(
        store.fail(&alice(), first.lease, "out of memory").await.unwrap(),
        AfterFailure::WillRetry
    );
    let second = store
        .lease(&alice(), at(0), lease_request("w", 1))
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        store.fail(&alice(), second.lease, "again").await.unwrap(),
        AfterFailure::GivenUp
    );
    assert_eq!(
        store
            .lease(&alice(), at(9_999), lease_request("w", 1))
            .await
            .unwrap(),
        []
    );
    let ticket = store
        .ticket(&alice(), RolloutId::from_u128(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (ticket.state, ticket.last_error.as_deref()),
        (TicketState::Failed, Some("again"))
    );
    assert_eq!(store.ledger(&alice()).await.unwrap().total().executions, 0);
}

pub(crate) async fn workers_at_once_never_get_the_same_ticket(store: TestStore) {
    let tickets = (1..=60).map(|number| ticket(number, Purpose::Probe)).collect();
    store.enqueue(&alice(), at(0), tickets).await.unwrap();
    let workers: Vec<_> = (0..6)
        .map(|worker| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut got = Vec::new();
                loop {
                    let request = lease_request(&format!("w{worker}"), 4);
                    let leased = store.lease(&alice(), at(0), request).await.unwrap();
                    if leased.is_empty() {
                        return got;
                    }
                    for leased in leased {
                        let number = leased.lease.rollout.as_u128();
                        store
                            .complete(&alice(), at(1), leased.lease, report(number, 1.0))
                            .await
                            .unwrap();
                        got.push(number);
                    }
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.unwrap());
    }
    assert_eq!(
        all.len(),
        all.iter().collect::<BTreeSet<_>>().len(),
        "no ticket twice"
    );
    // On PostgreSQL a worker may find every ticket held by others and leave early; none may be lost.
    let rest = store
        .lease(&alice(), at(0), lease_request("last", 100))
        .await
        .unwrap();
    assert_eq!(all.len() + rest.len(), 60);
}

pub(crate) async fn an_agents_own_execution_is_recorded_once(store: TestStore) {
    let own = rollout(7, &[1, 2], Purpose::Retrieval);
    let record = async |report| store.record_execution(&alice(), at(5), own.clone(), report).await;
    assert_eq!(record(report(7, 1.0)).await.unwrap(), Completion::Recorded);
    assert_eq!(record(report(7, 1.0)).await.unwrap(), Completion::AlreadyRecorded);
    assert!(matches!(
        record(report(7, 0.0)).await,
        Err(Error::Conflict { .. })
    ));
    assert!(matches!(record(report(8, 1.0)).await, Err(Error::Invalid(_))));
    assert_eq!(
        store
            .ledger(&alice())
            .await
            .unwrap()
            .line(Purpose::Retrieval)
            .executions,
        1
    );
    assert_eq!(
        store.lease(&alice(), at(0), lease_request("w", 1)).await.unwrap(),
        []
    );
}

pub(crate) async fn wrong_reports_change_nothing(store: TestStore) {
    store
        .enqueue(&alice(), at(0), vec![ticket(1, Purpose::Probe)])
        .await
        .unwrap();
    let lease = |rollout, attempt| Lease {
        rollout: RolloutId::from_u128(rollout),
        attempt,
    };
    let complete = async |lease, report| store.complete(&alice(), at(0), lease, report).await.unwrap_err();
    assert!(
        matches!(complete(lease(1, 1), report(1, 1.0)).await, Error::Invalid(_)),
        "never handed out"
    );
    assert!(matches!(
        complete(lease(2, 1), report(2, 1.0)).await,
        Error::NotFound { .. }
    ));
    let leased = store
        .lease(&alice(), at(0), lease_request("w", 1))
        .await
        .unwrap()
        .remove(0);
    assert!(
        matches!(complete(leased.lease, report(2, 1.0)).await, Error::Invalid(_)),
        "another rollout's outcome"
    );
    let mut huge = report(1, 1.0);
    huge.trajectory[0].observation = "x".repeat(9 * 1024 * 1024);
    let error = complete(leased.lease, huge).await;
    assert!(error.to_string().contains("trajectory_bytes_max"), "{error}");
    assert_eq!(
        store.report(&alice(), RolloutId::from_u128(1)).await.unwrap(),
        None
    );
    let mut never = ticket(3, Purpose::Probe);
    never.attempts_max = 0;
    assert!(store.enqueue(&alice(), at(0), vec![never]).await.is_err());
    assert!(store.lease(&alice(), at(0), lease_request("w", 0)).await.is_err());
}

pub(crate) async fn many_are_completed_at_once_each_by_itself(store: TestStore) {
    let tickets = (1..=3).map(|number| ticket(number, Purpose::Reference)).collect();
    store.enqueue(&alice(), at(0), tickets).await.unwrap();
    let leased = store.lease(&alice(), at(0), lease_request("w", 3)).await.unwrap();
    store
        .complete(&alice(), at(1), leased[1].lease, report(2, 0.5))
        .await
        .unwrap();
    let never = Lease {
        rollout: RolloutId::from_u128(3),
        attempt: 7,
    };
    let batch = vec![
        (never, report(3, 1.0)),
        (leased[2].lease, report(3, 1.0)),
        (leased[1].lease, report(2, 0.5)),
        (leased[0].lease, report(1, 0.25)),
        (leased[0].lease, report(1, 0.75)),
    ];
    let answers = store.complete_many(&alice(), at(2), batch).await.unwrap();
    assert!(
        answers[0]
            .as_ref()
            .is_err_and(|error| error.to_string().contains("attempt 7"))
    );
    assert_eq!(*answers[1].as_ref().unwrap(), Completion::Recorded);
    assert_eq!(*answers[2].as_ref().unwrap(), Completion::AlreadyRecorded);
    assert_eq!(*answers[3].as_ref().unwrap(), Completion::Recorded);
    assert!(
        answers[4]
            .as_ref()
            .is_err_and(|error| error.to_string().contains("never replaced"))
    );
    assert_eq!(store.ledger(&alice()).await.unwrap().total().executions, 3);
    let kept = store
        .report(&alice(), RolloutId::from_u128(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(kept.report, report(1, 0.25));
}
