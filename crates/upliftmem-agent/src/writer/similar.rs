//! Whether a memory says what another one says.
//!
//! A correction looks much like the mistake that it corrects: one number, one name or one "not" is the difference. So texts
//! are the same only if they say the same words that matter, in the same order.

use std::collections::BTreeSet;

/// Share of word pairs in common from which two texts count as one.
const NEAR: f64 = 0.8;

/// Words that turn or narrow what is said.
const TURNS: [&str; 38] = [
    "not",
    "no",
    "never",
    "none",
    "nothing",
    "nobody",
    "nowhere",
    "neither",
    "nor",
    "without",
    "cannot",
    "dont",
    "doesnt",
    "didnt",
    "isnt",
    "arent",
    "wasnt",
    "cant",
    "wont",
    "avoid",
    "except",
    "unless",
    "only",
    "instead",
    "hardly",
    "rarely",
    "seldom",
    "wrong",
    "false",
    "nicht",
    "kein",
    "keine",
    "nie",
    "pas",
    "jamais",
    "nunca",
    "\u{43d}\u{435}",
    "\u{43d}\u{435}\u{442}",
];
/// Words that say nothing by themselves.
const FILLERS: [&str; 36] = [
    "a", "an", "the", "is", "are", "was", "were", "be", "been", "being", "am", "do", "does", "did", "has",
    "have", "had", "i", "you", "your", "we", "our", "it", "its", "they", "them", "their", "this", "that",
    "these", "those", "of", "to", "and", "please", "also",
];

/// A word as it counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Word {
    text: String,
    /// Whether it is in capitals where no sentence begins.
    is_name: bool,
}

impl Word {
    fn turns(&self) -> bool {
        let text = self.text.as_str();
        TURNS.contains(&text) || text.ends_with("n't")
    }

    fn is_filler(&self) -> bool {
        FILLERS.contains(&self.text.as_str())
    }

    /// Whether no text may say it that the other one does not.
    fn is_fact(&self) -> bool {
        self.is_name || self.text.contains(char::is_numeric)
    }
}

/// Whether a text repeats one of these: memories of the store, and what was injected into the episode it comes from.
pub fn is_near_duplicate<'a>(text: &str, others: impl IntoIterator<Item = &'a str>) -> bool {
    let own = words(text);
    others.into_iter().any(|other| {
        let other = words(other);
        overlap(&own, &other) && same_facts(&own, &other)
    })
}

/// Whether most pairs of neighbouring words are the same.
fn overlap(own: &[Word], other: &[Word]) -> bool {
    let (own, other) = (pairs(own), pairs(other));
    let common = own.intersection(&other).count() as f64;
    // Also a text that only quotes a part of another says nothing new.
    let smaller = own.len().min(other.len()) as f64;
    let all = own.union(&other).count() as f64;
    common / all.max(1.0) >= NEAR || (own.len() <= other.len() && common >= 0.95 * smaller && smaller > 0.0)
}

/// Whether neither says a number, a name or a negation that the other does not, and one says all words that matter of the
/// other in the same order.
fn same_facts(own: &[Word], other: &[Word]) -> bool {
    let says_facts_of = |said: &[Word], of: &[Word]| {
        let mut facts = of.iter().filter(|word| word.is_fact());
        facts.all(|fact| said.iter().any(|word| word.text == fact.text))
    };
    let turns = |words: &[Word]| words.iter().filter(|word| word.turns()).count();
    let matters = |words: &[Word]| -> Vec<String> {
        let words = words.iter().filter(|word| !word.is_filler());
        words
            .map(|word| {
                if word.turns() {
                    "not".to_owned()
                } else {
                    word.text.clone()
                }
            })
            .collect()
    };
    let (short, long) = (matters(own), matters(other));
    turns(own) == turns(other)
        && says_facts_of(own, other)
        && says_facts_of(other, own)
        && (stands_in(&short, &long) || stands_in(&long, &short))
}

/// Whether all of these words are among the others, in this order.
fn stands_in(short: &[String], long: &[String]) -> bool {
    let mut rest = long.iter();
    short.iter().all(|word| rest.any(|other| same_word(word, other)))
}

/// Whether two words are the same, but for the ending of a plural or of a tense.
fn same_word(left: &str, right: &str) -> bool {
    let (short, long) = if left.len() <= right.len() {
        (left, right)
    } else {
        (right, left)
    };
    let is_word = short.chars().all(char::is_alphabetic) && short.chars().count() > 2;
    match long.strip_prefix(short) {
        Some("") => true,
        Some("s" | "es" | "d" | "ed" | "ing") => is_word,
        _ => false,
    }
}

/// The words of a text in small letters; numbers stay whole: "2.1", "-5", "6-14".
fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut begins_sentence = true;
    let characters: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < characters.len() {
        let start = at;
        let begins_word = start == 0 || characters[start - 1].is_whitespace();
        let digit = |at: usize| characters.get(at).is_some_and(|one| one.is_numeric());
        // A sign belongs to its number.
        if matches!(characters[at], '-' | '\u{2212}' | '+') && begins_word && digit(at + 1) {
            at += 1;
        }
        while at < characters.len() && (characters[at].is_alphanumeric() || joins(&characters, at)) {
            at += 1;
        }
        if at == start {
            begins_sentence |= matches!(characters[at], '.' | '!' | '?' | ':' | '\n');
            at += 1;
            continue;
        }
        let word: String = characters[start..at].iter().collect();
        let in_capitals = word.chars().any(char::is_uppercase) && word != "I";
        found.push(Word {
            text: word.to_lowercase().replace('\u{2019}', "'"),
            is_name: in_capitals && !begins_sentence,
        });
        begins_sentence = false;
    }
    found
}

/// Whether a mark stands within a number or a word.
fn joins(characters: &[char], at: usize) -> bool {
    let Some((before, after)) = at
        .checked_sub(1)
        .and_then(|before| Some((characters[before], *characters.get(at + 1)?)))
    else {
        return false;
    };
    match characters[at] {
        '.' | ',' | ':' | '/' | '-' => before.is_numeric() && after.is_numeric(),
        '\'' | '\u{2019}' => before.is_alphabetic() && after.is_alphabetic(),
        _ => false,
    }
}

/// Neighbouring words, and the words themselves where there is only one.
fn pairs(words: &[Word]) -> BTreeSet<(&str, &str)> {
    match words {
        [only] => BTreeSet::from([(only.text.as_str(), "")]),
        words => words
            .windows(2)
            .map(|pair| (pair[0].text.as_str(), pair[1].text.as_str()))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUGS: &str = "Clean mugs are kept in the cupboard above the sink.";

    fn same(left: &str, right: &str) {
        assert!(is_near_duplicate(left, [right]), "{left:?}, {right:?}");
    }

    fn different(left: &str, right: &str) {
        assert!(!is_near_duplicate(left, [right]), "{left:?}, {right:?}");
        assert!(!is_near_duplicate(right, [left]), "{right:?}, {left:?}");
    }

    #[test]
    fn the_same_in_other_dress_is_a_duplicate() {
        same(MUGS, MUGS);
        same("clean mugs are kept in the cupboard, above the sink", MUGS);
        same("The clean mugs are kept in the cupboard above the sink.", MUGS);
        same("kept in the cupboard above the sink", MUGS);
        same(
            "DON\u{2019}T open the drawer of Mara's desk before 10:30.",
            "Don't open the drawer of Mara's desk before 10:30!",
        );
        let rest =
            "open the drawer of the desk on the left side of the big room at home before the evening comes";
        same(&format!("Do not {rest}"), &format!("Do never {rest}"));
        same(&format!("You {rest}."), &format!("You may {rest}."));
    }

    #[test]
    fn another_fact_is_not() {
        different("Clean plates are kept in the drawer below the oven.", MUGS);
        assert!(!is_near_duplicate(MUGS, []));
        assert!(!is_near_duplicate("mugs", [MUGS]));
    }

    #[test]
    fn a_correction_is_no_duplicate_of_the_mistake() {
        let long = "when you come back from the depot in the evening and the lights are off";
        for (wrong, right) in [
            (
                "The door code of the Farrow Street depot is 6614.",
                "The door code of the Farrow Street depot is 7730.",
            ),
            ("The door code is 6614", "The door code is 6614 or 7730"),
            ("The offset is -5 degrees", "The offset is 5 degrees"),
            ("Use version 2.1 of the tool", "Use version 1.2 of the tool"),
            (
                "Always check the drawer first",
                "Do not always check the drawer first",
            ),
            ("Check the drawer first", "Don't check the drawer first"),
            ("Check the drawer first", "Check the drawer first unless told so"),
            (
                "The code is kept by Mara at noon",
                "The code is kept by Oskar at noon",
            ),
            ("Ask for the key at the desk", "Ask Mara for the key at the desk"),
            (
                "Carry it from the kitchen to the office",
                "Carry it from the office to the kitchen",
            ),
            ("The drawer is locked", "The drawer is unlocked"),
        ] {
            different(wrong, right);
            different(&format!("{wrong} {long}"), &format!("{right} {long}"));
            different(
                &format!("Note that {long}, {wrong}"),
                &format!("Note that {long}, {right}"),
            );
        }
    }
}
