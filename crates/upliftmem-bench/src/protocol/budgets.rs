//! How much the number of memories matters that may enter the context. Paper: sec. RQ5.

use serde::{Deserialize, Serialize};

use super::{Bench, Result, methods::controlled, scores::MethodScores};

/// The paper's K.
pub const BUDGETS_K: [usize; 3] = [3, 5, 10];

/// Native and UpliftMem's retrieval with at most K memories from one store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KRow {
    /// The store.
    pub store: String,
    /// K.
    pub count: usize,
    /// The store's own retrieval.
    pub native: MethodScores,
    /// UpliftMem's.
    pub uplift: MethodScores,
}

/// All stores with every K; one training a store.
///
/// # Errors
/// The first that stops; what was finished is kept.
pub async fn budget_k(bench: &Bench, counts: &[usize]) -> Result<Vec<KRow>> {
    let rows = controlled(bench, counts).await?;
    let row =
        |(name, count, native, uplift): (crate::systems::SystemName, usize, MethodScores, MethodScores)| {
            KRow {
                store: name.title().to_owned(),
                count,
                native,
                uplift,
            }
        };
    Ok(rows.into_iter().map(row).collect())
}
