//! The one thread that writes.
//!
//! Whatever waits when it is free shares one transaction and one sync; each piece of work has a savepoint of its
//! own, so that one that fails takes nothing with it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError, mpsc},
};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{
    checkpoints::Checkpoints,
    connection::{Transaction, run, shared},
};
use crate::{
    error::{Error, Result},
    sql::Sql,
};

/// Pieces of work that share one sync at most.
const SHARED_MAX: usize = 128;

/// Work, and the word to whoever waits for it.
trait Job: Send {
    /// Runs; says whether its changes are to be kept.
    fn run(&mut self, sql: &mut dyn Sql) -> bool;
    /// Answers, after the changes are durable or with why they are not.
    fn answer(self: Box<Self>, failure: Option<&Error>);
}

struct Work<F, T> {
    work: Option<F>,
    answer: Option<Result<T>>,
    to: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnOnce(&mut dyn Sql) -> Result<T> + Send> Job for Work<F, T> {
    fn run(&mut self, sql: &mut dyn Sql) -> bool {
        // A caller's code that panics (a progress report, a file's reader) must not end the writer.
        self.answer = self.work.take().map(|work| {
            catch_unwind(AssertUnwindSafe(|| work(sql)))
                .unwrap_or_else(|_| Err(Error::Database("the work panicked; nothing was written".into())))
        });
        matches!(self.answer, Some(Ok(_)))
    }

    fn answer(self: Box<Self>, failure: Option<&Error>) {
        let answer = match (failure, self.answer) {
            (None, Some(answer)) => answer,
            (Some(_), Some(Err(error))) => Err(error),
            (Some(failure), _) => Err(shared(failure)),
            (None, None) => Err(Error::Database("the work was not run".into())),
        };
        // Whoever asked may have stopped waiting; the write is durable all the same.
        drop(self.to.send(answer));
    }
}

/// The way to the writing thread. The thread ends when the last piece of work is done after this is dropped.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Mutex<mpsc::Sender<Box<dyn Job>>>,
}

impl Writer {
    /// `checkpoints` are told of every transaction, if the database has a log.
    pub(super) fn start(connection: Connection, checkpoints: Option<Checkpoints>) -> Result<Self> {
        let (queue, jobs) = mpsc::channel::<Box<dyn Job>>();
        std::thread::Builder::new()
            .name("upliftmem-writer".into())
            .spawn(move || write(&connection, &jobs, checkpoints.as_ref()))
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(Self {
            queue: Mutex::new(queue),
        })
    }

    /// Runs work in a transaction; returns when it is durable.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Sql) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (to, answer) = oneshot::channel();
        let job = Work {
            work: Some(work),
            answer: None,
            to,
        };
        let stopped = || Error::Unavailable("the writer stopped; open the store again".into());
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(Box::new(job))
            .map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

fn write(connection: &Connection, jobs: &mpsc::Receiver<Box<dyn Job>>, checkpoints: Option<&Checkpoints>) {
    while let Ok(first) = jobs.recv() {
        let mut together = vec![first];
        while together.len() < SHARED_MAX
            && let Ok(next) = jobs.try_recv()
        {
            together.push(next);
        }
        let failure = transaction(connection, &mut together).err();
        if failure.is_some() {
            // Ending a transaction that is not open fails, and there is nothing to end then.
            drop(run(connection, "ROLLBACK"));
        }
        for job in together {
            job.answer(failure.as_ref());
        }
        if let Some(checkpoints) = checkpoints {
            checkpoints.written(connection);
        }
    }
}

fn transaction(connection: &Connection, jobs: &mut [Box<dyn Job>]) -> Result<()> {
    run(connection, "BEGIN IMMEDIATE")?;
    for job in jobs {
        run(connection, "SAVEPOINT job")?;
        if !job.run(&mut Transaction::new(connection)) {
            run(connection, "ROLLBACK TO job")?;
        }
        run(connection, "RELEASE job")?;
    }
    run(connection, "COMMIT")
}
