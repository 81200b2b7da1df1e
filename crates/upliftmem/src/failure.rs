//! What went wrong, with the way out where the operating system only says what.

use std::{error::Error, io};

use upliftmem_store::Error as StoreError;

/// An error for a person: what failed, with all its causes, and what to try next.
pub(crate) fn told(error: &anyhow::Error) -> String {
    match error.chain().find_map(way_out) {
        Some(hint) => format!("error: {error:#}\n  {hint}"),
        None => format!("error: {error:#}"),
    }
}

/// What to do about an error of the operating system.
fn way_out(cause: &(dyn Error + 'static)) -> Option<&'static str> {
    let problem = match cause.downcast_ref::<StoreError>() {
        Some(StoreError::File { problem, .. }) => problem,
        _ => cause.downcast_ref::<io::Error>()?,
    };
    match problem.kind() {
        io::ErrorKind::NotFound => Some("look whether the path is right"),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            Some("a file is where a folder should be; name another path")
        }
        io::ErrorKind::IsADirectory => Some("a folder is where a file should be; name a file"),
        io::ErrorKind::PermissionDenied => Some("give this user the right to it, or name another path"),
        io::ErrorKind::ReadOnlyFilesystem => Some("nothing can be written there; name another path"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("free some room there, or name another path")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn an_error_of_the_operating_system_gets_a_way_out_and_no_other_does() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let own = Err::<(), _>(full())
            .context("out.jsonl can not be written")
            .unwrap_err();
        assert!(
            told(&own).ends_with("\n  free some room there, or name another path"),
            "{own:#}"
        );
        let stored = anyhow::Error::from(StoreError::File {
            file: "x.jsonl".into(),
            problem: full(),
        });
        assert!(told(&stored).contains("free some room"), "{stored:#}");
        assert_eq!(told(&anyhow::anyhow!("no\n  yes")), "error: no\n  yes");
    }
}
