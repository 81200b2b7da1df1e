//! The paper's evaluation on WebShop with the scripted customer, small.
//!
//! Needs the data: a folder `UPLIFTMEM_BENCH_DIR` with the catalogue in `webshop/`. Without it every test says so and passes.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use upliftmem_bench::{
    protocol::{
        Bench, Method, Sizes, ablations, evaluate_methods, probe_curves, write_ablations, write_main,
        write_probes,
    },
    suite::{Experience, Suite, Wanted, WebshopSuite, execute_all},
    systems::{Sources, SystemName, lesson_pool},
};
use upliftmem_core::{Purpose, Task};
use upliftmem_engine::Strategy;
use upliftmem_scorer::embedder::{Embedder, HashEmbedder};

const SIZES: Sizes = Sizes {
    seed: 200,
    runtime: 200,
    warm_up: 60,
    evaluation: Some(20),
};

/// The suite, read once, or none with a line that says why.
fn suite() -> Option<Arc<WebshopSuite>> {
    static SUITE: OnceLock<Option<Arc<WebshopSuite>>> = OnceLock::new();
    SUITE
        .get_or_init(|| {
            let folder = PathBuf::from(std::env::var_os("UPLIFTMEM_BENCH_DIR")?).join("webshop");
            Some(Arc::new(WebshopSuite::load(&folder, &SIZES).unwrap()))
        })
        .clone()
        .or_else(|| {
            eprintln!("skipped: UPLIFTMEM_BENCH_DIR does not name a folder with the catalogue in `webshop`");
            None
        })
}

/// What came of tasks with these memories, over a few seeds.
async fn executed(suite: &WebshopSuite, tasks: &[Task], memories: &[&str]) -> Vec<Experience> {
    // Every execution draws its own lots: few seeds for many tasks would be few customers.
    let wanted: Vec<Wanted> = (0..4)
        .flat_map(|_| tasks)
        .zip(0..)
        .map(|(task, seed)| Wanted {
            task: task.clone(),
            memories: memories.iter().map(|&text| text.to_owned()).collect(),
            seed,
            purpose: Purpose::Evaluation,
        })
        .collect();
    let named: Vec<Task> = wanted.iter().map(|wanted| wanted.task.clone()).collect();
    let ended = execute_all(&suite.executor(), wanted, &|_| ()).await.unwrap();
    let lived = named
        .into_iter()
        .zip(ended)
        .map(|(task, execution)| Experience { task, execution });
    lived.collect()
}

async fn success(suite: &WebshopSuite, tasks: &[Task], memories: &[&str]) -> f64 {
    let ended = executed(suite, tasks, memories).await;
    ended.iter().filter(|ended| ended.succeeded()).count() as f64 / ended.len() as f64
}

#[tokio::test]
async fn alone_the_customer_is_right_in_a_part_of_the_tasks() {
    let Some(suite) = suite() else { return };
    let all = executed(&suite, suite.seed_tasks(), &[]).await;
    let right = all.iter().filter(|ended| ended.succeeded()).count() as f64 / all.len() as f64;
    let bought = all.iter().filter(|ended| {
        let last = ended.execution.trajectory.last();
        last.is_some_and(|step| step.action == "click[buy now]")
    });
    let bought = bought.count() as f64 / all.len() as f64;
    eprintln!(
        "alone {:.1} % are right, {:.1} % bought",
        100.0 * right,
        100.0 * bought
    );
    assert!(bought > 0.97, "something is bought in time: {bought}");
    assert!((0.3..0.65).contains(&right), "{right}");
}

#[tokio::test]
async fn what_a_memory_says_is_done_right_or_wrong() {
    let Some(suite) = suite() else { return };
    let tasks = suite.seed_tasks();
    let alone = success(&suite, tasks, &[]).await;
    for (text, helps) in [
        ("If nothing fits, search again.", true),
        ("Do not read the description.", true),
        ("Search for the features only.", false),
        ("Buy the first product.", false),
        ("Open the cheapest product first.", false),
    ] {
        let told = success(&suite, tasks, &[text]).await;
        eprintln!("{text:45} {:5.1} % after {:5.1} %", 100.0 * told, 100.0 * alone);
        assert_eq!(told > alone, helps, "{text} {told} {alone}");
    }
    // What is right for one kind of product is wrong for another.
    let of = |kind: &str| -> Vec<Task> {
        let all = suite.seed_tasks().iter().chain(suite.runtime_tasks());
        all.filter(|task| task.context.contains(kind)).cloned().collect()
    };
    let (kind, features) = ("Search for the kind only.", "Search for the features only.");
    let (loafers, shirts) = (of("men's loafers & slip-ons"), of("men's dress shirts"));
    assert!(
        loafers.len() > 10 && shirts.len() > 10,
        "{} {}",
        loafers.len(),
        shirts.len()
    );
    assert!(success(&suite, &loafers, &[kind]).await > success(&suite, &loafers, &[features]).await);
    assert!(success(&suite, &shirts, &[kind]).await < success(&suite, &shirts, &[features]).await);
}

#[tokio::test]
async fn a_purchase_depends_on_the_goal_the_texts_and_the_seed_alone() {
    let Some(suite) = suite() else { return };
    let tasks = &suite.seed_tasks()[..10];
    let texts = ["Search for the kind only."];
    assert_eq!(
        executed(&suite, tasks, &texts).await,
        executed(&suite, tasks, &texts).await
    );
    let told = executed(&suite, tasks, &texts).await;
    assert_ne!(told[..10], told[10..20], "lots are drawn from the seed");
}

#[tokio::test]
async fn memories_name_no_product_and_no_price_and_help_or_hurt() {
    let Some(suite) = suite() else { return };
    let seen = executed(&suite, suite.seed_tasks(), &[]).await;
    let embedder: Arc<dyn Embedder> = Arc::new(HashEmbedder::default());
    let pool = lesson_pool(Sources {
        suite: suite.as_ref(),
        steps: None,
        embedder: &embedder,
        experiences: &seen,
    });
    assert!(pool.len() > 100, "{}", pool.len());
    let opened: Vec<&str> = seen
        .iter()
        .flat_map(|seen| &seen.execution.trajectory)
        .filter_map(|step| step.action.strip_prefix("click[b0"))
        .collect();
    for text in &pool {
        let lower = text.to_lowercase();
        assert!(!lower.contains('$') && !lower.contains('['), "{text}");
        assert!(
            !opened.iter().any(|id| lower.contains(id.trim_end_matches(']'))),
            "{text}"
        );
    }
    // Single memories, each on some tasks of any kind.
    let tasks = &suite.runtime_tasks()[..40];
    let alone = success(&suite, tasks, &[]).await;
    let (mut helpful, mut harmful) = (0, 0);
    for text in pool.iter().step_by(pool.len() / 60) {
        let told = success(&suite, tasks, &[text]).await;
        helpful += usize::from(told > alone + 0.02);
        harmful += usize::from(told < alone - 0.02);
    }
    eprintln!(
        "{} memories, {helpful} of 60 help anywhere, {harmful} hurt",
        pool.len()
    );
    assert!(helpful >= 12 && harmful >= 12, "{helpful} help, {harmful} hurt");
}

#[tokio::test]
async fn parts_do_not_overlap() {
    let Some(suite) = suite() else { return };
    let mut names: Vec<&str> = suite
        .seed_tasks()
        .iter()
        .chain(suite.runtime_tasks())
        .chain(suite.validation_tasks())
        .chain(suite.evaluation().iter().flat_map(|part| &part.tasks))
        .map(|task| task.name.as_str())
        .collect();
    let count = names.len();
    assert_eq!(count, 200 + 200 + 200 + 20);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_ablations_and_probes_leave_tables_with_rewards() {
    let Some(suite) = suite() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(
        Arc::clone(&suite) as Arc<dyn Suite>,
        Arc::new(HashEmbedder::default()),
        SIZES,
        folder.path().to_owned(),
    );
    bench.runs = 2;
    let methods = [SystemName::React, SystemName::Mem0].map(Method::System);
    let methods = [&methods[..], &[Method::Uplift]].concat();
    let scores = evaluate_methods(&bench, &methods).await.unwrap();
    for method in &scores {
        let part = &method.parts["test"];
        assert!(part.reward().unwrap().mean >= part.success().unwrap().mean);
        assert!(part.steps().unwrap().mean <= 15.0);
    }
    let table = std::fs::read_to_string(write_main(&bench, &scores).unwrap()).unwrap();
    assert!(table.contains("test reward"), "{table}");
    write_ablations(&bench, &ablations(&bench).await.unwrap()).unwrap();
    let curves = probe_curves(&bench, &[Strategy::Evsi, Strategy::Random], &[10], 1)
        .await
        .unwrap();
    write_probes(&bench, &curves, 1).unwrap();
    for name in [
        "ablations.md",
        "probes-reward.svg",
        "probes-reward.md",
        "manifest.json",
    ] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
    let manifest = std::fs::read_to_string(folder.path().join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["code"].as_str().map(str::len), Some(32));
    // The suite's own cost of a memory, not the scorer's default.
    assert_eq!(
        manifest["made_from"]["scorer"]["member_cost"],
        suite.member_cost()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_is_validated_and_joins_the_pool() {
    let Some(suite) = suite() else { return };
    let trained = async |writes: bool| {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = Bench::new(
            Arc::clone(&suite) as Arc<dyn Suite>,
            Arc::new(HashEmbedder::default()),
            SIZES,
            folder.path().to_owned(),
        );
        bench.runs = 1;
        bench.writes = writes;
        evaluate_methods(&bench, &[Method::Uplift])
            .await
            .unwrap()
            .remove(0)
    };
    let (plain, written) = (trained(false).await, trained(true).await);
    assert!(written.store > plain.store, "{} {}", written.store, plain.store);
    assert!(written.executions > plain.executions, "every version is executed");
}
