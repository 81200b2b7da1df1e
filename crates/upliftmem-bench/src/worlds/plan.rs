//! How large a world is, what its agent is like, and which numbers it draws.

use std::ops::RangeInclusive;

use super::execution::Habits;

/// Probability ranges that the worlds draw from.
pub(super) const STRONG: RangeInclusive<f64> = 0.75..=0.95;
pub(super) const WEAK: RangeInclusive<f64> = 0.25..=0.45;
pub(super) const HARM: RangeInclusive<f64> = 0.45..=0.8;
/// What an agent has mastered: nothing that memory says can improve it.
pub(super) const MASTERED: RangeInclusive<f64> = 0.992..=0.999;
pub(super) const KNOWN: RangeInclusive<f64> = 0.88..=0.97;
pub(super) const UNKNOWN: RangeInclusive<f64> = 0.12..=0.35;

/// How large a world is and what it is like; the families make the difference.
pub(super) struct Plan {
    pub(super) topics: usize,
    pub(super) train_tasks: usize,
    pub(super) test_tasks: usize,
    /// Share of topics whose kinds of job each go by rules of their own; in the others all kinds go by the same.
    pub(super) split: f64,
    /// Share of jobs whose tasks the agent solves alone.
    pub(super) solved_alone: f64,
    /// Position in the training stream from which the second era holds; `None` for one era.
    pub(super) change_at: Option<usize>,
    pub(super) habits: Habits,
}

impl Plan {
    /// The usual size and habits.
    pub(super) const USUAL: Self = Self {
        topics: 10,
        train_tasks: 450,
        test_tasks: 200,
        split: 0.5,
        solved_alone: 0.3,
        change_at: None,
        habits: Habits {
            half_tokens: 300.0,
            doubt: 0.5,
            trust: 0.8,
            clash: 0.5,
            reading: 0.012,
            distraction: 0.03,
        },
    };
}
