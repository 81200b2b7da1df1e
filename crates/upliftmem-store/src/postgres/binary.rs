//! The binary forms of two types that the client does not know.
//!
//! pgvector's `vector`: two bytes for the dimension, two unused, then the numbers, all big-endian; everywhere else in the
//! store a vector is its numbers' little-endian bytes. A `tsvector`: how many lexemes, then each as text ended by a zero,
//! how many places it has, and two bytes for each place.

use postgres::types::{FromSql, IsNull, Type, private::BytesMut};

use crate::error::{Error, Result};

type Converted<T> = std::result::Result<T, Box<dyn std::error::Error + Sync + Send>>;

/// Whether a column or parameter is a vector. An extension's types have names, not fixed numbers.
pub(super) fn is_vector(kind: &Type) -> bool {
    kind.name() == "vector"
}

/// A vector's little-endian bytes, or a `tsvector` as it came.
pub(super) struct Bytes(pub(super) Vec<u8>);

impl<'a> FromSql<'a> for Bytes {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Converted<Self> {
        if is_vector(kind) {
            return Ok(Self(swapped(raw.get(4..).unwrap_or_default()).collect()));
        }
        Ok(Self(raw.to_vec()))
    }

    fn accepts(kind: &Type) -> bool {
        is_vector(kind) || *kind == Type::TS_VECTOR
    }
}

/// Writes a vector.
pub(super) fn write(bytes: &[u8], out: &mut BytesMut) -> Converted<IsNull> {
    let dimension = u16::try_from(bytes.len() / 4)?;
    out.extend_from_slice(&dimension.to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend(swapped(bytes));
    Ok(IsNull::No)
}

/// The other order of each number's four bytes.
fn swapped(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers.iter().flat_map(|&[a, b, c, d]| [d, c, b, a])
}

/// Hands over each lexeme of a `tsvector` with the number of its places.
pub(crate) fn lexemes(raw: &[u8], each: &mut dyn FnMut(&str, u32)) -> Result<()> {
    let cut = || Error::Corrupt("the words of a memory are cut off".into());
    let (count, mut rest) = raw.split_first_chunk::<4>().ok_or_else(cut)?;
    for _ in 0..u32::from_be_bytes(*count) {
        let end = rest.iter().position(|&byte| byte == 0).ok_or_else(cut)?;
        let (word, after) = rest.split_at(end);
        let (places, after) = after[1..].split_first_chunk::<2>().ok_or_else(cut)?;
        let places = u16::from_be_bytes(*places);
        rest = after.get(2 * usize::from(places)..).ok_or_else(cut)?;
        let word =
            std::str::from_utf8(word).map_err(|_| Error::Corrupt("a word of a memory is not text".into()))?;
        each(word, u32::from(places).max(1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lexemes_are_read_and_half_of_them_are_refused() {
        let raw = b"\0\0\0\x02a\0\0\x02\0\x01\0\x02bc\0\0\0";
        let mut found = Vec::new();
        lexemes(raw, &mut |word, count| found.push((word.to_owned(), count))).unwrap();
        assert_eq!(found, [("a".into(), 2), ("bc".into(), 1)]);
        for end in 0..raw.len() {
            assert!(lexemes(&raw[..end], &mut |_, _| ()).is_err(), "{end}");
        }
    }

    #[test]
    fn vectors_keep_their_bits() {
        let bytes = crate::embedding::to_bytes(&[0.1, -2.5, f32::MIN_POSITIVE]);
        let mut out = BytesMut::new();
        write(&bytes, &mut out).unwrap();
        assert_eq!(out[..4], [0, 3, 0, 0]);
        assert_eq!(swapped(&out[4..]).collect::<Vec<_>>(), bytes);
    }
}
