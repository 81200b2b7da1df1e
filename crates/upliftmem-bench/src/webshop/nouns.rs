//! Nouns of a title where nobody has tagged it.

/// Words of titles that are seldom nouns.
const NO_NOUNS: [&str; 47] = [
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "each", "easy", "for",
    "from", "has", "have", "in", "into", "is", "it", "its", "more", "most", "no", "not", "of", "off", "on",
    "only", "or", "our", "over", "per", "that", "the", "their", "these", "this", "to", "under", "up", "w",
    "with", "you", "your",
];

/// Every word of a title, in lower case, that is neither a number nor a word of the language's grammar.
///
/// The official environment asks a tagger (spaCy, `en_core_web_lg`) for nouns and proper nouns. Titles of products are mostly
/// those; what this gets wrong is measured against tagged titles in the environment's tests.
pub(super) fn likely_nouns(title: &str) -> Vec<String> {
    let words = title.split_whitespace().map(|word| {
        let word = word
            .trim_matches(|letter: char| !letter.is_alphanumeric())
            .to_lowercase();
        word.strip_suffix("'s")
            .or_else(|| word.strip_suffix("’s"))
            .map(str::to_owned)
            .unwrap_or(word)
    });
    words
        .filter(|word| {
            word.chars().any(char::is_alphabetic) && NO_NOUNS.binary_search(&word.as_str()).is_err()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_leave_their_nouns() {
        assert!(NO_NOUNS.is_sorted());
        assert_eq!(
            likely_nouns("Women's Shoes, 2 Pack (for the Beach) – 16\""),
            ["women", "shoes", "pack", "beach"]
        );
        assert!(likely_nouns(" - 12 ").is_empty());
    }
}
