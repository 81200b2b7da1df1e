//! One purchase by a customer: what was done, and what it was worth.

use upliftmem_agent::{Environment, EnvironmentError};
use upliftmem_core::{Performance, Task, TrajectoryStep};

use super::{Customer, Sight, WebShop};

/// A purchase that was made, or came to nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Purchase {
    /// The reward.
    pub reward: Performance,
    /// Every action with the page it led to.
    pub trajectory: Vec<TrajectoryStep>,
}

/// Lets a customer shop until something is bought, it knows no further, or its actions are used up.
///
/// # Errors
/// No task has this name, or the shop can not be read.
pub fn shop_for(
    environment: &mut WebShop,
    task: &Task,
    mut customer: Customer,
) -> Result<Purchase, EnvironmentError> {
    let mut turn = environment.reset(task)?;
    let mut trajectory = Vec::new();
    while !turn.done {
        let sight = Sight {
            observation: &turn.observation,
            actions: turn.actions.as_deref().unwrap_or_default(),
        };
        let Some(action) = customer.act(sight) else {
            break;
        };
        turn = environment.step(&action)?;
        trajectory.push(TrajectoryStep {
            action,
            observation: turn.observation.clone(),
        });
    }
    Ok(Purchase {
        reward: turn.performance,
        trajectory,
    })
}
