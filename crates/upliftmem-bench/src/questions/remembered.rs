//! An executor that remembers.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;
use upliftmem_agent::{Execution, ExecutionRequest, Executor, ExecutorError};
use upliftmem_core::TaskId;

/// Task and memory texts.
type Asked = (TaskId, Vec<String>);

/// What was really done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RealWork {
    /// Executions.
    pub executions: u64,
    /// Tokens that they read, without those that were in a cache.
    pub prompt_tokens: u64,
    /// Tokens that had not to be read again.
    pub cached_tokens: u64,
    /// Tokens that they said or whose likelihood they gave.
    pub completion_tokens: u64,
}

/// Executes every task with every set once, and repeats the answer from then on. Only for executors that do not depend on the
/// seed: comparisons of methods then share what they have in common.
pub struct RememberingExecutor {
    inner: Arc<dyn Executor>,
    known: Mutex<BTreeMap<Asked, Execution>>,
    executions: AtomicU64,
    tokens: [AtomicU64; 3],
}

/// What an execution says about its tokens, in the order of the counters.
const COUNTED: [&str; 3] = ["prompt_tokens", "cached_tokens", "completion_tokens"];

impl RememberingExecutor {
    /// Remembers what this one does.
    pub fn new(inner: Arc<dyn Executor>) -> Self {
        Self {
            inner,
            known: Mutex::default(),
            executions: AtomicU64::new(0),
            tokens: Default::default(),
        }
    }

    /// What was really done so far.
    pub fn work(&self) -> RealWork {
        let [prompt, cached, completion] = [0, 1, 2].map(|at| self.tokens[at].load(Ordering::Relaxed));
        RealWork {
            executions: self.executions.load(Ordering::Relaxed),
            prompt_tokens: prompt.saturating_sub(cached),
            cached_tokens: cached,
            completion_tokens: completion,
        }
    }
}

#[async_trait]
impl Executor for RememberingExecutor {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        let texts = request
            .memories
            .iter()
            .map(|memory| memory.text.clone())
            .collect();
        let asked = (request.task.id, texts);
        let known = |asked: &Asked| {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(asked).cloned()
        };
        if let Some(execution) = known(&asked) {
            return Ok(execution);
        }
        let execution = self.inner.execute(request).await?;
        self.executions.fetch_add(1, Ordering::Relaxed);
        for (counter, name) in self.tokens.iter().zip(COUNTED) {
            let count = execution.diagnostics.get(name).and_then(Value::as_u64);
            counter.fetch_add(count.unwrap_or(0), Ordering::Relaxed);
        }
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(asked, execution.clone());
        Ok(execution)
    }
}
