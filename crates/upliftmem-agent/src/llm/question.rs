//! One question, one answer.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use upliftmem_core::{Cost, Performance, Task, TrajectoryStep};

use super::{AnswerScoring, ExpectedAnswer};
use crate::{
    Execution, ExecutionRequest, Executor, ExecutorError,
    chat::{ChatMessage, ChatModel, ChatRequest, Sampling, Usage, spoken},
    prompts::{InjectedMemories, Judged, MemoryBudget, PublicTask, judge_messages, question_messages},
    text::short_hash,
};

/// How often a judge that gives no verdict is asked again.
const JUDGE_ASKED: u64 = 3;
/// Least tokens of a judge's answer: some say a word around their number.
const JUDGE_TOKENS: usize = 64;

/// How questions are asked.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionSettings {
    /// How answers are scored.
    pub scoring: AnswerScoring,
    /// How answers are drawn; the seed is the execution's.
    pub sampling: Sampling,
    /// How much of the prompt memories may take.
    pub budget: MemoryBudget,
}

impl Default for QuestionSettings {
    fn default() -> Self {
        Self {
            scoring: AnswerScoring::Contains,
            sampling: Sampling {
                max_tokens: 48,
                ..Sampling::default()
            },
            budget: MemoryBudget::default(),
        }
    }
}

/// Answers questions. A task's context is the question; what is expected is in its metadata. The cost of an execution is
/// the number of tokens that its memories take.
pub struct QuestionExecutor {
    name: String,
    model: Arc<dyn ChatModel>,
    /// Who compares answers, if one does.
    judge: Option<Arc<dyn ChatModel>>,
    settings: QuestionSettings,
}

/// An answer with its score.
struct Answered {
    text: String,
    performance: f64,
    usage: Usage,
    notes: Map<String, Value>,
}

impl QuestionExecutor {
    /// A model that answers; with scoring by a judge, the judge is it too unless another is given.
    pub fn new(
        model: Arc<dyn ChatModel>,
        judge: Option<Arc<dyn ChatModel>>,
        settings: QuestionSettings,
    ) -> Self {
        Self {
            // How answers are scored is part of what an outcome means: references of another scoring are no references.
            name: format!("qa:{}:{}", settings.scoring.name(), model.name()),
            model,
            judge,
            settings,
        }
    }

    async fn choose(
        &self,
        messages: &[ChatMessage],
        expected: &ExpectedAnswer,
    ) -> Result<Answered, ExecutorError> {
        let choices = expected.choices();
        if choices.len() < 2 {
            return Err(ExecutorError::Failed(
                "scoring by choice needs \"choices\" in the task's metadata, two or more".into(),
            ));
        }
        let (likelihoods, usage) = self.model.choices(messages, choices).await?;
        let best = likelihoods
            .iter()
            .enumerate()
            .max_by(|(_, a), (_, b)| a.per_token().total_cmp(&b.per_token()))
            .map_or(0, |(at, _)| at);
        let mut notes = Map::new();
        let per_token: Vec<f64> = likelihoods.iter().map(|one| one.per_token()).collect();
        notes.insert("choice_log_likelihoods".into(), json!(per_token));
        Ok(Answered {
            text: choices[best].clone(),
            performance: f64::from(u8::from(expected.equals(&choices[best]))),
            usage,
            notes,
        })
    }

    async fn answer(
        &self,
        task: &PublicTask,
        messages: Vec<ChatMessage>,
        expected: &ExpectedAnswer,
        seed: u64,
    ) -> Result<Answered, ExecutorError> {
        let request = ChatRequest {
            messages,
            sampling: Sampling {
                seed,
                ..self.settings.sampling.clone()
            },
        };
        let reply = self.model.chat(&request).await?;
        let text = reply.said()?.to_owned();
        let mut usage = reply.usage;
        let performance = match self.settings.scoring {
            AnswerScoring::Exact => f64::from(u8::from(expected.equals(&text))),
            AnswerScoring::Contains | AnswerScoring::Choice => f64::from(u8::from(expected.is_in(&text))),
            AnswerScoring::Judge => {
                let (score, judging) = self.judged(task, expected, &text, seed).await?;
                usage += judging;
                score
            }
        };
        Ok(Answered {
            text,
            performance,
            usage,
            notes: Map::new(),
        })
    }

    async fn judged(
        &self,
        question: &PublicTask,
        expected: &ExpectedAnswer,
        answer: &str,
        seed: u64,
    ) -> Result<(f64, Usage), ExecutorError> {
        let messages = judge_messages(Judged {
            question,
            reference: expected.reference(),
            answer,
            rubric: expected.rubric(),
        });
        let judge = self.judge.as_ref().unwrap_or(&self.model);
        let (mut said, mut usage) = (String::new(), Usage::default());
        for attempt in 0..JUDGE_ASKED {
            let request = ChatRequest {
                messages: messages.clone(),
                sampling: Sampling {
                    // Room for thoughts, where the settings give some.
                    max_tokens: self.settings.sampling.max_tokens.max(JUDGE_TOKENS),
                    // The likeliest verdict first; where that is none, another one.
                    temperature: if attempt == 0 { 0.0 } else { 0.7 },
                    seed: seed.wrapping_add(attempt),
                    ..Sampling::default()
                },
            };
            let reply = judge.chat(&request).await?;
            usage += reply.usage;
            if let Some(score) = score_in(spoken(&reply.text)) {
                return Ok((score, usage));
            }
            said = reply.text;
        }
        Err(ExecutorError::Failed(format!(
            "the judge said {:?} and not a number between 0 and 1",
            crate::text::excerpt(said.as_bytes())
        )))
    }
}

/// The verdict of a judge: a number between 0 and 1 that stands alone on the last line, or, where that is none, on the first,
/// with reasons after it.
fn score_in(said: &str) -> Option<f64> {
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next()?;
    let last = lines.next_back().unwrap_or(first);
    let score = number_on(last).or_else(|| number_on(first))?;
    (0.0..=1.0).contains(&score).then_some(score)
}

/// The number that is all of a line but for a name before it, as in `Score: 0.5`; `n/m` and `n out of m` are n of m.
fn number_on(line: &str) -> Option<f64> {
    let line = line.replace(['*', '`', '_'], "").to_lowercase();
    let value = line.rsplit([':', '=']).next()?.trim().trim_end_matches('.');
    let number = |text: &str| {
        let text = text.trim();
        // No signs, no exponents, no names of numbers that are none.
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        text.parse::<f64>().ok().filter(|_| is_plain)
    };
    match ["/", "out of", "of"].iter().find_map(|of| value.split_once(of)) {
        Some((part, whole)) => {
            let whole = number(whole).filter(|whole| *whole > 0.0)?;
            number(part).map(|part| part / whole)
        }
        None => number(value),
    }
}

#[async_trait]
impl Executor for QuestionExecutor {
    fn name(&self) -> &str {
        &self.name
    }

    /// Changes with the prompts too: they are part of what is hashed, filled in for an example.
    fn version(&self) -> String {
        let (task, memories) = (
            PublicTask::of(&Task::new("", "?")),
            InjectedMemories::example(self.settings.budget),
        );
        let judged = Judged {
            question: &task,
            reference: "!",
            answer: "!",
            rubric: "",
        };
        let judge = self.judge.as_ref().unwrap_or(&self.model);
        short_hash(&json!([
            question_messages(&task, &memories),
            judge_messages(judged),
            self.settings.scoring,
            self.settings.sampling,
            self.settings.budget,
            self.model.version(),
            judge.name(),
            judge.version(),
        ]))
    }

    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        let expected = ExpectedAnswer::of(&request.task).map_err(ExecutorError::Failed)?;
        let task = PublicTask::of(&request.task);
        let memories = InjectedMemories::new(&request.memories, self.settings.budget);
        let messages = question_messages(&task, &memories);
        let answered = match self.settings.scoring {
            AnswerScoring::Choice => self.choose(&messages, &expected).await?,
            _ => self.answer(&task, messages, &expected, request.seed).await?,
        };
        let tokens: usize = memories
            .texts()
            .iter()
            .map(|text| self.model.count_tokens(text))
            .sum();
        let mut notes = answered.usage.told(self.model.name());
        notes.insert("memories_cut".into(), json!(memories.cut()));
        notes.extend(answered.notes);
        let invalid = |error: upliftmem_core::InvalidInput| ExecutorError::Failed(error.to_string());
        Ok(Execution {
            performance: Performance::new(answered.performance).map_err(invalid)?,
            cost: Cost::new(tokens as f64).map_err(invalid)?,
            trajectory: vec![TrajectoryStep {
                action: answered.text,
                observation: expected.reaction(answered.performance >= 1.0),
            }],
            diagnostics: notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judges_number_is_found_and_others_are_not() {
        assert_eq!(score_in("0.5"), Some(0.5));
        assert_eq!(score_in("Score: 1."), Some(1.0));
        assert_eq!(score_in("**Score:** `0.8`\n"), Some(0.8));
        assert_eq!(score_in("It names her.\n\n0"), Some(0.0));
        assert_eq!(score_in("0.5\n\nIt names one of two."), Some(0.5));
        for (part, score) in [
            ("1/10", 0.1),
            ("1 out of 5", 0.2),
            ("Score: 8 of 10.", 0.8),
            ("1/1", 1.0),
        ] {
            assert_eq!(score_in(part), Some(score), "{part}");
        }
        for none in [
            "",
            "ten",
            "7",
            "1.5",
            "-1",
            "1e-1",
            "inf",
            "3/2",
            "0/0",
            "1. The answer names her",
            "1.\n2.",
            "not 1",
        ] {
            assert_eq!(score_in(none), None, "{none}");
        }
    }
}
