//! The trainer: few labels, odd labels, paths, reports, threads.

use std::sync::Mutex;

use upliftmem_core::{
    Action, MemorySet, PathStep, RetrievalPath, Uplift,
    objectives::{LossSettings, Objectives},
};
use upliftmem_scorer::{HeldOut, HeldOutReport, PathExample, TrainerSettings, calibration_scale, fold};

use crate::world::{corpus, label, labels, memory_id, set, task_id, trainer, value, values, warm_up};

#[test]
fn nothing_and_one_label_are_enough_to_answer() {
    let corpus = corpus(10, 8);
    let nothing = warm_up(&corpus, &[], 5);
    assert_eq!(value(&nothing.scorer, &corpus, 0, &[0]), 0.0);
    assert_eq!(nothing.report.held_out.labels, 0);
    let one = warm_up(&corpus, &[label(0, &[0], 1.0)], 30);
    assert!(value(&one.scorer, &corpus, 0, &[0]) > 0.05);
    assert_eq!(one.report.scale, 1.0, "one label calibrates nothing");
}

#[test]
fn equal_zero_and_huge_labels_are_learned_from() {
    let corpus = corpus(20, 8);
    let equal = warm_up(&corpus, &labels(20, 100, |_| 0.0), 10);
    assert!(value(&equal.scorer, &corpus, 0, &[0]).abs() < 0.1);
    let same: Vec<_> = (0..100).map(|at| label(2 * (at % 10), &[at % 8], 0.7)).collect();
    let same = warm_up(&corpus, &same, 40);
    let found = value(&same.scorer, &corpus, 0, &[0]);
    assert!((found - 0.7).abs() < 0.1, "{found} {:?}", same.report);
    let zero: Vec<_> = (0..60).map(|at| label(2 * (at % 10), &[at % 8], 0.0)).collect();
    let zero = warm_up(&corpus, &zero, 5);
    assert!(value(&zero.scorer, &corpus, 0, &[0]).abs() < 1e-3);
    for scale in [1e6, 1e-6] {
        let huge: Vec<_> = (0..200)
            .map(|at| label(2 * (at % 10), &[at % 2], scale * [0.8, -0.4][at % 2]))
            .collect();
        let update = warm_up(&corpus, &huge, 40);
        let (good, bad) = (
            value(&update.scorer, &corpus, 0, &[0]),
            value(&update.scorer, &corpus, 0, &[1]),
        );
        assert!(good > 0.3 * scale && bad < -0.1 * scale, "{scale}: {good} {bad}");
    }
}

#[test]
fn bad_data_is_refused_and_changes_nothing() {
    let corpus = corpus(10, 8);
    let mut trainer = trainer(TrainerSettings::default(), 2);
    let fine = labels(10, 60, |_| 0.3);
    let before = trainer.warm_up(&corpus, &fine, &|_| {}).unwrap();
    let expected = value(&before.scorer, &corpus, 0, &[0]);
    for (bad, word) in [
        (label(77, &[0], 1.0), "has no text"),
        (label(0, &[99], 1.0), "has no text"),
        (label(0, &[], 1.0), "empty set"),
    ] {
        let mut labels = fine.clone();
        labels.push(bad);
        let error = trainer
            .warm_up(&corpus, &labels, &|_| {})
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains(word), "{error}");
    }
    // The version did not advance, and the same update gives the same network.
    let mut twin = crate::world::trainer(TrainerSettings::default(), 2);
    twin.warm_up(&corpus, &fine, &|_| {}).unwrap();
    let after = trainer.warm_up(&corpus, &fine, &|_| {}).unwrap();
    let twin = twin.warm_up(&corpus, &fine, &|_| {}).unwrap();
    assert_eq!(after.report, twin.report);
    assert_eq!(after.report.version.0, 2);
    assert_eq!(value(&before.scorer, &corpus, 0, &[0]), expected);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let corpus = corpus(20, 8);
    let labels = labels(20, 120, |set| 0.2 * set.len() as f64);
    let train = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let update = warm_up(&corpus, &labels, 4);
            let sets = [set(&[0]), set(&[0, 1]), set(&[2, 5, 7])];
            (
                update.report,
                values(update.scorer.as_ref(), &corpus, 1, 8, &sets),
            )
        })
    };
    assert_eq!(train(1), train(3));
}

/// Paths that add memory 3 first and stop, with this outcome.
fn paths(uplift: f64) -> Vec<PathExample> {
    (0..40)
        .map(|at| PathExample {
            task: task_id(at % 20),
            path: RetrievalPath {
                steps: vec![
                    PathStep {
                        state: MemorySet::EMPTY,
                        mask: (0..8).map(memory_id).collect(),
                        action: Action::Add(memory_id(3)),
                    },
                    PathStep {
                        state: set(&[3]),
                        mask: (0..8).filter(|&at| at != 3).map(memory_id).collect(),
                        action: Action::Stop,
                    },
                ],
                terminal: set(&[3]),
            },
            uplift: Uplift::new(uplift).unwrap(),
        })
        .collect()
}

#[test]
fn joint_updates_follow_the_outcome_of_paths() {
    let corpus = corpus(20, 8);
    let labels = labels(20, 100, |_| 0.0);
    let settings = TrainerSettings {
        held_out_min: 1_000,
        ..TrainerSettings::default()
    };
    let after = |uplift: f64| {
        let mut trainer = trainer(settings, 2);
        trainer.warm_up(&corpus, &labels, &|_| {}).unwrap();
        let update = trainer.update(&corpus, &labels, &paths(uplift), &|_| {}).unwrap();
        assert_eq!(update.report.paths, 40);
        assert!(update.report.training.policy != 0.0);
        value(&update.scorer, &corpus, 0, &[3])
    };
    let (reinforced, suppressed) = (after(1.0), after(-1.0));
    assert!(reinforced > suppressed + 0.02, "{reinforced} {suppressed}");
}

#[test]
fn progress_is_told_after_every_epoch_of_every_member() {
    let corpus = corpus(20, 8);
    let told = Mutex::new(Vec::new());
    let settings = TrainerSettings {
        epochs: 4,
        patience: 4,
        ..TrainerSettings::default()
    };
    trainer(settings, 3)
        .warm_up(&corpus, &labels(20, 100, |_| 0.3), &|progress| {
            told.lock().unwrap().push((progress.member, progress.epoch));
        })
        .unwrap();
    let mut told = told.into_inner().unwrap();
    told.sort_unstable();
    let expected: Vec<_> = (0..3)
        .flat_map(|member| (1..=4).map(move |epoch| (member, epoch)))
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn noise_is_not_learned() {
    let corpus = corpus(40, 8);
    let labels: Vec<_> = (0..300_usize)
        .map(|at| {
            let sign = if fold(task_id(at * 7), 2) == 0 { 1.0 } else { -1.0 };
            label(at % 40, &[at % 8, (at / 8) % 8], sign)
        })
        .collect();
    let update = warm_up(&corpus, &labels, 30);
    let report = &update.report;
    let (error, zero) = (
        report.held_out.error.unwrap(),
        report.held_out.error_of_zero.unwrap(),
    );
    assert!(error < 1.05 * zero, "{error} {zero}");
    assert_eq!(
        report.held_out.labels, 300,
        "every label is held out from one member"
    );
}

fn held_out(task: u128, uplift: f64, size: usize, predicted: f64) -> HeldOut {
    let example = label(usize::try_from(task).unwrap(), &[0], uplift);
    HeldOut {
        label: example.label,
        size,
        predicted,
    }
}

#[test]
fn a_report_says_what_labels_say() {
    let objectives = Objectives::new(LossSettings::default()).unwrap();
    let data = [
        held_out(1, 0.5, 1, 1.0),
        held_out(1, -0.5, 2, -1.0),
        held_out(2, 0.5, 2, 1.0),
        held_out(2, 0.01, 1, -0.5),
    ];
    let report = HeldOutReport::of(&objectives, &data).unwrap();
    assert_eq!(report.labels, 4);
    assert_eq!(
        (report.sign_accuracy, report.pair_accuracy),
        (Some(1.0), Some(1.0))
    );
    let slope = report.calibration_slope.unwrap();
    assert!((slope - (1.5 - 0.005) / 3.25).abs() < 1e-12);
    assert_eq!(calibration_scale(&data, 4).unwrap(), slope);
    assert_eq!(calibration_scale(&data, 5).unwrap(), 1.0);
    assert!((report.optimism.unwrap().mean - (0.5 - 0.5 + 0.5 - 0.51) / 4.0).abs() < 1e-12);
    let sizes: Vec<(usize, usize)> = report.by_size.iter().map(|one| (one.size, one.labels)).collect();
    assert_eq!(sizes, [(1, 2), (2, 2)]);
    assert!((report.by_size[1].error - 0.5).abs() < 1e-12 && report.by_size[1].bias.abs() < 1e-12);
    let written = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<HeldOutReport>(&written).unwrap(), report);
    assert_eq!(HeldOutReport::of(&objectives, &[]).unwrap().labels, 0);
    let opposite = data.map(|one| HeldOut {
        predicted: -one.predicted,
        ..one
    });
    assert_eq!(calibration_scale(&opposite, 1).unwrap(), 0.0);
}
