//! Learning from recorded retrieval paths. Paper: eq. main_policy_loss, app. policy_training.

use super::Objectives;
use crate::{
    Uplift,
    error::{InvalidInput, Result, positive},
};

/// One recorded decision under the current scorer.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRecord {
    /// The log-probability of every action that was allowed, in any fixed order.
    pub log_probabilities: Vec<f64>,
    /// Which of them was taken.
    pub taken: usize,
}

/// A recorded path under the current scorer, with what its terminal set achieved.
#[derive(Debug, Clone, PartialEq)]
pub struct PathRecord {
    /// The sampled decisions; a sampled stop is one, an end forced by a limit is not.
    pub steps: Vec<StepRecord>,
    /// The observed uplift of the terminal set.
    pub uplift: Uplift,
}

/// The policy loss and its gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyLoss {
    /// The mean over eligible paths.
    pub value: f64,
    /// For each path, step and action: the derivative by that action's conditional gain. The entry of stopping
    /// says how the loss would move with its gain, which is constant: leave it out.
    pub gain_gradients: Vec<Vec<Vec<f64>>>,
    /// Paths with at least one sampled decision; the others have no likelihood to learn from.
    pub eligible: usize,
    /// Eligible paths whose outcome weight is not zero.
    pub weighted: usize,
}

impl Objectives {
    /// How strongly a path is reinforced (above zero) or suppressed (below), from its observed uplift.
    /// Paper: eq. policy_weight.
    pub fn outcome_weight(&self, uplift: Uplift) -> f64 {
        let settings = self.settings();
        let uplift = uplift.get();
        if uplift.abs() <= settings.epsilon_policy {
            0.0
        } else if uplift > 0.0 {
            uplift.min(settings.outcome_clip)
        } else {
            settings.negative_scale * uplift.max(-settings.outcome_clip)
        }
    }

    /// The outcome-weighted negative log-likelihood of recorded paths, each averaged over its own length.
    /// Paper: eq. main_policy_loss.
    ///
    /// `sampling_temperature` is the one that divided the gains; the gradient needs it. Paths with a weight of
    /// zero stay in the average, so that a batch of near-zero outcomes takes a small step, not a loud one.
    pub fn policy_loss(&self, paths: &[PathRecord], sampling_temperature: f64) -> Result<PolicyLoss> {
        positive("sampling_temperature", sampling_temperature)?;
        for step in paths.iter().flat_map(|path| &path.steps) {
            check_step(step)?;
        }
        let eligible = paths.iter().filter(|path| !path.steps.is_empty()).count();
        let mut loss = PolicyLoss {
            value: 0.0,
            gain_gradients: Vec::with_capacity(paths.len()),
            eligible,
            weighted: 0,
        };
        for path in paths {
            let weight = self.outcome_weight(path.uplift);
            let share = weight / (path.steps.len() * eligible).max(1) as f64;
            loss.weighted += usize::from(weight != 0.0 && !path.steps.is_empty());
            loss.gain_gradients.push(
                path.steps
                    .iter()
                    .map(|step| step_gradient(step, share / sampling_temperature))
                    .collect(),
            );
            for step in &path.steps {
                loss.value -= share * step.log_probabilities[step.taken];
            }
        }
        Ok(loss)
    }
}

/// The derivative of `-share * temperature * log p(taken)` by every gain: the softmax pulls towards what was taken.
fn step_gradient(step: &StepRecord, share: f64) -> Vec<f64> {
    step.log_probabilities
        .iter()
        .enumerate()
        .map(|(action, log_probability)| {
            share * (log_probability.exp() - f64::from(u8::from(action == step.taken)))
        })
        .collect()
}

fn check_step(step: &StepRecord) -> Result<()> {
    let refuse = |problem: String| Err(InvalidInput::new("log_probabilities of a step", problem));
    if step.taken >= step.log_probabilities.len() {
        return refuse(format!(
            "action {} was taken, {} are listed",
            step.taken,
            step.log_probabilities.len()
        ));
    }
    // An action may have become too improbable for f64, but not the one whose likelihood is asked for.
    if !step.log_probabilities[step.taken].is_finite() {
        return refuse(format!(
            "{} for the action that was taken; raise sampling_temperature",
            step.log_probabilities[step.taken]
        ));
    }
    let total: f64 = step.log_probabilities.iter().map(|log| log.exp()).sum();
    if (total - 1.0).abs() <= 1e-6 {
        Ok(())
    } else {
        refuse(format!("the probabilities add up to {total}, not to 1"))
    }
}
