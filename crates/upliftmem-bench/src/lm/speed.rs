//! Tokens a second and memory.
//!
//! Other work on a machine disturbs CPU seconds least: rates are per second of CPU time, of all threads together.

use std::time::Instant;

use serde::Serialize;
use upliftmem_scorer::{
    Result,
    lm::{Adapter, Architecture, Base, Device, KvCache, LmConfig, LoraSettings, Sharing, TokenScorer},
};

/// Tokens that go through the model together.
pub(super) const PASS_TOKENS: usize = 1024;
/// The two answers; any tokens will do.
const ANSWERS: [u32; 2] = [9693, 2152];
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
pub(super) fn tokens(count: usize, seed: u64, vocabulary: usize) -> Vec<u32> {
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

pub(super) fn measured<T>(tokens: usize, work: impl FnOnce() -> Result<T>) -> Result<(T, Rate)> {
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

pub(super) fn answers(base: &Base) -> [u32; 2] {
    #[expect(clippy::cast_possible_truncation, reason = "a vocabulary is far smaller")]
    ANSWERS.map(|token| token % base.config().vocabulary as u32)
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
