//! The process that is killed: runs what it is told and acknowledges what the store acknowledged.

use std::io::{BufRead, Write};

use upliftmem_core::{Cost, MemoryId, MemorySet, Outcome, Performance, Purpose, Rollout, RolloutId, TaskId};
use upliftmem_store::*;

use crate::operation::{Answer, Group, Operation, text, vector};

pub(crate) fn scope() -> Scope {
    Scope::user("soak").unwrap()
}

pub(crate) fn generation() -> EmbedderGeneration {
    EmbedderGeneration {
        name: "soak".into(),
        dimension: 8,
        digest: "0".into(),
    }
}

pub(crate) fn run(place: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = crate::open(place).await;
        for line in std::io::stdin().lock().lines() {
            let group: Group = serde_json::from_str(&line.unwrap()).unwrap();
            let mut running = tokio::task::JoinSet::new();
            for (position, operation) in group.0.into_iter().enumerate() {
                let store = store.clone();
                running.spawn(async move {
                    let answer = perform(&*store, operation).await;
                    let answer = answer.unwrap_or_else(|error| Answer::Refused(error.to_string()));
                    let line = serde_json::to_string(&(position, answer)).unwrap();
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "{line}").unwrap();
                    out.flush().unwrap();
                });
            }
            while running.join_next().await.is_some() {}
        }
    });
}

async fn perform(store: &dyn Store, operation: Operation) -> Result<Answer> {
    let scope = &scope();
    let now = Timestamp::from_millis(1_000);
    match operation {
        Operation::Add(numbers) => {
            let memory = |number: &u64| {
                let embedding = Embedding::new(generation(), vector(*number)).unwrap();
                NewMemory::note(MemoryId::from_u128((*number).into()), text(*number))
                    .with_embedding(embedding)
            };
            let results = store
                .add_memories(scope, now, numbers.iter().map(memory).collect())
                .await?;
            if let Some(bad) = results.iter().find(|result| result.status != ItemStatus::Stored) {
                return Ok(Answer::Refused(format!("{bad:?}")));
            }
        }
        Operation::Delete(number) => {
            store
                .delete_memory(scope, MemoryId::from_u128(number.into()))
                .await?;
        }
        Operation::Quarantine(number) => {
            store
                .quarantine_memory(scope, now, MemoryId::from_u128(number.into()), "soak")
                .await?;
        }
        Operation::Enqueue(numbers) => {
            let ticket = |number: &u64| NewTicket {
                rollout: rollout(*number),
                attempts_max: 3,
            };
            store
                .enqueue(scope, now, numbers.iter().map(ticket).collect())
                .await?;
        }
        Operation::Lease(tickets) => {
            let request = LeaseRequest {
                worker: "soak".into(),
                tickets,
                duration: std::time::Duration::from_secs(3_600),
                purpose: None,
            };
            let leased = store.lease(scope, now, request).await?;
            let number = |id: RolloutId| u64::try_from(id.as_u128()).unwrap();
            let leased = leased
                .iter()
                .map(|leased| (number(leased.lease.rollout), leased.lease.attempt));
            return Ok(Answer::Leased(leased.collect()));
        }
        Operation::Complete(number, attempt) if number % 2 == 0 => {
            let one = vec![(lease(number, attempt), report(number))];
            for answer in store.complete_many(scope, now, one).await? {
                answer?;
            }
        }
        Operation::Complete(number, attempt) => {
            store
                .complete(scope, now, lease(number, attempt), report(number))
                .await?;
        }
        Operation::Fail(number, attempt) => {
            store.fail(scope, lease(number, attempt), "soak").await?;
        }
        Operation::Append(number) => {
            let event = TrainingEvent {
                key: number.to_string(),
                event: "soak".into(),
                detail: serde_json::Map::new(),
            };
            store
                .append(scope, now, vec![JournalEntry::TrainingEvent(event)])
                .await?;
        }
    }
    Ok(Answer::Done)
}

fn lease(number: u64, attempt: u32) -> Lease {
    Lease {
        rollout: RolloutId::from_u128(number.into()),
        attempt,
    }
}

pub(crate) fn rollout(number: u64) -> Rollout {
    Rollout {
        id: RolloutId::from_u128(number.into()),
        task: TaskId::from_name("soak"),
        set: MemorySet::EMPTY,
        purpose: Purpose::Reference,
        executor: "soak".into(),
        seed: number,
    }
}

pub(crate) fn report(number: u64) -> ExecutionReport {
    ExecutionReport {
        outcome: Outcome {
            rollout: RolloutId::from_u128(number.into()),
            performance: Performance::new(0.25).unwrap(),
            cost: Cost::new(number as f64).unwrap(),
        },
        trajectory: Vec::new(),
        diagnostics: serde_json::Map::new(),
    }
}
