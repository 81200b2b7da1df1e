//! Keys, and the scopes of a tenant.

use async_trait::async_trait;
use upliftmem_core::MemoryId;

use super::{
    Backend, Row, Sql, answers, id, quotas,
    scopes::{self, parsed},
    store::SqlStore,
    tickets,
};
use crate::{
    AnswerKey, ApiKey, Claim, KeptAnswer, KeyHash, Permission, Quota, QuotaLimits, Scope, ScopeParts,
    Tenancy, Timestamp,
    error::{Error, Result},
    limits::between_one_and,
    memory::check_name,
};

const COLUMNS: &str = "id, name, tenant, permission, created_at, revoked_at";

fn read(row: &mut Row) -> Result<ApiKey> {
    Ok(ApiKey {
        id: row.text(0)?,
        name: row.text(1)?,
        tenant: row.json(2)?,
        permission: Permission::parse(&row.text(3)?)?,
        created_at: row.time(4)?,
        revoked_at: row.optional(5, Row::time)?,
    })
}

fn create(sql: &mut dyn Sql, key: &ApiKey, hash: &KeyHash) -> Result<()> {
    let tenant = serde_json::to_string(&key.tenant).map_err(|error| Error::Database(error.to_string()))?;
    let statement = "INSERT INTO api_keys (id, hash, name, tenant, permission, created_at, revoked_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
    let values = [
        key.id.as_str().into(),
        hash.0.clone().into(),
        key.name.as_str().into(),
        tenant.into(),
        key.permission.as_str().into(),
        key.created_at.into(),
        key.revoked_at.into(),
    ];
    if sql.execute(statement, &values)? == 1 {
        return Ok(());
    }
    Err(Error::conflict(
        format_args!("key {:?}", key.id),
        "there is one of that name or secret; make another",
    ))
}

fn scopes_of(sql: &mut dyn Sql, tenant: &ScopeParts, after: i64, rows: usize) -> Result<Vec<(u64, Scope)>> {
    let (condition, mut values) = scopes::within(sql.dialect(), tenant, 2);
    let query = format!(
        "SELECT s.number, s.key FROM scopes s WHERE s.number > $1{condition} ORDER BY s.number LIMIT {rows}"
    );
    values.insert(0, after.into());
    let found = sql.all(&query, &values)?.into_iter();
    found
        .map(|mut row| Ok((row.unsigned(0)?, parsed(&row.text(1)?)?)))
        .collect()
}

fn scope_of(sql: &mut dyn Sql, tenant: &ScopeParts, memory: MemoryId) -> Result<Option<Scope>> {
    scopes::enter_all(sql)?;
    let query = "SELECT s.key FROM scopes s JOIN memories m ON m.scope = s.number WHERE m.id = $1";
    for mut row in sql.all(query, &[id(memory.as_u128())])? {
        let scope = parsed(&row.text(0)?)?;
        if scope.within(tenant) {
            return Ok(Some(scope));
        }
    }
    Ok(None)
}

#[async_trait]
impl<B: Backend> Tenancy for SqlStore<B> {
    async fn create_key(&self, key: ApiKey, hash: KeyHash) -> Result<()> {
        check_name("key name", &key.name, &self.limits)?;
        check_name("key id", &key.id, &self.limits)?;
        if key.tenant != ScopeParts::default() {
            Scope::new(key.tenant.clone())?;
        }
        self.backend.write(move |sql| create(sql, &key, &hash)).await
    }

    async fn find_key(&self, hash: &KeyHash) -> Result<Option<ApiKey>> {
        let hash = hash.clone();
        self.backend
            .read(move |sql| {
                let query = format!("SELECT {COLUMNS} FROM api_keys WHERE hash = $1 AND revoked_at IS NULL");
                let row = sql.first(&query, &[hash.0.into()])?;
                row.map(|mut row| read(&mut row)).transpose()
            })
            .await
    }

    async fn list_keys(&self) -> Result<Vec<ApiKey>> {
        self.backend
            .read(|sql| {
                let query = format!("SELECT {COLUMNS} FROM api_keys ORDER BY created_at, id");
                sql.all(&query, &[])?.iter_mut().map(read).collect()
            })
            .await
    }

    async fn revoke_key(&self, id: &str, now: Timestamp) -> Result<bool> {
        let id = id.to_owned();
        self.backend
            .write(move |sql| {
                let statement = "UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
                Ok(sql.execute(statement, &[id.into(), now.into()])? == 1)
            })
            .await
    }

    async fn scopes(&self, tenant: &ScopeParts, after: u64, rows: usize) -> Result<Vec<(u64, Scope)>> {
        between_one_and("page_rows_max", self.limits.page_rows_max, rows, "rows of a page")?;
        let (tenant, after) = (tenant.clone(), i64::try_from(after).unwrap_or(i64::MAX));
        self.backend
            .read(move |sql| scopes_of(sql, &tenant, after, rows))
            .await
    }

    async fn scope_of_memory(&self, tenant: &ScopeParts, memory: MemoryId) -> Result<Option<Scope>> {
        let tenant = tenant.clone();
        self.backend.read(move |sql| scope_of(sql, &tenant, memory)).await
    }

    async fn scopes_with_tickets(
        &self,
        tenant: &ScopeParts,
        now: Timestamp,
        rows: usize,
    ) -> Result<Vec<Scope>> {
        let tenant = tenant.clone();
        self.backend
            .read(move |sql| tickets::waiting_scopes(sql, &tenant, now, rows))
            .await
    }

    async fn waiting_tickets(&self) -> Result<u64> {
        self.backend.read(tickets::waiting).await
    }

    async fn set_quota(&self, tenant: &ScopeParts, limits: QuotaLimits) -> Result<Quota> {
        limits.check()?;
        if *tenant != ScopeParts::default() {
            Scope::new(tenant.clone())?;
        }
        let tenant = tenant.clone();
        self.backend
            .write(move |sql| quotas::set(sql, &tenant, limits))
            .await
    }

    async fn remove_quota(&self, tenant: &ScopeParts) -> Result<bool> {
        let tenant = tenant.clone();
        self.backend.write(move |sql| quotas::remove(sql, &tenant)).await
    }

    async fn list_quotas(&self, after: Option<&ScopeParts>, rows: usize) -> Result<Vec<Quota>> {
        between_one_and("page_rows_max", self.limits.page_rows_max, rows, "rows of a page")?;
        let after = after.cloned();
        self.backend
            .read(move |sql| quotas::list(sql, after.as_ref(), rows))
            .await
    }

    async fn quotas_over(&self, parts: &ScopeParts) -> Result<Vec<Quota>> {
        let parts = parts.clone();
        self.backend.read(move |sql| quotas::over(sql, &parts)).await
    }

    async fn claim_answer(&self, key: &AnswerKey, now: Timestamp, abandoned: Timestamp) -> Result<Claim> {
        let key = key.clone();
        self.backend
            .write(move |sql| answers::claim(sql, &key, now, abandoned))
            .await
    }

    async fn settle_answer(&self, key: &AnswerKey, now: Timestamp, answer: Option<KeptAnswer>) -> Result<()> {
        let key = key.clone();
        self.backend
            .write(move |sql| answers::settle(sql, &key, now, answer.as_ref()))
            .await
    }

    async fn forget_answers(&self, before: Timestamp) -> Result<u64> {
        self.backend.write(move |sql| answers::forget(sql, before)).await
    }
}
