//! What gradient training minimises, without a model: values of sets in, losses and their slopes by each value out.
//!
//! The formulas and their numbers are those of [`upliftmem_core::objectives`]; here they meet the sets of a batch. A
//! [`LossBatch`] says which sets must be valued, each once, and turns the values into the joint objective and its
//! derivative by each of them. How values depend on parameters is the model's own affair, be it a small network or a
//! language model. Paper: eq. main_value_losses, eq. main_policy_loss.

mod batch;
mod examples;
mod paths;

pub use batch::{BatchLoss, LossBatch, LossParts, SetsOfTask};
pub use examples::{PathExample, ValueExample};
pub use paths::{PathsLoss, policy_loss};
