//! Answers to requests that may come again.

use super::{Row, Sql};
use crate::{
    AnswerKey, Claim, KeptAnswer, Timestamp,
    error::{Error, Result},
};

/// Takes the right to answer, unless the request was answered or is being answered.
pub(crate) fn claim(
    sql: &mut dyn Sql,
    key: &AnswerKey,
    now: Timestamp,
    abandoned: Timestamp,
) -> Result<Claim> {
    let values = [key.key.to_vec().into(), key.request.to_vec().into(), now.into()];
    let insert = "INSERT INTO answers (key, request, at) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING";
    if sql.execute(insert, &values)? == 1 {
        return Ok(Claim::Granted);
    }
    let query = format!(
        "SELECT request, status, body, at FROM answers WHERE key = $1{}",
        sql.dialect().for_update()
    );
    let Some(mut row) = sql.first(&query, &[key.key.to_vec().into()])? else {
        // It was forgotten in between.
        return Ok(Claim::Underway);
    };
    if row.bytes(0)? != key.request {
        return Ok(Claim::OtherRequest);
    }
    if let Some(status) = row.optional(1, Row::small)? {
        let status = u16::try_from(status).map_err(|_| Error::Corrupt(format!("status {status}")))?;
        let body = row.optional(2, Row::text)?.unwrap_or_default();
        return Ok(Claim::Answered(KeptAnswer { status, body }));
    }
    if row.time(3)? > abandoned {
        return Ok(Claim::Underway);
    }
    // Whoever claimed it was killed.
    let statement = "UPDATE answers SET at = $2 WHERE key = $1";
    sql.execute(statement, &[key.key.to_vec().into(), now.into()])?;
    Ok(Claim::Granted)
}

/// Keeps an answer that was claimed; without one gives the claim back.
pub(crate) fn settle(
    sql: &mut dyn Sql,
    key: &AnswerKey,
    now: Timestamp,
    answer: Option<&KeptAnswer>,
) -> Result<()> {
    let Some(answer) = answer else {
        let statement = "DELETE FROM answers WHERE key = $1 AND status IS NULL";
        sql.execute(statement, &[key.key.to_vec().into()])?;
        return Ok(());
    };
    let statement = "UPDATE answers SET status = $2, body = $3, at = $4 WHERE key = $1";
    let values = [
        key.key.to_vec().into(),
        u32::from(answer.status).into(),
        answer.body.as_str().into(),
        now.into(),
    ];
    sql.execute(statement, &values)?;
    Ok(())
}

/// Forgets what is older than this; says how many.
pub(crate) fn forget(sql: &mut dyn Sql, before: Timestamp) -> Result<u64> {
    sql.execute("DELETE FROM answers WHERE at < $1", &[before.into()])
}
