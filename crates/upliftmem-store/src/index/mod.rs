//! The in-process vector index of one scope: exact while it is small, a graph when it is large.

mod graph;
mod scope;
mod vectors;

pub(crate) use scope::{IndexRow, ScopeIndexes};
pub(crate) use vectors::dot;
