//! Clocks and sizes.

use std::{path::Path, time::Duration};

/// Times of single calls.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn add(&mut self, elapsed: Duration) {
        self.0.push(elapsed);
    }

    pub(crate) fn add_ms(&mut self, milliseconds: f64) {
        self.0.push(Duration::from_secs_f64(milliseconds.max(0.0) / 1e3));
    }

    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Median and 99th percentile in milliseconds.
    pub(crate) fn p50_p99(&mut self) -> (f64, f64) {
        self.0.sort_unstable();
        let at = |share: usize| self.0[(self.0.len() - 1) * share / 100].as_secs_f64() * 1e3;
        (at(50), at(99))
    }
}

/// Processor time of this process so far, in milliseconds; unlike the clock it does not count what others took.
pub(crate) fn processor_ms() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e6
}

/// Resident memory of this process.
pub(crate) fn memory_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: f64 = line
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or_default();
    kib / 1024.0
}

/// Bytes of all files of a folder.
pub(crate) fn disk(folder: &Path) -> f64 {
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let bytes: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    bytes as f64 / 1024.0 / 1024.0
}
