//! An executor that remembers.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{Read, Write},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use upliftmem_agent::{Execution, ExecutionRequest, Executor, ExecutorError};
use upliftmem_core::{Cost, Performance, TrajectoryStep};

/// What was really done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RealWork {
    /// Executions.
    pub executions: u64,
    /// Of them those that an earlier run had done.
    pub recalled: u64,
    /// Tokens that they read, without those that were in a cache.
    pub prompt_tokens: u64,
    /// Tokens that had not to be read again.
    pub cached_tokens: u64,
    /// Tokens that they said or whose likelihood they gave.
    pub completion_tokens: u64,
}

/// Executes every task with every set once, and repeats the answer from then on: comparisons of methods then share what they have
/// in common. Only for executors that do not depend on the seed, unless it is [told](Self::by_seed) that this one does.
pub struct RememberingExecutor {
    inner: Arc<dyn Executor>,
    /// What was kept of another version of the executor is not its own.
    version: String,
    is_seeded: bool,
    state: Mutex<State>,
    executions: AtomicU64,
    recalled: AtomicU64,
    tokens: [AtomicU64; 3],
}

#[derive(Default)]
struct State {
    /// By what was asked; the second is whether this run has asked for it yet.
    known: BTreeMap<String, (Execution, bool)>,
    file: Option<File>,
}

/// What an execution says about its tokens, in the order of the counters.
const COUNTED: [&str; 3] = ["prompt_tokens", "cached_tokens", "completion_tokens"];

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    asked: String,
    performance: Performance,
    cost: Cost,
    trajectory: Vec<TrajectoryStep>,
    diagnostics: Map<String, Value>,
}

impl RememberingExecutor {
    /// Remembers what this one does, as long as the process lives.
    pub fn new(inner: Arc<dyn Executor>) -> Self {
        Self {
            version: inner.version(),
            inner,
            is_seeded: false,
            state: Mutex::default(),
            executions: AtomicU64::new(0),
            recalled: AtomicU64::new(0),
            tokens: Default::default(),
        }
    }

    /// Remembers in a file too: what an earlier run of the same executor has done is not done again. A line that was being
    /// written when that run ended is dropped.
    pub fn in_file(inner: Arc<dyn Executor>, path: &Path) -> std::io::Result<Self> {
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        let mut known = BTreeMap::new();
        for line in bytes[..whole]
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let line: Line = serde_json::from_slice(line).map_err(|error| {
                let what = format!("a line is no execution: {error}; remove the file to begin anew");
                std::io::Error::new(std::io::ErrorKind::InvalidData, what)
            })?;
            let execution = Execution {
                performance: line.performance,
                cost: line.cost,
                trajectory: line.trajectory,
                diagnostics: line.diagnostics,
            };
            known.insert(line.asked, (execution, false));
        }
        Ok(Self {
            state: Mutex::new(State {
                known,
                file: Some(file),
            }),
            ..Self::new(inner)
        })
    }

    /// The same for an executor that depends on the seed: every seed is executed once.
    #[must_use]
    pub fn by_seed(mut self) -> Self {
        self.is_seeded = true;
        self
    }

    /// What this run took, whether it was done now or by an earlier run.
    pub fn work(&self) -> RealWork {
        let [prompt, cached, completion] = [0, 1, 2].map(|at| self.tokens[at].load(Ordering::Relaxed));
        RealWork {
            executions: self.executions.load(Ordering::Relaxed),
            recalled: self.recalled.load(Ordering::Relaxed),
            prompt_tokens: prompt.saturating_sub(cached),
            cached_tokens: cached,
            completion_tokens: completion,
        }
    }

    fn count(&self, execution: &Execution) {
        self.executions.fetch_add(1, Ordering::Relaxed);
        for (counter, name) in self.tokens.iter().zip(COUNTED) {
            let count = execution.diagnostics.get(name).and_then(Value::as_u64);
            counter.fetch_add(count.unwrap_or(0), Ordering::Relaxed);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that an execution depends on. Not the task's name: worlds of different seeds call different questions the same.
    fn asked(&self, request: &ExecutionRequest) -> String {
        let memories: Vec<&str> = request
            .memories
            .iter()
            .map(|memory| memory.text.as_str())
            .collect();
        let task = &request.task;
        let mut asked = vec![
            json!(self.name()),
            json!(task.context),
            json!(task.metadata),
            json!(memories),
        ];
        if !self.version.is_empty() {
            asked.push(json!(self.version));
        }
        if self.is_seeded {
            asked.push(json!(request.seed));
        }
        Value::Array(asked).to_string()
    }
}

#[async_trait]
impl Executor for RememberingExecutor {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn steps_max(&self) -> Option<usize> {
        self.inner.steps_max()
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        let asked = self.asked(request);
        if let Some((execution, met)) = self.state().known.get_mut(&asked) {
            if !std::mem::replace(met, true) {
                self.recalled.fetch_add(1, Ordering::Relaxed);
                self.count(execution);
            }
            return Ok(execution.clone());
        }
        let execution = self.inner.execute(request).await?;
        self.count(&execution);
        let mut state = self.state();
        if let Some(file) = &mut state.file {
            let line = Line {
                asked: asked.clone(),
                performance: execution.performance,
                cost: execution.cost,
                trajectory: execution.trajectory.clone(),
                diagnostics: execution.diagnostics.clone(),
            };
            let failed = |error: &dyn std::fmt::Display| {
                ExecutorError::Unavailable(format!("an answer can not be kept: {error}"))
            };
            let mut text = serde_json::to_vec(&line).map_err(|error| failed(&error))?;
            text.push(b'\n');
            file.write_all(&text).map_err(|error| failed(&error))?;
        }
        state.known.insert(asked, (execution.clone(), true));
        Ok(execution)
    }
}

#[cfg(test)]
mod tests {
    use upliftmem_agent::MemoryText;
    use upliftmem_core::{MemoryId, Purpose, RolloutId, Task};

    use super::*;

    /// Right if there is a memory; counts.
    #[derive(Default)]
    struct Counting(AtomicU64, &'static str);

    #[async_trait]
    impl Executor for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        fn version(&self) -> String {
            self.1.to_owned()
        }

        async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let performance = f64::from(u8::from(!request.memories.is_empty()));
            let mut diagnostics = Map::new();
            diagnostics.insert("prompt_tokens".into(), json!(10));
            Ok(Execution {
                performance: Performance::new(performance).unwrap(),
                cost: Cost::new(1.5).unwrap(),
                trajectory: Vec::new(),
                diagnostics,
            })
        }
    }

    fn request(answer: &str, memory: Option<&str>) -> ExecutionRequest {
        let mut task = Task::new("same-name", "Who?");
        task.metadata.insert("answer".into(), json!(answer));
        ExecutionRequest {
            id: RolloutId::from_u128(1),
            task,
            memories: memory
                .map(|text| MemoryText {
                    id: MemoryId::from_u128(1),
                    text: text.into(),
                })
                .into_iter()
                .collect(),
            seed: 7,
            purpose: Purpose::Evaluation,
        }
    }

    #[tokio::test]
    async fn what_was_done_is_known_after_a_half_written_line_too() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("answers.jsonl");
        let open = |inner: &Arc<Counting>| {
            let inner: Arc<dyn Executor> = inner.clone();
            RememberingExecutor::in_file(inner, &path).unwrap()
        };
        let inner = Arc::new(Counting::default());
        let first = open(&inner);
        for _ in 0..2 {
            first.execute(&request("Ann", None)).await.unwrap();
            first.execute(&request("Ann", Some("It was Ann."))).await.unwrap();
            // The same name and question, another world's answer.
            first.execute(&request("Bob", None)).await.unwrap();
        }
        assert_eq!(inner.0.load(Ordering::Relaxed), 3);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(b"{\"asked\":\"ha");
        std::fs::write(&path, bytes).unwrap();
        let second = open(&inner);
        let again = second
            .execute(&request("Ann", Some("It was Ann.")))
            .await
            .unwrap();
        assert_eq!(again.performance, Performance::new(1.0).unwrap());
        second.execute(&request("Cid", None)).await.unwrap();
        assert_eq!(inner.0.load(Ordering::Relaxed), 4);
        let work = second.work();
        assert_eq!((work.executions, work.recalled, work.prompt_tokens), (2, 1, 20));
        let third = open(&inner);
        third.execute(&request("Cid", None)).await.unwrap();
        assert_eq!(inner.0.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn what_another_version_did_is_done_anew() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("answers.jsonl");
        for (version, done) in [("one prompt", 1), ("another prompt", 1), ("one prompt", 0)] {
            let inner = Arc::new(Counting(AtomicU64::new(0), version));
            let executor: Arc<dyn Executor> = inner.clone();
            let remembering = RememberingExecutor::in_file(executor, &path).unwrap();
            remembering.execute(&request("Ann", None)).await.unwrap();
            assert_eq!(inner.0.load(Ordering::Relaxed), done);
        }
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("answers.jsonl");
        std::fs::write(&path, "hello\n").unwrap();
        let error = RememberingExecutor::in_file(Arc::new(Counting::default()), &path).err();
        assert!(error.unwrap().to_string().contains("begin anew"));
    }
}
