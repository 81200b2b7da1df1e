//! What can be asked, one file a subject.

pub(crate) mod chat;
pub(crate) mod keys;
pub(crate) mod mem0;
pub(crate) mod memories;
pub(crate) mod outcomes;
pub(crate) mod probes;
pub(crate) mod reports;
pub(crate) mod retrievals;
pub(crate) mod search;
pub(crate) mod settings;
pub(crate) mod system;
pub(crate) mod training;
pub(crate) mod transfer;

use crate::table::Route;

/// Every route that needs a caller.
pub(crate) fn all() -> Vec<Route> {
    [
        memories::routes(),
        search::routes(),
        outcomes::routes(),
        probes::routes(),
        retrievals::routes(),
        reports::routes(),
        training::routes(),
        transfer::routes(),
        keys::routes(),
        settings::routes(),
        chat::routes(),
        mem0::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
