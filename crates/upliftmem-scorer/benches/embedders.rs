//! Sentences per second of each embedder on one core: `cargo bench -p upliftmem-scorer --bench embedders`.
//!
//! Models are looked for in the directory that the environment variable `UPLIFTMEM_TEST_MODELS` names.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]
#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use upliftmem_scorer::{
    embedder::{Embedder, HashEmbedder},
    models::open_directory,
};

/// Long enough to average over what else runs.
const TIME: Duration = Duration::from_secs(3);

fn main() {
    // Before the first use: the number of threads is fixed after it.
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()
        .unwrap();
    let sentences = sentences();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load before: {}", load.trim());
    println!(
        "{:<18} {:>12} {:>16} {:>16} {:>10}",
        "embedder", "sentences/s", "ms a sentence", "ms of processor", "alone"
    );
    report(&HashEmbedder::default(), &sentences);
    let models = std::env::var_os("UPLIFTMEM_TEST_MODELS").map(PathBuf::from);
    for name in ["potion-base-8M", "all-MiniLM-L6-v2"] {
        match models
            .as_ref()
            .map(|models| models.join(name))
            .filter(|model| model.exists())
        {
            Some(directory) => report(open_directory(&directory).unwrap().as_ref(), &sentences),
            None => println!("{name:<18} not here: set UPLIFTMEM_TEST_MODELS"),
        }
    }
}

/// 256 sentences of 8 to 40 words, 19 words on average.
fn sentences() -> Vec<String> {
    const WORDS: [&str; 24] = [
        "the",
        "agent",
        "restarts",
        "a",
        "database",
        "before",
        "migration",
        "and",
        "checks",
        "whether",
        "every",
        "user",
        "can",
        "still",
        "log",
        "in",
        "because",
        "an",
        "older",
        "note",
        "says",
        "that",
        "sessions",
        "expire",
    ];
    let mut state = 1_u64;
    let mut next = |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % limit) as usize
    };
    (0..256)
        .map(|_| {
            let length = 8 + next(17) + next(17) * next(2);
            let words: Vec<&str> = (0..length).map(|_| WORDS[next(WORDS.len() as u64)]).collect();
            format!("{}.", words.join(" "))
        })
        .collect()
}

/// In batches of 64 by the clock and by processor time, and one by one by processor time.
fn report(embedder: &dyn Embedder, sentences: &[String]) {
    let texts: Vec<&str> = sentences.iter().map(String::as_str).collect();
    let batch = |number: usize| embedder.embed(&texts[number % 4 * 64..][..64]).unwrap().len();
    let (clock, processor) = seconds_per_sentence(batch);
    let (_, alone) =
        seconds_per_sentence(|number| embedder.embed(&texts[number % 256..][..1]).unwrap().len());
    println!(
        "{:<18} {:>12.0} {:>16.4} {:>16.4} {:>10.4}",
        embedder.generation().name,
        1.0 / clock,
        clock * 1e3,
        processor * 1e3,
        alone * 1e3
    );
}

/// Seconds of the clock and of the processor; repeats until the time is over, the first repetition is not counted.
fn seconds_per_sentence(mut embed: impl FnMut(usize) -> usize) -> (f64, f64) {
    embed(0);
    let (started, used) = (Instant::now(), processor_seconds());
    let mut count = 0;
    for number in 1.. {
        count += embed(number);
        if started.elapsed() > TIME {
            break;
        }
    }
    let count = count as f64;
    (
        started.elapsed().as_secs_f64() / count,
        (processor_seconds() - used) / count,
    )
}

/// Processor time of this process: what the work costs, whatever else runs on the machine. Only on Linux.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // User and system time are the 12th and 13th field after the name, in hundredths of a second.
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after.split_whitespace().skip(11).take(2);
    ticks.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}
