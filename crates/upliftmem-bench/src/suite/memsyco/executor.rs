//! A model that answers a user it has talked with before.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use serde_json::json;
use upliftmem_agent::{
    Execution, ExecutionRequest, Executor, ExecutorError,
    chat::{ChatMessage, ChatModel, ChatRequest, Sampling, Usage, spoken},
    prompts::{InjectedMemories, MemoryBudget, PublicTask, reply_messages},
};
use upliftmem_core::{Cost, Performance, TaskId, TrajectoryStep};

use crate::memsyco::{Instance, LikelihoodPair, Verdict, judge_prompt, read_verdict};

/// Memory tokens that are counted as cost at most.
pub(super) const TOKENS_MAX: usize = 4_000;
/// How much memories may take: ten turns as they were said.
const MEMORIES: MemoryBudget = MemoryBudget {
    memory_chars: 2_600,
    total_chars: 12_000,
};
/// How often a judge that gives no verdict is asked again.
const JUDGE_ASKED: u64 = 3;

/// How the answer to a task is judged. Nothing of it reaches the model that answers.
pub(super) struct Asked {
    pub(super) instance: Instance,
    pub(super) pair: Option<LikelihoodPair>,
}

/// Answers questions with memories of a dialogue. Performance is accuracy, cost the number of tokens of the memories.
pub(super) struct ReplyExecutor {
    name: String,
    model: Arc<dyn ChatModel>,
    judge: Option<Arc<dyn ChatModel>>,
    asked: BTreeMap<TaskId, Asked>,
    sampling: Sampling,
}

/// An answer with its verdict.
struct Answered {
    text: String,
    verdict: Verdict,
    usage: Usage,
    margin: Option<f64>,
}

impl ReplyExecutor {
    pub(super) fn new(
        model: Arc<dyn ChatModel>,
        judge: Option<Arc<dyn ChatModel>>,
        asked: BTreeMap<TaskId, Asked>,
        sampling: Sampling,
    ) -> Self {
        let how = match &judge {
            Some(judge) => format!("judge({})", judge.name()),
            None => "proxy".to_owned(),
        };
        Self {
            name: format!("memsyco:{how}:{}", model.name()),
            model,
            judge,
            asked,
            sampling,
        }
    }

    async fn answer(
        &self,
        judge: &dyn ChatModel,
        instance: &Instance,
        messages: Vec<ChatMessage>,
        seed: u64,
    ) -> Result<Answered, ExecutorError> {
        let sampling = Sampling {
            seed,
            ..self.sampling.clone()
        };
        let reply = self.model.chat(&ChatRequest { messages, sampling }).await?;
        let text = reply.said()?.to_owned();
        let mut usage = reply.usage;
        let mut said = String::new();
        for attempt in 0..JUDGE_ASKED {
            let request = ChatRequest {
                messages: vec![ChatMessage::user(judge_prompt(instance, &text))],
                sampling: Sampling {
                    max_tokens: 64,
                    // The likeliest verdict first; where that is none, another one.
                    temperature: if attempt == 0 { 0.0 } else { 0.7 },
                    seed: seed.wrapping_add(attempt),
                    ..Sampling::default()
                },
            };
            let reply = judge.chat(&request).await?;
            usage += reply.usage;
            if let Some(verdict) = read_verdict(spoken(&reply.text)) {
                return Ok(Answered {
                    text,
                    verdict,
                    usage,
                    margin: None,
                });
            }
            said = reply.text;
        }
        let said: String = said.chars().take(200).collect();
        Err(ExecutorError::Failed(format!(
            "the judge said {said:?} and gave no verdict"
        )))
    }

    async fn compare(&self, asked: &Asked, messages: &[ChatMessage]) -> Result<Answered, ExecutorError> {
        let pair = asked.pair.as_ref().ok_or_else(|| {
            ExecutorError::Failed(format!("{} names no answers to compare", asked.instance.id))
        })?;
        let answers = [pair.good.as_slice(), &pair.bad].concat();
        let (likelihoods, usage) = self.model.choices(messages, &answers).await?;
        let likelihoods: Vec<f64> = likelihoods.iter().map(|one| one.per_token()).collect();
        let (good, bad) = likelihoods.split_at(pair.good.len().min(likelihoods.len()));
        let verdict = LikelihoodPair::verdict(asked.instance.scenario, good, bad);
        let best = |side: &[f64]| side.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Ok(Answered {
            text: String::new(),
            verdict,
            usage,
            margin: Some(best(good) - best(bad)),
        })
    }
}

#[async_trait]
impl Executor for ReplyExecutor {
    fn name(&self) -> &str {
        &self.name
    }

    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        let asked = self.asked.get(&request.task.id).ok_or_else(|| {
            ExecutorError::Failed(format!("task {:?} is none of this benchmark", request.task.name))
        })?;
        let memories = InjectedMemories::new(&request.memories, MEMORIES);
        let messages = reply_messages(&PublicTask::of(&request.task), &memories);
        let answered = match &self.judge {
            Some(judge) => {
                self.answer(judge.as_ref(), &asked.instance, messages, request.seed)
                    .await?
            }
            None => self.compare(asked, &messages).await?,
        };
        let tokens: usize = memories
            .texts()
            .iter()
            .map(|text| self.model.count_tokens(text))
            .sum();
        let mut diagnostics = answered.usage.told(self.model.name());
        diagnostics.insert("memories_cut".into(), json!(memories.cut()));
        diagnostics.insert("behaviour".into(), json!(answered.verdict.shows_behaviour));
        if let Some(margin) = answered.margin {
            diagnostics.insert("margin".into(), json!(margin));
        }
        let invalid = |error: upliftmem_core::InvalidInput| ExecutorError::Failed(error.to_string());
        Ok(Execution {
            performance: if answered.verdict.is_accurate {
                Performance::SUCCESS
            } else {
                Performance::FAILURE
            },
            cost: Cost::new(tokens.min(TOKENS_MAX) as f64).map_err(invalid)?,
            trajectory: vec![TrajectoryStep {
                action: answered.text,
                observation: String::new(),
            }],
            diagnostics,
        })
    }
}
