//! The in-process indexes of a scope: its vectors, scanned while they are few and in a graph when they are many, and its
//! words.

mod builder;
mod graph;
mod place;
mod saved;
mod scope;
mod scopes;
mod vectors;
mod words;

pub(crate) use scope::IndexRow;
pub(crate) use scopes::ScopeIndexes;
pub(crate) use vectors::dot;
pub(crate) use words::WordRow;
