//! One child process: its input, its output, its complaints, its end.

use std::{
    collections::VecDeque,
    io,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::AsyncWriteExt,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::settings::CommandSettings;
use crate::{
    lines::{Line, Lines},
    text::excerpt,
};

/// Bytes of a line on stderr that are kept; the rest of it comes as a line of its own.
const COMPLAINT_BYTES_MAX: usize = 4 << 10;
/// Lines of stderr that are remembered for messages.
const COMPLAINTS_MAX: usize = 10;
/// How long a child that closed its output may take to exit before it counts as still running.
const EXIT_PATIENCE: Duration = Duration::from_millis(300);
/// How long a killed child may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// The last lines that children wrote to stderr.
#[derive(Clone, Default)]
pub(super) struct Complaints(Arc<Mutex<VecDeque<String>>>);

impl Complaints {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == COMPLAINTS_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().cloned().collect()
    }
}

/// A running child. It leads a process group of its own, so that what it starts ends with it.
pub(super) struct Process {
    child: Child,
    /// The child's process id until it was waited for: only so long is it sure to be the child's.
    group: Option<u32>,
    input: Option<mpsc::Sender<Vec<u8>>>,
    writing: JoinHandle<()>,
    pub(super) output: Lines<ChildStdout>,
    complaining: JoinHandle<()>,
}

impl Process {
    pub(super) fn start(settings: &CommandSettings, name: &str, complaints: Complaints) -> io::Result<Self> {
        let mut command = Command::new(&settings.program);
        command
            .args(&settings.arguments)
            .envs(&settings.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(directory) = &settings.directory {
            command.current_dir(directory);
        }
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("the child has no pipes");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        // Every request in flight has room: handing one over never waits for the child to read.
        let (input, requests) = mpsc::channel(settings.in_flight);
        Ok(Self {
            group: child.id(),
            child,
            input: Some(input),
            writing: tokio::spawn(write(stdin, requests)),
            output: Lines::new(stdout, settings.line_bytes_max),
            complaining: tokio::spawn(log(stderr, name.to_owned(), complaints)),
        })
    }

    /// Hands a line to the child's input; false if the child no longer takes any.
    pub(super) fn send(&self, line: Vec<u8>) -> bool {
        self.input
            .as_ref()
            .is_some_and(|input| input.try_send(line).is_ok())
    }

    /// No more requests: what is handed over is still written, then the child's input ends.
    pub(super) fn close_input(&mut self) {
        self.input = None;
    }

    /// Whether the child takes no more input although it was not closed from here.
    pub(super) fn input_is_broken(&self) -> bool {
        self.input.is_some() && self.writing.is_finished()
    }

    /// Whether the child has exited. It is not waited for: its process id stays its own.
    pub(super) fn has_exited(&mut self) -> bool {
        #[cfg(unix)]
        {
            use rustix::process::{WaitId, WaitIdOptions, waitid};
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            pid(self.group).is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
        }
        #[cfg(not(unix))]
        {
            !matches!(self.child.try_wait(), Ok(None))
        }
    }

    /// Waits until the child has exited, at most until then.
    pub(super) async fn exits_before(&mut self, deadline: Instant) -> bool {
        while !self.has_exited() {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(Duration::from_millis(10)).await;
        }
        true
    }

    /// Ends the child and everything in its group. Says how it ended if it did so by itself.
    pub(super) async fn end(mut self) -> Option<ExitStatus> {
        let by_itself = self.exits_before(Instant::now() + EXIT_PATIENCE).await;
        self.kill();
        // What the system does not let die at once is left to it.
        let status = timeout(KILL_PATIENCE, self.child.wait()).await.ok()?.ok();
        self.group = None;
        // With the group its stderr ends: what it still had to say is short.
        timeout(EXIT_PATIENCE, &mut self.complaining).await.ok();
        status.filter(|_| by_itself)
    }

    fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(group) = pid(self.group) {
            // It may have ended by itself.
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
        }
        self.child.start_kill().ok();
    }
}

#[cfg(unix)]
fn pid(raw: Option<u32>) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(i32::try_from(raw?).ok()?)
}

impl Drop for Process {
    /// Also when the runtime goes away in the middle of everything, no child stays behind.
    fn drop(&mut self) {
        if self.group.is_some() {
            self.kill();
        }
        self.writing.abort();
        self.complaining.abort();
    }
}

/// Writes requests until there are no more or the child takes no more.
async fn write(mut stdin: ChildStdin, mut requests: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = requests.recv().await {
        if stdin.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Passes stderr on to the log.
async fn log(stderr: ChildStderr, executor: String, complaints: Complaints) {
    let pass_on = |line: &[u8]| {
        let shown = excerpt(line);
        if !shown.is_empty() {
            tracing::info!(target: "executor", executor, "{}", String::from_utf8_lossy(line).trim_end());
            complaints.push(shown);
        }
    };
    let mut lines = Lines::new(stderr, COMPLAINT_BYTES_MAX);
    while let Ok(Some(Line::Whole(line) | Line::TooLong(line))) = lines.next().await {
        pass_on(&line);
    }
    pass_on(&lines.rest());
}
