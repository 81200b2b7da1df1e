//! The few numbers of a memory that ranking needs, remembered.
//!
//! They never change while the memory exists, and the number of a row is never given to another: what was read
//! once is true for every snapshot that has the row. Whether a snapshot has it, the posting lists say.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use upliftmem_core::MemoryId;

use super::{Row, Sql};
use crate::{error::Result, time::Timestamp};

/// Memories that are remembered at most (about 100 MiB); then it starts over.
const HEADS_MAX: usize = 1 << 20;

/// What ranking needs of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) id: MemoryId,
    pub(crate) tokens: u32,
    pub(crate) words: u32,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Heads by row number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heads(Arc<Mutex<HashMap<i64, Head>>>);

impl Heads {
    /// The heads of these rows of a scope; none for a row that is not there.
    pub(crate) fn get(&self, sql: &mut dyn Sql, scope: i64, numbers: &[i64]) -> Result<Vec<Option<Head>>> {
        let look = |numbers: &[i64]| -> Vec<Option<Head>> {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            numbers.iter().map(|number| known.get(number).copied()).collect()
        };
        let mut heads = look(numbers);
        let missing: Vec<i64> = numbers
            .iter()
            .zip(&heads)
            .filter(|(_, head)| head.is_none())
            .map(|(&number, _)| number)
            .collect();
        if missing.is_empty() {
            return Ok(heads);
        }
        let read = read(sql, scope, &missing)?;
        for (number, head) in numbers.iter().zip(&mut heads) {
            *head = head.or_else(|| read.get(number).copied());
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() + read.len() > HEADS_MAX {
            known.clear();
        }
        known.extend(read);
        Ok(heads)
    }
}

fn read(sql: &mut dyn Sql, scope: i64, numbers: &[i64]) -> Result<HashMap<i64, Head>> {
    // A cross join keeps the order: a look-up for each number, never a scan of the scope.
    let query = "SELECT m.number, m.id, m.tokens, m.words, m.expires_at FROM json_each($1) AS wanted
         CROSS JOIN memories m ON m.number = wanted.value WHERE m.scope = $2";
    let mut read = HashMap::new();
    let wanted = serde_json::json!(numbers).to_string();
    sql.each(query, &[wanted.into(), scope.into()], &mut |mut row| {
        let head = Head {
            id: MemoryId::from_u128(row.id(1)?),
            tokens: row.small(2)?,
            words: row.small(3)?,
            expires_at: row.optional(4, Row::time)?,
        };
        read.insert(row.int(0)?, head);
        Ok(())
    })?;
    Ok(read)
}
