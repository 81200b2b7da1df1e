//! Keeps one child alive and busy: hands out requests, takes answers, starts again what stopped.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use upliftmem_core::RolloutId;

use super::{
    health::Health,
    process::{Complaints, Process},
    settings::CommandSettings,
};
use crate::{Execution, ExecutorError, lines::Line, protocol::read_response, text::excerpt};

/// How often it is looked whether a child is still there although its output is open: something it started may hold
/// the output.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// How long the output of a child that has exited is still read.
const DRAIN: Duration = Duration::from_millis(500);
/// A child may write so many longest lines of what is no answer, in a row, before it is stopped.
const GARBAGE_LINES_MAX: usize = 4;

/// One request on its way.
pub(super) struct Job {
    pub(super) id: RolloutId,
    /// With its line feed.
    pub(super) line: Vec<u8>,
    /// Closed when the caller no longer wants to know.
    pub(super) reply: oneshot::Sender<Result<Execution, ExecutorError>>,
    /// Released when the child is done with it, not when the caller is.
    pub(super) place: super::Place,
}

/// A job and what it went through.
struct Attempt {
    job: Job,
    /// Jobs keep the order in which they came, however often they are sent.
    sequence: u64,
    /// How often it was sent before.
    sends: u32,
}

struct InFlight {
    attempt: Attempt,
    deadline: Instant,
    /// Nothing else is sent while it runs.
    alone: bool,
}

/// Why a child is no longer served.
enum Stop {
    /// Nobody wants anything more.
    Closing,
    /// It could not be started.
    NotStarted(io::Error),
    /// Its output ended, or it takes no more input.
    Ended,
    /// It broke a limit; the text completes "it was stopped because it".
    Broke(String),
}

/// See the module.
pub(super) struct Worker {
    settings: Arc<CommandSettings>,
    name: String,
    jobs: mpsc::Receiver<Job>,
    health: Health,
    complaints: Complaints,
    waiting: VecDeque<Attempt>,
    in_flight: BTreeMap<RolloutId, InFlight>,
    sequence: u64,
    /// Stops in a row without one answer.
    stops: u32,
    /// Bytes in a row that were no answer.
    garbage: usize,
}

impl Worker {
    pub(super) fn new(
        settings: Arc<CommandSettings>,
        name: String,
        jobs: mpsc::Receiver<Job>,
        health: Health,
    ) -> Self {
        Self {
            settings,
            name,
            jobs,
            health,
            complaints: Complaints::default(),
            waiting: VecDeque::new(),
            in_flight: BTreeMap::new(),
            sequence: 0,
            stops: 0,
            garbage: 0,
        }
    }

    /// Runs until the other end of `jobs` is dropped and the child has ended.
    pub(super) async fn run(mut self) {
        loop {
            // No child runs without work: it starts with the first request, and again with the next after its end.
            if self.waiting.is_empty() {
                match self.jobs.recv().await {
                    Some(job) => self.accept(job),
                    None => return,
                }
            }
            let (stop, status) = match Process::start(&self.settings, &self.name, self.complaints.clone()) {
                Err(error) => (Stop::NotStarted(error), None),
                Ok(mut process) => {
                    self.health.started();
                    let stop = self.serve(&mut process).await;
                    (stop, process.end().await)
                }
            };
            let reason = match stop {
                Stop::Closing => return self.give_up(&shut_down()),
                Stop::NotStarted(error) => {
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                    ) {
                        let problem = self.not_startable(&error);
                        self.give_up(&ExecutorError::Unavailable(problem));
                        continue;
                    }
                    self.stops += 1;
                    format!("could not be started: {error}")
                }
                Stop::Ended => {
                    // A child may leave when it has nothing to do.
                    self.stops += u32::from(!self.in_flight.is_empty());
                    status.map_or_else(
                        || "closed its input or output but went on running".into(),
                        |status| format!("ended ({status})"),
                    )
                }
                Stop::Broke(limit) => {
                    self.stops += 1;
                    format!("was stopped because it {limit}")
                }
            };
            tracing::warn!(target: "executor", executor = self.name, "the child {reason}");
            self.take_back(&reason);
            if self.stops >= self.settings.crashes_max {
                self.give_up(&ExecutorError::Unavailable(self.too_many_stops(&reason)));
                self.stops = 0;
            } else if self.pause().await.is_err() {
                return self.give_up(&shut_down());
            }
        }
    }

    fn accept(&mut self, job: Job) {
        self.sequence += 1;
        self.waiting.push_back(Attempt {
            job,
            sequence: self.sequence,
            sends: 0,
        });
    }

    /// Serves one child until it stops.
    async fn serve(&mut self, process: &mut Process) -> Stop {
        self.garbage = 0;
        // When reading ends for good: after the child's exit, or at the end of the grace.
        let mut end: Option<Instant> = None;
        let mut closing = false;
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        loop {
            if !closing && end.is_none() {
                self.send_waiting(process);
            }
            let first_deadline = self.in_flight.values().map(|one| one.deadline).min();
            let wake = end.or(first_deadline);
            tokio::select! {
                job = self.jobs.recv(), if !closing => match job {
                    Some(job) => self.accept(job),
                    None => {
                        closing = true;
                        process.close_input();
                        end = Some(Instant::now() + self.settings.grace);
                    }
                },
                line = process.output.next() => match line {
                    Ok(Some(Line::Whole(line))) => {
                        self.hear(&line);
                        let limit = GARBAGE_LINES_MAX * self.settings.line_bytes_max;
                        if self.garbage > limit {
                            return Stop::Broke(format!("wrote {limit} bytes that are no answer"));
                        }
                    }
                    Ok(Some(Line::TooLong(line))) => {
                        self.health.violation(&self.name, &format!("a line that is too long: {}", excerpt(&line)));
                        let limit = self.settings.line_bytes_max;
                        return Stop::Broke(format!("wrote a line of more than {limit} bytes"));
                    }
                    Ok(None) | Err(_) if closing => {
                        process.exits_before(end.unwrap_or_else(Instant::now)).await;
                        return Stop::Closing;
                    }
                    Ok(None) | Err(_) => return Stop::Ended,
                },
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    if end.is_some() {
                        return if closing { Stop::Closing } else { Stop::Ended };
                    }
                    self.time_is_up();
                    return Stop::Broke(format!(
                        "did not answer within {} s",
                        self.settings.timeout.as_secs_f64()
                    ));
                }
                _ = look.tick() => if end.is_none() && (process.input_is_broken() || process.has_exited()) {
                    end = Some(Instant::now() + DRAIN);
                },
            }
        }
    }

    /// Hands over what the child may have now. The last attempt of a request has the child to itself, so that one
    /// request that stops every child takes no other with it.
    fn send_waiting(&mut self, process: &Process) {
        while let Some(mut attempt) = self.waiting.pop_front() {
            if attempt.job.reply.is_closed() {
                continue;
            }
            let alone = attempt.sends > 0 && attempt.sends >= self.settings.retries;
            let id = attempt.job.id;
            if let Some(earlier) = self.in_flight.get_mut(&id) {
                join(&mut earlier.attempt.job, attempt.job);
                continue;
            }
            let hindered =
                self.in_flight.values().any(|one| one.alone) || (alone && !self.in_flight.is_empty());
            if hindered || !process.send(attempt.job.line.clone()) {
                self.waiting.push_front(attempt);
                return;
            }
            attempt.sends += 1;
            let deadline = Instant::now() + self.settings.timeout;
            self.in_flight.insert(
                id,
                InFlight {
                    attempt,
                    deadline,
                    alone,
                },
            );
        }
    }

    /// Takes one line of the child's output.
    fn hear(&mut self, line: &[u8]) {
        self.garbage += line.len() + 1;
        let (id, result) = match read_response(line) {
            Ok(response) => (response.id, response.result.map_err(ExecutorError::Failed)),
            Err(error) => match error.id.filter(|id| self.in_flight.contains_key(id)) {
                Some(id) => {
                    self.health.violation(&self.name, &error.problem);
                    let problem = format!("{} answered wrongly: {}", self.name, error.problem);
                    (id, Err(ExecutorError::Failed(problem)))
                }
                None => return self.health.violation(&self.name, &error.problem),
            },
        };
        let Some(one) = self.in_flight.remove(&id) else {
            let problem = format!("an answer for {id}, which is unknown or already answered");
            return self.health.violation(&self.name, &problem);
        };
        self.health.answered();
        self.stops = 0;
        self.garbage = 0;
        one.attempt.job.finish(result);
    }

    /// Fails the request whose time is up. Of several it is the one that was sent first: a child that works on one
    /// after another hangs on that one, and the others never had their turn.
    fn time_is_up(&mut self) {
        let oldest = self
            .in_flight
            .iter()
            .min_by_key(|(_, one)| (one.deadline, one.attempt.sequence));
        let Some(id) = oldest.map(|(&id, _)| id) else {
            return;
        };
        if let Some(one) = self.in_flight.remove(&id) {
            let seconds = self.settings.timeout.as_secs_f64();
            let problem = format!(
                "{} did not answer {id} within {seconds} s; raise executor.timeout if it needs longer{}",
                self.name,
                self.health.said()
            );
            one.attempt.job.finish(Err(ExecutorError::Failed(problem)));
        }
    }

    /// What the child had in hand waits again, in the order it came, unless it has had its chances.
    fn take_back(&mut self, reason: &str) {
        let mut back: Vec<Attempt> = std::mem::take(&mut self.in_flight)
            .into_values()
            .map(|one| one.attempt)
            .collect();
        back.sort_by_key(|attempt| attempt.sequence);
        for attempt in back.into_iter().rev() {
            if attempt.sends <= self.settings.retries {
                self.waiting.push_front(attempt);
                continue;
            }
            let problem = format!(
                "{} {reason} while it worked on {}, sent {} times{}",
                self.name,
                attempt.job.id,
                attempt.sends,
                self.last_words()
            );
            attempt.job.finish(Err(ExecutorError::Failed(problem)));
        }
    }

    /// Everything that is waited for gets this answer.
    fn give_up(&mut self, error: &ExecutorError) {
        while let Ok(job) = self.jobs.try_recv() {
            self.accept(job);
        }
        let in_flight = std::mem::take(&mut self.in_flight)
            .into_values()
            .map(|one| one.attempt);
        for attempt in in_flight.chain(std::mem::take(&mut self.waiting)) {
            attempt.job.finish(Err(error.clone()));
        }
    }

    /// Waits before the next start, longer from stop to stop. An error if nobody wants anything more.
    async fn pause(&mut self) -> Result<(), ()> {
        if self.stops == 0 {
            return Ok(());
        }
        let factor = 1_u32 << (self.stops - 1).min(20);
        let wait = self
            .settings
            .backoff
            .saturating_mul(factor)
            .min(self.settings.backoff_max);
        let end = Instant::now() + wait;
        loop {
            tokio::select! {
                () = sleep_until(end) => return Ok(()),
                job = self.jobs.recv() => self.accept(job.ok_or(())?),
            }
        }
    }

    fn not_startable(&self, error: &io::Error) -> String {
        let directory = match &self.settings.directory {
            Some(directory) => format!(" in {}", directory.display()),
            None => String::new(),
        };
        format!(
            "executor {}: can not start {:?}{directory}: {error}; check that the program exists, may be executed and \
             is in PATH, and that the directory exists",
            self.name, self.settings.program
        )
    }

    fn too_many_stops(&self, reason: &str) -> String {
        format!(
            "executor {}: {} children in a row gave no answer; the last {reason}{}; run the command by hand and give \
             it one request on its input",
            self.name,
            self.stops,
            self.last_words()
        )
    }

    /// What is known about the trouble, to be appended to a message.
    fn last_words(&self) -> String {
        let mut words = self.health.said();
        let lines = self.complaints.lines();
        if !lines.is_empty() {
            words.push_str("; its last words on stderr: ");
            words.push_str(&lines.join(" | "));
        }
        words
    }
}

impl Job {
    /// Answers the caller, if there still is one, and makes place.
    fn finish(self, result: Result<Execution, ExecutorError>) {
        // The place is free before the caller hears of it, so that the caller's next request finds it.
        drop(self.place);
        self.reply.send(result).ok();
    }
}

/// A second job of an id that is in flight. If the first caller went away and this is the same request, it takes over
/// what is being done; otherwise one of them would get the other's outcome.
fn join(earlier: &mut Job, later: Job) {
    if earlier.reply.is_closed() && earlier.line == later.line {
        earlier.reply = later.reply;
    } else {
        let problem = format!("{} is already being executed; wait for its outcome", later.id);
        later.finish(Err(ExecutorError::Failed(problem)));
    }
}

fn shut_down() -> ExecutorError {
    ExecutorError::Unavailable("the executor was shut down".into())
}
