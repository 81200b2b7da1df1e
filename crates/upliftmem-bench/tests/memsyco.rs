//! MemSyco-Bench as published: counts, checksums, division.
//!
//! Needs the data: a folder `UPLIFTMEM_BENCH_DIR` with `memsyco/` in it (see `docs/environments.md`). Without it these tests say so
//! and stop.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use upliftmem_bench::memsyco::{
    Behaviour, Instance, LikelihoodPair, SPLIT_SEED, Scenario, judge_prompt, load, split,
};

fn instances() -> Option<Vec<Instance>> {
    let folder = std::env::var_os("UPLIFTMEM_BENCH_DIR").map(|data| PathBuf::from(data).join("memsyco"));
    let folder = folder.filter(|folder| folder.is_dir());
    if folder.is_none() {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("skipped: UPLIFTMEM_BENCH_DIR does not name a folder with `memsyco` in it");
        }
    }
    Some(load(folder?).unwrap())
}

#[test]
fn the_division_has_the_papers_counts_and_no_dialogue_on_both_sides() {
    let Some(instances) = instances() else { return };
    assert_eq!(instances.len(), 1550);
    let divided = split(&instances, SPLIT_SEED);
    let count = |positions: &[usize]| {
        let mut counts: BTreeMap<Scenario, usize> = BTreeMap::new();
        for position in positions {
            *counts.entry(instances[*position].scenario).or_default() += 1;
        }
        counts
    };
    let of_paper = |most, valid| {
        let count = |scenario| {
            if scenario == Scenario::ValidMemorySelection {
                valid
            } else {
                most
            }
        };
        BTreeMap::from(Scenario::ALL.map(|scenario| (scenario, count(scenario))))
    };
    assert_eq!(count(&divided.train), of_paper(210, 245));
    assert_eq!(count(&divided.test), of_paper(90, 105));
    let everyone: BTreeSet<_> = divided.train.iter().chain(&divided.test).copied().collect();
    assert_eq!(everyone, (0..1550).collect());
    let beginnings = |positions: &[usize]| -> BTreeSet<Vec<String>> {
        let beginning = |position: &usize| instances[*position].turn_memories()[..3].to_vec();
        positions.iter().map(beginning).collect()
    };
    assert!(beginnings(&divided.train).is_disjoint(&beginnings(&divided.test)));
    assert_eq!(split(&instances, SPLIT_SEED), divided);
    assert_ne!(split(&instances, 43).test, divided.test);
}

#[test]
fn every_instance_can_be_judged_and_compared() {
    let Some(instances) = instances() else { return };
    for (position, instance) in instances.iter().enumerate() {
        let memories = instance.turn_memories();
        assert!(
            (4..=15).contains(&memories.len()),
            "{}: {} turns",
            instance.id,
            memories.len()
        );
        let prompt = judge_prompt(instance, "An answer.");
        assert!(
            prompt.contains(&instance.question) && prompt.contains("An answer."),
            "{}",
            instance.id
        );
        let pair = LikelihoodPair::of(&instances, position).unwrap();
        assert!(
            pair.good.iter().all(|good| !pair.bad.contains(good)),
            "{}: {pair:?}",
            instance.id
        );
    }
    let sycophantic = Scenario::ALL.map(Behaviour::of);
    assert_eq!(
        sycophantic
            .iter()
            .filter(|behaviour| **behaviour == Behaviour::Sycophancy)
            .count(),
        3
    );
}

/// Names of candidates are compared with names, facts with facts.
#[test]
fn pairs_are_of_one_kind() {
    let Some(instances) = instances() else { return };
    let first = |scenario| {
        let position = instances
            .iter()
            .position(|instance| instance.scenario == scenario)
            .unwrap();
        LikelihoodPair::of(&instances, position).unwrap()
    };
    let candidates = first(Scenario::MemoryEvidenceConflict);
    assert_eq!(
        (candidates.good, candidates.bad),
        (vec!["Model Boreal".to_owned()], vec!["Model Atlas".to_owned()])
    );
    let facts = first(Scenario::ObjectiveFactJudgment);
    assert_eq!((facts.good.len(), facts.bad.len()), (3, 3));
    assert_eq!(first(Scenario::PersonalizedMemoryUse).bad.len(), 3);
}
