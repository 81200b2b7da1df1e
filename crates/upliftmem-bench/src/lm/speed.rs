//! Tokens a second, memory, and the time of one whole retrieval.
//!
//! Other work on a machine disturbs CPU seconds least: rates are per second of CPU time, of all threads together.

use std::time::Instant;

use serde::Serialize;
use upliftmem_core::{
    BeamSearch, BeamSettings, Candidate, CandidatePool, Limits, MemoryId, MemorySet, SearchSpace,
};
use upliftmem_scorer::{
    Result,
    lm::{Adapter, Architecture, Base, Device, KvCache, LmConfig, LoraSettings, Sharing, TokenScorer},
};

/// Bytes of keys and values that a retrieval keeps.
const CACHE_BYTES: usize = 1 << 30;
/// Tokens that go through the model together.
const PASS_TOKENS: usize = 1024;
/// The two answers; any tokens will do.
const ANSWERS: [u32; 2] = [9693, 2152];
/// The retrieval: tokens before the first memory, of a memory, and after the last.
const PREFIX: usize = 200;
const MEMORY: usize = 60;
const TAIL: usize = 12;
/// Sets that the slower ways are measured on.
const SAMPLE: usize = 8;

/// Tokens and what they took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// Tokens read.
    pub tokens: usize,
    /// Seconds by the clock.
    pub seconds: f64,
    /// Seconds of CPU time.
    pub cpu_seconds: f64,
    /// Largest memory of the process meanwhile, in bytes.
    pub peak_bytes: Option<u64>,
}

impl Rate {
    /// Tokens per second of CPU time.
    pub fn per_cpu_second(&self) -> f64 {
        self.tokens as f64 / self.cpu_seconds
    }
}

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

/// The shape of Qwen3-Reranker-0.6B.
pub fn qwen3_reranker_shape() -> LmConfig {
    LmConfig {
        architecture: Architecture::Qwen3,
        hidden: 1024,
        intermediate: 3072,
        layers: 28,
        heads: 16,
        key_heads: 8,
        head_size: 128,
        vocabulary: 151_669,
        positions: 40_960,
        norm_epsilon: 1e-6,
        rope_base: 1e6,
        rope_scaling: None,
        tied: true,
        attention_bias: false,
    }
}

/// Repeatable tokens.
fn tokens(count: usize, seed: u64, vocabulary: usize) -> Vec<u32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            #[expect(clippy::cast_possible_truncation, reason = "a vocabulary is far smaller")]
            {
                (state % vocabulary as u64) as u32
            }
        })
        .collect()
}

fn measured<T>(tokens: usize, work: impl FnOnce() -> Result<T>) -> Result<(T, Rate)> {
    forget_peak();
    let (cpu, clock) = (cpu_seconds(), Instant::now());
    let result = work()?;
    let rate = Rate {
        tokens,
        seconds: clock.elapsed().as_secs_f64(),
        cpu_seconds: cpu_seconds() - cpu,
        peak_bytes: peak_bytes(),
    };
    Ok((result, rate))
}

/// Reads one text of so many tokens, `rounds` times.
pub fn forward(base: &Base, length: usize, rounds: usize) -> Result<Rate> {
    let scorer = TokenScorer::new(base, None, answers(base), PASS_TOKENS, 0)?;
    let text = vec![tokens(length, 1, base.config().vocabulary)];
    scorer.margins(&text, 1, Sharing::None)?;
    let work = || (0..rounds).try_for_each(|_| scorer.margins(&text, 1, Sharing::None).map(drop));
    Ok(measured(length * rounds, work)?.1)
}

/// One way forth and back of a LoRA adapter as in the paper, `rounds` times.
pub fn lora_step(base: &Base, length: usize, rounds: usize, activation_bytes: usize) -> Result<Rate> {
    let adapter = Adapter::first(base.config(), LoraSettings::default(), 1, &Device::Cpu)?;
    let scorer = TokenScorer::new(base, None, answers(base), PASS_TOKENS, 0)?;
    let text = vec![tokens(length, 1, base.config().vocabulary)];
    let step = || scorer.step(&adapter, &text, activation_bytes).map(drop);
    step()?;
    Ok(measured(length * rounds, || (0..rounds).try_for_each(|_| step()))?.1)
}

/// Reads a text of so many tokens and goes on for so many more, the likeliest each time, `rounds` times: what reading
/// took, and what answering took.
pub fn chat(base: &Base, prompt: usize, answer: usize, rounds: usize) -> Result<[Rate; 2]> {
    let vocabulary = base.config().vocabulary;
    let mut rates = [(prompt, 0.0, 0.0), (answer, 0.0, 0.0)].map(|(tokens, seconds, cpu_seconds)| Rate {
        tokens: tokens * rounds,
        seconds,
        cpu_seconds,
        peak_bytes: None,
    });
    // The first round finds caches cold and pages untouched.
    for round in 0..=rounds {
        let text = tokens(prompt, 1 + round as u64, vocabulary);
        let mut cache = KvCache::default();
        let (mut next, reading) = measured(prompt, || {
            let hidden = base.forward(&text, &mut cache, None)?;
            Ok(base.likeliest(&hidden, prompt - 1)?)
        })?;
        let ((), answering) = measured(answer, || {
            for _ in 0..answer {
                let hidden = base.forward(&[next], &mut cache, None)?;
                next = base.likeliest(&hidden, 0)?;
            }
            Ok(())
        })?;
        if round > 0 {
            for (sum, rate) in rates.iter_mut().zip([reading, answering]) {
                sum.seconds += rate.seconds;
                sum.cpu_seconds += rate.cpu_seconds;
                sum.peak_bytes = sum.peak_bytes.max(rate.peak_bytes);
            }
        }
    }
    Ok(rates)
}

fn answers(base: &Base) -> [u32; 2] {
    #[expect(clippy::cast_possible_truncation, reason = "a vocabulary is far smaller")]
    ANSWERS.map(|token| token % base.config().vocabulary as u32)
}

/// One beam retrieval of width 2 over candidates of about 60 tokens, up to five at once: every way of sharing.
pub fn retrieval(base: &Base, candidates: usize) -> Result<Vec<RetrievalTime>> {
    let vocabulary = base.config().vocabulary;
    let prefix = tokens(PREFIX, 1, vocabulary);
    let tail = tokens(TAIL, 2, vocabulary);
    let text = |set: &MemorySet| {
        let mut text = prefix.clone();
        for (&id, number) in set.iter().zip(3_u32..) {
            text.push(number);
            text.extend(tokens(MEMORY - 1, 100 + number_of(id), vocabulary));
        }
        text.extend(&tail);
        text
    };
    let ids = 0..candidates as u128;
    let pool = ids
        .map(|id| Candidate {
            id: MemoryId::from_u128(id),
            tokens: 60,
        })
        .collect();
    let pool = CandidatePool::new(pool)?;
    let mut search = BeamSearch::new(SearchSpace::new(&pool, Limits::count(5)), BeamSettings::default())?;
    let scorer = TokenScorer::new(base, None, answers(base), PASS_TOKENS, CACHE_BYTES)?;
    let (mut asked_for, mut texts, mut margins) = (Vec::new(), Vec::new(), Vec::new());
    let ((), tree) = measured(0, || {
        while let Some(sets) = search.to_score() {
            let asked: Vec<Vec<u32>> = sets.iter().map(text).collect();
            let values = scorer.margins(&asked, TAIL, Sharing::Tree)?;
            // Every depth is searched: the measure is of a retrieval that goes all the way.
            let lifted: Vec<f64> = values
                .iter()
                .zip(sets)
                .map(|(value, set)| value + 100.0 * set.len() as f64)
                .collect();
            asked_for.extend_from_slice(sets);
            search.take_values(&lifted)?;
            texts.extend(asked);
            margins.extend(values);
        }
        Ok(())
    })?;
    let whole: usize = texts.iter().map(Vec::len).sum();
    let sample: Vec<usize> = (0..texts.len())
        .step_by(texts.len().div_ceil(SAMPLE).max(1))
        .collect();
    let examples = sample.iter().map(|&at| ScoredExample {
        members: asked_for[at].iter().copied().map(number_of).collect(),
        margin: margins[at],
    });
    let mut times = vec![RetrievalTime {
        sharing: "trie".to_owned(),
        sets: texts.len(),
        measured: texts.len(),
        tokens: shared_tokens(&texts),
        cpu_seconds: tree.cpu_seconds,
        seconds: tree.seconds,
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

/// CPU time of the process so far.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Largest memory of the process since the last call of [`forget_peak`], where the system tells.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Starts the peak anew; where the system does not allow it the peak is that of the whole process.
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
