//! The in-process vector index of one scope: exact while it is small, a graph when it is large.

mod builder;
mod graph;
mod place;
mod saved;
mod scope;
mod scopes;
mod vectors;

pub(crate) use scope::IndexRow;
pub(crate) use scopes::ScopeIndexes;
pub(crate) use vectors::dot;
