//! PostgreSQL with pgvector: many processes, one store.
//!
//! Writes are ordinary transactions; with the server's default `synchronous_commit = on` one that returned is on
//! disk. Connections are kept in a small pool and used from blocking threads.

mod binary;
mod connection;
mod graphs;
mod signals;
mod tls;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use postgres::{Client, IsolationLevel, Statement};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

pub(crate) use self::binary::lexemes;
use self::{connection::Transaction, graphs::GraphBuilder, signals::Signals, tls::Connector};
use crate::{
    Store, StoreLimits, Timestamp, Topic, Watch,
    error::{Error, Result},
    index::ScopeIndexes,
    leadership::Held,
    sql::{
        Backend, Sql,
        graphs::Graph,
        migrations::{SCHEMA_VERSION, migrate, version},
        store::SqlStore,
    },
};

/// How to reach a PostgreSQL store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresPlace {
    /// `postgresql://user:password@host:port/database`, or words `key=value`.
    ///
    /// `sslmode` is `disable`, `prefer` (which is usual), `require`, `verify-ca` or `verify-full`, as for libpq: only the
    /// last two check who the server is, and only `verify-full` its name. `sslrootcert` names a PEM file of trusted
    /// authorities; without it they are those that browsers trust.
    pub url: String,
    /// The schema that holds the tables, made if it is missing; `public` is the usual one.
    pub schema: String,
    /// Connections at most; a call that finds all in use waits.
    pub connections_max: usize,
    /// Scopes of at most so many memories are searched in this process, from a copy of their words and vectors that every
    /// question brings up to date; larger ones by the server.
    pub in_process_max: u64,
}

impl PostgresPlace {
    /// Scopes of so many memories take some 400 MiB of a process with 384 numbers a vector.
    pub const IN_PROCESS_MAX: u64 = 131_072;

    /// The usual schema, eight connections, and small scopes searched here.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: "public".into(),
            connections_max: 8,
            in_process_max: Self::IN_PROCESS_MAX,
        }
    }
}

/// Opens a store in PostgreSQL 15 or later with pgvector 0.8 or later.
pub async fn open_postgres(place: PostgresPlace, limits: StoreLimits) -> Result<Arc<dyn Store>> {
    let backend = tokio::task::spawn_blocking(move || Postgres::open(place))
        .await
        .map_err(|error| Error::Unavailable(error.to_string()))??;
    Ok(Arc::new(SqlStore {
        backend: Arc::new(backend),
        limits,
        fence: None,
    }))
}

/// A connection with the statements that were prepared on it.
struct Connection {
    client: Client,
    statements: HashMap<String, Statement>,
}

/// The database behind a store.
struct Postgres {
    pool: Arc<Pool>,
    signals: Signals,
    indexes: ScopeIndexes,
    graphs: GraphBuilder,
}

struct Pool {
    connector: Connector,
    schema: String,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Postgres {
    fn open(place: PostgresPlace) -> Result<Self> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if place.schema.is_empty() || !place.schema.chars().all(plain) {
            return Err(Error::invalid(
                "schema",
                "it may have small letters, digits and _ only",
            ));
        }
        let mut connector = Connector::new(&place.url)?;
        let config = connector.config();
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(std::time::Duration::from_secs(10));
        }
        let pool = Pool {
            connector,
            schema: place.schema,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(place.connections_max.max(1))),
        };
        // A role that may only read and write rows opens what an owner has made.
        let table = format!("{}.schema_version", pool.schema);
        let current = pool.run(IsolationLevel::ReadCommitted, |sql| {
            let found = sql.first("SELECT to_regclass($1)::text", &[table.as_str().into()])?;
            let exists = found.is_some_and(|mut row| row.text(0).is_ok());
            Ok(exists && version(sql)? == SCHEMA_VERSION)
        })?;
        if !current {
            pool.make()?;
        }
        Ok(Self {
            pool: Arc::new(pool),
            signals: Signals::default(),
            indexes: ScopeIndexes::up_to(place.in_process_max),
            graphs: GraphBuilder::default(),
        })
    }
}

impl Pool {
    /// Makes the schema, or brings it up to date.
    fn make(&self) -> Result<()> {
        let create = format!("CREATE SCHEMA IF NOT EXISTS {}", self.schema);
        self.run(IsolationLevel::ReadCommitted, move |sql| {
            sql.script("SELECT pg_advisory_xact_lock(129126427878004)")?;
            sql.script(&create)?;
            sql.script("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")?;
            migrate(sql)
        })
    }

    fn connect(&self) -> Result<Connection> {
        let mut client = self
            .connector
            .connect()
            .map_err(|error| Error::Unavailable(connection::message(&error)))?;
        // Our questions take milliseconds; compiling one takes hundreds.
        client
            .batch_execute(&format!(
                "SET search_path = {}, public; SET jit = off",
                self.schema
            ))
            .map_err(connection::error)?;
        Ok(Connection {
            client,
            statements: HashMap::new(),
        })
    }

    fn take(&self) -> Result<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop() {
            if !connection.client.is_closed() {
                return Ok(connection);
            }
        }
        drop(idle);
        self.connect()
    }

    /// Runs work in a transaction; a connection that failed is not used again.
    fn run<T>(&self, isolation: IsolationLevel, work: impl FnOnce(&mut dyn Sql) -> Result<T>) -> Result<T> {
        let mut connection = self.take()?;
        let Connection { client, statements } = &mut connection;
        let transaction = client
            .build_transaction()
            .isolation_level(isolation)
            .start()
            .map_err(connection::error)?;
        let mut sql = Transaction::new(transaction, statements);
        let answer = work(&mut sql);
        match &answer {
            Ok(_) => sql.commit()?,
            Err(_) => sql.rollback()?,
        }
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(connection);
        answer
    }

    async fn blocking<T: Send + 'static>(
        self: Arc<Self>,
        isolation: IsolationLevel,
        work: impl FnOnce(&mut dyn Sql) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        tokio::task::spawn_blocking(move || {
            let answer = self.run(isolation, work);
            drop(permit);
            // A client waits for its connection to end: that belongs on this thread too.
            drop(self);
            answer
        })
        .await
        .map_err(|error| Error::Database(format!("a connection failed: {error}")))?
    }
}

/// A connection that holds a lock.
struct HeldConnection(Option<Mutex<Client>>);

impl Drop for HeldConnection {
    fn drop(&mut self) {
        // Closing blocks, which an async thread must not.
        let client = self.0.take();
        std::thread::spawn(move || drop(client));
    }
}

/// The number under which the server knows a lock.
fn lock_number(schema: &str, name: &str) -> i64 {
    let digest = Sha256::digest(format!("{schema}\n{name}").as_bytes());
    let mut number = [0; 8];
    number.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(number)
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Closing blocks, which an async thread must not; the connections go to a thread of their own.
        let idle = std::mem::take(self.idle.get_mut().unwrap_or_else(PoisonError::into_inner));
        if !idle.is_empty() {
            std::thread::spawn(move || drop(idle));
        }
    }
}

impl Backend for Postgres {
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Sql) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let pool = Arc::clone(&self.pool);
        pool.blocking(IsolationLevel::RepeatableRead, work).await
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Sql) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let pool = Arc::clone(&self.pool);
        pool.blocking(IsolationLevel::ReadCommitted, work).await
    }

    fn indexes(&self) -> ScopeIndexes {
        self.indexes.clone()
    }

    fn build(&self, graph: Graph) {
        self.graphs.build(Arc::downgrade(&self.pool), graph);
    }

    /// An advisory lock of a session: the server gives it back when the connection ends, for whatever reason.
    async fn hold(&self, name: String) -> Result<Option<Held>> {
        let pool = Arc::clone(&self.pool);
        let work = move || {
            let mut client = pool
                .connector
                .connect()
                .map_err(|error| Error::Unavailable(connection::message(&error)))?;
            let key = lock_number(&pool.schema, &name);
            let row = client
                .query_one("SELECT pg_try_advisory_lock($1)", &[&key])
                .map_err(connection::error)?;
            let held: bool = row.try_get(0).map_err(connection::error)?;
            if held {
                return Ok(Some(Box::new(HeldConnection(Some(Mutex::new(client)))) as Held));
            }
            Ok(None)
        };
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| Error::Unavailable(error.to_string()))?
    }

    fn tell(&self, topic: Topic) {
        self.signals.tell(Arc::downgrade(&self.pool), topic);
    }

    fn listen(&self) -> Watch {
        self.signals.listen(Arc::downgrade(&self.pool))
    }

    async fn clock(&self) -> Result<Timestamp> {
        self.read(|sql| {
            let query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
            let row = sql.first(query, &[])?;
            row.map_or_else(|| Ok(Timestamp::now()), |mut row| row.time(0))
        })
        .await
    }
}
