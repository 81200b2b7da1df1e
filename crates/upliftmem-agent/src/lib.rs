//! What runs a task with a set of memories and says how it went.
//!
//! [`Executor`] is the one trait the engine knows. [`CommandExecutor`] runs a program and speaks with it line by line,
//! [`HttpExecutor`] asks a service; both speak the protocol in [`protocol`], and both are held to limits: whatever the
//! other side does, a call ends with an execution or with an error that says what to do. [`QuestionExecutor`] and
//! [`ActExecutor`] are a language model ([`chat`]) that answers questions and acts in worlds; [`Writer`] turns what
//! happened into memories.
//!
//! The smallest executor is one line: it succeeds at everything, at a cost of 3.
//!
//! ```
//! use upliftmem_agent::{CommandExecutor, CommandSettings, ExecutionRequest, Executor};
//! use upliftmem_core::{Purpose, RolloutId, Task};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let answer = r#"s/.*"id":"\([0-9a-f-]*\)","task".*/{"v":1,"id":"\1","performance":1,"cost":3}/"#;
//! let executor = CommandExecutor::new(CommandSettings::new("sed", ["-u", answer]))?;
//! let request = ExecutionRequest {
//!     id: RolloutId::from_u128(1),
//!     task: Task::new("kitchen-1", "Put a clean mug on the desk."),
//!     memories: Vec::new(),
//!     seed: 7,
//!     purpose: Purpose::Reference,
//! };
//! let execution = executor.execute(&request).await?;
//! assert_eq!((execution.performance.get(), execution.cost.get()), (1.0, 3.0));
//! executor.shut_down().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod chat;
mod command;
mod distil;
mod environment;
mod executor;
mod http;
mod lines;
mod llm;
mod pace;
mod post;
pub mod prompts;
pub mod protocol;
mod text;
mod writer;

pub use command::{CommandExecutor, CommandHealth, CommandSettings};
pub use distil::{Distiller, Said, conversation};
pub use environment::{Environment, EnvironmentError, Turn, serve_environment};
pub use executor::{Execution, ExecutionRequest, Executor, ExecutorError, MemoryText};
pub use http::{HttpExecutor, HttpExecutorSettings};
pub use llm::{
    ActExecutor, ActSettings, AnswerScoring, AttachedEnvironment, AttachedSettings, AttachedWorlds,
    EnvironmentSource, ExpectedAnswer, QuestionExecutor, QuestionSettings,
};
pub use writer::{
    Diagnosis, Draft, LlmWriter, Writer, WriterError, is_near_duplicate, read_memory, transcript,
};
