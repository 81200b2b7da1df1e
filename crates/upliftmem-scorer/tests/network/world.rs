//! A little world that the tests share: tasks of two kinds, memories that speak of the first.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{MemoryId, MemorySet, ReferenceId, TaskId, Uplift, objectives::ValueLabel};
use upliftmem_scorer::{
    Ask, Corpus, Embedding, MemoryInput, NetworkModel, NetworkScorer, NetworkSettings, SetScorer, Trainer,
    TrainerSettings, Update, ValueExample,
};

pub(crate) const DIMENSION: usize = 32;

pub(crate) fn task_id(at: usize) -> TaskId {
    TaskId::from_u128(500 + at as u128)
}

pub(crate) fn memory_id(at: usize) -> MemoryId {
    MemoryId::from_u128(at as u128)
}

pub(crate) fn set(members: &[usize]) -> MemorySet {
    members.iter().map(|&at| memory_id(at)).collect()
}

pub(crate) fn corpus(tasks: usize, memories: usize) -> Corpus {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut text = |kind: usize| {
        let mut values: Vec<f32> = (0..DIMENSION).map(|_| rng.random_range(-0.2..0.2)).collect();
        values[kind] += 1.0;
        Embedding::new(&values).unwrap()
    };
    let mut corpus = Corpus::default();
    for at in 0..tasks {
        corpus.add_task(task_id(at), format!("task {at}"), text(at % 2));
    }
    for at in 0..memories {
        corpus.add_memory(memory_id(at), format!("memory {at}"), text(0));
    }
    corpus
}

pub(crate) fn label(task: usize, members: &[usize], uplift: f64) -> ValueExample {
    ValueExample {
        set: set(members),
        label: ValueLabel {
            task: task_id(task),
            reference: ReferenceId::from_u128(task as u128),
            uplift: Uplift::new(uplift).unwrap(),
        },
    }
}

/// Labels of sets whose uplift is `truth`, with a little noise, over the tasks of the first kind.
pub(crate) fn labels(tasks: usize, rounds: usize, truth: impl Fn(&[usize]) -> f64) -> Vec<ValueExample> {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    (0..rounds)
        .map(|round| {
            let members: Vec<usize> = match round % 5 {
                0 => vec![0],
                1 => vec![1],
                2 | 3 => vec![0, 1],
                _ => vec![2 + round % 6],
            };
            let noise = rng.random_range(-0.1..0.1);
            // Every task gets to see every kind of set.
            let task = 2 * ((round + round / 5) % (tasks / 2));
            label(task, &members, truth(&members) + noise)
        })
        .collect()
}

pub(crate) fn trainer(settings: TrainerSettings, members: usize) -> Trainer<NetworkModel> {
    let network = NetworkSettings {
        projection: 8,
        hidden: 16,
        top: 16,
        ..NetworkSettings::default()
    };
    Trainer::new(settings, NetworkModel::several(network, members, 5).unwrap()).unwrap()
}

pub(crate) fn warm_up(corpus: &Corpus, values: &[ValueExample], epochs: usize) -> Update<NetworkScorer> {
    let settings = TrainerSettings {
        epochs,
        patience: epochs,
        // Small data, small steps would take many epochs.
        learning_rate: 1e-2,
        ..TrainerSettings::default()
    };
    trainer(settings, 5).warm_up(corpus, values, &|_| {}).unwrap()
}

pub(crate) fn memories(corpus: &Corpus, count: usize) -> Vec<MemoryInput<'_>> {
    (0..count)
        .map(|at| corpus.memory(memory_id(at)).unwrap())
        .collect()
}

pub(crate) fn values(
    scorer: &dyn SetScorer,
    corpus: &Corpus,
    task: usize,
    count: usize,
    sets: &[MemorySet],
) -> Vec<f64> {
    let task = corpus.task(task_id(task)).unwrap();
    let bound = scorer.bind(task, &memories(corpus, count)).unwrap();
    bound.score(sets, Ask::VALUES).unwrap().values
}

pub(crate) fn value(
    scorer: &Arc<upliftmem_scorer::Ensemble>,
    corpus: &Corpus,
    task: usize,
    members: &[usize],
) -> f64 {
    values(scorer.as_ref(), corpus, task, 8, &[set(members)])[0]
}
