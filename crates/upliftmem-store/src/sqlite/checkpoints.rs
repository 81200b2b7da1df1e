//! Brings what was written from the log into the database, beside the thread that writes.
//!
//! SQLite would do it in the transaction that fills the log, and whoever waits for that transaction waits for hundreds of
//! pages to be written and synced as well: a tenth of a second, several times a second under load.

use std::{path::Path, sync::mpsc};

use rusqlite::Connection;

use super::connection::error;
use crate::error::{Error, Result};

/// Pages in the log that are worth bringing over.
const PAGES: i64 = 1_000;
/// Pages in the log at which the writer helps. The log begins anew only when all of it has been brought over at a moment
/// when nobody writes; under a load without such a moment the writer makes one, with little left to bring.
const PAGES_MAX: i64 = 16 * PAGES;
/// Times that the log is looked at again at once, for what was written meanwhile.
const ROUNDS: usize = 4;

/// The way to the thread. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Checkpoints {
    written: mpsc::SyncSender<()>,
}

impl Checkpoints {
    /// For the file that `writer` is the writing connection of.
    pub(super) fn start(path: &Path, writer: &Connection) -> Result<Self> {
        writer
            .pragma_update(None, "wal_autocheckpoint", PAGES_MAX)
            .map_err(error)?;
        let connection = Connection::open(path).map_err(error)?;
        super::configure(&connection)?;
        // One word is enough: it says that there is something to look at.
        let (written, words) = mpsc::sync_channel(1);
        std::thread::Builder::new()
            .name("upliftmem-checkpoints".into())
            .spawn(move || {
                while words.recv().is_ok() {
                    // A checkpoint that fails loses nothing: the log keeps what it has, and the next one tries again.
                    drop(bring_over(&connection));
                }
            })
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(Self { written })
    }

    /// Something was written.
    pub(super) fn look(&self) {
        // Full means that it will look anyway.
        drop(self.written.try_send(()));
    }
}

fn bring_over(connection: &Connection) -> rusqlite::Result<()> {
    if waiting(connection, "NOOP")? < PAGES {
        return Ok(());
    }
    for _ in 0..ROUNDS {
        waiting(connection, "PASSIVE")?;
        if waiting(connection, "NOOP")? == 0 {
            break;
        }
    }
    Ok(())
}

/// Pages of the log that are not in the database after a checkpoint of this kind.
fn waiting(connection: &Connection, kind: &str) -> rusqlite::Result<i64> {
    let statement = format!("PRAGMA wal_checkpoint({kind})");
    connection.query_row(&statement, [], |row| {
        let (log, brought): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(log - brought)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(connection: &Connection, rows: usize) {
        connection.execute_batch("BEGIN").unwrap();
        for _ in 0..rows {
            connection
                .execute("INSERT INTO t VALUES (zeroblob(4000))", [])
                .unwrap();
        }
        connection.execute_batch("COMMIT").unwrap();
    }

    #[test]
    fn a_long_log_is_brought_over_and_a_short_one_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let writer = Connection::open(&path).unwrap();
        super::super::configure(&writer).unwrap();
        writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        writer.execute_batch("CREATE TABLE t (x BLOB)").unwrap();
        let other = Connection::open(&path).unwrap();
        fill(&writer, 10);
        bring_over(&other).unwrap();
        assert!(waiting(&other, "NOOP").unwrap() > 0);
        fill(&writer, 1_200);
        bring_over(&other).unwrap();
        assert_eq!(waiting(&other, "NOOP").unwrap(), 0);
    }

    #[test]
    fn the_log_stays_bounded_while_someone_writes_all_the_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let writer = Connection::open(&path).unwrap();
        super::super::configure(&writer).unwrap();
        writer.execute_batch("CREATE TABLE t (x BLOB)").unwrap();
        let checkpoints = Checkpoints::start(&path, &writer).unwrap();
        let mut largest = 0;
        for _ in 0..400 {
            fill(&writer, 100);
            checkpoints.look();
            largest = largest.max(std::fs::metadata(path.with_extension("db-wal")).unwrap().len());
        }
        // 40,000 pages were written: without an end to the log it would have all of them.
        assert!(largest < 30_000 * 4_096, "{largest}");
    }
}
