//! Environments that are child processes: one JSON object a line each way.
//!
//! `{"reset": task}` and `{"step": "action"}` are answered by `{"observation", "actions"?, "performance", "done"}` or by
//! `{"error": "..."}`.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    thread,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};
use upliftmem_core::Task;

use super::EnvironmentSource;
use crate::{Environment, EnvironmentError, Turn, text::excerpt};

/// Bytes of the longest answer.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// A program that is a world.
#[derive(Debug, Clone)]
pub struct AttachedSettings {
    /// What is run.
    pub program: PathBuf,
    /// With which arguments.
    pub arguments: Vec<String>,
    /// Added to the environment that it inherits.
    pub environment: BTreeMap<String, String>,
    /// Where it runs.
    pub directory: Option<PathBuf>,
    /// What it is, for the records; the program's name if none.
    pub name: Option<String>,
    /// Longest time for one answer, what is asked included.
    pub timeout: Duration,
}

impl AttachedSettings {
    /// Usual patience: two minutes for an answer.
    pub fn new(program: impl Into<PathBuf>, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: BTreeMap::new(),
            directory: None,
            name: None,
            timeout: Duration::from_secs(120),
        }
    }

    fn shown(&self) -> String {
        let file = self.program.file_name().unwrap_or_default().to_string_lossy();
        self.name.clone().unwrap_or_else(|| file.into_owned())
    }
}

/// A source of child processes.
pub struct AttachedWorlds {
    settings: AttachedSettings,
    name: String,
}

impl EnvironmentSource for AttachedWorlds {
    fn name(&self) -> &str {
        &self.name
    }

    fn environment(&self) -> Result<Box<dyn Environment>, EnvironmentError> {
        Ok(Box::new(AttachedEnvironment::start(&self.settings)?))
    }
}

impl From<AttachedSettings> for AttachedWorlds {
    fn from(settings: AttachedSettings) -> Self {
        Self {
            name: settings.shown(),
            settings,
        }
    }
}

/// A world in a child process. It ends with this value.
pub struct AttachedEnvironment {
    name: String,
    child: Child,
    requests: SyncSender<Vec<u8>>,
    lines: Receiver<Result<Vec<u8>, String>>,
    timeout: Duration,
    /// Why it is over, once it is: there may be nobody left who says so again.
    over: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Turn(Turn),
    Error { error: String },
}

impl AttachedEnvironment {
    /// Starts the program.
    pub fn start(settings: &AttachedSettings) -> Result<Self, EnvironmentError> {
        let name = settings.shown();
        let broken = |problem: String| EnvironmentError::Broken(format!("environment {name}: {problem}"));
        let mut command = Command::new(&settings.program);
        command
            .args(&settings.arguments)
            .envs(&settings.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        if let Some(directory) = &settings.directory {
            command.current_dir(directory);
        }
        let mut child = command.spawn().map_err(|error| {
            broken(format!(
                "{} can not be started: {error}",
                settings.program.display()
            ))
        })?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(broken("the child has no pipes".into()));
        };
        // One line at a time: a world that talks without being asked fills no memory.
        let (sender, lines) = sync_channel(1);
        // A world that does not read blocks who writes to it: that is not the one who keeps the time.
        let (requests, waiting) = sync_channel::<Vec<u8>>(1);
        let complaints = sender.clone();
        thread::spawn(move || {
            for line in waiting {
                if let Err(error) = input.write_all(&line).and_then(|()| input.flush()) {
                    complaints
                        .send(Err(format!("it takes no more input: {error}")))
                        .ok();
                    return;
                }
            }
        });
        thread::spawn(move || {
            let mut reader = BufReader::new(output);
            loop {
                let mut line = Vec::new();
                let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
                let said = match read {
                    Ok(0) => Err("it ended".to_owned()),
                    Ok(_) if line.last() == Some(&b'\n') => Ok(line),
                    Ok(_) => Err("it ended in the middle of a line, or the line is too long".to_owned()),
                    Err(error) => Err(error.to_string()),
                };
                let over = said.is_err();
                if sender.send(said).is_err() || over {
                    return;
                }
            }
        });
        Ok(Self {
            name,
            child,
            requests,
            lines,
            timeout: settings.timeout,
            over: None,
        })
    }

    fn broken(&self, problem: &str) -> EnvironmentError {
        EnvironmentError::Broken(format!("environment {}: {problem}", self.name))
    }

    fn ask(&mut self, request: &Value) -> Result<Turn, EnvironmentError> {
        if let Some(problem) = &self.over {
            return Err(self.broken(problem));
        }
        let mut line = request.to_string();
        line.push('\n');
        match self.requests.try_send(line.into_bytes()) {
            // Where it takes no more, the reason is among its answers.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => {
                return Err(self.broken("it has not read what it was asked before"));
            }
        }
        let said = match self.lines.recv_timeout(self.timeout) {
            Ok(Ok(said)) => said,
            Ok(Err(problem)) => {
                let error = self.broken(&problem);
                self.over = Some(problem);
                return Err(error);
            }
            Err(RecvTimeoutError::Timeout) => {
                let seconds = self.timeout.as_secs_f64();
                return Err(self.broken(&format!("no answer in {seconds} s")));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.broken("it ended")),
        };
        match serde_json::from_slice(&said) {
            Ok(Answer::Turn(turn)) => Ok(turn),
            Ok(Answer::Error { error }) => Err(self.broken(&excerpt(error.as_bytes()))),
            Err(_) => Err(self.broken(&format!(
                "{:?} is not a turn; give observation, performance in [0, 1] and done",
                excerpt(&said)
            ))),
        }
    }
}

impl Environment for AttachedEnvironment {
    fn reset(&mut self, task: &Task) -> Result<Turn, EnvironmentError> {
        self.ask(&json!({
            "reset": { "id": task.name, "context": task.context, "metadata": task.metadata }
        }))
    }

    fn step(&mut self, action: &str) -> Result<Turn, EnvironmentError> {
        self.ask(&json!({ "step": action }))
    }
}

impl Drop for AttachedEnvironment {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
