//! UpliftMem on a store of texts: trained by the engine, searched by its beam.

use std::{fs, sync::Arc};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use upliftmem_core::{MemoryId, Task};
use upliftmem_engine::{
    BelievingScorer, EngineSettings, KnownTask, Offer, Progress, RetrievalSettings, Rollouts, Strategy,
    Texts, Trainer, Writing, WritingSettings, search as search_best,
};
use upliftmem_store::{
    MemoryFilter, MemoryStatus, NewMemory, Scope, ScopeParts, SqlitePlace, Store, StoreLimits, Timestamp,
    open_sqlite,
};

use super::{Bench, Error, Event, Pool, Result, writer::LessonWriter};

/// What part of the method is left out. Paper: sec. ablation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Nothing.
    Full,
    /// Warm-up only: no stream, no probes.
    WarmUp,
    /// The same number of probes, by lot.
    RandomProbes,
    /// No probes.
    NoProbes,
}

impl Variant {
    /// The name in files.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::WarmUp => "warm-up",
            Self::RandomProbes => "random-probes",
            Self::NoProbes => "no-probes",
        }
    }

    fn settings(self, mut settings: EngineSettings) -> EngineSettings {
        match self {
            Self::Full => {}
            Self::WarmUp => settings.training.epochs = 0,
            Self::RandomProbes => settings.acquisition.strategy = Strategy::Random,
            Self::NoProbes => settings.acquisition.strategy = Strategy::None,
        }
        settings
    }
}

/// A trained UpliftMem.
pub struct UpliftRun {
    texts: Arc<Texts>,
    scorer: Arc<dyn BelievingScorer>,
    retrieval: RetrievalSettings,
    /// Executions that training took.
    pub executions: u64,
    /// Memories of the store.
    pub memories: usize,
}

/// A store of texts as the engine wants it.
pub(super) struct Place {
    pub(super) store: Arc<dyn Store>,
    pub(super) scope: Scope,
    pub(super) texts: Arc<Texts>,
}

impl Place {
    /// Opens the store of this name, or makes it from these texts.
    pub(super) async fn open(bench: &Bench, name: &str, pool: &Pool) -> Result<Self> {
        let folder = bench.folder.join("stores");
        fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
        let file = folder.join(format!("{name}-{}.db", bench.fingerprint()));
        let store = open_sqlite(SqlitePlace::File(file), StoreLimits::default()).await?;
        let scope = Scope::new(ScopeParts {
            agent_id: Some("bench".into()),
            ..ScopeParts::default()
        })?;
        let texts = Texts::new(Arc::clone(&store), scope.clone(), Arc::clone(&bench.embedder));
        let texts = Arc::new(texts.with_own_memories(pool.own_memories()));
        let last = store.last_memory(&scope).await?.map_or(0, MemoryId::as_u128);
        let missing: Vec<NewMemory> = (pool.texts.iter().enumerate())
            .map(|(place, text)| NewMemory::note(Pool::id(place), text))
            .filter(|new| new.memory.id.as_u128() > last)
            .collect();
        for batch in missing.chunks(store.limits().batch_items_max) {
            let batch = texts.with_vectors(batch.to_vec()).await?;
            store
                .add_memories(&scope, Timestamp::from_millis(1), batch)
                .await?;
        }
        Ok(Self { store, scope, texts })
    }

    /// How many memories can be recalled.
    async fn memories(&self) -> Result<usize> {
        let (mut count, mut after) = (0, None);
        loop {
            let filter = MemoryFilter {
                status: Some(MemoryStatus::Active),
                after,
            };
            let page = self.store.list_memories(&self.scope, filter, 1_000).await?;
            let Some(last) = page.last() else {
                return Ok(count);
            };
            count += page.len();
            after = Some(last.memory.id);
        }
    }

    pub(super) fn rollouts(&self, bench: &Bench) -> Result<Rollouts> {
        Ok(Rollouts {
            store: Arc::clone(&self.store),
            scope: self.scope.clone(),
            texts: Arc::clone(&self.texts),
            executor: bench.suite.executor(),
            settings: bench.engine.execution.clone(),
            utility: bench.engine.utility.rule()?,
        })
    }
}

impl UpliftRun {
    /// Trains on the suite's runtime tasks over a store of these texts, from wherever that stands.
    ///
    /// # Errors
    /// The engine or the store stopped; what was executed is kept.
    pub async fn train(bench: &Bench, store: &str, pool: &Pool, variant: Variant) -> Result<Self> {
        let name = format!("{store}-{}", variant.key());
        let place = Place::open(bench, &name, pool).await?;
        let runtime = bench.suite.runtime_tasks();
        let (seed_tasks, stream) = runtime.split_at(bench.sizes.warm_up.min(runtime.len()));
        let mut settings = variant.settings(bench.engine.clone());
        settings.training.seed = bench.seed;
        let trainer = Trainer {
            store: Arc::clone(&place.store),
            scope: place.scope.clone(),
            texts: Arc::clone(&place.texts),
            rollouts: place.rollouts(bench)?,
            settings,
            scorer: bench.compact.into(),
            run: name.clone(),
            seed_tasks: seed_tasks.to_vec(),
            stream: stream.to_vec(),
            writing: bench.writes.then(|| Writing {
                writer: match &bench.writer {
                    Some(writer) => Arc::clone(writer),
                    None => Arc::new(LessonWriter::new(Arc::clone(&bench.suite))),
                },
                settings: WritingSettings::default(),
            }),
        };
        let on_event = Arc::clone(&bench.on_event);
        let trained = trainer
            .train(&move |progress| match progress {
                Progress::Step { what, executions } => on_event(Event::Step {
                    what: format!("{name}: {what}"),
                    executions,
                }),
                Progress::Executed(count) => on_event(Event::Executed(count)),
                Progress::Stream { .. } | Progress::Learning { .. } | Progress::Updated { .. } => {}
            })
            .await?;
        let executions = trained.report.ledger.values().map(|line| line.executions).sum();
        Ok(Self {
            memories: place.memories().await?,
            texts: place.texts,
            scorer: trained.scorer,
            retrieval: bench.engine.retrieval.clone(),
            executions,
        })
    }

    /// What it gives each task: texts in the order in which they were written.
    ///
    /// # Errors
    /// The store or the scorer stopped.
    pub async fn choose(&self, tasks: &[Task], memories_max: usize) -> Result<Vec<Vec<String>>> {
        let retrieval = RetrievalSettings {
            memories_max,
            ..self.retrieval.clone()
        };
        choose(&self.texts, self.scorer.as_ref(), tasks, &retrieval).await
    }
}

/// The sets that a scorer's beam finds.
pub(super) async fn choose(
    texts: &Texts,
    scorer: &dyn BelievingScorer,
    tasks: &[Task],
    retrieval: &RetrievalSettings,
) -> Result<Vec<Vec<String>>> {
    let known = texts.tasks(tasks).await?;
    let mut offers = Vec::with_capacity(known.len());
    for task in &known {
        offers.push(texts.recall(task, retrieval).await?);
    }
    let search = |(task, offer): (&Arc<KnownTask>, &Offer)| -> Result<Vec<String>> {
        let best = search_best(
            scorer,
            task.input(),
            &offer.inputs(),
            &offer.pool,
            retrieval,
            None,
        )?
        .best;
        let text = |id: &MemoryId| offer.ranked.iter().find(|memory| memory.id == *id);
        Ok(best
            .set
            .iter()
            .filter_map(text)
            .map(|memory| memory.text.clone())
            .collect())
    };
    known.par_iter().zip(&offers).map(search).collect()
}
