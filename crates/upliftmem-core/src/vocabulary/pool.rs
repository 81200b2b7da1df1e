//! What recall offers for one task, and how much of it may be used.

use serde::{Deserialize, Serialize};

use super::{MemoryId, MemorySet};
use crate::error::{InvalidInput, Result};

/// One recalled memory, as far as search needs to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The memory.
    pub id: MemoryId,
    /// Its length in tokens.
    pub tokens: u32,
}

/// The memories recalled for one task, sorted by id. Paper: C(c).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Candidate>", into = "Vec<Candidate>")]
pub struct CandidatePool(Vec<Candidate>);

impl CandidatePool {
    /// Sorts the candidates; a memory that is offered twice is refused.
    pub fn new(mut candidates: Vec<Candidate>) -> Result<Self> {
        candidates.sort_unstable_by_key(|candidate| candidate.id);
        match candidates.windows(2).find(|pair| pair[0].id == pair[1].id) {
            None => Ok(Self(candidates)),
            Some(pair) => Err(InvalidInput::new(
                "candidate pool",
                format_args!("memory {} is offered twice; offer each memory once", pair[0].id),
            )),
        }
    }

    /// The candidates, sorted by id.
    pub fn candidates(&self) -> &[Candidate] {
        &self.0
    }

    /// Number of candidates.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether recall found nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The candidate with this id.
    pub fn get(&self, id: MemoryId) -> Option<Candidate> {
        self.0
            .binary_search_by_key(&id, |candidate| candidate.id)
            .ok()
            .map(|position| self.0[position])
    }

    /// Tokens of all members together; `None` if a member was not recalled.
    pub fn tokens(&self, set: &MemorySet) -> Option<u64> {
        set.iter()
            .map(|&id| self.get(id).map(|candidate| u64::from(candidate.tokens)))
            .sum()
    }
}

impl TryFrom<Vec<Candidate>> for CandidatePool {
    type Error = InvalidInput;

    fn try_from(candidates: Vec<Candidate>) -> Result<Self> {
        Self::new(candidates)
    }
}

impl From<CandidatePool> for Vec<Candidate> {
    fn from(pool: CandidatePool) -> Self {
        pool.0
    }
}

/// How much memory one execution may be given. Paper: K and the token cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Most members of a set.
    pub memories_max: usize,
    /// Most tokens of all members together; `None` leaves the count as the only limit.
    pub tokens_max: Option<u64>,
}

impl Limits {
    /// A limit on the count alone.
    pub const fn count(memories_max: usize) -> Self {
        Self {
            memories_max,
            tokens_max: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_offered_twice_is_refused() {
        let candidate = Candidate {
            id: MemoryId::from_u128(1),
            tokens: 3,
        };
        let error = CandidatePool::new(vec![candidate, candidate]).unwrap_err();
        assert!(error.to_string().contains("offered twice"), "{error}");
    }
}
