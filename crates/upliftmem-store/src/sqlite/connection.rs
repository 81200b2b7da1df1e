//! [`Sql`] on a SQLite connection.

use rusqlite::{
    Connection, ErrorCode,
    types::{ToSql, ToSqlOutput, ValueRef},
};

use crate::{
    error::{Error, Result},
    sql::{Dialect, Row, Sql, Value},
};

/// Statements on a connection whose transaction someone else opened.
pub(super) struct Transaction<'a> {
    connection: &'a Connection,
}

impl<'a> Transaction<'a> {
    pub(super) const fn new(connection: &'a Connection) -> Self {
        Self { connection }
    }
}

impl Sql for Transaction<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, statement: &str, values: &[Value]) -> Result<u64> {
        let mut prepared = self
            .connection
            .prepare_cached(&numbered(statement))
            .map_err(error)?;
        let changed = prepared
            .execute(rusqlite::params_from_iter(values))
            .map_err(error)?;
        Ok(changed as u64)
    }

    fn each(&mut self, query: &str, values: &[Value], row: &mut dyn FnMut(Row) -> Result<()>) -> Result<()> {
        let mut prepared = self.connection.prepare_cached(&numbered(query)).map_err(error)?;
        let columns = prepared.column_count();
        let mut rows = prepared
            .query(rusqlite::params_from_iter(values))
            .map_err(error)?;
        while let Some(found) = rows.next().map_err(error)? {
            let mut read = Vec::with_capacity(columns);
            for column in 0..columns {
                read.push(value(found.get_ref(column).map_err(error)?)?);
            }
            row(Row(read))?;
        }
        Ok(())
    }

    fn script(&mut self, statements: &str) -> Result<()> {
        self.connection.execute_batch(statements).map_err(error)
    }
}

/// Runs a statement that begins or ends something. Such statements come several times a search: they are not read anew.
pub(super) fn run(connection: &Connection, statement: &str) -> Result<()> {
    let mut prepared = connection.prepare_cached(statement).map_err(error)?;
    prepared.execute([]).map(drop).map_err(error)
}

/// `?1` for `$1`: SQLite numbers `$1` by where it first stands.
fn numbered(statement: &str) -> String {
    statement.replace('$', "?")
}

fn value(read: ValueRef<'_>) -> Result<Value> {
    Ok(match read {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Text(bytes) => Value::Text(
            String::from_utf8(bytes.to_vec()).map_err(|error| Error::Corrupt(format!("a text: {error}")))?,
        ),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    })
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// What SQLite says, by who must act. The place is added by whoever knows it.
#[expect(clippy::needless_pass_by_value, reason = "it is passed to map_err")]
pub(super) fn error(error: rusqlite::Error) -> Error {
    let unavailable = |way_out: &str| Error::Unavailable(format!("{error}; {way_out}"));
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::Busy(format!("{error} by another process"))
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::Corrupt(error.to_string()),
        Some(ErrorCode::DiskFull) => unavailable("nothing was written; free some room and try again"),
        Some(ErrorCode::SystemIoFailure) => unavailable(
            "nothing was written; look whether the disk is full, a file may not grow further or the disk fails",
        ),
        Some(ErrorCode::CannotOpen) => {
            unavailable("look whether its folder exists and this user may write there")
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            unavailable("let this user write the file and its folder")
        }
        _ => Error::Database(error.to_string()),
    }
}

/// The same failure for another piece of work that shared it.
pub(super) fn shared(failure: &Error) -> Error {
    match failure {
        Error::Busy(problem) => Error::Busy(problem.clone()),
        Error::Unavailable(problem) => Error::Unavailable(problem.clone()),
        Error::Corrupt(problem) => Error::Corrupt(problem.clone()),
        Error::Database(problem) => Error::Database(problem.clone()),
        other => Error::Database(other.to_string()),
    }
}
