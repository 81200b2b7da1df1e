//! Several scorers that answer as one: the mean of their values.

use std::sync::Arc;

use upliftmem_core::MemorySet;

use crate::{
    Ask, MemoryInput, ScorerVersion, Scores, SetScorer, TaskInput, TaskScorer,
    error::{Result, invalid},
};

/// Averages scorers that see the same labels differently. What they disagree about counts as uncertainty.
pub struct Ensemble {
    version: ScorerVersion,
    members: Vec<Arc<dyn SetScorer>>,
}

impl Ensemble {
    /// An ensemble of at least one scorer.
    pub fn new(version: ScorerVersion, members: Vec<Arc<dyn SetScorer>>) -> Result<Self> {
        if members.is_empty() {
            return Err(invalid("ensemble", "has no members; give it at least one scorer"));
        }
        Ok(Self { version, members })
    }
}

struct BoundEnsemble<'a> {
    version: ScorerVersion,
    members: Vec<Box<dyn TaskScorer + 'a>>,
}

impl SetScorer for Ensemble {
    fn version(&self) -> ScorerVersion {
        self.version
    }

    fn bind<'a>(
        &'a self,
        task: TaskInput<'a>,
        memories: &[MemoryInput<'a>],
    ) -> Result<Box<dyn TaskScorer + 'a>> {
        let members = self
            .members
            .iter()
            .map(|member| member.bind(task, memories))
            .collect::<Result<_>>()?;
        Ok(Box::new(BoundEnsemble {
            version: self.version,
            members,
        }))
    }
}

impl TaskScorer for BoundEnsemble<'_> {
    /// The variance of a value is the members' mean variance plus the variance of their values. Each draw is a draw
    /// of one member, in turn.
    fn score(&self, sets: &[MemorySet], ask: Ask) -> Result<Scores> {
        let count = self.members.len();
        let mut values = vec![0.0; sets.len()];
        let mut squares = vec![0.0; sets.len()];
        let mut variances = vec![0.0; sets.len()];
        let mut draws = vec![Vec::new(); ask.draws];
        for (at, member) in self.members.iter().enumerate() {
            let own_draws = (at..ask.draws).step_by(count).count();
            let seed = ask.seed.wrapping_add(at as u64);
            let scores = member.score(
                sets,
                Ask {
                    draws: own_draws,
                    seed,
                    ..ask
                },
            )?;
            for (set, value) in scores.values.iter().enumerate() {
                values[set] += value / count as f64;
                squares[set] += value * value / count as f64;
            }
            for (set, deviation) in scores.deviations.iter().enumerate() {
                variances[set] += deviation * deviation / count as f64;
            }
            for (draw, own) in (at..ask.draws).step_by(count).zip(scores.draws) {
                draws[draw] = own;
            }
        }
        let deviations = if ask.deviations {
            (0..sets.len())
                .map(|set| (variances[set] + (squares[set] - values[set] * values[set]).max(0.0)).sqrt())
                .collect()
        } else {
            Vec::new()
        };
        Ok(Scores {
            version: self.version,
            values,
            deviations,
            draws,
        })
    }
}
