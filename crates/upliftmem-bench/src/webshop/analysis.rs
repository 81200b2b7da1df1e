//! English analysis as Lucene does it: words by Unicode's rules, possessives, lower case, stop words, stems.

use unicode_segmentation::UnicodeSegmentation;

use super::emoji::is_emoji;
use super::porter;

/// Words that are no search terms: Lucene's English list.
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no",
    "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to",
    "was", "will", "with",
];

/// Longer words are cut into pieces of this many UTF-16 units, as the tokenizer's buffer is.
const WORD_MAX: usize = 255;

/// Hands every search term of a text to `visit`, in order.
pub(super) fn visit_terms(text: &str, mut visit: impl FnMut(&str)) {
    let mut letters = Vec::new();
    let mut term = String::new();
    for segment in text.split_word_bounds().filter(|segment| is_word(segment)) {
        for piece in pieces(segment) {
            letters.clear();
            // Character by character, as Lucene does it: no context, no "ss" for a sharp s.
            letters.extend(without_possessive(piece).chars().map(lower));
            term.clear();
            term.extend(&letters);
            if STOP_WORDS.binary_search(&term.as_str()).is_ok() {
                continue;
            }
            porter::stem(&mut letters);
            term.clear();
            term.extend(&letters);
            visit(&term);
        }
    }
}

fn lower(letter: char) -> char {
    let mut lowered = letter.to_lowercase();
    match (lowered.next(), lowered.next()) {
        (Some(one), None) => one,
        _ => letter,
    }
}

/// What follows the first character of a segment belongs to it, whatever it is: a bracket with a mark of voiced sounds is a
/// bracket. Only connectors are followed by words of their own.
fn is_word(segment: &str) -> bool {
    let first = segment.trim_start_matches(is_connector).chars().next();
    first.is_some_and(|letter| letter.is_alphabetic() || is_digit(letter)) || is_emoji(segment)
}

/// Unicode's word-break property ExtendNumLet.
fn is_connector(letter: char) -> bool {
    matches!(
        letter,
        '_' | '\u{202f}' | '\u{203f}' | '\u{2040}' | '\u{2054}' | '\u{fe33}' | '\u{fe34}' | '\u{fe4d}'
            ..='\u{fe4f}' | '\u{ff3f}'
    )
}

/// Decimal digits of any script; fractions, superscripts and circled numbers are none.
fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit()
        || (letter.is_numeric()
            && !matches!(letter,
                '²' | '³' | '¹' | '¼'..='¾'
                | '\u{2070}'..='\u{2079}' | '\u{2080}'..='\u{2089}' | '\u{2150}'..='\u{215f}' | '\u{2189}'
                | '\u{2460}'..='\u{249b}' | '\u{24ea}'..='\u{24ff}' | '\u{2776}'..='\u{2793}'
                | '\u{3192}'..='\u{3195}' | '\u{3220}'..='\u{3229}' | '\u{3248}'..='\u{324f}'
                | '\u{3251}'..='\u{325f}' | '\u{3280}'..='\u{3289}' | '\u{32b1}'..='\u{32bf}'))
}

fn pieces(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut units = 0;
        let end = rest.char_indices().find(|(_, letter)| {
            units += letter.len_utf16();
            units > WORD_MAX
        });
        let (piece, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
        rest = after;
        Some(piece)
    })
}

fn without_possessive(word: &str) -> &str {
    let stripped = word.strip_suffix(['s', 'S']);
    stripped
        .and_then(|word| word.strip_suffix(['\'', '\u{2019}', '\u{ff07}']))
        .unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        visit_terms(text, |term| terms.push(term.to_owned()));
        terms
    }

    #[test]
    fn texts_become_terms() {
        let check = |text: &str, expected: &[&str]| assert_eq!(terms(text), expected, "{text}");
        check("", &[]);
        check(
            "The WOMEN'S shoes, for a woman’s feet",
            &["women", "shoe", "woman", "feet"],
        );
        check(
            "12.5 oz (pack-of-6) 3,000mAh don't",
            &["12.5", "oz", "pack", "6", "3,000mah", "don't"],
        );
        check(
            "a_b face_mask 16\" x 16\"",
            &["a_b", "face_mask", "16", "x", "16"],
        );
        check("size²/½ ÉTÉ 日本", &["size", "été", "日", "本"]);
        check("__init__ _ ヽ(ﾟ∀ﾟ)ﾒ ლ", &["__init__", "ヽ", "ﾒ", "ლ"]);
        check("Brand™ q：a ★★ 😀!", &["brand", "™", "q：a", "★", "★", "😀"]);
    }

    #[test]
    fn stop_words_are_sorted_for_the_search() {
        assert!(STOP_WORDS.is_sorted());
    }

    #[test]
    fn long_words_are_cut() {
        let long = "x".repeat(600);
        assert_eq!(
            terms(&long).iter().map(String::len).collect::<Vec<_>>(),
            [255, 255, 90]
        );
    }
}
