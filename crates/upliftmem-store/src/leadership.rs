//! One process leads, the others wait. A leader's writes carry its token and are refused once another took over.

use std::{fmt, sync::Arc};

use crate::Store;

/// What a leader is known by to every write it makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) scope: crate::Scope,
    pub(crate) name: String,
    pub(crate) token: u64,
}

/// The right to lead, until this is dropped or the connection that holds it is lost.
pub struct Leadership {
    /// The store with the leader's token on every write: refused with [`crate::Error::Deposed`] once another leads.
    pub store: Arc<dyn Store>,
    /// Higher than that of every leader before.
    pub token: u64,
    pub(crate) _held: Held,
}

/// Keeps a lock as long as it lives.
pub(crate) type Held = Box<dyn Send + Sync>;

impl fmt::Debug for Leadership {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Leadership")
            .field("token", &self.token)
            .finish()
    }
}
