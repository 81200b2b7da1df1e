//! Names and randomness that depend on what they are for, not on when they are drawn.
//!
//! A run that is killed and started again asks for the same names and draws the same numbers, so it finds what it
//! has already paid for and decides as it would have.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use upliftmem_core::{MemoryId, MemorySet, ObservationId, ProbeBatchId, Purpose, Rollout, RolloutId, TaskId};

/// The source of a run's names and randomness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds {
    run: String,
    seed: u64,
}

impl Seeds {
    /// All that a run of this name and seed draws.
    pub fn new(run: impl Into<String>, seed: u64) -> Self {
        Self {
            run: run.into(),
            seed,
        }
    }

    /// The run's name.
    pub fn run(&self) -> &str {
        &self.run
    }

    fn hash(&self, what: &str, parts: &[&[u8]]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.seed.to_le_bytes());
        for part in [self.run.as_bytes(), what.as_bytes()].iter().chain(parts) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    /// Randomness for one purpose at one place of the run.
    pub fn rng(&self, what: &str, place: u64) -> ChaCha8Rng {
        ChaCha8Rng::from_seed(self.hash(what, &[&place.to_le_bytes()]))
    }

    /// An id that sorts by `place`.
    fn id(&self, what: &str, place: u64, parts: &[&[u8]]) -> u128 {
        let hash = self.hash(what, parts);
        let low = u128::from_le_bytes(hash[..16].try_into().unwrap_or([0; 16])) >> 48;
        (u128::from(place & 0xffff_ffff_ffff) << 80) | low
    }

    /// The execution of a set at one place of the run; `index` tells several of one place apart.
    pub fn rollout(
        &self,
        purpose: Purpose,
        (place, index): (u64, u64),
        executor: &str,
        task: TaskId,
        set: &MemorySet,
    ) -> Rollout {
        let mut parts = vec![
            place.to_le_bytes().to_vec(),
            index.to_le_bytes().to_vec(),
            executor.as_bytes().to_vec(),
            task.as_u128().to_le_bytes().to_vec(),
        ];
        parts.extend(set.iter().map(|id| id.as_u128().to_le_bytes().to_vec()));
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let what = format!("{purpose:?}");
        let hash = self.hash(&format!("seed of {what}"), &parts);
        Rollout {
            id: RolloutId::from_u128(self.id(&what, place, &parts)),
            task,
            set: set.clone(),
            purpose,
            executor: executor.to_owned(),
            seed: u64::from_le_bytes(hash[..8].try_into().unwrap_or([0; 8])),
        }
    }

    /// The label of an execution.
    pub fn observation(&self, rollout: RolloutId) -> ObservationId {
        let place = (rollout.as_u128() >> 80) as u64;
        ObservationId::from_u128(self.id("observation", place, &[&rollout.as_u128().to_le_bytes()]))
    }

    /// A version of the memory that is written about the episode at a place. Sorts after memories of any date: it is
    /// written later than what the run began with.
    pub fn memory(&self, place: u64, version: u64) -> MemoryId {
        let parts = [place.to_le_bytes(), version.to_le_bytes()];
        let place = (1 << 47) | ((place << 8) & 0x7fff_ffff_ff00) | (version & 0xff);
        MemoryId::from_u128(self.id("memory", place, &[&parts[0], &parts[1]]))
    }

    /// The batch of probes after so many tasks.
    pub fn batch(&self, count: u64) -> ProbeBatchId {
        ProbeBatchId::from_u128(self.id("batch", count, &[&count.to_le_bytes()]))
    }
}

/// Randomness that no other process has: from the operating system, or, where that has none, from time and process.
pub(crate) fn fresh_rng() -> ChaCha8Rng {
    ChaCha8Rng::try_from_rng(&mut rand::rngs::SysRng).unwrap_or_else(|_| {
        let nanos = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        ChaCha8Rng::seed_from_u64(nanos as u64 ^ (u64::from(std::process::id()) << 40))
    })
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_depend_on_everything_they_are_for_and_on_nothing_else() {
        let seeds = Seeds::new("main", 1);
        let task = TaskId::from_name("t");
        let set: MemorySet = std::iter::once(MemoryId::from_u128(7)).collect();
        let make = |seeds: &Seeds, place, index, executor: &str, set: &MemorySet| {
            seeds.rollout(Purpose::Probe, (place, index), executor, task, set)
        };
        let first = make(&seeds, 1, 0, "e", &set);
        assert_eq!(first, make(&Seeds::new("main", 1), 1, 0, "e", &set));
        let others = [
            make(&Seeds::new("main", 2), 1, 0, "e", &set),
            make(&Seeds::new("other", 1), 1, 0, "e", &set),
            make(&seeds, 2, 0, "e", &set),
            make(&seeds, 1, 1, "e", &set),
            make(&seeds, 1, 0, "f", &set),
            make(&seeds, 1, 0, "e", &MemorySet::EMPTY),
        ];
        for other in &others {
            assert_ne!(first.id, other.id);
            assert_ne!(first.seed, other.seed);
        }
        assert!(first.id < others[2].id, "ids sort by place");
    }
}
