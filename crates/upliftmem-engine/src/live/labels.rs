//! The labels of a scope, read as far as they are written.

use std::collections::BTreeMap;

use upliftmem_core::ReferenceId;
use upliftmem_store::{EntryKind, JournalEntry, JournalFilter, Journaled, Scope, Store};

use crate::{error::Result, state::Labelled};

/// Every label so far by the executor that it is of, in the order of the journal.
#[derive(Default)]
pub(super) struct LabelLog {
    by_executor: BTreeMap<String, Vec<Labelled>>,
    executors: BTreeMap<ReferenceId, String>,
    /// The journal was read up to here.
    read: u64,
}

impl LabelLog {
    /// Reads what is new; says whether anything was.
    pub(super) async fn read(&mut self, store: &dyn Store, scope: &Scope) -> Result<bool> {
        let mut new: BTreeMap<u64, JournalEntry> = BTreeMap::new();
        let mut take = |page: Vec<Journaled>| {
            let before = new.len();
            new.extend(page.into_iter().map(|found| (found.sequence, found.entry)));
            new.len() > before
        };
        // Places become visible in order. When no observation came while references were read, every label up to
        // the last place seen has been seen, so that the order is the journal's however often one looks.
        let mut more = take(list(store, scope, EntryKind::Observation, self.read).await?);
        loop {
            more |= take(list(store, scope, EntryKind::Reference, self.read).await?);
            let came = take(list(store, scope, EntryKind::Observation, self.read).await?);
            if !came {
                break;
            }
            more = true;
        }
        for (sequence, entry) in new {
            self.read = sequence;
            self.take(entry);
        }
        Ok(more)
    }

    fn take(&mut self, entry: JournalEntry) {
        match entry {
            JournalEntry::Reference(reference) => {
                self.executors.insert(reference.id, reference.executor.clone());
                let own = self.by_executor.entry(reference.executor.clone()).or_default();
                own.push(Labelled::Reference(reference));
            }
            JournalEntry::Observation(seen) => {
                if let Some(executor) = self.executors.get(&seen.reference) {
                    let own = self.by_executor.entry(executor.clone()).or_default();
                    own.push(Labelled::Observation(seen));
                }
            }
            _ => {}
        }
    }

    /// The labels of an executor; without one, of whoever has most.
    pub(super) fn labels(&self, executor: Option<&str>) -> &[Labelled] {
        let found = match executor {
            Some(executor) => self.by_executor.get(executor),
            None => self.by_executor.values().max_by_key(|labels| labels.len()),
        };
        found.map_or(&[], Vec::as_slice)
    }
}

/// Every entry of a kind after a place.
async fn list(store: &dyn Store, scope: &Scope, kind: EntryKind, mut after: u64) -> Result<Vec<Journaled>> {
    let rows = store.limits().page_rows_max;
    let mut all = Vec::new();
    loop {
        let filter = JournalFilter {
            kind: Some(kind),
            task: None,
            after,
        };
        let page = store.list_entries(scope, filter, rows).await?;
        let Some(last) = page.last() else { return Ok(all) };
        after = last.sequence;
        let whole = page.len() == rows;
        all.extend(page);
        if !whole {
            return Ok(all);
        }
    }
}
