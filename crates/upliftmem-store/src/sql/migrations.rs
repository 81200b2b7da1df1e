//! The schema and its versions.

use super::{Dialect, Sql};
use crate::error::{Error, Result};

/// One step of the schema: what is common, then what is one database's own.
struct Migration {
    common: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        common: include_str!("../../migrations/0001_tables.sql"),
        sqlite: include_str!("../../migrations/0001_sqlite.sql"),
        postgres: include_str!("../../migrations/0001_postgres.sql"),
    },
    Migration {
        common: "",
        sqlite: include_str!("../../migrations/0002_sqlite.sql"),
        postgres: "",
    },
    Migration {
        common: include_str!("../../migrations/0003_keys.sql"),
        sqlite: "",
        postgres: "",
    },
    Migration {
        common: include_str!("../../migrations/0004_tables.sql"),
        sqlite: "",
        postgres: include_str!("../../migrations/0004_postgres.sql"),
    },
    Migration {
        common: include_str!("../../migrations/0005_tables.sql"),
        sqlite: include_str!("../../migrations/0005_sqlite.sql"),
        postgres: include_str!("../../migrations/0005_postgres.sql"),
    },
];

/// The schema version this program writes.
pub const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// The version of a database that has one.
pub(crate) fn version(sql: &mut dyn Sql) -> Result<i64> {
    match sql.first("SELECT max(version) FROM schema_version", &[])? {
        Some(mut row) => Ok(row.optional(0, super::Row::int)?.unwrap_or(0)),
        None => Ok(0),
    }
}

/// Brings a database to [`SCHEMA_VERSION`]; refuses one that is newer. One transaction.
pub(crate) fn migrate(sql: &mut dyn Sql) -> Result<()> {
    if sql.dialect() == Dialect::Postgres {
        // Two processes that start at once must not both migrate. The number spells "uplift".
        sql.script("SELECT pg_advisory_xact_lock(129126427878004)")?;
    }
    sql.script("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")?;
    let found = version(sql)?;
    if found > SCHEMA_VERSION {
        return Err(Error::NewerSchema {
            found,
            supported: SCHEMA_VERSION,
        });
    }
    for (version, migration) in (1..).zip(MIGRATIONS) {
        if version <= found {
            continue;
        }
        match sql.dialect() {
            Dialect::Sqlite => {
                let numbered = migration
                    .common
                    .replace("ROW_NUMBER", "INTEGER PRIMARY KEY AUTOINCREMENT")
                    .replace(" VECTOR ", " BLOB ");
                sql.script(&numbered)?;
                sql.script(migration.sqlite)?;
            }
            Dialect::Postgres => {
                let numbered = migration
                    .common
                    .replace("ROW_NUMBER", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY");
                sql.script(&numbered)?;
                sql.script(migration.postgres)?;
            }
        }
        sql.execute(
            "INSERT INTO schema_version (version) VALUES ($1)",
            &[version.into()],
        )?;
    }
    Ok(())
}
