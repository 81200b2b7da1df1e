//! Stores to test, and short ways to say things.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use upliftmem_core::{
    Cost, MemoryId, MemorySet, Outcome, Performance, Purpose, Rollout, RolloutId, Task, TaskId,
};
use upliftmem_store::*;

pub(crate) type TestStore = Arc<dyn Store>;

pub(crate) struct SqliteFile(tempfile::TempDir);

impl SqliteFile {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.0.path().join("store.db")
    }

    pub(crate) async fn open(&self) -> TestStore {
        open_sqlite(SqlitePlace::File(self.path()), limits())
            .await
            .unwrap()
    }
}

pub(crate) async fn sqlite_memory() -> TestStore {
    open_sqlite(SqlitePlace::Memory, limits()).await.unwrap()
}

/// A schema of its own in the test server, dropped at the end.
pub(crate) struct PostgresSchema(PostgresPlace);

impl PostgresSchema {
    pub(crate) fn new() -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Ok(url) = std::env::var("UPLIFTMEM_TEST_POSTGRES") else {
            eprintln!("skipped: UPLIFTMEM_TEST_POSTGRES is not set; `cargo xtask ci` starts a PostgreSQL");
            return None;
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Some(Self(PostgresPlace {
            schema: format!("test_{}_{number}", std::process::id()),
            connections_max: 4,
            ..PostgresPlace::new(url)
        }))
    }

    pub(crate) fn place(&self) -> PostgresPlace {
        self.0.clone()
    }

    pub(crate) async fn open(&self) -> TestStore {
        open_postgres(self.place(), limits()).await.unwrap()
    }

    /// Opens it with every scope searched by the server, as large ones are.
    pub(crate) async fn open_searched_by_server(&self) -> TestStore {
        let place = PostgresPlace {
            in_process_max: 0,
            ..self.place()
        };
        open_postgres(place, limits()).await.unwrap()
    }

    /// Runs statements as an operator would.
    pub(crate) fn operate(&self, statements: String) {
        self.attempt(statements).unwrap();
    }

    fn attempt(&self, statements: String) -> Result<(), postgres::Error> {
        let url = self.0.url.clone();
        let work = move || postgres::Client::connect(&url, postgres::NoTls)?.batch_execute(&statements);
        std::thread::spawn(work).join().unwrap()
    }
}

impl Drop for PostgresSchema {
    fn drop(&mut self) {
        let statement = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.0.schema);
        // It may meet an index that is still being made, and then comes again.
        let met = |_: &usize| self.attempt(statement.clone()).is_err();
        let tries = (0..100)
            .take_while(met)
            .map(|_| std::thread::sleep(Duration::from_millis(100)));
        assert!(tries.count() < 100, "{statement}");
    }
}

/// Small limits, so that tests reach them.
pub(crate) fn limits() -> StoreLimits {
    StoreLimits {
        text_bytes_max: 1_000,
        metadata_bytes_max: 500,
        batch_items_max: 20_000,
        ..StoreLimits::default()
    }
}

pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(crate) fn alice() -> Scope {
    Scope::user("alice").unwrap()
}

pub(crate) fn memory_id(number: u128) -> MemoryId {
    MemoryId::from_u128(number)
}

pub(crate) fn note(number: u128, text: &str) -> NewMemory {
    NewMemory::note(memory_id(number), text)
}

pub(crate) fn generation(name: &str, dimension: u32) -> EmbedderGeneration {
    EmbedderGeneration {
        name: name.into(),
        dimension,
        digest: "d1".into(),
    }
}

pub(crate) fn embedding(vector: &[f32]) -> Embedding {
    Embedding::new(generation("test", vector.len() as u32), vector.to_vec()).unwrap()
}

pub(crate) fn task(name: &str) -> Task {
    Task::new(name, format!("do {name}"))
}

pub(crate) fn rollout(number: u128, set: &[u128], purpose: Purpose) -> Rollout {
    Rollout {
        id: RolloutId::from_u128(number),
        task: TaskId::from_name("t"),
        set: set.iter().map(|&member| memory_id(member)).collect::<MemorySet>(),
        purpose,
        executor: "executor".into(),
        seed: u64::MAX - number as u64,
    }
}

pub(crate) fn ticket(number: u128, purpose: Purpose) -> NewTicket {
    NewTicket {
        rollout: rollout(
            number,
            if purpose == Purpose::Reference { &[] } else { &[1] },
            purpose,
        ),
        attempts_max: 2,
    }
}

pub(crate) fn report(number: u128, performance: f64) -> ExecutionReport {
    ExecutionReport {
        outcome: Outcome {
            rollout: RolloutId::from_u128(number),
            performance: Performance::new(performance).unwrap(),
            cost: Cost::new(2.5).unwrap(),
        },
        trajectory: vec![TrajectoryStep {
            action: "look \0 around".into(),
            observation: "a mug".into(),
        }],
        diagnostics: serde_json::Map::new(),
    }
}

pub(crate) fn by_words(text: &str, candidates: usize) -> RecallQuery {
    RecallQuery {
        text: text.into(),
        embedding: None,
        candidates,
        mode: RecallMode::Lexical,
    }
}

pub(crate) fn by_vector(vector: &[f32], candidates: usize) -> RecallQuery {
    RecallQuery {
        text: String::new(),
        embedding: Some(embedding(vector)),
        candidates,
        mode: RecallMode::Dense,
    }
}

pub(crate) fn found(recall: &Recall) -> Vec<u128> {
    recall.hits.iter().map(|hit| hit.id.as_u128()).collect()
}

pub(crate) async fn add(store: &TestStore, batch: Vec<NewMemory>) -> Vec<ItemStatus> {
    let results = store.add_memories(&alice(), at(1_000), batch).await.unwrap();
    results.into_iter().map(|result| result.status).collect()
}

pub(crate) fn lease_request(worker: &str, tickets: usize) -> LeaseRequest {
    LeaseRequest {
        worker: worker.into(),
        tickets,
        duration: Duration::from_millis(100),
        purpose: None,
    }
}
