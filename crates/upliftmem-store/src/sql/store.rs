//! [`Store`] for any database that runs the statements: checks the request, opens a transaction, calls them.

use std::{io::Write, time::Duration};

use async_trait::async_trait;
use upliftmem_core::{Ledger, MemoryId, Rollout, RolloutId, Task, TaskId};

use super::{Backend, embeddings, journal, memories, recall, returns, scopes, tasks, tickets, transfer};
use crate::{
    AfterFailure, Completion, EmbedderGeneration, EntryKind, ExecutionReport, ExportKind, ImportSource,
    ImportSummary, ItemResult, JournalEntry, JournalFilter, Journaled, Lease, LeaseRequest, LeasedTicket,
    MemoryFilter, NewMemory, NewTicket, ProgressReport, Recall, RecallQuery, ReembedProgress, Scope, Store,
    StoreLimits, StoredMemory, StoredReport, Ticket, TicketFilter, TicketState, Timestamp,
    error::{Error, Result},
    limits::{between_one_and, within},
    memory::check_name,
};

/// A store on one database.
#[derive(Debug)]
pub(crate) struct SqlStore<B> {
    pub(crate) backend: B,
    pub(crate) limits: StoreLimits,
}

impl<B: Backend> SqlStore<B> {
    fn batch(&self, items: usize) -> Result<()> {
        within(
            "batch_items_max",
            self.limits.batch_items_max,
            items,
            "items of the batch",
        )
    }

    fn page(&self, rows: usize) -> Result<()> {
        between_one_and("page_rows_max", self.limits.page_rows_max, rows, "rows of a page")
    }
}

#[async_trait]
impl<B: Backend> Store for SqlStore<B> {
    fn limits(&self) -> &StoreLimits {
        &self.limits
    }

    async fn add_memories(
        &self,
        scope: &Scope,
        now: Timestamp,
        batch: Vec<NewMemory>,
    ) -> Result<Vec<ItemResult>> {
        self.batch(batch.len())?;
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let (scope, limits) = (scope.clone(), self.limits);
        self.backend
            .write(move |sql| memories::add(sql, &scope, &limits, now, batch))
            .await
    }

    async fn memories(&self, scope: &Scope, ids: &[MemoryId]) -> Result<Vec<StoredMemory>> {
        self.page(ids.len().max(1))?;
        let (scope, ids) = (scope.clone(), ids.to_vec());
        self.backend
            .read(move |sql| memories::get(sql, &scope, &ids))
            .await
    }

    async fn list_memories(
        &self,
        scope: &Scope,
        filter: MemoryFilter,
        rows: usize,
    ) -> Result<Vec<StoredMemory>> {
        self.page(rows)?;
        let scope = scope.clone();
        self.backend
            .read(move |sql| memories::list(sql, &scope, filter, rows))
            .await
    }

    async fn quarantine_memory(&self, scope: &Scope, memory: MemoryId, reason: &str) -> Result<()> {
        check_name("quarantine reason", reason, &self.limits)?;
        let (scope, reason) = (scope.clone(), reason.to_owned());
        self.backend
            .write(move |sql| memories::quarantine(sql, &scope, memory, Some(&reason)))
            .await
    }

    async fn release_memory(&self, scope: &Scope, memory: MemoryId) -> Result<()> {
        let scope = scope.clone();
        self.backend
            .write(move |sql| memories::quarantine(sql, &scope, memory, None))
            .await
    }

    async fn supersede_memory(&self, scope: &Scope, old: MemoryId, new: MemoryId) -> Result<()> {
        let scope = scope.clone();
        self.backend
            .write(move |sql| memories::supersede(sql, &scope, old, new))
            .await
    }

    async fn delete_memory(&self, scope: &Scope, memory: MemoryId) -> Result<bool> {
        let scope = scope.clone();
        self.backend
            .write(move |sql| memories::delete(sql, &scope, memory))
            .await
    }

    async fn expire_memories(&self, scope: &Scope, now: Timestamp) -> Result<u64> {
        let scope = scope.clone();
        self.backend
            .write(move |sql| memories::expire(sql, &scope, now))
            .await
    }

    async fn pool_version(&self, scope: &Scope) -> Result<u64> {
        let scope = scope.clone();
        let row = self.backend.read(move |sql| scopes::find(sql, &scope)).await?;
        Ok(row.map_or(0, |row| row.version.unsigned_abs()))
    }

    async fn last_memory(&self, scope: &Scope) -> Result<Option<MemoryId>> {
        let scope = scope.clone();
        self.backend.read(move |sql| memories::last(sql, &scope)).await
    }

    async fn recall(&self, scope: &Scope, now: Timestamp, query: RecallQuery) -> Result<Recall> {
        let limits = &self.limits;
        between_one_and(
            "recall_candidates_max",
            limits.recall_candidates_max,
            query.candidates,
            "candidates",
        )?;
        within(
            "query_bytes_max",
            limits.query_bytes_max,
            query.text.len(),
            "bytes of the query",
        )?;
        let (scope, indexes) = (scope.clone(), self.backend.indexes());
        self.backend
            .read(move |sql| recall::recall(sql, indexes.as_ref(), &scope, now, &query))
            .await
    }

    async fn unindexed(&self, scope: &Scope) -> Result<u64> {
        let Some(indexes) = self.backend.indexes() else {
            return Ok(0);
        };
        let scope = scope.clone();
        let row = self.backend.read(move |sql| scopes::find(sql, &scope)).await?;
        Ok(row.map_or(0, |row| indexes.unbuilt(row.number) as u64))
    }

    async fn generations(
        &self,
        scope: &Scope,
    ) -> Result<(Option<EmbedderGeneration>, Option<EmbedderGeneration>)> {
        let scope = scope.clone();
        self.backend
            .read(move |sql| embeddings::generations(sql, &scope))
            .await
    }

    async fn reembed_begin(&self, scope: &Scope, target: &EmbedderGeneration) -> Result<ReembedProgress> {
        check_name("embedder name", &target.name, &self.limits)?;
        check_name("embedder digest", &target.digest, &self.limits)?;
        let (scope, target) = (scope.clone(), target.clone());
        self.backend
            .write(move |sql| embeddings::begin(sql, &scope, &target))
            .await
    }

    async fn reembed_pending(&self, scope: &Scope, rows: usize) -> Result<Vec<(MemoryId, String)>> {
        self.page(rows)?;
        let scope = scope.clone();
        self.backend
            .read(move |sql| embeddings::pending(sql, &scope, rows))
            .await
    }

    async fn reembed_put(
        &self,
        scope: &Scope,
        vectors: Vec<(MemoryId, Vec<f32>)>,
    ) -> Result<ReembedProgress> {
        self.batch(vectors.len())?;
        let scope = scope.clone();
        self.backend
            .write(move |sql| embeddings::put_batch(sql, &scope, vectors))
            .await
    }

    async fn reembed_finish(&self, scope: &Scope) -> Result<ReembedProgress> {
        let scope = scope.clone();
        self.backend
            .write(move |sql| embeddings::finish(sql, &scope))
            .await
    }

    async fn reembed_abort(&self, scope: &Scope) -> Result<()> {
        let scope = scope.clone();
        self.backend
            .write(move |sql| embeddings::abort(sql, &scope))
            .await
    }

    async fn put_tasks(&self, scope: &Scope, mut batch: Vec<Task>) -> Result<u64> {
        self.batch(batch.len())?;
        // In one order, so that two batches never wait for each other in a circle.
        batch.sort_by_key(|task| task.id);
        let (scope, limits) = (scope.clone(), self.limits);
        self.backend
            .write(move |sql| {
                let mut new = 0;
                for task in &batch {
                    new += u64::from(tasks::put(sql, &scope, &limits, task, &serde_json::Map::new())?);
                }
                Ok(new)
            })
            .await
    }

    async fn task(&self, scope: &Scope, task: TaskId) -> Result<Option<Task>> {
        let scope = scope.clone();
        self.backend.read(move |sql| tasks::get(sql, &scope, task)).await
    }

    async fn list_tasks(&self, scope: &Scope, after: Option<TaskId>, rows: usize) -> Result<Vec<Task>> {
        self.page(rows)?;
        let scope = scope.clone();
        self.backend
            .read(move |sql| tasks::list(sql, &scope, after, rows))
            .await
    }

    async fn enqueue(&self, scope: &Scope, now: Timestamp, mut batch: Vec<NewTicket>) -> Result<u64> {
        self.batch(batch.len())?;
        batch.sort_by_key(|ticket| ticket.rollout.id);
        let (scope, limits) = (scope.clone(), self.limits);
        self.backend
            .write(move |sql| {
                let mut new = 0;
                for ticket in &batch {
                    new += u64::from(tickets::enqueue(sql, &scope, &limits, now, ticket)?);
                }
                Ok(new)
            })
            .await
    }

    async fn lease(&self, scope: &Scope, now: Timestamp, request: LeaseRequest) -> Result<Vec<LeasedTicket>> {
        let most = self.limits.lease_tickets_max;
        between_one_and("lease_tickets_max", most, request.tickets, "tickets of a lease")?;
        check_name("worker", &request.worker, &self.limits)?;
        let scope = scope.clone();
        self.backend
            .write(move |sql| tickets::lease(sql, &scope, now, &request))
            .await
    }

    async fn heartbeat(&self, scope: &Scope, now: Timestamp, lease: Lease, duration: Duration) -> Result<()> {
        let scope = scope.clone();
        self.backend
            .write(move |sql| tickets::heartbeat(sql, &scope, lease, now.after(duration)))
            .await
    }

    async fn complete(
        &self,
        scope: &Scope,
        now: Timestamp,
        lease: Lease,
        report: ExecutionReport,
    ) -> Result<Completion> {
        let (scope, limits) = (scope.clone(), self.limits);
        self.backend
            .write(move |sql| tickets::complete(sql, &scope, &limits, now, lease, &report))
            .await
    }

    async fn fail(&self, scope: &Scope, lease: Lease, reason: &str) -> Result<AfterFailure> {
        let (scope, reason) = (scope.clone(), reason.to_owned());
        self.backend
            .write(move |sql| tickets::fail(sql, &scope, lease, &reason))
            .await
    }

    async fn take_back(&self, scope: &Scope, worker: &str) -> Result<u64> {
        let (scope, worker) = (scope.clone(), worker.to_owned());
        self.backend
            .write(move |sql| returns::take_back(sql, &scope, &worker))
            .await
    }

    async fn expire_leases(&self, scope: &Scope, now: Timestamp) -> Result<u64> {
        let scope = scope.clone();
        self.backend
            .write(move |sql| tickets::expire(sql, &scope, now))
            .await
    }

    async fn record_execution(
        &self,
        scope: &Scope,
        now: Timestamp,
        rollout: Rollout,
        report: ExecutionReport,
    ) -> Result<Completion> {
        if rollout.id != report.outcome.rollout {
            return Err(Error::invalid(
                "outcome",
                format_args!(
                    "it is of rollout {}, the execution of {}",
                    report.outcome.rollout, rollout.id
                ),
            ));
        }
        let (scope, limits) = (scope.clone(), self.limits);
        self.backend
            .write(move |sql| {
                tickets::insert(sql, &scope, &limits, &rollout, 1, TicketState::Completed, now)?;
                let number = scopes::ensure(sql, &scope)?.number;
                tickets::record(sql, &scope, &limits, number, 0, now, &report)
            })
            .await
    }

    async fn ticket(&self, scope: &Scope, rollout: RolloutId) -> Result<Option<Ticket>> {
        let scope = scope.clone();
        self.backend
            .read(move |sql| tickets::ticket(sql, &scope, rollout))
            .await
    }

    async fn list_tickets(&self, scope: &Scope, filter: TicketFilter, rows: usize) -> Result<Vec<Ticket>> {
        self.page(rows)?;
        let scope = scope.clone();
        self.backend
            .read(move |sql| tickets::list(sql, &scope, filter, rows))
            .await
    }

    async fn report(&self, scope: &Scope, rollout: RolloutId) -> Result<Option<StoredReport>> {
        let scope = scope.clone();
        self.backend
            .read(move |sql| tickets::report(sql, &scope, rollout))
            .await
    }

    async fn list_reports(
        &self,
        scope: &Scope,
        after: Option<RolloutId>,
        rows: usize,
    ) -> Result<Vec<StoredReport>> {
        self.page(rows)?;
        let scope = scope.clone();
        self.backend
            .read(move |sql| tickets::reports(sql, &scope, after, rows))
            .await
    }

    async fn ledger(&self, scope: &Scope) -> Result<Ledger> {
        let scope = scope.clone();
        self.backend.read(move |sql| tickets::ledger(sql, &scope)).await
    }

    async fn append(&self, scope: &Scope, now: Timestamp, entries: Vec<JournalEntry>) -> Result<Vec<u64>> {
        self.batch(entries.len())?;
        let (scope, limits) = (scope.clone(), self.limits);
        self.backend
            .write(move |sql| {
                entries
                    .iter()
                    .map(|entry| journal::append(sql, &scope, &limits, now, entry))
                    .collect()
            })
            .await
    }

    async fn entry(&self, scope: &Scope, kind: EntryKind, key: &str) -> Result<Option<Journaled>> {
        let (scope, key) = (scope.clone(), key.replace('\0', ""));
        self.backend
            .read(move |sql| journal::get(sql, &scope, kind, &key))
            .await
    }

    async fn list_entries(
        &self,
        scope: &Scope,
        filter: JournalFilter,
        rows: usize,
    ) -> Result<Vec<Journaled>> {
        self.page(rows)?;
        let scope = scope.clone();
        self.backend
            .read(move |sql| journal::list(sql, &scope, filter, rows))
            .await
    }

    async fn import(
        &self,
        scope: &Scope,
        now: Timestamp,
        source: ImportSource,
        mut progress: ProgressReport,
    ) -> Result<ImportSummary> {
        let (scope, limits) = (scope.clone(), self.limits);
        self.backend
            .write(move |sql| transfer::import(sql, &scope, &limits, now, source, &mut progress))
            .await
    }

    async fn export(
        &self,
        scope: &Scope,
        kind: ExportKind,
        mut sink: Box<dyn Write + Send>,
        mut progress: ProgressReport,
    ) -> Result<u64> {
        let scope = scope.clone();
        self.backend
            .read(move |sql| transfer::export(sql, &scope, kind, &mut sink, &mut progress))
            .await
    }
}
