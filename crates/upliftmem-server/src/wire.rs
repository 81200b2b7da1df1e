//! Words that many requests and answers share.

use std::{collections::BTreeSet, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use upliftmem_core::InvalidInput;
use upliftmem_store::{ScopeParts, StoredMemory, Timestamp};

use crate::error::{ApiError, Code, Result};

/// An identifier as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Id(#[schemars(extend("format" = "uuid"))] pub(crate) String);

impl Id {
    pub(crate) fn of(id: impl std::fmt::Display) -> Self {
        Self(id.to_string())
    }

    pub(crate) fn parse<T: FromStr<Err = InvalidInput>>(&self) -> Result<T> {
        Ok(self.0.parse()?)
    }
}

/// Ids separated by commas, each once; at least one and at most so many.
pub(crate) fn parse_ids<T>(list: &str, most: usize) -> Result<Vec<T>>
where
    T: FromStr<Err = InvalidInput> + Ord,
{
    let ids: BTreeSet<T> = list
        .split(',')
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    if ids.len() > most {
        return Err(ApiError::new(
            Code::LimitExceeded,
            format_args!(
                "{} ids are more than {most}, the rows of a page; ask for fewer",
                ids.len()
            ),
        ));
    }
    Ok(ids.into_iter().collect())
}

/// A moment as RFC 3339 text.
pub(crate) fn moment(at: Timestamp) -> String {
    let millis = i64::try_from(at.millis()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis)
        .map_or_else(|_| "9999-12-31T23:59:59Z".to_owned(), |at| at.to_string())
}

/// The moment of an RFC 3339 text, or the start of a day.
pub(crate) fn parse_moment(what: &str, text: &str) -> Result<Timestamp> {
    let day = text.parse::<jiff::civil::Date>().ok();
    let start = day
        .filter(|_| text.len() == 10)
        .map(|day| format!("{day}T00:00:00Z"));
    let full = start.as_deref().unwrap_or(text);
    let parsed: jiff::Timestamp = full.parse().map_err(|_| {
        ApiError::invalid(
            what,
            format_args!("{text:?} is no moment; write 2030-01-31T12:00:00Z or 2030-01-31"),
        )
    })?;
    let millis = u64::try_from(parsed.as_millisecond())
        .map_err(|_| ApiError::invalid(what, format_args!("{text:?} is before 1970")))?;
    Ok(Timestamp::from_millis(millis))
}

/// A page of a listing.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Page<T> {
    /// The rows.
    pub(crate) results: Vec<T>,
    /// Pass it as `after` for the next page; absent on the last.
    pub(crate) next: Option<String>,
}

impl<T> Page<T> {
    /// A page of at most `rows`, from one row more than that: it tells whether there is a next page.
    pub(crate) fn of(mut found: Vec<T>, rows: usize, cursor: impl Fn(&T) -> String) -> Self {
        let more = found.len() > rows;
        found.truncate(rows);
        let next = found.last().filter(|_| more).map(cursor);
        Self { results: found, next }
    }
}

/// A memory with all that is known about it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemoryView {
    pub(crate) id: Id,
    /// What it says.
    pub(crate) memory: String,
    /// What sort of experience it is.
    pub(crate) kind: String,
    /// `active`, `quarantined`, `superseded` or `expired`.
    pub(crate) status: String,
    pub(crate) tokens: u32,
    pub(crate) metadata: Map<String, Value>,
    /// Where it came from.
    pub(crate) provenance: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) quarantine_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) superseded_by: Option<Id>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
    #[serde(flatten)]
    pub(crate) scope: ScopeView,
}

/// Whose it is.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(crate) struct ScopeView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) app_id: Option<String>,
}

impl From<&ScopeParts> for ScopeView {
    fn from(parts: &ScopeParts) -> Self {
        Self {
            user_id: parts.user_id.clone(),
            agent_id: parts.agent_id.clone(),
            run_id: parts.run_id.clone(),
            app_id: parts.app_id.clone(),
        }
    }
}

impl MemoryView {
    pub(crate) fn of(stored: StoredMemory, parts: &ScopeParts) -> Self {
        let created_at = moment(stored.created_at);
        Self {
            id: Id::of(stored.memory.id),
            memory: stored.memory.text,
            kind: stored.kind,
            status: stored.status.as_str().into(),
            tokens: stored.memory.tokens,
            metadata: stored.memory.metadata,
            provenance: stored.provenance,
            quarantine_reason: stored.quarantine_reason,
            superseded_by: stored.superseded_by.map(Id::of),
            updated_at: stored.updated_at.map_or_else(|| created_at.clone(), moment),
            created_at,
            expires_at: stored.expires_at.map(moment),
            scope: parts.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_back_and_days_start_at_midnight() {
        let at = Timestamp::from_millis(1_893_456_000_000);
        assert_eq!(moment(at), "2030-01-01T00:00:00Z");
        assert_eq!(parse_moment("x", "2030-01-01").unwrap(), at);
        assert_eq!(parse_moment("x", "2030-01-01T01:00:00+01:00").unwrap(), at);
        for bad in ["", "soon", "2030-13-01", "1969-12-31", "2030-01-01T00:00:00"] {
            assert!(parse_moment("x", bad).is_err(), "{bad:?}");
        }
        assert_eq!(moment(Timestamp::from_millis(u64::MAX)), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn a_page_says_whether_there_is_another() {
        let page = Page::of(vec![1, 2, 3], 2, ToString::to_string);
        assert_eq!((page.results, page.next.as_deref()), (vec![1, 2], Some("2")));
        let page = Page::of(vec![1, 2], 2, ToString::to_string);
        assert_eq!((page.results, page.next), (vec![1, 2], None));
    }
}
