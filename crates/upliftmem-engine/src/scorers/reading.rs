//! Scorers that read texts, with a belief on top: a language model here, or one behind a server.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::{MemoryId, MemorySet, ReferenceBelief, TaskId};
use upliftmem_scorer::{
    Ask, FeatureMap, MemoryInput, ScorerError, ScorerVersion, Scores, SetScorer, TaskInput, TaskScorer,
    TaskSets,
    lm::{LmScorer, RemoteScorer, SetReading},
};

use super::last_layer::{LastLayer, Seen, SeenLabel};
use crate::{
    error::{Error, Result},
    learning::LearningTexts,
    scoring::{Believed, BelievingScorer},
    state::Labelled,
};

/// What reads.
#[derive(Clone)]
pub(crate) enum Reader {
    /// A language model in this process.
    Lm(Arc<LmScorer>),
    /// One behind a server.
    Remote(Arc<RemoteScorer>),
}

impl Reader {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Lm(_) => "lm",
            Self::Remote(_) => "remote",
        }
    }

    pub(crate) fn read(
        &self,
        task: TaskInput<'_>,
        memories: &[MemoryInput<'_>],
        sets: &[MemorySet],
        deadline: Option<Instant>,
    ) -> Result<Vec<Option<SetReading>>, ScorerError> {
        match self {
            Self::Lm(scorer) => scorer.bind_task(task, memories).read(sets, deadline),
            Self::Remote(scorer) => scorer.bind_task(task, memories).read(sets, deadline),
        }
    }
}

/// What the belief rests on: labels, and the texts they speak of.
#[derive(Clone, Default)]
pub(crate) struct Ground {
    pub(crate) labels: Arc<Vec<Labelled>>,
    pub(crate) texts: Arc<LearningTexts>,
    /// Most coordinates of the belief.
    pub(crate) dimension: usize,
    /// Most labels it looks at, the newest.
    pub(crate) labels_max: usize,
}

/// A scorer that reads, with its belief.
pub(crate) struct ReadingScorer {
    reader: Reader,
    version: ScorerVersion,
    ground: Ground,
    /// Made when it is first asked for: it reads every label's set.
    layer: Mutex<Option<Arc<LastLayer>>>,
}

impl ReadingScorer {
    pub(crate) fn new(reader: Reader, version: u64, ground: Ground) -> Self {
        Self {
            reader,
            version: ScorerVersion(version),
            ground,
            layer: Mutex::new(None),
        }
    }

    /// Nobody waits for whoever makes it: a thread that waits may be the one that is needed. Two that make it make the same.
    fn layer(&self) -> Result<Arc<LastLayer>> {
        let known = || self.layer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layer) = known().as_ref() {
            return Ok(Arc::clone(layer));
        }
        let made = Arc::new(LastLayer::fit(self.ground.dimension, &self.seen_labels()?)?);
        Ok(Arc::clone(known().get_or_insert(made)))
    }

    fn seen_labels(&self) -> Result<Vec<SeenLabel>> {
        let texts = &self.ground.texts;
        let mut labels = Vec::new();
        let newest = self.ground.labels.iter().rev().filter_map(|label| match label {
            Labelled::Observation(seen) => Some(seen),
            Labelled::Reference(_) => None,
        });
        for seen in newest.take(self.ground.labels_max) {
            let members: Option<Vec<_>> = seen.set.iter().map(|id| texts.memories.get(id)).collect();
            // A label about a memory that is gone teaches nothing.
            let (Some(task), Some(members)) = (texts.tasks.get(&seen.task), members) else {
                continue;
            };
            let members: Vec<MemoryInput<'_>> = members.into_iter().map(|memory| memory.input()).collect();
            let sets = std::slice::from_ref(&seen.set);
            let reading = self
                .reader
                .read(task.input(), &members, sets, None)?
                .pop()
                .flatten();
            labels.push(SeenLabel {
                seen: as_seen(
                    task.input(),
                    &members,
                    &seen.set,
                    reading.map(|found| found.features),
                ),
                task: seen.task,
                uplift: seen.uplift.get(),
                reference: seen.reference,
            });
        }
        Ok(labels)
    }
}

fn as_seen(
    task: TaskInput<'_>,
    memories: &[MemoryInput<'_>],
    set: &MemorySet,
    hidden: Option<Vec<f32>>,
) -> Seen {
    let relevance = |id: &MemoryId| {
        let memory = memories.iter().find(|memory| memory.id == *id);
        (
            *id,
            memory.map_or(0.0, |memory| task.embedding.cosine(memory.embedding)),
        )
    };
    Seen {
        hidden: hidden.unwrap_or_default(),
        members: set.iter().map(relevance).collect(),
    }
}

impl SetScorer for ReadingScorer {
    fn version(&self) -> ScorerVersion {
        self.version
    }

    fn bind<'a>(
        &'a self,
        task: TaskInput<'a>,
        memories: &[MemoryInput<'a>],
    ) -> Result<Box<dyn TaskScorer + 'a>, ScorerError> {
        Ok(Box::new(BoundReading {
            scorer: self,
            task,
            memories: memories.to_vec(),
        }))
    }
}

struct BoundReading<'a> {
    scorer: &'a ReadingScorer,
    task: TaskInput<'a>,
    memories: Vec<MemoryInput<'a>>,
}

impl BoundReading<'_> {
    fn read(&self, sets: &[MemorySet]) -> Result<Vec<SetReading>, ScorerError> {
        let found = self.scorer.reader.read(self.task, &self.memories, sets, None)?;
        let found: Option<Vec<SetReading>> = found.into_iter().collect();
        found.ok_or_else(|| ScorerError::Numerical {
            step: "reading",
            problem: "a set was not read though there was time".into(),
        })
    }

    /// Values, and the coordinates of each in the belief.
    fn believed(&self, sets: &[MemorySet]) -> Result<(Vec<f64>, Vec<Vec<f64>>), ScorerError> {
        let layer = self.scorer.layer().map_err(|error| match error {
            Error::Scorer(error) => error,
            other => ScorerError::Numerical {
                step: "the belief",
                problem: other.to_string(),
            },
        })?;
        let (mut values, mut rows) = (Vec::with_capacity(sets.len()), Vec::with_capacity(sets.len()));
        for (set, reading) in sets.iter().zip(self.read(sets)?) {
            values.push(reading.value);
            let seen = as_seen(self.task, &self.memories, set, Some(reading.features));
            rows.push(layer.coordinates(&seen));
        }
        Ok((values, rows))
    }
}

impl TaskScorer for BoundReading<'_> {
    /// A draw is one function for all sets: the value moved along the coordinates of the belief.
    fn score(&self, sets: &[MemorySet], ask: Ask) -> Result<Scores, ScorerError> {
        let mut scores = Scores {
            version: self.scorer.version,
            values: Vec::new(),
            deviations: Vec::new(),
            draws: Vec::new(),
        };
        if ask.draws == 0 && !ask.deviations {
            scores.values = self
                .read(sets)?
                .into_iter()
                .map(|reading| reading.value)
                .collect();
            return Ok(scores);
        }
        let (values, rows) = self.believed(sets)?;
        if ask.deviations {
            scores.deviations = rows.iter().map(|row| dot(row, row).sqrt()).collect();
        }
        for draw in 0..ask.draws as u64 {
            let mut rng = ChaCha8Rng::seed_from_u64(ask.seed);
            rng.set_stream(draw);
            let latent: Vec<f64> = (0..rows.first().map_or(0, Vec::len))
                .map(|_| normal(&mut rng))
                .collect();
            let moved = values
                .iter()
                .zip(&rows)
                .map(|(value, row)| value + dot(row, &latent));
            scores.draws.push(moved.collect());
        }
        scores.values = values;
        Ok(scores)
    }

    fn score_until(&self, sets: &[MemorySet], deadline: Instant) -> Result<Vec<Option<f64>>, ScorerError> {
        let found = self
            .scorer
            .reader
            .read(self.task, &self.memories, sets, Some(deadline))?;
        Ok(found
            .into_iter()
            .map(|reading| reading.map(|reading| reading.value))
            .collect())
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// A standard normal number, by Box and Muller.
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (radius, angle): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

impl BelievingScorer for ReadingScorer {
    fn name(&self) -> &'static str {
        self.reader.name()
    }

    fn prepare(&self) -> Result<()> {
        self.layer().map(drop)
    }

    fn feature_map(&self, items: &[TaskSets<'_>], dimension_max: usize) -> Result<FeatureMap> {
        Ok(self.believe(items, dimension_max)?.map)
    }

    /// Values and features come from the same pass. The features are all of the belief: nothing is left out.
    fn believe(&self, items: &[TaskSets<'_>], _dimension_max: usize) -> Result<Believed> {
        let (mut means, mut features) = (Vec::new(), Vec::new());
        for item in items {
            let bound = BoundReading {
                scorer: self,
                task: item.task,
                memories: item.memories.to_vec(),
            };
            let (values, rows) = bound.believed(item.sets)?;
            means.extend(values);
            features.extend(rows);
        }
        Ok(Believed {
            map: FeatureMap {
                residual: vec![0.0; features.len()],
                features,
                residual_share: 0.0,
            },
            means,
        })
    }

    fn label_variance(&self) -> Result<f64> {
        Ok(self.layer()?.run_variance())
    }

    fn reference(&self, task: TaskId) -> Result<ReferenceBelief> {
        Ok(self.layer()?.reference(task))
    }

    fn dropout_deviations(&self, items: &[TaskSets<'_>]) -> Result<Option<Vec<f64>>> {
        let Reader::Lm(scorer) = &self.reader else {
            return Ok(None);
        };
        if scorer.adapter().is_none() {
            return Ok(None);
        }
        let ask = Ask {
            deviations: true,
            ..Ask::VALUES
        };
        let mut deviations = Vec::new();
        for item in items {
            let bound = scorer.bind_task(item.task, item.memories);
            deviations.extend(bound.score(item.sets, ask)?.deviations);
        }
        Ok(Some(deviations))
    }
}
