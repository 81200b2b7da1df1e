//! One immutable version of a set network.

use upliftmem_core::MemorySet;

use super::{
    body::{Body, Offsets, Texts},
    pass::{Dropout, TaskPass},
};
use crate::{Ask, MemoryInput, ScorerVersion, Scores, SetScorer, TaskInput, TaskScorer, error::Result};

/// Dropout passes that a standard deviation rests on.
const DEVIATION_DRAWS: u64 = 16;
/// Their seed: a deviation is a function of the task and the set alone.
const DEVIATION_SEED: u64 = 0x0dec_1de5;

/// A trained set network. The empty set never reaches it: its value is 0.
///
/// A memory that was not trained on has no identity and is judged by its text; a draw is a pass with dropout.
pub struct NetworkScorer {
    version: ScorerVersion,
    /// What values are multiplied by, from the check of calibration.
    pub(crate) scale: f64,
    /// `None` before anything was learned: every value is 0.
    trained: Option<(Body, Offsets)>,
}

impl std::fmt::Debug for NetworkScorer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetworkScorer")
            .field("version", &self.version)
            .field("scale", &self.scale)
            .field("trained", &self.trained.is_some())
            .finish()
    }
}

impl NetworkScorer {
    pub(crate) fn new(version: ScorerVersion, scale: f64, body: Option<Body>) -> Self {
        let trained = body.map(|body| {
            let offsets = body.offsets();
            (body, offsets)
        });
        Self {
            version,
            scale,
            trained,
        }
    }
}

struct BoundNetwork<'a> {
    scorer: &'a NetworkScorer,
    trained: Option<(&'a Body, Texts)>,
}

impl SetScorer for NetworkScorer {
    fn version(&self) -> ScorerVersion {
        self.version
    }

    fn bind<'a>(
        &'a self,
        task: TaskInput<'a>,
        memories: &[MemoryInput<'a>],
    ) -> Result<Box<dyn TaskScorer + 'a>> {
        let trained = match &self.trained {
            Some((body, offsets)) => Some((body, body.texts(offsets, task, memories)?)),
            None => None,
        };
        Ok(Box::new(BoundNetwork {
            scorer: self,
            trained,
        }))
    }
}

impl BoundNetwork<'_> {
    fn values(&self, pass: &TaskPass<'_>, unit: f64, sets: &[Vec<usize>]) -> Vec<f64> {
        sets.iter()
            .map(|set| match set.as_slice() {
                [] => 0.0,
                set => pass.set(set).value * unit * self.scorer.scale,
            })
            .collect()
    }
}

impl TaskScorer for BoundNetwork<'_> {
    fn score(&self, sets: &[MemorySet], ask: Ask) -> Result<Scores> {
        let nothing = || vec![0.0; sets.len()];
        let Some((body, texts)) = &self.trained else {
            return Ok(Scores {
                version: self.scorer.version,
                values: nothing(),
                deviations: if ask.deviations { nothing() } else { Vec::new() },
                draws: vec![nothing(); ask.draws],
            });
        };
        let places: Vec<Vec<usize>> = sets.iter().map(|set| texts.places(set)).collect::<Result<_>>()?;
        let draw = |seed: u64| {
            let dropout = Dropout::draw(&body.settings, seed);
            self.values(&body.pass(texts, Some(&dropout)), body.frame.unit, &places)
        };
        let values = self.values(&body.pass(texts, None), body.frame.unit, &places);
        let deviations = if ask.deviations {
            let drawn: Vec<Vec<f64>> = (0..DEVIATION_DRAWS)
                .map(|at| draw(DEVIATION_SEED.wrapping_add(at)))
                .collect();
            (0..sets.len()).map(|set| spread(&drawn, set)).collect()
        } else {
            Vec::new()
        };
        Ok(Scores {
            version: self.scorer.version,
            values,
            deviations,
            draws: (0..ask.draws as u64)
                .map(|at| draw(mixed(ask.seed, at)))
                .collect(),
        })
    }
}

/// Seeds of draws that do not overlap with those of neighbouring seeds.
fn mixed(seed: u64, draw: u64) -> u64 {
    use rand::Rng as _;
    super::pass::keyed(seed, u128::from(draw)).next_u64()
}

/// The standard deviation of one set's value over draws.
fn spread(draws: &[Vec<f64>], set: usize) -> f64 {
    let count = draws.len() as f64;
    let mean = draws.iter().map(|draw| draw[set]).sum::<f64>() / count;
    let squares: f64 = draws.iter().map(|draw| (draw[set] - mean).powi(2)).sum();
    (squares / (count - 1.0)).sqrt()
}
