//! Executions that are wanted: handed out, kept alive, given back, planned.

use std::time::Duration;

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use upliftmem_core::{Purpose, RolloutId};
use upliftmem_engine::{Handed, Strategy};
use upliftmem_store::{EntryKind, JournalEntry, Lease, Permission, Ticket, TicketFilter, TicketState};

use crate::{
    app::Shared,
    auth::Caller,
    error::{ApiError, Result},
    extract::{Answer, Asked, At, Body},
    journal::JournalQuery,
    scope::{InScope, ScopeFields, resolve},
    table::{Route, get, post},
    wire::{Id, Page, moment},
};

/// Characters of a worker's name.
const WORKER_MAX: usize = 200;

#[derive(Debug, Deserialize, JsonSchema)]
struct NextQuery {
    /// Who works on it; the key's name if not given.
    #[schemars(length(min = 1, max = 200))]
    worker: Option<String>,
    /// Only executions of this purpose.
    purpose: Option<PurposeWord>,
    /// Seconds until the first heartbeat is due.
    #[schemars(range(min = 1, max = 86_400))]
    lease_seconds: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PurposeWord {
    Reference,
    Retrieval,
    Probe,
    Validation,
    Evaluation,
}

impl From<PurposeWord> for Purpose {
    fn from(word: PurposeWord) -> Self {
        match word {
            PurposeWord::Reference => Self::Reference,
            PurposeWord::Retrieval => Self::Retrieval,
            PurposeWord::Probe => Self::Probe,
            PurposeWord::Validation => Self::Validation,
            PurposeWord::Evaluation => Self::Evaluation,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct ProbeTask {
    id: Id,
    name: String,
    context: String,
    metadata: Map<String, Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ProbeMemory {
    id: Id,
    text: String,
}

/// An execution to run; its result goes to `/v1/outcomes` with `rollout_id` and `attempt`.
#[derive(Debug, Serialize, JsonSchema)]
struct ProbeTicket {
    rollout_id: Id,
    attempt: u32,
    task: ProbeTask,
    /// Give the agent exactly these, in this order; none means without memory.
    memories: Vec<ProbeMemory>,
    purpose: String,
    seed: u64,
    lease_expires_at: String,
}

impl From<Handed> for ProbeTicket {
    fn from(handed: Handed) -> Self {
        let memories = handed.memories.into_iter();
        Self {
            rollout_id: Id::of(handed.rollout.id),
            attempt: handed.lease.attempt,
            task: ProbeTask {
                id: Id::of(handed.task.id),
                name: handed.task.name,
                context: handed.task.context,
                metadata: handed.task.metadata,
            },
            memories: memories
                .map(|(id, text)| ProbeMemory { id: Id::of(id), text })
                .collect(),
            purpose: handed.rollout.purpose.name().into(),
            seed: handed.rollout.seed,
            lease_expires_at: moment(handed.expires_at),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct NextResponse {
    /// Absent if nothing is wanted now.
    ticket: Option<ProbeTicket>,
}

fn lease_of(app: &Shared, seconds: Option<u64>) -> Result<Duration> {
    let duration = seconds.map_or(app.settings.lease(), Duration::from_secs);
    if duration.is_zero() || duration > Duration::from_secs(86_400) {
        return Err(ApiError::invalid("lease_seconds", "it must be from 1 to 86400"));
    }
    Ok(duration)
}

async fn next(
    State(app): State<Shared>,
    caller: Caller,
    InScope(scope): InScope,
    Asked(query): Asked<NextQuery>,
) -> Result<Answer<NextResponse>> {
    let duration = lease_of(&app, query.lease_seconds)?;
    let worker = query.worker.unwrap_or_else(|| caller.id.clone());
    if worker.is_empty() || worker.chars().count() > WORKER_MAX {
        return Err(ApiError::invalid(
            "worker",
            format_args!("it must have 1 to {WORKER_MAX} characters"),
        ));
    }
    let live = app.live.scope(&scope).await?;
    let purpose = query.purpose.map(Into::into);
    let handed = live.next_probe(&worker, duration, purpose).await?;
    Ok(Answer(NextResponse {
        ticket: handed.map(Into::into),
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct HeartbeatRequest {
    #[serde(flatten)]
    scope: ScopeFields,
    #[schemars(range(min = 1))]
    attempt: u32,
    #[schemars(range(min = 1, max = 86_400))]
    lease_seconds: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct HeartbeatResponse {
    lease_expires_at: String,
}

async fn heartbeat(
    State(app): State<Shared>,
    caller: Caller,
    At(id): At,
    Body(request): Body<HeartbeatRequest>,
) -> Result<Answer<HeartbeatResponse>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    let lease = Lease {
        rollout: id.parse()?,
        attempt: request.attempt,
    };
    let duration = lease_of(&app, request.lease_seconds)?;
    let live = app.live.scope(&scope).await?;
    let until = live.probe_heartbeat(lease, duration).await?;
    Ok(Answer(HeartbeatResponse {
        lease_expires_at: moment(until),
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct FailRequest {
    #[serde(flatten)]
    scope: ScopeFields,
    #[schemars(range(min = 1))]
    attempt: u32,
    /// What went wrong. A failed execution is never a label.
    #[schemars(length(min = 1))]
    reason: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct FailResponse {
    /// Whether it will be handed out again.
    will_retry: bool,
}

async fn fail(
    State(app): State<Shared>,
    caller: Caller,
    At(id): At,
    Body(request): Body<FailRequest>,
) -> Result<Answer<FailResponse>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    if request.reason.is_empty() {
        return Err(ApiError::invalid("reason", "it is empty; say what went wrong"));
    }
    let lease = Lease {
        rollout: id.parse()?,
        attempt: request.attempt,
    };
    let live = app.live.scope(&scope).await?;
    let will_retry = live.fail_probe(lease, &request.reason).await?;
    Ok(Answer(FailResponse { will_retry }))
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum StrategyWord {
    Evsi,
    Random,
    McStd,
    Eig,
    Thompson,
    Ordinary,
}

impl From<StrategyWord> for Strategy {
    fn from(word: StrategyWord) -> Self {
        match word {
            StrategyWord::Evsi => Self::Evsi,
            StrategyWord::Random => Self::Random,
            StrategyWord::McStd => Self::McStd,
            StrategyWord::Eig => Self::Eig,
            StrategyWord::Thompson => Self::Thompson,
            StrategyWord::Ordinary => Self::Ordinary,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct PlanRequest {
    #[serde(flatten)]
    scope: ScopeFields,
    /// Most probes; at most `acquisition.probe_budget`.
    #[schemars(range(min = 1))]
    budget: Option<usize>,
    /// How they are chosen, if otherwise than configured.
    strategy: Option<StrategyWord>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PlanResponse {
    /// The batch, if there are probes in it.
    batch_id: Option<Id>,
    /// Probes that wait to be executed.
    probes: usize,
    /// Executions without memory that were asked for first.
    references: usize,
    /// EVSI of the whole batch.
    batch_value: f64,
    /// Tasks that were looked at.
    tasks: usize,
}

async fn plan(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<PlanRequest>,
) -> Result<Answer<PlanResponse>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    let live = app.live.scope(&scope).await?;
    let planned = live
        .plan_probes(request.budget, request.strategy.map(Into::into))
        .await?;
    Ok(Answer(PlanResponse {
        batch_id: planned.batch.map(Id::of),
        probes: planned.probes,
        references: planned.references,
        batch_value: planned.batch_value,
        tasks: planned.tasks,
    }))
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StateWord {
    Waiting,
    Leased,
    Completed,
    Failed,
}

impl From<StateWord> for TicketState {
    fn from(word: StateWord) -> Self {
        match word {
            StateWord::Waiting => Self::Waiting,
            StateWord::Leased => Self::Leased,
            StateWord::Completed => Self::Completed,
            StateWord::Failed => Self::Failed,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct QueueQuery {
    state: Option<StateWord>,
    purpose: Option<PurposeWord>,
    /// The `next` of the page before.
    after: Option<Id>,
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
}

/// An execution and how far it is.
#[derive(Debug, Serialize, JsonSchema)]
struct TicketView {
    rollout_id: Id,
    task_id: Id,
    memories: Vec<Id>,
    purpose: String,
    executor: String,
    /// `waiting`, `leased`, `completed` or `failed`.
    state: String,
    attempts: u32,
    attempts_max: u32,
    worker: Option<String>,
    lease_expires_at: Option<String>,
    last_error: Option<String>,
    enqueued_at: String,
}

impl From<Ticket> for TicketView {
    fn from(ticket: Ticket) -> Self {
        Self {
            rollout_id: Id::of(ticket.rollout.id),
            task_id: Id::of(ticket.rollout.task),
            memories: ticket.rollout.set.iter().map(Id::of).collect(),
            purpose: ticket.rollout.purpose.name().into(),
            executor: ticket.rollout.executor,
            state: ticket.state.as_str().into(),
            attempts: ticket.attempts,
            attempts_max: ticket.attempts_max,
            worker: ticket.worker,
            lease_expires_at: ticket.lease_expires_at.map(moment),
            last_error: ticket.last_error,
            enqueued_at: moment(ticket.enqueued_at),
        }
    }
}

async fn queue(
    State(app): State<Shared>,
    InScope(scope): InScope,
    Asked(query): Asked<QueueQuery>,
) -> Result<Answer<Page<TicketView>>> {
    let rows = app.rows(query.limit)?;
    let after: Option<RolloutId> = query.after.map(|id| id.parse()).transpose()?;
    let filter = TicketFilter {
        state: query.state.map(Into::into),
        purpose: query.purpose.map(Into::into),
        after,
    };
    let found = app.store().list_tickets(&scope, filter, rows + 1).await?;
    let views = found.into_iter().map(TicketView::from).collect();
    Ok(Answer(Page::of(views, rows, |view| view.rollout_id.0.clone())))
}

#[derive(Debug, Serialize, JsonSchema)]
struct BatchProbe {
    rollout_id: Id,
    task_id: Id,
    memories: Vec<Id>,
    /// What it was expected to add to the batch's value.
    marginal_value: f64,
}

/// A batch of probes and why they were chosen.
#[derive(Debug, Serialize, JsonSchema)]
struct BatchView {
    id: Id,
    strategy: String,
    scorer: String,
    at: String,
    probes: Vec<BatchProbe>,
    /// Sizes, caps, and what each pick helps.
    decision: Map<String, Value>,
    sequence: u64,
}

async fn batches(
    State(app): State<Shared>,
    InScope(scope): InScope,
    Asked(query): Asked<JournalQuery>,
) -> Result<Answer<Page<BatchView>>> {
    let (rows, found) = query.entries(&app, &scope, EntryKind::ProbeBatch).await?;
    let views = found.into_iter().filter_map(|found| match found.entry {
        JournalEntry::ProbeBatch(record) => Some(BatchView {
            id: Id::of(record.id),
            strategy: record.strategy,
            scorer: record.scorer,
            at: moment(found.at),
            probes: record
                .probes
                .into_iter()
                .map(|probe| BatchProbe {
                    rollout_id: Id::of(probe.rollout),
                    task_id: Id::of(probe.task),
                    memories: probe.set.iter().map(Id::of).collect(),
                    marginal_value: probe.marginal_value,
                })
                .collect(),
            decision: record.decision,
            sequence: found.sequence,
        }),
        _ => None,
    });
    Ok(Answer(Page::of(views.collect(), rows, |view| {
        view.sequence.to_string()
    })))
}

pub(super) fn routes() -> Vec<Route> {
    let tag = "probes";
    vec![
        get("/v1/probes/next", "next_probe", next)
            .about(tag, "Take the next execution that is wanted, if any is.")
            .needs(Permission::Write)
            .scoped()
            .asks::<NextQuery>()
            .answers::<NextResponse>(),
        post("/v1/probes/{rollout_id}/heartbeat", "probe_heartbeat", heartbeat)
            .about(tag, "Say that an execution is under way.")
            .needs(Permission::Write)
            .takes::<HeartbeatRequest>()
            .answers::<HeartbeatResponse>(),
        post("/v1/probes/{rollout_id}/fail", "fail_probe", fail)
            .about(tag, "Give an execution back after a failed attempt.")
            .needs(Permission::Write)
            .takes::<FailRequest>()
            .answers::<FailResponse>(),
        post("/v1/probes/plan", "plan_probes", plan)
            .about(
                tag,
                "Plan a batch of probes from what was retrieved since the last one.",
            )
            .needs(Permission::Write)
            .takes::<PlanRequest>()
            .answers::<PlanResponse>(),
        get("/v1/probes", "list_probes", queue)
            .about(tag, "List executions and how far they are.")
            .needs(Permission::Read)
            .scoped()
            .asks::<QueueQuery>()
            .answers::<Page<TicketView>>(),
        get("/v1/probes/batches", "list_probe_batches", batches)
            .about(tag, "List batches of probes and why each probe was chosen.")
            .needs(Permission::Read)
            .scoped()
            .asks::<JournalQuery>()
            .answers::<Page<BatchView>>(),
    ]
}
