//! Executors that are a language model, with models that follow a script.
#![allow(clippy::unwrap_used)]

mod acting;
mod prompts;
mod questions;
mod scripted;
mod writing;
