//! BigCodeBench: programming tasks that are judged by their tests.
//!
//! A [`Benchmark`] is the tasks with the paper's division; [`instruct_prompt`] is what a model is told, [`solution_of`] what is
//! taken from its answer; a [`PythonSandbox`] runs the solution against the tests; a [`CodeExecutor`] is all of it, with a chat model.
//!
//! ```no_run
//! use upliftmem_bench::bigcodebench::{Benchmark, PythonSandbox};
//!
//! let benchmark = Benchmark::load("bench/bigcodebench")?;
//! let task = benchmark.held_out().next().ok_or("no task")?;
//! let report = PythonSandbox::new("python3")?.run(&task.reference_solution(), &task.test)?;
//! assert!(report.has_passed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod data;
mod environment;
mod error;
mod executor;
mod prompt;
mod sandbox;

pub use data::{Benchmark, CodeTask};
pub use environment::CodeEnvironment;
pub use error::{LoadError, SandboxError};
pub use executor::{CodeExecutor, CodeSettings};
pub use prompt::{instruct_prompt, solution_of};
pub use sandbox::{Case, CaseOutcome, Granted, Limits, PythonSandbox, TestReport};
