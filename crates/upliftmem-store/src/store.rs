//! The one trait that both databases implement.

use std::{io::Write, time::Duration};

use async_trait::async_trait;
use upliftmem_core::{Ledger, MemoryId, Outcome, Rollout, RolloutId, Task, TaskId};

use crate::{
    AfterFailure, Completion, EmbedderGeneration, EntryKind, ExecutionReport, ExportKind, ImportSource,
    ImportSummary, ItemResult, JournalEntry, JournalFilter, Journaled, Leadership, Lease, LeaseRequest,
    LeasedTicket, MemoryChange, MemoryFilter, NewMemory, NewTicket, Recall, RecallQuery, ReembedProgress,
    RetrievalRecord, Scope, StoreLimits, StoredMemory, StoredReport, Tenancy, Ticket, TicketFilter,
    Timestamp, Watch, error::Result,
};

/// Called with the number of items done so far.
pub type ProgressReport = Box<dyn FnMut(u64) + Send>;

/// Everything that must survive: memories, tasks, executions and what was learned from them.
///
/// Every method names a scope and touches nothing outside it. A method that changed something returned after the
/// change was durable; one that failed changed nothing. Time is given by the caller.
#[async_trait]
pub trait Store: Tenancy {
    /// The sizes this store accepts.
    fn limits(&self) -> &StoreLimits;

    // Memories

    /// Writes a batch of memories in one transaction and says what became of each.
    async fn add_memories(
        &self,
        scope: &Scope,
        now: Timestamp,
        batch: Vec<NewMemory>,
    ) -> Result<Vec<ItemResult>>;

    /// Those of the memories that the scope has, in creation order.
    async fn memories(&self, scope: &Scope, ids: &[MemoryId]) -> Result<Vec<StoredMemory>>;

    /// A page of memories in creation order.
    async fn list_memories(
        &self,
        scope: &Scope,
        filter: MemoryFilter,
        rows: usize,
    ) -> Result<Vec<StoredMemory>>;

    /// Changes what is noted beside a memory's text. The text itself never changes: labels are about it.
    async fn change_memory(
        &self,
        scope: &Scope,
        now: Timestamp,
        memory: MemoryId,
        change: MemoryChange,
    ) -> Result<()>;

    /// Keeps a memory from being recalled, for this reason.
    async fn quarantine_memory(
        &self,
        scope: &Scope,
        now: Timestamp,
        memory: MemoryId,
        reason: &str,
    ) -> Result<()>;

    /// Lets a quarantined memory be recalled.
    async fn release_memory(&self, scope: &Scope, now: Timestamp, memory: MemoryId) -> Result<()>;

    /// Marks `old` as replaced by `new`.
    async fn supersede_memory(
        &self,
        scope: &Scope,
        now: Timestamp,
        old: MemoryId,
        new: MemoryId,
    ) -> Result<()>;

    /// Removes a memory for good; says whether it was there. Labels about it stay.
    async fn delete_memory(&self, scope: &Scope, memory: MemoryId) -> Result<bool>;

    /// Gives every memory whose time is over the status `expired`; says how many. Recall does not wait for it.
    async fn expire_memories(&self, scope: &Scope, now: Timestamp) -> Result<u64>;

    /// A number that grows with every change of the scope's memories.
    async fn pool_version(&self, scope: &Scope) -> Result<u64>;

    /// The memory that was created last; ids are minted after it.
    async fn last_memory(&self, scope: &Scope) -> Result<Option<MemoryId>>;

    // Recall

    /// The best candidates for a query. Status and expiry are applied before the cut.
    async fn recall(&self, scope: &Scope, now: Timestamp, query: RecallQuery) -> Result<Recall>;

    /// Vectors that the in-process index does not cover yet: recall scans them, correctly and more slowly.
    async fn unindexed(&self, scope: &Scope) -> Result<u64>;

    // Embedding generations

    /// The generation that the scope searches, and the one it is being moved to.
    async fn generations(
        &self,
        scope: &Scope,
    ) -> Result<(Option<EmbedderGeneration>, Option<EmbedderGeneration>)>;

    /// Starts the move to a generation, or resumes it. [`crate::reembed`] does the whole move.
    async fn reembed_begin(&self, scope: &Scope, target: &EmbedderGeneration) -> Result<ReembedProgress>;

    /// Memories that have no vector of the target yet.
    async fn reembed_pending(&self, scope: &Scope, rows: usize) -> Result<Vec<(MemoryId, String)>>;

    /// Stores vectors of the target.
    async fn reembed_put(&self, scope: &Scope, vectors: Vec<(MemoryId, Vec<f32>)>)
    -> Result<ReembedProgress>;

    /// Switches to the target if every memory has a vector of it; the progress says whether it did.
    async fn reembed_finish(&self, scope: &Scope) -> Result<ReembedProgress>;

    /// Gives the move up.
    async fn reembed_abort(&self, scope: &Scope) -> Result<()>;

    // Tasks

    /// Stores tasks, all or none; says how many were new. A stored task never changes.
    async fn put_tasks(&self, scope: &Scope, tasks: Vec<Task>) -> Result<u64>;

    /// The task, if the scope has it.
    async fn task(&self, scope: &Scope, task: TaskId) -> Result<Option<Task>>;

    /// A page of tasks, by id.
    async fn list_tasks(&self, scope: &Scope, after: Option<TaskId>, rows: usize) -> Result<Vec<Task>>;

    // Processes beside each other

    /// Leads something in the scope, if nobody does. The lock is lost with the process or its connection; whoever leads
    /// next gets a higher token, and what is written with an earlier one is refused.
    async fn lead(&self, scope: &Scope, name: &str) -> Result<Option<Leadership>>;

    /// Hears what is written from now on, so that nobody has to look again and again.
    fn watch(&self) -> Watch;

    /// What time it is where leases are compared: the database's own clock, where there is one, so that machines whose
    /// clocks are apart agree on when a lease ends.
    async fn clock(&self) -> Result<Timestamp>;

    // Tickets and reports

    /// Asks for executions, all or none; says how many are new.
    async fn enqueue(&self, scope: &Scope, now: Timestamp, tickets: Vec<NewTicket>) -> Result<u64>;

    /// Hands out the oldest tickets that nobody holds, expired leases included.
    async fn lease(&self, scope: &Scope, now: Timestamp, request: LeaseRequest) -> Result<Vec<LeasedTicket>>;

    /// [`Self::lease`] of tickets that are for this executor.
    async fn lease_of(
        &self,
        scope: &Scope,
        now: Timestamp,
        request: LeaseRequest,
        executor: &str,
    ) -> Result<Vec<LeasedTicket>>;

    /// Extends a lease to `now + duration`. Refused once the ticket went to someone else.
    async fn heartbeat(&self, scope: &Scope, now: Timestamp, lease: Lease, duration: Duration) -> Result<()>;

    /// Stores a report and completes its ticket in one transaction. The same report twice is one report; a late one
    /// is taken if nobody finished the ticket, and refused if somebody did.
    async fn complete(
        &self,
        scope: &Scope,
        now: Timestamp,
        lease: Lease,
        report: ExecutionReport,
    ) -> Result<Completion>;

    /// [`Self::complete`] for many tickets in one transaction, answered in the order given. One that is refused does
    /// not keep the others from being completed.
    async fn complete_many(
        &self,
        scope: &Scope,
        now: Timestamp,
        batch: Vec<(Lease, ExecutionReport)>,
    ) -> Result<Vec<Result<Completion>>>;

    /// Gives a ticket back after a failed attempt.
    async fn fail(&self, scope: &Scope, lease: Lease, reason: &str) -> Result<AfterFailure>;

    /// Takes back every ticket that this worker holds, as if it had never been handed out; says how many. For a
    /// worker that starts again under the name of one that was killed, or that stops in good order.
    async fn take_back(&self, scope: &Scope, worker: &str) -> Result<u64>;

    /// Takes back every lease whose time is over; says how many.
    async fn expire_leases(&self, scope: &Scope, now: Timestamp) -> Result<u64>;

    /// Stores an execution that was never handed out: one that an agent ran by itself.
    async fn record_execution(
        &self,
        scope: &Scope,
        now: Timestamp,
        rollout: Rollout,
        report: ExecutionReport,
    ) -> Result<Completion>;

    /// Those of these tickets that the scope has, each with its outcome if it has one, in no order.
    async fn settled(&self, scope: &Scope, rollouts: &[RolloutId]) -> Result<Vec<(Ticket, Option<Outcome>)>>;

    /// The ticket of a rollout.
    async fn ticket(&self, scope: &Scope, rollout: RolloutId) -> Result<Option<Ticket>>;

    /// A page of tickets in creation order.
    async fn list_tickets(&self, scope: &Scope, filter: TicketFilter, rows: usize) -> Result<Vec<Ticket>>;

    /// The report of a rollout.
    async fn report(&self, scope: &Scope, rollout: RolloutId) -> Result<Option<StoredReport>>;

    /// A page of reports, in creation order of their rollouts.
    async fn list_reports(
        &self,
        scope: &Scope,
        after: Option<RolloutId>,
        rows: usize,
    ) -> Result<Vec<StoredReport>>;

    /// What was paid for, each execution once. Paper: app. utility.
    async fn ledger(&self, scope: &Scope) -> Result<Ledger>;

    // Journal

    /// Records an answered search and the task it was for, both or neither; says where the record is in the journal.
    async fn record_retrieval(
        &self,
        scope: &Scope,
        now: Timestamp,
        task: Task,
        record: RetrievalRecord,
    ) -> Result<u64>;

    /// Appends entries, all or none; says where they are. An entry that is there already is not written again.
    async fn append(&self, scope: &Scope, now: Timestamp, entries: Vec<JournalEntry>) -> Result<Vec<u64>>;

    /// The entry of a kind and name.
    async fn entry(&self, scope: &Scope, kind: EntryKind, key: &str) -> Result<Option<Journaled>>;

    /// A page of entries in the order in which they were written.
    async fn list_entries(&self, scope: &Scope, filter: JournalFilter, rows: usize)
    -> Result<Vec<Journaled>>;

    /// A page of entries of one kind, the newest first; with `before`, those that were written before that place.
    async fn latest_entries(
        &self,
        scope: &Scope,
        kind: EntryKind,
        before: Option<u64>,
        rows: usize,
    ) -> Result<Vec<Journaled>>;

    // Files

    /// Imports everything a source has, or nothing.
    async fn import(
        &self,
        scope: &Scope,
        now: Timestamp,
        source: ImportSource,
        progress: ProgressReport,
    ) -> Result<ImportSummary>;

    /// Writes one kind of rows as JSON Lines, from one snapshot; says how many.
    async fn export(
        &self,
        scope: &Scope,
        kind: ExportKind,
        sink: Box<dyn Write + Send>,
        progress: ProgressReport,
    ) -> Result<u64>;
}
