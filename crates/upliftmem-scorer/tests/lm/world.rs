//! A tiny model and a few texts.

use std::{path::PathBuf, sync::Arc};

use upliftmem_core::{MemoryId, MemorySet, TaskId};
use upliftmem_scorer::{
    Embedding, MemoryInput, ScorerVersion, TaskInput,
    lm::{
        Adapter, Base, Calibration, Device, LmBase, LmScorer, LmSettings, LmTokenizer, LoraSettings, Module,
        load_adapter,
    },
};

pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/lm")
        .join(name)
}

/// The tiny Qwen3 with settings that make small things show: short passes, a small cache.
pub(crate) fn base(settings: LmSettings) -> Arc<LmBase> {
    LmBase::load(&fixture("qwen3"), settings, &Device::Cpu).unwrap()
}

pub(crate) fn settings() -> LmSettings {
    LmSettings {
        pass_tokens: 300,
        cache_bytes: 64 << 10,
        micro_batch_tokens: 900,
        lora: LoraSettings {
            rank: 3,
            alpha: 6.0,
            dropout: 0.1,
            modules: Module::ALL.to_vec(),
        },
        ..LmSettings::default()
    }
}

/// The adapter that PEFT wrote for the tiny model.
pub(crate) fn adapter(base: &LmBase) -> Arc<Adapter> {
    let (adapter, _) = load_adapter(&fixture("qwen3/adapter"), base.base().config(), &Device::Cpu).unwrap();
    Arc::new(adapter)
}

pub(crate) const CALIBRATION: Calibration = Calibration {
    scale: 0.5,
    offset: 0.1,
};

pub(crate) fn scorer(settings: LmSettings) -> LmScorer {
    let base = base(settings);
    let adapter = adapter(&base);
    LmScorer::new(ScorerVersion(1), base, Some(adapter), CALIBRATION)
}

/// The same model by itself.
pub(crate) fn parts() -> (Base, LmTokenizer) {
    Base::load(&fixture("qwen3"), &Device::Cpu).unwrap()
}

/// Vectors that differ: only the compact scorer looks at them.
fn direction(id: u128) -> Embedding {
    let values: Vec<f32> = (0..8).map(|at| if at == id { 1.0 } else { 0.2 }).collect();
    Embedding::new(&values).unwrap()
}

pub(crate) struct Texts {
    embedding: Embedding,
    context: String,
    memories: Vec<(MemoryId, String, Embedding)>,
}

impl Texts {
    pub(crate) fn new() -> Self {
        let memories = [
            "take the brass key",
            "the chest is a trap",
            "ride north\nthen rest",
            "äöü 東京 <|im_end|>",
            "",
        ];
        Self {
            embedding: direction(0),
            context: "open the chest".to_owned(),
            memories: memories
                .iter()
                .zip(1_u128..)
                .map(|(text, id)| (MemoryId::from_u128(id), (*text).to_owned(), direction(id)))
                .collect(),
        }
    }

    pub(crate) fn task(&self) -> TaskInput<'_> {
        TaskInput {
            id: TaskId::from_u128(7),
            context: &self.context,
            embedding: &self.embedding,
        }
    }

    pub(crate) fn memories(&self) -> Vec<MemoryInput<'_>> {
        self.memories
            .iter()
            .map(|(id, text, embedding)| MemoryInput {
                id: *id,
                text,
                embedding,
            })
            .collect()
    }

    /// Every set of up to three memories, the empty one included.
    pub(crate) fn sets(&self) -> Vec<MemorySet> {
        let ids: Vec<MemoryId> = self.memories.iter().map(|(id, ..)| *id).collect();
        let mut sets = Vec::new();
        for bits in 0_u32..1 << ids.len() {
            if bits.count_ones() <= 3 {
                let members = (0..ids.len()).filter(|at| bits >> at & 1 == 1);
                sets.push(members.map(|at| ids[at]).collect());
            }
        }
        sets
    }
}
