//! What the trainer asks of a model.

use std::sync::Arc;

use upliftmem_core::MemorySet;

use super::TrainingData;
use crate::{MemoryInput, ScorerVersion, SetScorer, TaskInput, error::Result};

/// Sets of one task that are to be valued; never the empty set.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// The task.
    pub task: TaskInput<'a>,
    /// Every memory of its sets, in the order of their ids.
    pub memories: Vec<MemoryInput<'a>>,
    /// The sets.
    pub sets: &'a [MemorySet],
}

/// A model that can be trained: it values sets and pushes the slopes of their values back into its parameters. It knows
/// nothing of losses, labels or folds.
pub trait TrainableModel: Send + Sync {
    /// Parameters and optimiser at one moment, to go back to.
    type Kept: Send;
    /// What it publishes.
    type Scorer: SetScorer + 'static;

    /// Before an update: starts from first parameters if `anew`, else goes on from where it is.
    fn begin(&mut self, data: &TrainingData<'_>, anew: bool) -> Result<()>;

    /// Values without noise, of all sets of all questions in order.
    fn values(&self, questions: &[Question<'_>]) -> Result<Vec<f64>>;

    /// Values all sets under noise (dropout) of this seed, asks for the slope of the loss by each value, and adds to the
    /// gradient. One call, so that a model may keep what the way back needs, or compute it again if memory is short.
    fn learn(
        &mut self,
        questions: &[Question<'_>],
        noise: u64,
        slopes: &mut dyn FnMut(&[f64]) -> Result<Vec<f64>>,
    ) -> Result<()>;

    /// Moves against the gradient collected since the last step, and forgets it. Gives the gradient's length.
    fn step(&mut self, learning_rate: f64) -> Result<f64>;

    /// Everything that training changes.
    fn keep(&self) -> Self::Kept;

    /// Back to what was kept.
    fn restore(&mut self, kept: Self::Kept);

    /// An immutable scorer with the present parameters, whose values are multiplied by `scale`.
    fn publish(&self, version: ScorerVersion, scale: f64) -> Result<Arc<Self::Scorer>>;
}
