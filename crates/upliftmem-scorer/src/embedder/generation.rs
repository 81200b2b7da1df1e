//! Which vectors can be compared with which.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use upliftmem_core::InvalidInput;

/// The identity of an embedder's vectors: a store keeps it beside them and refuses vectors of another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Generation {
    /// The model's name, for people.
    pub name: String,
    /// Entries of a vector.
    pub dimension: usize,
    /// Hash of everything that decides the vectors: weights, tokenizer, settings and the method itself.
    pub content: String,
}

impl Generation {
    /// From the parts that decide the vectors, each with its name.
    pub(super) fn new(name: impl Into<String>, dimension: usize, hasher: Sha256) -> Self {
        Self {
            name: name.into(),
            dimension,
            content: hexadecimal(&hasher.finalize()),
        }
    }

    /// Refuses vectors of another generation.
    pub fn check_same(&self, other: &Self) -> Result<(), InvalidInput> {
        if self == other {
            return Ok(());
        }
        Err(InvalidInput::new(
            "embeddings",
            format_args!(
                "vectors of {other} can not be compared with vectors of {self}; use the embedder they were made with, \
                 or embed all texts again"
            ),
        ))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.content.get(..12).unwrap_or(&self.content);
        write!(f, "{} ({} entries, {short})", self.name, self.dimension)
    }
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(name: &str, dimension: usize, content: &str) -> Generation {
        Generation::new(name, dimension, Sha256::new_with_prefix(content))
    }

    #[test]
    fn any_difference_is_refused_with_both_names() {
        let stored = generation("small", 4, "a");
        assert!(stored.check_same(&stored.clone()).is_ok());
        for other in [
            generation("large", 4, "a"),
            generation("small", 5, "a"),
            generation("small", 4, "b"),
        ] {
            let message = stored.check_same(&other).unwrap_err().to_string();
            assert!(message.contains(&stored.to_string()), "{message}");
            assert!(message.contains(&other.to_string()), "{message}");
        }
    }

    #[test]
    fn people_see_the_start_of_the_hash() {
        assert_eq!(
            generation("small", 4, "").to_string(),
            "small (4 entries, e3b0c44298fc)"
        );
    }
}
