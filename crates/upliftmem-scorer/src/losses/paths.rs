//! The loss on recorded paths, by the values of the sets that decide their likelihood.

use upliftmem_core::{PathPolicy, Result, RetrievalPath, Uplift, objectives::Objectives};

/// The policy loss of a batch of paths. Paper: eq. main_policy_loss.
#[derive(Debug, Clone, PartialEq)]
pub struct PathsLoss {
    /// The mean over paths with at least one sampled decision.
    pub value: f64,
    /// For each path, the derivative by the value of each of its [`RetrievalPath::sets_to_score`].
    pub gradients: Vec<Vec<f64>>,
    /// How many paths were averaged.
    pub paths: usize,
}

/// The outcome-weighted negative log-likelihood of recorded paths, each averaged over its own length, given the
/// values of its [`RetrievalPath::sets_to_score`]. Paper: eq. main_policy_loss.
///
/// Core's [`Objectives::policy_loss`] takes the probabilities of actions and gives slopes by gains; here the chain
/// goes on to the values of sets, in which a state's own value lowers every gain from it.
pub fn policy_loss(
    objectives: &Objectives,
    policy: &PathPolicy,
    paths: &[(&RetrievalPath, Uplift, Vec<f64>)],
) -> Result<PathsLoss> {
    let eligible = paths.iter().filter(|(path, ..)| !path.steps.is_empty()).count();
    let mut loss = PathsLoss {
        value: 0.0,
        gradients: Vec::with_capacity(paths.len()),
        paths: eligible,
    };
    for (path, uplift, values) in paths {
        let likelihood = policy.path_likelihood(path, values)?;
        let share = objectives.outcome_weight(*uplift) / (path.steps.len() * eligible).max(1) as f64;
        loss.value -= share * likelihood.log_likelihood();
        loss.gradients
            .push(likelihood.gradient.iter().map(|slope| -share * slope).collect());
    }
    Ok(loss)
}
