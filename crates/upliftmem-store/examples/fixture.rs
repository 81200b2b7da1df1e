//! Fills a store with a little of everything: the content of the dumps in `fixtures/`.
//!
//! ```text
//! cargo run -p upliftmem-store --example fixture -- sqlite new.db
//! sqlite3 new.db .dump > crates/upliftmem-store/fixtures/v5_sqlite.sql
//! cargo run -p upliftmem-store --example fixture -- postgres postgresql://... fixture_v5
//! pg_dump --no-owner --inserts --schema=fixture_v5 postgresql://... > crates/upliftmem-store/fixtures/v5_postgres.sql
//! ```
//!
//! A dump is made when a schema version is released, and never again; `tests/conformance/schema.rs` upgrades it.

use upliftmem_core::{
    Cost, MemoryId, MemorySet, Outcome, Performance, Purpose, Reference, ReferenceId, Rollout, RolloutId,
    Task, TaskId, Utility,
};
use upliftmem_store::{
    EmbedderGeneration, Embedding, ExecutionReport, JournalEntry, NewMemory, NewTicket, PostgresPlace, Scope,
    SqlitePlace, Store, StoreLimits, Timestamp, open_postgres, open_sqlite,
};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let store = match words.as_slice() {
        ["sqlite", path] => open_sqlite(SqlitePlace::File(path.into()), StoreLimits::default()).await?,
        ["postgres", url, schema] => {
            let place = PostgresPlace {
                schema: (*schema).to_owned(),
                ..PostgresPlace::new(*url)
            };
            open_postgres(place, StoreLimits::default()).await?
        }
        _ => return Err("usage: fixture sqlite PATH | postgres URL SCHEMA".into()),
    };
    fill(&*store).await
}

async fn fill(store: &dyn Store) -> Result<(), Failure> {
    let scope = Scope::user("alice")?;
    let now = Timestamp::from_millis(1_000);
    let generation = EmbedderGeneration {
        name: "test".into(),
        dimension: 2,
        digest: "d1".into(),
    };
    let mut memories = Vec::new();
    for (number, text) in [(1, "the blue mug"), (2, "the red mug"), (3, "a potato")] {
        let embedding = Embedding::new(generation.clone(), vec![1.0, f32::from(u8::try_from(number)?)])?;
        memories.push(NewMemory::note(MemoryId::from_u128(number), text).with_embedding(embedding));
    }
    store.add_memories(&scope, now, memories).await?;
    store
        .supersede_memory(&scope, now, MemoryId::from_u128(1), MemoryId::from_u128(2))
        .await?;
    store
        .put_tasks(&scope, vec![Task::new("t", "find the mug")])
        .await?;
    let rollout = |number| Rollout {
        id: RolloutId::from_u128(number),
        task: TaskId::from_name("t"),
        set: MemorySet::EMPTY,
        purpose: Purpose::Reference,
        executor: "executor".into(),
        seed: 7,
    };
    let report = ExecutionReport {
        outcome: Outcome {
            rollout: RolloutId::from_u128(1),
            performance: Performance::new(0.5)?,
            cost: Cost::new(3.0)?,
        },
        trajectory: Vec::new(),
        diagnostics: serde_json::Map::new(),
    };
    store.record_execution(&scope, now, rollout(1), report).await?;
    let waiting = NewTicket {
        rollout: rollout(2),
        attempts_max: 3,
    };
    store.enqueue(&scope, now, vec![waiting]).await?;
    let reference = Reference {
        id: ReferenceId::from_u128(1),
        task: TaskId::from_name("t"),
        executor: "executor".into(),
        utility: Utility::new(0.5)?,
    };
    store
        .append(&scope, now, vec![JournalEntry::Reference(reference)])
        .await?;
    Ok(())
}
