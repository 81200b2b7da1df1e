//! The learning curves' own promises.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use upliftmem_bench::{
    learning::{Arena, CompactRow, Execution, Gathering, Measurement, Plan, Texts, run},
    worlds::{World, WorldKind},
};
use upliftmem_core::MemorySet;
use upliftmem_engine::{RetrievalSettings, Strategy};
use upliftmem_scorer::{CompactSettings, LabelKind, embedder::HashEmbedder};

fn hash() -> Texts {
    Texts::Read(Arc::new(HashEmbedder::default()))
}

/// Few evaluations: these tests are about the harness, not about how good the fits are.
fn quick() -> CompactSettings {
    CompactSettings {
        evidence_max: 200,
        evaluations_max: 10,
        ..CompactSettings::default()
    }
}

fn gathered(kind: WorldKind, seed: u64, strategy: Strategy) -> Vec<Execution> {
    gathered_by(quick(), kind, seed, strategy)
}

fn gathered_by(settings: CompactSettings, kind: WorldKind, seed: u64, strategy: Strategy) -> Vec<Execution> {
    let arena = Arena::new(World::generate(kind, seed).unwrap(), &hash()).unwrap();
    let retrieval = RetrievalSettings::default();
    let mut gathering = Gathering::begin(&arena, settings, &retrieval, seed).unwrap();
    gathering.extend(strategy, 320).unwrap();
    gathering.labels
}

#[test]
fn the_same_seed_gathers_the_same_labels_and_another_does_not() {
    let first = gathered(WorldKind::Routes, 3, Strategy::Evsi);
    assert_eq!(first, gathered(WorldKind::Routes, 3, Strategy::Evsi));
    let random = gathered(WorldKind::Routes, 3, Strategy::Random);
    assert_eq!(first[..300], random[..300]);
    assert_ne!(first[300..], random[300..]);
    assert_ne!(first, gathered(WorldKind::Routes, 4, Strategy::Evsi));
    let paired = CompactSettings {
        labels: LabelKind::Paired,
        ..quick()
    };
    let paired = gathered_by(paired, WorldKind::Routes, 3, Strategy::Evsi);
    assert_eq!(paired.len(), first.len());
    assert_ne!(first, paired, "another kind of label teaches something else");
}

#[test]
fn labels_are_outcomes_and_never_expectations() {
    let world = World::generate(WorldKind::LookAlikes, 5).unwrap();
    let mut expected_between = 0;
    for label in gathered(WorldKind::LookAlikes, 5, Strategy::Evsi) {
        // A task here is done or not done; done in fewer steps it is worth more.
        for utility in [label.utility, label.reference] {
            assert!(utility == 0.0 || utility >= 1.0, "{utility} is no outcome");
        }
        assert!(!label.set.is_empty() && label.set.len() <= 5);
        let expected = world.expected_utility(&label.task, &label.set).unwrap();
        expected_between += usize::from(expected > 0.0 && expected < 1.0);
        assert!(
            !world.test_tasks().contains(&label.task),
            "a test task was executed"
        );
    }
    assert!(expected_between > 250, "{expected_between}");
}

#[test]
fn the_best_set_is_beyond_every_learner_and_learning_beats_no_memory() {
    let plan = Plan {
        compact: vec![CompactRow::new("compact", hash())],
        strategies: vec![Strategy::Evsi],
        baselines: true,
        budgets: vec![300, 700],
    };
    let found = run(WorldKind::SelfReliant, 1, &plan).unwrap();
    let rows = found.measurements.iter();
    let rows: Vec<(String, usize)> = rows.map(|row| (row.learner.clone(), row.labels)).collect();
    assert_eq!(rows, plan.rows());
    assert_eq!(rows.len(), 2 * (1 + 3 + 3));
    for measurement in &found.measurements {
        assert!(measurement.share <= 1.0, "{measurement:?}");
        let loss = measurement.loss;
        let lost = loss.meddling + loss.missed + loss.useless + loss.choice;
        assert!((measurement.share + lost - 1.0).abs() < 1e-9, "{measurement:?}");
    }
    let at = |labels: usize| -> &Measurement {
        let mut rows = found.measurements.iter();
        rows.find(|row| row.learner == "compact, evsi" && row.labels == labels)
            .unwrap()
    };
    assert!(at(700).share > 0.15, "{:?}", at(700));
    assert!(at(700).optimism.unwrap().abs() < 0.2, "{:?}", at(700));
}

#[test]
fn no_memory_is_the_zero_of_the_scale() {
    let world = World::generate(WorldKind::Versions, 2).unwrap();
    let task = &world.test_tasks()[0];
    let alone = world.expected_utility(task, &MemorySet::EMPTY).unwrap();
    let best = world.best_set(task, &[], 5).unwrap();
    assert_eq!((best.set, best.utility), (MemorySet::EMPTY, alone));
}
