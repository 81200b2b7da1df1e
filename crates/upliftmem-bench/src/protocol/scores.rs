//! What a method scored, and the statistics of it. Paper: app. metrics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use upliftmem_core::statistics::{Interval, Summary, paired_differences};

use super::Result;

/// Outcomes of a method on one part of the evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartScores {
    /// Performance and cost, by run, then by task.
    pub outcomes: Vec<Vec<(f64, f64)>>,
    /// Memories that each task was given.
    pub sizes: Vec<usize>,
}

/// Outcomes of a method on all parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodScores {
    /// The method's name in tables.
    pub method: String,
    /// Memories in its store.
    pub store: usize,
    /// Executions that it took to build and train it, evaluation not counted.
    pub executions: u64,
    /// Scores by part.
    pub parts: BTreeMap<String, PartScores>,
}

/// A mean over runs with the sample deviation over runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The mean.
    pub mean: f64,
    /// The sample deviation; none with a single run.
    pub deviation: Option<f64>,
}

impl PartScores {
    fn over_runs(&self, of: impl Fn(&(f64, f64)) -> f64) -> Result<Cell> {
        let means: Vec<f64> = self
            .outcomes
            .iter()
            .map(|run| run.iter().map(&of).sum::<f64>() / run.len().max(1) as f64)
            .collect();
        let summary = Summary::of(&means)?;
        Ok(Cell {
            mean: summary.mean,
            deviation: summary.standard_deviation,
        })
    }

    /// Share of tasks solved, in percent.
    ///
    /// # Errors
    /// There is no run.
    pub fn success(&self) -> Result<Cell> {
        self.over_runs(|outcome| if outcome.0 >= 1.0 { 100.0 } else { 0.0 })
    }

    /// Mean reward, in percent of the largest.
    ///
    /// # Errors
    /// There is no run.
    pub fn reward(&self) -> Result<Cell> {
        self.over_runs(|outcome| 100.0 * outcome.0)
    }

    /// Mean number of actions.
    ///
    /// # Errors
    /// There is no run.
    pub fn steps(&self) -> Result<Cell> {
        self.over_runs(|outcome| outcome.1)
    }

    /// Share of tasks solved, by task, over runs.
    fn by_task(&self) -> Vec<f64> {
        let runs = self.outcomes.len().max(1) as f64;
        let tasks = self.outcomes.first().map_or(0, Vec::len);
        let solved = |task: usize| self.outcomes.iter().filter(|run| run[task].0 >= 1.0).count() as f64;
        (0..tasks).map(|task| 100.0 * solved(task) / runs).collect()
    }

    /// How much more this solves than another, in points, with the 95 % interval over tasks, paired by task.
    ///
    /// # Errors
    /// The two are not of the same tasks.
    pub fn gain_over(&self, other: &Self) -> Result<(f64, Option<Interval>)> {
        let differences = paired_differences(&self.by_task(), &other.by_task())?;
        let summary = Summary::of(&differences)?;
        Ok((summary.mean, summary.t_interval(0.95)?))
    }

    /// Whether each task was solved in the first run.
    pub fn solved(&self) -> Vec<bool> {
        let run = self.outcomes.first().map_or(&[][..], Vec::as_slice);
        run.iter().map(|outcome| outcome.0 >= 1.0).collect()
    }

    /// Share of tasks that got no memory, in percent.
    pub fn abstained(&self) -> f64 {
        let none = self.sizes.iter().filter(|size| **size == 0).count();
        100.0 * none as f64 / self.sizes.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_and_steps_are_means_over_runs_with_sample_deviations() {
        let scores = PartScores {
            outcomes: vec![vec![(1.0, 10.0), (0.0, 30.0)], vec![(1.0, 8.0), (1.0, 12.0)]],
            sizes: vec![2, 0],
        };
        let success = scores.success().unwrap();
        assert_eq!(success.mean, 75.0);
        assert!((success.deviation.unwrap() - (2.0_f64 * 25.0 * 25.0).sqrt()).abs() < 1e-9);
        assert_eq!(scores.steps().unwrap().mean, 15.0);
        assert_eq!(scores.abstained(), 50.0);
        assert_eq!(scores.solved(), [true, false]);
        let nothing = PartScores {
            outcomes: vec![vec![(0.0, 30.0), (0.0, 30.0)]],
            sizes: vec![0, 0],
        };
        assert_eq!(scores.gain_over(&nothing).unwrap().0, 75.0);
        let one = PartScores {
            outcomes: vec![vec![(0.0, 30.0)]],
            sizes: vec![0],
        };
        assert!(scores.gain_over(&one).is_err());
    }
}
