//! The words of the domain. One word, one meaning; invalid states are not representable.

mod id;
mod memory;
mod number;
mod path;
mod pool;
mod rollout;
mod set;

pub use id::{
    IdSequence, MemoryId, ObservationId, ProbeBatchId, ReferenceId, RetrievalId, RolloutId, TaskId,
};
pub use memory::{Memory, Task};
pub use number::{Cost, Performance, Uplift, Utility};
pub use path::{Action, PathStep, RetrievalPath};
pub use pool::{Candidate, CandidatePool, Limits};
pub use rollout::{Observation, Outcome, Purpose, Reference, Rollout, TrajectoryStep};
pub use set::MemorySet;
