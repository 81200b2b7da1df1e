//! [`Store`] for any database that runs the statements: checks the request, opens a transaction, calls them.

use std::{io::Write, sync::Arc, time::Duration};

use async_trait::async_trait;
use upliftmem_core::{Ledger, MemoryId, Outcome, Rollout, RolloutId, Task, TaskId};

use super::{
    Backend, Sql, embeddings, graphs::Graph, journal, leaders, leases, memories, recall, reports, retirement,
    returns, scopes, tasks, tickets, transfer,
};
use crate::{
    AfterFailure, Completion, EmbedderGeneration, EntryKind, ExecutionReport, ExportKind, ImportSource,
    ImportSummary, ItemResult, JournalEntry, JournalFilter, Journaled, Leadership, Lease, LeaseRequest,
    LeasedTicket, MemoryChange, MemoryFilter, NewMemory, NewTicket, ProgressReport, Recall, RecallQuery,
    ReembedProgress, RetrievalRecord, Scope, Store, StoreLimits, StoredMemory, StoredReport, Ticket,
    TicketFilter, Timestamp, Topic, Watch,
    error::Result,
    leadership::Fence,
    limits::{between_one_and, within},
    memory::{check_json, check_name},
};

/// A store on one database.
#[derive(Debug)]
pub(crate) struct SqlStore<B> {
    pub(crate) backend: Arc<B>,
    pub(crate) limits: StoreLimits,
    /// The leader's token that every write of a scope carries.
    pub(crate) fence: Option<Fence>,
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

    /// Runs a closure on one snapshot.
    async fn read<T: Send + 'static>(
        &self,
        scope: &Scope,
        work: impl FnOnce(&mut dyn Sql, &Scope) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let scope = scope.clone();
        self.backend.read(move |sql| work(sql, &scope)).await
    }

    /// Runs a closure in one transaction.
    async fn write<T: Send + 'static>(
        &self,
        scope: &Scope,
        work: impl FnOnce(&mut dyn Sql, &Scope) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (scope, fence) = (scope.clone(), self.fence.clone());
        self.backend
            .write(move |sql| {
                if let Some(fence) = &fence {
                    leaders::check(sql, fence)?;
                }
                work(sql, &scope)
            })
            .await
    }

    async fn lease_any(
        &self,
        scope: &Scope,
        now: Timestamp,
        request: LeaseRequest,
        executor: Option<String>,
    ) -> Result<Vec<LeasedTicket>> {
        let most = self.limits.lease_tickets_max;
        between_one_and("lease_tickets_max", most, request.tickets, "tickets of a lease")?;
        check_name("worker", &request.worker, &self.limits)?;
        self.write(scope, move |sql, scope| {
            leases::lease(sql, scope, now, &request, executor.as_deref())
        })
        .await
    }

    /// What was done, told to those who wait for it.
    fn told<T>(&self, topic: Topic, done: Result<T>) -> Result<T> {
        if done.is_ok() {
            self.backend.tell(topic);
        }
        done
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
        let limits = self.limits;
        self.write(scope, move |sql, scope| {
            memories::add(sql, scope, &limits, now, batch)
        })
        .await
    }

    async fn memories(&self, scope: &Scope, ids: &[MemoryId]) -> Result<Vec<StoredMemory>> {
        self.page(ids.len().max(1))?;
        let ids = ids.to_vec();
        self.read(scope, move |sql, scope| memories::get(sql, scope, &ids))
            .await
    }

    async fn list_memories(
        &self,
        scope: &Scope,
        filter: MemoryFilter,
        rows: usize,
    ) -> Result<Vec<StoredMemory>> {
        self.page(rows)?;
        self.read(scope, move |sql, scope| memories::list(sql, scope, filter, rows))
            .await
    }

    async fn change_memory(
        &self,
        scope: &Scope,
        now: Timestamp,
        memory: MemoryId,
        change: MemoryChange,
    ) -> Result<()> {
        if let Some(metadata) = &change.metadata {
            check_json("metadata", metadata, &self.limits)?;
        }
        self.write(scope, move |sql, scope| {
            retirement::change(sql, scope, now, memory, &change)
        })
        .await
    }

    async fn quarantine_memory(
        &self,
        scope: &Scope,
        now: Timestamp,
        memory: MemoryId,
        reason: &str,
    ) -> Result<()> {
        check_name("quarantine reason", reason, &self.limits)?;
        let reason = reason.to_owned();
        self.write(scope, move |sql, scope| {
            retirement::quarantine(sql, scope, now, memory, Some(&reason))
        })
        .await
    }

    async fn release_memory(&self, scope: &Scope, now: Timestamp, memory: MemoryId) -> Result<()> {
        self.write(scope, move |sql, scope| {
            retirement::quarantine(sql, scope, now, memory, None)
        })
        .await
    }

    async fn supersede_memory(
        &self,
        scope: &Scope,
        now: Timestamp,
        old: MemoryId,
        new: MemoryId,
    ) -> Result<()> {
        self.write(scope, move |sql, scope| {
            retirement::supersede(sql, scope, now, old, new)
        })
        .await
    }

    async fn delete_memory(&self, scope: &Scope, memory: MemoryId) -> Result<bool> {
        self.write(scope, move |sql, scope| retirement::delete(sql, scope, memory))
            .await
    }

    async fn expire_memories(&self, scope: &Scope, now: Timestamp) -> Result<u64> {
        self.write(scope, move |sql, scope| retirement::expire(sql, scope, now))
            .await
    }

    async fn pool_version(&self, scope: &Scope) -> Result<u64> {
        let row = self
            .read(scope, move |sql, scope| scopes::find(sql, scope))
            .await?;
        Ok(row.map_or(0, |row| row.version.unsigned_abs()))
    }

    async fn last_memory(&self, scope: &Scope) -> Result<Option<MemoryId>> {
        self.read(scope, move |sql, scope| memories::last(sql, scope))
            .await
    }

    async fn recall(&self, scope: &Scope, now: Timestamp, query: RecallQuery) -> Result<Recall> {
        query.check(&self.limits)?;
        let indexes = self.backend.indexes();
        let (recall, missed) = self
            .read(scope, move |sql, scope| {
                recall::recall(sql, &indexes, scope, now, &query)
            })
            .await?;
        if let Some(graph) = missed {
            self.backend.build(graph);
        }
        Ok(recall)
    }

    async fn unindexed(&self, scope: &Scope) -> Result<u64> {
        let indexes = self.backend.indexes();
        self.read(scope, move |sql, scope| {
            let Some(row) = scopes::find(sql, scope)? else {
                return Ok(0);
            };
            if indexes.take(row.memories) {
                return Ok(indexes.unbuilt(row.number) as u64);
            }
            let Some(number) = row.generation else {
                return Ok(0);
            };
            let dimension = embeddings::generation(sql, row.number, number)?.dimension as usize;
            match Graph::of(&row, dimension) {
                Some(graph) if !graph.is_ready(sql)? => Ok(row.memories),
                _ => Ok(0),
            }
        })
        .await
    }

    async fn generations(
        &self,
        scope: &Scope,
    ) -> Result<(Option<EmbedderGeneration>, Option<EmbedderGeneration>)> {
        self.read(scope, move |sql, scope| embeddings::generations(sql, scope))
            .await
    }

    async fn reembed_begin(&self, scope: &Scope, target: &EmbedderGeneration) -> Result<ReembedProgress> {
        check_name("embedder name", &target.name, &self.limits)?;
        check_name("embedder digest", &target.digest, &self.limits)?;
        within(
            "embedding_dimension_max",
            self.limits.embedding_dimension_max,
            target.dimension as usize,
            format_args!("numbers of an embedding of {target}"),
        )?;
        let target = target.clone();
        self.write(scope, move |sql, scope| embeddings::begin(sql, scope, &target))
            .await
    }

    async fn reembed_pending(&self, scope: &Scope, rows: usize) -> Result<Vec<(MemoryId, String)>> {
        self.page(rows)?;
        self.read(scope, move |sql, scope| embeddings::pending(sql, scope, rows))
            .await
    }

    async fn reembed_put(
        &self,
        scope: &Scope,
        vectors: Vec<(MemoryId, Vec<f32>)>,
    ) -> Result<ReembedProgress> {
        self.batch(vectors.len())?;
        self.write(scope, move |sql, scope| {
            embeddings::put_batch(sql, scope, vectors)
        })
        .await
    }

    async fn reembed_finish(&self, scope: &Scope) -> Result<ReembedProgress> {
        self.write(scope, move |sql, scope| embeddings::finish(sql, scope))
            .await
    }

    async fn reembed_abort(&self, scope: &Scope) -> Result<()> {
        self.write(scope, move |sql, scope| embeddings::abort(sql, scope))
            .await
    }

    async fn put_tasks(&self, scope: &Scope, batch: Vec<Task>) -> Result<u64> {
        self.batch(batch.len())?;
        let limits = self.limits;
        self.write(scope, move |sql, scope| {
            tasks::put_all(sql, scope, &limits, batch)
        })
        .await
    }

    async fn task(&self, scope: &Scope, task: TaskId) -> Result<Option<Task>> {
        self.read(scope, move |sql, scope| tasks::get(sql, scope, task))
            .await
    }

    async fn list_tasks(&self, scope: &Scope, after: Option<TaskId>, rows: usize) -> Result<Vec<Task>> {
        self.page(rows)?;
        self.read(scope, move |sql, scope| tasks::list(sql, scope, after, rows))
            .await
    }

    async fn lead(&self, scope: &Scope, name: &str) -> Result<Option<Leadership>> {
        check_name("what is led", name, &self.limits)?;
        let lock = format!("{}\n{name}", scope.key());
        let Some(held) = self.backend.hold(lock).await? else {
            return Ok(None);
        };
        let led = name.to_owned();
        let token = self
            .write(scope, move |sql, scope| leaders::raise(sql, scope, &led))
            .await?;
        let fence = Fence {
            scope: scope.clone(),
            name: name.to_owned(),
            token,
        };
        let store = Arc::new(Self {
            backend: Arc::clone(&self.backend),
            limits: self.limits,
            fence: Some(fence),
        });
        Ok(Some(Leadership {
            store,
            token,
            _held: held,
        }))
    }

    fn watch(&self) -> Watch {
        self.backend.listen()
    }

    async fn clock(&self) -> Result<Timestamp> {
        self.backend.clock().await
    }

    async fn enqueue(&self, scope: &Scope, now: Timestamp, batch: Vec<NewTicket>) -> Result<u64> {
        self.batch(batch.len())?;
        let limits = self.limits;
        let done = self
            .write(scope, move |sql, scope| {
                tickets::enqueue(sql, scope, &limits, now, &batch)
            })
            .await;
        self.told(Topic::Tickets, done)
    }

    async fn lease(&self, scope: &Scope, now: Timestamp, request: LeaseRequest) -> Result<Vec<LeasedTicket>> {
        self.lease_any(scope, now, request, None).await
    }

    async fn lease_of(
        &self,
        scope: &Scope,
        now: Timestamp,
        request: LeaseRequest,
        executor: &str,
    ) -> Result<Vec<LeasedTicket>> {
        self.lease_any(scope, now, request, Some(executor.to_owned()))
            .await
    }

    async fn heartbeat(&self, scope: &Scope, now: Timestamp, lease: Lease, duration: Duration) -> Result<()> {
        self.write(scope, move |sql, scope| {
            leases::heartbeat(sql, scope, lease, now.after(duration))
        })
        .await
    }

    async fn complete(
        &self,
        scope: &Scope,
        now: Timestamp,
        lease: Lease,
        report: ExecutionReport,
    ) -> Result<Completion> {
        let limits = self.limits;
        let done = self
            .write(scope, move |sql, scope| {
                leases::complete(sql, scope, &limits, now, lease, &report)
            })
            .await;
        self.told(Topic::Reports, done)
    }

    async fn complete_many(
        &self,
        scope: &Scope,
        now: Timestamp,
        batch: Vec<(Lease, ExecutionReport)>,
    ) -> Result<Vec<Result<Completion>>> {
        self.batch(batch.len())?;
        let limits = self.limits;
        let done = self
            .write(scope, move |sql, scope| {
                leases::complete_many(sql, scope, &limits, now, &batch)
            })
            .await;
        self.told(Topic::Reports, done)
    }

    async fn fail(&self, scope: &Scope, lease: Lease, reason: &str) -> Result<AfterFailure> {
        let reason = reason.to_owned();
        let after = self
            .write(scope, move |sql, scope| leases::fail(sql, scope, lease, &reason))
            .await?;
        self.backend.tell(match after {
            AfterFailure::WillRetry => Topic::Tickets,
            AfterFailure::GivenUp => Topic::Reports,
        });
        Ok(after)
    }

    async fn take_back(&self, scope: &Scope, worker: &str) -> Result<u64> {
        let worker = worker.to_owned();
        let done = self
            .write(scope, move |sql, scope| returns::take_back(sql, scope, &worker))
            .await;
        self.told(Topic::Tickets, done)
    }

    async fn expire_leases(&self, scope: &Scope, now: Timestamp) -> Result<u64> {
        let done = self
            .write(scope, move |sql, scope| leases::expire(sql, scope, now))
            .await;
        self.told(Topic::Tickets, done)
    }

    async fn record_execution(
        &self,
        scope: &Scope,
        now: Timestamp,
        rollout: Rollout,
        report: ExecutionReport,
    ) -> Result<Completion> {
        let limits = self.limits;
        let done = self
            .write(scope, move |sql, scope| {
                reports::record_own(sql, scope, &limits, now, &rollout, &report)
            })
            .await;
        self.told(Topic::Reports, done)
    }

    async fn settled(&self, scope: &Scope, rollouts: &[RolloutId]) -> Result<Vec<(Ticket, Option<Outcome>)>> {
        self.page(rollouts.len().max(1))?;
        let rollouts = rollouts.to_vec();
        self.read(scope, move |sql, scope| tickets::settled(sql, scope, &rollouts))
            .await
    }

    async fn ticket(&self, scope: &Scope, rollout: RolloutId) -> Result<Option<Ticket>> {
        self.read(scope, move |sql, scope| tickets::ticket(sql, scope, rollout))
            .await
    }

    async fn list_tickets(&self, scope: &Scope, filter: TicketFilter, rows: usize) -> Result<Vec<Ticket>> {
        self.page(rows)?;
        self.read(scope, move |sql, scope| tickets::list(sql, scope, filter, rows))
            .await
    }

    async fn report(&self, scope: &Scope, rollout: RolloutId) -> Result<Option<StoredReport>> {
        self.read(scope, move |sql, scope| reports::report(sql, scope, rollout))
            .await
    }

    async fn list_reports(
        &self,
        scope: &Scope,
        after: Option<RolloutId>,
        rows: usize,
    ) -> Result<Vec<StoredReport>> {
        self.page(rows)?;
        self.read(scope, move |sql, scope| reports::reports(sql, scope, after, rows))
            .await
    }

    async fn ledger(&self, scope: &Scope) -> Result<Ledger> {
        self.read(scope, move |sql, scope| reports::ledger(sql, scope))
            .await
    }

    async fn record_retrieval(
        &self,
        scope: &Scope,
        now: Timestamp,
        task: Task,
        record: RetrievalRecord,
    ) -> Result<u64> {
        let limits = self.limits;
        self.write(scope, move |sql, scope| {
            tasks::put_all(sql, scope, &limits, vec![task])?;
            journal::append(sql, scope, &limits, now, &JournalEntry::Retrieval(record))
        })
        .await
    }

    async fn append(&self, scope: &Scope, now: Timestamp, entries: Vec<JournalEntry>) -> Result<Vec<u64>> {
        self.batch(entries.len())?;
        let limits = self.limits;
        let scorers = entries.iter().any(|entry| {
            matches!(
                entry,
                JournalEntry::ScorerVersion(_) | JournalEntry::TrainingEvent(_)
            )
        });
        let done = self
            .write(scope, move |sql, scope| {
                entries
                    .iter()
                    .map(|entry| journal::append(sql, scope, &limits, now, entry))
                    .collect()
            })
            .await;
        if scorers {
            self.told(Topic::Scorers, done)
        } else {
            done
        }
    }

    async fn entry(&self, scope: &Scope, kind: EntryKind, key: &str) -> Result<Option<Journaled>> {
        let key = key.replace('\0', "");
        self.read(scope, move |sql, scope| journal::get(sql, scope, kind, &key))
            .await
    }

    async fn list_entries(
        &self,
        scope: &Scope,
        filter: JournalFilter,
        rows: usize,
    ) -> Result<Vec<Journaled>> {
        self.page(rows)?;
        self.read(scope, move |sql, scope| journal::list(sql, scope, filter, rows))
            .await
    }

    async fn latest_entries(
        &self,
        scope: &Scope,
        kind: EntryKind,
        before: Option<u64>,
        rows: usize,
    ) -> Result<Vec<Journaled>> {
        self.page(rows)?;
        self.read(scope, move |sql, scope| {
            journal::latest(sql, scope, kind, before, rows)
        })
        .await
    }

    async fn import(
        &self,
        scope: &Scope,
        now: Timestamp,
        source: ImportSource,
        mut progress: ProgressReport,
    ) -> Result<ImportSummary> {
        let limits = self.limits;
        self.write(scope, move |sql, scope| {
            transfer::import(sql, scope, &limits, now, source, &mut progress)
        })
        .await
    }

    async fn export(
        &self,
        scope: &Scope,
        kind: ExportKind,
        mut sink: Box<dyn Write + Send>,
        mut progress: ProgressReport,
    ) -> Result<u64> {
        self.read(scope, move |sql, scope| {
            transfer::export(sql, scope, kind, &mut sink, &mut progress)
        })
        .await
    }
}
