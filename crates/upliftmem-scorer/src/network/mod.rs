//! The set network: a small neural model of the value of a set, with its own backward pass.
//!
//! Each memory of a set becomes a hidden vector from its text, the task's text, how well they match and who the memory
//! is; the vectors are added up, pairs of them are multiplied, and one more layer turns both into a value. The number
//! of parameters is small and the shape is fixed, so the gradient is written out by hand and checked against
//! finite differences and PyTorch.

mod adam;
mod algebra;
mod body;
#[cfg(test)]
mod checks;
mod frame;
mod model;
mod parameters;
mod pass;
mod scorer;
mod settings;

pub use adam::AdamSettings;
pub use model::NetworkModel;
pub use scorer::NetworkScorer;
pub use settings::NetworkSettings;
pub(crate) use {
    adam::Adam,
    body::Body,
    frame::Frame,
    model::State,
    parameters::{Parameters, Part},
};
