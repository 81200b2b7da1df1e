//! The network's backward pass and optimiser against PyTorch and finite differences.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use upliftmem_core::{MemoryId, MemorySet, TaskId};

use super::{
    AdamSettings, NetworkModel, NetworkSettings,
    adam::Adam,
    body::Body,
    frame::Frame,
    model::State,
    parameters::{Parameters, Part},
};
use crate::{
    Embedding, MemoryInput, TaskInput,
    trainer::{Question, TrainableModel},
};

#[derive(Deserialize)]
struct Fixture {
    shape: NetworkSettings,
    adam: AdamSettings,
    frame: Frame,
    tasks: Vec<Vec<f32>>,
    memories: Vec<Vec<f32>>,
    sets: Vec<FixedSet>,
    slopes: Vec<f64>,
    first: Tensors,
    steps: Vec<Step>,
}

type Tensors = BTreeMap<String, Vec<f64>>;

#[derive(Deserialize)]
struct FixedSet {
    task: usize,
    members: Vec<usize>,
}

#[derive(Deserialize)]
struct Step {
    learning_rate: f64,
    values: Vec<f64>,
    gradient: Tensors,
    norm: f64,
    after: Tensors,
}

fn model(settings: NetworkSettings, frame: Frame, known: usize, parameters: Parameters) -> NetworkModel {
    let zero = Parameters::zero(&settings, frame.dimension(), known);
    NetworkModel {
        settings,
        seed: 0,
        state: Some(State {
            body: Body {
                settings,
                frame,
                slots: (0..known)
                    .map(|at| (MemoryId::from_u128(at as u128), at))
                    .collect(),
                parameters,
            },
            adam: Adam {
                steps: 0,
                mean: zero.clone(),
                square: zero.clone(),
            },
            gradient: zero,
        }),
    }
}

fn texts(rows: &[Vec<f32>]) -> Vec<Embedding> {
    rows.iter().map(|row| Embedding::new(row).unwrap()).collect()
}

fn set(members: &[usize]) -> MemorySet {
    members
        .iter()
        .map(|&at| MemoryId::from_u128(at as u128))
        .collect()
}

fn question<'a>(
    task: usize,
    tasks: &'a [Embedding],
    memories: &'a [Embedding],
    sets: &'a [MemorySet],
) -> Question<'a> {
    Question {
        task: TaskInput {
            id: TaskId::from_u128(task as u128),
            context: "",
            embedding: &tasks[task],
        },
        memories: memories
            .iter()
            .enumerate()
            .map(|(at, embedding)| MemoryInput {
                id: MemoryId::from_u128(at as u128),
                text: "",
                embedding,
            })
            .collect(),
        sets,
    }
}

fn check(what: &str, found: &Parameters, expected: &Tensors) {
    for part in Part::ALL {
        let expected = &expected[part.name()];
        assert_eq!(found[part].len(), expected.len());
        for (found, expected) in found[part].iter().zip(expected) {
            let name = part.name();
            assert!(
                (found - expected).abs() < 1e-9,
                "{what} of {name}: {found} is not {expected}"
            );
        }
    }
}

#[test]
fn values_gradients_and_steps_are_those_of_pytorch() {
    let fixture: Fixture = serde_json::from_str(include_str!("../../fixtures/network.json")).unwrap();
    let settings = NetworkSettings {
        dropout: 0.0,
        adam: fixture.adam,
        ..fixture.shape
    };
    let (tasks, memories) = (texts(&fixture.tasks), texts(&fixture.memories));
    let mut parameters = Parameters::zero(&settings, fixture.frame.dimension(), 3);
    for part in Part::ALL {
        parameters[part].copy_from_slice(&fixture.first[part.name()]);
    }
    let mut model = model(settings, fixture.frame, 3, parameters);
    let sets: Vec<Vec<MemorySet>> = (0..2)
        .map(|task| {
            let own = fixture.sets.iter().filter(|one| one.task == task);
            own.map(|one| set(&one.members)).collect()
        })
        .collect();
    let questions: Vec<Question<'_>> = (0..2)
        .map(|task| question(task, &tasks, &memories, &sets[task]))
        .collect();
    for step in &fixture.steps {
        let mut values = Vec::new();
        let mut slopes = |found: &[f64]| {
            values = found.to_vec();
            Ok(fixture.slopes.clone())
        };
        model.learn(&questions, 1, &mut slopes).unwrap();
        assert_eq!(
            values,
            model.values(&questions).unwrap(),
            "no dropout, no difference"
        );
        for (found, expected) in values.iter().zip(&step.values) {
            assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
        }
        check(
            "gradient",
            &model.state.as_ref().unwrap().gradient,
            &step.gradient,
        );
        let norm = model.step(step.learning_rate).unwrap();
        assert!((norm - step.norm).abs() < 1e-10);
        check(
            "value",
            &model.state.as_ref().unwrap().body.parameters,
            &step.after,
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_gradient_is_the_slope_under_dropout_too(
        seed in any::<u64>(), pairs in 0_usize..3, identity in 0_usize..3, dropout in 0.0..0.6,
    ) {
        let settings = NetworkSettings {
            projection: 3, identity, hidden: 4, pairs, top: 3, dropout, adam: AdamSettings::default(),
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut text = |_: usize| -> Vec<f32> { (0..6).map(|_| rng.random_range(-1.0..1.0)).collect() };
        let tasks = texts(&(0..2).map(&mut text).collect::<Vec<_>>());
        let memories = texts(&(0..4).map(&mut text).collect::<Vec<_>>());
        let mut parameters = Parameters::zero(&settings, 6, 3);
        for part in Part::ALL {
            for value in &mut parameters[part] {
                *value = rng.random_range(-0.8..0.8);
            }
        }
        let frame = Frame {
            task_mean: (0..6).map(|_| rng.random_range(-0.1..0.1)).collect(),
            memory_mean: (0..6).map(|_| rng.random_range(-0.1..0.1)).collect(),
            relevance_mean: 0.1,
            relevance_sd: 0.5,
            unit: 0.5,
        };
        let mut model = model(settings, frame, 3, parameters);
        let sets = [vec![set(&[0]), set(&[1, 2, 3])], vec![set(&[0, 3]), set(&[2])]];
        let questions: Vec<Question<'_>> = (0..2).map(|at| question(at, &tasks, &memories, &sets[at])).collect();
        let slopes = [0.7, -0.4, 1.1, -0.9];
        let objective = |model: &NetworkModel| {
            let mut value = 0.0;
            model.clone().learn(&questions, seed, &mut |values| {
                value = values.iter().zip(slopes).map(|(value, slope)| value * slope).sum();
                Ok(slopes.to_vec())
            }).unwrap();
            // The network divides the objective by the square of its unit.
            value / 0.25
        };
        model.learn(&questions, seed, &mut |_| Ok(slopes.to_vec())).unwrap();
        let gradient = model.state.as_ref().unwrap().gradient.clone();
        for part in Part::ALL {
            for at in 0..gradient[part].len() {
                let shifted = |by: f64| {
                    let mut model = model.clone();
                    model.state.as_mut().unwrap().body.parameters[part][at] += by;
                    objective(&model)
                };
                let slope = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
                prop_assert!(
                    (slope - gradient[part][at]).abs() < 1e-6,
                    "{part:?} {at}: {slope} {}", gradient[part][at]
                );
            }
        }
    }
}
