//! What memories say, read sentence by sentence.
//!
//! The reader knows a handful of forms, in which people, writers and recorded purchases say the same things:
//!
//! | it reads | and takes from it |
//! |---|---|
//! | "search for the kind and the options" | what of the instruction to search for; several are tried one after the other |
//! | "searching for the features did not help" | what to search for last |
//! | "open the cheapest first", "open those whose titles say most of it", "open them in the order of the page" | which result to open |
//! | "check the features page before you buy", "do not read the description" | what to read first |
//! | "look at three products", "buy the first product" | how soon to stop looking |
//! | "if nothing fits, search again", "... go to the next page of results", "... settle for what is there" | what to do then |
//!
//! Of a purchase that is told action by action it takes what was done. What kind of product a memory is about does not
//! matter to the reader: it does what it is told.

use super::{
    account::Account,
    habits::{Check, Habits, Order, Otherwise, Phrasing},
};

/// One thing that a memory says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Query(Phrasing),
    /// A query that does not help.
    NoQuery(Phrasing),
    Order(Order),
    Check(Check),
    Patience(usize),
    Otherwise(Otherwise),
}

/// How the record of a purchase begins.
pub(crate) const RECORD: &str = "The instruction was: ";

/// Everything that texts of memories say, in their order, each thing once.
pub(super) fn read<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for text in texts {
        let said = match text.strip_prefix(RECORD) {
            Some(record) => record_notes(record),
            None => text
                .split(['.', '\n', ';', ':', '!', '?'])
                .flat_map(sentence_notes)
                .collect(),
        };
        for note in said {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

/// What a purchase was like: the instruction, then an action a line.
fn record_notes(record: &str) -> Vec<Note> {
    let (instruction, lines) = record.split_once('\n').unwrap_or((record, ""));
    let actions = lines.lines().filter_map(|line| line.strip_prefix("> "));
    let account = Account::of(instruction, actions);
    let mut notes: Vec<Note> = account
        .searches
        .iter()
        .map(|search| Note::Query(search.phrasing))
        .collect();
    notes.extend(account.checks.first().map(|check| Note::Check(*check)));
    if let Some(last) = account.searches.last()
        && !last.opened.is_empty()
    {
        notes.push(Note::Patience(last.opened.len()));
    }
    if account.turned_pages {
        notes.push(Note::Otherwise(Otherwise::NextPage));
    } else if account.searches.len() > 1 {
        notes.push(Note::Otherwise(Otherwise::SearchAgain));
    }
    notes
}

fn sentence_notes(sentence: &str) -> Vec<Note> {
    let lower = sentence.to_lowercase();
    let words: Vec<&str> = lower
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    let denies = has(&["not", "never", "without", "avoid", "no"]);
    if has(&["search", "searching", "searched", "query"]) {
        let mut notes = Vec::new();
        let all = has(&["everything", "all"]);
        let phrasing = Phrasing::of(
            all || has(&["kind", "type", "category"]),
            all || has(&["features", "feature", "attributes", "attribute"]),
            all || has(&["options", "option", "color", "colour", "size"]),
        );
        if phrasing != Phrasing::of(false, false, false) {
            notes.push(if denies {
                Note::NoQuery(phrasing)
            } else {
                Note::Query(phrasing)
            });
        }
        if has(&["again"]) {
            notes.push(Note::Otherwise(Otherwise::SearchAgain));
        }
        return notes;
    }
    if has(&["check", "read", "reading", "checking"]) {
        let page = match (has(&["features", "feature"]), has(&["description"])) {
            _ if denies => Check::Nothing,
            (true, _) => Check::Features,
            (false, true) => Check::Description,
            (false, false) => return Vec::new(),
        };
        return vec![Note::Check(page)];
    }
    if has(&["page", "results"]) && has(&["next", "second"]) {
        return vec![Note::Otherwise(Otherwise::NextPage)];
    }
    if has(&["settle"]) {
        return vec![Note::Otherwise(Otherwise::Settle)];
    }
    if has(&["open"]) {
        let order = match (
            has(&["cheapest", "cheap"]),
            has(&["title", "titles"]),
            has(&["order", "listed"]),
        ) {
            (true, ..) => Order::Price,
            (_, true, _) => Order::Title,
            (.., true) => Order::Listed,
            _ => return Vec::new(),
        };
        return vec![Note::Order(order)];
    }
    patience(&words).map(Note::Patience).into_iter().collect()
}

/// "look at three products", "buy the first product".
fn patience(words: &[&str]) -> Option<usize> {
    const NUMBERS: [&str; 6] = ["one", "two", "three", "four", "five", "six"];
    let at = words
        .iter()
        .position(|word| matches!(*word, "product" | "products"))?;
    let count = words.get(at.checked_sub(1)?)?;
    if *count == "first" {
        return words.contains(&"buy").then_some(1);
    }
    let spelled = NUMBERS
        .iter()
        .position(|word| word == count)
        .map(|place| place + 1);
    spelled.or_else(|| count.parse().ok()).filter(|count| *count > 0)
}

/// Habits after reading: what was said first counts, and of queries all of them, in their order.
pub(super) fn follow(notes: &[Note], habits: &mut Habits) {
    let said: Vec<Phrasing> = notes
        .iter()
        .filter_map(|note| match note {
            Note::Query(phrasing) => Some(*phrasing),
            _ => None,
        })
        .collect();
    let useless = |phrasing: &Phrasing| notes.contains(&Note::NoQuery(*phrasing));
    let rest = habits
        .phrasings
        .iter()
        .filter(|phrasing| !said.contains(phrasing));
    let (last, middle): (Vec<Phrasing>, Vec<Phrasing>) = rest.copied().partition(useless);
    habits.phrasings = [said.as_slice(), &middle, &last].concat();
    // Who is told two ways to search tries both.
    if said.len() > 1 {
        habits.otherwise = Otherwise::SearchAgain;
    }
    for note in notes.iter().rev() {
        match note {
            Note::Query(_) | Note::NoQuery(_) => {}
            Note::Order(order) => habits.order = *order,
            Note::Check(check) => habits.check = *check,
            Note::Patience(patience) => habits.patience = *patience,
            Note::Otherwise(otherwise) => habits.otherwise = *otherwise,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const KIND_AND_OPTIONS: Phrasing = Phrasing::of(true, false, true);

    fn check(text: &str, expected: &[Note]) {
        assert_eq!(read([text]), expected, "{text}");
    }

    #[test]
    fn sentences() {
        let query = |kind, features, options| Note::Query(Phrasing::of(kind, features, options));
        check(
            "How to find beds: search for the kind only.",
            &[query(true, false, false)],
        );
        check("Search for the kind and the color.", &[query(true, false, true)]);
        check("Put everything into the query.", &[query(true, true, true)]);
        check(
            "Searching for the features only did not find beds.",
            &[Note::NoQuery(Phrasing::of(false, true, false))],
        );
        check(
            "If nothing fits, search again.",
            &[Note::Otherwise(Otherwise::SearchAgain)],
        );
        check(
            "If nothing fits, go to the next page of results.",
            &[Note::Otherwise(Otherwise::NextPage)],
        );
        check(
            "If nothing fits, settle for what is there.",
            &[Note::Otherwise(Otherwise::Settle)],
        );
        check(
            "Check the features page before you buy.",
            &[Note::Check(Check::Features)],
        );
        check("Do not read the description.", &[Note::Check(Check::Nothing)]);
        check("Open the cheapest product first.", &[Note::Order(Order::Price)]);
        check("Look at up to 3 products.", &[Note::Patience(3)]);
        check(
            "Look at four products; buy the first product.",
            &[Note::Patience(4), Note::Patience(1)],
        );
        check("Beds are soft.", &[]);
        check("", &[]);
    }

    #[test]
    fn records() {
        check(
            "The instruction was: Find me solid wood beds with size: king\n> search[beds king]\n> click[b000000001]\n> \
             click[< prev]\n> click[b000000002]\n> click[features]\n> click[< prev]\n> click[king]\n> click[buy now]\nIt ended well.",
            &[
                Note::Query(KIND_AND_OPTIONS),
                Note::Check(Check::Features),
                Note::Patience(2),
            ],
        );
        check("The instruction was: ", &[]);
    }

    #[test]
    fn what_is_said_first_counts_and_two_ways_to_search_are_both_tried() {
        let mut habits = Habits::by_lot(&mut ChaCha8Rng::seed_from_u64(1));
        let notes = read([
            "Search for the kind and the options. Look at 2 products.",
            "Search for the features only. Look at 4 products. Searching for the kind only did not help.",
        ]);
        follow(&notes, &mut habits);
        assert_eq!(habits.phrasings.len(), Phrasing::ALL.len());
        assert_eq!(
            habits.phrasings[..2],
            [KIND_AND_OPTIONS, Phrasing::of(false, true, false)]
        );
        assert_eq!(habits.phrasings[5], Phrasing::of(true, false, false));
        assert_eq!((habits.patience, habits.otherwise), (2, Otherwise::SearchAgain));
    }
}
