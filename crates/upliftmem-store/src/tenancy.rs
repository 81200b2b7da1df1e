//! Who may call, and which scopes are theirs: what must be known before a scope is.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use upliftmem_core::MemoryId;

use crate::{
    Quota, QuotaLimits, Scope, ScopeParts, Timestamp,
    error::{Error, Result},
};

/// What a key allows. Each allows what those before it allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Searching and reading.
    Read,
    /// Writing memories, tasks and outcomes; working on probes.
    Write,
    /// Training, scorer versions, import, export, keys.
    Admin,
}

impl Permission {
    /// All, from the least to the most.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// The word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    pub(crate) fn parse(word: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|permission| permission.as_str() == word)
            .ok_or_else(|| Error::Corrupt(format!("permission {word:?}")))
    }
}

/// What is stored of a key: enough to recognise it, too little to make it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyHash(pub(crate) Vec<u8>);

impl KeyHash {
    /// The hash of a key. Keys are long and random, so a plain hash can not be searched for its origin.
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).to_vec())
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("KeyHash(..)")
    }
}

/// A key as far as it is known after it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApiKey {
    /// Its name for listings and logs; not a secret.
    pub id: String,
    /// What its owner calls it.
    pub name: String,
    /// Every scope it reaches has these parts.
    pub tenant: ScopeParts,
    /// What it allows there.
    pub permission: Permission,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stopped to be valid.
    pub revoked_at: Option<Timestamp>,
}

/// A request that may come again: by whose key it is known, and what it asks for. Both are hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerKey {
    /// The caller, the operation and the caller's key for it.
    pub key: [u8; 32],
    /// Everything that was asked.
    pub request: [u8; 32],
}

/// An answer that is given again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: String,
}

/// What became of the wish to answer a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It is the caller's to do, and to settle.
    Granted,
    /// It was done; this is the answer.
    Answered(KeptAnswer),
    /// Someone is doing it.
    Underway,
    /// The key was used for something else.
    OtherRequest,
}

/// Who may call, and which scopes are theirs.
#[async_trait]
pub trait Tenancy: Send + Sync {
    /// Stores a key by its hash.
    async fn create_key(&self, key: ApiKey, hash: KeyHash) -> Result<()>;

    /// The key of a hash, if there is one that was not revoked.
    async fn find_key(&self, hash: &KeyHash) -> Result<Option<ApiKey>>;

    /// All keys, the oldest first.
    async fn list_keys(&self) -> Result<Vec<ApiKey>>;

    /// Makes a key invalid; says whether there was one that was valid.
    async fn revoke_key(&self, id: &str, now: Timestamp) -> Result<bool>;

    /// A page of the tenant's scopes in which anything was ever written, in the order of their first writes; each
    /// with the place to go on after.
    async fn scopes(&self, tenant: &ScopeParts, after: u64, rows: usize) -> Result<Vec<(u64, Scope)>>;

    /// The tenant's scope that has a memory.
    async fn scope_of_memory(&self, tenant: &ScopeParts, memory: MemoryId) -> Result<Option<Scope>>;

    /// The tenant's scopes in which tickets can be handed out, at most so many.
    async fn scopes_with_tickets(
        &self,
        tenant: &ScopeParts,
        now: Timestamp,
        rows: usize,
    ) -> Result<Vec<Scope>>;

    /// Tickets of all scopes that nobody holds: how much there is to do.
    async fn waiting_tickets(&self) -> Result<u64>;

    /// Gives a tenant a quota, in place of the one it had, and counts what the tenant has.
    async fn set_quota(&self, tenant: &ScopeParts, limits: QuotaLimits) -> Result<Quota>;

    /// Takes a tenant's quota away; says whether it had one.
    async fn remove_quota(&self, tenant: &ScopeParts) -> Result<bool>;

    /// A page of quotas, by tenant.
    async fn list_quotas(&self, after: Option<&ScopeParts>, rows: usize) -> Result<Vec<Quota>>;

    /// The quotas towards which everything counts that happens in scopes with these parts.
    async fn quotas_over(&self, parts: &ScopeParts) -> Result<Vec<Quota>>;

    /// Takes the right to answer a request that may come again. A claim from before `abandoned` that was never
    /// settled is given anew.
    async fn claim_answer(&self, key: &AnswerKey, now: Timestamp, abandoned: Timestamp) -> Result<Claim>;

    /// Keeps the answer of a request that was claimed; without one, the request may be claimed again.
    async fn settle_answer(&self, key: &AnswerKey, now: Timestamp, answer: Option<KeptAnswer>) -> Result<()>;

    /// Forgets answers from before a moment; says how many.
    async fn forget_answers(&self, before: Timestamp) -> Result<u64>;
}
