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
    /// Whether the suite's behaviour was shown, by run, then by task; empty where it is not looked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behaviours: Vec<Vec<bool>>,
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

impl Cell {
    /// A number of each run.
    ///
    /// # Errors
    /// There is no run.
    pub fn over(runs: &[f64]) -> Result<Self> {
        let summary = Summary::of(runs)?;
        Ok(Self {
            mean: summary.mean,
            deviation: summary.standard_deviation,
        })
    }
}

fn over_runs<T>(runs: &[Vec<T>], of: impl Fn(&T) -> f64) -> Result<Cell> {
    let mean = |run: &Vec<T>| run.iter().map(&of).sum::<f64>() / run.len().max(1) as f64;
    Cell::over(&runs.iter().map(mean).collect::<Vec<f64>>())
}

/// How often something is so, by task, over runs, in percent.
fn by_task<T>(runs: &[Vec<T>], is: impl Fn(&T) -> bool) -> Vec<f64> {
    let tasks = runs.first().map_or(0, Vec::len);
    let often = |task: usize| runs.iter().filter(|run| is(&run[task])).count() as f64;
    (0..tasks)
        .map(|task| 100.0 * often(task) / runs.len().max(1) as f64)
        .collect()
}

fn difference(own: &[f64], other: &[f64]) -> Result<(f64, Option<Interval>)> {
    let summary = Summary::of(&paired_differences(own, other)?)?;
    Ok((summary.mean, summary.t_interval(0.95)?))
}

impl PartScores {
    /// Share of tasks solved, in percent.
    ///
    /// # Errors
    /// There is no run.
    pub fn success(&self) -> Result<Cell> {
        over_runs(
            &self.outcomes,
            |outcome| if outcome.0 >= 1.0 { 100.0 } else { 0.0 },
        )
    }

    /// Mean reward, in percent of the largest.
    ///
    /// # Errors
    /// There is no run.
    pub fn reward(&self) -> Result<Cell> {
        over_runs(&self.outcomes, |outcome| 100.0 * outcome.0)
    }

    /// Share of executions that show the suite's behaviour, in percent.
    ///
    /// # Errors
    /// It was not looked for.
    pub fn behaviour(&self) -> Result<Cell> {
        over_runs(&self.behaviours, |shown| if *shown { 100.0 } else { 0.0 })
    }

    /// Mean cost: actions, or tokens.
    ///
    /// # Errors
    /// There is no run.
    pub fn steps(&self) -> Result<Cell> {
        over_runs(&self.outcomes, |outcome| outcome.1)
    }

    /// How much more this solves than another, in points, with the 95 % interval over tasks, paired by task.
    ///
    /// # Errors
    /// The two are not of the same tasks.
    pub fn gain_over(&self, other: &Self) -> Result<(f64, Option<Interval>)> {
        let solved = |scores: &Self| by_task(&scores.outcomes, |outcome| outcome.0 >= 1.0);
        difference(&solved(self), &solved(other))
    }

    /// How much more this shows the behaviour than another, in points, as [`Self::gain_over`].
    ///
    /// # Errors
    /// The two are not of the same tasks, or it was not looked for.
    pub fn behaviour_over(&self, other: &Self) -> Result<(f64, Option<Interval>)> {
        let shown = |scores: &Self| by_task(&scores.behaviours, |shown| *shown);
        difference(&shown(self), &shown(other))
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
            behaviours: vec![vec![true, false], vec![true, true]],
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
            behaviours: vec![vec![true, true]],
            sizes: vec![0, 0],
        };
        assert_eq!(scores.gain_over(&nothing).unwrap().0, 75.0);
        assert_eq!(scores.behaviour().unwrap().mean, 75.0);
        assert_eq!(scores.behaviour_over(&nothing).unwrap().0, -25.0);
        let one = PartScores {
            outcomes: vec![vec![(0.0, 30.0)]],
            behaviours: Vec::new(),
            sizes: vec![0],
        };
        assert!(scores.gain_over(&one).is_err());
        assert!(one.behaviour().is_err());
    }
}
