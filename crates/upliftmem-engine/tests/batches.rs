//! Batches of probes that are bought outside a training run.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{MemorySet, RetrievalPath, Task, TaskId, WindowEntry};
use upliftmem_engine::{
    Buyer, Error, Labelled, Plan, ProbeSettings, Scene, Strategy, active_scorer, labels_of, plan,
    scorer_label,
};
use upliftmem_scorer::CompactSettings;
use upliftmem_store::SqlitePlace;

use support::{Mood, fill, open, scope, settings, tasks, trainer};

const PROBES: usize = 8;

struct Bench {
    store: Arc<dyn upliftmem_store::Store>,
    mood: Arc<Mood>,
    tasks: BTreeMap<TaskId, Task>,
}

impl Bench {
    async fn new() -> Self {
        let store = open(SqlitePlace::Memory).await;
        fill(&store).await;
        Self {
            store,
            mood: Arc::default(),
            tasks: tasks("probe", 12)
                .into_iter()
                .map(|task| (task.id, task))
                .collect(),
        }
    }

    fn buyer(&self) -> Buyer {
        Buyer::new(trainer(&self.store, &self.mood, settings()).rollouts)
    }

    async fn labels(&self) -> usize {
        let all = labels_of(self.store.as_ref(), &scope()).await.unwrap();
        all.values()
            .flatten()
            .filter(|label| matches!(label, Labelled::Observation(_)))
            .count()
    }

    /// A batch for all tasks, and the name of the scorer that planned it.
    async fn plan(&self) -> (Plan, String) {
        let rollouts = trainer(&self.store, &self.mood, settings()).rollouts;
        let retrieval = settings().retrieval;
        let compact = CompactSettings::default().into();
        let scorer = active_scorer(&self.store, &scope(), &rollouts.texts, &compact, &[])
            .await
            .unwrap();
        let list: Vec<Task> = self.tasks.values().cloned().collect();
        let mut scenes = Vec::new();
        for task in rollouts.texts.tasks(&list).await.unwrap() {
            let offer = rollouts.texts.recall(&task, &retrieval).await.unwrap();
            let path = RetrievalPath {
                steps: Vec::new(),
                terminal: MemorySet::EMPTY,
            };
            scenes.push(Scene {
                entry: WindowEntry::of_path(task.task.id, offer.pool, &path, retrieval.limits()),
                task,
                memories: offer.ranked,
            });
        }
        let probes = ProbeSettings {
            strategy: Strategy::Random,
            ..ProbeSettings::default()
        };
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let plan = plan(scorer.as_ref(), &scenes, &retrieval, &probes, PROBES, &mut rng).unwrap();
        (plan, scorer_label(&scorer))
    }
}

#[tokio::test]
async fn a_batch_is_executed_against_references_and_learned_from() {
    let bench = Bench::new().await;
    let (plan, scorer) = bench.plan().await;
    let bought = bench
        .buyer()
        .buy(&plan, Strategy::Random, scorer, &bench.tasks, &|_| {})
        .await
        .unwrap();
    assert_eq!(bought.len(), PROBES);
    assert!(bought.iter().all(|probe| probe.uplift.is_some()), "{bought:?}");
    let probed: BTreeSet<TaskId> = bought.iter().map(|probe| probe.task).collect();
    let paid = bench.mood.executed.load(Ordering::SeqCst);
    assert_eq!(paid, (PROBES + probed.len()) as u64, "one reference a task");
    assert_eq!(bench.labels().await, PROBES);
    assert_eq!(
        bench.buyer().go_on(&|_| {}).await.unwrap(),
        None,
        "nothing is left"
    );
}

#[tokio::test]
async fn a_batch_that_was_stopped_is_finished_and_nothing_is_paid_for_twice() {
    for stops_after in 1..16 {
        let bench = Bench::new().await;
        let (plan, scorer) = bench.plan().await;
        bench.mood.stops_after.store(stops_after, Ordering::SeqCst);
        let stopped = bench
            .buyer()
            .buy(&plan, Strategy::Random, scorer, &bench.tasks, &|_| {})
            .await;
        bench.mood.stops_after.store(0, Ordering::SeqCst);
        let probed: BTreeSet<TaskId> = plan.chosen.iter().map(|chosen| chosen.task).collect();
        let all = (PROBES + probed.len()) as u64;
        if stops_after < all {
            assert!(matches!(stopped, Err(Error::Executor { .. })), "{stopped:?}");
            let finished = bench.buyer().go_on(&|_| {}).await.unwrap().unwrap();
            assert_eq!(finished.len(), PROBES);
            assert!(finished.iter().all(|probe| probe.uplift.is_some()));
        }
        assert_eq!(bench.mood.executed.load(Ordering::SeqCst), all, "{stops_after}");
        assert_eq!(bench.labels().await, PROBES);
    }
}

#[tokio::test]
async fn a_probe_without_a_reference_is_no_label_and_is_not_asked_for_again() {
    let bench = Bench::new().await;
    let (plan, scorer) = bench.plan().await;
    bench.mood.fails_every.store(2, Ordering::SeqCst);
    let bought = bench
        .buyer()
        .buy(&plan, Strategy::Random, scorer, &bench.tasks, &|_| {})
        .await
        .unwrap();
    let labelled = bought.iter().filter(|probe| probe.uplift.is_some()).count();
    assert!(0 < labelled && labelled < PROBES, "{bought:?}");
    assert!(
        bought
            .iter()
            .all(|probe| probe.uplift.is_some() != probe.failed.is_some()),
        "{bought:?}"
    );
    assert_eq!(bench.labels().await, labelled);
    let paid = bench.mood.executed.load(Ordering::SeqCst);
    assert_eq!(
        bench.buyer().go_on(&|_| {}).await.unwrap(),
        None,
        "nothing can be finished"
    );
    assert_eq!(bench.mood.executed.load(Ordering::SeqCst), paid);
}
