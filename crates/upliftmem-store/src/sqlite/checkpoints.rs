//! Brings what was written from the log into the database, beside the thread that writes.
//!
//! SQLite would do it in the transaction that fills the log, and whoever waits for that transaction waits for hundreds of
//! pages to be written and synced as well: a tenth of a second, several times a second under load.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use rusqlite::Connection;

use super::connection::error;
use crate::error::{Error, Result};

/// Pages in the log that are worth bringing over.
const PAGES: i64 = 1_000;
/// Length of the log at which the writer helps. The log begins anew only when all of it has been brought over at a moment
/// when nobody writes; under a load without such a moment the writer makes one, right after most was brought over.
const HELP_FROM: i64 = 4 * PAGES;
/// Length of the log at which SQLite's own way is better than a longer one.
const LONGEST: i64 = 64 * PAGES;
/// Times that the log is looked at again at once, for what was written meanwhile.
const ROUNDS: usize = 3;

/// The way to the thread. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Checkpoints {
    words: mpsc::SyncSender<()>,
    help: Arc<AtomicBool>,
}

/// The log, in pages.
#[derive(Debug, Clone, Copy)]
struct Log {
    length: i64,
    /// Those that are not in the database yet.
    waiting: i64,
}

impl Checkpoints {
    /// For the file that `writer` is the writing connection of.
    pub(super) fn start(path: &Path, writer: &Connection) -> Result<Self> {
        writer
            .pragma_update(None, "wal_autocheckpoint", LONGEST)
            .map_err(error)?;
        let connection = Connection::open(path).map_err(error)?;
        super::configure(&connection)?;
        // One word is enough: it says that there is something to look at.
        let (words, heard) = mpsc::sync_channel(1);
        let help = Arc::new(AtomicBool::new(false));
        let wanted = Arc::clone(&help);
        std::thread::Builder::new()
            .name("upliftmem-checkpoints".into())
            .spawn(move || {
                while heard.recv().is_ok() {
                    // A checkpoint that fails loses nothing: the log keeps what it has, and the next one tries again.
                    wanted.store(bring_over(&connection).unwrap_or(false), Ordering::Relaxed);
                }
            })
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(Self { words, help })
    }

    /// The writer has written something, and nobody waits for it any more.
    pub(super) fn written(&self, writer: &Connection) {
        if self.help.swap(false, Ordering::Relaxed) {
            drop(checkpoint(writer, "PASSIVE"));
        }
        // Full means that it will look anyway.
        let _ = self.words.try_send(());
    }
}

/// Says whether the writer should help.
fn bring_over(connection: &Connection) -> rusqlite::Result<bool> {
    let mut log = checkpoint(connection, "NOOP")?;
    if log.waiting < PAGES {
        return Ok(false);
    }
    for _ in 0..ROUNDS {
        checkpoint(connection, "PASSIVE")?;
        log = checkpoint(connection, "NOOP")?;
        if log.waiting == 0 {
            break;
        }
    }
    Ok(log.length >= HELP_FROM)
}

/// The log after a checkpoint of this kind.
fn checkpoint(connection: &Connection, kind: &str) -> rusqlite::Result<Log> {
    let statement = format!("PRAGMA wal_checkpoint({kind})");
    connection.query_row(&statement, [], |row| {
        let (length, brought): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(Log {
            length,
            waiting: length - brought,
        })
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
        assert!(checkpoint(&other, "NOOP").unwrap().waiting > 0);
        fill(&writer, 1_200);
        bring_over(&other).unwrap();
        assert_eq!(checkpoint(&other, "NOOP").unwrap().waiting, 0);
    }

    #[test]
    fn a_log_that_was_brought_over_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let writer = Connection::open(&path).unwrap();
        super::super::configure(&writer).unwrap();
        writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        writer.execute_batch("CREATE TABLE t (x BLOB)").unwrap();
        let other = Connection::open(&path).unwrap();
        fill(&writer, 5_000);
        assert!(
            bring_over(&other).unwrap(),
            "a log this long wants the writer's help"
        );
        assert_eq!(checkpoint(&writer, "PASSIVE").unwrap().waiting, 0);
        fill(&writer, 10);
        let log = checkpoint(&other, "NOOP").unwrap();
        assert!(log.length < HELP_FROM, "{log:?}");
    }
}
