//! SQLite: one file, one writer, many readers.
//!
//! The file is in WAL mode with `synchronous = FULL`: a write that returned has been synced, and survives a crash of
//! the process, of the system and of the power. Writers that wait together share one sync.

mod checkpoints;
mod connection;
mod locks;
mod writer;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;

use self::{checkpoints::Checkpoints, connection::Transaction, locks::Locks, writer::Writer};
use crate::{
    Store, StoreLimits, Timestamp, Topic, Watch,
    error::{Error, Result},
    index::ScopeIndexes,
    leadership::Held,
    signals::Hub,
    sql::{
        Backend, Sql,
        migrations::{SCHEMA_VERSION, migrate, version},
        store::SqlStore,
    },
};

/// Readers that are kept open.
const READERS_KEPT: usize = 8;

/// Where a SQLite store lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SqlitePlace {
    /// In this file, made if it is missing.
    File(PathBuf),
    /// In memory, gone when the store is dropped.
    Memory,
}

impl fmt::Display for SqlitePlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(out),
            Self::Memory => out.write_str("SQLite in memory"),
        }
    }
}

/// Opens a store in SQLite.
pub async fn open_sqlite(place: SqlitePlace, limits: StoreLimits) -> Result<Arc<dyn Store>> {
    let name = place.to_string();
    let backend = tokio::task::spawn_blocking(move || Sqlite::open(place))
        .await
        .map_err(|error| Error::Unavailable(error.to_string()))
        .flatten()
        .map_err(|error| error.at(&name))?;
    Ok(Arc::new(SqlStore {
        backend: Arc::new(backend),
        limits,
        fence: None,
    }))
}

/// The database behind a store.
#[derive(Debug)]
struct Sqlite {
    /// What errors call it.
    name: String,
    writer: Writer,
    readers: Option<Arc<Readers>>,
    indexes: ScopeIndexes,
    locks: Arc<Locks>,
    hub: Hub,
}

#[derive(Debug)]
struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Sqlite {
    fn open(place: SqlitePlace) -> Result<Self> {
        let name = place.to_string();
        let mut indexes = ScopeIndexes::default();
        let mut locks = Locks::default();
        let (connection, readers) = match place {
            SqlitePlace::Memory => (Connection::open_in_memory().map_err(connection::error)?, None),
            SqlitePlace::File(path) => {
                let connection = Connection::open(&path).map_err(connection::error)?;
                // While another process has it open, SQLite opens what may only be read without a word.
                if connection.is_readonly("main").map_err(connection::error)? {
                    return Err(Error::Unavailable(
                        "may only be read; let this user write the file and its folder".into(),
                    ));
                }
                indexes = ScopeIndexes::beside(path.clone());
                locks = Locks::beside(&path);
                let readers = Readers {
                    path,
                    idle: Mutex::default(),
                };
                (connection, Some(Arc::new(readers)))
            }
        };
        configure(&connection)?;
        // Looking takes no lock: a store can be read while another process writes for long.
        if !is_current(&mut Transaction::new(&connection))? {
            connection
                .execute_batch("BEGIN IMMEDIATE")
                .map_err(connection::error)?;
            migrate(&mut Transaction::new(&connection))?;
            connection.execute_batch("COMMIT").map_err(connection::error)?;
        }
        let checkpoints = readers
            .as_ref()
            .map(|readers| Checkpoints::start(&readers.path, &connection))
            .transpose()?;
        Ok(Self {
            name,
            writer: Writer::start(connection, checkpoints)?,
            readers,
            indexes,
            locks: Arc::new(locks),
            hub: Hub::default(),
        })
    }
}

/// Whether a database has this program's schema already.
fn is_current(sql: &mut dyn Sql) -> Result<bool> {
    let table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'";
    Ok(sql.first(table, &[])?.is_some() && version(sql)? == SCHEMA_VERSION)
}

fn configure(connection: &Connection) -> Result<()> {
    connection.set_prepared_statement_cache_capacity(128);
    connection
        .execute_batch(
            "PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON; PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY;",
        )
        .map_err(connection::error)
}

impl Readers {
    fn take(&self) -> Result<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match idle {
            Some(connection) => Ok(connection),
            None => open_reader(&self.path),
        }
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < READERS_KEPT {
            idle.push(connection);
        }
    }
}

fn open_reader(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path).map_err(connection::error)?;
    configure(&connection)?;
    connection
        .execute_batch("PRAGMA query_only = ON")
        .map_err(connection::error)?;
    Ok(connection)
}

impl Backend for Sqlite {
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Sql) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // A database in memory has one connection; its readers queue with the writers.
        let Some(readers) = self.readers.clone() else {
            return self.write(work).await;
        };
        let read = move || {
            let connection = readers.take()?;
            connection::run(&connection, "BEGIN")?;
            let answer = work(&mut Transaction::new(&connection));
            if connection::run(&connection, "COMMIT").is_ok() {
                readers.give_back(connection);
            }
            answer
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| Error::Database(format!("a reader failed: {error}")))
            .flatten()
            .map_err(|error| error.at(&self.name))
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Sql) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.writer.run(work).await.map_err(|error| error.at(&self.name))
    }

    fn indexes(&self) -> ScopeIndexes {
        self.indexes.clone()
    }

    async fn hold(&self, name: String) -> Result<Option<Held>> {
        let locks = Arc::clone(&self.locks);
        tokio::task::spawn_blocking(move || locks.hold(&name))
            .await
            .map_err(|error| Error::Unavailable(error.to_string()))?
    }

    fn tell(&self, topic: Topic) {
        self.hub.tell(topic);
    }

    fn listen(&self) -> Watch {
        self.hub.listen()
    }

    async fn clock(&self) -> Result<Timestamp> {
        Ok(Timestamp::now())
    }
}
