//! Learning: the losses and the trainer of every gradient-trained scorer.

use upliftmem_core::{MemoryId, ReferenceId, TaskId, Uplift, objectives::ValueLabel};
use upliftmem_scorer::{
    Ask, Corpus, Embedding, Keeper, Midway, Result, ScorerError, SetScorer, Stage, Trainer, TrainerSettings,
    ValueExample,
    checkpoint::{LmKeeper, Provenance},
    lm::{LmModel, LmSettings, LmState, Module},
};

use crate::world::{base, settings};

/// One memory helps with every task, the other harms.
fn labels() -> (Corpus, Vec<ValueExample>) {
    let blank = Embedding::new(&[1.0]).unwrap();
    let mut corpus = Corpus::default();
    let colours = ["red", "blue"];
    for (at, colour) in colours.iter().enumerate() {
        corpus.add_memory(
            MemoryId::from_u128(at as u128),
            format!("use {colour}"),
            blank.clone(),
        );
    }
    let mut labels = Vec::new();
    for task in 0..12_u128 {
        let id = TaskId::from_u128(task);
        corpus.add_task(id, format!("paint wall {task}"), blank.clone());
        for memory in 0..2_u128 {
            labels.push(ValueExample {
                set: std::iter::once(MemoryId::from_u128(memory)).collect(),
                label: ValueLabel {
                    task: id,
                    reference: ReferenceId::from_u128(task),
                    uplift: Uplift::new(if memory == 0 { 0.8 } else { -0.6 }).unwrap(),
                },
            });
        }
    }
    (corpus, labels)
}

fn plan() -> TrainerSettings {
    TrainerSettings {
        epochs: 6,
        learning_rate: 2e-2,
        batch_labels: 8,
        folds: 40,
        held_out_min: 100,
        calibrate: false,
        restart: false,
        ..TrainerSettings::default()
    }
}

fn trainer(settings: LmSettings) -> Trainer<LmModel> {
    Trainer::new(plan(), vec![LmModel::new(base(settings), 5)]).unwrap()
}

fn values(scorer: &dyn SetScorer, corpus: &Corpus, labels: &[ValueExample]) -> Vec<f64> {
    labels
        .iter()
        .map(|example| {
            let memories = [
                corpus.memory(MemoryId::from_u128(0)).unwrap(),
                corpus.memory(MemoryId::from_u128(1)).unwrap(),
            ];
            let bound = scorer
                .bind(corpus.task(example.label.task).unwrap(), &memories)
                .unwrap();
            bound
                .score(std::slice::from_ref(&example.set), Ask::VALUES)
                .unwrap()
                .values[0]
        })
        .collect()
}

#[test]
fn it_learns_and_every_matrix_moves() {
    let (corpus, labels) = labels();
    // The calibration at the adapter's own pace, and small steps: at the speed of the other tests it overshoots.
    let calm = LmSettings {
        calibration_speed: 1.0,
        ..settings()
    };
    let patient = TrainerSettings {
        epochs: 25,
        learning_rate: 5e-3,
        ..plan()
    };
    let mut trainer = Trainer::new(patient, vec![LmModel::new(base(calm), 5)]).unwrap();
    let (first, _) = LmModel::new(base(settings()), 5).adapter().unwrap();
    let update = trainer.warm_up(&corpus, &labels, &|_| {}).unwrap();
    let found = values(update.scorer.as_ref(), &corpus, &labels);
    let right = found
        .iter()
        .zip(&labels)
        .filter(|(value, example)| **value * example.label.uplift.get() > 0.0)
        .count();
    assert!(
        right >= 22,
        "{right} of 24 signs: {found:?}, {:?}",
        update.report.training
    );
    let (learned, calibration) = trainer.into_models().remove(0).adapter().unwrap();
    assert_ne!(calibration.scale, LmSettings::default().first_scale);
    assert_eq!(learned.settings(), first.settings());
    let (before, after) = (first.matrices().unwrap(), learned.matrices().unwrap());
    assert_eq!(before.len(), 2 * 2 * Module::ALL.len());
    for ((name, before), (_, after)) in before.iter().zip(&after) {
        assert!(
            before.iter().zip(after).any(|(a, b)| a != b),
            "{name} did not move"
        );
    }
}

#[test]
fn neither_batches_nor_memory_change_what_is_learned() {
    let (corpus, labels) = labels();
    let learned = |settings: LmSettings| {
        let update = trainer(settings).warm_up(&corpus, &labels, &|_| {}).unwrap();
        values(update.scorer.as_ref(), &corpus, &labels)
    };
    // Dropout differs from batch to batch: without it, all ways are the same function.
    let mut plain = settings();
    plain.lora.dropout = 0.0;
    let expected = learned(plain.clone());
    for (micro_batch_tokens, activation_bytes) in [(1, 0), (400, 100_000), (100_000, 0)] {
        let found = learned(LmSettings {
            micro_batch_tokens,
            activation_bytes,
            ..plain.clone()
        });
        for (a, b) in found.iter().zip(&expected) {
            assert!(
                (a - b).abs() < 2e-2,
                "{micro_batch_tokens} tokens, {activation_bytes} bytes: {a} for {b}"
            );
        }
    }
}

#[test]
fn the_same_seed_learns_the_same() {
    let (corpus, labels) = labels();
    let learned = || {
        let update = trainer(settings()).warm_up(&corpus, &labels, &|_| {}).unwrap();
        values(update.scorer.as_ref(), &corpus, &labels)
    };
    assert_eq!(learned(), learned());
}

#[test]
fn training_goes_on_from_disk_as_if_it_had_never_stopped() {
    let (corpus, labels) = labels();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("version-1");
    let mut whole = trainer(settings());
    whole.warm_up(&corpus, &labels, &|_| {}).unwrap();
    whole.save(&directory, &Provenance::default()).unwrap();
    let loaded = Trainer::<LmModel>::load(&directory, &base(settings())).unwrap();
    let mut resumed = loaded.trainer;
    let (on, again) = (
        whole.update(&corpus, &labels, &[], &|_| {}).unwrap(),
        resumed.update(&corpus, &labels, &[], &|_| {}).unwrap(),
    );
    assert_eq!(on.report.version, again.report.version);
    assert_eq!(
        values(on.scorer.as_ref(), &corpus, &labels),
        values(again.scorer.as_ref(), &corpus, &labels)
    );
    let mut other = settings();
    other.lora.rank = 2;
    let error = Trainer::<LmModel>::load(&directory, &base(other))
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("lm.lora"), "{error}");
}

/// Keeps two epochs and then stops the update, as a kill would.
struct Killed(LmKeeper);

impl Keeper<Option<LmState>> for Killed {
    fn load(&self, member: usize) -> Result<Option<Midway<Option<LmState>>>> {
        self.0.load(member)
    }

    fn save(&self, member: usize, midway: &Midway<&Option<LmState>>) -> Result<()> {
        self.0.save(member, midway)?;
        if midway.epochs() < 2 {
            return Ok(());
        }
        Err(ScorerError::Numerical {
            step: "a test",
            problem: "killed".into(),
        })
    }
}

#[test]
fn an_update_that_was_stopped_goes_on_from_its_last_epoch() {
    let (corpus, labels) = labels();
    let place = tempfile::tempdir().unwrap();
    // Every third task is held out, and the best epoch is gone back to.
    let plan = TrainerSettings {
        folds: 3,
        held_out_min: 1,
        patience: 4,
        ..plan()
    };
    let trainer = || Trainer::new(plan, vec![LmModel::new(base(settings()), 5)]).unwrap();
    let keeper = |update: &str| LmKeeper::new(place.path().join("update"), base(settings()), update.into());
    let run = |trainer: &mut Trainer<LmModel>,
               keeper: Option<&dyn Keeper<Option<LmState>>>,
               epochs: &mut Vec<usize>| {
        let told = std::sync::Mutex::new(Vec::new());
        let update = trainer.learn(Stage::WarmUp, &corpus, &labels, &[], keeper, &|progress| {
            told.lock().unwrap().push(progress.epoch);
        });
        *epochs = told.into_inner().unwrap();
        update
    };
    let mut epochs = Vec::new();
    let whole = run(&mut trainer(), None, &mut epochs).unwrap();
    let all = epochs.clone();
    assert!(all.len() > 2, "{all:?}");
    assert!(run(&mut trainer(), Some(&Killed(keeper("one"))), &mut epochs).is_err());
    let resumed = run(&mut trainer(), Some(&keeper("one")), &mut epochs).unwrap();
    assert_eq!(epochs, all[2..], "the first two epochs were not learned again");
    assert_eq!(resumed.report, whole.report);
    assert_eq!(
        values(resumed.scorer.as_ref(), &corpus, &labels),
        values(whole.scorer.as_ref(), &corpus, &labels)
    );
    // What is left of another update is not gone on from, nor is a damaged file.
    run(&mut trainer(), Some(&keeper("another")), &mut epochs).unwrap();
    assert_eq!(epochs, all);
    for file in std::fs::read_dir(place.path().join("update")).unwrap() {
        std::fs::write(file.unwrap().path().join("model.safetensors"), b"x").unwrap();
    }
    run(&mut trainer(), Some(&keeper("another")), &mut epochs).unwrap();
    assert_eq!(epochs, all);
    keeper("another").clear().unwrap();
    keeper("another").clear().unwrap();
    assert!(!place.path().join("update").exists());
}
