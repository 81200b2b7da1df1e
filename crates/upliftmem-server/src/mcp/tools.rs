//! The tools: what each takes, what it says of itself, what it does.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use upliftmem_store::{Permission, Scope};

use crate::{
    app::Shared,
    auth::Caller,
    error::{ApiError, Result},
    fence::memory_block,
    routes::{
        memories::{ChangeRequest, NewItem, add_item, change_memory, stored},
        outcomes::{self, OutcomeRequest},
        search::{SearchRequest, search_memories},
    },
    scope::ScopeFields,
    settings::ToolChoice,
    wire::{Id, MemoryView},
};

/// The task at hand.
#[derive(Debug, Deserialize, JsonSchema)]
struct SearchArguments {
    /// What you are about to do, in your own words.
    query: String,
    /// A name for the task if you will meet the same one again; outcomes of the same task are compared.
    task: Option<String>,
    /// Most notes to return.
    top_k: Option<usize>,
    /// Most tokens of all notes together.
    token_budget: Option<u64>,
}

/// A note to keep.
#[derive(Debug, Deserialize, JsonSchema)]
struct AddArguments {
    /// One fact or procedure that a later task could use, understandable on its own.
    text: String,
    /// What sort of note it is, for example fact, procedure or warning.
    kind: Option<String>,
    metadata: Option<Map<String, Value>>,
}

/// How the task went.
#[derive(Debug, Deserialize, JsonSchema)]
struct OutcomeArguments {
    /// The retrieval_id that search_memory returned.
    retrieval_id: String,
    /// Whether the task succeeded; or performance.
    success: Option<bool>,
    /// How well it went, from 0 to 1.
    performance: Option<f64>,
    /// What it cost, for example the number of steps.
    cost: Option<f64>,
}

/// A note by its id.
#[derive(Debug, Deserialize, JsonSchema)]
struct IdArguments {
    /// The id of the note.
    memory_id: String,
}

/// A note and its new text.
#[derive(Debug, Deserialize, JsonSchema)]
struct UpdateArguments {
    /// The id of the note.
    memory_id: String,
    /// What it says from now on.
    text: String,
}

fn schema<T: JsonSchema>() -> Arc<Map<String, Value>> {
    let schema = SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>();
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

fn tool<T: JsonSchema>(
    name: &'static str,
    description: &'static str,
    title: &str,
    hints: impl FnOnce(ToolAnnotations) -> ToolAnnotations,
) -> Tool {
    let annotations = ToolAnnotations::with_title(title).open_world(false);
    Tool::new(name, description, schema::<T>()).with_annotations(hints(annotations))
}

/// The tools that are offered.
pub(super) fn offered(choice: ToolChoice) -> Vec<Tool> {
    let mut tools = vec![
        tool::<SearchArguments>(
            "search_memory",
            "Find the notes, if any, that are expected to make this task go better than without notes. An empty answer \
             is advice to use none. Keep the retrieval_id for report_outcome.",
            "Search memory",
            // It leaves a record of the search, and changes no note.
            |hints| hints.read_only(true),
        ),
        tool::<AddArguments>(
            "add_memory",
            "Keep one note for later tasks. The same text again is kept once.",
            "Add to memory",
            |hints| hints.read_only(false).destructive(false).idempotent(true),
        ),
        tool::<OutcomeArguments>(
            "report_outcome",
            "Report how the task of a search went, good or bad, with or without notes. This is how memory learns.",
            "Report an outcome",
            |hints| hints.read_only(false).destructive(false).idempotent(true),
        ),
    ];
    if choice == ToolChoice::All {
        tools.extend([
            tool::<IdArguments>(
                "get_memory",
                "Read one note with all that is known about it.",
                "Get a memory",
                |hints| hints.read_only(true),
            ),
            tool::<UpdateArguments>(
                "update_memory",
                "Replace the text of a note. The old text is superseded and a new id is returned.",
                "Update a memory",
                |hints| hints.read_only(false).destructive(true).idempotent(false),
            ),
            tool::<IdArguments>(
                "delete_memory",
                "Remove a note for good.",
                "Delete a memory",
                |hints| hints.read_only(false).destructive(true).idempotent(true),
            ),
        ]);
    }
    tools
}

fn parsed<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| ApiError::invalid("arguments", error))
}

/// Does what a tool is called for.
pub(super) async fn call(
    app: &Shared,
    caller: &Caller,
    scope: &Scope,
    name: &str,
    arguments: Map<String, Value>,
) -> Result<Value> {
    match name {
        "search_memory" => search(app, caller, scope, parsed(arguments)?).await,
        "add_memory" => add(app, caller, scope, parsed(arguments)?).await,
        "report_outcome" => report(app, caller, scope, parsed(arguments)?).await,
        "get_memory" => {
            let IdArguments { memory_id } = parsed(arguments)?;
            let found = stored(app, scope, memory_id.parse()?).await?;
            Ok(json!(MemoryView::of(found, scope.parts())))
        }
        "update_memory" => {
            caller.require(Permission::Write)?;
            let UpdateArguments { memory_id, text } = parsed(arguments)?;
            let live = app.live.scope(scope).await?;
            let change = ChangeRequest {
                text: Some(text),
                ..ChangeRequest::default()
            };
            let current = change_memory(app, caller, &live, memory_id.parse()?, change).await?;
            let found = stored(app, scope, current).await?;
            Ok(json!(MemoryView::of(found, scope.parts())))
        }
        "delete_memory" => {
            caller.require(Permission::Write)?;
            let IdArguments { memory_id } = parsed(arguments)?;
            let id = memory_id.parse()?;
            let live = app.live.scope(scope).await?;
            let deleted = app.store().delete_memory(scope, id).await?;
            live.forget(id);
            Ok(json!({ "deleted": deleted }))
        }
        other => Err(ApiError::invalid("tool", format_args!("there is no {other:?}"))),
    }
}

async fn search(app: &Shared, caller: &Caller, scope: &Scope, arguments: SearchArguments) -> Result<Value> {
    let request = SearchRequest {
        query: arguments.query,
        scope: ScopeFields::default(),
        task: arguments.task,
        top_k: arguments.top_k,
        candidates: None,
        token_budget: arguments.token_budget,
        budget_ms: None,
        explain: false,
    };
    let found = search_memories(app, caller, scope, &request).await?;
    let block = memory_block(found.results.iter().map(|found| found.memory.as_str()));
    let memories: Vec<Value> = found
        .results
        .iter()
        .map(|found| json!({ "id": found.id, "memory": found.memory, "gain": found.gain }))
        .collect();
    Ok(json!({
        "retrieval_id": found.retrieval_id,
        "abstained": found.abstained,
        "predicted_uplift": found.predicted_uplift,
        "memories": memories,
        "block": block,
        "next": "call report_outcome with this retrieval_id when the task is over",
    }))
}

async fn add(app: &Shared, caller: &Caller, scope: &Scope, arguments: AddArguments) -> Result<Value> {
    caller.require(Permission::Write)?;
    let item = NewItem {
        text: Some(arguments.text),
        kind: arguments.kind,
        metadata: arguments.metadata,
        ..NewItem::default()
    };
    let answer = add_item(app, caller, scope, item).await?;
    // A note that was not kept is an error that the model must see.
    match answer.results.first() {
        Some(added) if added.status == "failed" => {
            Err(ApiError::invalid("text", added.error.clone().unwrap_or_default()))
        }
        _ => Ok(json!(answer)),
    }
}

async fn report(app: &Shared, caller: &Caller, scope: &Scope, arguments: OutcomeArguments) -> Result<Value> {
    caller.require(Permission::Write)?;
    let request = OutcomeRequest {
        retrieval_id: Some(Id(arguments.retrieval_id)),
        performance: arguments.performance,
        success: arguments.success,
        cost: arguments.cost,
        ..OutcomeRequest::default()
    };
    Ok(json!(outcomes::take(app, scope, &request).await?))
}
