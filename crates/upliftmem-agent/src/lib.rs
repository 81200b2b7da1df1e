//! What runs a task with a set of memories and says how it went.
//!
//! [`Executor`] is the one trait the engine knows.

mod executor;

pub use executor::{Execution, ExecutionRequest, Executor, ExecutorError, MemoryText};
