//! What each part of UpliftMem is worth. Paper: tab. ablation.

use serde::{Deserialize, Serialize};

use super::{
    Bench, Event, Result,
    methods::{line, native, uplift},
    scores::MethodScores,
    uplift::Variant,
};
use crate::systems::{SystemName, build};

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ablation {
    /// The same pool by similarity: the compact scorer has no values before it has labels.
    Base,
    /// A part left out.
    Part(Variant),
}

impl Ablation {
    /// All, in the order of the table.
    pub const ALL: [Self; 5] = [
        Self::Base,
        Self::Part(Variant::WarmUp),
        Self::Part(Variant::NoProbes),
        Self::Part(Variant::RandomProbes),
        Self::Part(Variant::Full),
    ];

    /// The name in the table.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Base => "Similarity alone",
            Self::Part(Variant::WarmUp) => "Warm-up only",
            Self::Part(Variant::NoProbes) => "No probing",
            Self::Part(Variant::RandomProbes) => "Random probing",
            Self::Part(Variant::Full) => "Full",
        }
    }
}

/// Trains and evaluates every variant on the same pool.
///
/// # Errors
/// The first that stops; what was finished is kept.
pub async fn ablations(bench: &Bench) -> Result<Vec<MethodScores>> {
    let mut all = Vec::new();
    for ablation in Ablation::ALL {
        let key = match ablation {
            Ablation::Base => "ablation-base".to_owned(),
            Ablation::Part(variant) => format!("ablation-{}", variant.key()),
        };
        let scores = match bench.recorded::<MethodScores>(&key)? {
            Some(scores) => scores,
            None => {
                let scores = match ablation {
                    Ablation::Base => by_similarity(bench, ablation.title()).await?,
                    Ablation::Part(variant) => uplift(bench, variant, ablation.title()).await?,
                };
                bench.record(&key, &scores)?;
                scores
            }
        };
        bench.tell(Event::Note(line(bench, &scores)?));
        all.push(scores);
    }
    Ok(all)
}

async fn by_similarity(bench: &Bench, title: &str) -> Result<MethodScores> {
    let experiences = bench.seed_experiences().await?;
    let system = build(SystemName::DenseRag, bench.sources(experiences)).await?;
    let count = bench.suite.memories_max();
    native(bench, title, system.as_ref(), experiences.len() as u64, count).await
}
