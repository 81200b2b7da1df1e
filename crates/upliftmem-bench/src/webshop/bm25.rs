//! Search by BM25, with the numbers of Lucene 8: byte-quantised lengths and single precision, so that scores and ties agree.

use std::collections::{BTreeMap, HashMap};

use super::analysis::visit_terms;

const K1: f32 = 0.9;
const B: f32 = 0.4;

/// An index of documents, numbered in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Index {
    terms: HashMap<Box<str>, Postings>,
    /// The length of each document in terms, as Lucene keeps it.
    lengths: Vec<u8>,
    terms_total: u64,
}

/// Documents of a term: numbers as differences, and how often it occurs, in as few bytes as each needs.
#[derive(Debug, Default)]
struct Postings {
    documents: u32,
    last: u32,
    bytes: Vec<u8>,
}

impl Index {
    /// Adds the next document.
    pub(super) fn add(&mut self, text: &str) {
        let mut counts: HashMap<String, u32> = HashMap::new();
        let mut length = 0;
        visit_terms(text, |term| {
            length += 1;
            match counts.get_mut(term) {
                Some(count) => *count += 1,
                None => {
                    counts.insert(term.to_owned(), 1);
                }
            }
        });
        let document = u32::try_from(self.lengths.len()).unwrap_or(u32::MAX);
        for (term, count) in counts {
            let postings = self.terms.entry(term.into_boxed_str()).or_default();
            push_number(&mut postings.bytes, document - postings.last);
            push_number(&mut postings.bytes, count);
            postings.last = document;
            postings.documents += 1;
        }
        self.lengths.push(quantised(length));
        self.terms_total += u64::from(length);
    }

    /// The best documents and their scores, best first; of equal ones `tie` says which comes first.
    pub(super) fn search(
        &self,
        query: &str,
        limit: usize,
        tie: impl Fn(u32, u32) -> std::cmp::Ordering,
    ) -> Vec<(u32, f32)> {
        // Ordered, so that sums are made in one order whatever the hasher.
        let mut terms: BTreeMap<String, f32> = BTreeMap::new();
        visit_terms(query, |term| *terms.entry(term.to_owned()).or_default() += 1.0);
        let known: Vec<_> = terms
            .iter()
            .filter_map(|(term, count)| Some((self.terms.get(term.as_str())?, *count)))
            .collect();
        if known.is_empty() {
            return Vec::new();
        }
        let inverse_norms = self.inverse_norms();
        let mut scores = vec![0.0_f64; self.lengths.len()];
        for (postings, count) in known {
            let weight = count * self.rarity(postings.documents);
            for (document, frequency) in postings.iter() {
                let inverse_norm = inverse_norms[usize::from(self.lengths[document as usize])];
                scores[document as usize] +=
                    f64::from(weight - weight / (1.0 + frequency as f32 * inverse_norm));
            }
        }
        let mut found: Vec<(u32, f32)> = (0..)
            .zip(&scores)
            .filter(|(_, score)| **score > 0.0)
            .map(|(document, score)| (document, *score as f32))
            .collect();
        let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then_with(|| tie(a.0, b.0));
        if found.len() > limit {
            found.select_nth_unstable_by(limit, order);
            found.truncate(limit);
        }
        found.sort_unstable_by(order);
        found
    }

    fn rarity(&self, documents: u32) -> f32 {
        let documents = f64::from(documents);
        (1.0 + (self.lengths.len() as f64 - documents + 0.5) / (documents + 0.5)).ln() as f32
    }

    fn inverse_norms(&self) -> [f32; 256] {
        let average = (self.terms_total as f64 / self.lengths.len() as f64) as f32;
        std::array::from_fn(|byte| 1.0 / (K1 * ((1.0 - B) + B * expanded(byte as u8) as f32 / average)))
    }
}

impl Postings {
    fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut bytes = self.bytes.as_slice();
        let mut document = 0;
        std::iter::from_fn(move || {
            document += pop_number(&mut bytes)?;
            Some((document, pop_number(&mut bytes)?))
        })
    }
}

fn push_number(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn pop_number(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(number)
}

/// Lengths up to this are kept exactly; a byte has room for it beside all floats of four bits up to the largest integer.
const EXACT: u32 = 255 - float4(i32::MAX as u32);

/// A length as one byte: exact when small, then with four significant bits, rounded down.
fn quantised(length: u32) -> u8 {
    if length < EXACT {
        length as u8
    } else {
        (EXACT + float4(length - EXACT)) as u8
    }
}

/// The length that a byte stands for.
fn expanded(byte: u8) -> u32 {
    let byte = u32::from(byte);
    if byte < EXACT {
        byte
    } else {
        EXACT + unfloat4(byte - EXACT)
    }
}

const fn float4(number: u32) -> u32 {
    let bits = 32 - number.leading_zeros();
    if bits < 4 {
        number
    } else {
        let shift = bits - 4;
        ((number >> shift) & 0x07) | ((shift + 1) << 3)
    }
}

const fn unfloat4(float: u32) -> u32 {
    let bits = float & 0x07;
    match float >> 3 {
        0 => bits,
        shift => (bits | 0x08) << (shift - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_kept_as_lucene_keeps_them() {
        assert_eq!(EXACT, 24);
        for length in 0..40 {
            assert_eq!(expanded(quantised(length)), length, "exact below 40");
        }
        assert_eq!(
            [41, 55, 56, 100, 1000].map(|length| expanded(quantised(length))),
            [40, 54, 56, 96, 984]
        );
        let bytes: Vec<_> = (0..=255).map(expanded).collect();
        assert!(bytes.is_sorted());
        for byte in 0..=255 {
            assert_eq!(quantised(expanded(byte)), byte);
        }
    }

    #[test]
    fn numbers_survive_their_bytes() {
        let numbers = [0, 1, 127, 128, 300, 16_383, 16_384, u32::MAX];
        let mut bytes = Vec::new();
        for number in numbers {
            push_number(&mut bytes, number);
        }
        let mut rest = bytes.as_slice();
        for number in numbers {
            assert_eq!(pop_number(&mut rest), Some(number));
        }
        assert_eq!(pop_number(&mut rest), None);
    }

    #[test]
    fn documents_with_rarer_words_come_first_and_ties_as_asked() {
        let mut index = Index::default();
        for text in ["red shoe", "red shirt", "blue shoe", "", "red shoe"] {
            index.add(text);
        }
        let ranked = |query: &str, limit| -> Vec<u32> {
            index
                .search(query, limit, |a, b| b.cmp(&a))
                .into_iter()
                .map(|(document, _)| document)
                .collect()
        };
        assert_eq!(ranked("red shoes", 9), [4, 0, 2, 1]);
        assert_eq!(ranked("red shoes", 2), [4, 0]);
        assert_eq!(ranked("shirts, red", 9), [1, 4, 0]);
        assert!(ranked("nothing of this", 9).is_empty());
        assert!(ranked("", 9).is_empty());
        assert!(ranked("red", 0).is_empty());
    }
}
