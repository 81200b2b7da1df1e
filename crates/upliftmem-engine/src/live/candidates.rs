//! Candidates that a caller brings from a store of their own.
//!
//! What is learned is about texts, so the texts are kept: as memories of kind `external` that recall never returns and
//! that are candidates only when they are brought again.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use upliftmem_core::{IdSequence, InvalidInput, MemoryId};
use upliftmem_store::{ItemStatus, MemoryStatus, NewMemory, Timestamp};

use super::LiveScope;
use crate::{error::Result, seeds::fresh_rng};

/// Why external memories are out of recall.
const REASON: &str = "brought by a caller; a candidate only when it is brought again";
/// What sort of memory they are.
const KIND: &str = "external";
/// Texts that are recognised without asking the store.
const KNOWN_MAX: usize = 100_000;

/// A candidate that a caller brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    /// What the caller calls it.
    pub id: Option<String>,
    /// What it says.
    pub text: String,
}

/// Texts that were brought before, by their hash.
#[derive(Default)]
pub(super) struct BroughtBefore(Mutex<HashMap<[u8; 32], MemoryId>>);

impl BroughtBefore {
    fn get(&self, hash: &[u8; 32]) -> Option<MemoryId> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(hash).copied()
    }

    fn insert(&self, hash: [u8; 32], id: MemoryId) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(hash, id);
    }

    pub(super) fn forget(&self, memory: MemoryId) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, id| *id != memory);
    }
}

impl LiveScope {
    /// The memories behind texts that a caller brings, in their order; the same text twice is the same memory. One
    /// that is quarantined or replaced here stays out, whoever brings it.
    pub async fn bring(&self, brought: &[Brought]) -> Result<Vec<Option<MemoryId>>> {
        let hashes: Vec<[u8; 32]> = brought
            .iter()
            .map(|item| Sha256::digest(item.text.as_bytes()).into())
            .collect();
        let mut new = Vec::new();
        let mut place = HashMap::new();
        for (item, hash) in brought.iter().zip(&hashes) {
            if self.brought.get(hash).is_none() && !place.contains_key(hash) {
                place.insert(*hash, new.len());
                new.push(self.external(item));
            }
        }
        if !new.is_empty() {
            let ids = self.remember(new).await?;
            for (hash, place) in place {
                self.brought.insert(hash, ids[place]);
            }
        }
        let ids: Vec<Option<MemoryId>> = hashes.iter().map(|hash| self.brought.get(hash)).collect();
        let known: Vec<MemoryId> = ids.iter().flatten().copied().collect();
        let usable = self.usable(&known).await?;
        Ok(ids
            .into_iter()
            .map(|id| id.filter(|id| usable.contains(id)))
            .collect())
    }

    fn external(&self, item: &Brought) -> NewMemory {
        let mut new = NewMemory::note(mint(), item.text.as_str());
        new.kind = KIND.into();
        new.quarantine = Some(REASON.into());
        if let Some(id) = &item.id {
            new.provenance.insert("external_id".into(), id.as_str().into());
        }
        new
    }

    async fn remember(&self, new: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        let batch = self.texts.with_vectors(new).await?;
        let results = self
            .store
            .add_memories(&self.scope, Timestamp::now(), batch)
            .await?;
        results
            .into_iter()
            .map(|result| match result.status {
                ItemStatus::Stored | ItemStatus::Quarantined { .. } => Ok(result.id),
                ItemStatus::Duplicate { of } => Ok(of),
                ItemStatus::Failed { reason } => Err(InvalidInput::new("candidates", reason).into()),
            })
            .collect()
    }

    /// Refuses candidates that the scope does not have, or that may not be given to an agent.
    pub async fn check_candidates(&self, ids: &[MemoryId]) -> Result<()> {
        let usable = self.usable(ids).await?;
        for &id in ids {
            if !usable.contains(&id) {
                return Err(upliftmem_store::Error::NotFound {
                    kind: "usable memory",
                    id: id.to_string(),
                    scope: self.scope.to_string(),
                }
                .into());
            }
        }
        Ok(())
    }

    /// Those that may be given to an agent.
    pub(super) async fn usable(&self, ids: &[MemoryId]) -> Result<BTreeSet<MemoryId>> {
        if ids.is_empty() {
            return Ok(BTreeSet::new());
        }
        let now = Timestamp::now();
        let found = self.store.memories(&self.scope, ids).await?;
        let usable = found.into_iter().filter(|memory| {
            let external = memory.kind == KIND && memory.quarantine_reason.as_deref() == Some(REASON);
            match memory.status {
                MemoryStatus::Active => memory.expires_at.is_none_or(|end| end > now),
                MemoryStatus::Quarantined => external,
                MemoryStatus::Superseded | MemoryStatus::Expired => false,
            }
        });
        Ok(usable.map(|memory| memory.memory.id).collect())
    }

    /// An id for a new memory, after all that this process has given.
    pub fn mint_memory(&self) -> MemoryId {
        mint()
    }
}

/// Two processes that mint in the same millisecond draw different numbers.
fn mint() -> MemoryId {
    static SEQUENCE: Mutex<Option<(IdSequence, ChaCha8Rng)>> = Mutex::new(None);
    let mut sequence = SEQUENCE.lock().unwrap_or_else(PoisonError::into_inner);
    let (sequence, rng) = sequence.get_or_insert_with(|| (IdSequence::default(), fresh_rng()));
    MemoryId::from_u128(sequence.mint(Timestamp::now().millis(), rng))
}
