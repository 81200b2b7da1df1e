//! What runs a task with a set of memories and says how it went.
//!
//! [`Executor`] is the one trait the engine knows.

mod command;
mod executor;
mod http;
mod lines;
pub mod protocol;
mod text;

pub use command::{CommandExecutor, CommandHealth, CommandSettings};
pub use executor::{Execution, ExecutionRequest, Executor, ExecutorError, MemoryText};
pub use http::{HttpExecutor, HttpExecutorSettings};
