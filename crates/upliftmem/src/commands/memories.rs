//! `add`, `import`, `export`, `list`.

use std::{
    fs::File,
    io::{BufReader, Read as _, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use upliftmem_core::{IdSequence, MemoryId};
use upliftmem_store::{
    EntryKind, Error as StoreError, ExportKind, ItemStatus, JournalEntry, JournalFilter, MemoryFilter,
    MintId, NewMemory, ReembedProgress, TicketFilter, Timestamp, json_lines, langgraph_items, mem0_export,
    text_file,
};

use crate::{
    context::Context,
    output::{Table, UNWRITABLE, cut, signed, wrap},
};

#[derive(Debug, Args)]
pub(crate) struct AddArguments {
    /// What to remember; `-` reads it from standard input.
    text: String,
    /// What kind of memory it is.
    #[arg(long, default_value = "note")]
    kind: String,
    /// Anything else worth keeping, as a JSON object.
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    /// The memory whose place it takes.
    #[arg(long, value_name = "ID")]
    supersedes: Option<MemoryId>,
}

/// A sequence of ids that continues after everything the scope has.
async fn minting(context: &Context) -> Result<MintId> {
    let last = context.store.last_memory(&context.scope).await?;
    let mut sequence = IdSequence::after(last.map_or(0, MemoryId::as_u128));
    let mut rng =
        ChaCha8Rng::seed_from_u64(Timestamp::now().millis() ^ (u64::from(std::process::id()) << 44));
    Ok(Box::new(move |now| {
        MemoryId::from_u128(sequence.mint(now.millis(), &mut rng))
    }))
}

pub(crate) async fn add(context: &Context, arguments: AddArguments) -> Result<()> {
    let text = if arguments.text == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        text
    } else {
        arguments.text
    };
    let now = Timestamp::now();
    let mut new = NewMemory::note(minting(context).await?(now), text);
    new.kind = arguments.kind;
    new.supersedes = arguments.supersedes;
    if let Some(metadata) = &arguments.metadata {
        new.memory.metadata = serde_json::from_str(metadata).context("--metadata: not a JSON object")?;
    }
    let batch = context.texts.with_vectors(vec![new]).await?;
    let result = context
        .store
        .add_memories(&context.scope, now, batch)
        .await?
        .remove(0);
    if let ItemStatus::Failed { reason } = &result.status {
        bail!("{reason}");
    }
    context.output.result(&result, || match &result.status {
        ItemStatus::Duplicate { of } => format!("already known as {of}"),
        ItemStatus::Quarantined { reason } => {
            let why = wrap(&format!("quarantined: {reason}"), 80);
            format!("{}\n{}", result.id, why.join("\n"))
        }
        _ => result.id.to_string(),
    })
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Memories as JSON Lines: {"text", "id"?, "metadata"?}.
    Memories,
    /// Tasks as JSON Lines: {"id", "context", "metadata"?}.
    Tasks,
    /// Executions as `export executions` writes them.
    Executions,
    /// Open executions as `export tickets` writes them.
    Tickets,
    /// The journal as `export journal` writes it.
    Journal,
    /// What mem0 exports.
    Mem0,
    /// Items of a LangGraph store.
    Langgraph,
    /// Plain text: one memory a paragraph.
    Text,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// The file.
    file: PathBuf,
    /// What is in it.
    #[arg(long, value_enum, default_value = "memories")]
    format: Format,
}

pub(crate) async fn import(context: &Context, arguments: ImportArguments) -> Result<()> {
    let name = arguments.file.display().to_string();
    let file = File::open(&arguments.file).with_context(|| format!("{name} can not be opened"))?;
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let input = BufReader::new(file);
    let (limits, now, mint) = (context.store.limits(), Timestamp::now(), minting(context).await?);
    let source = match arguments.format {
        Format::Mem0 => mem0_export(&name, input, &context.scope, limits, now, mint),
        Format::Langgraph => langgraph_items(&name, input, limits, now, mint),
        Format::Text => text_file(&name, input, limits, now, mint),
        format => {
            let kind = match format {
                Format::Tasks => ExportKind::Tasks,
                Format::Executions => ExportKind::Executions,
                Format::Tickets => ExportKind::Tickets,
                Format::Journal => ExportKind::Journal,
                _ => ExportKind::Memories,
            };
            json_lines(kind, &name, input, limits, now, mint)
        }
    };
    // About so many lines: what is shown is an estimate until the end.
    let bar = context.output.bar((bytes / 160).max(1), "importing");
    let shown = bar.clone();
    let progress = Box::new(move |items| shown.set_position(items));
    let summary = context
        .store
        .import(&context.scope, now, source, progress)
        .await?;
    bar.finish_and_clear();
    if !matches!(
        arguments.format,
        Format::Tasks | Format::Executions | Format::Tickets | Format::Journal
    ) {
        give_vectors(context).await?;
    }
    context.output.result(&summary, || {
        format!(
            "{} imported, {} already there, {} quarantined",
            summary.stored, summary.duplicates, summary.quarantined
        )
    })
}

/// Gives every memory a vector of the configured embedder.
pub(crate) async fn give_vectors(context: &Context) -> Result<()> {
    let bar = context.output.bar(0, "making vectors");
    let show = |progress: ReembedProgress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    };
    context.texts.give_vectors(show).await?;
    bar.finish_and_clear();
    Ok(())
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Exported {
    Memories,
    Tasks,
    Executions,
    /// Executions that are still wanted.
    Tickets,
    Journal,
    /// The compact scorer that the labels make, as a checkpoint.
    Scorer,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// What to export.
    #[arg(value_enum)]
    kind: Exported,
    /// The file to write [default: standard output]; for a scorer a directory
    /// that does not exist yet.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) async fn export(context: &Context, arguments: ExportArguments) -> Result<()> {
    let kind = match arguments.kind {
        Exported::Memories => ExportKind::Memories,
        Exported::Tasks => ExportKind::Tasks,
        Exported::Executions => ExportKind::Executions,
        Exported::Tickets => ExportKind::Tickets,
        Exported::Journal => ExportKind::Journal,
        Exported::Scorer => return export_scorer(context, arguments.out.as_deref()).await,
    };
    let sink: Box<dyn Write + Send> = match &arguments.out {
        Some(file) => Box::new(std::io::BufWriter::new(
            File::create(file).with_context(|| format!("{} can not be written", file.display()))?,
        )),
        None => Box::new(std::io::stdout()),
    };
    let bar = context.output.bar(0, "exporting");
    let shown = bar.clone();
    let progress = Box::new(move |items| shown.set_position(items));
    let exported = context.store.export(&context.scope, kind, sink, progress).await;
    let rows = exported.map_err(|error| match (error, &arguments.out) {
        // Only here it is known where the lines went.
        (StoreError::File { problem, .. }, Some(file)) => {
            anyhow!(problem).context(format!("{} can not be written", file.display()))
        }
        (StoreError::File { problem, .. }, None) => anyhow!(problem).context(UNWRITABLE),
        (other, _) => other.into(),
    })?;
    bar.finish_and_clear();
    if let Some(file) = &arguments.out {
        context
            .output
            .note(&format!("{rows} lines written to {}", file.display()));
    }
    Ok(())
}

async fn export_scorer(context: &Context, out: Option<&Path>) -> Result<()> {
    let directory = out.context("--out is missing; name a directory for the checkpoint")?;
    let manifest = context.save_scorer(directory).await?;
    let place = directory.display();
    let answer = json!({
        "directory": directory,
        "scorer_version": manifest.scorer_version,
        "model_sha256": manifest.model_sha256,
        "metrics": manifest.metrics,
    });
    context.output.result(&answer, || {
        format!(
            "version {} of the compact scorer written to {place}\nupliftmem score --scorer compact --model {place} sets.jsonl  scores with it",
            manifest.scorer_version.0
        )
    })
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Listed {
    Memories,
    Tasks,
    Executions,
    Retrievals,
    Batches,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// What to list.
    #[arg(value_enum, default_value = "memories")]
    what: Listed,
    /// At most so many.
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

pub(crate) async fn list(context: &Context, arguments: ListArguments) -> Result<()> {
    let rows = arguments.limit.min(context.store.limits().page_rows_max);
    let (table, items) = match arguments.what {
        Listed::Memories => memories(context, rows).await?,
        Listed::Tasks => {
            let mut table = Table::new(&["task", "context"]);
            let tasks = context.store.list_tasks(&context.scope, None, rows).await?;
            for task in &tasks {
                table.row(vec![task.name.clone(), task.context.clone()]);
            }
            (table, tasks.iter().map(|task| json!(task)).collect())
        }
        Listed::Executions => {
            let mut table = Table::new(&["rollout", "purpose", "memories", "state"]);
            let filter = TicketFilter::default();
            let tickets = context.store.list_tickets(&context.scope, filter, rows).await?;
            for ticket in &tickets {
                table.row(vec![
                    ticket.rollout.id.to_string(),
                    ticket.rollout.purpose.name().to_owned(),
                    ticket.rollout.set.len().to_string(),
                    ticket.state.as_str().to_owned(),
                ]);
            }
            let items = tickets
                .iter()
                .map(|ticket| json!({ "rollout": ticket.rollout, "state": ticket.state, "attempts": ticket.attempts }));
            (table, items.collect())
        }
        Listed::Retrievals => entries(context, EntryKind::Retrieval, rows).await?,
        Listed::Batches => entries(context, EntryKind::ProbeBatch, rows).await?,
    };
    if context.output.json {
        for item in &items {
            context.output.line(&item.to_string())?;
        }
        return Ok(());
    }
    if items.is_empty() {
        let hint = match arguments.what {
            Listed::Memories => "`upliftmem add` and `upliftmem import` bring memories in",
            Listed::Tasks => "`upliftmem search`, `train` and `import --format tasks` bring tasks in",
            Listed::Executions => "`upliftmem outcome` and `upliftmem train` bring executions in",
            Listed::Retrievals => "`upliftmem search` makes them",
            Listed::Batches => "`upliftmem train` and `upliftmem probe --run` buy them",
        };
        return context.output.line(&format!("nothing yet; {hint}"));
    }
    context.output.line(table.text().trim_end())
}

type Listing = (Table, Vec<serde_json::Value>);

async fn memories(context: &Context, rows: usize) -> Result<Listing> {
    let mut table = Table::new(&["memory", "status", "text"]);
    let filter = MemoryFilter::default();
    let memories = context.store.list_memories(&context.scope, filter, rows).await?;
    for memory in &memories {
        table.row(vec![
            memory.memory.id.to_string(),
            memory.status.as_str().to_owned(),
            memory.memory.text.clone(),
        ]);
    }
    let items = memories.iter().map(|memory| {
        json!({ "id": memory.memory.id, "text": memory.memory.text, "kind": memory.kind, "status": memory.status,
                "metadata": memory.memory.metadata })
    });
    Ok((table, items.collect()))
}

async fn entries(context: &Context, kind: EntryKind, rows: usize) -> Result<Listing> {
    let mut table = Table::new(match kind {
        EntryKind::ProbeBatch => &["batch", "probes", "worth", "strategy"],
        _ => &["retrieval", "memories", "uplift", "query"],
    });
    let filter = JournalFilter {
        kind: Some(kind),
        ..JournalFilter::default()
    };
    let entries = context.store.list_entries(&context.scope, filter, rows).await?;
    for journaled in &entries {
        match &journaled.entry {
            JournalEntry::Retrieval(record) => table.row(vec![
                record.id.to_string(),
                record.set.len().to_string(),
                signed(record.predicted_uplift.get()),
                cut(&record.query, 60),
            ]),
            JournalEntry::ProbeBatch(record) => table.row(vec![
                record.id.to_string(),
                record.probes.len().to_string(),
                record
                    .decision
                    .get("batch_value")
                    .and_then(serde_json::Value::as_f64)
                    .map_or_else(String::new, signed),
                record.strategy.clone(),
            ]),
            other => return Err(anyhow!("unexpected entry {:?}", other.kind())),
        }
    }
    Ok((table, entries.iter().map(|entry| json!(entry)).collect()))
}
