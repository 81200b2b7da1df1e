//! One immutable version of the language-model scorer.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Instant,
};

use candle_core::{Device, Tensor};
use upliftmem_core::MemorySet;
use upliftmem_lm::PrefixCache;

use super::{
    Adapter, Base, Calibration, LmSettings, LmTokenizer, Sharing,
    candidates::{CandidateTexts, values},
    prompt,
    reader::{Reader, Reading},
};
use crate::{
    Ask, MemoryInput, ScorerVersion, Scores, SetScorer, TaskInput, TaskScorer,
    embedder::hash::mix,
    error::{Result, ScorerError},
};

/// Dropout passes that a standard deviation rests on.
const DEVIATION_DRAWS: u64 = 8;
/// Their seed: a deviation is a function of the task and the set alone.
const DEVIATION_SEED: u64 = 0x6c6d;

/// A frozen model ready to score: shared by all adapters.
pub struct LmBase {
    pub(crate) base: Base,
    pub(crate) tokenizer: LmTokenizer,
    pub(crate) settings: LmSettings,
    pub(crate) direction: Tensor,
    pub(crate) tail: usize,
}

impl LmBase {
    /// Reads a model from a directory of the Hugging Face hub or a GGUF file.
    pub fn load(path: &Path, settings: LmSettings, device: &Device) -> Result<Arc<Self>> {
        let (base, tokenizer) = Base::load(path, device)?;
        Self::new(base, tokenizer, settings)
    }

    /// From a model and its tokenizer.
    pub fn new(base: Base, tokenizer: LmTokenizer, settings: LmSettings) -> Result<Arc<Self>> {
        settings.check()?;
        let (yes, no) = (tokenizer.single(&settings.yes)?, tokenizer.single(&settings.no)?);
        Ok(Arc::new(Self {
            direction: base.margin_direction(yes, no)?,
            tail: prompt::tail(&tokenizer)?,
            base,
            tokenizer,
            settings,
        }))
    }

    /// The model.
    pub const fn base(&self) -> &Base {
        &self.base
    }

    /// Its tokenizer.
    pub const fn tokenizer(&self) -> &LmTokenizer {
        &self.tokenizer
    }

    /// What was chosen.
    pub const fn settings(&self) -> &LmSettings {
        &self.settings
    }

    /// Tokens of the prompt for a task and the members of a set.
    pub fn prompt_length(&self, context: &str, texts: &[&str]) -> Result<usize> {
        Ok(self.prompt(context, texts)?.len())
    }

    /// The tokens of the prompt for a set.
    pub(crate) fn prompt(&self, context: &str, texts: &[&str]) -> Result<Vec<u32>> {
        prompt::tokens(
            &self.tokenizer,
            &self.settings.instruction,
            context,
            texts.iter().copied(),
        )
    }
}

/// What the model says of one set.
#[derive(Debug, Clone, PartialEq)]
pub struct SetReading {
    /// The predicted uplift.
    pub value: f64,
    /// The logit of yes minus that of no; 0 for the empty set. Paper: z_theta(c, S).
    pub logit_margin: f64,
    /// The final hidden state that the margin was read from; empty for the empty set. Paper: varphi.
    pub features: Vec<f32>,
}

/// A base with an adapter and a calibration: one version.
pub struct LmScorer {
    version: ScorerVersion,
    pub(crate) base: Arc<LmBase>,
    pub(crate) adapter: Option<Arc<Adapter>>,
    calibration: Calibration,
    cache: Mutex<PrefixCache>,
}

impl LmScorer {
    /// A version. Without an adapter the model answers as it was trained.
    pub fn new(
        version: ScorerVersion,
        base: Arc<LmBase>,
        adapter: Option<Arc<Adapter>>,
        calibration: Calibration,
    ) -> Self {
        let tokens = base.settings.cache_bytes / base.base.kept_bytes().max(1);
        Self {
            version,
            base,
            adapter,
            calibration,
            cache: Mutex::new(PrefixCache::new(tokens)),
        }
    }

    /// What margins are mapped to values by.
    pub const fn calibration(&self) -> Calibration {
        self.calibration
    }

    /// The adapter, if there is one.
    pub fn adapter(&self) -> Option<&Adapter> {
        self.adapter.as_deref()
    }

    /// Prepares a task, as [`SetScorer::bind`] does.
    pub fn bind_task<'a>(&'a self, task: TaskInput<'a>, memories: &[MemoryInput<'a>]) -> BoundLm<'a> {
        BoundLm {
            scorer: self,
            context: task.context,
            memories: CandidateTexts::new(memories),
        }
    }

    fn reader<'a>(&'a self, adapter: Option<&'a Adapter>, cached: bool) -> Reader<'a> {
        Reader {
            base: &self.base.base,
            adapter,
            direction: &self.base.direction,
            pass_tokens: self.base.settings.pass_tokens,
            cache: cached.then_some(&self.cache),
        }
    }
}

/// A scorer bound to a task and its candidates.
pub struct BoundLm<'a> {
    scorer: &'a LmScorer,
    context: &'a str,
    memories: CandidateTexts<'a>,
}

impl BoundLm<'_> {
    /// The prompts of all sets but the empty one, with the places of their sets.
    fn prompts(&self, sets: &[MemorySet]) -> Result<(Vec<usize>, Vec<Vec<u32>>)> {
        let (mut places, mut texts) = (Vec::new(), Vec::new());
        for (place, set) in sets.iter().enumerate().filter(|(_, set)| !set.is_empty()) {
            places.push(place);
            texts.push(self.scorer.base.prompt(self.context, &self.memories.of(set)?)?);
        }
        Ok((places, texts))
    }

    /// Reads sets until there is no time left; what was not read is `None`.
    pub fn read(&self, sets: &[MemorySet], deadline: Option<Instant>) -> Result<Vec<Option<SetReading>>> {
        self.read_shared(sets, Sharing::Tree, deadline)
    }

    /// The same, sharing as little as is asked for: to compare with.
    pub fn read_shared(
        &self,
        sets: &[MemorySet],
        sharing: Sharing,
        deadline: Option<Instant>,
    ) -> Result<Vec<Option<SetReading>>> {
        let reader = self
            .scorer
            .reader(self.scorer.adapter(), sharing == Sharing::Tree);
        let (places, texts) = self.prompts(sets)?;
        let found = reader.read(&texts, self.scorer.base.tail, sharing, deadline)?;
        let empty = SetReading {
            value: 0.0,
            logit_margin: 0.0,
            features: Vec::new(),
        };
        let mut all: Vec<Option<SetReading>> = sets
            .iter()
            .map(|set| set.is_empty().then(|| empty.clone()))
            .collect();
        for (place, reading) in places.into_iter().zip(found) {
            all[place] = reading.map(|reading| self.valued(reading)).transpose()?;
        }
        Ok(all)
    }

    fn valued(&self, reading: Reading) -> Result<SetReading> {
        let value = self.scorer.calibration.value(reading.margin);
        if !value.is_finite() {
            return Err(ScorerError::Numerical {
                step: "the language model",
                problem: format!("the margin of a set is {}", reading.margin),
            });
        }
        Ok(SetReading {
            value,
            logit_margin: reading.margin,
            features: reading.hidden,
        })
    }

    /// The values of all sets by one function drawn by dropout.
    fn draw(&self, sets: usize, places: &[usize], texts: &[Vec<u32>], seed: u64) -> Result<Vec<f64>> {
        let drawn = self
            .scorer
            .adapter()
            .map(|adapter| adapter.drawn(seed))
            .transpose()?;
        let reader = self.scorer.reader(drawn.as_ref(), false);
        let found = reader.read(texts, self.scorer.base.tail, Sharing::Tree, None)?;
        let mut values = vec![0.0; sets];
        for (&place, reading) in places.iter().zip(found) {
            values[place] = reading.map_or(0.0, |reading| self.scorer.calibration.value(reading.margin));
        }
        Ok(values)
    }
}

impl SetScorer for LmScorer {
    fn version(&self) -> ScorerVersion {
        self.version
    }

    fn bind<'a>(
        &'a self,
        task: TaskInput<'a>,
        memories: &[MemoryInput<'a>],
    ) -> Result<Box<dyn TaskScorer + 'a>> {
        Ok(Box::new(self.bind_task(task, memories)))
    }
}

impl TaskScorer for BoundLm<'_> {
    fn score_until(&self, sets: &[MemorySet], deadline: Instant) -> Result<Vec<Option<f64>>> {
        Ok(values(self.read(sets, Some(deadline))?))
    }

    fn score(&self, sets: &[MemorySet], ask: Ask) -> Result<Scores> {
        let values: Vec<f64> = values(self.read(sets, None)?)
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect();
        let (places, texts) = if ask.draws > 0 || ask.deviations {
            self.prompts(sets)?
        } else {
            (Vec::new(), Vec::new())
        };
        let draws = (0..ask.draws as u64)
            .map(|draw| self.draw(sets.len(), &places, &texts, mix(ask.seed).wrapping_add(draw)))
            .collect::<Result<_>>()?;
        let mut deviations = Vec::new();
        if ask.deviations {
            let mut squares = vec![0.0; sets.len()];
            for draw in 0..DEVIATION_DRAWS {
                let drawn = self.draw(
                    sets.len(),
                    &places,
                    &texts,
                    mix(DEVIATION_SEED).wrapping_add(draw),
                )?;
                for ((square, drawn), value) in squares.iter_mut().zip(drawn).zip(&values) {
                    *square += (drawn - value).powi(2) / DEVIATION_DRAWS as f64;
                }
            }
            deviations = squares.into_iter().map(f64::sqrt).collect();
        }
        Ok(Scores {
            version: self.scorer.version,
            values,
            deviations,
            draws,
        })
    }
}
