//! Text as a unit vector. Embedders make them; scorers take them as given.

use std::sync::Arc;

use upliftmem_core::InvalidInput;

/// The frozen embedding of one text: a vector of length one, cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding(Arc<[f32]>);

impl Embedding {
    /// Scales the vector to length one. Refuses an empty or zero vector, and entries that are not finite.
    pub fn new(values: &[f32]) -> Result<Self, InvalidInput> {
        let norm = values
            .iter()
            .map(|&value| f64::from(value).powi(2))
            .sum::<f64>()
            .sqrt();
        if !norm.is_finite() {
            let position = values.iter().position(|value| !value.is_finite()).unwrap_or(0);
            return Err(InvalidInput::new(
                "embedding",
                format_args!("entry {position} is not a finite number; embed the text again"),
            ));
        }
        if norm <= 0.0 {
            return Err(InvalidInput::new(
                "embedding",
                "has no length; embed a text with at least one word",
            ));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "embeddings are stored in single precision"
        )]
        let unit = values
            .iter()
            .map(|&value| (f64::from(value) / norm) as f32)
            .collect();
        Ok(Self(unit))
    }

    /// The cosine of the angle between two texts' vectors.
    pub fn cosine(&self, other: &Self) -> f64 {
        let pairs = self.0.iter().zip(other.0.iter());
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }

    /// A vector that was an embedding's, entry by entry. Refuses one that can not have been.
    pub(crate) fn from_unit(values: &[f32]) -> Result<Self, InvalidInput> {
        let norm = values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>();
        if (norm - 1.0).abs() < 1e-3 {
            Ok(Self(values.into()))
        } else {
            Err(InvalidInput::new("embedding", "is not of length one"))
        }
    }

    /// The vector's entries.
    pub fn values(&self) -> &[f32] {
        &self.0
    }

    /// Number of entries.
    pub fn dimension(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedding_has_length_one() {
        let embedding = Embedding::new(&[3.0, 4.0]).unwrap();
        assert_eq!(embedding.values(), [0.6, 0.8]);
        assert_eq!(embedding.dimension(), 2);
    }

    #[test]
    fn vectors_without_a_direction_are_refused() {
        for bad in [&[][..], &[0.0, 0.0], &[1.0, f32::NAN], &[f32::INFINITY]] {
            assert!(Embedding::new(bad).is_err(), "{bad:?}");
        }
    }
}
