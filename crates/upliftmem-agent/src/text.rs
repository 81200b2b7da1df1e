//! Foreign text in our messages: short, on one line, without control characters.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Characters of a foreign text that are shown.
const SHOWN_MAX: usize = 300;

/// A short name for everything that these say.
pub(crate) fn short_hash(parts: &Value) -> String {
    let hash = Sha256::digest(parts.to_string());
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The beginning of the text, as it may be shown.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    // A character has at most four bytes: no need to decode what will not be shown.
    let head = &bytes[..bytes.len().min(4 * SHOWN_MAX)];
    let plain: String = String::from_utf8_lossy(head)
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    let mut shown: String = plain.trim().chars().take(SHOWN_MAX).collect();
    if shown.len() < plain.trim().len() || head.len() < bytes.len() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_short_and_plain() {
        assert_eq!(excerpt(b" \x1b[31mred\nalert\t\n"), "[31mred alert");
        assert_eq!(excerpt(b"fine"), "fine");
        assert_eq!(excerpt(b"caf\xe9"), "caf\u{fffd}");
        let long = excerpt("\u{e9}".repeat(5000).as_bytes());
        assert_eq!(long.chars().count(), SHOWN_MAX + 3);
        assert!(long.ends_with("..."));
    }
}
