//! Who may call, and which scopes are theirs: what must be known before a scope is.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use upliftmem_core::MemoryId;

use crate::{
    Scope, ScopeParts, Timestamp,
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
}
