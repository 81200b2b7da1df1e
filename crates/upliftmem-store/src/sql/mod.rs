//! The statements of a store, written once for both databases.
//!
//! SQLite and PostgreSQL differ in how a connection is had, in a few clauses ([`Dialect`]) and in how words and
//! vectors are indexed; everything else is the same text run through [`Sql`].

pub(crate) mod answers;
pub(crate) mod embeddings;
pub(crate) mod graphs;
pub(crate) mod journal;
pub(crate) mod keys;
pub(crate) mod leaders;
pub(crate) mod leases;
pub(crate) mod memories;
pub(crate) mod migrations;
pub(crate) mod quotas;
pub(crate) mod recall;
pub(crate) mod reports;
pub(crate) mod retirement;
pub(crate) mod returns;
pub(crate) mod scopes;
pub(crate) mod store;
pub(crate) mod tasks;
pub(crate) mod tickets;
pub(crate) mod transfer;
pub(crate) mod words;

use std::future::Future;

use self::graphs::Graph;

use crate::{
    error::{Error, Result},
    index::ScopeIndexes,
    leadership::Held,
    signals::{Topic, Watch},
    time::Timestamp,
};

/// A value in or out of a statement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Int(value.into())
    }
}

impl From<Timestamp> for Value {
    fn from(value: Timestamp) -> Self {
        Self::Int(i64::try_from(value.millis()).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The bytes of an id; their order is creation order.
pub(crate) fn id(bits: u128) -> Value {
    Value::Bytes(bits.to_be_bytes().to_vec())
}

/// One row, column by column.
#[derive(Debug)]
pub(crate) struct Row(pub(crate) Vec<Value>);

impl Row {
    fn take(&mut self, column: usize) -> Value {
        std::mem::replace(&mut self.0[column], Value::Null)
    }

    pub(crate) fn int(&mut self, column: usize) -> Result<i64> {
        match self.take(column) {
            Value::Int(value) => Ok(value),
            other => Err(unexpected(column, "an integer", &other)),
        }
    }

    pub(crate) fn unsigned(&mut self, column: usize) -> Result<u64> {
        let value = self.int(column)?;
        u64::try_from(value).map_err(|_| Error::Corrupt(format!("column {column} is {value}")))
    }

    pub(crate) fn small(&mut self, column: usize) -> Result<u32> {
        let value = self.int(column)?;
        u32::try_from(value).map_err(|_| Error::Corrupt(format!("column {column} is {value}")))
    }

    pub(crate) fn real(&mut self, column: usize) -> Result<f64> {
        match self.take(column) {
            Value::Real(value) => Ok(value),
            other => Err(unexpected(column, "a number", &other)),
        }
    }

    pub(crate) fn text(&mut self, column: usize) -> Result<String> {
        match self.take(column) {
            Value::Text(value) => Ok(value),
            other => Err(unexpected(column, "a text", &other)),
        }
    }

    pub(crate) fn bytes(&mut self, column: usize) -> Result<Vec<u8>> {
        match self.take(column) {
            Value::Bytes(value) => Ok(value),
            other => Err(unexpected(column, "bytes", &other)),
        }
    }

    pub(crate) fn id(&mut self, column: usize) -> Result<u128> {
        let bytes = self.bytes(column)?;
        <[u8; 16]>::try_from(bytes.as_slice())
            .map(u128::from_be_bytes)
            .map_err(|_| Error::Corrupt(format!("column {column} has an id of {} bytes", bytes.len())))
    }

    pub(crate) fn time(&mut self, column: usize) -> Result<Timestamp> {
        self.unsigned(column).map(Timestamp::from_millis)
    }

    pub(crate) fn json<T: serde::de::DeserializeOwned>(&mut self, column: usize) -> Result<T> {
        let text = self.text(column)?;
        serde_json::from_str(&text).map_err(|error| Error::Corrupt(format!("column {column}: {error}")))
    }

    /// The value of `read`, unless the column is null.
    pub(crate) fn optional<T>(
        &mut self,
        column: usize,
        read: impl FnOnce(&mut Self, usize) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.0[column] == Value::Null {
            return Ok(None);
        }
        read(self, column).map(Some)
    }
}

fn unexpected(column: usize, wanted: &str, found: &Value) -> Error {
    Error::Corrupt(format!("column {column} should be {wanted} and is {found:?}"))
}

/// Which database it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// Ends a selection whose rows this transaction will change. SQLite has one writer at a time anyway.
    pub(crate) const fn for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR UPDATE",
        }
    }

    /// The same, passing over rows that another transaction is changing.
    pub(crate) const fn skip_locked(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR UPDATE SKIP LOCKED",
        }
    }
}

/// A transaction. Placeholders are `$1`, `$2`, ...
pub(crate) trait Sql {
    fn dialect(&self) -> Dialect;

    /// Runs a statement; says how many rows it changed.
    fn execute(&mut self, statement: &str, values: &[Value]) -> Result<u64>;

    /// Runs a query and hands over its rows one by one.
    fn each(&mut self, query: &str, values: &[Value], row: &mut dyn FnMut(Row) -> Result<()>) -> Result<()>;

    /// Runs several statements without values.
    fn script(&mut self, statements: &str) -> Result<()>;

    /// All rows of a query.
    fn all(&mut self, query: &str, values: &[Value]) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.each(query, values, &mut |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    /// The first row of a query.
    fn first(&mut self, query: &str, values: &[Value]) -> Result<Option<Row>> {
        Ok(self.all(query, values)?.into_iter().next())
    }
}

/// `$first, $first+1, ...`: placeholders of a list.
pub(crate) fn placeholders(first: usize, count: usize) -> String {
    let names: Vec<String> = (first..first + count)
        .map(|number| format!("${number}"))
        .collect();
    names.join(", ")
}

/// Where transactions come from.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Runs a closure on one snapshot.
    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Sql) -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + Send;

    /// Runs a closure in one transaction: durable when it returned a value, undone when it returned an error.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Sql) -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + Send;

    /// The indexes in this process, with the scopes that they are for.
    fn indexes(&self) -> ScopeIndexes;

    /// Makes a graph that was missed, in the background. A database that is searched in the process only needs none.
    fn build(&self, _graph: Graph) {}

    /// Takes a lock that one process has at a time, if nobody has it.
    fn hold(&self, name: String) -> impl Future<Output = Result<Option<Held>>> + Send;

    /// Tells everyone who listens that something was written.
    fn tell(&self, topic: Topic);

    /// Hears what is written from now on.
    fn listen(&self) -> Watch;

    /// What time it is where leases are compared.
    fn clock(&self) -> impl Future<Output = Result<Timestamp>> + Send;
}
