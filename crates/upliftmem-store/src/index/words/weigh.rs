//! BM25 in single precision, for a first look.

use crate::lexical::{self, Collection};

/// What a word adds is its rarity times a factor of its count and of the document's length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weigh {
    /// What any memory has against it, and what a word of its length adds.
    base: f32,
    slope: f32,
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a first look needs no more"
)]
impl Weigh {
    pub(super) fn new(collection: Collection) -> Self {
        let mean_length = lexical::mean_length(collection);
        Self {
            base: (lexical::K1 * (1.0 - lexical::B)) as f32,
            slope: (lexical::K1 * lexical::B / mean_length) as f32,
        }
    }

    /// The factor of a word that occurs so often in a document of this length. It grows with the count and shrinks
    /// with the length.
    #[inline(always)]
    pub(super) fn factor(self, count: u32, length: u32) -> f32 {
        let count = count as f32;
        let against = self.base + self.slope * length as f32;
        count * (lexical::K1 as f32 + 1.0) / (count + against)
    }

    /// More than any factor.
    pub(super) const fn factor_max(self) -> f32 {
        lexical::K1 as f32 + 1.0
    }
}
