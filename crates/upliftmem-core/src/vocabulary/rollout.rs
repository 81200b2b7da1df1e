//! Executions and what is learned from them.

use serde::{Deserialize, Serialize};

use super::{Cost, MemorySet, ObservationId, Performance, ReferenceId, RolloutId, TaskId, Uplift, Utility};
use crate::error::{InvalidInput, Result};

/// Why an execution is run. An execution is counted once, under the purpose it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The task without memory.
    Reference,
    /// The set that ordinary retrieval chose.
    Retrieval,
    /// A set chosen for what its outcome would teach.
    Probe,
    /// A newly written memory, alone, on its source task.
    Validation,
    /// Measuring, never learned from.
    Evaluation,
}

impl Purpose {
    /// All purposes, in the order of reports.
    pub const ALL: [Self; 5] = [
        Self::Reference,
        Self::Retrieval,
        Self::Probe,
        Self::Validation,
        Self::Evaluation,
    ];

    /// The word that is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Retrieval => "retrieval",
            Self::Probe => "probe",
            Self::Validation => "validation",
            Self::Evaluation => "evaluation",
        }
    }
}

/// One execution that is wanted: this task with this set, by this executor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// The name under which its outcome is reported.
    pub id: RolloutId,
    /// What to do.
    pub task: TaskId,
    /// With which memories.
    pub set: MemorySet,
    /// Why.
    pub purpose: Purpose,
    /// Which executor; outcomes of different executors are never compared.
    pub executor: String,
    /// Randomness handed to the executor.
    pub seed: u64,
}

/// How one execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The execution.
    pub rollout: RolloutId,
    /// How well it did.
    pub performance: Performance,
    /// What it cost.
    pub cost: Cost,
}

/// One action and what the environment answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrajectoryStep {
    /// What the agent did.
    pub action: String,
    /// What it saw.
    pub observation: String,
}

/// A no-memory execution that labels are measured against. Paper: tau(c, empty).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Named by its rollout.
    pub id: ReferenceId,
    /// The task it ran.
    pub task: TaskId,
    /// The executor it ran on.
    pub executor: String,
    /// What it was worth.
    pub utility: Utility,
}

/// One uplift label: what a set did for a task, against a reference. Paper: (c, S, y).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The label's own name.
    pub id: ObservationId,
    /// The task.
    pub task: TaskId,
    /// The complete set that was used.
    pub set: MemorySet,
    /// Utility with the set.
    pub utility: Utility,
    /// Utility with the set, minus the reference's.
    pub uplift: Uplift,
    /// The execution with the set.
    pub rollout: RolloutId,
    /// The execution without; labels that share it share its noise.
    pub reference: ReferenceId,
    /// Why the execution with the set was run.
    pub purpose: Purpose,
}

impl Observation {
    /// The label of one execution against a reference. Paper: eq. observed_uplift.
    ///
    /// Refuses the empty set (its uplift is zero by definition, not an observation) and a reference of
    /// another task or executor.
    pub fn new(
        id: ObservationId,
        rollout: &Rollout,
        utility: Utility,
        reference: &Reference,
    ) -> Result<Self> {
        if rollout.set.is_empty() {
            return Err(InvalidInput::new(
                format_args!("observation of rollout {}", rollout.id),
                "the empty set has uplift 0 by definition; record the execution as a reference",
            ));
        }
        if (rollout.task, &rollout.executor) != (reference.task, &reference.executor) {
            return Err(InvalidInput::new(
                format_args!("observation of rollout {}", rollout.id),
                format_args!(
                    "reference {} is of another task or executor; compare like with like",
                    reference.id
                ),
            ));
        }
        Ok(Self {
            id,
            task: rollout.task,
            set: rollout.set.clone(),
            utility,
            uplift: Uplift::new(utility.get() - reference.utility.get())?,
            rollout: rollout.id,
            reference: reference.id,
            purpose: rollout.purpose,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::MemoryId;

    fn rollout(set: MemorySet) -> Rollout {
        Rollout {
            id: RolloutId::from_u128(1),
            task: TaskId::from_name("t"),
            set,
            purpose: Purpose::Retrieval,
            executor: "e".into(),
            seed: 0,
        }
    }

    fn reference(task: &str, executor: &str) -> Reference {
        Reference {
            id: ReferenceId::from_u128(2),
            task: TaskId::from_name(task),
            executor: executor.into(),
            utility: Utility::new(0.25).unwrap(),
        }
    }

    #[test]
    fn a_label_is_the_difference_to_its_reference() {
        let rollout = rollout(std::iter::once(MemoryId::from_u128(1)).collect());
        let utility = Utility::new(1.0).unwrap();
        let id = ObservationId::from_u128(3);
        let label = Observation::new(id, &rollout, utility, &reference("t", "e")).unwrap();
        assert_eq!(label.uplift, Uplift::new(0.75).unwrap());
        for (task, executor) in [("u", "e"), ("t", "f")] {
            let error = Observation::new(id, &rollout, utility, &reference(task, executor)).unwrap_err();
            assert!(error.to_string().contains("like with like"), "{error}");
        }
    }

    #[test]
    fn the_empty_set_is_never_a_label() {
        let utility = Utility::new(1.0).unwrap();
        let id = ObservationId::from_u128(3);
        assert!(Observation::new(id, &rollout(MemorySet::EMPTY), utility, &reference("t", "e")).is_err());
    }
}
