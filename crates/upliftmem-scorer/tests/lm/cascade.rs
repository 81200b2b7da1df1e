//! A quick scorer searches, the language model decides.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use upliftmem_core::{MemorySet, ScoredSet};
use upliftmem_scorer::{
    Ask, CompactLearner, CompactSettings, SetScorer,
    lm::{Cascade, CascadeSettings, distilled},
};

use crate::world::{Texts, scorer, settings};

#[test]
fn the_language_model_has_the_last_word_on_what_it_read() {
    let texts = Texts::new();
    let (sets, memories) = (texts.sets(), texts.memories());
    let thorough = Arc::new(scorer(settings()));
    let values = thorough
        .bind(texts.task(), &memories)
        .unwrap()
        .score(&sets, Ask::VALUES)
        .unwrap()
        .values;
    let found: Vec<ScoredSet> = sets
        .iter()
        .enumerate()
        .map(|(at, set)| ScoredSet {
            set: set.clone(),
            value: at as f64,
        })
        .collect();
    let cascade = |rescored, budget_ms| {
        Cascade::new(Arc::clone(&thorough), CascadeSettings { rescored, budget_ms }).unwrap()
    };
    let result = cascade(6, 600_000)
        .decide(texts.task(), &memories, &found, None)
        .unwrap();
    assert_eq!((result.rescored.len(), result.left_out), (6, 0));
    let mut best = (0.0, MemorySet::EMPTY);
    for (rank, one) in result.rescored.iter().enumerate() {
        let at = sets.len() - 1 - rank;
        assert_eq!((&one.scored.set, one.quick), (&sets[at], at as f64));
        assert!((one.scored.value - values[at]).abs() < 1e-4);
        if one.scored.value > best.0 {
            best = (one.scored.value, one.scored.set.clone());
        }
    }
    assert_eq!(result.best.set, best.1);
    // No time at all: the quick scorer decides.
    for (budget_ms, left) in [(0, None), (600_000, Some(Duration::ZERO))] {
        let hurried = cascade(6, budget_ms)
            .decide(texts.task(), &memories, &found, left)
            .unwrap();
        assert_eq!((hurried.rescored.len(), hurried.left_out), (0, 6));
        assert_eq!(hurried.best.set, sets[sets.len() - 1]);
    }
    let nothing = cascade(6, 1000)
        .decide(texts.task(), &memories, &[], None)
        .unwrap();
    assert_eq!(nothing.best.set, MemorySet::EMPTY);
    assert!(
        Cascade::new(
            Arc::clone(&thorough),
            CascadeSettings {
                rescored: 0,
                budget_ms: 1
            }
        )
        .is_err()
    );
}

#[test]
fn the_compact_scorer_learns_from_what_was_read() {
    let texts = Texts::new();
    let memories = texts.memories();
    let readings: BTreeMap<MemorySet, f64> = memories
        .iter()
        .take(4)
        .zip([0.6, -0.6, 0.5, -0.5])
        .map(|(memory, value)| (std::iter::once(memory.id).collect(), value))
        .collect();
    let labels = distilled(texts.task().id, 0.4, &readings, 1.0);
    assert_eq!(labels.len(), 4);
    assert!((labels[0].value - 1.0).abs() < 1e-12);
    let mut learner = CompactLearner::new(CompactSettings::default()).unwrap();
    learner.add_task(texts.task().id, texts.task().embedding).unwrap();
    for memory in &memories {
        learner.add_memory(memory.id, memory.embedding).unwrap();
    }
    for label in labels {
        learner.hold(&label).unwrap();
    }
    learner.refit().unwrap();
    let scorer = learner.publish();
    let sets: Vec<MemorySet> = readings.keys().cloned().collect();
    let values = scorer
        .bind(texts.task(), &memories)
        .unwrap()
        .score(&sets, Ask::VALUES)
        .unwrap()
        .values;
    assert!(values[0] > values[1], "{values:?}");
}
