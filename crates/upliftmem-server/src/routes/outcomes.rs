//! Outcomes: how an episode went. Tasks and their references.

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use upliftmem_core::{Cost, Performance, RetrievalId, Task, TaskId, TrajectoryStep};
use upliftmem_engine::{Learnt, OutcomeReport, Reported, Taken};
use upliftmem_store::{EntryKind, JournalEntry, JournalFilter, Permission, Scope};

use crate::{
    app::Shared,
    auth::Caller,
    error::{ApiError, Code, Result},
    extract::{Answer, Asked, At, Body},
    scope::{InScope, ScopeFields, resolve},
    table::{Route, get, post},
    wire::{Id, Page, moment, parse_ids},
};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Step {
    action: String,
    observation: String,
}

/// How an episode went: of a retrieval, or of an execution that was handed out.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct OutcomeRequest {
    #[serde(flatten)]
    pub(crate) scope: ScopeFields,
    /// The retrieval whose memories were used, or whose advice to use none was followed.
    pub(crate) retrieval_id: Option<Id>,
    /// The execution that was handed out by `/v1/probes/next`.
    pub(crate) rollout_id: Option<Id>,
    /// The attempt that was handed out with it.
    #[schemars(range(min = 1))]
    pub(crate) attempt: Option<u32>,
    /// How well it went, from 0 to 1; or `success`.
    #[serde(alias = "reward")]
    #[schemars(range(min = 0, max = 1))]
    pub(crate) performance: Option<f64>,
    /// Whether it went well: performance 1 or 0.
    pub(crate) success: Option<bool>,
    /// What it cost, in the unit of `utility.cost_max`.
    #[schemars(range(min = 0))]
    pub(crate) cost: Option<f64>,
    /// The cost at which nothing is saved, if another than configured; cost is scaled by it.
    pub(crate) cost_max: Option<f64>,
    pub(crate) trajectory: Option<Vec<Step>>,
    pub(crate) diagnostics: Option<Map<String, Value>>,
    /// The same key again gets the same answer.
    #[serde(rename = "idempotency_key")]
    pub(crate) _idempotency_key: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct OutcomeResponse {
    /// What the episode was worth.
    pub(crate) utility: f64,
    /// That, minus what the task is worth without memory; absent while that is not known.
    pub(crate) uplift: Option<f64>,
    /// `cached`: compared with the task's reference. `self`: it is the reference. `missing`: there is none yet.
    pub(crate) reference: String,
    /// Whether an execution without memory was asked for.
    pub(crate) reference_requested: bool,
    /// Earlier outcomes that became labels by this one.
    pub(crate) labels: usize,
}

impl From<Taken> for OutcomeResponse {
    fn from(taken: Taken) -> Self {
        let (uplift, reference, reference_requested, labels) = match taken.learnt {
            Learnt::Label { uplift } => (Some(uplift), "cached", false, 0),
            Learnt::Reference { labels } => (Some(0.0), "self", false, labels),
            Learnt::Waiting { reference_requested } => (None, "missing", reference_requested, 0),
        };
        Self {
            utility: taken.utility.get(),
            uplift,
            reference: reference.into(),
            reference_requested,
            labels,
        }
    }
}

fn reported(app: &Shared, request: &OutcomeRequest) -> Result<Reported> {
    let performance = match (request.performance, request.success) {
        (Some(performance), _) => performance,
        (None, Some(success)) => f64::from(u8::from(success)),
        (None, None) => {
            return Err(ApiError::invalid(
                "performance",
                "neither performance nor success is given",
            ));
        }
    };
    let mut cost = request.cost.unwrap_or(0.0);
    if let Some(most) = request.cost_max {
        if !(most.is_finite() && most > 0.0) {
            return Err(ApiError::invalid("cost_max", "it is not above 0"));
        }
        cost *= app.live.settings().utility_cost_max / most;
    }
    let steps = request.trajectory.clone().unwrap_or_default().into_iter();
    Ok(Reported {
        performance: Performance::new(performance)?,
        cost: Cost::new(cost)?,
        trajectory: steps
            .map(|step| TrajectoryStep {
                action: step.action,
                observation: step.observation,
            })
            .collect(),
        diagnostics: request.diagnostics.clone().unwrap_or_default(),
    })
}

/// Takes an outcome; what it taught.
pub(crate) async fn take(app: &Shared, scope: &Scope, request: &OutcomeRequest) -> Result<OutcomeResponse> {
    let reported = reported(app, request)?;
    let live = app.live.scope(scope).await?;
    let taken = match (&request.retrieval_id, &request.rollout_id) {
        (Some(id), None) => {
            let retrieval: RetrievalId = id.parse()?;
            let report = OutcomeReport {
                retrieval,
                performance: reported.performance,
                cost: reported.cost,
                trajectory: reported.trajectory,
                diagnostics: reported.diagnostics,
            };
            live.take_outcome(report).await?
        }
        (None, Some(id)) => live.take_rollout(id.parse()?, request.attempt, reported).await?,
        _ => {
            return Err(ApiError::invalid(
                "retrieval_id",
                "give one of retrieval_id and rollout_id",
            ));
        }
    };
    let answer = OutcomeResponse::from(taken);
    app.metrics.outcome(&answer.reference);
    Ok(answer)
}

async fn report(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<OutcomeRequest>,
) -> Result<Answer<OutcomeResponse>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    Ok(Answer(take(&app, &scope, &request).await?))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct NewTask {
    /// What its owner calls it.
    #[schemars(length(min = 1, max = 256))]
    id: String,
    /// The text that the agent sees.
    #[schemars(length(min = 1))]
    context: String,
    #[serde(default)]
    metadata: Map<String, Value>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TasksRequest {
    #[serde(flatten)]
    scope: ScopeFields,
    tasks: Vec<NewTask>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TaskView {
    id: Id,
    name: String,
    context: String,
    metadata: Map<String, Value>,
}

impl From<Task> for TaskView {
    fn from(task: Task) -> Self {
        Self {
            id: Id::of(task.id),
            name: task.name,
            context: task.context,
            metadata: task.metadata,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct TasksResponse {
    /// Those that were not there before.
    stored: u64,
}

async fn put_tasks(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<TasksRequest>,
) -> Result<Answer<TasksResponse>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    let tasks = request.tasks.into_iter().map(|new| {
        let mut task = Task::new(new.id, new.context);
        task.metadata = new.metadata;
        task
    });
    let stored = app.store().put_tasks(&scope, tasks.collect()).await?;
    Ok(Answer(TasksResponse { stored }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TasksQuery {
    /// Only these, in one page: their ids, separated by commas.
    ids: Option<String>,
    /// The `next` of the page before.
    after: Option<Id>,
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
}

async fn list_tasks(
    State(app): State<Shared>,
    InScope(scope): InScope,
    Asked(query): Asked<TasksQuery>,
) -> Result<Answer<Page<TaskView>>> {
    let rows = app.rows(query.limit)?;
    if let Some(ids) = query.ids.filter(|ids| !ids.is_empty()) {
        let ids: Vec<TaskId> = parse_ids(&ids, rows)?;
        let mut results = Vec::new();
        for id in ids {
            results.extend(app.store().task(&scope, id).await?.map(TaskView::from));
        }
        return Ok(Answer(Page { results, next: None }));
    }
    let after: Option<TaskId> = query.after.map(|id| id.parse()).transpose()?;
    let found = app.store().list_tasks(&scope, after, rows + 1).await?;
    let views = found.into_iter().map(TaskView::from).collect();
    Ok(Answer(Page::of(views, rows, |view| view.id.0.clone())))
}

async fn task(app: &Shared, scope: &Scope, name: &str) -> Result<Task> {
    let found = app.store().task(scope, TaskId::from_name(name)).await?;
    found.ok_or_else(|| {
        ApiError::new(
            Code::NotFound,
            format_args!("task {name:?} is not in scope {scope}; put it with POST /v1/tasks"),
        )
    })
}

async fn get_task(
    State(app): State<Shared>,
    InScope(scope): InScope,
    At(name): At,
) -> Result<Answer<TaskView>> {
    Ok(Answer(task(&app, &scope, &name).await?.into()))
}

#[derive(Debug, Serialize, JsonSchema)]
struct ReferenceView {
    id: Id,
    task_id: Id,
    executor: String,
    /// What the task was worth without memory.
    utility: f64,
    at: String,
    /// Its place in the journal.
    sequence: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ReferenceQuery {
    /// Only those of this task.
    task: Option<String>,
    /// The `next` of the page before.
    after: Option<u64>,
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
}

async fn references(
    State(app): State<Shared>,
    InScope(scope): InScope,
    Asked(query): Asked<ReferenceQuery>,
) -> Result<Answer<Page<ReferenceView>>> {
    let rows = app.rows(query.limit)?;
    let filter = JournalFilter {
        kind: Some(EntryKind::Reference),
        task: query.task.as_deref().map(TaskId::from_name),
        after: query.after.unwrap_or(0),
    };
    let found = app.store().list_entries(&scope, filter, rows + 1).await?;
    let views = found.into_iter().filter_map(|found| match found.entry {
        JournalEntry::Reference(reference) => Some(ReferenceView {
            id: Id::of(reference.id),
            task_id: Id::of(reference.task),
            executor: reference.executor,
            utility: reference.utility.get(),
            at: moment(found.at),
            sequence: found.sequence,
        }),
        _ => None,
    });
    Ok(Answer(Page::of(views.collect(), rows, |view| {
        view.sequence.to_string()
    })))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ReferenceRequest {
    #[serde(flatten)]
    scope: ScopeFields,
    /// The task that is to be done without memory.
    #[schemars(length(min = 1, max = 256))]
    task: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Requested {
    /// Whether it was not asked for before.
    requested: bool,
}

async fn request_reference(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<ReferenceRequest>,
) -> Result<Answer<Requested>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    let task = task(&app, &scope, &request.task).await?;
    let live = app.live.scope(&scope).await?;
    let requested = live.request_reference(task.id).await?;
    Ok(Answer(Requested { requested }))
}

pub(super) fn routes() -> Vec<Route> {
    let (read, write) = (Permission::Read, Permission::Write);
    vec![
        post("/v1/outcomes", "report_outcome", report)
            .about("outcomes", "Report how an episode went.")
            .needs(write)
            .takes::<OutcomeRequest>()
            .answers::<OutcomeResponse>(),
        post("/v1/tasks", "put_tasks", put_tasks)
            .about("tasks", "Store tasks under names of your own, all or none.")
            .needs(write)
            .takes::<TasksRequest>()
            .answers::<TasksResponse>(),
        get("/v1/tasks", "list_tasks", list_tasks)
            .about("tasks", "List tasks.")
            .needs(read)
            .scoped()
            .asks::<TasksQuery>()
            .answers::<Page<TaskView>>(),
        get("/v1/tasks/{task}", "get_task", get_task)
            .about("tasks", "Get a task by its id or name.")
            .needs(read)
            .scoped()
            .answers::<TaskView>(),
        get("/v1/references", "list_references", references)
            .about(
                "tasks",
                "List executions without memory that others are compared with.",
            )
            .needs(read)
            .scoped()
            .asks::<ReferenceQuery>()
            .answers::<Page<ReferenceView>>(),
        post("/v1/references", "request_reference", request_reference)
            .about("tasks", "Ask for an execution of a task without memory.")
            .needs(write)
            .takes::<ReferenceRequest>()
            .answers::<Requested>(),
    ]
}
