//! MemRL: memories as intent, experience and value; values are learned from outcomes.
//!
//! Retrieval has two phases: the nearest by intent, then those of the largest sum of standardised similarity and
//! standardised value. After an execution the value of every memory that was shown moves towards the reward. New
//! experience is written with a value of zero. A language model summarises it; without one, or where its answer is none, the summary is
//! the suite's lesson of the play.

use async_trait::async_trait;
use upliftmem_agent::prompts::Template;

use super::{
    MemorySystem, Query, Shelf, Sources,
    steps::{text_in, told},
};
use crate::{
    protocol::Result,
    suite::{Experience, LessonKind},
};

const SUMMARY: Template = Template(include_str!("../../prompts/memrl_experience.txt"));

/// Candidates of the first phase.
const CANDIDATES: usize = 20;
/// Weight of the value in the second.
const VALUE_WEIGHT: f64 = 0.5;
/// How far a value moves towards a reward.
const STEP: f64 = 0.3;

pub(super) struct MemRl {
    shelf: Shelf,
    values: Vec<f64>,
}

impl MemRl {
    pub(super) async fn build(sources: Sources<'_>) -> Result<Self> {
        let mut system = Self {
            shelf: Shelf::new(sources.embedder),
            values: Vec::new(),
        };
        for experience in sources.experiences {
            system.write(experience, sources).await?;
        }
        Ok(system)
    }

    async fn write(&mut self, experience: &Experience, sources: Sources<'_>) -> Result<()> {
        for text in summaries(experience, sources).await? {
            if self.shelf.texts().contains(&text) {
                continue;
            }
            let intent = self.shelf.embed(&experience.task.context)?;
            self.shelf.push(text, intent);
            self.values.push(0.0);
        }
        Ok(())
    }
}

/// What to know of a play: how it was solved, or what went wrong.
async fn summaries(experience: &Experience, sources: Sources<'_>) -> Result<Vec<String>> {
    if let Some(steps) = sources.steps {
        let outcome = if experience.succeeded() {
            "was solved"
        } else {
            "was not solved"
        };
        let told = told(experience);
        let fields = [("outcome", Some(outcome)), ("experience", Some(told.as_str()))];
        if let Some(summary) = steps.ask("memrl-experience", SUMMARY, &fields, text_in).await? {
            return Ok(vec![summary]);
        }
    }
    let lessons = sources.suite.lessons(experience).into_iter();
    let told = lessons.filter(|lesson| lesson.kind != LessonKind::Fact);
    Ok(told.map(|lesson| lesson.text).collect())
}

/// Distances from the mean in standard deviations; all zero where there is no spread.
fn standardised(values: &[f64]) -> Vec<f64> {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    let deviation = variance.sqrt();
    let of = |value: &f64| {
        if deviation > 1e-12 {
            (value - mean) / deviation
        } else {
            0.0
        }
    };
    values.iter().map(of).collect()
}

#[async_trait]
impl MemorySystem for MemRl {
    fn memories(&self) -> &[String] {
        self.shelf.texts()
    }

    fn retrieve(&self, query: &Query<'_>, count: usize) -> Vec<usize> {
        let near = self
            .shelf
            .nearest(query.embedding, CANDIDATES.max(count), |_| true);
        let similarity: Vec<f64> = near.iter().map(|(_, similarity)| *similarity).collect();
        let values: Vec<f64> = near.iter().map(|(place, _)| self.values[*place]).collect();
        let (similarity, values) = (standardised(&similarity), standardised(&values));
        let mut ranked: Vec<(f64, usize)> = (0..near.len())
            .map(|at| {
                let score = (1.0 - VALUE_WEIGHT) * similarity[at] + VALUE_WEIGHT * values[at];
                (score, near[at].0)
            })
            .collect();
        ranked.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
        ranked.into_iter().take(count).map(|(_, place)| place).collect()
    }

    fn learns(&self) -> bool {
        true
    }

    async fn learn(&mut self, given: &[usize], experience: &Experience, sources: Sources<'_>) -> Result<()> {
        // A failure is a punishment, or nothing could ever fall below what has not been tried.
        let reward = 2.0 * experience.execution.performance.get() - 1.0;
        for &place in given {
            self.values[place] += STEP * (reward - self.values[place]);
        }
        self.write(experience, sources).await
    }
}

#[cfg(test)]
mod tests {
    use super::standardised;

    #[test]
    fn no_spread_is_no_preference() {
        assert_eq!(standardised(&[0.4, 0.4]), [0.0, 0.0]);
        assert_eq!(standardised(&[1.0, 3.0]), [-1.0, 1.0]);
        assert!(standardised(&[]).is_empty());
    }
}
