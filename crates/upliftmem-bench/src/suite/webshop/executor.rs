//! The scripted customer as an executor.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Map;
use upliftmem_agent::{Execution, ExecutionRequest, Executor, ExecutorError};
use upliftmem_core::Cost;

use crate::webshop::{Customer, Shop, WebShop, shop_for};

/// Shops with the scripted customer. What it answers depends on the goal, the texts of the memories in their order, and the
/// seed.
pub struct WebshopExecutor {
    environment: WebShop,
}

impl WebshopExecutor {
    /// The executor of all goals of a shop.
    pub fn new(shop: Arc<Shop>) -> Self {
        Self {
            environment: WebShop::new(shop),
        }
    }
}

#[async_trait]
impl Executor for WebshopExecutor {
    fn name(&self) -> &str {
        "webshop:scripted-1"
    }

    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        // The customer is made of texts and a seed; the goal stays on this side.
        let customer = Customer::new(
            request.memories.iter().map(|memory| memory.text.as_str()),
            request.seed,
        );
        let purchase = shop_for(&mut self.environment.clone(), &request.task, customer)
            .map_err(|error| ExecutorError::Failed(error.to_string()))?;
        let actions = Cost::new(purchase.trajectory.len() as f64);
        Ok(Execution {
            performance: purchase.reward,
            cost: actions.map_err(|error| ExecutorError::Failed(error.to_string()))?,
            trajectory: purchase.trajectory,
            diagnostics: Map::new(),
        })
    }
}
