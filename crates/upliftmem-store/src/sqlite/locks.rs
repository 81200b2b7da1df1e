//! Locks that one process has at a time, beside a database file. The system gives them back when a process ends.

use std::{
    collections::HashSet,
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use sha2::{Digest, Sha256};

use crate::{
    error::{Error, Result},
    leadership::Held,
};

/// The locks of a database.
#[derive(Debug, Default)]
pub(super) struct Locks {
    /// The database; one in memory has one process anyway.
    file: Option<PathBuf>,
    held: Arc<Mutex<HashSet<String>>>,
}

/// A lock that is given back when this is dropped: the system frees the file when it is closed.
struct HeldHere {
    name: String,
    held: Arc<Mutex<HashSet<String>>>,
    _file: Option<File>,
}

impl Drop for HeldHere {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.remove(&self.name);
    }
}

impl Locks {
    pub(super) fn beside(file: &Path) -> Self {
        Self {
            file: Some(file.to_owned()),
            held: Arc::default(),
        }
    }

    /// Takes a lock, unless someone has it.
    pub(super) fn hold(&self, name: &str) -> Result<Option<Held>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.contains(name) {
            return Ok(None);
        }
        let file = match &self.file {
            None => None,
            Some(database) => match locked(database, name)? {
                None => return Ok(None),
                some => some,
            },
        };
        held.insert(name.to_owned());
        Ok(Some(Box::new(HeldHere {
            name: name.to_owned(),
            held: Arc::clone(&self.held),
            _file: file,
        })))
    }
}

fn locked(database: &Path, name: &str) -> Result<Option<File>> {
    let digest = Sha256::digest(name.as_bytes());
    let short: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let mut path = database.as_os_str().to_owned();
    path.push(format!(".lock-{short}"));
    let path = PathBuf::from(path);
    let unusable = |error: &dyn std::fmt::Display| Error::Unavailable(format!("{}: {error}", path.display()));
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|error| unusable(&error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(unusable(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_once_and_can_be_taken_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        for (one, two) in [
            (Locks::beside(&file), Locks::beside(&file)),
            (Locks::default(), Locks::default()),
        ] {
            let held = one.hold("a").unwrap();
            assert!(held.is_some());
            assert!(one.hold("a").unwrap().is_none());
            // Another process is another database if it is in memory.
            assert_eq!(two.hold("a").unwrap().is_some(), two.file.is_none());
            assert!(one.hold("b").unwrap().is_some(), "others are free");
            drop(held);
            assert!(one.hold("a").unwrap().is_some());
        }
    }
}
