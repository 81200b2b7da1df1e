//! Answers that were paid for, on disk: a resumed run does not pay twice.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use sha2::{Digest, Sha256};

use super::ChatReply;

/// Names files that are being written.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// A directory of answers, one file each, named by what was asked of whom.
#[derive(Debug, Clone)]
pub struct ReplyCache {
    directory: PathBuf,
}

impl ReplyCache {
    /// In this directory, which is made when there is something to keep.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// The name of a request: the same bytes asked of the same model.
    pub(super) fn key(model: &str, request: &[u8]) -> String {
        let mut hash = Sha256::new();
        hash.update((model.len() as u64).to_le_bytes());
        hash.update(model.as_bytes());
        hash.update(request);
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn file(&self, key: &str) -> PathBuf {
        self.directory.join(&key[..2]).join(format!("{}.json", &key[2..]))
    }

    /// The answer, if it was kept. A file that can not be read as one counts as absent: it is then written again.
    pub(super) fn find(&self, key: &str) -> Option<ChatReply> {
        serde_json::from_slice(&fs::read(self.file(key)).ok()?).ok()
    }

    /// Keeps an answer: whole or not at all.
    pub(super) fn keep(&self, key: &str, reply: &ChatReply) -> io::Result<()> {
        let file = self.file(key);
        let place = file.parent().unwrap_or_else(|| Path::new("."));
        fs::create_dir_all(place)?;
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let fresh = place.join(format!(".{}.{number}.unfinished", std::process::id()));
        fs::write(&fresh, serde_json::to_vec(reply)?)?;
        fs::rename(&fresh, &file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Finish, Usage};

    #[test]
    fn what_is_kept_is_found_and_half_a_file_is_not() {
        let place = tempfile::tempdir().unwrap();
        let cache = ReplyCache::new(place.path().join("replies"));
        let key = ReplyCache::key("model", b"{}");
        assert_eq!(cache.find(&key), None);
        let reply = ChatReply {
            text: "caf\u{e9}".into(),
            finish: Finish::Stop,
            usage: Usage::default(),
        };
        cache.keep(&key, &reply).unwrap();
        assert_eq!(cache.find(&key), Some(reply));
        assert_eq!(cache.find(&ReplyCache::key("other", b"{}")), None);
        fs::write(cache.file(&key), b"{\"text\":\"ca").unwrap();
        assert_eq!(cache.find(&key), None);
    }

    #[test]
    fn model_and_request_do_not_run_together() {
        assert_ne!(ReplyCache::key("ab", b"c"), ReplyCache::key("a", b"bc"));
    }
}
