//! The comparison family against a definition by all pairs, its counts, and its refusals.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{
    Candidate, CandidatePool, Limits, MemoryId,
    test_world::{pool_of, pool_with_tokens, set},
};

fn task(bits: u128) -> TaskId {
    TaskId::from_u128(bits)
}

fn entry(
    name: u128,
    pool: &CandidatePool,
    prefixes: &[&[u128]],
    incumbent: &[u128],
    limits: Limits,
) -> WindowEntry {
    WindowEntry {
        task: task(name),
        pool: pool.clone(),
        incumbent: set(incumbent),
        prefixes: prefixes.iter().map(|prefix| set(prefix)).collect(),
        limits,
    }
}

/// The sets of a side.
fn set_of(pool: &ProbePool, side: Side) -> MemorySet {
    match side {
        Side::Empty => MemorySet::EMPTY,
        Side::Probe(at) => pool.probes()[at as usize].set.clone(),
    }
}

fn any_window(seed: u64, entries: usize) -> AcquisitionWindow {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut window = AcquisitionWindow::default();
    for _ in 0..entries {
        // Different retrievals of a task see different pools: memories come and go in between.
        let candidates = (1..=7)
            .filter(|_| rng.random::<f64>() < 0.7)
            .map(|bits| Candidate {
                id: MemoryId::from_u128(bits),
                tokens: 1,
            });
        let pool = CandidatePool::new(candidates.collect()).unwrap();
        let mut ids: Vec<MemoryId> = pool.candidates().iter().map(|candidate| candidate.id).collect();
        ids.shuffle(&mut rng);
        ids.truncate(rng.random_range(0..=4));
        window.entries.push(WindowEntry {
            task: task(rng.random_range(1..4)),
            pool,
            incumbent: ids.iter().copied().collect(),
            prefixes: (0..ids.len())
                .map(|end| ids[..end].iter().copied().collect())
                .collect(),
            limits: Limits::count(4),
        });
    }
    window
}

proptest! {
    #[test]
    fn pool_and_family_are_all_edits_each_once(
        seed in any::<u64>(), entries in 0_usize..6, with_prefixes in any::<bool>(),
    ) {
        let window = any_window(seed, entries);
        let neighbourhood = if with_prefixes { Neighbourhood::Prefixes } else { Neighbourhood::Incumbent };
        let (pool, family) = local_comparisons(&window, neighbourhood).unwrap();

        // By definition: every unordered pair of an anchor and another of its edits.
        let mut pairs: BTreeMap<TaskId, BTreeSet<(MemorySet, MemorySet)>> = BTreeMap::new();
        let mut sets: BTreeMap<TaskId, BTreeSet<MemorySet>> = BTreeMap::new();
        for entry in &window.entries {
            let anchors = entry.prefixes.iter().filter(|_| with_prefixes).chain([&entry.incumbent]);
            let pairs = pairs.entry(entry.task).or_default();
            let sets = sets.entry(entry.task).or_default();
            for anchor in anchors {
                for edit in entry.space().edits(anchor).unwrap() {
                    sets.insert(edit.clone());
                    if &edit != anchor {
                        pairs.insert((anchor.min(&edit).clone(), anchor.max(&edit).clone()));
                    }
                }
            }
            sets.remove(&MemorySet::EMPTY);
        }
        prop_assert_eq!(pool.tasks(), pairs.keys().copied().collect::<Vec<_>>());
        for (at, (id, expected)) in (0..).zip(&pairs) {
            let found: Vec<(MemorySet, MemorySet)> = family
                .of_task(at)
                .iter()
                .map(|comparison| {
                    let (one, two) = (set_of(&pool, comparison.challenger), set_of(&pool, comparison.incumbent));
                    (one.clone().min(two.clone()), one.max(two))
                })
                .collect();
            prop_assert_eq!(found.len(), expected.len());
            prop_assert_eq!(&found.into_iter().collect::<BTreeSet<_>>(), expected);
            let probes: Vec<&MemorySet> = pool.probes()[pool.range_of(at)].iter().map(|probe| &probe.set).collect();
            prop_assert_eq!(probes, sets[id].iter().collect::<Vec<_>>());
            prop_assert!(pool.range_of(at).all(|probe| pool.probes()[probe].task == at));
        }
        // The incumbent is something that retrieval chose or passed through.
        for comparison in family.comparisons() {
            let incumbent = set_of(&pool, comparison.incumbent);
            let chosen = window.entries.iter().any(|entry| {
                entry.task == pool.tasks()[comparison.task as usize]
                    && (entry.incumbent == incumbent || with_prefixes && entry.prefixes.contains(&incumbent))
            });
            prop_assert!(chosen);
        }
        // Checked construction from the parts gives the same.
        let rebuilt = ComparisonFamily::new(&pool, family.comparisons().iter().copied()).unwrap();
        prop_assert_eq!(rebuilt, family);
    }

    #[test]
    fn the_order_of_the_window_does_not_matter(seed in any::<u64>(), entries in 0_usize..6) {
        let window = any_window(seed, entries);
        let mut shuffled = window.clone();
        shuffled.entries.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        prop_assert_eq!(
            local_comparisons(&shuffled, Neighbourhood::Prefixes).unwrap(),
            local_comparisons(&window, Neighbourhood::Prefixes).unwrap()
        );
    }
}

#[test]
fn the_full_window_has_the_papers_size() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let pool = pool_of(50);
    let mut window = AcquisitionWindow::default();
    for name in 1..=400 {
        let mut ids: Vec<u128> = (1..=50).collect();
        ids.shuffle(&mut rng);
        let members = if name % 2 == 0 { 5 } else { 4 };
        window
            .entries
            .push(entry(name, &pool, &[], &ids[..members], Limits::count(5)));
    }
    let (pool, family) = local_comparisons(&window, Neighbourhood::Incumbent).unwrap();
    assert_eq!(pool.len(), 200 * 235 + 200 * 231);
    assert_eq!(family.len(), 200 * 234 + 200 * 230);
}

#[test]
fn keep_or_remove_extend_or_stop_and_replacements_are_there() {
    let window = AcquisitionWindow {
        entries: vec![entry(1, &pool_of(3), &[&[], &[2]], &[2], Limits::count(2))],
    };
    let (pool, family) = local_comparisons(&window, Neighbourhood::Incumbent).unwrap();
    let found: Vec<(MemorySet, MemorySet)> = family
        .comparisons()
        .iter()
        .map(|comparison| {
            (
                set_of(&pool, comparison.challenger),
                set_of(&pool, comparison.incumbent),
            )
        })
        .collect();
    let against = |challenger: &[u128]| (set(challenger), set(&[2]));
    assert_eq!(
        found,
        [
            against(&[]),
            against(&[1]),
            against(&[1, 2]),
            against(&[2, 3]),
            against(&[3])
        ]
    );
    // The way to it adds what could have been chosen first, against stopping at once.
    let (pool, family) = local_comparisons(&window, Neighbourhood::Prefixes).unwrap();
    assert_eq!((pool.len(), family.len()), (5, 7));
    let at_start: Vec<MemorySet> = family
        .comparisons()
        .iter()
        .filter(|comparison| comparison.incumbent == Side::Empty)
        .map(|comparison| set_of(&pool, comparison.challenger))
        .collect();
    assert_eq!(at_start, [set(&[1]), set(&[3])]);
}

#[test]
fn a_task_for_which_nothing_was_recalled_keeps_its_place() {
    let none = CandidatePool::default();
    let window = AcquisitionWindow {
        entries: vec![
            entry(2, &pool_of(1), &[], &[], Limits::count(5)),
            entry(1, &none, &[&[]], &[], Limits::count(5)),
        ],
    };
    let (pool, family) = local_comparisons(&window, Neighbourhood::Prefixes).unwrap();
    assert_eq!(pool.tasks(), [task(1), task(2)]);
    assert_eq!((pool.range_of(0), pool.range_of(1)), (0..0, 0..1));
    assert_eq!((family.of_task(0).len(), family.of_task(1).len()), (0, 1));
    let (pool, family) = local_comparisons(&AcquisitionWindow::default(), Neighbourhood::Prefixes).unwrap();
    assert!(pool.is_empty() && family.is_empty());
}

fn check_refused(entry: WindowEntry, message: &str) {
    let name = entry.task;
    let window = AcquisitionWindow { entries: vec![entry] };
    let error = local_comparisons(&window, Neighbourhood::Prefixes).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
    assert!(error.to_string().contains(&name.to_string()), "{error}");
}

#[test]
fn an_entry_that_can_not_be_is_refused_with_its_task() {
    let pool = pool_with_tokens(&[5, 5, 5]);
    let tokens = Limits {
        memories_max: 3,
        tokens_max: Some(9),
    };
    check_refused(
        entry(1, &pool, &[], &[9], Limits::count(2)),
        "is not among the 3 candidates",
    );
    check_refused(
        entry(1, &pool, &[&[8]], &[1], Limits::count(2)),
        "is not among the 3 candidates",
    );
    check_refused(
        entry(1, &pool, &[], &[1, 2], Limits::count(1)),
        "has 2 members and at most 1",
    );
    check_refused(
        entry(1, &pool, &[], &[1, 2], tokens),
        "has 10 tokens and at most 9",
    );
}

#[test]
fn a_family_of_impossible_comparisons_is_refused() {
    let pool = ProbePool::new([(task(1), set(&[1])), (task(2), set(&[2]))]).unwrap();
    let compare = |task, challenger, incumbent| {
        ComparisonFamily::new(
            &pool,
            [Comparison {
                task,
                challenger,
                incumbent,
            }],
        )
    };
    assert!(compare(0, Side::Probe(0), Side::Empty).is_ok());
    for refused in [
        compare(0, Side::Probe(0), Side::Probe(1)),
        compare(0, Side::Probe(0), Side::Probe(0)),
        compare(0, Side::Probe(7), Side::Empty),
        compare(9, Side::Probe(0), Side::Empty),
    ] {
        let error = refused.unwrap_err();
        assert!(
            error.to_string().contains("two different sets of one task"),
            "{error}"
        );
    }
    let both_ways = [
        Comparison {
            task: 0,
            challenger: Side::Empty,
            incumbent: Side::Probe(0),
        },
        Comparison {
            task: 0,
            challenger: Side::Probe(0),
            incumbent: Side::Empty,
        },
    ];
    assert_eq!(
        ComparisonFamily::new(&pool, both_ways).unwrap().comparisons(),
        &both_ways[..1]
    );
}
