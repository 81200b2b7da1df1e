//! Whether an answer is right. Only the judge sees what was expected.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use upliftmem_core::Task;

/// How answers are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerScoring {
    /// The answer is the expected one, but for case, punctuation and articles.
    Exact,
    /// The expected one is in it, as whole words.
    Contains,
    /// Of the given choices the expected one is the likeliest. Nothing is generated.
    Choice,
    /// A language model compares it with the expected one by a rubric.
    Judge,
}

impl AnswerScoring {
    /// The word for it in settings and in the names of executors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Contains => "contains",
            Self::Choice => "choice",
            Self::Judge => "judge",
        }
    }
}

/// What a task's owner expects, from its metadata: `answer` (a text or a list of texts), `choices`, `rubric`. It is shown
/// to no agent: no prompt builder takes it, and its `Debug` tells nothing. `feedback` is what the world says once the answer
/// was given; it is part of the trajectory, from which memories may be written.
#[derive(Clone, PartialEq, Eq)]
pub struct ExpectedAnswer {
    accepted: Vec<String>,
    choices: Vec<String>,
    rubric: Option<String>,
    feedback: Option<String>,
}

impl std::fmt::Debug for ExpectedAnswer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ExpectedAnswer(..)")
    }
}

impl ExpectedAnswer {
    /// Reads what is expected. The error says what the metadata lack.
    pub fn of(task: &Task) -> Result<Self, String> {
        let texts = |key: &str| -> Vec<String> {
            match task.metadata.get(key) {
                Some(Value::String(text)) => vec![text.clone()],
                Some(Value::Array(list)) => {
                    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
                }
                _ => Vec::new(),
            }
        };
        let accepted = texts("answer");
        if accepted.iter().all(|answer| answer.trim().is_empty()) {
            return Err(format!(
                "task {:?} has no \"answer\" in its metadata; give a text or a list of texts",
                task.name
            ));
        }
        let text = |key: &str| task.metadata.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            accepted,
            choices: texts("choices"),
            rubric: text("rubric"),
            feedback: text("feedback"),
        })
    }

    /// The choices, in the task's order.
    pub(super) fn choices(&self) -> &[String] {
        &self.choices
    }

    /// What counts for a judge.
    pub(super) fn rubric(&self) -> &str {
        self.rubric
            .as_deref()
            .unwrap_or("The answer must name the same thing as the reference answer.")
    }

    /// What the world says to an answer.
    pub(super) fn reaction(&self, right: bool) -> String {
        let verdict = if right {
            "The answer is right."
        } else {
            "The answer is wrong."
        };
        match &self.feedback {
            Some(feedback) => format!("{verdict} {feedback}"),
            None => verdict.to_owned(),
        }
    }

    /// The first accepted answer.
    pub(super) fn reference(&self) -> &str {
        self.accepted.first().map_or("", String::as_str)
    }

    /// Whether an answer is one of the accepted, but for case, punctuation and articles.
    pub(super) fn equals(&self, answer: &str) -> bool {
        let words = normalised(answer);
        self.accepted.iter().any(|accepted| normalised(accepted) == words)
    }

    /// Whether an accepted answer is in it, as whole words.
    pub(super) fn is_in(&self, answer: &str) -> bool {
        let words = normalised(answer);
        self.accepted
            .iter()
            .map(|accepted| normalised(accepted))
            .any(|accepted| {
                !accepted.is_empty() && words.windows(accepted.len()).any(|part| part == accepted)
            })
    }
}

/// Words without case, punctuation and articles.
fn normalised(text: &str) -> Vec<String> {
    text.split(|character: char| !character.is_alphanumeric())
        .map(str::to_lowercase)
        .filter(|word| !matches!(word.as_str(), "" | "a" | "an" | "the"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn expected(answer: Value) -> ExpectedAnswer {
        let mut task = Task::new("q", "Who?");
        task.metadata.insert("answer".into(), answer);
        ExpectedAnswer::of(&task).unwrap()
    }

    #[test]
    fn case_punctuation_and_articles_do_not_count() {
        let answer = expected(json!(["The Blue Heron", "heron"]));
        for right in ["blue heron", "Blue-Heron.", "the HERON!"] {
            assert!(answer.equals(right), "{right}");
        }
        assert!(!answer.equals("a blue heron, I think"));
        assert!(answer.is_in("It is a blue heron, I think"));
        assert!(!answer.is_in("herons"));
        assert!(!answer.is_in(""));
    }

    #[test]
    fn a_task_without_an_answer_is_refused_and_nothing_is_shown() {
        let error = ExpectedAnswer::of(&Task::new("q7", "Who?")).unwrap_err();
        assert!(error.contains("q7"), "{error}");
        assert_eq!(format!("{:?}", expected(json!("secret"))), "ExpectedAnswer(..)");
    }
}
