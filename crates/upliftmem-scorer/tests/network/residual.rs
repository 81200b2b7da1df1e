//! The network on the compact scorer's residual.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::MemorySet;
use upliftmem_scorer::{
    Ask, CompactSettings, Label, NetworkSettings, ResidualUpdate, SetScorer, TrainerSettings, train_residual,
};

use crate::world::{corpus, memories, memory_id, set, task_id};

/// Utilities of random sets; every third label is a reference.
fn utilities(rounds: usize, utility: impl Fn(&MemorySet) -> f64) -> Vec<Label> {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    (0..rounds)
        .map(|round| {
            let size = if round % 3 == 0 {
                0
            } else {
                rng.random_range(1..=4)
            };
            let members: Vec<usize> = (0..size).map(|_| rng.random_range(0..8)).collect();
            let set = set(&members);
            Label {
                task: task_id(2 * (round % 20)),
                value: utility(&set) + rng.random_range(-0.05..0.05),
                set,
                reference: None,
                time: round as f64,
            }
        })
        .collect()
}

fn train(labels: &[Label]) -> ResidualUpdate {
    let settings = TrainerSettings {
        epochs: 40,
        patience: 10,
        ..TrainerSettings::default()
    };
    let compact = CompactSettings {
        evidence_max: 150,
        evaluations_max: 8,
        ..CompactSettings::default()
    };
    let network = NetworkSettings {
        projection: 8,
        ..NetworkSettings::default()
    };
    train_residual(compact, network, 5, settings, &corpus(40, 8), labels, &|_| {}).unwrap()
}

#[test]
fn what_the_compact_scorer_explains_needs_no_network() {
    let labels = utilities(240, |set| {
        0.4 + 0.1 * f64::from(u8::from(set.contains(memory_id(0))))
    });
    let update = train(&labels);
    let decision = &update.decision;
    assert_eq!(
        decision.labels,
        labels.iter().filter(|label| !label.set.is_empty()).count()
    );
    assert!(!decision.kept, "{decision:?}");
    assert_eq!(decision.compact.labels, decision.labels);
}

#[test]
fn what_it_can_not_explain_is_added_and_the_belief_stays() {
    // One of six is as good as several: single effects and what pairs take back can not say so of three and four.
    let any = |set: &MemorySet| {
        let useful = set.iter().any(|id| id.as_u128() < 6);
        if useful { 0.8 } else { 0.3 }
    };
    let update = train(&utilities(900, any));
    let decision = &update.decision;
    assert!(decision.kept, "{decision:?}");
    assert!(decision.with.unwrap() > decision.without.unwrap(), "{decision:?}");
    let corpus = corpus(40, 8);
    let task = corpus.task(task_id(0)).unwrap();
    let ask = Ask {
        draws: 2,
        seed: 1,
        deviations: true,
    };
    let sets = [MemorySet::EMPTY, set(&[0]), set(&[0, 1])];
    let bound = update.scorer.bind(task, &memories(&corpus, 8)).unwrap();
    let scores = bound.score(&sets, ask).unwrap();
    assert_eq!(scores.values[0], 0.0);
    assert!(scores.draws.iter().all(|draw| draw[0].abs() < 1e-9));
    assert!(scores.deviations[1] > 0.0);
}
