//! The shop as an environment: tasks named by the numbers of their goals.

use std::io;
use std::sync::Arc;

use upliftmem_agent::{Environment, EnvironmentError, Turn};
use upliftmem_core::{Performance, Task};

use super::session::Session;
use super::shop::Shop;

/// Actions of an episode in the paper's evaluation.
pub const ACTIONS_MAX: usize = 15;

/// How a search is written in the list of actions.
const SEARCH: &str = "search[keywords]";

/// WebShop as an [`Environment`]: the task `webshop/17` is to shop for the goal with the number 17.
///
/// Clones share the shop. An episode ends with a purchase, whose reward is its performance, or after the last action it is
/// allowed, with performance 0.
#[derive(Clone, Debug)]
pub struct WebShop {
    shop: Arc<Shop>,
    actions_max: usize,
    running: Option<(Session, usize)>,
}

impl WebShop {
    /// An environment in this shop.
    #[must_use]
    pub fn new(shop: Arc<Shop>) -> Self {
        Self {
            shop,
            actions_max: ACTIONS_MAX,
            running: None,
        }
    }

    /// The same with another number of actions after which an episode ends.
    #[must_use]
    pub fn with_actions_max(mut self, actions_max: usize) -> Self {
        self.actions_max = actions_max;
        self
    }

    /// The shop.
    #[must_use]
    pub fn shop(&self) -> &Arc<Shop> {
        &self.shop
    }

    /// The task of a goal: what the customer says, and nothing that the goal hides.
    #[must_use]
    pub fn task(&self, goal: usize) -> Option<Task> {
        let instruction = &self.shop.goals().get(goal)?.instruction;
        Some(Task::new(format!("webshop/{goal}"), instruction))
    }

    /// All tasks in the official order: the first 500 are the test tasks.
    pub fn tasks(&self) -> impl Iterator<Item = Task> {
        (0..self.shop.goals().len()).filter_map(|goal| self.task(goal))
    }
}

impl Environment for WebShop {
    fn reset(&mut self, task: &Task) -> Result<Turn, EnvironmentError> {
        self.running = None;
        let number = task
            .name
            .strip_prefix("webshop/")
            .and_then(|number| number.parse().ok());
        let session = number.and_then(|goal| Session::new(self.shop.clone(), goal));
        let session = session.ok_or_else(|| EnvironmentError::UnknownTask {
            environment: "WebShop".to_owned(),
            task: task.name.clone(),
            why: format!(
                "tasks are named by their goals, `webshop/0` to `webshop/{}`",
                self.shop.goals().len().saturating_sub(1)
            ),
        })?;
        let turn = turn(&session, false)?;
        self.running = Some((session, 0));
        Ok(turn)
    }

    fn step(&mut self, action: &str) -> Result<Turn, EnvironmentError> {
        let (session, actions) = self.running.as_mut().ok_or(EnvironmentError::NotRunning)?;
        *actions += 1;
        session
            .act(action)
            .map_err(|error: io::Error| EnvironmentError::Broken(format!("WebShop: {error}")))?;
        let turn = turn(session, *actions >= self.actions_max)?;
        if turn.done {
            self.running = None;
        }
        Ok(turn)
    }
}

fn turn(session: &Session, is_last: bool) -> Result<Turn, EnvironmentError> {
    let page = session.page();
    let mut actions = Vec::new();
    if page.has_search_bar {
        actions.push(SEARCH.to_owned());
    }
    // The button beside the search bar does nothing of its own.
    let clickables = page.clickables.iter().filter(|text| *text != "search");
    actions.extend(clickables.map(|text| format!("click[{text}]")));
    let performance = match session.reward() {
        Some(reward) => Performance::new(reward.total)
            .map_err(|error| EnvironmentError::Broken(format!("WebShop: {error}")))?,
        None => Performance::FAILURE,
    };
    Ok(Turn {
        observation: page.text.clone(),
        actions: Some(actions),
        performance,
        done: is_last || session.reward().is_some(),
    })
}
