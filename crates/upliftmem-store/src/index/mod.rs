//! The in-process indexes of a scope: its vectors, scanned while they are few and in a graph when they are many, and its
//! words.

mod builder;
mod graph;
mod place;
mod saved;
mod scope;
mod scopes;
mod side_by_side;
mod vectors;
mod words;

pub(crate) use scope::IndexRow;
pub(crate) use scopes::{FreshVectors, FreshWords, ScopeIndexes};
pub(crate) use side_by_side::side_by_side;
pub(crate) use vectors::dot;
pub(crate) use words::WordRow;
