//! Import and export: whole files in one transaction.

use std::io::Write;

use upliftmem_core::TaskId;

use super::{
    Row, Sql, id, journal, memories,
    quotas::{self, Used},
    reports, retirement,
    scopes::{self, ScopeRow},
    tasks, tickets,
    words::WordCounts,
};
use crate::{
    ExportKind, ImportItem, ImportSource, ImportSummary, MemoryStatus, NewMemory, ProgressReport, Scope,
    StoreLimits, StoredMemory, StoredTask, TicketState, Timestamp,
    error::{Error, Result},
    files::lines,
    memory::{check, suspicious, text_hash},
};

/// Progress is reported every so many items.
const REPORT_EVERY: u64 = 256;

/// Writes every item of a source, or fails and leaves the transaction to be undone.
pub(crate) fn import(
    sql: &mut dyn Sql,
    scope: &Scope,
    limits: &StoreLimits,
    now: Timestamp,
    source: ImportSource,
    progress: &mut ProgressReport,
) -> Result<ImportSummary> {
    // A text whose time is over is not in the way of the same text in the file.
    retirement::expire(sql, scope, now)?;
    let mut row = scopes::change(sql, scope)?;
    let mut counts = WordCounts::default();
    let mut summary = ImportSummary::default();
    let mut used = Used::default();
    for item in source.items {
        let (line, item) = item?;
        let written = match item {
            ImportItem::Memory(memory) => {
                let before = summary.stored;
                let written = import_memory(sql, &mut row, limits, *memory, &mut counts, &mut summary);
                used.memories += i64::from(summary.stored > before);
                written
            }
            ImportItem::Task(StoredTask { task, extra }) => {
                tasks::put(sql, scope, limits, &task, &extra).map(|new| summary.count(new))
            }
            ImportItem::Execution(execution) => {
                let rollout = &execution.rollout;
                let at = execution.completed_at;
                tickets::insert(sql, scope, limits, rollout, 1, TicketState::Completed, at)
                    .and_then(|_| {
                        let (attempt, report) = (execution.attempt, &execution.report);
                        reports::record(sql, scope, limits, row.number, attempt, at, report)
                    })
                    .map(|done| summary.count(done == crate::Completion::Recorded))
            }
            ImportItem::Ticket(ticket) => tickets::restore(sql, scope, limits, &ticket).map(|new| {
                used.executions += i64::from(new);
                summary.count(new);
            }),
            ImportItem::Entry(entry) => {
                let before = journal::get(sql, scope, entry.entry.kind(), &entry.entry.key())?.is_some();
                journal::append(sql, scope, limits, entry.at, &entry.entry).map(|_| summary.count(!before))
            }
        };
        written.map_err(|error| located(error, &source.file, line))?;
        if summary.total().is_multiple_of(REPORT_EVERY) {
            progress(summary.total());
        }
    }
    counts.write(sql, row.number)?;
    quotas::charge(sql, scope, used)?;
    progress(summary.total());
    Ok(summary)
}

/// An error of the input, told by file and line; any other as it is.
fn located(error: Error, file: &str, line: u64) -> Error {
    match error {
        Error::Invalid(_) | Error::Limit { .. } | Error::Conflict { .. } | Error::Generation { .. } => {
            let field = match &error {
                Error::Invalid(problem) => problem.what().to_owned(),
                Error::Generation { .. } => "embedding".to_owned(),
                _ => "line".to_owned(),
            };
            Error::Import {
                file: file.to_owned(),
                line,
                field,
                problem: error.to_string(),
            }
        }
        other => other,
    }
}

fn import_memory(
    sql: &mut dyn Sql,
    row: &mut ScopeRow,
    limits: &StoreLimits,
    mut memory: StoredMemory,
    counts: &mut WordCounts,
    summary: &mut ImportSummary,
) -> Result<()> {
    let as_new = NewMemory {
        memory: memory.memory.clone(),
        kind: memory.kind.clone(),
        provenance: memory.provenance.clone(),
        expires_at: None,
        supersedes: None,
        embedding: memory.embedding.clone(),
        quarantine: None,
    };
    check(&as_new, limits)?;
    crate::memory::check_json("other fields", &memory.extra, limits)?;
    if memory.status == MemoryStatus::Active
        && let Some(reason) = suspicious(&memory.memory.text)
    {
        memory.status = MemoryStatus::Quarantined;
        memory.quarantine_reason = Some(reason);
    }
    let by_id = "SELECT hash FROM memories WHERE scope = $1 AND id = $2";
    let key = [row.number.into(), id(memory.memory.id.as_u128())];
    if let Some(mut found) = sql.first(by_id, &key)? {
        if found.bytes(0)? == text_hash(&memory.memory.text) {
            summary.duplicates += 1;
            return Ok(());
        }
        return Err(Error::invalid(
            "id",
            "the scope has a memory with this id and another text",
        ));
    }
    if matches!(memory.status, MemoryStatus::Active | MemoryStatus::Quarantined)
        && duplicate(sql, row, &memory.memory.text)?
    {
        summary.duplicates += 1;
        return Ok(());
    }
    let quarantined = memory.status == MemoryStatus::Quarantined;
    memories::insert(sql, row, &memory, counts)?;
    summary.stored += 1;
    summary.quarantined += u64::from(quarantined);
    Ok(())
}

fn duplicate(sql: &mut dyn Sql, row: &ScopeRow, text: &str) -> Result<bool> {
    let same_text =
        "SELECT 1 FROM memories WHERE scope = $1 AND hash = $2 AND status IN ('active', 'quarantined')";
    Ok(sql
        .first(same_text, &[row.number.into(), text_hash(text).into()])?
        .is_some())
}

/// Writes one kind of rows, a line each, in an order that depends on nothing but the rows.
pub(crate) fn export(
    sql: &mut dyn Sql,
    scope: &Scope,
    kind: ExportKind,
    sink: &mut dyn Write,
    progress: &mut ProgressReport,
) -> Result<u64> {
    let Some(row) = scopes::find(sql, scope)? else {
        return Ok(0);
    };
    let query = match kind {
        ExportKind::Memories => memories::select(""),
        ExportKind::Tasks => {
            "SELECT id, name, context, metadata, extra FROM tasks WHERE scope = $1 ORDER BY id".to_owned()
        }
        ExportKind::Executions => reports::EXECUTIONS.to_owned(),
        ExportKind::Tickets => tickets::OPEN.to_owned(),
        ExportKind::Journal => {
            "SELECT sequence, at, entry FROM journal WHERE scope = $1 ORDER BY sequence".to_owned()
        }
    };
    let mut written = 0;
    sql.each(&query, &[row.number.into()], &mut |mut row| {
        let line = match kind {
            ExportKind::Memories => lines::memory(&memories::read(&mut row)?),
            ExportKind::Tasks => lines::task(&task(&mut row)?),
            ExportKind::Executions => lines::execution(&reports::read_execution(&mut row)?),
            ExportKind::Tickets => lines::ticket(&tickets::read_open(&mut row)?),
            ExportKind::Journal => lines::entry(&journal::read(&mut row)?),
        };
        writeln!(sink, "{line}").map_err(unwritable)?;
        written += 1;
        if written % REPORT_EVERY == 0 {
            progress(written);
        }
        Ok(())
    })?;
    sink.flush().map_err(unwritable)?;
    progress(written);
    Ok(written)
}

fn unwritable(problem: std::io::Error) -> Error {
    Error::File {
        file: "export".into(),
        problem,
    }
}

fn task(row: &mut Row) -> Result<StoredTask> {
    Ok(StoredTask {
        task: upliftmem_core::Task {
            id: TaskId::from_u128(row.id(0)?),
            name: row.text(1)?,
            context: row.text(2)?,
            metadata: row.json(3)?,
        },
        extra: row.json(4)?,
    })
}
