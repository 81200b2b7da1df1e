//! Import and export as JSON Lines, and new vectors for a scope.

use std::io::Write;

use axum::{
    body::Body as AxumBody,
    extract::{Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use upliftmem_store::{
    ExportKind, MintId, Permission, Timestamp, json_lines, langgraph_items, mem0_export, text_file,
};

use crate::{
    app::Shared,
    auth::Caller,
    error::Result,
    extract::{Answer, Asked, Body},
    inflow::spooled,
    jobs::JobState,
    scope::{InScope, ScopeFields, resolve},
    table::{Route, get, post},
};

/// Bytes that travel together.
const CHUNK: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Memories,
    Tasks,
    Executions,
    Tickets,
    Journal,
}

impl From<Kind> for ExportKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Memories => Self::Memories,
            Kind::Tasks => Self::Tasks,
            Kind::Executions => Self::Executions,
            Kind::Tickets => Self::Tickets,
            Kind::Journal => Self::Journal,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ExportQuery {
    /// What to export; `memories` if not given.
    kind: Option<Kind>,
}

/// Hands what is written to whoever reads the answer; stops writing when nobody does.
struct Channel {
    to: mpsc::Sender<std::io::Result<Bytes>>,
    buffer: Vec<u8>,
}

impl Channel {
    fn send(&mut self) -> std::io::Result<()> {
        let bytes = Bytes::from(std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK)));
        self.to
            .blocking_send(Ok(bytes))
            .map_err(|_| std::io::Error::new(std::io::ErrorKind::BrokenPipe, "the reader went away"))
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.buffer.is_empty() {
            Ok(())
        } else {
            self.send()
        }
    }
}

async fn export(
    State(app): State<Shared>,
    InScope(scope): InScope,
    Asked(query): Asked<ExportQuery>,
) -> Result<Response> {
    let kind: ExportKind = query.kind.unwrap_or(Kind::Memories).into();
    let (to, mut from) = mpsc::channel::<std::io::Result<Bytes>>(8);
    let store = app.store().clone();
    let failed = to.clone();
    tokio::spawn(async move {
        let sink = Box::new(Channel {
            to,
            buffer: Vec::with_capacity(CHUNK),
        });
        if let Err(error) = store.export(&scope, kind, sink, Box::new(|_| ())).await {
            tracing::warn!(%error, "an export ended early");
            // The answer has begun: cutting it off is the only way to say that it is not whole.
            let broken = std::io::Error::other("the export failed");
            drop(failed.send(Err(broken)).await);
        }
    });
    let lines = futures_util::stream::poll_fn(move |context| from.poll_recv(context));
    let headers = [(header::CONTENT_TYPE, "application/jsonl")];
    Ok((headers, AxumBody::from_stream(lines)).into_response())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    Memories,
    Tasks,
    Executions,
    Tickets,
    Journal,
    Mem0,
    Langgraph,
    Text,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ImportQuery {
    /// What the body is: lines as `export` writes them, what mem0 or LangGraph export, or plain paragraphs.
    format: Option<Format>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ImportResponse {
    stored: u64,
    duplicates: u64,
    quarantined: u64,
    /// Vectors are made in the background; see `GET /v1/reembed`.
    vectors: JobState,
}

async fn import(
    State(app): State<Shared>,
    InScope(scope): InScope,
    Asked(query): Asked<ImportQuery>,
    request: Request,
) -> Result<Answer<ImportResponse>> {
    let format = query.format.unwrap_or(Format::Memories);
    let live = app.live.scope(&scope).await?;
    let input = spooled(request.into_body(), app.settings.import_bytes_max).await?;
    let (name, now) = ("the body", Timestamp::now());
    let limits = *app.store().limits();
    let minting = std::sync::Arc::clone(&live);
    let mint: MintId = Box::new(move |_| minting.mint_memory());
    let source = match format {
        Format::Mem0 => mem0_export(name, input, &scope, &limits, now, mint),
        Format::Langgraph => langgraph_items(name, input, &limits, now, mint),
        Format::Text => text_file(name, input, &limits, now, mint),
        Format::Memories => json_lines(ExportKind::Memories, name, input, &limits, now, mint),
        Format::Tasks => json_lines(ExportKind::Tasks, name, input, &limits, now, mint),
        Format::Executions => json_lines(ExportKind::Executions, name, input, &limits, now, mint),
        Format::Tickets => json_lines(ExportKind::Tickets, name, input, &limits, now, mint),
        Format::Journal => json_lines(ExportKind::Journal, name, input, &limits, now, mint),
    };
    let summary = app.store().import(&scope, now, source, Box::new(|_| ())).await?;
    let vectors = match format {
        Format::Memories | Format::Mem0 | Format::Langgraph | Format::Text => app.jobs.give_vectors(live),
        Format::Tasks | Format::Executions | Format::Tickets | Format::Journal => {
            live.learn_soon();
            app.jobs.state(&scope)
        }
    };
    Ok(Answer(ImportResponse {
        stored: summary.stored,
        duplicates: summary.duplicates,
        quarantined: summary.quarantined,
        vectors,
    }))
}

async fn vectors(State(app): State<Shared>, InScope(scope): InScope) -> Result<Answer<JobState>> {
    Ok(Answer(app.jobs.state(&scope)))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ReembedRequest {
    #[serde(flatten)]
    scope: ScopeFields,
}

async fn reembed(
    State(app): State<Shared>,
    caller: Caller,
    Body(request): Body<ReembedRequest>,
) -> Result<Answer<JobState>> {
    let scope = resolve(&app, &caller, request.scope.parts()?)?;
    let live = app.live.scope(&scope).await?;
    Ok(Answer(app.jobs.give_vectors(live)))
}

pub(super) fn routes() -> Vec<Route> {
    let (tag, admin) = ("transfer", Permission::Admin);
    vec![
        get("/v1/export", "export", export)
            .about(tag, "Everything of one kind as JSON Lines, from one snapshot.")
            .needs(admin)
            .scoped()
            .unhurried()
            .asks::<ExportQuery>()
            .answers_raw("application/jsonl"),
        post("/v1/import", "import", import)
            .about(tag, "Import a file, all or nothing.")
            .needs(admin)
            .scoped()
            .unhurried()
            .not_kept()
            .asks::<ImportQuery>()
            .takes_raw("text/plain")
            .answers::<ImportResponse>(),
        get("/v1/reembed", "reembed_status", vectors)
            .about(tag, "How far new vectors are.")
            .needs(admin)
            .scoped()
            .answers::<JobState>(),
        post("/v1/reembed", "reembed", reembed)
            .about(
                tag,
                "Give every memory a vector of the configured embedder, in the background.",
            )
            .needs(admin)
            .takes::<ReembedRequest>()
            .answers::<JobState>(),
    ]
}
