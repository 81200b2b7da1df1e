//! How far something long is: a bar on a terminal, elsewhere a line now and then.

use std::{
    io::IsTerminal,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use upliftmem_engine::Progress;

use crate::output::Output;

/// Between two lines where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// What a bar says while a language model learns.
const LEARNING: &str = "learning";

/// Follows a run, or several that belong together.
pub(crate) struct Show {
    output: Output,
    bar: ProgressBar,
    lines: Option<Mutex<Lines>>,
}

/// What lines tell.
#[derive(Debug)]
struct Lines {
    started: Instant,
    told: Instant,
    step: String,
    done: u64,
    wanted: u64,
    /// Executions of all steps so far, and about how many there will be.
    all: u64,
    total: Option<u64>,
    /// When learning from texts began, if it is under way, and the tokens of it: read, and about how many there will be.
    learning: Option<Instant>,
    tokens: (u64, u64),
}

impl Show {
    pub(crate) fn new(output: Output) -> Self {
        Self::of(output, None)
    }

    /// Follows work of about so many executions in all.
    pub(crate) fn of(output: Output, total: Option<u64>) -> Self {
        let now = Instant::now();
        let told = !output.quiet && !std::io::stderr().is_terminal();
        Self {
            output,
            bar: output.bar(0, "starting"),
            lines: told.then(|| {
                Mutex::new(Lines {
                    started: now,
                    told: now,
                    step: "starting".into(),
                    done: 0,
                    wanted: 0,
                    all: 0,
                    total,
                    learning: None,
                    tokens: (0, 0),
                })
            }),
        }
    }

    pub(crate) fn take(&self, progress: Progress) {
        if let Some(lines) = &self.lines {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.take(&progress);
            if lines.told.elapsed() >= EVERY {
                lines.told = Instant::now();
                let text = match lines.learning {
                    Some(since) => lines.learning_text(since.elapsed()),
                    None => lines.text(lines.started.elapsed()),
                };
                self.output.note(&text);
            }
        }
        match progress {
            Progress::Step { what, executions } => {
                if self.bar.message() == LEARNING {
                    self.bar.set_style(self.output.bar(0, "").style());
                }
                self.bar.reset();
                self.bar.set_length(executions as u64);
                self.bar.set_message(what);
            }
            Progress::Executed(count) => self.bar.inc(count as u64),
            Progress::Stream { done, total } => tracing::info!("{done} of {total} tasks"),
            Progress::Learning { tokens, total } => self.learn(tokens, total),
            Progress::Updated { version, labels } => {
                if !self.output.json {
                    self.bar
                        .println(format!("version {version} learned from {labels} labels"));
                }
            }
        }
    }

    /// A bar of tokens, with their pace and the time that is left.
    fn learn(&self, tokens: u64, total: u64) {
        if self.bar.message() != LEARNING {
            self.bar.reset();
            self.bar.set_message(LEARNING);
            if let Ok(style) = indicatif::ProgressStyle::with_template(
                "{msg:10} {wide_bar} {pos}/{len} tokens  {per_sec}  {eta} left",
            ) {
                self.bar.set_style(style);
            }
        }
        self.bar.set_length(total);
        self.bar.set_position(tokens);
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Lines {
    fn take(&mut self, progress: &Progress) {
        match progress {
            Progress::Step { what, executions } => {
                self.step.clone_from(what);
                self.done = 0;
                self.wanted = *executions as u64;
            }
            Progress::Executed(count) => {
                self.done += *count as u64;
                self.all += *count as u64;
            }
            Progress::Learning { tokens, total } => {
                if *tokens == 0 || self.learning.is_none() {
                    self.learning = Some(Instant::now());
                }
                self.tokens = (*tokens, *total);
            }
            Progress::Stream { .. } => {}
            Progress::Updated { .. } => self.learning = None,
        }
    }

    /// What is learned from texts: tokens, how many a second, how long it may still take at the pace so far.
    fn learning_text(&self, gone: Duration) -> String {
        let (tokens, total) = self.tokens;
        let mut text = format!("learning: {tokens} of about {total} tokens");
        let pace = tokens as f64 / gone.as_secs_f64().max(f64::MIN_POSITIVE);
        if tokens > 0 && pace.is_finite() {
            let left = Duration::from_secs_f64(total.saturating_sub(tokens) as f64 / pace);
            text += &format!(", {pace:.0} a second, about {} left", clock(left));
        }
        text
    }

    /// The step, all of it, and how long it may still take at the pace so far.
    fn text(&self, gone: Duration) -> String {
        let mut text = format!("{}: {} of {}", self.step, self.done, self.wanted);
        let (done, total) = match self.total {
            Some(total) => {
                text += &format!("; in all {} of about {total}", self.all);
                (self.all, total)
            }
            None => (self.done, self.wanted),
        };
        text += &format!(", {} gone", clock(gone));
        if done > 0 && self.all > 0 {
            let each = gone.as_secs_f64() / self.all as f64;
            let left = Duration::from_secs_f64(each * total.saturating_sub(done) as f64);
            text += &format!(", about {} left", clock(left));
        }
        text
    }
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{seconds} s")
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(total: Option<u64>) -> Lines {
        let now = Instant::now();
        let mut lines = Lines {
            started: now,
            told: now,
            step: String::new(),
            done: 0,
            wanted: 0,
            all: 0,
            total,
            learning: None,
            tokens: (0, 0),
        };
        lines.take(&Progress::Step {
            what: "references".into(),
            executions: 30,
        });
        lines
    }

    #[test]
    fn a_line_says_the_step_the_whole_and_what_is_left() {
        let mut some = lines(Some(400));
        assert_eq!(
            some.text(Duration::from_secs(5)),
            "references: 0 of 30; in all 0 of about 400, 5 s gone"
        );
        some.take(&Progress::Executed(20));
        assert_eq!(
            some.text(Duration::from_secs(10)),
            "references: 20 of 30; in all 20 of about 400, 10 s gone, about 3 min 10 s left"
        );
        some.take(&Progress::Executed(500));
        assert!(some.text(Duration::from_secs(10)).ends_with("about 0 s left"));
    }

    #[test]
    fn learning_says_tokens_a_second_and_what_is_left() {
        let mut some = lines(None);
        some.take(&Progress::Learning {
            tokens: 0,
            total: 9_000,
        });
        assert_eq!(
            some.learning_text(Duration::from_secs(1)),
            "learning: 0 of about 9000 tokens"
        );
        some.take(&Progress::Learning {
            tokens: 3_000,
            total: 9_000,
        });
        assert!(some.learning.is_some());
        assert_eq!(
            some.learning_text(Duration::from_secs(30)),
            "learning: 3000 of about 9000 tokens, 100 a second, about 1 min 0 s left"
        );
        some.take(&Progress::Updated {
            version: 1,
            labels: 10,
        });
        assert!(some.learning.is_none());
    }

    #[test]
    fn without_a_whole_the_step_counts() {
        let mut some = lines(None);
        some.take(&Progress::Executed(10));
        assert_eq!(
            some.text(Duration::from_secs(10)),
            "references: 10 of 30, 10 s gone, about 20 s left"
        );
    }
}
