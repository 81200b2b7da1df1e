//! The closed forms against brute force.

use std::sync::Arc;

use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{MemoryId, MemorySet, ReferenceId, TaskId};

use super::{
    evidence::Problem,
    features::TaskSets,
    kernel::{Kernel, LabelKind, Likeness},
    learner::{CompactLearner, CompactSettings, Label},
    parameters::{COUNT, Parameter, Parameters},
    query::Query,
    registry::Registry,
    row::Row,
};
use crate::{Ask, Embedding, MemoryInput, SetScorer, TaskInput};

/// Texts of a few kinds, random labels, and a learner that has seen them.
pub(super) struct Fixture {
    pub(super) learner: CompactLearner,
    pub(super) tasks: Vec<Embedding>,
    pub(super) memories: Vec<Embedding>,
}

fn embedding(kind: usize, rng: &mut ChaCha8Rng) -> Embedding {
    let mut values: Vec<f32> = (0..24).map(|_| rng.random_range(-0.5..0.5)).collect();
    values[kind] += 1.5;
    Embedding::new(&values).unwrap()
}

pub(super) fn task_id(at: usize) -> TaskId {
    TaskId::from_u128(1_000 + at as u128)
}

pub(super) fn memory_id(at: usize) -> MemoryId {
    MemoryId::from_u128(at as u128)
}

pub(super) fn fixture(settings: CompactSettings, labels: usize, seed: u64) -> Fixture {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tasks: Vec<Embedding> = (0..30).map(|at| embedding(at % 4, &mut rng)).collect();
    let memories: Vec<Embedding> = (0..20).map(|at| embedding(at % 4, &mut rng)).collect();
    let mut learner = CompactLearner::new(settings).unwrap();
    for (at, text) in tasks.iter().enumerate().take(25) {
        learner.add_task(task_id(at), text).unwrap();
    }
    for (at, text) in memories.iter().enumerate().take(16) {
        learner.add_memory(memory_id(at), text).unwrap();
    }
    for time in 0..labels {
        let smallest = usize::from(settings.labels == LabelKind::Paired);
        let task = rng.random_range(0..25);
        let size = rng.random_range(smallest..=4);
        let set: MemorySet = (0..size).map(|_| memory_id(rng.random_range(0..16))).collect();
        let helps = set.iter().filter(|id| id.as_u128() % 3 == 0).count() as f64;
        learner
            .hold(&Label {
                task: task_id(task),
                set,
                value: 0.4 + 0.15 * helps + 0.1 * (task % 4) as f64 + rng.random_range(-0.3..0.3),
                reference: (settings.labels == LabelKind::Paired)
                    .then(|| ReferenceId::from_u128(task as u128)),
                time: time as f64,
            })
            .unwrap();
    }
    Fixture {
        learner,
        tasks,
        memories,
    }
}

fn settings(labels: LabelKind) -> CompactSettings {
    CompactSettings {
        labels,
        headroom: false,
        // Labels without memories are to differ from the others in every check.
        reference_noise: 0.25,
        ..CompactSettings::default()
    }
}

/// Likeness straight from the registry.
pub(super) struct Direct<'a>(&'a Registry, &'a Kernel);

impl Likeness for Direct<'_> {
    fn tasks(&self, a: u32, b: u32) -> f64 {
        self.0.task_similarity(a, b)
    }

    fn memories(&self, a: u32, b: u32) -> (f64, f64) {
        self.1.text_covariance(self.0.memory_similarity(a, b))
    }
}

/// Solves a x = b by elimination with pivoting: slow, plain, and nothing in common with the factor.
fn eliminate(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let count = b.len();
    for k in 0..count {
        let pivot = (k..count)
            .max_by(|&i, &j| a[i][k].abs().total_cmp(&a[j][k].abs()))
            .unwrap();
        a.swap(k, pivot);
        b.swap(k, pivot);
        for i in k + 1..count {
            let ratio = a[i][k] / a[k][k];
            let (above, below) = a.split_at_mut(i);
            for (cell, pivot) in below[0][k..].iter_mut().zip(&above[k][k..]) {
                *cell -= ratio * pivot;
            }
            b[i] -= ratio * b[k];
        }
    }
    for k in (0..count).rev() {
        let known: f64 = (k + 1..count).map(|j| a[k][j] * b[j]).sum();
        b[k] = (b[k] - known) / a[k][k];
    }
    b
}

fn agrees_with_a_dense_process(kind: LabelKind) {
    let mut fixture = fixture(settings(kind), 120, 5);
    fixture.learner.refit().unwrap();
    let scorer = fixture.learner.publish();
    let (registry, kernel) = (&scorer.registry, &scorer.kernel);
    let rows: Vec<Row> = scorer.posterior.rows.iter().map(|row| (**row).clone()).collect();
    let direct = Direct(registry, kernel);
    let covariance: Vec<Vec<f64>> = rows
        .iter()
        .enumerate()
        .map(|(i, x)| {
            rows.iter()
                .enumerate()
                .map(|(j, y)| {
                    kernel.covariance(&direct, x, y) + if i == j { kernel.noise_of(x) } else { 0.0 }
                })
                .collect()
        })
        .collect();
    let values: Vec<f64> = fixture.learner.centred_values();
    let weights = eliminate(covariance.clone(), values);
    let memories: Vec<MemoryInput<'_>> = (0..16)
        .map(|at| MemoryInput {
            id: memory_id(at),
            text: "",
            embedding: &fixture.memories[at],
        })
        .collect();
    let task = TaskInput {
        id: task_id(3),
        context: "",
        embedding: &fixture.tasks[3],
    };
    let sets: Vec<MemorySet> = [&[1_usize][..], &[2, 3], &[0, 4, 8, 12], &[5, 6, 7, 9, 15]]
        .iter()
        .map(|set| set.iter().map(|&at| memory_id(at)).collect())
        .collect();
    let bound = scorer.bound(task, &memories).unwrap();
    let asked: Vec<Row> = sets
        .iter()
        .map(|set| bound.row(&bound.slots(set).unwrap()))
        .collect();
    let crosses: Vec<Vec<f64>> = asked
        .iter()
        .map(|x| {
            rows.iter()
                .map(|y| kernel.effect_covariance(&direct, x, y))
                .collect()
        })
        .collect();
    let scores = scorer
        .bind(task, &memories)
        .unwrap()
        .score(
            &sets,
            Ask {
                deviations: true,
                ..Ask::VALUES
            },
        )
        .unwrap();
    let map = scorer
        .feature_map(
            &[TaskSets {
                task,
                memories: &memories,
                sets: &sets,
            }],
            sets.len(),
            0.0,
        )
        .unwrap();
    assert!(map.residual_share < 1e-9);
    for i in 0..sets.len() {
        let explained: f64 = crosses[i].iter().zip(&weights).map(|(k, w)| k * w).sum();
        let mean = explained - kernel.member_cost * sets[i].len() as f64;
        assert!(
            (scores.values[i] - mean).abs() < 1e-8,
            "{} is not {mean}",
            scores.values[i]
        );
        let solved = eliminate(covariance.clone(), crosses[i].clone());
        for j in 0..sets.len() {
            let explained: f64 = crosses[j].iter().zip(&solved).map(|(k, w)| k * w).sum();
            let truth = kernel.effect_covariance(&direct, &asked[i], &asked[j]) - explained;
            let product: f64 = map.features[i]
                .iter()
                .zip(&map.features[j])
                .map(|(a, b)| a * b)
                .sum();
            assert!((product - truth).abs() < 1e-8, "{product} is not {truth}");
            if i == j {
                assert!((scores.deviations[i].powi(2) - truth).abs() < 1e-8);
            }
        }
    }
}

#[test]
fn smoothed_labels_agree_with_a_dense_gaussian_process() {
    agrees_with_a_dense_process(LabelKind::Smoothed);
}

#[test]
fn paired_labels_agree_with_a_dense_gaussian_process() {
    agrees_with_a_dense_process(LabelKind::Paired);
}

#[test]
fn per_task_terms_equal_the_kernel() {
    let mut fixture = fixture(settings(LabelKind::Smoothed), 150, 6);
    fixture.learner.refit().unwrap();
    let scorer = fixture.learner.publish();
    // A task and memories never seen, among them.
    let memories: Vec<MemoryInput<'_>> = (8..20)
        .map(|at| MemoryInput {
            id: memory_id(at),
            text: "",
            embedding: &fixture.memories[at],
        })
        .collect();
    let task = TaskInput {
        id: task_id(28),
        context: "",
        embedding: &fixture.tasks[28],
    };
    let bound = scorer.bound(task, &memories).unwrap();
    let direct = Direct(&bound.registry, &scorer.kernel);
    for set in [&[0_u32][..], &[3, 4], &[1, 2, 11], &[0, 5, 6, 9, 10]] {
        let row = bound.row(set);
        let kernel: f64 = scorer
            .posterior
            .rows
            .iter()
            .zip(&scorer.posterior.weights)
            .map(|(label, weight)| weight * scorer.kernel.effect_covariance(&direct, &row, label))
            .sum();
        let terms = bound.terms.linear(set) + scorer.kernel.member_cost * set.len() as f64;
        assert!((terms - kernel).abs() < 1e-12, "{terms} is not {kernel}");
    }
}

/// The covariance by its definition: every part summed over members and over pairs.
fn by_definition(registry: &Registry, kernel: &Kernel, x: &Row, y: &Row) -> f64 {
    let similarity = registry.task_similarity(x.task, y.task);
    let fade = kernel.fade(similarity);
    let mix = kernel.share + (1.0 - kernel.share) * fade;
    let mut value = kernel.base_covariance(similarity, x.task == y.task);
    if x.members.is_empty() || y.members.is_empty() {
        return value;
    }
    let mut effect = kernel.any + kernel.count * x.size() * y.size();
    for m in &x.members {
        for n in &y.members {
            let text = kernel
                .text_covariance(registry.memory_similarity(m.memory, n.memory))
                .0;
            let own = if m.memory == n.memory {
                kernel.identity
            } else {
                0.0
            };
            let gates = m.gate[0] * n.gate[0];
            effect += gates * (kernel.common * fade + (kernel.text * text + own) * mix);
            effect += kernel.near * kernel.nearness(m.similarity)[0] * kernel.nearness(n.similarity)[0] * mix;
        }
    }
    for (i, m) in x.members.iter().enumerate() {
        for n in &x.members[..i] {
            for (k, o) in y.members.iter().enumerate() {
                for p in &y.members[..k] {
                    let same = (m.memory, n.memory) == (o.memory, p.memory)
                        || (m.memory, n.memory) == (p.memory, o.memory);
                    if same {
                        effect += kernel.pair * mix * m.gate[0] * n.gate[0] * o.gate[0] * p.gate[0];
                    }
                }
            }
        }
    }
    value += effect * kernel.memory_of(x.time, y.time);
    value
}

#[test]
fn the_kernel_is_the_sum_of_its_parts() {
    let mut fixture = fixture(settings(LabelKind::Smoothed), 60, 7);
    fixture.learner.refit().unwrap();
    let scorer = fixture.learner.publish();
    let direct = Direct(&scorer.registry, &scorer.kernel);
    for x in &scorer.posterior.rows {
        for y in &scorer.posterior.rows {
            let fast = scorer.kernel.covariance(&direct, x, y);
            let slow = by_definition(&scorer.registry, &scorer.kernel, x, y);
            assert!((fast - slow).abs() < 1e-13, "{fast} is not {slow}");
        }
    }
}

fn problem(kind: LabelKind) -> Problem {
    let mut fixture = fixture(settings(kind), 70, 8);
    fixture.learner.refit().unwrap();
    let values = fixture.learner.centred_values();
    let scorer = fixture.learner.publish();
    let rows = scorer.posterior.rows.iter().map(|row| (**row).clone());
    Problem::new(&scorer.registry, rows, values)
}

fn check_gradient(kind: LabelKind) {
    let problem = problem(kind);
    let mut point = Parameters::centre(1.0).point;
    // Off the centre, where no derivative happens to vanish.
    for (at, value) in point.iter_mut().enumerate() {
        *value += 0.1 * (at as f64).sin();
    }
    point[Parameter::DriftRate as usize] = 0.0;
    let kernel = |point: &[f64; COUNT]| {
        let mut kernel = Kernel::new(kind, &Parameters { point: *point }, 1.0, 70.0);
        kernel.reference_noise = 0.25;
        kernel
    };
    let (_, gradient) = problem.log_evidence(&kernel(&point)).unwrap();
    let mut moves = 0;
    for at in 0..COUNT {
        let step = 1e-5;
        let mut moved = point;
        moved[at] += step;
        let up = problem.log_evidence(&kernel(&moved)).unwrap().0;
        moved[at] -= 2.0 * step;
        let down = problem.log_evidence(&kernel(&moved)).unwrap().0;
        let slope = (up - down) / (2.0 * step);
        let close = (slope - gradient[at]).abs() < 1e-5 * (1.0 + slope.abs());
        assert!(close, "{:?}: {} is not {slope}", Parameter::ALL[at], gradient[at]);
        moves += usize::from(slope.abs() > 1e-4);
    }
    assert!(moves >= 14, "only {moves} parameters matter");
}

#[test]
fn the_gradient_of_the_evidence_of_smoothed_labels_is_right() {
    check_gradient(LabelKind::Smoothed);
}

#[test]
fn the_gradient_of_the_evidence_of_paired_labels_is_right() {
    check_gradient(LabelKind::Paired);
}

#[test]
fn the_log_evidence_is_a_gaussian_density() {
    let problem = problem(LabelKind::Smoothed);
    let kernel = Kernel::new(LabelKind::Smoothed, &Parameters::centre(1.0), 1.0, 70.0);
    let rows = problem.gated(&kernel);
    let cells = problem.covariance(&kernel, &rows);
    let count = rows.len();
    // The density as a product of conditionals, one label after the other.
    let at = |i: usize, j: usize| cells[j.min(i) * count + i.max(j)];
    let values = problem.values();
    let mut log = 0.0;
    for i in 0..count {
        let before: Vec<Vec<f64>> = (0..i).map(|a| (0..i).map(|b| at(a, b)).collect()).collect();
        let cross: Vec<f64> = (0..i).map(|a| at(a, i)).collect();
        let solved = eliminate(before, cross.clone());
        let mean: f64 = solved.iter().zip(values).map(|(w, y)| w * y).sum();
        let variance = at(i, i) - solved.iter().zip(&cross).map(|(w, k)| w * k).sum::<f64>();
        log -= 0.5 * ((values[i] - mean).powi(2) / variance + (2.0 * std::f64::consts::PI * variance).ln());
    }
    let evidence = problem.log_evidence(&kernel).unwrap().0;
    assert!((evidence - log).abs() < 1e-8, "{evidence} is not {log}");
}

#[test]
fn labels_taken_one_by_one_equal_labels_taken_together() {
    for kind in [LabelKind::Smoothed, LabelKind::Paired] {
        let mut fixture = fixture(settings(kind), 90, 9);
        fixture.learner.refit().unwrap();
        let label = |at: usize| Label {
            task: task_id(at % 25),
            set: [at % 16, (at * 7) % 16].iter().map(|&at| memory_id(at)).collect(),
            value: 0.1 * (at % 9) as f64,
            reference: (kind == LabelKind::Paired).then(|| ReferenceId::from_u128((at % 25) as u128)),
            time: 90.0 + at as f64,
        };
        for at in 0..70 {
            fixture.learner.observe(&label(at)).unwrap();
        }
        let grown = fixture.learner.publish();
        fixture.learner.recondition().unwrap();
        let whole = fixture.learner.publish();
        assert_eq!(grown.posterior.rows.len(), 160);
        for (a, b) in grown.posterior.weights.iter().zip(&whole.posterior.weights) {
            assert!((a - b).abs() < 1e-8, "{a} is not {b}");
        }
        let explained = |scorer: &super::CompactScorer| {
            let rows = scorer.posterior.speaking().len();
            let cross = Mat::from_fn(rows, 4, |at, column| ((rows - at + 31 * column) as f64).cos());
            scorer.posterior.explained(&cross)
        };
        for (a, b) in explained(&grown).iter().zip(explained(&whole)) {
            assert!((a - b).abs() < 1e-7 * b.max(1.0), "{a} is not {b}");
        }
    }
}

#[test]
fn inducing_rows_that_are_all_labels_lose_nothing_and_fewer_report_what_they_lose() {
    let mut exact = fixture(settings(LabelKind::Smoothed), 140, 10);
    let report = exact.learner.refit().unwrap();
    assert_eq!(report.inexpressible, None);
    let values = |fixture: &mut Fixture| {
        let scorer = fixture.learner.publish();
        let query = Query::new(&scorer.registry, &scorer.kernel, 4, (0..16).collect(), scorer.now);
        let row = Arc::new(query.row(&scorer.registry, &scorer.kernel, scorer.scale, &[1, 6, 9]));
        let cross = scorer
            .posterior
            .cross(&scorer.kernel, &query, std::slice::from_ref(row.as_ref()));
        let silent = scorer.posterior.rows.len() - cross.nrows();
        let mean: f64 = (0..cross.nrows())
            .map(|i| cross[(i, 0)] * scorer.posterior.weights[silent + i])
            .sum();
        (mean, scorer.posterior.explained(&cross)[0])
    };
    let (mean, explained) = values(&mut exact);
    for (inducing_max, tolerance) in [(140, 1e-4), (100, 0.05)] {
        let mut sparse = fixture(
            CompactSettings {
                exact_max: 100,
                inducing_max,
                ..settings(LabelKind::Smoothed)
            },
            140,
            10,
        );
        let left = sparse.learner.refit().unwrap().inexpressible.unwrap();
        assert!((-1e-6..0.5).contains(&left), "{left}");
        assert_eq!(inducing_max == 140, left < 1e-6, "{left}");
        let (sparse_mean, sparse_explained) = values(&mut sparse);
        assert!((mean - sparse_mean).abs() < tolerance, "{mean} {sparse_mean}");
        assert!((explained - sparse_explained).abs() < tolerance);
        let label = Label {
            task: task_id(2),
            set: std::iter::once(memory_id(3)).collect(),
            value: 0.7,
            reference: None,
            time: 141.0,
        };
        sparse.learner.observe(&label).unwrap();
        let grown = values(&mut sparse);
        sparse.learner.recondition().unwrap();
        if inducing_max == 100 {
            // The inducing rows move with a refit, so only the size of the change is the same.
            assert!((grown.0 - values(&mut sparse).0).abs() < 0.05);
        }
    }
}

#[test]
fn a_pivoted_root_gives_the_matrix_back() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let half = Mat::from_fn(12, 5, |_, _| rng.random_range(-1.0..1.0));
    let matrix = &half * half.transpose();
    let root = super::features::pivoted(&matrix);
    assert_eq!(root.ncols(), 5);
    let back = &root * root.transpose();
    for i in 0..12 {
        for j in 0..12 {
            assert!((back[(i, j)] - matrix[(i, j)]).abs() < 1e-10);
        }
    }
}

#[test]
fn many_equal_labels_are_learned_from_and_more_of_them() {
    let mut fixture = fixture(settings(LabelKind::Smoothed), 1, 12);
    let label = |at: usize| Label {
        task: task_id(at % 25),
        set: [at % 16].iter().map(|&at| memory_id(at)).collect(),
        value: 1.0,
        reference: None,
        time: at as f64,
    };
    for round in 0..3 {
        for at in 0..60 {
            fixture.learner.observe(&label(60 * round + at)).unwrap();
        }
        fixture.learner.refit().unwrap();
    }
    fixture.learner.observe(&label(200)).unwrap();
}
