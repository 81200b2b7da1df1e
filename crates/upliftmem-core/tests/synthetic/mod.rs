//! Synthetic acquisition windows: clustered tasks and memories, features of a random network, a belief conditioned
//! on earlier labels, and the reference of every window task already observed once.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{
    AcquisitionWindow, Candidate, CandidatePool, ComparisonFamily, LabelRow, Limits, LinearBelief,
    LinearPrior, MemoryId, MemorySet, Neighbourhood, PoolBelief, ProbePool, ProbeQuestion, ReferenceId,
    TaskId, WindowEntry, local_comparisons,
};

const EMBEDDING: usize = 24;

/// What to make.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recipe {
    pub(crate) seed: u64,
    pub(crate) tasks: usize,
    pub(crate) candidates: usize,
    pub(crate) memories_max: usize,
    pub(crate) dimension: usize,
    /// Labels before the window.
    pub(crate) labels: usize,
    pub(crate) run_variance: f64,
    pub(crate) reference_variance: f64,
    /// Every memory has a twin with the same embedding, so that sets have equal features.
    pub(crate) twins: bool,
    /// Every third margin is made exactly zero by equal predictions.
    pub(crate) level: bool,
}

impl Default for Recipe {
    /// A small window that takes no time to sweep.
    fn default() -> Self {
        Self {
            seed: 1,
            tasks: 6,
            candidates: 12,
            memories_max: 3,
            dimension: 16,
            labels: 30,
            run_variance: 0.16,
            reference_variance: 0.09,
            twins: false,
            level: false,
        }
    }
}

/// A window with everything that selection needs.
pub(crate) struct Window {
    pub(crate) pool: ProbePool,
    pub(crate) family: ComparisonFamily,
    pub(crate) belief: PoolBelief,
}

impl Window {
    pub(crate) fn question(&self) -> ProbeQuestion<'_> {
        ProbeQuestion {
            pool: &self.pool,
            family: &self.family,
            belief: &self.belief,
            deviations: None,
        }
    }
}

pub(crate) fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (radius, angle): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

fn normals(rng: &mut ChaCha8Rng, count: usize) -> Vec<f64> {
    (0..count).map(|_| normal(rng)).collect()
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

struct Cast {
    tasks: Vec<Vec<f64>>,
    memories: Vec<Vec<f64>>,
}

impl Cast {
    fn new(recipe: &Recipe, rng: &mut ChaCha8Rng) -> Self {
        let clusters = (recipe.tasks / 16).max(3);
        let centres: Vec<Vec<f64>> = (0..clusters).map(|_| normals(rng, EMBEDDING)).collect();
        let member = |rng: &mut ChaCha8Rng| {
            let centre = &centres[rng.random_range(0..clusters)];
            let vector: Vec<f64> = centre.iter().map(|value| value + 0.7 * normal(rng)).collect();
            let length = dot(&vector, &vector).sqrt();
            vector
                .into_iter()
                .map(|value| value / length)
                .collect::<Vec<f64>>()
        };
        let tasks = (0..recipe.tasks + recipe.labels).map(|_| member(rng)).collect();
        let mut memories: Vec<Vec<f64>> = (0..(recipe.tasks * 5).max(3 * recipe.candidates))
            .map(|_| member(rng))
            .collect();
        if recipe.twins {
            memories = memories
                .iter()
                .flat_map(|memory| [memory.clone(), memory.clone()])
                .collect();
        }
        Self { tasks, memories }
    }

    fn recalled(&self, task: usize, count: usize) -> Vec<usize> {
        let mut order: Vec<(f64, usize)> = self
            .memories
            .iter()
            .map(|memory| dot(memory, &self.tasks[task]))
            .zip(0..)
            .collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        order.into_iter().take(count).map(|(_, memory)| memory).collect()
    }
}

/// A random layer over task, set and their product, less its value without a set.
struct Network {
    weights: Vec<Vec<f64>>,
}

impl Network {
    fn features(&self, cast: &Cast, task: usize, set: &MemorySet) -> Vec<f64> {
        let task = &cast.tasks[task];
        let mut sum = vec![0.0; EMBEDDING];
        for id in set {
            for (sum, value) in sum.iter_mut().zip(&cast.memories[id.as_u128() as usize]) {
                *sum += value;
            }
        }
        let product: Vec<f64> = task
            .iter()
            .zip(&sum)
            .map(|(left, right)| 4.0 * left * right)
            .collect();
        self.weights
            .iter()
            .map(|weights| {
                let alone = dot(&weights[..EMBEDDING], task);
                let with = alone
                    + dot(&weights[EMBEDDING..2 * EMBEDDING], &sum)
                    + dot(&weights[2 * EMBEDDING..], &product);
                with.tanh() + 0.3 * with - alone.tanh() - 0.3 * alone
            })
            .collect()
    }
}

pub(crate) fn window(recipe: Recipe) -> Window {
    let mut rng = ChaCha8Rng::seed_from_u64(recipe.seed);
    let cast = Cast::new(&recipe, &mut rng);
    let network = Network {
        weights: (0..recipe.dimension)
            .map(|_| normals(&mut rng, 3 * EMBEDDING))
            .collect(),
    };
    let coefficients: Vec<f64> = normals(&mut rng, recipe.dimension)
        .iter()
        .map(|value| 0.5 * value / (recipe.dimension as f64).sqrt())
        .collect();
    let prior = LinearPrior::new(
        vec![(recipe.dimension, 0.25 / recipe.dimension as f64)],
        recipe.run_variance.max(1e-300),
        recipe.reference_variance,
    )
    .unwrap();
    let mut labels = Vec::new();
    let mut entries = Vec::new();
    let mut references = std::collections::BTreeMap::new();
    for task in 0..recipe.tasks + recipe.labels {
        let recalled = cast.recalled(task, recipe.candidates);
        let size = if task % 5 == 0 {
            recipe.memories_max - 1
        } else {
            recipe.memories_max
        };
        let mut set = MemorySet::EMPTY;
        while set.len() < size {
            set = set.with(MemoryId::from_u128(
                recalled[rng.random_range(0..recalled.len())] as u128,
            ));
        }
        let features = network.features(&cast, task, &set);
        let residual = dot(&features, &coefficients) + recipe.run_variance.sqrt() * normal(&mut rng);
        let reference = ReferenceId::from_u128(task as u128);
        labels.push(LabelRow {
            features,
            residual,
            reference,
        });
        if task >= recipe.tasks {
            continue;
        }
        let id = TaskId::from_u128(task as u128);
        // Some references are observed already, some have yet to be executed.
        references.insert(id, (task, (task % 4 != 3).then_some(reference)));
        let candidates = recalled.iter().map(|&memory| Candidate {
            id: MemoryId::from_u128(memory as u128),
            tokens: 60,
        });
        entries.push(WindowEntry {
            task: id,
            pool: CandidatePool::new(candidates.collect()).unwrap(),
            incumbent: set,
            prefixes: Vec::new(),
            limits: Limits::count(recipe.memories_max),
        });
    }
    let (pool, family) = local_comparisons(&AcquisitionWindow { entries }, Neighbourhood::Incumbent).unwrap();
    let mut features = Vec::with_capacity(pool.len() * recipe.dimension);
    for probe in pool.probes() {
        let (task, _) = references[&pool.tasks()[probe.task as usize]];
        features.extend(network.features(&cast, task, &probe.set));
    }
    let predicted: Vec<f64> = (0..pool.len())
        .map(|probe| {
            if recipe.level && probe % 3 != 0 {
                0.0
            } else {
                0.02 * normal(&mut rng)
            }
        })
        .collect();
    let used: Vec<Option<ReferenceId>> = pool.tasks().iter().map(|task| references[task].1).collect();
    let linear = LinearBelief::new(prior, &labels).unwrap();
    let mut belief = linear.over(&pool, &features, &predicted, &used).unwrap();
    if recipe.level {
        // Means that come from labels would undo the ties: keep the covariances, take the means as predicted.
        belief = with_means(&belief, &predicted, &pool);
    }
    Window { pool, family, belief }
}

/// The same covariances with other means.
fn with_means(belief: &PoolBelief, means: &[f64], pool: &ProbePool) -> PoolBelief {
    let references = (0..pool.tasks().len()).map(|task| belief.reference(task));
    let mut other = PoolBelief::with_capacity(belief.dimension(), belief.len());
    for (probe, &mean) in means.iter().enumerate() {
        other
            .push(mean, belief.value_row(probe), belief.label_noise(probe))
            .unwrap();
    }
    for reference in references {
        other.push_reference(reference).unwrap();
    }
    other
}
