//! Embeddings, and which embedder made them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The identity of an embedder: vectors of two generations are never compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EmbedderGeneration {
    /// What the embedder is called.
    pub name: String,
    /// How many numbers its vectors have.
    pub dimension: u32,
    /// A hash of its weights and settings, so that the same name with other weights is another generation.
    pub digest: String,
}

impl fmt::Display for EmbedderGeneration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}", self.name, self.dimension, self.digest)
    }
}

/// A vector of length one, and the embedder that made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "EmbeddingFields")]
pub struct Embedding {
    generation: EmbedderGeneration,
    vector: Vec<f32>,
}

#[derive(Deserialize)]
struct EmbeddingFields {
    generation: EmbedderGeneration,
    vector: Vec<f32>,
}

impl Embedding {
    /// Checks the dimension and scales the vector to length one, so that a dot product is the cosine.
    pub fn new(generation: EmbedderGeneration, vector: Vec<f32>) -> Result<Self> {
        let vector = unit(&generation, vector)?;
        Ok(Self { generation, vector })
    }

    /// Who made it.
    pub fn generation(&self) -> &EmbedderGeneration {
        &self.generation
    }

    /// The numbers; their squares add up to one.
    pub fn vector(&self) -> &[f32] {
        &self.vector
    }
}

impl TryFrom<EmbeddingFields> for Embedding {
    type Error = Error;

    fn try_from(fields: EmbeddingFields) -> Result<Self> {
        Self::new(fields.generation, fields.vector)
    }
}

/// The vector scaled to length one. One that already has it stays as it is to the bit, so that what was
/// exported is imported unchanged.
pub(crate) fn unit(generation: &EmbedderGeneration, mut vector: Vec<f32>) -> Result<Vec<f32>> {
    let refuse = |problem: String| Err(Error::invalid("embedding", problem));
    if vector.is_empty() || vector.len() != generation.dimension as usize {
        return refuse(format!(
            "it has {} numbers, {generation} makes another number",
            vector.len()
        ));
    }
    let square: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    if !square.is_finite() || square <= 0.0 {
        return refuse("its length is zero or not finite".to_owned());
    }
    if (square - 1.0).abs() > 1e-5 {
        let length = square.sqrt();
        for x in &mut vector {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a component of a unit vector fits"
            )]
            let scaled = (f64::from(*x) / length) as f32;
            *x = scaled;
        }
    }
    Ok(vector)
}

/// Little-endian bytes of the numbers.
pub(crate) fn to_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// The numbers of little-endian bytes.
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Vec<f32>> {
    let (chunks, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(Error::Corrupt(format!("an embedding has {} bytes", bytes.len())));
    }
    Ok(chunks.iter().map(|&chunk| f32::from_le_bytes(chunk)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(dimension: u32) -> EmbedderGeneration {
        EmbedderGeneration {
            name: "test".into(),
            dimension,
            digest: "0".into(),
        }
    }

    #[test]
    fn an_embedding_has_length_one_and_stays_so_to_the_bit() {
        let first = Embedding::new(generation(2), vec![3.0, 4.0]).unwrap();
        assert!((first.vector()[0] - 0.6).abs() < 1e-6);
        let again = Embedding::new(generation(2), first.vector().to_vec()).unwrap();
        assert_eq!(first, again);
        let json = serde_json::to_string(&first).unwrap();
        assert_eq!(serde_json::from_str::<Embedding>(&json).unwrap(), first);
    }

    #[test]
    fn useless_vectors_are_refused() {
        for vector in [
            vec![],
            vec![1.0],
            vec![0.0, 0.0],
            vec![f32::NAN, 1.0],
            vec![f32::INFINITY, 0.0],
        ] {
            assert!(Embedding::new(generation(2), vector).is_err());
        }
    }

    #[test]
    fn bytes_round_trip() {
        let vector = [0.1_f32, -2.5, f32::MIN_POSITIVE];
        assert_eq!(from_bytes(&to_bytes(&vector)).unwrap(), vector);
        assert!(from_bytes(&[1, 2, 3]).is_err());
    }
}
