//! Predicts how much a set of memories improves on no memory at all.

pub mod embedder;
mod embedding;
pub mod models;

pub use embedding::Embedding;
