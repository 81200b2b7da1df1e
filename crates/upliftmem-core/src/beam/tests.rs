//! The beam against brute force, against the paper's text taken literally, and at its edges.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{
    Candidate, CandidatePool, Limits,
    test_world::{World, id, pool_of, set},
};

fn search(world: &World, settings: BeamSettings) -> BeamResult {
    let mut search = BeamSearch::new(world.space(), settings).unwrap();
    while let Some(sets) = search.to_score() {
        let values = world.score(sets);
        search.take_values(&values).unwrap();
    }
    search.finish()
}

fn brute_force(world: &World) -> ScoredSet {
    let sets = world.feasible_sets().into_iter().map(|set| ScoredSet {
        value: world.values[&set],
        set,
    });
    sets.min_by(ScoredSet::preference).unwrap()
}

/// App. search sentence by sentence, with no thought for speed. Also counts the sets that it scores.
fn literal_search(world: &World, width: usize) -> (ScoredSet, usize) {
    let empty = ScoredSet {
        set: MemorySet::EMPTY,
        value: 0.0,
    };
    let mut beam = vec![empty.clone()];
    let mut archive = vec![empty];
    let mut scored = 0;
    loop {
        let mut retained: BTreeMap<MemorySet, f64> = BTreeMap::new();
        let mut distinct = std::collections::BTreeSet::new();
        for parent in &beam {
            let additions = world.space().additions(&parent.set).unwrap();
            let mut extensions: Vec<ScoredSet> = additions
                .into_iter()
                .map(|added| parent.set.with(added))
                .map(|set| ScoredSet {
                    value: world.values[&set],
                    set,
                })
                .collect();
            distinct.extend(extensions.iter().map(|extension| extension.set.clone()));
            extensions.sort_by(ScoredSet::preference);
            extensions.truncate(width);
            retained.extend(
                extensions
                    .into_iter()
                    .map(|extension| (extension.set, extension.value)),
            );
        }
        scored += distinct.len();
        if retained.is_empty() {
            archive.sort_by(ScoredSet::preference);
            return (archive.swap_remove(0), scored);
        }
        beam = retained
            .into_iter()
            .map(|(set, value)| ScoredSet { set, value })
            .collect();
        beam.sort_by(ScoredSet::preference);
        beam.truncate(width);
        archive.extend(beam.iter().cloned());
    }
}

/// A world of up to five candidates; with `levels` the values come from so few numbers that ties are common.
fn any_world(seed: u64, levels: Option<i32>) -> World {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tokens: Vec<u32> = (0..rng.random_range(0..6_usize))
        .map(|_| rng.random_range(0..5))
        .collect();
    let limits = Limits {
        memories_max: rng.random_range(0..6),
        tokens_max: rng.random::<bool>().then(|| rng.random_range(0..14)),
    };
    World::with_values(&tokens, limits, |set| match levels {
        _ if set.is_empty() => 0.0,
        None => rng.random_range(-1.0..1.0),
        Some(levels) => f64::from(rng.random_range(-levels..=levels)),
    })
}

proptest! {
    #[test]
    fn a_beam_that_keeps_everything_is_brute_force(seed in any::<u64>(), ties in any::<bool>()) {
        let world = any_world(seed, ties.then_some(1));
        let result = search(&world, BeamSettings::new(32));
        prop_assert_eq!(&result.best, &brute_force(&world));
        prop_assert_eq!(result.end, SearchEnd::Complete);
        prop_assert_eq!(result.scores, world.feasible_sets().len() - 1);
        prop_assert_eq!(result.archive.len(), world.feasible_sets().len());
    }

    #[test]
    fn the_search_is_the_papers_text(seed in any::<u64>(), ties in any::<bool>(), width in 1_usize..4) {
        let world = any_world(seed, ties.then_some(1));
        let result = search(&world, BeamSettings::new(width));
        let (best, scored) = literal_search(&world, width);
        prop_assert_eq!(&result.best, &best);
        prop_assert_eq!(result.scores, scored);
    }

    #[test]
    fn the_trace_leads_from_nothing_to_the_answer(seed in any::<u64>(), width in 1_usize..4) {
        let world = any_world(seed, None);
        let result = search(&world, BeamSettings::new(width));
        let steps = result.steps();
        prop_assert_eq!(steps.len(), result.best.set.len());
        let mut reached = MemorySet::EMPTY;
        let mut sum = 0.0;
        for step in steps {
            prop_assert_eq!(&step.parent, &reached);
            reached = reached.with(step.added);
            prop_assert_eq!(&step.set, &reached);
            sum += step.gain;
        }
        prop_assert_eq!(&reached, &result.best.set);
        prop_assert!((sum - result.best.value).abs() < 1e-12);
        for depth in &result.depths {
            prop_assert!(depth.kept.len() <= width && depth.runners_up.len() <= 3);
            let all: Vec<&BeamStep> = depth.kept.iter().chain(&depth.runners_up).collect();
            prop_assert_eq!(all.len(), depth.scored.min(width + 3));
            prop_assert!(all.windows(2).all(|pair| pair[0].value >= pair[1].value));
        }
    }

    #[test]
    fn the_order_of_candidates_does_not_matter(
        seed in any::<u64>(), shuffled in Just((1_u128..=6).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let world = World::random(&[1; 6], Limits::count(3), 1.0, seed);
        let candidates = shuffled.iter().map(|&bits| Candidate { id: id(bits), tokens: 1 });
        let twin = World { pool: CandidatePool::new(candidates.collect()).unwrap(), ..world.clone() };
        prop_assert_eq!(search(&twin, BeamSettings::default()), search(&world, BeamSettings::default()));
        // Nor do the names, as long as nothing ties.
        let renamed = World::with_values(&[1; 6], world.limits, |set| {
            let original = set.iter().map(|id| MemoryId::from_u128(shuffled[id.as_u128() as usize - 1]));
            world.values[&original.collect::<MemorySet>()]
        });
        let value = |world| search(world, BeamSettings::default()).best.value.to_bits();
        prop_assert_eq!(value(&renamed), value(&world));
    }

    #[test]
    fn a_budget_is_kept_and_what_was_scored_counts(seed in any::<u64>(), scores_max in 0_usize..20) {
        let world = any_world(seed, None);
        let whole = search(&world, BeamSettings::default());
        let mut machine =
            BeamSearch::new(world.space(), BeamSettings { scores_max: Some(scores_max), ..BeamSettings::default() })
                .unwrap();
        let mut seen = vec![ScoredSet { set: MemorySet::EMPTY, value: 0.0 }];
        while let Some(sets) = machine.to_score() {
            let values = world.score(sets);
            seen.extend(sets.iter().zip(&values).map(|(set, &value)| ScoredSet { set: set.clone(), value }));
            machine.take_values(&values).unwrap();
        }
        let result = machine.finish();
        prop_assert_eq!(result.scores, whole.scores.min(scores_max));
        prop_assert_eq!(result.end == SearchEnd::Budget, scores_max < whole.scores);
        // The best of all that was scored, a depth that was cut short included.
        prop_assert_eq!(&result.best, seen.iter().min_by(|a, b| a.preference(b)).unwrap());
        if scores_max >= whole.scores {
            prop_assert_eq!(result, whole);
        }
    }
}

#[test]
fn fifty_candidates_five_members_width_two_cost_at_most_430_scores() {
    let pool = pool_of(50);
    for seed in 0..50 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let space = SearchSpace::new(&pool, Limits::count(5));
        let mut search = BeamSearch::new(space, BeamSettings::default()).unwrap();
        while let Some(sets) = search.to_score() {
            assert!(
                sets.windows(2).all(|pair| pair[0] < pair[1]),
                "sorted and distinct"
            );
            let values: Vec<f64> = sets.iter().map(|_| rng.random_range(-1.0..1.0)).collect();
            search.take_values(&values).unwrap();
        }
        let result = search.finish();
        // 50 + 98 + 96 + 94 + 92, less the sets that both parents lead to: at least one pair at depth two.
        assert!(result.scores <= 429, "{}", result.scores);
        assert_eq!(result.depths.len(), 5);
    }
}

#[test]
fn a_harmful_first_step_is_kept_for_what_it_opens() {
    // Each alone harms, together they help: the greedy rule would abstain.
    let world = World::with_values(&[1, 1, 1], Limits::count(2), |members| match members.len() {
        0 => 0.0,
        2 if members == &set(&[1, 2]) => 0.5,
        _ => -0.1,
    });
    assert_eq!(search(&world, BeamSettings::default()).best.set, set(&[1, 2]));
}

#[test]
fn ties_go_to_fewer_memories_then_to_smaller_ids() {
    let flat = World::with_values(
        &[1; 4],
        Limits::count(3),
        |set| if set.is_empty() { 0.0 } else { 1.0 },
    );
    assert_eq!(search(&flat, BeamSettings::default()).best.set, set(&[1]));
    // One memory with a larger id before two that start with a smaller one.
    let sizes = World::with_values(&[1; 3], Limits::count(2), |members| {
        f64::from(u8::from(members == &set(&[2]) || members == &set(&[1, 3])))
    });
    assert_eq!(search(&sizes, BeamSettings::new(3)).best.set, set(&[2]));
    let nothing = World::with_values(&[1; 4], Limits::count(3), |_| 0.0);
    assert_eq!(
        search(&nothing, BeamSettings::default()).best.set,
        MemorySet::EMPTY
    );
    // Minus zero is zero: the smaller id wins.
    let signed = World::with_values(&[1; 2], Limits::count(1), |members| {
        if members == &set(&[1]) { -0.0 } else { 0.0 }
    });
    assert_eq!(
        search(&signed, BeamSettings::default()).depths[0].kept[0].set,
        set(&[1])
    );
    let pairs = World::with_values(&[1; 4], Limits::count(2), |set| {
        [0.0, -1.0, 2.0, 9.0, 9.0][set.len()]
    });
    assert_eq!(search(&pairs, BeamSettings::new(4)).best.set, set(&[1, 2]));
}

#[test]
fn nothing_to_search_is_an_abstention() {
    let no_tokens = Limits {
        memories_max: 5,
        tokens_max: Some(0),
    };
    for (pool, limits) in [
        (CandidatePool::default(), Limits::count(5)),
        (pool_of(3), Limits::count(0)),
        (pool_of(3), no_tokens),
    ] {
        let search = BeamSearch::new(SearchSpace::new(&pool, limits), BeamSettings::default()).unwrap();
        assert_eq!(search.to_score(), None);
        let result = search.finish();
        assert_eq!(
            (result.best.set.len(), result.end, result.scores),
            (0, SearchEnd::Complete, 0)
        );
        assert!(result.steps().is_empty());
    }
    let one = World::with_values(&[1], Limits::count(5), |set| set.len() as f64);
    assert_eq!(search(&one, BeamSettings::default()).best.set, set(&[1]));
}

#[test]
fn a_refused_value_names_its_set_and_changes_nothing() {
    let pool = pool_of(3);
    let mut search =
        BeamSearch::new(SearchSpace::new(&pool, Limits::count(2)), BeamSettings::default()).unwrap();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = search.take_values(&[0.0, 0.0, bad]).unwrap_err();
        assert!(error.to_string().contains(&id(3).to_string()), "{error}");
        assert!(error.to_string().contains("is not a finite number"), "{error}");
    }
    let error = search.take_values(&[0.0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "set values: 1 values for 3 sets; give one value for each set, in order"
    );
    search.take_values(&[1.0, 0.0, 0.0]).unwrap();
    assert_eq!(search.finish().best.set, set(&[1]));
    let error = BeamSearch::new(SearchSpace::new(&pool, Limits::count(2)), BeamSettings::new(0)).unwrap_err();
    assert_eq!(error.to_string(), "beam width: 0 keeps nothing; give at least 1");
}

#[test]
fn an_interrupted_search_returns_the_best_so_far_and_says_so() {
    let world = World::with_values(&[1; 3], Limits::count(3), |set| set.len() as f64);
    let mut search = BeamSearch::new(world.space(), BeamSettings::default()).unwrap();
    let values = world.score(search.to_score().unwrap());
    search.take_values(&values).unwrap();
    let result = search.finish();
    assert_eq!((result.best.set, result.end), (set(&[1]), SearchEnd::Interrupted));
}

#[test]
fn a_tight_budget_goes_to_the_best_parent_and_the_best_memories() {
    let world = World::with_values(&[1; 4], Limits::count(2), |set| {
        // 4 is worth most alone, then 3, 2, 1.
        set.iter().map(|id| id.as_u128() as f64).sum()
    });
    let settings = BeamSettings {
        scores_max: Some(5),
        ..BeamSettings::default()
    };
    let result = search(&world, settings);
    assert_eq!(result.end, SearchEnd::Budget);
    assert_eq!(result.depths[1].scored, 1);
    assert_eq!(result.best.set, set(&[3, 4]));
}

#[test]
fn a_depth_that_was_scored_in_part_competes_and_ends_the_search() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let pool = pool_of(4);
    let space = SearchSpace::new(&pool, Limits::count(3));
    let mut search = BeamSearch::new(space, BeamSettings::new(2)).unwrap();
    search.take_values(&[0.1, 0.4, -0.2, 0.3]).unwrap();
    let count = search.to_score().unwrap().len();
    let mut values: Vec<Option<f64>> = (0..count).map(|_| Some(rng.random_range(-1.0..0.3))).collect();
    values[0] = None;
    values[count - 1] = Some(0.9);
    let wanted = search.to_score().unwrap()[count - 1].clone();
    assert!(search.clone().take_scored(&values[1..]).is_err());
    assert!(
        search
            .clone()
            .take_scored(&[vec![None], vec![Some(f64::NAN); count - 1]].concat())
            .is_err()
    );
    search.take_scored(&values).unwrap();
    assert_eq!(search.to_score(), None);
    let result = search.finish();
    assert_eq!((&result.best.set, result.best.value), (&wanted, 0.9));
    assert_eq!(
        (result.end, result.scores),
        (SearchEnd::Interrupted, 4 + count - 1)
    );
    let gains: f64 = result.steps().iter().map(|step| step.gain).sum();
    assert!((gains - 0.9).abs() < 1e-12);

    // Nothing in time: what earlier depths found stays.
    let mut search = BeamSearch::new(space, BeamSettings::new(2)).unwrap();
    search.take_scored(&[None; 4]).unwrap();
    let result = search.finish();
    assert_eq!(
        (result.best.set, result.end),
        (MemorySet::EMPTY, SearchEnd::Interrupted)
    );
}
