//! Losses of a batch: against PyTorch, against finite differences, against the core's reference.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use upliftmem_core::{
    Action, MemoryId, MemorySet, PathPolicy, PathStep, ReferenceId, RetrievalPath, TaskId, Uplift,
    objectives::{LossPreset, LossSettings, Objectives, PathRecord, StepRecord, ValueLabel},
};
use upliftmem_scorer::{LossBatch, LossParts, PathExample, ValueExample, policy_loss};

fn memory(id: u128) -> MemoryId {
    MemoryId::from_u128(id)
}

fn set(members: &[u128]) -> MemorySet {
    members.iter().copied().map(memory).collect()
}

fn value(task: u128, reference: u128, uplift: f64, members: &[u128]) -> ValueExample {
    ValueExample {
        set: set(members),
        label: ValueLabel {
            task: TaskId::from_u128(task),
            reference: ReferenceId::from_u128(reference),
            uplift: Uplift::new(uplift).unwrap(),
        },
    }
}

#[derive(Deserialize)]
struct Fixture {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    settings: LossSettings,
    sampling_temperature: f64,
    stop_prior: f64,
    labels: Vec<FixedLabel>,
    paths: Vec<FixedPath>,
    values: Vec<FixedValue>,
    losses: LossParts,
}

#[derive(Deserialize)]
struct FixedLabel {
    task: u128,
    reference: u128,
    uplift: f64,
    set: Vec<u128>,
}

#[derive(Deserialize)]
struct FixedPath {
    task: u128,
    steps: Vec<FixedStep>,
    terminal: Vec<u128>,
    uplift: f64,
}

#[derive(Deserialize)]
struct FixedStep {
    state: Vec<u128>,
    mask: Vec<u128>,
    add: Option<u128>,
}

#[derive(Deserialize)]
struct FixedValue {
    task: u128,
    set: Vec<u128>,
    value: f64,
    slope: f64,
}

impl FixedPath {
    fn example(&self) -> PathExample {
        let steps = self.steps.iter().map(|step| PathStep {
            state: set(&step.state),
            mask: step.mask.iter().copied().map(memory).collect(),
            action: step.add.map_or(Action::Stop, |id| Action::Add(memory(id))),
        });
        PathExample {
            task: TaskId::from_u128(self.task),
            path: RetrievalPath {
                steps: steps.collect(),
                terminal: set(&self.terminal),
            },
            uplift: Uplift::new(self.uplift).unwrap(),
        }
    }
}

fn close(what: &str, found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= 1e-10 * expected.abs().max(1.0),
        "{what}: {found} is not {expected}"
    );
}

#[test]
fn losses_and_slopes_are_those_of_pytorch() {
    let fixture: Fixture = serde_json::from_str(include_str!("../fixtures/losses.json")).unwrap();
    for case in &fixture.cases {
        let objectives = Objectives::new(case.settings).unwrap();
        let policy = PathPolicy::new(case.sampling_temperature, case.stop_prior).unwrap();
        let values: Vec<ValueExample> = case
            .labels
            .iter()
            .map(|one| value(one.task, one.reference, one.uplift, &one.set))
            .collect();
        let paths: Vec<PathExample> = case.paths.iter().map(FixedPath::example).collect();
        let batch = LossBatch::new(
            &objectives,
            &values.iter().collect::<Vec<_>>(),
            &paths.iter().collect::<Vec<_>>(),
        )
        .unwrap();
        let expected: Vec<&FixedValue> = batch
            .asked()
            .iter()
            .flat_map(|asked| asked.sets.iter().map(|set| (asked.task, set)))
            .map(|(task, wanted)| {
                let same =
                    |one: &&FixedValue| TaskId::from_u128(one.task) == task && set(&one.set) == *wanted;
                case.values.iter().find(same).unwrap()
            })
            .collect();
        assert_eq!(expected.len(), case.values.len(), "{}", case.name);
        let at: Vec<f64> = expected.iter().map(|one| one.value).collect();
        let loss = batch.loss(&objectives, &policy, &at).unwrap();
        for (slope, one) in loss.slopes.iter().zip(&expected) {
            close(&case.name, *slope, one.slope);
        }
        for (part, found, expected) in [
            ("total", loss.parts.total, case.losses.total),
            ("regression", loss.parts.regression, case.losses.regression),
            ("sign", loss.parts.sign, case.losses.sign),
            ("pair", loss.parts.pair, case.losses.pair),
            ("policy", loss.parts.policy, case.losses.policy),
        ] {
            close(&format!("{}, {part}", case.name), found, expected);
        }
    }
}

/// A path over memories 0 to 4 that is sampled without looking at values.
fn random_path(task: u128, rng: &mut ChaCha8Rng) -> PathExample {
    let mut steps = Vec::new();
    let mut state = MemorySet::EMPTY;
    for _ in 0..3 {
        let mask: Vec<MemoryId> = (0..5).map(memory).filter(|&id| !state.contains(id)).collect();
        let pick = rng.random_range(0..=mask.len());
        let action = mask.get(pick).map_or(Action::Stop, |&id| Action::Add(id));
        steps.push(PathStep {
            state: state.clone(),
            mask,
            action,
        });
        match action {
            Action::Stop => break,
            Action::Add(id) => state = state.with(id),
        }
    }
    PathExample {
        task: TaskId::from_u128(task),
        path: RetrievalPath {
            steps,
            terminal: state,
        },
        uplift: Uplift::new(rng.random_range(-2.0..2.0)).unwrap(),
    }
}

proptest! {
    #[test]
    fn slopes_are_slopes(seed in any::<u64>(), paper in any::<bool>(), paths in 0..3_usize) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let preset = if paper { LossPreset::Paper } else { LossPreset::Calibrated };
        let objectives = Objectives::new(preset.settings()).unwrap();
        let policy = PathPolicy::new(0.3, 0.5).unwrap();
        let values: Vec<ValueExample> = (0..6)
            .map(|_| {
                let members: Vec<u128> = (0..rng.random_range(1..4)).map(|_| rng.random_range(0..5)).collect();
                value(rng.random_range(0..2), 1, rng.random_range(-1.5..1.5), &members)
            })
            .collect();
        let paths: Vec<PathExample> = (0..paths).map(|_| random_path(rng.random_range(0..2), &mut rng)).collect();
        let batch = LossBatch::new(
            &objectives,
            &values.iter().collect::<Vec<_>>(),
            &paths.iter().collect::<Vec<_>>(),
        ).unwrap();
        let count = batch.asked().iter().map(|asked| asked.sets.len()).sum();
        let at: Vec<f64> = (0..count).map(|_| rng.random_range(-1.0..1.0)).collect();
        let loss = batch.loss(&objectives, &policy, &at).unwrap();
        for place in 0..count {
            let shifted = |by: f64| {
                let mut at = at.clone();
                at[place] += by;
                batch.loss(&objectives, &policy, &at).unwrap().parts.total
            };
            let slope = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
            // Huber's second derivative jumps: a shift across the kink costs up to its own size.
            prop_assert!((slope - loss.slopes[place]).abs() < 2e-5, "{slope} {}", loss.slopes[place]);
        }
    }

    #[test]
    fn the_policy_loss_is_the_core_s(seed in any::<u64>()) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let objectives = Objectives::new(LossSettings::PAPER).unwrap();
        let policy = PathPolicy::new(0.2, 0.3).unwrap();
        let examples: Vec<PathExample> = (0..4).map(|_| random_path(0, &mut rng)).collect();
        let mut with_values = Vec::new();
        let mut records = Vec::new();
        for example in &examples {
            let sets = example.path.sets_to_score();
            let values: Vec<f64> = sets.iter().map(|_| rng.random_range(-1.0..1.0)).collect();
            let of = |wanted: &MemorySet| {
                sets.iter().position(|set| set == wanted).map_or(0.0, |at| values[at])
            };
            let steps = example.path.steps.iter().map(|step| {
                let gains: Vec<f64> = step.mask.iter().map(|&id| of(&step.state.with(id)) - of(&step.state)).collect();
                let distribution = policy.action_distribution(&gains).unwrap();
                let mut log_probabilities = vec![distribution.ln_stop()];
                log_probabilities.extend((0..gains.len()).map(|at| distribution.ln_add(at)));
                let taken = match step.action {
                    Action::Stop => 0,
                    Action::Add(id) => 1 + step.mask.iter().position(|&one| one == id).unwrap(),
                };
                StepRecord { log_probabilities, taken }
            }).collect();
            records.push(PathRecord { steps, uplift: example.uplift });
            with_values.push((&example.path, example.uplift, values));
        }
        let reference = objectives.policy_loss(&records, 0.2).unwrap();
        let found = policy_loss(&objectives, &policy, &with_values).unwrap();
        prop_assert!((found.value - reference.value).abs() < 1e-12);
        prop_assert_eq!(found.paths, reference.eligible);
    }
}

#[test]
fn labels_of_the_empty_set_and_wrong_counts_are_refused() {
    let objectives = Objectives::new(LossSettings::default()).unwrap();
    let policy = PathPolicy::new(0.1, 0.0).unwrap();
    let empty = value(1, 1, 0.0, &[]);
    let error = LossBatch::new(&objectives, &[&empty], &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("empty set"), "{error}");
    let fine = value(1, 1, 0.5, &[1]);
    let batch = LossBatch::new(&objectives, &[&fine, &fine], &[]).unwrap();
    assert_eq!(batch.asked()[0].sets.len(), 1, "a set is asked for once");
    assert!(batch.loss(&objectives, &policy, &[]).is_err());
    assert!(batch.loss(&objectives, &policy, &[f64::NAN]).is_err());
    // Nothing to learn from has no loss.
    let nothing = LossBatch::new(&objectives, &[], &[]).unwrap();
    let loss = nothing.loss(&objectives, &policy, &[]).unwrap();
    assert_eq!(loss.parts, LossParts::default());
}
