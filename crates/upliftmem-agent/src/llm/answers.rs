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

    /// Whether an answer is one of the accepted, but for case, punctuation and articles. Nothing is never right.
    pub(super) fn equals(&self, answer: &str) -> bool {
        let words = normalised(answer);
        !words.is_empty() && self.accepted.iter().any(|accepted| normalised(accepted) == words)
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

/// Words without case, punctuation and articles; a text without any word is one word as it is.
fn normalised(text: &str) -> Vec<String> {
    let text = text.trim().replace('\u{2212}', "-");
    let mut words = Vec::new();
    let mut rest = text.as_str();
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        // A hyphen between words is none.
        let is_minus = first == '-'
            && !before.is_alphanumeric()
            && rest[1..].starts_with(|next: char| next.is_ascii_digit());
        let start = usize::from(is_minus);
        let length = rest[start..]
            .find(|character: char| !character.is_alphanumeric())
            .map_or(rest.len(), |end| start + end);
        let (word, after) = rest.split_at(length.max(first.len_utf8()));
        if length > 0 && !is_article(word, after) {
            words.push(word.to_lowercase());
        }
        before = word.chars().next_back().unwrap_or(first);
        rest = after;
    }
    if words.is_empty() && !text.is_empty() {
        words.push(text.to_lowercase());
    }
    words
}

/// Whether a word is an article before what follows. One that stands alone may be a blood type, an option or a vitamin.
fn is_article(word: &str, after: &str) -> bool {
    let next = after.trim_start();
    matches!(word.to_lowercase().as_str(), "a" | "an" | "the")
        && next.len() < after.len()
        && next.starts_with(|next: char| next.is_alphanumeric() || "\"'`([*_\u{201c}\u{2018}".contains(next))
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
    fn an_article_that_is_all_of_an_answer_is_none() {
        let answer = expected(json!("A"));
        for right in ["A", "a.", "(A)"] {
            assert!(answer.equals(right) && answer.is_in(right), "{right}");
        }
        for right in ["It is A.", "A, because she said so", "Answer: **A**"] {
            assert!(answer.is_in(right), "{right}");
        }
        for wrong in ["", " ", ".", "B", "a dog", "It is a dog"] {
            assert!(!answer.equals(wrong) && !answer.is_in(wrong), "{wrong}");
        }
        assert!(!expected(json!("vitamin A")).is_in("It is vitamin B"));
        assert!(expected(json!("The The")).is_in("It is by The The."));
    }

    #[test]
    fn a_minus_counts_and_a_hyphen_does_not() {
        let answer = expected(json!("-5"));
        assert!(answer.equals("-5") && answer.equals("\u{2212}5") && answer.is_in("It is -5 degrees"));
        assert!(!answer.equals("5") && !answer.is_in("It is 5 degrees"));
        assert!(!expected(json!("5")).is_in("It is -5 degrees"));
        assert!(expected(json!("apollo 11")).equals("Apollo-11"));
    }

    #[test]
    fn marks_alone_are_told_apart() {
        assert!(expected(json!("+")).equals(" + "));
        assert!(!expected(json!("+")).equals("-"));
        assert!(!expected(json!("+")).equals(""));
    }

    #[test]
    fn a_task_without_an_answer_is_refused_and_nothing_is_shown() {
        let error = ExpectedAnswer::of(&Task::new("q7", "Who?")).unwrap_err();
        assert!(error.contains("q7"), "{error}");
        assert_eq!(format!("{:?}", expected(json!("secret"))), "ExpectedAnswer(..)");
    }
}
