//! The time of one whole retrieval.

use serde::Serialize;
use upliftmem_core::{
    BeamSearch, BeamSettings, Candidate, CandidatePool, Limits, MemoryId, MemorySet, SearchSpace,
};
use upliftmem_scorer::{
    Result,
    lm::{Base, Sharing, TokenScorer},
};

use super::speed::{PASS_TOKENS, Rate, answers, measured, tokens};

/// Bytes of keys and values that a retrieval keeps.
const CACHE_BYTES: usize = 1 << 30;
/// Tokens before the first memory, of a memory, and after the last.
const PREFIX: usize = 200;
const MEMORY: usize = 60;
const TAIL: usize = 12;
/// Sets that the slower ways are measured on.
const SAMPLE: usize = 8;

/// One way of scoring all sets of a retrieval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetrievalTime {
    /// What sets share.
    pub sharing: String,
    /// Sets of the retrieval.
    pub sets: usize,
    /// Sets that were measured; seconds are scaled up by tokens if fewer.
    pub measured: usize,
    /// Tokens that are read for all sets.
    pub tokens: usize,
    /// Seconds of CPU time for all sets.
    pub cpu_seconds: f64,
    /// Seconds by the clock for all sets.
    pub seconds: f64,
    /// Largest difference of a margin from the tree's.
    pub largest_gap: f64,
    /// Sets that were scored, for others to score too.
    pub examples: Vec<ScoredExample>,
}

/// A set of candidates by their numbers, and its margin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoredExample {
    /// The members.
    pub members: Vec<u64>,
    /// The logit of one answer minus that of the other.
    pub margin: f64,
}

/// A retrieval through the tree in which chance says what sets are kept. How much sets share depends on which they are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DrawnTime {
    /// What chance begins with.
    pub seed: u64,
    /// Sets of the retrieval.
    pub sets: usize,
    /// Tokens of all sets, one by one.
    pub whole: usize,
    /// Tokens of the tree.
    pub tokens: usize,
    /// Seconds of CPU time through the tree.
    pub cpu_seconds: f64,
    /// Seconds by the clock through the tree.
    pub seconds: f64,
}

/// All sets that one beam retrieval scored through the tree.
struct Search {
    sets: Vec<MemorySet>,
    texts: Vec<Vec<u32>>,
    margins: Vec<f64>,
    rate: Rate,
}

impl Search {
    /// Tokens of all texts, one by one.
    fn whole(&self) -> usize {
        self.texts.iter().map(Vec::len).sum()
    }
}

fn text(set: &MemorySet, vocabulary: usize) -> Vec<u32> {
    let mut text = tokens(PREFIX, 1, vocabulary);
    for (&id, number) in set.iter().zip(3_u32..) {
        text.push(number);
        text.extend(tokens(MEMORY - 1, 100 + number_of(id), vocabulary));
    }
    text.extend(tokens(TAIL, 2, vocabulary));
    text
}

/// Searches all the way down. `worth` says which sets of a size are kept, by their number among all and their margin.
fn search(
    base: &Base,
    scorer: &TokenScorer<'_>,
    candidates: usize,
    worth: impl Fn(usize, f64) -> f64,
) -> Result<Search> {
    let pool = (0..candidates as u128).map(|id| Candidate {
        id: MemoryId::from_u128(id),
        tokens: 60,
    });
    let pool = CandidatePool::new(pool.collect())?;
    let mut search = BeamSearch::new(SearchSpace::new(&pool, Limits::count(5)), BeamSettings::default())?;
    let (mut all, mut texts, mut margins) = (Vec::new(), Vec::new(), Vec::new());
    let ((), rate) = measured(0, || {
        while let Some(sets) = search.to_score() {
            let asked: Vec<Vec<u32>> = sets
                .iter()
                .map(|set| text(set, base.config().vocabulary))
                .collect();
            let values = scorer.margins(&asked, TAIL, Sharing::Tree)?;
            // Every depth is searched: the measure is of a retrieval that goes all the way.
            let lifted: Vec<f64> = (all.len()..)
                .zip(&values)
                .zip(sets)
                .map(|((number, &value), set)| worth(number, value) + 100.0 * set.len() as f64)
                .collect();
            all.extend_from_slice(sets);
            search.take_values(&lifted)?;
            texts.extend(asked);
            margins.extend(values);
        }
        Ok(())
    })?;
    Ok(Search {
        sets: all,
        texts,
        margins,
        rate,
    })
}

/// Beam retrievals as [`retrieval`] measures them, with what is kept drawn by chance.
pub fn drawn_retrievals(base: &Base, candidates: usize, draws: u64) -> Result<Vec<DrawnTime>> {
    let drawn = |seed: u64| {
        // Nothing is known from the draw before.
        let scorer = TokenScorer::new(base, None, answers(base), PASS_TOKENS, CACHE_BYTES)?;
        let chance = |number: usize| tokens(1, (seed << 32) + number as u64 + 1, 1_000_003)[0];
        let found = search(base, &scorer, candidates, |number, _| {
            f64::from(chance(number)) / 1e6
        })?;
        Ok(DrawnTime {
            seed,
            sets: found.sets.len(),
            whole: found.whole(),
            tokens: shared_tokens(&found.texts),
            cpu_seconds: found.rate.cpu_seconds,
            seconds: found.rate.seconds,
        })
    };
    (1..=draws).map(drawn).collect()
}

/// One beam retrieval of width 2 over candidates of about 60 tokens, up to five at once: every way of sharing.
pub fn retrieval(base: &Base, candidates: usize) -> Result<Vec<RetrievalTime>> {
    let scorer = TokenScorer::new(base, None, answers(base), PASS_TOKENS, CACHE_BYTES)?;
    let found = search(base, &scorer, candidates, |_, margin| margin)?;
    let whole = found.whole();
    let Search {
        sets,
        texts,
        margins,
        rate,
    } = found;
    let sample: Vec<usize> = (0..texts.len())
        .step_by(texts.len().div_ceil(SAMPLE).max(1))
        .collect();
    let examples = sample.iter().map(|&at| ScoredExample {
        members: sets[at].iter().copied().map(number_of).collect(),
        margin: margins[at],
    });
    let mut times = vec![RetrievalTime {
        sharing: "trie".to_owned(),
        sets: texts.len(),
        measured: texts.len(),
        tokens: shared_tokens(&texts),
        cpu_seconds: rate.cpu_seconds,
        seconds: rate.seconds,
        largest_gap: 0.0,
        examples: examples.collect(),
    }];
    let sampled: Vec<Vec<u32>> = sample.iter().map(|&at| texts[at].clone()).collect();
    let read: usize = sampled.iter().map(Vec::len).sum();
    for (name, sharing, all, part) in [
        (
            "query prefix",
            Sharing::Prefix,
            whole - PREFIX * (texts.len() - 1),
            read - PREFIX * (sampled.len() - 1),
        ),
        ("one by one", Sharing::None, whole, read),
    ] {
        let (found, rate) = measured(part, || scorer.margins(&sampled, TAIL, sharing))?;
        let gaps = found
            .iter()
            .zip(&sample)
            .map(|(margin, &at)| (margin - margins[at]).abs());
        let scale = all as f64 / part as f64;
        times.push(RetrievalTime {
            sharing: name.to_owned(),
            sets: texts.len(),
            measured: sampled.len(),
            tokens: all,
            cpu_seconds: rate.cpu_seconds * scale,
            seconds: rate.seconds * scale,
            largest_gap: gaps.fold(0.0, f64::max),
            examples: Vec::new(),
        });
    }
    times.reverse();
    Ok(times)
}

/// The number that a candidate was made of.
fn number_of(id: MemoryId) -> u64 {
    u64::try_from(id.as_u128()).unwrap_or(0)
}

/// Tokens of the prefix tree of all texts.
fn shared_tokens(texts: &[Vec<u32>]) -> usize {
    let mut sorted: Vec<&Vec<u32>> = texts.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let shared: usize = sorted
        .windows(2)
        .map(|pair| pair[0].iter().zip(pair[1]).take_while(|(a, b)| a == b).count())
        .sum();
    sorted.iter().map(|text| text.len()).sum::<usize>() - shared
}
