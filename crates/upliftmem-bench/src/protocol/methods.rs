//! Methods side by side: the complete workflows, and the controlled comparison in fixed stores.

use std::collections::BTreeMap;

use upliftmem_core::Task;

use super::{
    Bench, Error, Event, Pool, Result,
    scores::MethodScores,
    uplift::{UpliftRun, Variant},
};
use crate::{
    suite::Suite,
    systems::{MemorySystem, Query, SystemName, build},
};

/// Tasks of the runtime stream that are executed before a system learns from them.
const TOGETHER: usize = 50;

/// A method of the main table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// A memory system with its own retrieval.
    System(SystemName),
    /// UpliftMem with its own pool.
    Uplift,
}

impl Method {
    /// All of a benchmark, in the order of the table.
    pub fn all(suite: &dyn Suite) -> Vec<Self> {
        let systems = SystemName::ALL.into_iter().filter(|name| match name {
            // A store of the controlled comparison, and no method of the paper's main table.
            SystemName::NaiveRag => suite.has_own_stores(),
            // Nothing is to be learned from what became of memories that no other task has.
            SystemName::MemP | SystemName::MemRl => !suite.has_own_stores(),
            _ => true,
        });
        systems.map(Self::System).chain([Self::Uplift]).collect()
    }

    /// The name in tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::System(name) => name.title(),
            Self::Uplift => "UpliftMem",
        }
    }
}

impl std::str::FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.eq_ignore_ascii_case("upliftmem") {
            return Ok(Self::Uplift);
        }
        Ok(Self::System(text.parse()?))
    }
}

/// Builds, trains and evaluates methods, each with its own store. Paper: tab. main_results.
///
/// Systems are built from plays of all seed and runtime tasks; those that learn are built from the seed tasks and then go
/// through the runtime tasks. UpliftMem has lessons of the seed tasks only, and trains on the runtime tasks.
///
/// # Errors
/// The first that stops; what was finished is kept.
pub async fn evaluate_methods(bench: &Bench, methods: &[Method]) -> Result<Vec<MethodScores>> {
    let mut all = Vec::with_capacity(methods.len());
    for &method in methods {
        let key = format!("main-{}", method.title().to_lowercase());
        if let Some(scores) = bench.recorded::<MethodScores>(&key)? {
            bench.tell(Event::Note(format!("{}: done before", method.title())));
            all.push(scores);
            continue;
        }
        let scores = match method {
            Method::System(name) => workflow(bench, name).await?,
            Method::Uplift => uplift(bench, Variant::Full, method.title()).await?,
        };
        bench.record(&key, &scores)?;
        bench.tell(Event::Note(line(bench, &scores)?));
        all.push(scores);
    }
    Ok(all)
}

/// One line of a result, for whoever waits.
pub(super) fn line(bench: &Bench, scores: &MethodScores) -> Result<String> {
    let mut text = format!("{:24}", scores.method);
    for (part, scores) in &scores.parts {
        text += &format!(
            "  {part} {:.1} %, {:.1} {}",
            scores.success()?.mean,
            scores.steps()?.mean,
            bench.suite.cost_unit()
        );
    }
    Ok(text)
}

/// A memory system as its authors use it.
async fn workflow(bench: &Bench, name: SystemName) -> Result<MethodScores> {
    let all = bench.experiences().await?;
    let seeds = bench.suite.seed_tasks().len();
    let mut system = build(name, bench.sources(&all[..seeds.min(all.len())])).await?;
    if system.learns() {
        go_through(bench, name, system.as_mut()).await?;
    } else if all.len() > seeds {
        system = build(name, bench.sources(all)).await?;
    }
    let executions = if name == SystemName::React {
        0
    } else {
        all.len() as u64
    };
    native(
        bench,
        name.title(),
        system.as_ref(),
        executions,
        bench.suite.memories_max(),
    )
    .await
}

/// The runtime tasks, one after the other: retrieve, execute, learn.
async fn go_through(bench: &Bench, name: SystemName, system: &mut dyn MemorySystem) -> Result<()> {
    let tasks = bench.suite.runtime_tasks();
    bench.tell(Event::Step {
        what: format!("{}: runtime", name.title()),
        executions: tasks.len(),
    });
    for tasks in tasks.chunks(TOGETHER) {
        let given = retrieve(bench, system, tasks, bench.suite.memories_max())?;
        let texts = texts_of(system, &given);
        let lived = bench.live("runtime", tasks, texts, 0).await?;
        for (given, experience) in given.iter().zip(&lived) {
            system.learn(given, experience, bench.sources(&[])).await?;
        }
    }
    Ok(())
}

fn retrieve(
    bench: &Bench,
    system: &dyn MemorySystem,
    tasks: &[Task],
    count: usize,
) -> Result<Vec<Vec<usize>>> {
    let vectors = bench.embed(tasks)?;
    let given = tasks.iter().zip(&vectors).map(|(task, embedding)| {
        let query = Query {
            task,
            embedding,
            seed: bench.execution_seed("lot", task, 0),
        };
        system.retrieve(&query, count)
    });
    Ok(given.collect())
}

fn texts_of(system: &dyn MemorySystem, given: &[Vec<usize>]) -> Vec<Vec<String>> {
    let texts = system.memories();
    given
        .iter()
        .map(|places| places.iter().map(|&place| texts[place].clone()).collect())
        .collect()
}

/// What the plays of a method on a part are called.
fn trace_name(title: &str, count: usize, part: &str) -> String {
    let words: Vec<&str> = title
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    format!("{}-k{count}-{part}", words.join("-").to_lowercase())
}

/// Scores of a system's own retrieval.
pub(super) async fn native(
    bench: &Bench,
    title: &str,
    system: &dyn MemorySystem,
    executions: u64,
    count: usize,
) -> Result<MethodScores> {
    let mut parts = BTreeMap::new();
    for part in bench.suite.evaluation() {
        let given = retrieve(bench, system, &part.tasks, count)?;
        let what = format!("{title}: {}", part.name);
        let scores = bench
            .score(
                &what,
                &part.tasks,
                &texts_of(system, &given),
                Some(&trace_name(title, count, &part.name)),
            )
            .await?;
        parts.insert(part.name.clone(), scores);
    }
    Ok(MethodScores {
        method: title.to_owned(),
        store: system.memories().len(),
        executions,
        parts,
    })
}

/// Scores of UpliftMem's retrieval.
pub(super) async fn searched(
    bench: &Bench,
    title: &str,
    run: &UpliftRun,
    count: usize,
) -> Result<MethodScores> {
    let mut parts = BTreeMap::new();
    for part in bench.suite.evaluation() {
        let memories = run.choose(&part.tasks, count).await?;
        let what = format!("{title}: {}", part.name);
        let name = trace_name(title, count, &part.name);
        let scores = bench.score(&what, &part.tasks, &memories, Some(&name)).await?;
        parts.insert(part.name.clone(), scores);
    }
    Ok(MethodScores {
        method: title.to_owned(),
        store: run.memories,
        executions: run.executions,
        parts,
    })
}

/// UpliftMem with the lessons of the seed tasks.
pub(super) async fn uplift(bench: &Bench, variant: Variant, title: &str) -> Result<MethodScores> {
    let pool = own_pool(bench).await?;
    let run = UpliftRun::train(bench, "lessons", &pool, variant).await?;
    searched(bench, title, &run, bench.suite.memories_max()).await
}

/// Lessons of the seed tasks, or of what every task brings along.
pub(super) async fn own_pool(bench: &Bench) -> Result<Pool> {
    let sources = bench.sources(bench.seed_experiences().await?);
    Ok(Pool::of(build(SystemName::DenseRag, sources).await?.as_ref()))
}

/// Native and UpliftMem's retrieval within the same stores, built from the seed tasks. Paper: app. protocol.
///
/// # Errors
/// The first that stops; what was finished is kept.
pub async fn controlled(
    bench: &Bench,
    counts: &[usize],
) -> Result<Vec<(SystemName, usize, MethodScores, MethodScores)>> {
    let mut all = Vec::new();
    for name in SystemName::STORES {
        let missing = counts.iter().any(|count| {
            let key = format!("controlled-{}-{count}", name.key());
            !matches!(bench.recorded::<(MethodScores, MethodScores)>(&key), Ok(Some(_)))
        });
        let mut prepared = None;
        if missing {
            let system = build(name, bench.sources(bench.seed_experiences().await?)).await?;
            let pool = Pool::of(system.as_ref());
            let run = UpliftRun::train(bench, &name.key(), &pool, Variant::Full).await?;
            prepared = Some((system, run));
        }
        for &count in counts {
            let key = format!("controlled-{}-{count}", name.key());
            let pair = match (bench.recorded::<(MethodScores, MethodScores)>(&key)?, &prepared) {
                (Some(pair), _) => pair,
                (None, Some((system, run))) => {
                    let seeds = bench.suite.seed_tasks().len() as u64;
                    let own = native(
                        bench,
                        &format!("{} (fixed)", name.title()),
                        system.as_ref(),
                        seeds,
                        count,
                    )
                    .await?;
                    let title = format!("{} + UpliftMem", name.title());
                    let ours = searched(bench, &title, run, count).await?;
                    let pair = (own, ours);
                    bench.record(&key, &pair)?;
                    bench.tell(Event::Note(line(bench, &pair.0)?));
                    bench.tell(Event::Note(line(bench, &pair.1)?));
                    pair
                }
                (None, None) => return Err(Error::Input(format!("{key} was removed while it was read"))),
            };
            all.push((name, count, pair.0, pair.1));
        }
    }
    Ok(all)
}
