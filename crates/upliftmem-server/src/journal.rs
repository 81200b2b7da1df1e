//! Pages of the journal, in either direction.

use schemars::JsonSchema;
use serde::Deserialize;
use upliftmem_store::{EntryKind, JournalFilter, Journaled, Scope};

use crate::{app::Shared, error::Result};

/// Which page of a listing is wanted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct JournalQuery {
    /// The `next` of the page before.
    after: Option<u64>,
    /// Rows of the page.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// `oldest` first, if not given, or `newest` first.
    order: Option<ListOrder>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ListOrder {
    Oldest,
    Newest,
}

impl JournalQuery {
    /// Rows of the page, and one entry more than that if there is one: it tells whether there is a next page.
    pub(crate) async fn entries(
        &self,
        app: &Shared,
        scope: &Scope,
        kind: EntryKind,
    ) -> Result<(usize, Vec<Journaled>)> {
        let (rows, store) = (app.rows(self.limit)?, app.store());
        let found = if self.order == Some(ListOrder::Newest) {
            store.latest_entries(scope, kind, self.after, rows + 1).await?
        } else {
            let filter = JournalFilter {
                kind: Some(kind),
                task: None,
                after: self.after.unwrap_or(0),
            };
            store.list_entries(scope, filter, rows + 1).await?
        };
        Ok((rows, found))
    }
}
