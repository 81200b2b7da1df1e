//! The paper's evaluation on ALFWorld with the scripted player, small.
//!
//! Needs the data: a folder `UPLIFTMEM_BENCH_DIR` with `alfworld/games.tar.xz` (or the unpacked splits in `alfworld/`).
//! Without it every test says so and passes.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use upliftmem_bench::{
    protocol::{
        Bench, Event, Method, Sizes, ablations, budget_k, evaluate_methods, probe_curves, write_ablations,
        write_budget_k, write_main, write_probes,
    },
    suite::{AlfworldSuite, Suite, Wanted, execute_all},
    systems::SystemName,
};
use upliftmem_core::{Purpose, Task};
use upliftmem_engine::Strategy;
use upliftmem_scorer::embedder::HashEmbedder;

const SIZES: Sizes = Sizes {
    seed: 60,
    runtime: 100,
    warm_up: 30,
    evaluation: Some(12),
};

/// The suite, read once, or none with a line that says why.
fn suite() -> Option<Arc<AlfworldSuite>> {
    static SUITE: OnceLock<Option<Arc<AlfworldSuite>>> = OnceLock::new();
    SUITE
        .get_or_init(|| {
            let folder = PathBuf::from(std::env::var_os("UPLIFTMEM_BENCH_DIR")?).join("alfworld");
            let archive = folder.join("games.tar.xz");
            let collection = if archive.exists() { archive } else { folder };
            Some(Arc::new(AlfworldSuite::load(&collection, &SIZES).unwrap()))
        })
        .clone()
        .or_else(|| {
            eprintln!("skipped: UPLIFTMEM_BENCH_DIR does not name a folder with the games in `alfworld`");
            None
        })
}

/// Share of tasks solved with these memories, over a few seeds.
async fn success(suite: &AlfworldSuite, tasks: &[Task], memories: &[&str]) -> f64 {
    let wanted: Vec<Wanted> = (0..4)
        .flat_map(|seed| tasks.iter().map(move |task| (seed, task)))
        .map(|(seed, task)| Wanted {
            task: task.clone(),
            memories: memories.iter().map(|&text| text.to_owned()).collect(),
            seed,
            purpose: Purpose::Evaluation,
        })
        .collect();
    let count = wanted.len() as f64;
    let ended = execute_all(&suite.executor(), wanted, &|_| ()).await.unwrap();
    ended
        .iter()
        .map(|execution| execution.performance.get())
        .sum::<f64>()
        / count
}

fn tasks_with(suite: &AlfworldSuite, words: &str) -> Vec<Task> {
    let all = suite.seed_tasks().iter().chain(suite.runtime_tasks());
    all.filter(|task| task.context.contains(words)).cloned().collect()
}

#[tokio::test]
async fn alone_the_player_solves_a_part_of_the_tasks() {
    let Some(suite) = suite() else { return };
    let all: Vec<Task> = [suite.seed_tasks(), suite.runtime_tasks()].concat();
    let alone = success(&suite, &all, &[]).await;
    assert!((0.3..0.65).contains(&alone), "{alone}");
}

#[tokio::test]
async fn what_a_memory_says_is_done_right_or_wrong() {
    let Some(suite) = suite() else { return };
    let hot = [tasks_with(&suite, "put a hot "), tasks_with(&suite, "heat some ")].concat();
    assert!(hot.len() >= 8, "{}", hot.len());
    let alone = success(&suite, &hot, &[]).await;
    let told = success(
        &suite,
        &hot,
        &["Heat the thing with the microwave before you put it away."],
    )
    .await;
    let misled = success(
        &suite,
        &hot,
        &["Plates are usually in or on the cabinet. Pens are usually in or on the drawer."],
    )
    .await;
    assert!(told > alone, "{told} with the way to heat, {alone} without");
    assert!(misled < alone, "{misled} misled, {alone} alone");
    let two = [tasks_with(&suite, "put two "), tasks_with(&suite, "find two ")].concat();
    let stops: Vec<String> = two
        .iter()
        .filter_map(|task| task.context.split_whitespace().nth(2))
        .map(|thing| format!("Once the {thing} is in the place the task is done, so stop there."))
        .collect();
    let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
    assert_eq!(
        success(&suite, &two, &stops).await,
        0.0,
        "it stops after the first of two"
    );
}

#[tokio::test]
async fn a_play_depends_on_the_game_the_texts_and_the_seed_alone() {
    let Some(suite) = suite() else { return };
    let wanted = |seed| {
        vec![Wanted {
            task: suite.seed_tasks()[0].clone(),
            memories: vec!["Mugs are usually in or on the desk.".into()],
            seed,
            purpose: Purpose::Evaluation,
        }]
    };
    let executor = suite.executor();
    let play = async |seed| execute_all(&executor, wanted(seed), &|_| ()).await.unwrap();
    assert_eq!(play(1).await, play(1).await);
    let mut differs = false;
    for seed in 2..8 {
        differs |= play(seed).await != play(1).await;
    }
    assert!(differs, "lots are drawn from the seed");
}

#[tokio::test]
async fn parts_do_not_overlap() {
    let Some(suite) = suite() else { return };
    assert_eq!((suite.seed_tasks().len(), suite.runtime_tasks().len()), (60, 100));
    let play = |task: &Task| task.name.split_once('/').unwrap().1.to_owned();
    let mut names: Vec<String> = suite
        .seed_tasks()
        .iter()
        .chain(suite.runtime_tasks())
        .chain(suite.validation_tasks())
        .chain(suite.evaluation().iter().flat_map(|part| &part.tasks))
        .map(play)
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(suite.validation_tasks().len() > 150);
}

/// A bench in a folder, and how many executions it has asked for.
fn bench(suite: &Arc<AlfworldSuite>, folder: &Path) -> (Bench, Arc<AtomicUsize>) {
    let mut bench = Bench::new(
        Arc::clone(suite) as Arc<dyn Suite>,
        Arc::new(HashEmbedder::default()),
        SIZES,
        folder.to_owned(),
    );
    bench.runs = 2;
    let executed = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&executed);
    bench.on_event = Arc::new(move |event| {
        if let Event::Executed(count) = event {
            counted.fetch_add(count, Ordering::Relaxed);
        }
    });
    (bench, executed)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_is_evaluated_once_and_the_same_every_time() {
    let Some(suite) = suite() else { return };
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (here, executed) = bench(&suite, first.path());
    let scores = evaluate_methods(&here, &Method::all(here.suite.as_ref()))
        .await
        .unwrap();
    assert_eq!(scores.len(), Method::all(here.suite.as_ref()).len());
    for method in &scores {
        assert_eq!(method.parts["seen"].outcomes.len(), 2);
        assert_eq!(method.parts["unseen"].outcomes[0].len(), 12);
        let given = &method.parts["seen"].sizes;
        assert!(given.iter().all(|size| *size <= 5));
        assert_eq!(
            method.method == "ReAct",
            given.iter().all(|size| *size == 0) && method.store == 0
        );
    }
    let table = std::fs::read_to_string(write_main(&here, &scores).unwrap()).unwrap();
    assert!(
        table.contains("| UpliftMem |") && table.contains("| A-MEM |"),
        "{table}"
    );
    assert!(executed.load(Ordering::Relaxed) > 500);
    // What is done is not done again.
    let (again, executed) = bench(&suite, first.path());
    assert_eq!(
        evaluate_methods(&again, &Method::all(again.suite.as_ref()))
            .await
            .unwrap(),
        scores
    );
    assert_eq!(executed.load(Ordering::Relaxed), 0);
    // Elsewhere, all is the same.
    let (elsewhere, _) = bench(&suite, second.path());
    let some = [Method::System(SystemName::MemRl), Method::Uplift];
    let others = evaluate_methods(&elsewhere, &some).await.unwrap();
    for other in others {
        assert_eq!(scores.iter().find(|own| own.method == other.method), Some(&other));
    }
}

#[tokio::test]
async fn probes_need_tasks_that_warm_up_leaves() {
    let Some(suite) = suite() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (mut bench, executed) = bench(&suite, folder.path());
    bench.sizes.warm_up = suite.runtime_tasks().len();
    let refused = probe_curves(&bench, &[Strategy::Evsi], &[10], 1).await;
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("none is left to probe"), "{message}");
    assert_eq!(executed.load(Ordering::Relaxed), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ablations_probes_and_budgets_leave_tables_and_figures() {
    let Some(suite) = suite() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (bench, _) = bench(&suite, folder.path());
    let scores = ablations(&bench).await.unwrap();
    write_ablations(&bench, &scores).unwrap();
    let strategies = [Strategy::Evsi, Strategy::Random, Strategy::Ordinary];
    let curves = probe_curves(&bench, &strategies, &[10, 20], 2).await.unwrap();
    for curve in &curves {
        let points = &curve.points;
        assert_eq!(
            points.iter().map(|point| point.budget).collect::<Vec<_>>(),
            [0, 10, 20]
        );
        assert_eq!(
            points[0].success, curves[0].points[0].success,
            "all start from one checkpoint"
        );
        assert!(
            points
                .windows(2)
                .all(|pair| pair[1].cumulative >= pair[0].cumulative)
        );
    }
    assert_eq!(curves[1].points[2].over_random.unwrap().0, 0.0);
    write_probes(&bench, &curves, 2).unwrap();
    let rows = budget_k(&bench, &[2, 5]).await.unwrap();
    assert_eq!(rows.len(), 10);
    assert!(rows.iter().all(|row| {
        row.uplift.parts["seen"]
            .sizes
            .iter()
            .all(|size| *size <= row.count)
    }));
    write_budget_k(&bench, &rows).unwrap();
    for name in [
        "ablations.md",
        "ablations.csv",
        "ablations.tex",
        "probes-success.svg",
        "probes-cumulative.md",
        "stores.md",
        "gains.svg",
        "budget-k-unseen.svg",
        "manifest.json",
        "traces/full-k5-seen.jsonl",
        "traces/mem0-fixed-k2-unseen.jsonl",
    ] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}
