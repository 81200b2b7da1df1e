//! `search`, `explain`, `outcome`.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use upliftmem_core::{
    Cost, CoverageQuestion, MemoryId, MemorySet, Performance, RetrievalId, SearchSpace, Task,
};
use upliftmem_engine::{
    Learnt, OutcomeReport, Outcomes, ReferencePolicy, Retrieval, RetrievalRequest, scorer_label,
};
use upliftmem_scorer::Ask;
use upliftmem_store::{EntryKind, JournalEntry, RetrievalRecord};

use crate::{
    context::Context,
    output::{Table, cut, signed, strong},
};

#[derive(Debug, Args)]
pub(crate) struct SearchArguments {
    /// What the agent is about to do.
    query: String,
    /// What the task is called; outcomes of the same task are compared [default: the query].
    #[arg(long)]
    task: Option<String>,
    /// Answer with the best set found within this many milliseconds.
    #[arg(long, value_name = "MS")]
    budget_ms: Option<u64>,
    /// Most memories of the answer.
    #[arg(long, short)]
    k: Option<usize>,
    /// Most tokens of the answer.
    #[arg(long)]
    tokens: Option<u64>,
    /// Search among these memories only.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    candidates: Option<Vec<MemoryId>>,
}

pub(crate) async fn search(context: &Context, arguments: SearchArguments) -> Result<()> {
    let retriever = context.retriever().await?;
    let retrieval = retriever
        .retrieve(RetrievalRequest {
            query: arguments.query,
            task: arguments.task,
            candidates: arguments.candidates,
            candidates_max: None,
            budget: arguments.budget_ms.map(Duration::from_millis),
            memories_max: arguments.k,
            tokens_max: arguments.tokens,
        })
        .await?;
    context.output.result(&retrieval, || found(&retrieval))
}

fn found(retrieval: &Retrieval) -> String {
    let mut text = String::new();
    if retrieval.abstained {
        text += &format!(
            "{}\n",
            strong(&format!(
                "no memory: none of {} candidates is expected to help",
                retrieval.candidates
            ))
        );
    } else {
        text += &format!(
            "{}\n",
            strong(&format!(
                "predicted uplift {}",
                signed(retrieval.predicted_uplift)
            ))
        );
        for memory in &retrieval.memories {
            text += &format!("  {}  {}\n", signed(memory.gain), cut(&memory.text, 68));
        }
    }
    text + &format!(
        "retrieval {} by {}\nthen tell how it went:\nupliftmem outcome {} --performance 1 --cost 5",
        retrieval.id, retrieval.scorer, retrieval.id
    )
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// The retrieval.
    retrieval: RetrievalId,
    /// Also say whether ordinary retrieval would ever try the set of these memories.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    memories: Vec<MemoryId>,
}

async fn recorded(context: &Context, id: RetrievalId) -> Result<RetrievalRecord> {
    let found = context
        .store
        .entry(&context.scope, EntryKind::Retrieval, &id.to_string())
        .await?;
    match found.map(|found| found.entry) {
        Some(JournalEntry::Retrieval(record)) => Ok(record),
        _ => bail!(
            "retrieval {id} is not in scope {}\n  `upliftmem list retrievals` shows those that are",
            context.scope
        ),
    }
}

pub(crate) async fn explain(context: &Context, arguments: &ExplainArguments) -> Result<()> {
    let record = recorded(context, arguments.retrieval).await?;
    let coverage = if arguments.memories.is_empty() {
        None
    } else {
        Some(coverage(context, &record, &arguments.memories).await?)
    };
    let document = json!({ "retrieval": record, "coverage": coverage });
    if context.output.json {
        return context.output.line(&document.to_string());
    }
    let mut texts = std::collections::BTreeMap::new();
    let ids: Vec<MemoryId> = record
        .pool
        .candidates()
        .iter()
        .map(|candidate| candidate.id)
        .collect();
    for memory in context.texts.memories(&ids).await? {
        texts.insert(memory.id.to_string(), memory.text.clone());
    }
    context
        .output
        .line(explained(&record, &texts, coverage.as_ref()).trim_end())
}

fn explained(
    record: &RetrievalRecord,
    texts: &std::collections::BTreeMap<String, String>,
    coverage: Option<&Value>,
) -> String {
    let mut text = format!(
        "{}\n{} candidates, {} chosen, predicted uplift {}, by {}\n",
        strong(&cut(&record.query, 78)),
        record.pool.len(),
        record.set.len(),
        signed(record.predicted_uplift.get()),
        record.scorer
    );
    let name = |id: &Value| {
        let id = id.as_str().unwrap_or_default();
        texts.get(id).cloned().unwrap_or_else(|| id.to_owned())
    };
    let empty = Vec::new();
    let steps = record
        .trace
        .get("steps")
        .and_then(Value::as_array)
        .unwrap_or(&empty);
    for (depth, step) in steps.iter().enumerate() {
        let mut table = Table::new(&["", "gain", "value", "adding"]);
        for (kept, key) in [("kept", "kept"), ("", "runners_up")] {
            for option in step.get(key).and_then(Value::as_array).unwrap_or(&empty) {
                let number = |key: &str| option.get(key).and_then(Value::as_f64).unwrap_or_default();
                table.row(vec![
                    kept.to_owned(),
                    signed(number("gain")),
                    signed(number("value")),
                    name(option.get("added").unwrap_or(&Value::Null)),
                ]);
            }
        }
        let memories = if depth == 0 { "memory" } else { "memories" };
        text += &format!("\nwith {} {memories}\n{}", depth + 1, table.text());
    }
    if record.set.is_empty() {
        text += "\nno set was expected to do better than no memory, so none was returned\n";
    }
    if let Some(coverage) = coverage {
        let probability = coverage["probability"].as_f64().unwrap_or_default();
        text += &format!(
            "\nordinary retrieval tries that set with probability {probability:.2e},\nonce in about {:.0} executions\n",
            coverage["expected_runs"].as_f64().unwrap_or(f64::INFINITY)
        );
    }
    text
}

/// Whether sampling would ever try a set. Paper: eqs. exact_set_probability, direct_evidence_count.
async fn coverage(context: &Context, record: &RetrievalRecord, members: &[MemoryId]) -> Result<Value> {
    let set: MemorySet = members.iter().copied().collect();
    let settings = &context.config.retrieval;
    let task = Task::new(record.query.clone(), record.query.clone());
    let known = context.texts.tasks(&[task]).await?.remove(0);
    let ids: Vec<MemoryId> = record
        .pool
        .candidates()
        .iter()
        .map(|candidate| candidate.id)
        .collect();
    let offer = context.texts.offer(&ids).await?;
    let scorer = context.scorer().await?;
    let bound = scorer.bind(known.input(), &offer.inputs())?;
    let space = SearchSpace::new(&offer.pool, settings.limits());
    let question = CoverageQuestion::new(space, settings.policy()?, &set)?;
    let values = bound.score(question.to_score(), Ask::VALUES)?.values;
    let coverage = question.answer(&values)?;
    Ok(json!({
        "set": set,
        "scorer": scorer_label(&scorer),
        "probability": coverage.coverage_probability(),
        "expected_runs": coverage.expected_runs(),
    }))
}

#[derive(Debug, Args)]
pub(crate) struct OutcomeArguments {
    /// The retrieval whose memories were used, or whose advice to use none was followed.
    retrieval: RetrievalId,
    /// How well it went, from 0 to 1.
    #[arg(long)]
    performance: f64,
    /// What it cost, in the unit of utility.cost_max.
    #[arg(long, default_value_t = 0.0)]
    cost: f64,
}

pub(crate) async fn outcome(context: &Context, arguments: &OutcomeArguments) -> Result<()> {
    let outcomes = Outcomes {
        store: std::sync::Arc::clone(&context.store),
        scope: context.scope.clone(),
        utility: context.config.utility.rule()?,
        agent: context.agent()?,
        references: ReferencePolicy::Request,
        attempts_max: context.config.executor.retries + 1,
    };
    let learnt = outcomes
        .take(OutcomeReport {
            retrieval: arguments.retrieval,
            performance: Performance::new(arguments.performance)
                .map_err(|error| anyhow!("--performance: {error}"))?,
            cost: Cost::new(arguments.cost).map_err(|error| anyhow!("--cost: {error}"))?,
            trajectory: Vec::new(),
            diagnostics: serde_json::Map::new(),
        })
        .await?;
    context.output.result(&learnt, || match &learnt {
        Learnt::Label { uplift } => format!("learned: uplift {} over no memory", signed(*uplift)),
        Learnt::Reference { labels: 0 } => "kept as the reference of this task".to_owned(),
        Learnt::Reference { labels } => {
            format!("kept as the reference of this task; earlier outcomes that became labels: {labels}")
        }
        Learnt::Waiting { .. } => {
            "kept; it becomes a label once the task has been done without memory".to_owned()
        }
    })
}
