//! The network as the trainer sees it.

use std::{collections::BTreeSet, sync::Arc};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_core::MemoryId;

use super::{
    adam::Adam,
    algebra::add_scaled,
    body::{Body, Texts},
    frame::Frame,
    parameters::{Parameters, Part},
    pass::{Dropout, keyed},
    scorer::NetworkScorer,
    settings::NetworkSettings,
};
use crate::{
    Embedding, ScorerVersion,
    error::Result,
    trainer::{Question, TrainableModel, TrainingData},
};

/// A set network that is being trained.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkModel {
    pub(crate) settings: NetworkSettings,
    /// Seed of the first parameters.
    pub(crate) seed: u64,
    pub(crate) state: Option<State>,
}

/// What training changes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    pub(crate) body: Body,
    pub(crate) adam: Adam,
    pub(crate) gradient: Parameters,
}

impl NetworkModel {
    /// A network that has seen nothing and predicts zero. Different seeds make different networks.
    pub fn new(settings: NetworkSettings, seed: u64) -> Result<Self> {
        settings.check()?;
        Ok(Self {
            settings,
            seed,
            state: None,
        })
    }

    /// As many networks as are wanted, for an ensemble.
    pub fn several(settings: NetworkSettings, count: usize, seed: u64) -> Result<Vec<Self>> {
        (0..count)
            .map(|member| Self::new(settings, keyed(seed, member as u128).next_u64()))
            .collect()
    }

    fn start(&self, data: &TrainingData<'_>) -> Result<Option<State>> {
        let Some(frame) = frame(data)? else {
            return Ok(None);
        };
        let known: BTreeSet<MemoryId> = data.memories();
        let (dimension, count) = (frame.dimension(), known.len());
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let zero = || Parameters::zero(&self.settings, dimension, count);
        Ok(Some(State {
            body: Body {
                settings: self.settings,
                frame,
                slots: known.into_iter().enumerate().map(|(at, id)| (id, at)).collect(),
                parameters: Parameters::first(&self.settings, dimension, count, &mut rng),
            },
            adam: Adam {
                steps: 0,
                mean: zero(),
                square: zero(),
            },
            gradient: zero(),
        }))
    }
}

/// The frame of the data; `None` when there is nothing to learn from.
fn frame(data: &TrainingData<'_>) -> Result<Option<Frame>> {
    let mut tasks = Vec::new();
    for task in data.tasks() {
        tasks.push(data.corpus.task(task)?.embedding);
    }
    if tasks.is_empty() {
        return Ok(None);
    }
    let memories: Vec<&Embedding> = data.corpus.memories().map(|(_, text)| text).collect();
    let mut together = Vec::new();
    for example in data.values {
        let task = data.corpus.task(example.label.task)?.embedding;
        for &id in &example.set {
            together.push((task, data.corpus.memory(id)?.embedding));
        }
    }
    let labels: Vec<f64> = data
        .values
        .iter()
        .map(|example| example.label.uplift.get())
        .collect();
    Ok(Some(Frame::of(&tasks, &memories, &together, &labels)))
}

impl State {
    /// Makes room for memories that were not known before.
    fn admit(&mut self, memories: impl IntoIterator<Item = MemoryId>) {
        for id in memories {
            let next = self.body.slots.len();
            self.body.slots.entry(id).or_insert(next);
        }
        let count = self.body.slots.len();
        for tensors in [
            &mut self.body.parameters,
            &mut self.adam.mean,
            &mut self.adam.square,
            &mut self.gradient,
        ] {
            tensors.grow(&self.body.settings, count);
        }
    }

    /// Adds to the gradient what the reduced texts' slopes say about the projection.
    fn projection_back(&mut self, tasks: &TextSlopes<'_>, memories: &TextSlopes<'_>) {
        let size = self.body.settings.projection;
        let frame = &self.body.frame;
        let gradient = &mut self.gradient[Part::Projection];
        for (slopes, mean) in [(tasks, &frame.task_mean), (memories, &frame.memory_mean)] {
            let mut sum = vec![0.0; size];
            for (text, slope) in &slopes.0 {
                add_scaled(&mut sum, 1.0, slope);
                for (&value, row) in text.values().iter().zip(gradient.chunks_exact_mut(size)) {
                    if value != 0.0 {
                        add_scaled(row, f64::from(value), slope);
                    }
                }
            }
            for (&value, row) in mean.iter().zip(gradient.chunks_exact_mut(size)) {
                add_scaled(row, -value, &sum);
            }
        }
    }
}

/// Slopes of reduced texts, each text once.
#[derive(Default)]
struct TextSlopes<'a>(Vec<(&'a Embedding, Vec<f64>)>);

impl TrainableModel for NetworkModel {
    type Kept = Self;
    type Scorer = NetworkScorer;

    fn begin(&mut self, data: &TrainingData<'_>, anew: bool) -> Result<()> {
        if anew || self.state.is_none() {
            self.state = self.start(data)?;
        } else if let Some(state) = &mut self.state {
            state.admit(data.memories());
        }
        Ok(())
    }

    fn values(&self, questions: &[Question<'_>]) -> Result<Vec<f64>> {
        let Some(State { body, .. }) = &self.state else {
            return Ok(vec![0.0; questions.iter().map(|asked| asked.sets.len()).sum()]);
        };
        let offsets = body.offsets();
        let mut values = Vec::new();
        for asked in questions {
            let texts = body.texts(&offsets, asked.task, &asked.memories)?;
            let pass = body.pass(&texts, None);
            for set in asked.sets {
                values.push(pass.set(&texts.places(set)?).value * body.frame.unit);
            }
        }
        Ok(values)
    }

    fn learn(
        &mut self,
        questions: &[Question<'_>],
        noise: u64,
        slopes: &mut dyn FnMut(&[f64]) -> Result<Vec<f64>>,
    ) -> Result<()> {
        let Some(state) = &mut self.state else {
            return Ok(());
        };
        let (body, gradient) = (&state.body, &mut state.gradient);
        let offsets = body.offsets();
        let texts: Vec<Texts> = questions
            .iter()
            .map(|asked| body.texts(&offsets, asked.task, &asked.memories))
            .collect::<Result<_>>()?;
        let drawn: Vec<Dropout> = questions
            .iter()
            .map(|asked| Dropout::draw(&body.settings, keyed(noise, asked.task.id.as_u128()).next_u64()))
            .collect();
        let mut passes = Vec::with_capacity(questions.len());
        let mut values = Vec::new();
        for ((asked, texts), drawn) in questions.iter().zip(&texts).zip(&drawn) {
            let pass = body.pass(texts, Some(drawn));
            let mut sets = Vec::with_capacity(asked.sets.len());
            for set in asked.sets {
                let places = texts.places(set)?;
                let done = pass.set(&places);
                values.push(done.value * body.frame.unit);
                sets.push((places, done));
            }
            passes.push((pass, sets));
        }
        let by_value = slopes(&values)?;
        let mut by_value = by_value.iter();
        let mut task_slopes = TextSlopes::default();
        let mut memory_slopes = MemorySlopes::default();
        for ((asked, texts), (pass, sets)) in questions.iter().zip(&texts).zip(&passes) {
            let mut own = pass.slopes();
            for ((places, done), slope) in sets.iter().zip(&mut by_value) {
                // In the network's unit squared the objective has the same size for labels of any size.
                pass.set_back(places, done, slope / body.frame.unit, &mut own, gradient);
            }
            let mut d_task = vec![0.0; body.settings.projection];
            pass.back(&texts.task, &mut own, gradient, &mut d_task, |at, slope| {
                memory_slopes.add(texts.ids[at], slope);
            });
            task_slopes.0.push((asked.task.embedding, d_task));
        }
        let memory_slopes = memory_slopes.with_texts(questions);
        state.projection_back(&task_slopes, &memory_slopes);
        Ok(())
    }

    fn step(&mut self, learning_rate: f64) -> Result<f64> {
        let Some(state) = &mut self.state else {
            return Ok(0.0);
        };
        let adam = &self.settings.adam;
        let parameters = &mut state.body.parameters;
        let norm = state.adam.step(adam, parameters, &state.gradient, learning_rate);
        state.gradient.clear();
        Ok(norm)
    }

    fn keep(&self) -> Self::Kept {
        self.clone()
    }

    fn restore(&mut self, kept: Self::Kept) {
        *self = kept;
    }

    fn publish(&self, version: ScorerVersion, scale: f64) -> Result<Arc<NetworkScorer>> {
        let body = self.state.as_ref().map(|state| state.body.clone());
        Ok(Arc::new(NetworkScorer::new(version, scale, body)))
    }
}

/// Slopes of reduced memories, added up over the tasks of a batch.
#[derive(Default)]
struct MemorySlopes(std::collections::BTreeMap<MemoryId, Vec<f64>>);

impl MemorySlopes {
    fn add(&mut self, id: MemoryId, slope: &[f64]) {
        let sum = self.0.entry(id).or_insert_with(|| vec![0.0; slope.len()]);
        add_scaled(sum, 1.0, slope);
    }

    fn with_texts<'a>(mut self, questions: &[Question<'a>]) -> TextSlopes<'a> {
        let mut slopes = TextSlopes::default();
        for memory in questions.iter().flat_map(|asked| &asked.memories) {
            if let Some(slope) = self.0.remove(&memory.id) {
                slopes.0.push((memory.embedding, slope));
            }
        }
        slopes
    }
}
