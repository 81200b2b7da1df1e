//! What every scorer promises, of the network.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::MemorySet;
use upliftmem_scorer::{Ask, Embedding, MemoryInput, SetScorer, TaskInput};

use crate::world::{DIMENSION, corpus, labels, memories, memory_id, set, task_id, values, warm_up};

fn truth(set: &[usize]) -> f64 {
    if set.contains(&0) { 0.5 } else { -0.1 }
}

#[test]
fn values_do_not_depend_on_the_batch_its_order_or_the_order_of_memories() {
    let corpus = corpus(20, 8);
    let update = warm_up(&corpus, &labels(20, 100, truth), 5);
    let sets: Vec<MemorySet> = [&[][..], &[0], &[1, 0], &[5, 2, 7], &[3, 1, 0, 6, 2]]
        .iter()
        .map(|members| set(members))
        .collect();
    let ask = Ask {
        draws: 3,
        seed: 4,
        deviations: true,
    };
    let task = corpus.task(task_id(3)).unwrap();
    let together = update.scorer.bind(task, &memories(&corpus, 8)).unwrap();
    let together = together.score(&sets, ask).unwrap();
    assert_eq!(together.values[0].to_bits(), 0.0_f64.to_bits());
    assert_eq!(together.deviations[0], 0.0);
    assert!(together.draws.iter().all(|draw| draw[0] == 0.0));
    assert!(together.values[1..].iter().all(|&value| value != 0.0));
    let mut reversed = memories(&corpus, 8);
    reversed.reverse();
    for (at, one) in sets.iter().enumerate() {
        let needed: Vec<MemoryInput<'_>> = reversed
            .iter()
            .filter(|memory| one.contains(memory.id))
            .copied()
            .collect();
        let alone = update.scorer.bind(task, &needed).unwrap();
        let alone = alone.score(std::slice::from_ref(one), ask).unwrap();
        assert_eq!(alone.values[0], together.values[at]);
        assert_eq!(alone.deviations[0], together.deviations[at]);
        for (draw, all) in alone.draws.iter().zip(&together.draws) {
            assert_eq!(draw[0], all[at]);
        }
    }
}

#[test]
fn draws_follow_their_seed_and_differ() {
    let corpus = corpus(20, 8);
    let update = warm_up(&corpus, &labels(20, 100, truth), 5);
    let member = &update.members[0];
    let task = corpus.task(task_id(0)).unwrap();
    let bound = member.bind(task, &memories(&corpus, 8)).unwrap();
    let draws = |seed: u64| {
        let ask = Ask {
            draws: 4,
            seed,
            deviations: true,
        };
        bound.score(&[set(&[0, 1])], ask).unwrap()
    };
    let (first, again, other) = (draws(1), draws(1), draws(2));
    assert_eq!(first, again);
    assert_ne!(first.draws, other.draws);
    assert_eq!(first.deviations, other.deviations);
    assert!(first.deviations[0] > 0.0);
    assert!(first.draws.windows(2).any(|pair| pair[0] != pair[1]));
}

#[test]
fn new_tasks_and_memories_are_scored_without_training() {
    let corpus = corpus(20, 8);
    let update = warm_up(&corpus, &labels(20, 200, truth), 30);
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mut values: Vec<f32> = (0..DIMENSION).map(|_| rng.random_range(-0.2..0.2)).collect();
    values[0] += 1.0;
    let text = Embedding::new(&values).unwrap();
    let task = TaskInput {
        id: task_id(99),
        context: "",
        embedding: &text,
    };
    let mut known = memories(&corpus, 8);
    known.push(MemoryInput {
        id: memory_id(77),
        text: "",
        embedding: &text,
    });
    let scores = update.scorer.bind(task, &known).unwrap();
    let found = scores
        .score(&[set(&[0]), set(&[77])], Ask::VALUES)
        .unwrap()
        .values;
    assert!(found[0] > 0.2, "a new task of a known kind: {found:?}");
    assert!(found[1].is_finite() && found[1] < found[0], "{found:?}");
}

#[test]
fn what_was_not_bound_and_other_embedders_are_refused() {
    let corpus = corpus(20, 8);
    let update = warm_up(&corpus, &labels(20, 50, truth), 2);
    let task = corpus.task(task_id(0)).unwrap();
    let bound = update.scorer.bind(task, &memories(&corpus, 2)).unwrap();
    let error = bound.score(&[set(&[7])], Ask::VALUES).unwrap_err().to_string();
    assert!(error.contains("not bound"), "{error}");
    let short = Embedding::new(&[1.0, 2.0]).unwrap();
    let other = TaskInput {
        embedding: &short,
        ..task
    };
    let error = update.scorer.bind(other, &[]).err().unwrap().to_string();
    assert!(error.contains("32") && error.contains("one embedder"), "{error}");
}

#[test]
fn readers_keep_their_version() {
    let corpus = corpus(20, 8);
    let mut trainer = crate::world::trainer(upliftmem_scorer::TrainerSettings::default(), 2);
    let old = trainer
        .warm_up(&corpus, &labels(20, 100, truth), &|_| {})
        .unwrap();
    let sets = [set(&[0]), set(&[1, 2])];
    let before = values(old.scorer.as_ref(), &corpus, 0, 8, &sets);
    let new = trainer
        .warm_up(&corpus, &labels(20, 150, |set| -truth(set)), &|_| {})
        .unwrap();
    assert_eq!(values(old.scorer.as_ref(), &corpus, 0, 8, &sets), before);
    assert_ne!(values(new.scorer.as_ref(), &corpus, 0, 8, &sets), before);
    assert!(old.scorer.version() < new.scorer.version());
}
