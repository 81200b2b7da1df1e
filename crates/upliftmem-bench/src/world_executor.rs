//! A synthetic world as an executor, so that everything that trains on agents trains on worlds.

use std::sync::Arc;

use async_trait::async_trait;
use upliftmem_agent::{Execution, ExecutionRequest, Executor, ExecutorError};
use upliftmem_core::MemorySet;

use crate::worlds::World;

/// Executes tasks of one world. What it answers depends on the task, the set and the seed alone.
pub struct WorldExecutor {
    world: Arc<World>,
    name: String,
}

impl WorldExecutor {
    /// The executor of a world, named after its kind and seed.
    pub fn new(world: Arc<World>) -> Self {
        let name = format!("world:{}:{}", world.kind(), world.seed());
        Self { world, name }
    }
}

#[async_trait]
impl Executor for WorldExecutor {
    fn name(&self) -> &str {
        &self.name
    }

    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        let set: MemorySet = request.memories.iter().map(|memory| memory.id).collect();
        let (performance, cost) = self
            .world
            .execute(&request.task, &set, request.seed)
            .map_err(|error| ExecutorError::Failed(error.to_string()))?;
        Ok(Execution {
            performance,
            cost,
            trajectory: Vec::new(),
            diagnostics: serde_json::Map::new(),
        })
    }
}
