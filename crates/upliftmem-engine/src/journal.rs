//! Reading a scope's journal, a page at a time.

use upliftmem_store::{EntryKind, JournalEntry, JournalFilter, Scope, Store};

use crate::error::Result;

/// Hands out every entry of a kind, or of all kinds, in the order in which they were written.
pub(crate) async fn each_entry(
    store: &dyn Store,
    scope: &Scope,
    kind: Option<EntryKind>,
    mut take: impl FnMut(JournalEntry) -> Result<()>,
) -> Result<()> {
    let mut after = 0;
    loop {
        let filter = JournalFilter {
            kind,
            task: None,
            after,
        };
        let page = store
            .list_entries(scope, filter, store.limits().page_rows_max)
            .await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.sequence;
        for journaled in page {
            take(journaled.entry)?;
        }
    }
}
