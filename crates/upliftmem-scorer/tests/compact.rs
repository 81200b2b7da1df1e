//! What the compact scorer promises to those who use it.

#![allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    reason = "tests: equal means equal bits, and a failure may panic"
)]

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{MemoryId, MemorySet, TaskId};
use upliftmem_scorer::{
    Ask, CompactLearner, CompactScorer, CompactSettings, Embedding, Label, MemoryInput, SetScorer, TaskInput,
};

struct Texts {
    tasks: Vec<Embedding>,
    memories: Vec<Embedding>,
}

impl Texts {
    /// Tasks of two kinds; every memory speaks of the first kind.
    fn new(tasks: usize, memories: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut text = |kind: usize| {
            let mut values: Vec<f32> = (0..32).map(|_| rng.random_range(-0.2..0.2)).collect();
            values[kind] += 1.0;
            Embedding::new(&values).unwrap()
        };
        Self {
            tasks: (0..tasks).map(|at| text(at % 2)).collect(),
            memories: (0..memories).map(|_| text(0)).collect(),
        }
    }

    fn task(&self, at: usize) -> TaskInput<'_> {
        TaskInput {
            id: task_id(at),
            context: "",
            embedding: &self.tasks[at],
        }
    }

    fn memories(&self) -> Vec<MemoryInput<'_>> {
        self.memories
            .iter()
            .enumerate()
            .map(|(at, embedding)| MemoryInput {
                id: memory_id(at),
                text: "",
                embedding,
            })
            .collect()
    }

    fn learner(&self, settings: CompactSettings) -> CompactLearner {
        let mut learner = CompactLearner::new(settings).unwrap();
        for (at, text) in self.tasks.iter().enumerate() {
            learner.add_task(task_id(at), text).unwrap();
        }
        for (at, text) in self.memories.iter().enumerate() {
            learner.add_memory(memory_id(at), text).unwrap();
        }
        learner
    }

    fn value(&self, scorer: &CompactScorer, task: usize, members: &[usize]) -> f64 {
        score(
            scorer,
            self.task(task),
            &self.memories(),
            &[set(members)],
            Ask::VALUES,
        )
        .values[0]
    }
}

fn score(
    scorer: &CompactScorer,
    task: TaskInput<'_>,
    memories: &[MemoryInput<'_>],
    sets: &[MemorySet],
    ask: Ask,
) -> upliftmem_scorer::Scores {
    scorer.bind(task, memories).unwrap().score(sets, ask).unwrap()
}

fn task_id(at: usize) -> TaskId {
    TaskId::from_u128(500 + at as u128)
}

fn memory_id(at: usize) -> MemoryId {
    MemoryId::from_u128(at as u128)
}

fn set(members: &[usize]) -> MemorySet {
    members.iter().map(|&at| memory_id(at)).collect()
}

fn label(task: usize, members: &[usize], value: f64, time: usize) -> Label {
    Label {
        task: task_id(task),
        set: set(members),
        value,
        reference: None,
        time: time as f64,
    }
}

/// Fits labels of sets whose utility is `truth`, with a little noise, over the tasks of the first kind.
fn fitted(texts: &Texts, truth: impl Fn(&[usize]) -> f64, rounds: usize) -> Arc<CompactScorer> {
    let mut learner = texts.learner(CompactSettings::default());
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for round in 0..rounds {
        let task = 2 * (round % (texts.tasks.len() / 2));
        let members: Vec<usize> = match round % 6 {
            0 => vec![],
            1 => vec![0],
            2 => vec![1],
            3 | 4 => vec![0, 1],
            _ => vec![2 + round % (texts.memories.len() - 2)],
        };
        let noise = rng.random_range(-0.1..0.1);
        learner
            .hold(&label(task, &members, truth(&members) + noise, round))
            .unwrap();
    }
    learner.refit().unwrap();
    learner.publish()
}

#[test]
fn a_complementary_pair_is_found_though_each_member_harms() {
    let texts = Texts::new(20, 8);
    let truth = |set: &[usize]| match set {
        [0] | [1] => 0.2,
        [0, 1] => 0.9,
        _ => 0.4,
    };
    let scorer = fitted(&texts, truth, 180);
    for task in [0, 4, 8] {
        assert!(texts.value(&scorer, task, &[0]) < -0.05);
        assert!(texts.value(&scorer, task, &[1]) < -0.05);
        assert!(texts.value(&scorer, task, &[0, 1]) > 0.2);
    }
}

#[test]
fn a_conflicting_pair_is_avoided_though_each_member_helps() {
    let texts = Texts::new(20, 8);
    let truth = |set: &[usize]| match set {
        [0] | [1] => 0.8,
        [0, 1] => 0.1,
        _ => 0.4,
    };
    let scorer = fitted(&texts, truth, 180);
    assert!(texts.value(&scorer, 0, &[0]) > 0.15);
    assert!(texts.value(&scorer, 0, &[1]) > 0.15);
    assert!(texts.value(&scorer, 0, &[0, 1]) < -0.1);
}

#[test]
fn a_redundant_pair_is_worth_no_more_than_one_of_it() {
    let texts = Texts::new(20, 8);
    let truth = |set: &[usize]| match set {
        [0] | [1] | [0, 1] => 0.8,
        _ => 0.4,
    };
    let scorer = fitted(&texts, truth, 180);
    let (one, both) = (texts.value(&scorer, 0, &[0]), texts.value(&scorer, 0, &[0, 1]));
    assert!(one > 0.2, "{one}");
    assert!((both - one).abs() < 0.12, "{both} is far from {one}");
}

#[test]
fn values_do_not_depend_on_the_batch_its_order_or_the_order_of_memories() {
    let texts = Texts::new(20, 8);
    let scorer = fitted(&texts, |set| 0.3 + 0.1 * set.len() as f64, 120);
    let sets: Vec<MemorySet> = [&[][..], &[0], &[1, 0], &[5, 2, 7], &[3, 1, 0, 6, 2]]
        .iter()
        .map(|members| set(members))
        .collect();
    let mut memories = texts.memories();
    let together = score(&scorer, texts.task(3), &memories, &sets, Ask::VALUES).values;
    assert_eq!(together[0].to_bits(), 0.0_f64.to_bits());
    memories.reverse();
    let reversed: Vec<MemorySet> = sets.iter().rev().cloned().collect();
    let mut backwards = score(&scorer, texts.task(3), &memories, &reversed, Ask::VALUES).values;
    backwards.reverse();
    assert_eq!(together, backwards);
    for (at, one) in sets.iter().enumerate() {
        let needed: Vec<MemoryInput<'_>> = texts
            .memories()
            .into_iter()
            .filter(|memory| one.contains(memory.id))
            .collect();
        let single = score(
            &scorer,
            texts.task(3),
            &needed,
            std::slice::from_ref(one),
            Ask::VALUES,
        );
        assert_eq!(single.values[0], together[at]);
    }
}

#[test]
fn new_tasks_and_memories_are_scored_at_once_and_are_uncertain() {
    let texts = Texts::new(20, 8);
    let scorer = fitted(&texts, |set| if set.contains(&0) { 0.9 } else { 0.4 }, 180);
    let extra = Texts::new(23, 12);
    let mut memories = texts.memories();
    memories.push(MemoryInput {
        id: memory_id(77),
        text: "",
        embedding: &extra.memories[11],
    });
    let ask = Ask {
        deviations: true,
        ..Ask::VALUES
    };
    let new_task = TaskInput {
        id: task_id(99),
        context: "",
        embedding: &extra.tasks[22],
    };
    let sets = [set(&[0]), set(&[77])];
    let known = score(&scorer, texts.task(0), &memories, &sets, ask);
    let unseen = score(&scorer, new_task, &memories, &sets, ask);
    assert!(known.values[0] > 0.2 && unseen.values[0] > 0.1);
    assert!(
        known.deviations[1] > 1.5 * known.deviations[0],
        "{:?}",
        known.deviations
    );
    // A new task of a known kind is as well known as its kind; a new memory is not known anywhere.
    assert!(unseen.deviations[0] > 0.01);
    assert!(unseen.deviations[1] > 1.5 * unseen.deviations[0]);
}

/// Tasks of the first kind fail alone, those of the second succeed; one memory in three helps where there is need.
fn half_is_done_well(settings: CompactSettings) -> (Texts, Arc<CompactScorer>) {
    let texts = Texts::new(20, 6);
    let mut learner = texts.learner(settings);
    for time in 0..60 {
        let (task, member) = (time % 20, time % 6);
        let alone = f64::from(u8::from(task % 2 == 1));
        learner.hold(&label(task, &[], alone, 2 * time)).unwrap();
        let helped = alone.max(f64::from(u8::from(member % 3 == 0)));
        learner
            .hold(&label(task, &[member], helped, 2 * time + 1))
            .unwrap();
    }
    learner.refit().unwrap();
    let scorer = learner.publish();
    (texts, scorer)
}

#[test]
fn what_is_done_well_alone_leaves_little_to_find_out() {
    let ask = Ask {
        deviations: true,
        draws: 2,
        seed: 3,
    };
    let sets = [set(&[0]), set(&[1, 4])];
    let (texts, within) = half_is_done_well(CompactSettings::default());
    let (_, free) = half_is_done_well(CompactSettings {
        headroom: false,
        ..CompactSettings::default()
    });
    for task in [0, 1] {
        let [held, free] =
            [&within, &free].map(|scorer| score(scorer, texts.task(task), &texts.memories(), &sets, ask));
        let reach = held.deviations[0] / free.deviations[0];
        // One factor for all that is uncertain about a task.
        assert!((held.deviations[1] / free.deviations[1] - reach).abs() < 1e-9);
        let noise = |scores: &upliftmem_scorer::Scores| scores.draws[1][1] - scores.values[1];
        assert!((noise(&held) - reach * noise(&free)).abs() < 1e-9);
        if task == 0 {
            assert!((reach - 1.0).abs() < 1e-9, "{reach}");
        } else {
            assert!(reach < 0.3, "{reach}");
        }
    }
}

#[test]
fn a_memory_may_break_what_is_done_well_alone() {
    let sets = [set(&[]), set(&[0]), set(&[1, 4])];
    let costing = |meddling_cost| {
        half_is_done_well(CompactSettings {
            meddling_cost,
            ..CompactSettings::default()
        })
    };
    let (texts, free) = costing(0.0);
    let (_, dear) = costing(0.3);
    for task in [0, 1] {
        let [free, dear] = [&free, &dear]
            .map(|scorer| score(scorer, texts.task(task), &texts.memories(), &sets, Ask::default()).values);
        let costs: Vec<f64> = free.iter().zip(&dear).map(|(free, dear)| free - dear).collect();
        assert!(costs[0].abs() < 1e-12, "the empty set is worth 0");
        assert!(
            (costs[2] - 2.0 * costs[1]).abs() < 1e-9,
            "each member costs: {costs:?}"
        );
        if task == 0 {
            assert!(costs[1].abs() < 1e-9, "nothing is done alone: {costs:?}");
        } else {
            assert!(
                (0.2..0.4).contains(&costs[1]),
                "nearly all is done alone: {costs:?}"
            );
        }
    }
    for (settings, name) in [
        (
            CompactSettings {
                meddling_cost: f64::NAN,
                ..CompactSettings::default()
            },
            "meddling_cost",
        ),
        (
            CompactSettings {
                reference_noise: 0.0,
                ..CompactSettings::default()
            },
            "reference_noise",
        ),
    ] {
        let error = CompactLearner::new(settings).err().unwrap().to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn nothing_and_one_label_are_enough_to_answer() {
    let texts = Texts::new(4, 4);
    let mut learner = texts.learner(CompactSettings::default());
    let sets = [set(&[]), set(&[0]), set(&[1, 2])];
    let ask = Ask {
        deviations: true,
        draws: 3,
        seed: 1,
    };
    let before = score(&learner.publish(), texts.task(0), &texts.memories(), &sets, ask);
    assert_eq!(before.values, [0.0; 3]);
    assert!(before.deviations[0] == 0.0 && before.deviations[1] > 0.0);
    assert_eq!(before.draws.len(), 3);
    learner.refit().unwrap();
    learner.observe(&label(0, &[0], 1.0, 0)).unwrap();
    let after = score(&learner.publish(), texts.task(0), &texts.memories(), &sets, ask);
    assert!(after.values[1] > 0.0);
    assert!(after.deviations[1] < before.deviations[1]);
    learner.refit().unwrap();
    let refitted = score(&learner.publish(), texts.task(0), &texts.memories(), &sets, ask);
    assert!(refitted.values.iter().all(|value| value.is_finite()));
    assert!(after.version < refitted.version);
    // A scorer that was never told of any text answers too.
    let blank = CompactLearner::new(CompactSettings::default()).unwrap().publish();
    assert_eq!(
        score(&blank, texts.task(0), &texts.memories(), &sets, ask).values,
        [0.0; 3]
    );
}

#[test]
fn equal_and_huge_labels_are_learned_from() {
    let texts = Texts::new(10, 5);
    for (scale, shift) in [(0.0, 0.7), (1.0, 0.0), (1e6, 0.0), (1e-6, 0.0), (1.0, 1e6)] {
        let mut learner = texts.learner(CompactSettings::default());
        for round in 0..60 {
            let members: &[usize] = [&[][..], &[0], &[1]][round % 3];
            let value = shift + scale * [0.3, 0.8, 0.2][round % 3];
            learner.hold(&label(round % 10, members, value, round)).unwrap();
        }
        learner.refit().unwrap();
        let scorer = learner.publish();
        let (good, bad) = (texts.value(&scorer, 0, &[0]), texts.value(&scorer, 0, &[1]));
        if scale == 0.0 {
            assert!(good.abs() < 1e-6 && bad.abs() < 1e-6, "{good} {bad}");
        } else {
            assert!(good > 0.2 * scale && bad < 0.0, "{scale}: {good} {bad}");
        }
    }
}

#[test]
fn gains_stay_within_what_is_left_to_gain() {
    let texts = Texts::new(20, 8);
    let mut learner = texts.learner(CompactSettings::default());
    // Tasks of the second kind succeed alone; on the first kind memories 0 and 1 help.
    for round in 0..240 {
        let task = round % 20;
        let members: &[usize] = [&[][..], &[0], &[1]][round % 3];
        let value = if task % 2 == 1 || !members.is_empty() {
            1.0
        } else {
            0.2
        };
        learner.hold(&label(task, members, value, round)).unwrap();
    }
    learner.refit().unwrap();
    let scorer = learner.publish();
    let alone = scorer.no_memory_utility(texts.task(1)).unwrap().unwrap();
    assert!(alone > 0.8, "{alone}");
    assert!(texts.value(&scorer, 1, &[0, 1]) <= (1.0 - alone).max(0.0) + 1e-8);
    let alone = scorer.no_memory_utility(texts.task(0)).unwrap().unwrap();
    let both = texts.value(&scorer, 0, &[0, 1]);
    assert!(both > 0.4 && both <= 1.0 - alone + 1e-9, "{both} {alone}");
}

#[test]
fn what_can_not_be_learned_from_is_refused_and_changes_nothing() {
    let texts = Texts::new(4, 4);
    let mut learner = texts.learner(CompactSettings::default());
    learner.observe(&label(0, &[0], 1.0, 0)).unwrap();
    let before = texts.value(&learner.publish(), 0, &[0]);
    let unknown_task = label(40, &[0], 1.0, 1);
    let unknown_memory = label(0, &[9], 1.0, 1);
    let mut referenced = label(0, &[0], 1.0, 1);
    referenced.reference = Some(upliftmem_core::ReferenceId::from_u128(1));
    for (bad, word) in [
        (label(0, &[0], f64::NAN, 1), "finite"),
        (label(0, &[0], f64::INFINITY, 1), "finite"),
        (unknown_task, "add the task"),
        (unknown_memory, "add the memory"),
        (referenced, "reference"),
    ] {
        let error = learner.observe(&bad).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    assert_eq!(learner.labels(), 1);
    assert_eq!(texts.value(&learner.publish(), 0, &[0]), before);
    let short = Embedding::new(&[1.0, 2.0]).unwrap();
    assert!(
        learner
            .add_task(task_id(50), &short)
            .unwrap_err()
            .to_string()
            .contains("32")
    );
    let scorer = learner.publish();
    let bound = scorer.bind(texts.task(0), &texts.memories()).unwrap();
    assert!(
        bound
            .score(&[set(&[60])], Ask::VALUES)
            .unwrap_err()
            .to_string()
            .contains("not bound")
    );
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let texts = Texts::new(20, 8);
    let fit = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let scorer = fitted(&texts, |set| 0.3 + 0.2 * set.len() as f64, 150);
            [&[0][..], &[0, 1], &[2, 5, 7]].map(|members| texts.value(&scorer, 1, members).to_bits())
        })
    };
    assert_eq!(fit(1), fit(3));
}

#[test]
fn readers_keep_their_version() {
    let texts = Texts::new(10, 5);
    let mut learner = texts.learner(CompactSettings::default());
    for round in 0..30 {
        learner
            .hold(&label(round % 10, &[round % 5], 0.5, round))
            .unwrap();
    }
    learner.refit().unwrap();
    let old = learner.publish();
    let before = texts.value(&old, 0, &[0]);
    for round in 0..80 {
        learner.observe(&label(0, &[0], 1.0, 30 + round)).unwrap();
    }
    assert_eq!(texts.value(&old, 0, &[0]).to_bits(), before.to_bits());
    assert!(texts.value(&learner.publish(), 0, &[0]) > before);
}
