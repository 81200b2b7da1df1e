//! Where UpliftMem is measured: [synthetic worlds](worlds) of known truth, and the [`baselines`] to beat.

pub mod baselines;
mod lexical;
pub mod worlds;

pub use lexical::LexicalIndex;
