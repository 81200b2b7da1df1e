//! [`Sql`] on a PostgreSQL transaction.

use std::{collections::HashMap, error::Error as _};

use postgres::{
    Statement,
    error::SqlState,
    fallible_iterator::FallibleIterator,
    types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked},
};

use super::binary::{self, Bytes};
use crate::{
    error::{Error, Result},
    sql::{Dialect, Row, Sql, Value},
};

/// Prepared statements that are kept on a connection.
const STATEMENTS_KEPT: usize = 256;

/// A transaction, and the statements prepared on its connection.
pub(super) struct Transaction<'a> {
    transaction: postgres::Transaction<'a>,
    statements: &'a mut HashMap<String, Statement>,
}

impl<'a> Transaction<'a> {
    pub(super) const fn new(
        transaction: postgres::Transaction<'a>,
        statements: &'a mut HashMap<String, Statement>,
    ) -> Self {
        Self {
            transaction,
            statements,
        }
    }

    pub(super) fn commit(self) -> Result<()> {
        self.transaction.commit().map_err(error)
    }

    pub(super) fn rollback(self) -> Result<()> {
        self.transaction.rollback().map_err(error)
    }

    fn prepare(&mut self, text: &str) -> Result<Statement> {
        if let Some(statement) = self.statements.get(text) {
            return Ok(statement.clone());
        }
        let statement = self.transaction.prepare(text).map_err(error)?;
        if self.statements.len() >= STATEMENTS_KEPT {
            self.statements.clear();
        }
        self.statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

impl Sql for Transaction<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, statement: &str, values: &[Value]) -> Result<u64> {
        let statement = self.prepare(statement)?;
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        self.transaction.execute(&statement, &values).map_err(error)
    }

    fn each(&mut self, query: &str, values: &[Value], row: &mut dyn FnMut(Row) -> Result<()>) -> Result<()> {
        let statement = self.prepare(query)?;
        let mut rows = self.transaction.query_raw(&statement, values).map_err(error)?;
        while let Some(found) = rows.next().map_err(error)? {
            let mut read = Vec::with_capacity(found.len());
            for column in 0..found.len() {
                read.push(value(&found, column)?);
            }
            row(Row(read))?;
        }
        Ok(())
    }

    fn script(&mut self, statements: &str) -> Result<()> {
        self.transaction.batch_execute(statements).map_err(error)
    }
}

fn value(row: &postgres::Row, column: usize) -> Result<Value> {
    let kind = row.columns()[column].type_();
    Ok(match *kind {
        Type::INT8 => row.try_get::<_, Option<i64>>(column).map_err(error)?.into(),
        Type::INT4 => row
            .try_get::<_, Option<i32>>(column)
            .map_err(error)?
            .map(i64::from)
            .into(),
        Type::FLOAT8 => row.try_get::<_, Option<f64>>(column).map_err(error)?.into(),
        Type::TEXT | Type::VARCHAR => row.try_get::<_, Option<String>>(column).map_err(error)?.into(),
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(column).map_err(error)?.into(),
        _ if Bytes::accepts(kind) => {
            let raw: Option<Bytes> = row.try_get(column).map_err(error)?;
            raw.map(|Bytes(bytes)| bytes).into()
        }
        ref other => return Err(Error::Database(format!("column {column} has the type {other}"))),
    })
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) => value.to_sql_checked(kind, out),
            Self::Real(value) => value.to_sql_checked(kind, out),
            Self::Text(text) => text.to_sql_checked(kind, out),
            Self::Bytes(bytes) if binary::is_vector(kind) => binary::write(bytes, out),
            Self::Bytes(bytes) => bytes.to_sql_checked(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        // Each kind of value is checked against the column when it is written.
        true
    }

    to_sql_checked!();
}

/// What the server or the connection says, with its cause.
pub(super) fn message(error: &postgres::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// What PostgreSQL says, by who must act.
#[expect(clippy::needless_pass_by_value, reason = "it is passed to map_err")]
pub(super) fn error(error: postgres::Error) -> Error {
    let text = message(&error);
    match error.code() {
        Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => Error::Busy(text),
        Some(&SqlState::DISK_FULL) => Error::Unavailable(format!(
            "{text}; nothing was written; free some room on the server"
        )),
        Some(code) if code.code().starts_with("53") || code.code().starts_with("57") => Error::Busy(text),
        Some(_) => Error::Database(text),
        None => Error::Unavailable(text),
    }
}
