//! What is asked of recall, and what it answers.

use serde::{Deserialize, Serialize};
use upliftmem_core::{Candidate, CandidatePool, MemoryId};

use crate::{
    Embedding, StoreLimits,
    error::Result,
    limits::{between_one_and, within},
};

/// How candidates are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecallMode {
    /// By words and by vector, fused by reciprocal rank.
    #[default]
    Hybrid,
    /// By vector alone.
    Dense,
    /// By words (BM25) alone.
    Lexical,
}

/// What to look for.
#[derive(Debug, Clone, PartialEq)]
pub struct RecallQuery {
    /// The text. Any text is data; none of it is query syntax.
    pub text: String,
    /// Its vector. Hybrid recall without one is lexical recall.
    pub embedding: Option<Embedding>,
    /// At most so many candidates.
    pub candidates: usize,
    /// How to find them.
    pub mode: RecallMode,
}

impl RecallQuery {
    pub(crate) fn check(&self, limits: &StoreLimits) -> Result<()> {
        between_one_and(
            "recall_candidates_max",
            limits.recall_candidates_max,
            self.candidates,
            "candidates",
        )?;
        within(
            "query_bytes_max",
            limits.query_bytes_max,
            self.text.len(),
            "bytes of the query",
        )
    }
}

/// One candidate and why it is one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The memory.
    pub id: MemoryId,
    /// Its length in tokens.
    pub tokens: u32,
    /// What the order goes by: the fused score, or the only one.
    pub score: f64,
    /// Cosine of query and memory, if found by vector.
    pub cosine: Option<f32>,
    /// BM25 of query and memory, if found by words.
    pub bm25: Option<f64>,
}

/// The answer: best first, ties by the smaller id.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Recall {
    /// The candidates.
    pub hits: Vec<Hit>,
}

impl Recall {
    /// The candidates as search takes them, sorted by id. Paper: C(c).
    pub fn pool(&self) -> Result<CandidatePool> {
        let candidates = self.hits.iter().map(|hit| Candidate {
            id: hit.id,
            tokens: hit.tokens,
        });
        Ok(CandidatePool::new(candidates.collect())?)
    }
}
