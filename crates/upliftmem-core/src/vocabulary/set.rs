//! Sets of memories: what a retrieval returns and what a label is about.

use std::{fmt, ops::Deref};

use serde::{Deserialize, Deserializer, Serialize};
use smallvec::SmallVec;

use super::MemoryId;

/// A set of memories, identified by its members alone. Paper: S, B.
///
/// Members are sorted by id, which is creation order, so that a set is always serialised the same way. Sets of
/// up to five members, the paper's cap, live without a heap allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct MemorySet(SmallVec<[MemoryId; 5]>);

impl MemorySet {
    /// No memory at all: the reference of every uplift, and always an allowed answer.
    pub const EMPTY: Self = Self(SmallVec::new_const());

    /// The set with one more member. A member already present changes nothing.
    #[must_use]
    pub fn with(&self, member: MemoryId) -> Self {
        match self.0.binary_search(&member) {
            Ok(_) => self.clone(),
            Err(position) => {
                let mut members = SmallVec::with_capacity(self.0.len() + 1);
                members.extend_from_slice(&self.0[..position]);
                members.push(member);
                members.extend_from_slice(&self.0[position..]);
                Self(members)
            }
        }
    }

    /// The set without one member. A member not present changes nothing.
    #[must_use]
    pub fn without(&self, member: MemoryId) -> Self {
        Self(self.0.iter().copied().filter(|&other| other != member).collect())
    }

    /// Whether the memory is a member.
    pub fn contains(&self, member: MemoryId) -> bool {
        self.0.binary_search(&member).is_ok()
    }

    /// Whether every member is a member of `other` too.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().all(|&member| other.contains(member))
    }

    /// The members in creation order.
    pub fn members(&self) -> &[MemoryId] {
        &self.0
    }
}

impl Deref for MemorySet {
    type Target = [MemoryId];

    fn deref(&self) -> &[MemoryId] {
        &self.0
    }
}

impl FromIterator<MemoryId> for MemorySet {
    fn from_iter<I: IntoIterator<Item = MemoryId>>(members: I) -> Self {
        let mut members: SmallVec<[MemoryId; 5]> = members.into_iter().collect();
        members.sort_unstable();
        members.dedup();
        Self(members)
    }
}

impl<'a> IntoIterator for &'a MemorySet {
    type Item = &'a MemoryId;
    type IntoIter = std::slice::Iter<'a, MemoryId>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'de> Deserialize<'de> for MemorySet {
    /// Any order and repetitions are read; the invariant is restored.
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        Vec::<MemoryId>::deserialize(input).map(Self::from_iter)
    }
}

impl fmt::Debug for MemorySet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set()
            .entries(self.0.iter().map(ToString::to_string))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(members: &[u128]) -> MemorySet {
        members.iter().map(|&bits| MemoryId::from_u128(bits)).collect()
    }

    #[test]
    fn order_and_repetition_do_not_matter() {
        assert_eq!(set(&[3, 1, 2, 1]), set(&[1, 2, 3]));
        assert_eq!(set(&[]), MemorySet::EMPTY);
    }

    #[test]
    fn json_restores_the_invariant() {
        let written = serde_json::to_string(&set(&[1, 2])).unwrap();
        assert_eq!(serde_json::from_str::<MemorySet>(&written).unwrap(), set(&[1, 2]));
        let one = MemoryId::from_u128(1);
        let two = MemoryId::from_u128(2);
        let shuffled = format!("[\"{two}\",\"{one}\",\"{two}\"]");
        assert_eq!(
            serde_json::from_str::<MemorySet>(&shuffled).unwrap(),
            set(&[1, 2])
        );
    }

    proptest! {
        #[test]
        fn with_and_without_agree_with_a_tree_set(
            mut members in proptest::collection::btree_set(0_u128..20, 0..12), member in 0_u128..20,
        ) {
            let start = set(&members.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(start.contains(MemoryId::from_u128(member)), members.contains(&member));
            members.insert(member);
            prop_assert_eq!(
                start.with(MemoryId::from_u128(member)),
                set(&members.iter().copied().collect::<Vec<_>>())
            );
            members.remove(&member);
            prop_assert_eq!(
                start.without(MemoryId::from_u128(member)),
                set(&members.iter().copied().collect::<Vec<_>>())
            );
        }
    }
}
