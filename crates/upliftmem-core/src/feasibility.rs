//! Which sets a retrieval may return, and which sets are one memory away from one.

use crate::{
    Candidate, CandidatePool, Limits, MemoryId, MemorySet,
    error::{InvalidInput, Result},
};

/// All that one retrieval may return: the sets of recalled memories within the limits.
///
/// Every subset of a feasible set is feasible, because counts and tokens only grow with members.
#[derive(Debug, Clone, Copy)]
pub struct SearchSpace<'a> {
    pool: &'a CandidatePool,
    limits: Limits,
}

/// What a feasible set leaves of the limits.
#[derive(Debug, Clone, Copy)]
struct Room {
    memories: usize,
    tokens: u64,
}

impl Room {
    fn fits(self, candidate: Candidate) -> bool {
        self.memories > 0 && u64::from(candidate.tokens) <= self.tokens
    }
}

impl<'a> SearchSpace<'a> {
    /// The subsets of `pool` within `limits`. The empty set is always one of them.
    pub const fn new(pool: &'a CandidatePool, limits: Limits) -> Self {
        Self { pool, limits }
    }

    /// The recalled memories.
    pub const fn pool(&self) -> &'a CandidatePool {
        self.pool
    }

    /// The limits.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Refuses a set with a member that was not recalled, or over a limit; says which.
    pub fn check(&self, set: &MemorySet) -> Result<()> {
        self.room(set).map(drop)
    }

    /// The memories that may be added to the set, sorted by id. Paper: A(c, S) without STOP.
    pub fn additions(&self, set: &MemorySet) -> Result<Vec<MemoryId>> {
        let room = self.room(set)?;
        Ok(self.fitting(set, room).collect())
    }

    /// The set and every feasible set that one removal, addition or replacement makes of it, each once, sorted.
    /// Paper: the local candidates of app. probe_algorithm.
    pub fn edits(&self, set: &MemorySet) -> Result<Vec<MemorySet>> {
        self.edits_of_all([set])
    }

    /// The edits of several sets, such as the prefixes of a path, each set once, sorted.
    pub fn edits_of_all<'s>(&self, sets: impl IntoIterator<Item = &'s MemorySet>) -> Result<Vec<MemorySet>> {
        let mut edits = Vec::new();
        for set in sets {
            edits.push(set.clone());
            self.for_each_edit(set, |edit| edits.push(edit))?;
        }
        edits.sort_unstable();
        edits.dedup();
        Ok(edits)
    }

    /// Visits every edit of the set once, and not the set itself.
    pub(crate) fn for_each_edit(&self, set: &MemorySet, mut visit: impl FnMut(MemorySet)) -> Result<()> {
        let room = self.room(set)?;
        for addition in self.fitting(set, room) {
            visit(set.with(addition));
        }
        for &removed in set {
            let base = set.without(removed);
            let room = self.room(&base)?;
            // Members of the original set are skipped: putting the removed one back is no edit.
            for replacement in self.fitting(set, room) {
                visit(base.with(replacement));
            }
            visit(base);
        }
        Ok(())
    }

    /// The candidates outside `set` that fit into `room`.
    fn fitting<'s>(&self, set: &'s MemorySet, room: Room) -> impl Iterator<Item = MemoryId> + use<'a, 's> {
        self.pool
            .candidates()
            .iter()
            .filter(move |candidate| room.fits(**candidate) && !set.contains(candidate.id))
            .map(|candidate| candidate.id)
    }

    fn room(&self, set: &MemorySet) -> Result<Room> {
        let Some(memories) = self.limits.memories_max.checked_sub(set.len()) else {
            return Err(InvalidInput::new(
                format_args!("memory set {set:?}"),
                format_args!(
                    "has {} members and at most {} are allowed; take some out or raise memories_max",
                    set.len(),
                    self.limits.memories_max
                ),
            ));
        };
        let mut used = 0_u64;
        for &member in set {
            let Some(candidate) = self.pool.get(member) else {
                return Err(InvalidInput::new(
                    format_args!("memory set {set:?}"),
                    format_args!(
                        "member {member} is not among the {} candidates; take it out or recall it again",
                        self.pool.len()
                    ),
                ));
            };
            // 2^32 members of 2^32 tokens each still fit.
            used += u64::from(candidate.tokens);
        }
        // Without a cap everything fits: a candidate's tokens are far below this.
        let tokens_max = self.limits.tokens_max.unwrap_or(u64::MAX);
        let Some(tokens) = tokens_max.checked_sub(used) else {
            return Err(InvalidInput::new(
                format_args!("memory set {set:?}"),
                format_args!(
                    "has {used} tokens and at most {tokens_max} are allowed; take some out or raise tokens_max"
                ),
            ));
        };
        Ok(Room { memories, tokens })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_world::{all_subsets, pool_of, pool_with_tokens, set};

    fn check_edit_count(members: &[u128], expected: usize) {
        let pool = pool_of(50);
        let edits = SearchSpace::new(&pool, Limits::count(5))
            .edits(&set(members))
            .unwrap();
        assert_eq!(edits.len(), expected, "{members:?}");
    }

    #[test]
    fn fifty_candidates_and_a_cap_of_five_give_these_many_edits() {
        check_edit_count(&[], 51);
        check_edit_count(&[7], 100);
        check_edit_count(&[7, 1], 147);
        check_edit_count(&[7, 1, 50], 192);
        check_edit_count(&[7, 1, 50, 20], 235);
        check_edit_count(&[7, 1, 50, 20, 21], 231);
    }

    #[test]
    fn a_member_that_is_no_longer_recalled_is_named() {
        let pool = pool_of(3);
        let space = SearchSpace::new(&pool, Limits::count(2));
        for error in [
            space.check(&set(&[9])).unwrap_err(),
            space.additions(&set(&[1, 9])).unwrap_err(),
            space.edits(&set(&[9])).unwrap_err(),
        ] {
            assert!(
                error
                    .to_string()
                    .contains("000000000009 is not among the 3 candidates"),
                "{error}"
            );
        }
    }

    #[test]
    fn sets_over_a_limit_are_refused_with_both_numbers() {
        let pool = pool_with_tokens(&[10, 20, u32::MAX]);
        let error = SearchSpace::new(&pool, Limits::count(1))
            .edits(&set(&[1, 2]))
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("has 2 members and at most 1 are allowed"),
            "{error}"
        );
        let limits = Limits {
            memories_max: 3,
            tokens_max: Some(29),
        };
        let error = SearchSpace::new(&pool, limits).edits(&set(&[1, 2])).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("has 30 tokens and at most 29 are allowed"),
            "{error}"
        );
    }

    #[test]
    fn huge_token_counts_do_not_overflow() {
        let pool = pool_with_tokens(&[u32::MAX; 6]);
        let all = set(&[1, 2, 3, 4, 5, 6]);
        for tokens_max in [None, Some(u64::MAX), Some(6 * u64::from(u32::MAX))] {
            let limits = Limits {
                memories_max: usize::MAX,
                tokens_max,
            };
            let space = SearchSpace::new(&pool, limits);
            assert!(space.check(&all).is_ok());
            assert_eq!(space.additions(&set(&[1])).unwrap().len(), 5);
        }
        let limits = Limits {
            memories_max: usize::MAX,
            tokens_max: Some(6 * u64::from(u32::MAX) - 1),
        };
        let space = SearchSpace::new(&pool, limits);
        assert!(space.check(&all).is_err());
        assert_eq!(space.additions(&set(&[1, 2, 3, 4, 5])).unwrap(), []);
    }

    #[test]
    fn nothing_to_add_when_a_limit_is_zero_or_nothing_was_recalled() {
        let pool = pool_of(3);
        let none = CandidatePool::default();
        let no_tokens = Limits {
            memories_max: 5,
            tokens_max: Some(0),
        };
        for space in [
            SearchSpace::new(&pool, Limits::count(0)),
            SearchSpace::new(&pool, no_tokens),
            SearchSpace::new(&none, Limits::count(5)),
        ] {
            assert_eq!(space.additions(&MemorySet::EMPTY).unwrap(), []);
            assert_eq!(space.edits(&MemorySet::EMPTY).unwrap(), [MemorySet::EMPTY]);
        }
        let free = pool_with_tokens(&[0, 1]);
        let space = SearchSpace::new(&free, no_tokens);
        assert_eq!(
            space.additions(&MemorySet::EMPTY).unwrap(),
            [MemoryId::from_u128(1)]
        );
    }

    proptest! {
        #[test]
        fn edits_are_the_feasible_sets_one_memory_away(
            tokens in proptest::collection::vec(0_u32..10, 0..6),
            memories_max in 0_usize..5,
            tokens_max in proptest::option::of(0_u64..30),
            pick in any::<proptest::sample::Index>(),
        ) {
            let pool = pool_with_tokens(&tokens);
            let limits = Limits { memories_max, tokens_max };
            let space = SearchSpace::new(&pool, limits);
            let feasible = |set: &MemorySet| set.len() <= memories_max
                && tokens_max.is_none_or(|most| pool.tokens(set).unwrap() <= most);
            let (inside, outside): (Vec<_>, Vec<_>) = all_subsets(&pool).into_iter().partition(feasible);
            prop_assert!(outside.iter().all(|set| space.check(set).is_err()));
            let chosen = &inside[pick.index(inside.len())];
            let mut expected: Vec<MemorySet> = inside
                .iter()
                .filter(|other| {
                    let gone = chosen.iter().filter(|id| !other.contains(**id)).count();
                    let new = other.iter().filter(|id| !chosen.contains(**id)).count();
                    gone <= 1 && new <= 1
                })
                .cloned()
                .collect();
            expected.sort();
            prop_assert_eq!(space.edits(chosen).unwrap(), expected);
            let additions: Vec<MemoryId> = pool
                .candidates()
                .iter()
                .map(|candidate| candidate.id)
                .filter(|&id| !chosen.contains(id) && feasible(&chosen.with(id)))
                .collect();
            prop_assert_eq!(space.additions(chosen).unwrap(), additions);
        }

        #[test]
        fn edits_of_prefixes_are_the_union_of_their_edits(
            order in Just((1_u128..=8).collect::<Vec<_>>()).prop_shuffle(), length in 0_usize..=4,
        ) {
            let pool = pool_of(8);
            let space = SearchSpace::new(&pool, Limits::count(4));
            let prefixes: Vec<MemorySet> = (0..=length).map(|end| set(&order[..end])).collect();
            let mut expected = std::collections::BTreeSet::new();
            for prefix in &prefixes {
                expected.extend(space.edits(prefix).unwrap());
            }
            let edits = space.edits_of_all(&prefixes).unwrap();
            prop_assert_eq!(edits, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
