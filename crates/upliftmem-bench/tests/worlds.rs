//! What every world promises, and the one thing that each is about.
#![allow(clippy::unwrap_used)] // Helpers of tests may panic as tests do.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use upliftmem_bench::{
    LexicalIndex,
    baselines::similarity_top,
    worlds::{World, WorldKind},
};
use upliftmem_core::{MemoryId, MemorySet, Task, statistics::Summary};

const SEED: u64 = 11;

fn world(kind: WorldKind) -> World {
    World::generate(kind, SEED).unwrap()
}

fn recall(index: &LexicalIndex, task: &Task) -> Vec<MemoryId> {
    let ranked = index.recall(&task.context, 50);
    ranked.into_iter().map(|(id, _)| id).collect()
}

/// The true uplift of a set.
fn uplift(world: &World, task: &Task, set: &MemorySet) -> f64 {
    world.expected_utility(task, set).unwrap() - world.expected_utility(task, &MemorySet::EMPTY).unwrap()
}

/// The mean true uplift of the most similar memories over all unseen tasks.
fn similarity_uplift(world: &World, count: usize) -> f64 {
    let index = LexicalIndex::new(world.memories());
    let uplifts: Vec<f64> = world
        .test_tasks()
        .iter()
        .map(|task| {
            let ranked = recall(&index, task);
            uplift(world, task, &similarity_top(&ranked, count))
        })
        .collect();
    Summary::of(&uplifts).unwrap().mean
}

#[test]
fn the_same_seed_is_the_same_world_and_another_is_another() {
    for kind in WorldKind::ALL {
        let (one, same, other) = (world(kind), world(kind), World::generate(kind, SEED + 1).unwrap());
        assert_eq!(one.memories(), same.memories());
        assert_eq!(one.train_tasks(), same.train_tasks());
        assert_eq!(one.test_tasks(), same.test_tasks());
        assert_ne!(one.memories(), other.memories());
        let set = one.memories().iter().take(2).map(|memory| memory.id).collect();
        for (task, seed) in one.train_tasks().iter().zip(0..50) {
            assert_eq!(one.execute(task, &set, seed), same.execute(task, &set, seed));
        }
    }
}

#[test]
fn sizes_are_those_of_a_small_store() {
    for (kind, seed) in WorldKind::ALL
        .into_iter()
        .flat_map(|kind| (0..10).map(move |seed| (kind, seed)))
    {
        let world = World::generate(kind, seed).unwrap();
        let memories = world.memories().len();
        assert!(
            (200..=360).contains(&memories),
            "{kind} {seed}: {memories} memories"
        );
        assert!((300..=600).contains(&world.train_tasks().len()), "{kind}");
        assert_eq!(world.test_tasks().len(), 200, "{kind}");
        assert!(world.memories().is_sorted_by_key(|memory| memory.id), "{kind}");
        let tasks = world.train_tasks().iter().chain(world.test_tasks());
        let names: BTreeSet<_> = tasks.clone().map(|task| task.id).collect();
        assert_eq!(names.len(), tasks.count(), "{kind}");
        assert!(world.memories().iter().all(|memory| memory.tokens > 5), "{kind}");
    }
}

#[test]
fn a_fair_share_of_tasks_is_solved_alone_and_there_the_best_is_no_memory() {
    for kind in WorldKind::ALL {
        let world = world(kind);
        let index = LexicalIndex::new(world.memories());
        let (mut alone, mut abstaining, mut both) = (0, 0, 0);
        for task in world.test_tasks() {
            let solved = world.expected_utility(task, &MemorySet::EMPTY).unwrap() > 0.9;
            let candidates = recall(&index, task);
            let abstains = world.best_set(task, &candidates, 5).unwrap().set.is_empty();
            alone += i32::from(solved);
            abstaining += i32::from(abstains);
            both += i32::from(solved && abstains);
        }
        let shares = if kind == WorldKind::SelfReliant {
            80..=120
        } else {
            40..=85
        };
        assert!(shares.contains(&alone), "{kind}: {alone} of 200 are solved alone");
        assert!(
            shares.contains(&abstaining),
            "{kind}: the best is no memory on {abstaining} of 200"
        );
        assert!(both * 10 >= alone * 9, "{kind}: {both} of {alone}");
    }
}

#[test]
fn no_sampled_set_is_better_than_the_best() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for kind in WorldKind::ALL {
        let world = world(kind);
        let index = LexicalIndex::new(world.memories());
        for task in world.test_tasks().iter().take(40) {
            let candidates = recall(&index, task);
            let best = world.best_set(task, &candidates, 5).unwrap();
            assert!(best.set.len() <= 5 && best.set.iter().all(|id| candidates.contains(id)));
            assert_eq!(
                world.expected_utility(task, &best.set).unwrap().to_bits(),
                best.utility.to_bits()
            );
            for _ in 0..100 {
                let size = rng.random_range(0..=5);
                let sampled: MemorySet = candidates.sample(&mut rng, size).copied().collect();
                assert!(
                    world.expected_utility(task, &sampled).unwrap() <= best.utility + 1e-12,
                    "{kind}"
                );
            }
            // The nearest rivals: the best set with one member more or less.
            for &id in &candidates {
                let rival = if best.set.contains(id) {
                    best.set.without(id)
                } else {
                    best.set.with(id)
                };
                if rival.len() <= 5 {
                    assert!(
                        world.expected_utility(task, &rival).unwrap() <= best.utility + 1e-12,
                        "{kind}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_best_set_is_that_of_brute_force() {
    for kind in WorldKind::ALL {
        let world = world(kind);
        let index = LexicalIndex::new(world.memories());
        for task in world.test_tasks().iter().take(15) {
            let candidates = recall(&index, task)[..12].to_vec();
            let brute = (0_u32..1 << 12)
                .filter(|mask| mask.count_ones() <= 4)
                .map(|mask| {
                    let set: MemorySet = (0..12)
                        .filter(|bit| mask >> bit & 1 == 1)
                        .map(|bit| candidates[bit])
                        .collect();
                    world.expected_utility(task, &set).unwrap()
                })
                .fold(f64::MIN, f64::max);
            let best = world.best_set(task, &candidates, 4).unwrap();
            assert!(
                (best.utility - brute).abs() < 1e-12,
                "{kind}: {} is not {brute}",
                best.utility
            );
        }
    }
}

#[test]
fn executions_average_to_the_expected_utility() {
    for kind in WorldKind::ALL {
        let world = world(kind);
        let index = LexicalIndex::new(world.memories());
        for (number, task) in world.test_tasks().iter().take(6).enumerate() {
            let candidates = recall(&index, task);
            let set = match number % 3 {
                0 => MemorySet::EMPTY,
                1 => similarity_top(&candidates, 4),
                _ => world.best_set(task, &candidates, 5).unwrap().set,
            };
            let utilities: Vec<f64> = (0..3_000)
                .map(|seed| {
                    let (performance, cost) = world.execute(task, &set, seed).unwrap();
                    world.utility_rule().utility(performance, cost).unwrap().get()
                })
                .collect();
            let summary = Summary::of(&utilities).unwrap();
            let expected = world.expected_utility(task, &set).unwrap();
            let error = summary.standard_error.unwrap();
            assert!(
                (summary.mean - expected).abs() <= 5.0 * error,
                "{kind}, {}: {} +- {error} is not {expected}",
                task.name,
                summary.mean
            );
            assert!(error > 0.0, "{kind}: nothing is left to chance");
        }
    }
}

#[test]
fn similarity_harms_where_look_alikes_are_traps_and_helps_where_kinds_are_named() {
    for seed in 0..3 {
        let traps = World::generate(WorldKind::LookAlikes, seed).unwrap();
        assert!(
            similarity_uplift(&traps, 5) < -0.2,
            "{}",
            similarity_uplift(&traps, 5)
        );
        let named = World::generate(WorldKind::SubTypes, seed).unwrap();
        assert!(
            similarity_uplift(&named, 3) > 0.1,
            "{}",
            similarity_uplift(&named, 3)
        );
    }
}

#[test]
fn too_many_similar_memories_spoil_what_one_would_do() {
    let world = world(WorldKind::Crowding);
    assert!(similarity_uplift(&world, 1) > similarity_uplift(&world, 5) + 0.03);
}

/// Whether any two recalled memories of an unseen task are related as `wanted`, from the uplift of each and of both.
fn tasks_with_pair(kind: WorldKind, wanted: impl Fn(f64, f64, f64) -> bool) -> usize {
    let world = world(kind);
    let index = LexicalIndex::new(world.memories());
    let tasks = world.test_tasks().iter().take(60);
    tasks
        .filter(|task| {
            let candidates = recall(&index, task)[..25].to_vec();
            let single = |id| uplift(&world, task, &MemorySet::EMPTY.with(id));
            let singles: Vec<(MemoryId, f64)> = candidates.iter().map(|&id| (id, single(id))).collect();
            singles.iter().enumerate().any(|(number, &(left, alone))| {
                singles[..number].iter().any(|&(right, other)| {
                    let both: MemorySet = [left, right].into_iter().collect();
                    wanted(alone, other, uplift(&world, task, &both))
                })
            })
        })
        .count()
}

#[test]
fn halves_of_a_recipe_harm_alone_and_help_together() {
    let tasks = tasks_with_pair(WorldKind::Recipes, |left, right, both| {
        left.max(right) < 0.0 && left.min(right) < -0.05 && both > 0.15
    });
    assert!(tasks >= 10, "{tasks}");
}

#[test]
fn two_recipes_at_once_are_worse_than_either() {
    let tasks = tasks_with_pair(WorldKind::Recipes, |left, right, both| {
        left > 0.1 && right > 0.1 && both < left.min(right) - 0.1
    });
    assert!(tasks >= 10, "{tasks}");
}

#[test]
fn two_clues_are_more_than_twice_one_and_two_routes_less() {
    let more = tasks_with_pair(WorldKind::Routes, |left, right, both| {
        left > 0.02 && right > 0.02 && both > 1.5 * (left + right)
    });
    let less = tasks_with_pair(WorldKind::Routes, |left, right, both| {
        left > 0.3 && right > 0.3 && both < 0.7 * (left + right)
    });
    assert!(more >= 5 && less >= 5, "{more}, {less}");
}

#[test]
fn versions_pull_in_opposite_directions() {
    let tasks = tasks_with_pair(WorldKind::Versions, |left, right, both| {
        left.max(right) > 0.3 && left.min(right) < -0.05 && both < left.max(right) - 0.05
    });
    assert!(tasks >= 20, "{tasks}");
}

#[test]
fn after_the_change_some_memories_do_the_opposite() {
    let world = world(WorldKind::Drift);
    let (before, after) = world.train_tasks().split_at(300);
    let extreme = |tasks: &[Task], id: MemoryId| {
        let set = MemorySet::EMPTY.with(id);
        tasks
            .iter()
            .map(|task| uplift(&world, task, &set))
            .fold(
                0.0,
                |most: f64, uplift| {
                    if uplift.abs() > most.abs() { uplift } else { most }
                },
            )
    };
    let turned = world
        .memories()
        .iter()
        .filter(|memory| extreme(before, memory.id) > 0.2 && extreme(after, memory.id) < -0.05)
        .count();
    assert!(turned >= 5, "{turned}");
}

#[test]
fn graded_outcomes_take_many_values_and_others_two() {
    for kind in [WorldKind::Graded, WorldKind::Recipes] {
        let world = world(kind);
        let tasks = world.test_tasks().iter();
        let performances: BTreeSet<u64> = tasks
            .map(|task| {
                world
                    .execute(task, &MemorySet::EMPTY, 0)
                    .unwrap()
                    .0
                    .get()
                    .to_bits()
            })
            .collect();
        assert_eq!(
            performances.len(),
            if kind == WorldKind::Graded { 5 } else { 2 },
            "{kind}"
        );
    }
}

#[test]
fn tasks_and_memories_of_other_worlds_are_refused_by_name() {
    let (one, other) = (world(WorldKind::Recipes), world(WorldKind::Drift));
    let task = &one.test_tasks()[0];
    let error = other.expected_utility(task, &MemorySet::EMPTY).unwrap_err();
    assert_eq!(
        error.to_string(),
        "task \"recipes-11-test-0000\": it is not of world drift 11"
    );
    let foreign = MemorySet::EMPTY.with(MemoryId::from_u128(5));
    assert!(
        one.execute(task, &foreign, 0)
            .unwrap_err()
            .to_string()
            .contains("not of world recipes 11")
    );
    assert!(one.best_set(task, &foreign, 5).is_err());
}

#[test]
fn a_kind_reads_back_its_name() {
    for kind in WorldKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    let error = "recipe".parse::<WorldKind>().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("\"recipe\" is not one of recipes, look_alikes"),
        "{error}"
    );
}
