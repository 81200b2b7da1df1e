//! What memories say, read sentence by sentence.
//!
//! The reader knows a handful of forms, in which people, writers and recorded plays say the same things:
//!
//! | it reads | and takes from it |
//! |---|---|
//! | "mugs are usually in the cabinet", "look for a mug on the desk first", "take mug 1 from desk 2" | where to look first |
//! | "there was no mug in the cabinet", "do not look for mugs in drawers" | where to look last |
//! | "heat the mug with the microwave before you put it away", "heat mug 1 with microwave 1" | what to do first, and with what |
//! | "once the mug is on the desk the task is done: stop" | when to stop |
//!
//! A place that is said of one thing attracts whoever reads it, whatever is looked for: notes about other things distract.

use super::request::Treatment;

/// One thing that a memory says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// Something is to be looked for there.
    Place { receptacle: Spot },
    /// The thing is not there.
    Absent { thing: String, receptacle: Spot },
    /// This appliance does it.
    Tool { treatment: Treatment, receptacle: Spot },
    /// This is to be done to the thing before it is put away.
    Before { thing: String, treatment: Treatment },
    /// All is done once one such thing is put away.
    Stop { thing: String },
}

/// A receptacle as a text names it: a kind, or one of that kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) kind: String,
    pub(super) number: Option<String>,
}

impl Spot {
    /// Whether a receptacle of the room is of that kind.
    pub(super) fn is_kind_of(&self, receptacle: &str) -> bool {
        super::room::kind(receptacle) == self.kind
    }

    /// Whether it is the very one.
    pub(super) fn is(&self, receptacle: &str) -> bool {
        self.number
            .as_ref()
            .is_some_and(|number| receptacle == format!("{} {number}", self.kind))
    }
}

/// Everything that texts of memories say, in their order, each thing once.
pub(super) fn read<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for text in texts {
        for sentence in text.split(['.', '\n', ';', ':', '!', '?', '>']) {
            let lower = sentence.to_lowercase();
            let words: Vec<&str> = lower
                .split(|letter: char| !letter.is_alphanumeric())
                .filter(|word| {
                    !word.is_empty() && !matches!(*word, "the" | "a" | "an" | "some" | "your" | "any")
                })
                .collect();
            for note in sentence_notes(&words) {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    }
    notes
}

fn sentence_notes(words: &[&str]) -> Vec<Note> {
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    let mut notes = Vec::new();
    if let Some((treatment, thing, rest)) = treated(words) {
        if let Some(receptacle) = after(rest, &["with", "using", "in"]) {
            notes.push(Note::Tool {
                treatment,
                receptacle,
            });
        }
        notes.push(Note::Before { thing, treatment });
        return notes;
    }
    if has(&["stop", "done", "complete", "finished"]) && has(&["once", "after", "when"]) {
        let start = words
            .iter()
            .position(|word| matches!(*word, "once" | "after" | "when"));
        if let Some(thing) = start.and_then(|start| words.get(start + 1)) {
            notes.push(Note::Stop {
                thing: singular(thing),
            });
        }
        return notes;
    }
    let thing = thing_of(words);
    let receptacle = after(words, &["in", "on", "from", "at"]);
    if let (Some(thing), Some(receptacle)) = (thing, receptacle) {
        notes.push(if has(&["no", "not", "never", "nowhere", "avoid"]) {
            Note::Absent { thing, receptacle }
        } else {
            Note::Place { receptacle }
        });
    }
    notes
}

/// `heat mug 1 with ...`: what is done to what, and the words after it.
fn treated<'w>(words: &'w [&'w str]) -> Option<(Treatment, String, &'w [&'w str])> {
    let place = words
        .iter()
        .position(|word| Treatment::ALL.iter().any(|treatment| treatment.verb() == *word))?;
    let treatment = Treatment::ALL
        .into_iter()
        .find(|treatment| treatment.verb() == words[place])?;
    let rest = words.get(place + 1..)?;
    // "put a cool mug on the desk" is a task, not a step.
    if words[..place]
        .iter()
        .any(|word| matches!(*word, "put" | "task" | "asked"))
    {
        return None;
    }
    let thing = rest.first()?;
    rest.iter()
        .any(|word| matches!(*word, "with" | "using" | "before"))
        .then(|| (treatment, singular(thing), rest))
}

/// What a sentence about a place is about.
fn thing_of(words: &[&str]) -> Option<String> {
    const VERBS: [&str; 6] = ["is", "are", "was", "were", "be", "lies"];
    if let ["take", thing, ..] | ["found", thing, ..] = words {
        return Some(singular(thing));
    }
    if let Some(place) = words.iter().position(|word| matches!(*word, "for" | "no"))
        && let Some(thing) = words.get(place + 1)
    {
        return Some(singular(thing));
    }
    let verb = words.iter().position(|word| VERBS.contains(word))?;
    let thing = words.get(verb.checked_sub(1)?)?;
    // "it is usually ..." says nothing that a reader of one sentence could use.
    (!matches!(*thing, "it" | "there" | "that" | "this")).then(|| singular(thing))
}

/// The receptacle after the first of these words that is followed by one.
fn after(words: &[&str], prepositions: &[&str]) -> Option<Spot> {
    let place = words.iter().position(|word| prepositions.contains(word))?;
    let mut rest = words[place + 1..].iter().peekable();
    // "in or on the desk"
    while rest
        .next_if(|word| matches!(**word, "or" | "on" | "in" | "and"))
        .is_some()
    {}
    let kind = singular(rest.next()?);
    let number = rest
        .next()
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    Some(Spot {
        kind,
        number: number.map(|number| (*number).to_owned()),
    })
}

/// A word without the ending of its plural.
fn singular(word: &str) -> String {
    const ENDINGS: [(&str, &str); 5] = [
        ("ives", "ife"),
        ("elves", "elf"),
        ("oes", "o"),
        ("ches", "ch"),
        ("xes", "x"),
    ];
    for (plural, one) in ENDINGS {
        if let Some(stem) = word.strip_suffix(plural) {
            return format!("{stem}{one}");
        }
    }
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 1 && !stem.ends_with('s') => stem.to_owned(),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(kind: &str, number: Option<&str>) -> Spot {
        Spot {
            kind: kind.into(),
            number: number.map(Into::into),
        }
    }

    fn place(kind: &str, number: Option<&str>) -> Note {
        Note::Place {
            receptacle: spot(kind, number),
        }
    }

    fn check(text: &str, expected: &[Note]) {
        assert_eq!(read([text]), expected, "{text}");
    }

    #[test]
    fn places() {
        check("Mugs are usually in the cabinet.", &[place("cabinet", None)]);
        check(
            "Tomatoes are often in or on countertops.",
            &[place("countertop", None)],
        );
        check("Look for a knife on the shelves first.", &[place("shelf", None)]);
        check("> take mug 1 from desk 2", &[place("desk", Some("2"))]);
        check("The desklamp was on dresser 1.", &[place("dresser", Some("1"))]);
        check(
            "There was no pen in the drawer.",
            &[Note::Absent {
                thing: "pen".into(),
                receptacle: spot("drawer", None),
            }],
        );
        check("Boxes and cds are on the desk.", &[place("desk", None)]);
        check("It is raining in Paris.", &[]);
        check("", &[]);
    }

    #[test]
    fn steps() {
        let heat = Treatment::Heat;
        let before = Note::Before {
            thing: "mug".into(),
            treatment: heat,
        };
        let tool = |number| Note::Tool {
            treatment: heat,
            receptacle: spot("microwave", number),
        };
        check("heat mug 1 with microwave 1", &[tool(Some("1")), before.clone()]);
        check(
            "Heat the mug with the microwave before you put it away.",
            &[tool(None), before.clone()],
        );
        check("First heat the mug before you put it away.", &[before]);
        check("Your task was: put a cool mug in cabinet.", &[]);
    }

    #[test]
    fn ends() {
        let stop = Note::Stop { thing: "book".into() };
        check(
            "Once the book is on the desk the task is done, stop there.",
            &[stop],
        );
    }

    #[test]
    fn what_is_said_twice_is_noted_once_and_any_text_is_survived() {
        assert_eq!(read(["Mugs are in the desk.", "A mug was in the desk."]).len(), 1);
        for text in [
            "in",
            "heat",
            "heat with",
            "no",
            "for",
            "take",
            "once",
            "ẞ in İ",
            "before cool before",
        ] {
            let _ = read([text]);
        }
    }
}
