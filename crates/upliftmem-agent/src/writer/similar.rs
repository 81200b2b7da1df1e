//! Whether a memory says what another one says.

use std::collections::BTreeSet;

/// Share of word pairs in common from which two texts count as one.
const NEAR: f64 = 0.8;

/// Whether a text repeats one of these: memories of the store, and what was injected into the episode it comes from.
pub fn is_near_duplicate<'a>(text: &str, others: impl IntoIterator<Item = &'a str>) -> bool {
    let own = pairs(text);
    others.into_iter().any(|other| {
        let other = pairs(other);
        let common = own.intersection(&other).count() as f64;
        // Also a text that only quotes a part of another says nothing new.
        let smaller = own.len().min(other.len()) as f64;
        let all = own.union(&other).count() as f64;
        common / all.max(1.0) >= NEAR
            || (own.len() <= other.len() && common >= 0.95 * smaller && smaller > 0.0)
    })
}

/// Neighbouring words, and the words themselves where there is only one.
fn pairs(text: &str) -> BTreeSet<(String, String)> {
    let words: Vec<String> = text
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    match words.as_slice() {
        [only] => BTreeSet::from([(only.clone(), String::new())]),
        words => words
            .windows(2)
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUGS: &str = "Clean mugs are kept in the cupboard above the sink.";

    #[test]
    fn the_same_in_other_dress_is_a_duplicate() {
        assert!(is_near_duplicate(MUGS, [MUGS]));
        assert!(is_near_duplicate(
            "clean mugs are kept in the cupboard, above the sink",
            [MUGS]
        ));
        assert!(is_near_duplicate("kept in the cupboard above the sink", [MUGS]));
    }

    #[test]
    fn another_fact_is_not() {
        assert!(!is_near_duplicate(
            "Clean plates are kept in the drawer below the oven.",
            [MUGS]
        ));
        assert!(!is_near_duplicate(MUGS, []));
        assert!(!is_near_duplicate("mugs", [MUGS]));
    }
}
