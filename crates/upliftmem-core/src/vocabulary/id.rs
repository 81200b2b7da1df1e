//! Identifiers: 128 bits, printed as UUIDs, ordered by the time they were minted.

use std::{fmt, str::FromStr};

use rand::Rng;
use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid};

use crate::error::{InvalidInput, Result};

/// Names given by users are hashed within this namespace, so that they can not collide with minted ids.
const NAMES: Uuid = Uuid::from_u128(0x7f3c_1f0a_54c1_5d0e_9a61_75f0_6c69_6674);

macro_rules! ids {
    ($($(#[$doc:meta])+ $name:ident;)+) => {$(
        $(#[$doc])+
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// The id with exactly these bits; what tests and stores use.
            pub const fn from_u128(bits: u128) -> Self {
                Self(Uuid::from_u128(bits))
            }

            /// The id's bits. Numeric order is creation order.
            pub const fn as_u128(self) -> u128 {
                self.0.as_u128()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidInput;

            fn from_str(text: &str) -> Result<Self> {
                Uuid::try_parse(text).map(Self).map_err(|_| {
                    InvalidInput::new(stringify!($name), format_args!("{text:?} is not a UUID"))
                })
            }
        }
    )+};
}

ids! {
    /// Names a memory. A later memory has a larger id, so the order of ids is the order of creation.
    MemoryId;
    /// Names a task: its own UUID, or one derived from the name its owner gave it.
    TaskId;
    /// Names one execution, from the moment it is asked for.
    RolloutId;
    /// Names a no-memory reference. Labels that share one also share its noise.
    ReferenceId;
    /// Names one uplift label.
    ObservationId;
    /// Names one answered retrieval; outcomes are reported against it.
    RetrievalId;
    /// Names one batch of probes that were selected together.
    ProbeBatchId;
}

impl TaskId {
    /// The id of a task that its owner calls `name`: the name itself if it is a UUID, else a hash of it, so
    /// that the same file imported twice means the same tasks.
    pub fn from_name(name: &str) -> Self {
        Self(Uuid::try_parse(name).unwrap_or_else(|_| Uuid::new_v5(&NAMES, name.as_bytes())))
    }
}

impl From<RolloutId> for ReferenceId {
    /// A reference is named by the no-memory execution that it is.
    fn from(rollout: RolloutId) -> Self {
        Self(rollout.0)
    }
}

impl From<ReferenceId> for RolloutId {
    fn from(reference: ReferenceId) -> Self {
        Self(reference.0)
    }
}

/// Mints ids that never decrease, even when many fall into one millisecond or the clock steps back.
///
/// The caller supplies the time and the randomness; two sequences given the same of both mint the same ids.
#[derive(Debug, Clone, Default)]
pub struct IdSequence {
    last: u128,
}

impl IdSequence {
    /// A sequence whose ids all come after `last`; a store continues where it stopped.
    pub const fn after(last: u128) -> Self {
        Self { last }
    }

    /// The next id, as bits for the `from_u128` of the kind that is wanted.
    pub fn mint(&mut self, unix_millis: u64, rng: &mut impl Rng) -> u128 {
        let mut entropy = [0; 10];
        rng.fill_bytes(&mut entropy);
        let fresh = Builder::from_unix_timestamp_millis(unix_millis, &entropy)
            .into_uuid()
            .as_u128();
        self.last = fresh.max(self.last + 1);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn minted_ids_increase_within_a_millisecond_and_when_the_clock_steps_back() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut ids = IdSequence::default();
        let mut last = 0;
        for step in 0..10_000_u64 {
            let id = ids.mint(1_000_000 - step / 1_000, &mut rng);
            assert!(id > last);
            last = id;
        }
    }

    #[test]
    fn the_same_name_is_the_same_task_and_a_uuid_is_itself() {
        assert_eq!(TaskId::from_name("task-1"), TaskId::from_name("task-1"));
        assert_ne!(TaskId::from_name("task-1"), TaskId::from_name("task-2"));
        let id = TaskId::from_u128(7);
        assert_eq!(TaskId::from_name(&id.to_string()), id);
    }

    #[test]
    fn an_id_reads_back_what_it_prints_and_says_what_it_can_not_read() {
        let id = MemoryId::from_u128(42);
        assert_eq!(id.to_string().parse(), Ok(id));
        let error = "m-42".parse::<MemoryId>().unwrap_err();
        assert_eq!(error.to_string(), "MemoryId: \"m-42\" is not a UUID");
    }
}
