//! Many executions at once.

use std::sync::Arc;

use tokio::task::JoinSet;
use upliftmem_agent::{Execution, ExecutionRequest, Executor, MemoryText};
use upliftmem_core::{MemoryId, Purpose, RolloutId, Task};

use crate::protocol::{Error, Result};

/// Most executions one after the other; short ones are not worth a thread's turn each.
const TOGETHER: usize = 32;
/// Chunks of executions that are enough to keep everyone busy.
const CHUNKS: usize = 64;

/// An execution that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// What to do.
    pub task: Task,
    /// Texts of the memories, in the order in which they are given.
    pub memories: Vec<String>,
    /// Its randomness.
    pub seed: u64,
    /// Why.
    pub purpose: Purpose,
}

/// An execution that is over, in the place of the one wanted.
pub type Ended = Execution;

/// Executes all of these, in parallel; the answers are in the order of the questions. `on_done` is told how many more are
/// done.
///
/// # Errors
/// The first failure.
pub async fn execute_all(
    executor: &Arc<dyn Executor>,
    wanted: Vec<Wanted>,
    on_done: &(dyn Fn(usize) + Send + Sync),
) -> Result<Vec<Ended>> {
    let mut running = JoinSet::new();
    let count = wanted.len();
    let together = count.div_ceil(CHUNKS).clamp(1, TOGETHER);
    let mut wanted = wanted.into_iter().enumerate();
    loop {
        let chunk: Vec<(usize, Wanted)> = wanted.by_ref().take(together).collect();
        if chunk.is_empty() {
            break;
        }
        let executor = Arc::clone(executor);
        running.spawn(async move {
            let mut ended = Vec::with_capacity(chunk.len());
            for (place, wanted) in chunk {
                ended.push((place, executor.execute(&request(wanted)).await));
            }
            ended
        });
    }
    let mut all: Vec<Option<Ended>> = Vec::new();
    all.resize_with(count, || None);
    while let Some(joined) = running.join_next().await {
        let chunk = joined.map_err(|error| Error::Execution(error.to_string()))?;
        on_done(chunk.len());
        for (place, ended) in chunk {
            all[place] = Some(ended.map_err(|error| Error::Execution(error.to_string()))?);
        }
    }
    Ok(all.into_iter().flatten().collect())
}

fn request(wanted: Wanted) -> ExecutionRequest {
    let memories = (1..).zip(wanted.memories).map(|(place, text)| MemoryText {
        id: MemoryId::from_u128(place),
        text,
    });
    ExecutionRequest {
        id: RolloutId::from_u128(1),
        task: wanted.task,
        memories: memories.collect(),
        seed: wanted.seed,
        purpose: wanted.purpose,
    }
}
