//! Choosing which executions to buy: a window, what it leaves to decide, the belief about it, a batch.

use std::{collections::BTreeMap, sync::Arc};

use rand::{Rng, RngExt, SeedableRng, seq::SliceRandom};
use rayon::prelude::*;
use serde::Serialize;
use upliftmem_core::{
    AcquisitionWindow, Comparison, ComparisonFamily, MemoryId, MemorySet, PoolBelief, ProbePick, ProbePool,
    ProbeQuestion, ReferenceBelief, SearchSpace, Side, TaskId, WindowEntry, evsi, local_comparisons,
    select_probes,
};
use upliftmem_scorer::{Ask, TaskScorer, TaskSets};

use crate::{
    error::Result,
    scoring::{BelievingScorer, beam, sample},
    settings::{Incumbent, ProbeSettings, RetrievalSettings, Strategy},
    texts::{KnownMemory, KnownTask, inputs},
};

/// Memories of a task whose pairs are looked at, where retrieval would give none or one: those that are known least. What helps
/// only together is tried by no edit of one memory.
const PAIRED: usize = 10;

/// One task of a window with all that deciding about it needs.
#[derive(Debug, Clone)]
pub struct Scene {
    /// What was retrieved.
    pub entry: WindowEntry,
    /// The task.
    pub task: Arc<KnownTask>,
    /// Its candidates.
    pub memories: Vec<Arc<KnownMemory>>,
}

/// A probe that was chosen, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chosen {
    /// The task.
    pub task: TaskId,
    /// The set to execute.
    pub set: MemorySet,
    /// What retrieval would return instead.
    pub incumbent: MemorySet,
    /// What it is worth; all zero for strategies that do not value probes.
    pub pick: ProbePick,
}

/// A batch with the sizes of what it was chosen from.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Plan {
    /// The probes, in the order in which they were picked.
    pub chosen: Vec<Chosen>,
    /// Probes that could have been picked.
    pub pool: usize,
    /// Probes that were left out by `challengers_max`.
    pub capped: usize,
    /// Decisions they bear on.
    pub comparisons: usize,
    /// EVSI of the whole batch, if the belief was asked.
    pub batch_value: f64,
    /// Share of the belief's variance that its finite features leave out.
    pub residual_share: f64,
}

/// What a window leaves to decide.
struct Question {
    pool: ProbePool,
    family: ComparisonFamily,
    incumbents: BTreeMap<TaskId, MemorySet>,
    capped: usize,
}

/// Chooses at most `budget` probes. Paper: LocalComparisons and SelectProbes of Algorithm 1.
pub fn plan(
    scorer: &dyn BelievingScorer,
    scenes: &[Scene],
    retrieval: &RetrievalSettings,
    settings: &ProbeSettings,
    budget: usize,
    rng: &mut impl Rng,
) -> Result<Plan> {
    let scenes = latest(scenes);
    if scenes.is_empty() || budget == 0 {
        return Ok(Plan::default());
    }
    let Some(selection) = settings.strategy.selection() else {
        return ordinary(scorer, &scenes, retrieval, settings, budget, rng);
    };
    if settings.strategy != Strategy::Random {
        scorer.prepare()?;
    }
    let question = match settings.incumbent {
        Incumbent::Sampled if settings.challengers_max == 0 => sampled(&scenes, settings)?,
        _ => current(scorer, &scenes, retrieval, settings, rng.random())?,
    };
    let (belief, residual_share, deviations) = believe(scorer, &scenes, &question.pool, settings)?;
    let batch = select_probes(
        ProbeQuestion {
            pool: &question.pool,
            family: &question.family,
            belief: &belief,
            deviations: deviations.as_deref(),
        },
        &settings.selection(selection, budget),
        rng,
    )?;
    let chosen = batch.picks.into_iter().map(|pick| {
        let probe = &question.pool.probes()[pick.probe as usize];
        let task = question.pool.tasks()[probe.task as usize];
        Chosen {
            task,
            set: probe.set.clone(),
            incumbent: question.incumbents.get(&task).cloned().unwrap_or_default(),
            pick,
        }
    });
    Ok(Plan {
        chosen: chosen.collect(),
        pool: question.pool.len(),
        capped: question.capped,
        comparisons: question.family.len(),
        batch_value: batch.batch_value,
        residual_share,
    })
}

/// One scene a task, the latest, in the order of tasks.
fn latest(scenes: &[Scene]) -> Vec<&Scene> {
    let by_task: BTreeMap<TaskId, &Scene> = scenes.iter().map(|scene| (scene.entry.task, scene)).collect();
    by_task.into_values().collect()
}

/// The paper's family: edits of what was sampled.
fn sampled(scenes: &[&Scene], settings: &ProbeSettings) -> Result<Question> {
    let window = AcquisitionWindow {
        entries: scenes.iter().map(|scene| scene.entry.clone()).collect(),
    };
    let (pool, family) = local_comparisons(&window, settings.neighbourhood)?;
    let incumbents = scenes
        .iter()
        .map(|scene| (scene.entry.task, scene.entry.incumbent.clone()));
    Ok(Question {
        pool,
        family,
        incumbents: incumbents.collect(),
        capped: 0,
    })
}

/// Edits of what retrieval would return now, the most promising of each task.
fn current(
    scorer: &dyn BelievingScorer,
    scenes: &[&Scene],
    retrieval: &RetrievalSettings,
    settings: &ProbeSettings,
    seed: u64,
) -> Result<Question> {
    let around: Vec<(MemorySet, Vec<MemorySet>, usize)> = scenes
        .par_iter()
        .enumerate()
        .map(|(place, scene)| neighbours(scorer, scene, retrieval, settings, seed ^ place as u64))
        .collect::<Result<_>>()?;
    let mut probes = Vec::new();
    let mut incumbents = BTreeMap::new();
    let mut capped = 0;
    for (scene, (incumbent, challengers, left_out)) in scenes.iter().zip(&around) {
        let sets = challengers
            .iter()
            .chain([incumbent])
            .filter(|set| !set.is_empty());
        probes.extend(sets.map(|set| (scene.entry.task, set.clone())));
        incumbents.insert(scene.entry.task, incumbent.clone());
        capped += left_out;
    }
    let pool = ProbePool::new(probes)?;
    let mut comparisons = Vec::new();
    for (at, task) in (0..).zip(pool.tasks()) {
        let incumbent = &incumbents[task];
        let place = |set: &MemorySet| pool.position(at, set).map_or(Side::Empty, Side::Probe);
        let challengers = pool.range_of(at).map(|probe| &pool.probes()[probe].set);
        for challenger in challengers.filter(|set| *set != incumbent) {
            comparisons.push(Comparison {
                task: at,
                challenger: place(challenger),
                incumbent: place(incumbent),
            });
        }
        if !incumbent.is_empty() {
            comparisons.push(Comparison {
                task: at,
                challenger: Side::Empty,
                incumbent: place(incumbent),
            });
        }
    }
    let family = ComparisonFamily::new(&pool, comparisons)?;
    Ok(Question {
        pool,
        family,
        incumbents,
        capped,
    })
}

/// What retrieval would return, the sets worth comparing it with, and how many were left out.
fn neighbours(
    scorer: &dyn BelievingScorer,
    scene: &Scene,
    retrieval: &RetrievalSettings,
    settings: &ProbeSettings,
    seed: u64,
) -> Result<(MemorySet, Vec<MemorySet>, usize)> {
    let (task, memories) = (scene.task.input(), inputs(&scene.memories));
    let bound = scorer.bind(task, &memories)?;
    let incumbent = match settings.incumbent {
        Incumbent::Current => {
            let found = beam(bound.as_ref(), &scene.entry.pool, retrieval, None)?;
            scorer.decide(task, &memories, found, None)?.best.set
        }
        Incumbent::Sampled => scene.entry.incumbent.clone(),
    };
    let space = SearchSpace::new(&scene.entry.pool, retrieval.limits());
    let mut sets = space.edits(&incumbent)?;
    sets.retain(|set| !set.is_empty() && *set != incumbent);
    let most = settings.challengers_max;
    if most == 0 || sets.len() <= most {
        return Ok((incumbent, sets, 0));
    }
    if settings.strategy == Strategy::Random {
        let left_out = sets.len() - most;
        sets.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(seed));
        sets.truncate(most);
        return Ok((incumbent, sets, left_out));
    }
    let alone = Alone::of(bound.as_ref(), scene, settings.strategy, seed)?;
    if incumbent.len() <= 1 {
        sets.extend(alone.pairs().filter(|pair| space.check(pair).is_ok()));
        sets.sort_unstable();
        sets.dedup();
    }
    let left_out = sets.len() - most;
    let values = bound.score(&sets, Ask::VALUES)?.values;
    let base = crate::scoring::value(bound.as_ref(), &incumbent)?;
    let mut ranked: Vec<(f64, MemorySet)> = sets
        .into_iter()
        .zip(values)
        .map(|(set, value)| {
            let promise = match settings.strategy {
                Strategy::McStd | Strategy::Eig => alone.deviation(&set),
                Strategy::Thompson => value + alone.shift(&set),
                _ => evsi(value - base, alone.deviation(&changed(&set, &incumbent)))?,
            };
            Ok((promise, set))
        })
        .collect::<Result<_>>()?;
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    ranked.truncate(most);
    let kept = ranked.into_iter().map(|(_, set)| set).collect();
    Ok((incumbent, kept, left_out))
}

/// What is in one of two sets only.
fn changed(a: &MemorySet, b: &MemorySet) -> MemorySet {
    let only = |a: &MemorySet, b: &MemorySet| -> Vec<_> {
        a.iter().copied().filter(|id| !b.contains(*id)).collect()
    };
    only(a, b).into_iter().chain(only(b, a)).collect()
}

/// How uncertain each candidate is by itself. Uncertainty costs a thousand times what a value does; as if members were independent,
/// it says of every set at once whether it is worth a closer look.
struct Alone {
    /// Standard deviation, and how far a draw from the belief is from what is expected.
    candidates: BTreeMap<MemoryId, (f64, f64)>,
}

impl Alone {
    fn of(bound: &dyn TaskScorer, scene: &Scene, strategy: Strategy, seed: u64) -> Result<Self> {
        let singles: Vec<MemorySet> = scene
            .memories
            .iter()
            .map(|memory| std::iter::once(memory.id).collect())
            .collect();
        let ask = Ask {
            draws: usize::from(strategy == Strategy::Thompson),
            seed,
            deviations: true,
        };
        let scores = bound.score(&singles, ask)?;
        let candidates = scene.memories.iter().enumerate().map(|(at, memory)| {
            let shift = scores
                .draws
                .first()
                .map_or(0.0, |draw| draw[at] - scores.values[at]);
            (memory.id, (scores.deviations[at], shift))
        });
        Ok(Self {
            candidates: candidates.collect(),
        })
    }

    fn members<'a>(&'a self, set: &'a MemorySet) -> impl Iterator<Item = (f64, f64)> + 'a {
        set.iter().filter_map(|id| self.candidates.get(id).copied())
    }

    fn deviation(&self, set: &MemorySet) -> f64 {
        let variance: f64 = self.members(set).map(|(deviation, _)| deviation.powi(2)).sum();
        variance.sqrt()
    }

    fn shift(&self, set: &MemorySet) -> f64 {
        self.members(set).map(|(_, shift)| shift).sum()
    }

    /// Pairs of what is known least.
    fn pairs(&self) -> impl Iterator<Item = MemorySet> {
        let mut least: Vec<(f64, MemoryId)> =
            self.candidates.iter().map(|(&id, &(sd, _))| (sd, id)).collect();
        least.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        least.truncate(PAIRED);
        let pairs: Vec<MemorySet> = (0..least.len())
            .flat_map(|i| (0..i).map(move |j| (i, j)))
            .map(|(i, j)| [least[i].1, least[j].1].into_iter().collect())
            .collect();
        pairs.into_iter()
    }
}

/// The belief about the pool's values and labels, what it leaves out, and deviations where a strategy wants the scorer's own.
fn believe(
    scorer: &dyn BelievingScorer,
    scenes: &[&Scene],
    pool: &ProbePool,
    settings: &ProbeSettings,
) -> Result<(PoolBelief, f64, Option<Vec<f64>>)> {
    let by_task: BTreeMap<TaskId, &Scene> = scenes.iter().map(|scene| (scene.entry.task, *scene)).collect();
    let mut owned = Vec::with_capacity(pool.tasks().len());
    for (at, task) in (0..).zip(pool.tasks()) {
        let scene = by_task[task];
        let sets: Vec<MemorySet> = pool
            .range_of(at)
            .map(|probe| pool.probes()[probe].set.clone())
            .collect();
        owned.push((scene, inputs(&scene.memories), sets));
    }
    let items: Vec<TaskSets<'_>> = owned
        .iter()
        .map(|(scene, memories, sets)| TaskSets {
            task: scene.task.input(),
            memories,
            sets,
        })
        .collect();
    if settings.strategy == Strategy::Random {
        // What is chosen is chosen blindly: values and covariances would only cost time.
        let mut belief = PoolBelief::with_capacity(0, pool.len());
        for _ in 0..pool.len() {
            belief.push(0.0, &[], 1.0)?;
        }
        for _ in pool.tasks() {
            belief.push_reference(ReferenceBelief {
                row: Vec::new(),
                variance: 0.0,
            })?;
        }
        return Ok((belief, 0.0, None));
    }
    let believed = scorer.believe(&items, settings.belief_dimension)?;
    let noise = scorer.label_variance()?;
    let dimension = believed.map.features.first().map_or(0, Vec::len);
    let mut belief = PoolBelief::with_capacity(dimension, pool.len());
    let rows = believed.map.features.iter().zip(&believed.map.residual);
    for (mean, (features, residual)) in believed.means.iter().zip(rows) {
        belief.push(*mean, features, noise + residual)?;
    }
    for task in pool.tasks() {
        belief.push_reference(scorer.reference(*task)?)?;
    }
    let deviations = match settings.strategy {
        Strategy::McStd => scorer.dropout_deviations(&items)?,
        _ => None,
    };
    Ok((belief, believed.map.residual_share, deviations))
}

/// The same budget on more ordinary retrievals: sampled paths of the window's tasks, in turn.
fn ordinary(
    scorer: &dyn BelievingScorer,
    scenes: &[&Scene],
    retrieval: &RetrievalSettings,
    settings: &ProbeSettings,
    budget: usize,
    rng: &mut impl Rng,
) -> Result<Plan> {
    let mut plan = Plan::default();
    if settings.strategy == Strategy::None {
        return Ok(plan);
    }
    let policy = retrieval.policy()?;
    // A path may end at the empty set, which is no probe; so many tries are enough to see that all do.
    for _ in 0..20 * budget {
        if plan.chosen.len() == budget {
            break;
        }
        let scene = scenes[rng.random_range(0..scenes.len())];
        let bound = scorer.bind(scene.task.input(), &inputs(&scene.memories))?;
        let path = sample(bound.as_ref(), &scene.entry.pool, retrieval, policy, rng)?;
        if path.terminal.is_empty() {
            continue;
        }
        plan.chosen.push(Chosen {
            task: scene.entry.task,
            set: path.terminal.clone(),
            incumbent: path.terminal,
            pick: ProbePick {
                probe: 0,
                score: 0.0,
                marginal_value: 0.0,
                probability: upliftmem_core::Probability {
                    at_least: 0.0,
                    at_most: 1.0,
                },
                helps: Vec::new(),
            },
        });
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(members: &[u128]) -> MemorySet {
        members.iter().map(|&at| MemoryId::from_u128(at)).collect()
    }

    #[test]
    fn pairs_are_of_what_is_known_least() {
        let candidates = (0..20_u32).map(|at| {
            let id = MemoryId::from_u128(u128::from(at));
            (id, (f64::from(at % 10), f64::from(at)))
        });
        let alone = Alone {
            candidates: candidates.collect(),
        };
        let pairs: Vec<MemorySet> = alone.pairs().collect();
        assert_eq!(pairs.len(), PAIRED * (PAIRED - 1) / 2);
        assert!(pairs.iter().all(|pair| pair.len() == 2));
        // Nine and nineteen are known least; four and fourteen are known too well.
        assert_eq!(pairs[0], set(&[9, 19]));
        assert!(!pairs.iter().any(|pair| pair.contains(MemoryId::from_u128(4))));
    }

    #[test]
    fn a_set_is_as_uncertain_as_its_members_are_together() {
        let alone = Alone {
            candidates: [(3.0, 1.0), (4.0, -0.5)]
                .into_iter()
                .enumerate()
                .map(|(at, of)| (MemoryId::from_u128(at as u128), of))
                .collect(),
        };
        assert!((alone.deviation(&set(&[0, 1])) - 5.0).abs() < 1e-12);
        assert!((alone.shift(&set(&[0, 1])) - 0.5).abs() < 1e-12);
        assert!(alone.deviation(&MemorySet::EMPTY).abs() < 1e-12);
    }

    #[test]
    fn what_changes_between_two_sets_is_in_one_of_them() {
        assert_eq!(changed(&set(&[1, 2]), &set(&[2, 3])), set(&[1, 3]));
        assert_eq!(changed(&set(&[]), &set(&[2])), set(&[2]));
        assert_eq!(changed(&set(&[1, 2]), &set(&[1, 2])), set(&[]));
    }
}
