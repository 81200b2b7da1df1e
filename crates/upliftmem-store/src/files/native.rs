//! Our own files.

use std::io::BufRead;

use upliftmem_core::{Memory, Task, TaskId};

use super::{
    ExportKind, ImportItem, ImportSource, MintId, StoredTask, StoredTicket,
    reader::{Fields, Lines},
};
use crate::{
    MemoryStatus, StoreLimits, StoredMemory, TicketState, Timestamp, error::Result, memory::estimated_tokens,
};

/// A file of one kind, one JSON object a line, read as it is imported.
///
/// A memory needs only its `text`; an id is minted, and the rest has defaults. Unknown fields are kept.
pub fn json_lines(
    kind: ExportKind,
    file: &str,
    input: impl BufRead + Send + 'static,
    limits: &StoreLimits,
    now: Timestamp,
    mut mint: MintId,
) -> ImportSource {
    let name = file.to_owned();
    let lines = Lines::new(file, input, limits.line_bytes_max);
    let items = lines.map(move |line| {
        let (number, line) = line?;
        let fields = Fields::parse(&name, number, &line)?;
        let item = match kind {
            ExportKind::Memories => memory(fields, now, &mut mint)?,
            ExportKind::Tasks => task(fields)?,
            ExportKind::Executions => execution(fields)?,
            ExportKind::Tickets => ticket(fields)?,
            ExportKind::Journal => entry(fields)?,
        };
        Ok((number, item))
    });
    ImportSource {
        file: file.to_owned(),
        items: Box::new(items),
    }
}

fn memory(mut fields: Fields<'_>, now: Timestamp, mint: &mut MintId) -> Result<ImportItem> {
    let text: String = fields.required("text")?;
    let created_at = fields.optional("created_at")?.unwrap_or(now);
    let id = match fields.optional::<String>("id")? {
        Some(name) => name.parse().map_err(|_| {
            let way_out = "leave it out to get a new one, and keep your own name in metadata";
            fields.refuse("id", format_args!("{name:?} is not a UUID; {way_out}"))
        })?,
        None => mint(created_at),
    };
    let stored = StoredMemory {
        memory: Memory {
            id,
            tokens: fields
                .optional("tokens")?
                .unwrap_or_else(|| estimated_tokens(&text)),
            text,
            source_task: fields.optional("source_task")?,
            metadata: fields.optional("metadata")?.unwrap_or_default(),
        },
        kind: fields.optional("kind")?.unwrap_or_else(|| "note".into()),
        provenance: fields.optional("provenance")?.unwrap_or_default(),
        status: fields.optional("status")?.unwrap_or(MemoryStatus::Active),
        quarantine_reason: fields.optional("quarantine_reason")?,
        created_at,
        updated_at: fields.optional("updated_at")?,
        expires_at: fields.optional("expires_at")?,
        superseded_by: fields.optional("superseded_by")?,
        embedding: fields.optional("embedding")?,
        extra: fields.rest(),
    };
    Ok(ImportItem::Memory(Box::new(stored)))
}

fn task(mut fields: Fields<'_>) -> Result<ImportItem> {
    let name: String = fields.required("id")?;
    let task = Task {
        id: TaskId::from_name(&name),
        name,
        context: fields.required("context")?,
        metadata: fields.optional("metadata")?.unwrap_or_default(),
    };
    Ok(ImportItem::Task(StoredTask {
        task,
        extra: fields.rest(),
    }))
}

fn execution(mut fields: Fields<'_>) -> Result<ImportItem> {
    let execution = super::StoredExecution {
        rollout: fields.required("rollout")?,
        report: fields.required("report")?,
        attempt: fields.required("attempt")?,
        completed_at: fields.required("completed_at")?,
    };
    if execution.rollout.id != execution.report.outcome.rollout {
        return Err(fields.refuse("report", "it is of another rollout"));
    }
    nothing_else(fields)?;
    Ok(ImportItem::Execution(Box::new(execution)))
}

fn ticket(mut fields: Fields<'_>) -> Result<ImportItem> {
    let ticket = StoredTicket {
        rollout: fields.required("rollout")?,
        state: fields.required("state")?,
        attempts: fields.required("attempts")?,
        attempts_max: fields.required("attempts_max")?,
        last_error: fields.optional("last_error")?,
        enqueued_at: fields.required("enqueued_at")?,
    };
    if !matches!(ticket.state, TicketState::Waiting | TicketState::Failed) {
        return Err(fields.refuse("state", "a ticket of a file is waiting or failed"));
    }
    nothing_else(fields)?;
    Ok(ImportItem::Ticket(Box::new(ticket)))
}

fn entry(mut fields: Fields<'_>) -> Result<ImportItem> {
    let (kind, content): (serde_json::Value, serde_json::Value) =
        (fields.required("kind")?, fields.required("entry")?);
    let tagged = serde_json::json!({ "kind": kind, "entry": content });
    let entry = crate::Journaled {
        sequence: fields.required("sequence")?,
        at: fields.required("at")?,
        entry: serde_json::from_value(tagged).map_err(|error| fields.refuse("entry", error))?,
    };
    nothing_else(fields)?;
    Ok(ImportItem::Entry(Box::new(entry)))
}

/// Executions, tickets and entries are written by this program alone: a field it does not know is a newer program's.
fn nothing_else(fields: Fields<'_>) -> Result<()> {
    let refused = fields.refuse(
        "line",
        "it has unknown fields; was it written by a newer version?",
    );
    if fields.rest().is_empty() {
        Ok(())
    } else {
        Err(refused)
    }
}
