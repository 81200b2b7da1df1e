//! How alike two short texts are by their words: the token-set ratio of `thefuzz`.

use std::collections::BTreeSet;

/// Whether the token-set ratio of two texts, rounded to a whole number, exceeds 85 of 100.
pub(super) fn is_alike(one: &str, other: &str) -> bool {
    token_set_ratio(one, other).round_ties_even() > 85.0
}

/// 0 to 100: the best of three likenesses among the common words and the common words with the rest of either text.
fn token_set_ratio(one: &str, other: &str) -> f64 {
    let (one, other) = (processed(one), processed(other));
    let one: BTreeSet<&str> = one.split_whitespace().collect();
    let other: BTreeSet<&str> = other.split_whitespace().collect();
    if one.is_empty() || other.is_empty() {
        return 0.0;
    }
    let only_one: Vec<&str> = one.difference(&other).copied().collect();
    let only_other: Vec<&str> = other.difference(&one).copied().collect();
    let common: Vec<&str> = one.intersection(&other).copied().collect();
    if !common.is_empty() && (only_one.is_empty() || only_other.is_empty()) {
        return 100.0;
    }
    // All is ASCII here: bytes are letters.
    let (only_one, only_other) = (only_one.join(" "), only_other.join(" "));
    let common = common.join(" ").len();
    let space = usize::from(common > 0);
    let with_one = common + space + only_one.len();
    let with_other = common + space + only_other.len();
    let between_both = likeness(
        distance(only_one.as_bytes(), only_other.as_bytes()),
        with_one + with_other,
    );
    if common == 0 {
        return between_both;
    }
    between_both
        .max(likeness(space + only_one.len(), common + with_one))
        .max(likeness(space + only_other.len(), common + with_other))
}

fn likeness(distance: usize, lengths: usize) -> f64 {
    100.0 - 100.0 * distance as f64 / lengths as f64
}

/// Lower case, ASCII only, everything but letters, digits and underscores as a space.
fn processed(text: &str) -> String {
    let ascii = text.chars().filter(char::is_ascii);
    ascii
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || letter == '_' {
                letter.to_ascii_lowercase()
            } else {
                ' '
            }
        })
        .collect()
}

/// Letters to insert and delete to make one of the other.
fn distance(one: &[u8], other: &[u8]) -> usize {
    // Lengths of longest common subsequences, row by row.
    let mut row = vec![0_usize; other.len() + 1];
    for letter in one {
        let mut diagonal = 0;
        for (at, candidate) in other.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if letter == candidate {
                diagonal + 1
            } else {
                above.max(row[at])
            };
            diagonal = above;
        }
    }
    one.len() + other.len() - 2 * row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of rapidfuzz's documentation and by hand.
    #[test]
    fn ratios_are_those_of_the_library() {
        let check = |one: &str, other: &str, expected: f64| {
            let found = token_set_ratio(one, other);
            assert!((found - expected).abs() < 1e-9, "{one:?}, {other:?}: {found}");
            assert!((token_set_ratio(other, one) - found).abs() < 1e-9);
        };
        check("fuzzy wuzzy was a bear", "fuzzy fuzzy was a bear", 100.0);
        check("easy clean", "Easy-Clean!", 100.0);
        check("easy to clean", "easy clean", 100.0);
        check("", "easy", 0.0);
        check("日本", "日本", 0.0);
        check("abc", "abd", 100.0 - 100.0 * 2.0 / 6.0);
        // "hand" in common: 4 letters against "hand wash" and "hand made".
        check("hand wash", "hand made", 100.0 - 100.0 * 6.0 / 18.0);
    }

    #[test]
    fn alike_begins_at_a_rounded_86() {
        // 12 of 14 letters: 85.7, rounded 86; 11 of 13: 84.6.
        assert!(is_alike("abcdefg", "abcdefh"));
        assert!(!is_alike("abcdef", "abcdeg"));
    }

    #[test]
    fn distances_count_insertions_and_deletions() {
        for (one, other, expected) in [
            ("", "", 0),
            ("a", "", 1),
            ("abc", "axc", 2),
            ("kitten", "sitting", 5),
        ] {
            assert_eq!(
                distance(one.as_bytes(), other.as_bytes()),
                expected,
                "{one} {other}"
            );
        }
    }
}
