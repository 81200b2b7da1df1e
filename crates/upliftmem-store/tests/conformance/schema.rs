//! Versions of the schema, and what a database survives.

use rusqlite::Connection;
use upliftmem_store::*;

use crate::support::*;

#[tokio::test]
async fn a_newer_sqlite_database_is_refused_and_left_alone() {
    let place = SqliteFile::new();
    drop(place.open().await);
    let database = Connection::open(place.path()).unwrap();
    database
        .execute("INSERT INTO schema_version (version) VALUES (99)", [])
        .unwrap();
    let opened = open_sqlite(SqlitePlace::File(place.path()), limits()).await;
    let error = opened.map(drop).unwrap_err();
    assert!(matches!(error, Error::NewerSchema { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("schema version 99"), "{error}");
}

#[tokio::test]
async fn a_newer_postgres_database_is_refused() {
    let Some(place) = PostgresSchema::new() else {
        return;
    };
    drop(place.open().await);
    let schema = place.place().schema;
    place.operate(format!(
        "INSERT INTO {schema}.schema_version (version) VALUES (99)"
    ));
    let error = open_postgres(place.place(), limits())
        .await
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, Error::NewerSchema { found: 99, .. }), "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let place = SqliteFile::new();
    std::fs::write(place.path(), "this is a letter, not a database".repeat(100)).unwrap();
    let error = open_sqlite(SqlitePlace::File(place.path()), limits())
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(error.actor(), Actor::Operator, "{error}");
    let missing = SqlitePlace::File(place.path().join("no/such/folder.db"));
    let error = open_sqlite(missing, limits()).await.map(drop).unwrap_err();
    assert_eq!(error.actor(), Actor::Operator, "{error}");
}

#[tokio::test]
async fn what_a_file_holds_is_there_after_it_is_opened_again() {
    let place = SqliteFile::new();
    let new = note(1, "the mug").with_embedding(embedding(&[1.0, 0.0]));
    add(&place.open().await, vec![new]).await;
    let again = place.open().await;
    for query in [by_words("mug", 5), by_vector(&[1.0, 0.0], 5)] {
        assert_eq!(found(&again.recall(&alice(), at(0), query).await.unwrap()), [1]);
    }
    let (one, two) = (place.open().await, place.open().await);
    add(
        &one,
        vec![note(2, "second mug").with_embedding(embedding(&[0.0, 1.0]))],
    )
    .await;
    let hits = two
        .recall(&alice(), at(0), by_vector(&[0.0, 1.0], 5))
        .await
        .unwrap();
    assert_eq!(found(&hits), [2, 1], "a write of another process is seen");
}

#[tokio::test]
async fn history_can_not_be_rewritten() {
    let place = SqliteFile::new();
    let store = place.open().await;
    let entries = crate::journal::one_of_each(&store, &alice()).await;
    store.append(&alice(), at(0), entries).await.unwrap();
    let database = Connection::open(place.path()).unwrap();
    for statement in [
        "UPDATE reports SET performance = 1",
        "DELETE FROM reports",
        "UPDATE journal SET entry = '{}'",
        "DELETE FROM journal",
    ] {
        let error = database.execute(statement, []).unwrap_err();
        assert!(error.to_string().contains("append-only"), "{statement}: {error}");
    }
}

/// What `examples/fixture.rs` wrote is there, and can be worked with.
async fn check_fixture(store: TestStore) {
    let all = store
        .list_memories(&alice(), MemoryFilter::default(), 9)
        .await
        .unwrap();
    let statuses: Vec<_> = all
        .iter()
        .map(|stored| (stored.memory.text.as_str(), stored.status))
        .collect();
    assert_eq!(
        statuses,
        [
            ("the blue mug", MemoryStatus::Superseded),
            ("the red mug", MemoryStatus::Active),
            ("a potato", MemoryStatus::Active)
        ]
    );
    assert_eq!(
        found(&store.recall(&alice(), at(0), by_words("mug", 5)).await.unwrap()),
        [2]
    );
    assert_eq!(
        found(
            &store
                .recall(&alice(), at(0), by_vector(&[1.0, 3.0], 5))
                .await
                .unwrap()
        ),
        [3, 2]
    );
    assert_eq!(store.ledger(&alice()).await.unwrap().total().executions, 1);
    assert_eq!(
        store
            .list_entries(&alice(), JournalFilter::default(), 9)
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(store.list_tasks(&alice(), None, 9).await.unwrap().len(), 1);
    let leased = store.lease(&alice(), at(0), lease_request("w", 9)).await.unwrap();
    assert_eq!(leased.len(), 1);
    store
        .complete(&alice(), at(0), leased[0].lease, report(2, 1.0))
        .await
        .unwrap();
    let more = vec![note(4, "a green mug"), note(5, "the red mug")];
    assert_eq!(
        add(&store, more).await,
        [ItemStatus::Stored, ItemStatus::Duplicate { of: memory_id(2) }]
    );
    assert_eq!(
        found(&store.recall(&alice(), at(0), by_words("mug", 5)).await.unwrap()),
        [2, 4]
    );
}

/// Dumps of every released schema by their versions.
const SQLITE_DUMPS: [(i64, &str); 5] = [
    (1, include_str!("../../fixtures/v1_sqlite.sql")),
    (2, include_str!("../../fixtures/v2_sqlite.sql")),
    (3, include_str!("../../fixtures/v3_sqlite.sql")),
    (4, include_str!("../../fixtures/v4_sqlite.sql")),
    (5, include_str!("../../fixtures/v5_sqlite.sql")),
];
const POSTGRES_DUMPS: [(i64, &str); 5] = [
    (1, include_str!("../../fixtures/v1_postgres.sql")),
    (2, include_str!("../../fixtures/v2_postgres.sql")),
    (3, include_str!("../../fixtures/v3_postgres.sql")),
    (4, include_str!("../../fixtures/v4_postgres.sql")),
    (5, include_str!("../../fixtures/v5_postgres.sql")),
];

#[test]
fn every_released_schema_has_a_dump() {
    for dumps in [SQLITE_DUMPS, POSTGRES_DUMPS] {
        let versions = dumps.map(|(version, _)| version);
        assert!(versions.into_iter().eq(1..=SCHEMA_VERSION), "{versions:?}");
    }
}

#[tokio::test]
async fn sqlite_databases_of_every_released_schema_are_upgraded() {
    for (version, dump) in SQLITE_DUMPS {
        let place = SqliteFile::new();
        let database = Connection::open(place.path()).unwrap();
        database.execute_batch(dump).unwrap();
        let newest = "SELECT max(version) FROM schema_version";
        let found = || database.query_row(newest, [], |row| row.get::<_, i64>(0));
        assert_eq!(found().unwrap(), version);
        check_fixture(place.open().await).await;
        assert_eq!(found().unwrap(), SCHEMA_VERSION);
    }
}

#[tokio::test]
async fn postgres_databases_of_every_released_schema_are_upgraded() {
    for (version, dump) in POSTGRES_DUMPS {
        let Some(place) = PostgresSchema::new() else {
            return;
        };
        let schema = place.place().schema;
        // Under the lock that every store takes for it.
        let lock = "SELECT pg_advisory_xact_lock(129126427878004)";
        place.operate(format!(
            "{lock}; CREATE EXTENSION IF NOT EXISTS vector SCHEMA public"
        ));
        place.operate(dump.replace(&format!("fixture_v{version}"), &schema));
        check_fixture(place.open().await).await;
    }
}
