//! The language model as the trainer sees it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use candle_core::Tensor;
use upliftmem_lm::{Dropout, Trie};

use super::{
    Adapter, Calibration, LmBase, LmScorer, Sharing, numerical,
    optimiser::{Moved, Optimiser},
    reader::Reader,
    tape::{Learnable, Tape},
};
use crate::{
    ScorerVersion,
    embedder::hash::mix,
    error::{Result, ScorerError, invalid},
    trainer::{Question, TrainableModel, TrainingData},
};

/// Labels whose margins say where the calibration starts.
const CENTRE_LABELS: usize = 64;

/// An adapter that is being trained beside a frozen base.
#[derive(Clone)]
pub struct LmModel {
    pub(crate) base: Arc<LmBase>,
    /// Seed of the first parameters.
    pub(crate) seed: u64,
    pub(crate) state: Option<LmState>,
    /// Tokens that have gone through the model while learning, for whoever shows progress.
    tokens: Arc<AtomicU64>,
}

/// What training changes: adapter, calibration and optimiser at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct LmState {
    pub(crate) moved: Moved,
    pub(crate) optimiser: Optimiser,
    pub(crate) gradient: Moved,
}

/// Texts that go through the model together.
struct MicroBatch {
    texts: Vec<Vec<u32>>,
    /// Their numbers among all sets that were asked for.
    sets: Vec<usize>,
}

impl LmModel {
    /// An adapter that has seen nothing.
    pub fn new(base: Arc<LmBase>, seed: u64) -> Self {
        Self {
            base,
            seed,
            state: None,
            tokens: Arc::default(),
        }
    }

    /// Goes on from an adapter, with a fresh optimiser.
    pub fn from_adapter(
        base: Arc<LmBase>,
        seed: u64,
        adapter: &Adapter,
        calibration: Calibration,
    ) -> Result<Self> {
        if *adapter.settings() != base.settings.lora {
            return Err(invalid(
                "adapter",
                "has another shape than lm.lora says; set lm.lora to the adapter's rank, alpha, dropout and modules",
            ));
        }
        let mut model = Self::new(base, seed);
        model.state = Some(LmState::of(adapter, calibration)?);
        Ok(model)
    }

    /// Counts tokens read while learning. Clones count together.
    pub fn tokens_read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.tokens)
    }

    /// The adapter and calibration as they are.
    pub fn adapter(&self) -> Result<(Adapter, Calibration)> {
        let mut adapter = self.first_adapter()?;
        let Some(state) = &self.state else {
            return Ok((adapter, self.first_calibration()));
        };
        let pairs = adapter.layers.iter_mut().flatten();
        let matrices = pairs.flat_map(|pair| [&mut pair.down, &mut pair.up]);
        for (matrix, values) in matrices.zip(&state.moved.matrices) {
            *matrix =
                Tensor::from_slice(values, matrix.shape(), self.base.base.device()).map_err(numerical)?;
        }
        let [scale, offset] = state.moved.calibration;
        Ok((adapter, Calibration { scale, offset }))
    }

    fn first_adapter(&self) -> Result<Adapter> {
        let base = &self.base.base;
        let lora = self.base.settings.lora.clone();
        Ok(Adapter::first(base.config(), lora, self.seed, base.device())?)
    }

    /// Where training begins: nothing learned, nothing remembered.
    pub(crate) fn first_state(&self) -> Result<LmState> {
        LmState::of(&self.first_adapter()?, self.first_calibration())
    }

    fn first_calibration(&self) -> Calibration {
        Calibration {
            scale: self.base.settings.first_scale,
            offset: 0.0,
        }
    }

    fn prompts(&self, questions: &[Question<'_>]) -> Result<Vec<Vec<u32>>> {
        let mut texts = Vec::new();
        for asked in questions {
            for set in asked.sets {
                let members = set
                    .iter()
                    .map(|id| {
                        let found = asked.memories.iter().find(|memory| memory.id == *id);
                        found.map(|memory| memory.text).ok_or_else(|| {
                            invalid(format_args!("memory {id}"), "has no text in the question")
                        })
                    })
                    .collect::<Result<Vec<&str>>>()?;
                texts.push(self.base.prompt(asked.task.context, &members)?);
            }
        }
        Ok(texts)
    }

    /// Texts in an order that brings common starts together, as many in a batch as fit.
    fn micro_batches(&self, texts: Vec<Vec<u32>>) -> Vec<MicroBatch> {
        let mut numbered: Vec<(usize, Vec<u32>)> = texts.into_iter().enumerate().collect();
        numbered.sort_by(|a, b| a.1.cmp(&b.1).then(a.0.cmp(&b.0)));
        let mut batches: Vec<MicroBatch> = Vec::new();
        let mut tokens = usize::MAX;
        for (set, text) in numbered {
            let shared = batches
                .last()
                .and_then(|batch| batch.texts.last())
                .map_or(0, |before| {
                    before.iter().zip(&text).take_while(|(a, b)| a == b).count()
                });
            tokens = tokens.saturating_add(text.len() - shared);
            if tokens > self.base.settings.micro_batch_tokens {
                tokens = text.len();
                batches.push(MicroBatch {
                    texts: Vec::new(),
                    sets: Vec::new(),
                });
            }
            if let Some(batch) = batches.last_mut() {
                batch.texts.push(text);
                batch.sets.push(set);
            }
        }
        batches
    }

    /// Goes forth with a batch. Gives the way back and the margins in the order of its texts.
    fn forth<'a>(
        &'a self,
        learnable: &'a Learnable,
        batch: &MicroBatch,
        dropout: Option<Dropout>,
        memory: &mut usize,
    ) -> Result<(Tape<'a>, Vec<usize>, Vec<f64>)> {
        let trie = Trie::new(&batch.texts, usize::MAX);
        self.tokens.fetch_add(trie.tokens() as u64, Ordering::Relaxed);
        let pass = self.base.base.pass(&trie.segments(&batch.texts), false)?;
        let direction = &self.base.direction;
        let tape =
            Tape::forward(&self.base.base, learnable, pass, dropout, direction, memory).map_err(numerical)?;
        // A row for each node that ends texts; equal texts share it.
        let mut rows = vec![0; batch.texts.len()];
        let ends = trie.nodes.iter().filter(|node| !node.ends.is_empty());
        for (row, node) in ends.enumerate() {
            for &text in &node.ends {
                rows[text] = row;
            }
        }
        let margins = rows.iter().map(|&row| tape.margins[row]).collect();
        Ok((tape, rows, margins))
    }

    /// Bytes of layer inputs that a batch keeps at least.
    fn least_bytes(&self, batch: &MicroBatch) -> usize {
        let config = self.base.base.config();
        let tokens = Trie::new(&batch.texts, usize::MAX).tokens();
        tokens * config.layers * config.hidden * size_of::<f32>()
    }
}

impl LmState {
    fn of(adapter: &Adapter, calibration: Calibration) -> Result<Self> {
        let pairs = adapter.layers.iter().flatten();
        let matrices = pairs
            .flat_map(|pair| [&pair.down, &pair.up])
            .map(|matrix| matrix.flatten_all()?.to_vec1::<f32>())
            .collect::<candle_core::Result<_>>()
            .map_err(numerical)?;
        let moved = Moved {
            matrices,
            calibration: [calibration.scale, calibration.offset],
        };
        Ok(Self {
            optimiser: Optimiser::new(&moved),
            gradient: moved.zeros(),
            moved,
        })
    }
}

impl TrainableModel for LmModel {
    type Kept = Option<LmState>;
    type Scorer = LmScorer;

    fn begin(&mut self, data: &TrainingData<'_>, anew: bool) -> Result<()> {
        if self.state.is_some() && !anew {
            return Ok(());
        }
        let mut calibration = self.first_calibration();
        self.state = Some(self.first_state()?);
        // Margins of an untrained model have any offset: begin where the mean prediction is the mean label.
        let step = data.values.len().div_ceil(CENTRE_LABELS).max(1);
        let (mut gap, mut count) = (0.0, 0.0);
        for example in data.values.iter().step_by(step) {
            let members = example
                .set
                .iter()
                .map(|&id| data.corpus.memory(id))
                .collect::<Result<Vec<_>>>()?;
            let question = Question {
                task: data.corpus.task(example.label.task)?,
                memories: members,
                sets: std::slice::from_ref(&example.set),
            };
            for value in self.values(&[question])? {
                gap += example.label.uplift.get() - value;
                count += 1.0;
            }
        }
        if count > 0.0 {
            calibration.offset = gap / count;
        }
        self.state = Some(LmState::of(&self.first_adapter()?, calibration)?);
        Ok(())
    }

    fn values(&self, questions: &[Question<'_>]) -> Result<Vec<f64>> {
        let (adapter, calibration) = self.adapter()?;
        let texts = self.prompts(questions)?;
        let reader = Reader {
            base: &self.base.base,
            adapter: Some(&adapter),
            direction: &self.base.direction,
            pass_tokens: self.base.settings.pass_tokens,
            cache: None,
        };
        let found = reader.read(&texts, self.base.tail, Sharing::Tree, None)?;
        Ok(found
            .into_iter()
            .map(|reading| reading.map_or(0.0, |reading| calibration.value(reading.margin)))
            .collect())
    }

    /// As many ways back are kept as memory allows; the other batches go forth a second time.
    fn learn(
        &mut self,
        questions: &[Question<'_>],
        noise: u64,
        slopes: &mut dyn FnMut(&[f64]) -> Result<Vec<f64>>,
    ) -> Result<()> {
        let Some(state) = &self.state else {
            return Ok(());
        };
        let mut gradient = state.gradient.clone();
        let (adapter, calibration) = self.adapter()?;
        let learnable = Learnable::new(&adapter).map_err(numerical)?;
        let texts = self.prompts(questions)?;
        let mut margins = vec![0.0; texts.len()];
        let batches = self.micro_batches(texts);
        let rate = self.base.settings.lora.dropout;
        let dropout = |at: usize| {
            (rate > 0.0).then(|| Dropout {
                rate,
                seed: mix(noise).wrapping_add(at as u64),
            })
        };
        let mut memory = self.base.settings.activation_bytes;
        let mut kept = Vec::with_capacity(batches.len());
        for (at, batch) in batches.iter().enumerate() {
            let keep = at == 0 || memory >= self.least_bytes(batch);
            let mut none = 0;
            let room = if keep { &mut memory } else { &mut none };
            let (tape, rows, found) = self.forth(&learnable, batch, dropout(at), room)?;
            for (&set, margin) in batch.sets.iter().zip(found) {
                margins[set] = margin;
            }
            kept.push(keep.then_some((tape, rows)));
        }
        let values: Vec<f64> = margins.iter().map(|&margin| calibration.value(margin)).collect();
        let by_value = slopes(&values)?;
        for (slope, margin) in by_value.iter().zip(&margins) {
            gradient.calibration[0] += slope * margin;
            gradient.calibration[1] += slope;
        }
        for (at, (batch, kept)) in batches.iter().zip(kept).enumerate() {
            let (tape, rows) = match kept {
                Some(kept) => kept,
                None => {
                    let (tape, rows, _) = self.forth(&learnable, batch, dropout(at), &mut memory)?;
                    (tape, rows)
                }
            };
            let mut by_row = vec![0.0_f32; tape.margins.len()];
            for (&set, &row) in batch.sets.iter().zip(&rows) {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "slopes go back in single precision"
                )]
                {
                    by_row[row] += (by_value[set] * calibration.scale) as f32;
                }
            }
            let freed = self.least_bytes(batch);
            tape.backward(&by_row, &mut gradient.matrices)
                .map_err(numerical)?;
            memory = memory
                .saturating_add(freed)
                .min(self.base.settings.activation_bytes);
        }
        if let Some(state) = &mut self.state {
            state.gradient = gradient;
        }
        Ok(())
    }

    fn step(&mut self, learning_rate: f64) -> Result<f64> {
        let settings = &self.base.settings;
        let Some(state) = &mut self.state else {
            return Ok(0.0);
        };
        let norm = state.optimiser.step(
            &settings.adam,
            &mut state.moved,
            &state.gradient,
            learning_rate,
            settings.calibration_speed,
        );
        state.gradient = state.moved.zeros();
        if norm.is_finite() {
            return Ok(norm);
        }
        Err(ScorerError::Numerical {
            step: "training",
            problem: format!("the gradient's length is {norm}; lower the learning rate"),
        })
    }

    fn keep(&self) -> Self::Kept {
        self.state.clone()
    }

    fn restore(&mut self, kept: Self::Kept) {
        self.state = kept;
    }

    /// The scale goes into the calibration: it is saved with it.
    fn publish(&self, version: ScorerVersion, scale: f64) -> Result<Arc<LmScorer>> {
        let (adapter, calibration) = self.adapter()?;
        Ok(Arc::new(LmScorer::new(
            version,
            Arc::clone(&self.base),
            Some(Arc::new(adapter)),
            calibration.scaled(scale),
        )))
    }
}
