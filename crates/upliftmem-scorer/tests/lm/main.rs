//! The language-model scorer, end to end, on tiny random models; on real ones where they are.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "lm")]

mod cascade;
mod files;
mod gguf;
mod remote;
mod scorer;
#[path = "../embedders/server.rs"]
mod server;
mod tokens;
mod training;
mod world;
