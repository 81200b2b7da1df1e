//! Porter's stemmer as Lucene has it: the algorithm of 1980 with the later rules for `bli` and `logi`.

/// Reduces a word, in place, to its stem. Words of one or two letters stay as they are.
pub(super) fn stem(word: &mut Vec<char>) {
    if word.len() <= 2 {
        return;
    }
    let mut stemmer = Stemmer { word, stem: 0 };
    stemmer.plurals_and_participles();
    stemmer.final_y();
    stemmer.double_suffixes();
    stemmer.simple_suffixes();
    stemmer.bare_suffixes();
    stemmer.final_e_and_double_l();
}

struct Stemmer<'w> {
    word: &'w mut Vec<char>,
    /// How many letters stand before the suffix that was matched last.
    stem: usize,
}

impl Stemmer<'_> {
    fn is_consonant(&self, at: usize) -> bool {
        match self.word[at] {
            'a' | 'e' | 'i' | 'o' | 'u' => false,
            'y' => at == 0 || !self.is_consonant(at - 1),
            _ => true,
        }
    }

    /// How many times vowels are followed by consonants in the stem: the m of [C](VC)^m[V].
    fn measure(&self) -> usize {
        let changes = (1..self.stem).filter(|&at| !self.is_consonant(at - 1) && self.is_consonant(at));
        changes.count()
    }

    fn has_vowel(&self) -> bool {
        (0..self.stem).any(|at| !self.is_consonant(at))
    }

    fn ends_double_consonant(&self) -> bool {
        let length = self.word.len();
        length >= 2 && self.word[length - 1] == self.word[length - 2] && self.is_consonant(length - 1)
    }

    /// Whether the first `length` letters end consonant, vowel, consonant, and the last is none of w, x, y: "hop", not "snow".
    fn ends_short(&self, length: usize) -> bool {
        length >= 3
            && self.is_consonant(length - 1)
            && !self.is_consonant(length - 2)
            && self.is_consonant(length - 3)
            && !matches!(self.word[length - 1], 'w' | 'x' | 'y')
    }

    fn ends(&mut self, suffix: &str) -> bool {
        // Suffixes are ASCII: bytes are letters.
        let Some(stem) = self.word.len().checked_sub(suffix.len()) else {
            return false;
        };
        let is_equal = self.word[stem..].iter().copied().eq(suffix.chars());
        if is_equal {
            self.stem = stem;
        }
        is_equal
    }

    fn replace(&mut self, suffix: &str) {
        self.word.truncate(self.stem);
        self.word.extend(suffix.chars());
    }

    /// The first suffix that fits is replaced, if the stem before it is long enough.
    fn replace_first(&mut self, rules: &[(&str, &str)]) {
        for (suffix, replacement) in rules {
            if self.ends(suffix) {
                if self.measure() > 0 {
                    self.replace(replacement);
                }
                return;
            }
        }
    }

    fn plurals_and_participles(&mut self) {
        if self.word.last() == Some(&'s') {
            if self.ends("sses") || self.ends("ies") {
                self.word.truncate(self.word.len() - 2);
            } else if !self.ends("ss") {
                self.word.pop();
            }
        }
        if self.ends("eed") {
            if self.measure() > 0 {
                self.word.pop();
            }
        } else if (self.ends("ed") || self.ends("ing")) && self.has_vowel() {
            self.word.truncate(self.stem);
            if self.ends("at") || self.ends("bl") || self.ends("iz") {
                self.word.push('e');
            } else if self.ends_double_consonant() {
                if !matches!(self.word.last(), Some('l' | 's' | 'z')) {
                    self.word.pop();
                }
            } else if self.measure() == 1 && self.ends_short(self.word.len()) {
                self.word.push('e');
            }
        }
    }

    fn final_y(&mut self) {
        if self.ends("y") && self.has_vowel() {
            self.replace("i");
        }
    }

    fn double_suffixes(&mut self) {
        self.replace_first(&[
            ("ational", "ate"),
            ("tional", "tion"),
            ("enci", "ence"),
            ("anci", "ance"),
            ("izer", "ize"),
            ("bli", "ble"),
            ("alli", "al"),
            ("entli", "ent"),
            ("eli", "e"),
            ("ousli", "ous"),
            ("ization", "ize"),
            ("ation", "ate"),
            ("ator", "ate"),
            ("alism", "al"),
            ("iveness", "ive"),
            ("fulness", "ful"),
            ("ousness", "ous"),
            ("aliti", "al"),
            ("iviti", "ive"),
            ("biliti", "ble"),
            ("logi", "log"),
        ]);
    }

    fn simple_suffixes(&mut self) {
        self.replace_first(&[
            ("icate", "ic"),
            ("ative", ""),
            ("alize", "al"),
            ("iciti", "ic"),
            ("ical", "ic"),
            ("ful", ""),
            ("ness", ""),
        ]);
    }

    fn bare_suffixes(&mut self) {
        const SUFFIXES: [&str; 19] = [
            "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou",
            "ism", "ate", "iti", "ous", "ive", "ize",
        ];
        for suffix in SUFFIXES {
            if !self.ends(suffix) {
                continue;
            }
            // "-ion" goes from "adoption", not from "onion".
            if suffix == "ion" && !(self.stem > 0 && matches!(self.word[self.stem - 1], 's' | 't')) {
                continue;
            }
            if self.measure() > 1 {
                self.word.truncate(self.stem);
            }
            return;
        }
    }

    fn final_e_and_double_l(&mut self) {
        self.stem = self.word.len();
        if self.word.last() == Some(&'e') {
            let measure = self.measure();
            if measure > 1 || (measure == 1 && !self.ends_short(self.word.len() - 1)) {
                self.word.pop();
            }
        }
        if self.word.last() == Some(&'l') && self.ends_double_consonant() && self.measure() > 1 {
            self.word.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stem;

    fn check(word: &str, expected: &str) {
        let mut letters: Vec<char> = word.chars().collect();
        stem(&mut letters);
        assert_eq!(letters.iter().collect::<String>(), expected, "{word}");
    }

    /// Examples of Porter's article, and words where implementations differ.
    #[test]
    fn words_are_reduced_as_published() {
        let published = [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("ties", "ti"),
            ("caress", "caress"),
            ("cats", "cat"),
            ("feed", "feed"),
            ("agreed", "agre"),
            ("plastered", "plaster"),
            ("bled", "bled"),
            ("motoring", "motor"),
            ("sing", "sing"),
            ("conflated", "conflat"),
            ("troubled", "troubl"),
            ("sized", "size"),
            ("hopping", "hop"),
            ("tanned", "tan"),
            ("falling", "fall"),
            ("hissing", "hiss"),
            ("fizzed", "fizz"),
            ("failing", "fail"),
            ("filing", "file"),
            ("happy", "happi"),
            ("sky", "sky"),
            ("relational", "relat"),
            ("conditional", "condit"),
            ("rational", "ration"),
            ("digitizer", "digit"),
            ("conformabli", "conform"),
            ("radicalli", "radic"),
            ("vietnamization", "vietnam"),
            ("operator", "oper"),
            ("feudalism", "feudal"),
            ("hopefulness", "hope"),
            ("sensibiliti", "sensibl"),
            ("apologi", "apolog"),
            ("triplicate", "triplic"),
            ("formative", "form"),
            ("electrical", "electr"),
            ("goodness", "good"),
            ("revival", "reviv"),
            ("allowance", "allow"),
            ("airliner", "airlin"),
            ("adjustable", "adjust"),
            ("replacement", "replac"),
            ("adoption", "adopt"),
            ("communism", "commun"),
            ("effective", "effect"),
            ("probate", "probat"),
            ("rate", "rate"),
            ("cease", "ceas"),
            ("controll", "control"),
            ("roll", "roll"),
            ("onion", "onion"),
        ];
        for (word, expected) in published {
            check(word, expected);
        }
    }

    #[test]
    fn short_and_foreign_words_do_not_break_it() {
        for word in ["", "a", "is", "äß", "日本", "sss", "eed", "ing", "ied"] {
            let mut letters: Vec<char> = word.chars().collect();
            stem(&mut letters);
        }
        // Letters beyond English are consonants, as in Lucene: nothing before the last e is a syllable, so it stays.
        check("crèmes", "crème");
        check("ies", "i");
    }
}
