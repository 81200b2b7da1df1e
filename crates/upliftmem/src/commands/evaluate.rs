//! `eval`: methods side by side on held-out tasks.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_bench::baselines::SharedCredit;
use upliftmem_core::{MemoryId, MemorySet, SearchSpace, Task, TaskId};
use upliftmem_engine::{
    Arm, BelievingScorer, Detail, Evaluation, KnownTask, Labelled, Offer, RetrievalSettings, Seeds, Texts,
    beam, evaluate, search,
};
use upliftmem_scorer::SetScorer;
use upliftmem_store::RecallMode;

use super::train::tasks_of;
use crate::{context::Context, output::Table, progress::Show};

/// Every method, in the order of the table.
pub(crate) const METHODS: [&str; 6] = ["none", "random", "bm25", "dense", "per-memory", "uplift"];

#[derive(Debug, Args)]
pub(crate) struct EvalArguments {
    /// The held-out tasks: a JSON Lines file [default: the world's test tasks].
    #[arg(long, value_name = "FILE")]
    tasks: Option<PathBuf>,
    /// The methods to compare.
    #[arg(long, value_delimiter = ',', default_values_t = METHODS.map(String::from))]
    methods: Vec<String>,
    /// Times each task is executed with each method.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Use only so many tasks.
    #[arg(long)]
    limit: Option<usize>,
    /// Also write what each method did on each task to this file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    details: Option<PathBuf>,
}

pub(crate) async fn eval(context: &Context, arguments: EvalArguments) -> Result<()> {
    let mut tasks = tasks_of(&context.config, arguments.tasks.as_ref(), true)?;
    if let Some(limit) = arguments.limit {
        tasks.truncate(limit);
    }
    let scorer = context.scorer().await?;
    let mut methods = arguments.methods;
    // What the others are compared with comes first.
    methods.retain(|method| method != "none");
    methods.insert(0, "none".into());
    let labels = context.labels().await?;
    let held_out = HeldOut::new(&context.texts, &context.config.retrieval, &tasks).await?;
    let arms = methods
        .iter()
        .map(|method| match method.as_str() {
            "uplift" => held_out.searched(method, scorer.as_ref()),
            other => held_out.baseline(other, &labels, context.config.training.seed),
        })
        .collect::<Result<Vec<Arm>>>()?;
    context.store.put_tasks(&context.scope, tasks.clone()).await?;
    let rollouts = context.rollouts(context.executor()?)?;
    let seeds = Seeds::new("evaluation", context.config.training.seed);
    // Nothing is executed before it is sure that the file can be written.
    let details = arguments.details.as_deref().map(Details::create).transpose()?;
    let show = Show::new(context.output);
    let evaluation = evaluate(&rollouts, &seeds, &tasks, &arms, arguments.runs, &|progress| {
        show.take(progress);
    })
    .await?;
    show.finish();
    if let Some(details) = details {
        details.write(&evaluation.details)?;
    }
    context.output.result(&evaluation, || table(&evaluation))
}

/// A file that gets a line for each method and task.
pub(crate) struct Details<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Details<'a> {
    pub(crate) fn create(path: &'a Path) -> Result<Self> {
        // What is there stays until there is something better.
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = file.with_context(|| format!("{} can not be written", path.display()))?;
        Ok(Self { path, file })
    }

    pub(crate) fn write(self, details: &[Detail]) -> Result<()> {
        let mut file = BufWriter::new(self.file);
        let mut write = || -> std::io::Result<()> {
            file.get_ref().set_len(0)?;
            for detail in details {
                serde_json::to_writer(&mut file, detail)?;
                writeln!(file)?;
            }
            file.flush()
        };
        write().with_context(|| format!("{} can not be written", self.path.display()))
    }
}

/// Held-out tasks with what each way of recall offers them.
pub(crate) struct HeldOut {
    tasks: Vec<Arc<KnownTask>>,
    offers: BTreeMap<&'static str, Vec<Offer>>,
    settings: RetrievalSettings,
}

impl HeldOut {
    pub(crate) async fn new(texts: &Texts, settings: &RetrievalSettings, tasks: &[Task]) -> Result<Self> {
        let tasks = texts.tasks(tasks).await?;
        let mut offers: BTreeMap<&'static str, Vec<Offer>> = BTreeMap::new();
        for (name, recall) in [
            ("hybrid", settings.recall),
            ("bm25", RecallMode::Lexical),
            ("dense", RecallMode::Dense),
        ] {
            let settings = RetrievalSettings {
                recall,
                ..settings.clone()
            };
            let mut found = Vec::with_capacity(tasks.len());
            for task in &tasks {
                found.push(texts.recall(task, &settings).await?);
            }
            offers.insert(name, found);
        }
        Ok(Self {
            tasks,
            offers,
            settings: settings.clone(),
        })
    }

    fn arm(
        &self,
        name: &str,
        mut choose: impl FnMut(usize) -> Result<(MemorySet, Option<f64>)>,
    ) -> Result<Arm> {
        let mut arm = Arm {
            name: name.to_owned(),
            sets: BTreeMap::new(),
            predicted: BTreeMap::new(),
        };
        for (place, task) in self.tasks.iter().enumerate() {
            let (set, predicted) = choose(place)?;
            arm.sets.insert(task.task.id, set);
            if let Some(predicted) = predicted {
                arm.predicted.insert(task.task.id, predicted);
            }
        }
        Ok(arm)
    }

    /// The sets that retrieval returns with a scorer.
    pub(crate) fn searched(&self, name: &str, scorer: &dyn BelievingScorer) -> Result<Arm> {
        self.arm(name, |place| {
            let (offer, task) = (&self.offers["hybrid"][place], self.tasks[place].input());
            let best = search(scorer, task, &offer.inputs(), &offer.pool, &self.settings, None)?.best;
            Ok((best.set, Some(best.value)))
        })
    }

    /// The sets that a scorer without a belief finds.
    pub(crate) fn beamed(&self, name: &str, scorer: &dyn SetScorer) -> Result<Arm> {
        self.arm(name, |place| {
            let offer = &self.offers["hybrid"][place];
            let bound = scorer.bind(self.tasks[place].input(), &offer.inputs())?;
            let best = beam(bound.as_ref(), &offer.pool, &self.settings, None)?.best;
            Ok((best.set, Some(best.value)))
        })
    }

    /// The sets of a method that does not learn sets.
    pub(crate) fn baseline(&self, name: &str, labels: &[Labelled], seed: u64) -> Result<Arm> {
        let ranked = |kind: &str, place: usize| -> Vec<MemoryId> {
            self.offers[kind][place]
                .ranked
                .iter()
                .map(|memory| memory.id)
                .collect()
        };
        let most = self.settings.memories_max;
        let within = |place: usize, kind: &str, ids: Vec<MemoryId>| {
            let space = SearchSpace::new(&self.offers[kind][place].pool, self.settings.limits());
            let mut set = MemorySet::EMPTY;
            for id in ids {
                if space.check(&set.with(id)).is_ok() {
                    set = set.with(id);
                }
            }
            set
        };
        match name {
            "none" => self.arm(name, |_| Ok((MemorySet::EMPTY, None))),
            "random" => {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                self.arm(name, |place| {
                    let ids = ranked("hybrid", place);
                    let picks = (0..most.min(ids.len())).map(|_| ids[rng.random_range(0..ids.len())]);
                    let picks: Vec<MemoryId> = picks.collect();
                    Ok((within(place, "hybrid", picks), None))
                })
            }
            "bm25" | "dense" => self.arm(name, |place| {
                let mut ids = ranked(name, place);
                ids.truncate(most);
                Ok((within(place, name, ids), None))
            }),
            "per-memory" => {
                let mut credit = SharedCredit::default();
                for label in labels {
                    if let Labelled::Observation(seen) = label {
                        credit.observe(&seen.set, seen.uplift);
                    }
                }
                self.arm(name, |place| Ok((credit.choose(&ranked("hybrid", place)), None)))
            }
            other => bail!("{other:?} is not a method\n  methods: {}", METHODS.join(", ")),
        }
    }

    /// Where a task is.
    pub(crate) fn position(&self, id: TaskId) -> Option<usize> {
        self.tasks.iter().position(|task| task.task.id == id)
    }

    /// The candidates of the task at a place.
    pub(crate) fn candidates(&self, place: usize) -> Vec<MemoryId> {
        let offer = &self.offers["hybrid"][place];
        offer
            .pool
            .candidates()
            .iter()
            .map(|candidate| candidate.id)
            .collect()
    }
}

/// The comparison as a table.
pub(crate) fn table(evaluation: &Evaluation) -> String {
    let mut table = Table::new(&[
        "method", "success", "utility", "uplift", "95 %", "harmed", "none", "size",
    ]);
    for arm in &evaluation.arms {
        let interval = arm.interval.map_or_else(String::new, |interval| {
            format!("[{:+.2},{:+.2}]", interval.low, interval.high)
        });
        table.row(vec![
            arm.name.clone(),
            format!("{:.0} %", 100.0 * arm.performance),
            match arm.deviation {
                Some(deviation) => format!("{:.2} ±{deviation:.2}", arm.utility),
                None => format!("{:.2}", arm.utility),
            },
            format!("{:+.2}", arm.uplift),
            interval,
            format!("{:.0} %", 100.0 * arm.harmed),
            format!("{:.0} %", 100.0 * arm.abstained),
            format!("{:.1}", arm.memories),
        ]);
    }
    let mut text = format!(
        "{}\n{} tasks, {} runs, {} executions. Uplift: over no memory, paired by task.\n\
         Harmed: tasks that did worse than without. None: tasks that got no memory.",
        table.text(),
        evaluation.tasks,
        evaluation.runs,
        evaluation.executions
    );
    let shares: Vec<String> = evaluation
        .arms
        .iter()
        .skip(1)
        .filter(|arm| arm.abstained > 0.0)
        .filter_map(|arm| Some(format!("  {:.0} % by {}\n", 100.0 * arm.left_alone?, arm.name)))
        .collect();
    if !shares.is_empty() {
        text += &format!(
            "\nOf the {} tasks that succeed without memory, left alone:\n{}",
            evaluation.solved_alone,
            shares.concat().trim_end()
        );
    }
    text
}
