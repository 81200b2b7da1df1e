//! Checkpoints of the compact scorer: conditioning again gives the same bits.

use std::fs;

use upliftmem_core::{MemorySet, ReferenceId};
use upliftmem_scorer::{
    Ask, CompactLearner, CompactSettings, Label, LabelKind, Scores, SetScorer,
    checkpoint::{LoadedCompact, Provenance},
};

use crate::world::{corpus, memories, set, task_id};

fn settings() -> CompactSettings {
    CompactSettings {
        evidence_max: 80,
        evaluations_max: 6,
        ..CompactSettings::default()
    }
}

fn label(at: usize, kind: LabelKind) -> Label {
    let members: &[usize] = match (at % 4, kind) {
        (0, LabelKind::Smoothed) => &[],
        (1, _) => &[1, 3],
        (2, _) => &[2],
        _ => &[0],
    };
    Label {
        task: task_id(at % 10),
        set: set(members),
        value: 0.3 + 0.1 * members.len() as f64 + 0.01 * (at % 7) as f64,
        reference: (kind == LabelKind::Paired).then(|| ReferenceId::from_u128((at % 10) as u128)),
        time: at as f64,
    }
}

/// A learner of ten tasks and four memories; two more memories and ten more tasks become known after the fit.
fn learner(settings: CompactSettings, fit: bool) -> CompactLearner {
    let corpus = corpus(20, 6);
    let mut learner = CompactLearner::new(settings).unwrap();
    for (id, text) in corpus.tasks().take(10) {
        learner.add_task(id, text).unwrap();
    }
    for (id, text) in corpus.memories().take(4) {
        learner.add_memory(id, text).unwrap();
    }
    for at in 0..60 {
        learner.hold(&label(at, settings.labels)).unwrap();
    }
    if fit {
        learner.refit().unwrap();
    }
    for (id, text) in corpus.memories() {
        learner.add_memory(id, text).unwrap();
    }
    for (id, text) in corpus.tasks() {
        learner.add_task(id, text).unwrap();
    }
    for at in 60..75 {
        learner.observe(&label(at, settings.labels)).unwrap();
    }
    learner.hold(&label(75, settings.labels)).unwrap();
    learner
}

fn scores(scorer: &dyn SetScorer) -> Vec<Scores> {
    let corpus = corpus(20, 6);
    let sets = [MemorySet::EMPTY, set(&[0]), set(&[1, 3]), set(&[2, 4, 5])];
    let ask = Ask {
        draws: 2,
        seed: 3,
        deviations: true,
    };
    [0, 1, 12]
        .map(|task| {
            let task = corpus.task(task_id(task)).unwrap();
            scorer
                .bind(task, &memories(&corpus, 6))
                .unwrap()
                .score(&sets, ask)
                .unwrap()
        })
        .to_vec()
}

fn check(settings: CompactSettings, fit: bool) {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("a");
    let mut learner = learner(settings, fit);
    let published = learner.publish();
    learner.save(&directory, &Provenance::default()).unwrap();
    let LoadedCompact {
        scorer,
        learner: mut loaded,
        ..
    } = CompactLearner::load(&directory, None).unwrap();
    assert_eq!(scores(scorer.as_ref()), scores(published.as_ref()));
    assert_eq!(scorer.version(), published.version());
    // And on as before: one more label, one more fit.
    for learner in [&mut learner, &mut loaded] {
        learner.observe(&label(76, settings.labels)).unwrap();
    }
    assert_eq!(
        scores(learner.publish().as_ref()),
        scores(loaded.publish().as_ref())
    );
    assert_eq!(learner.refit().unwrap(), loaded.refit().unwrap());
    assert_eq!(
        scores(learner.publish().as_ref()),
        scores(loaded.publish().as_ref())
    );
}

#[test]
fn smoothed_labels_come_back_to_the_bit() {
    check(settings(), true);
}

#[test]
fn paired_labels_come_back_to_the_bit() {
    check(
        CompactSettings {
            labels: LabelKind::Paired,
            ..settings()
        },
        true,
    );
}

#[test]
fn inducing_rows_come_back_to_the_bit() {
    check(
        CompactSettings {
            exact_max: 30,
            inducing_max: 20,
            ..settings()
        },
        true,
    );
}

#[test]
fn a_learner_that_was_never_fitted_comes_back_too() {
    check(settings(), false);
}

#[test]
fn a_learner_that_knows_nothing_can_be_saved() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("a");
    let blank = CompactLearner::new(settings()).unwrap();
    blank.save(&directory, &Provenance::default()).unwrap();
    let loaded = CompactLearner::load(&directory, None).unwrap();
    assert!(
        scores(loaded.scorer.as_ref())
            .iter()
            .all(|task| task.values == [0.0; 4])
    );
}

#[test]
fn damage_is_found() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("a");
    learner(settings(), true)
        .save(&directory, &Provenance::default())
        .unwrap();
    for name in ["manifest.json", "model.safetensors"] {
        let file = directory.join(name);
        let good = fs::read(&file).unwrap();
        for at in (0..good.len()).step_by(good.len() / 40 + 1) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&file, &bad).unwrap();
            let error = CompactLearner::load(&directory, None).err().unwrap().to_string();
            assert!(error.contains(name), "{error}");
            fs::write(&file, &good[..at]).unwrap();
            assert!(CompactLearner::load(&directory, None).is_err());
        }
        fs::write(&file, &good).unwrap();
    }
    assert!(CompactLearner::load(&directory, None).is_ok());
}
