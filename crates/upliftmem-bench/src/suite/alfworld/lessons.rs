//! What a play of ALFWorld says, in sentences: where things were, how it was done, what went wrong.
//!
//! A play is one case, and its lessons speak as if it were the rule. In other rooms some are right and some are not, which
//! is what makes them a pool to choose from.

use std::collections::BTreeMap;

use super::super::{Experience, Lesson, LessonKind, capital};

/// What a play was about and what was done in it, as far as its text tells.
struct Account<'e> {
    sentence: &'e str,
    /// Kinds of receptacles in the room.
    room: Vec<&'e str>,
    object: String,
    is_pair: bool,
    /// Thing and receptacle kinds of every `take`.
    takes: Vec<(&'e str, &'e str)>,
    /// Verb, thing and appliance of every treatment that worked.
    treatments: Vec<(&'e str, &'e str, &'e str)>,
    /// Thing and receptacle of every `move`.
    moves: Vec<(&'e str, &'e str)>,
    /// A lamp that was lit, and where.
    lamp: Option<(&'e str, &'e str)>,
    /// Kinds of receptacles that were gone to, with how often.
    searched: BTreeMap<&'e str, usize>,
}

impl<'e> Account<'e> {
    fn of(experience: &'e Experience) -> Self {
        let context = experience.task.context.as_str();
        let (sentence, room) = context.split_once(" In the room: ").unwrap_or((context, ""));
        let mut account = Self {
            sentence,
            room: room.trim_end_matches('.').split(", ").collect(),
            object: object_of(sentence),
            is_pair: sentence.contains(" two "),
            takes: Vec::new(),
            treatments: Vec::new(),
            moves: Vec::new(),
            lamp: None,
            searched: BTreeMap::new(),
        };
        let mut here = "";
        for step in &experience.execution.trajectory {
            let words: Vec<&str> = step.action.split(' ').collect();
            if step.observation.starts_with("Nothing") {
                continue;
            }
            match words.as_slice() {
                ["go", "to", place, _] => {
                    here = place;
                    *account.searched.entry(place).or_default() += 1;
                }
                ["take", thing, _, "from", place, _] => account.takes.push((thing, place)),
                ["move", thing, _, "to", place, _] => account.moves.push((thing, place)),
                ["use", lamp, _] => account.lamp = Some((lamp, here)),
                [verb @ ("heat" | "cool" | "clean"), thing, _, "with", place, _] => {
                    account.treatments.push((verb, thing, place));
                }
                _ => {}
            }
        }
        account
    }
}

/// The thing that a task is about: the word before its place, or the one that is looked at.
fn object_of(sentence: &str) -> String {
    let words: Vec<&str> = sentence.trim_end_matches('.').split(' ').collect();
    let found = match words.as_slice() {
        ["look", "at", object, ..] | ["examine", "the", object, ..] | ["find", "two", object, ..] => {
            Some(object)
        }
        [_, _, object, "and", ..] => Some(object),
        [.., object, "in" | "on", _] => Some(object),
        _ => None,
    };
    found.map_or_else(String::new, |object| (*object).to_owned())
}

fn plural(thing: &str) -> String {
    match thing {
        _ if thing.ends_with("knife") => format!("{}knives", &thing[..thing.len() - 5]),
        _ if thing.ends_with('o') || thing.ends_with("ch") || thing.ends_with('x') => format!("{thing}es"),
        _ => format!("{thing}s"),
    }
}

/// The lessons of a play.
pub(super) fn lessons(experience: &Experience) -> Vec<Lesson> {
    let account = Account::of(experience);
    let mut lessons = facts(&account);
    if experience.succeeded() {
        lessons.push(procedure(&account));
    } else {
        lessons.extend(reflection(&account));
    }
    lessons
}

fn facts(account: &Account<'_>) -> Vec<Lesson> {
    let mut facts = Vec::new();
    let mut push = |subject: String, topic: &str, text: String| {
        let fact = Lesson {
            kind: LessonKind::Fact,
            subject,
            topic: topic.to_owned(),
            text,
            denies: Vec::new(),
        };
        if !facts.contains(&fact) {
            facts.push(fact);
        }
    };
    for (thing, place) in &account.takes {
        push(format!("where {thing}"), thing, usual_place(thing, place));
    }
    for (verb, thing, place) in &account.treatments {
        let text = format!(
            "{} the {thing} with the {place} before you put it away.",
            capital(verb)
        );
        push(format!("how to {verb} {thing}"), verb, text);
    }
    if let Some((lamp, place)) = account.lamp {
        let text = format!("The {lamp} is usually on the {place}.");
        push(format!("where {lamp}"), lamp, text);
    }
    facts
}

fn usual_place(thing: &str, place: &str) -> String {
    format!("{} are usually in or on the {place}.", capital(&plural(thing)))
}

fn procedure(account: &Account<'_>) -> Lesson {
    let object = &account.object;
    let mut text = format!("How to {}", account.sentence);
    if let Some((thing, place)) = account.takes.first() {
        text += &format!(" Look for a {thing} in or on the {place} first.");
    }
    for (verb, thing, place) in &account.treatments {
        text += &format!(" Then {verb} the {thing} with the {place}.");
    }
    if let Some((lamp, place)) = account.lamp {
        text += &format!(" The {lamp} is on the {place}.");
    }
    if let Some((thing, place)) = account.moves.last() {
        text += &if account.is_pair {
            format!(" Put one {thing} into the {place}, then go for the other one.")
        } else {
            format!(" Once the {thing} is in the {place} the task is done, so stop there.")
        };
    }
    Lesson {
        kind: LessonKind::Procedure,
        subject: account.sentence.to_owned(),
        topic: object.clone(),
        text,
        denies: Vec::new(),
    }
}

/// Why a play failed, and what to try instead, as the one who played it would say: a guess, which nothing has confirmed.
fn reflection(account: &Account<'_>) -> Option<Lesson> {
    let object = &account.object;
    let untried = account
        .room
        .iter()
        .find(|kind| !account.searched.contains_key(*kind));
    let mut text = format!("What went wrong when the task was to {}", account.sentence);
    let found = account.takes.iter().find(|(thing, _)| thing == object);
    let mut denies = Vec::new();
    match (found, wanted_treatment(account.sentence)) {
        (None, _) => {
            // The kinds that took most of the time.
            let mut kinds: Vec<(&str, usize)> = account
                .searched
                .iter()
                .map(|(kind, count)| (*kind, *count))
                .collect();
            kinds.sort_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(right.0)));
            let (place, _) = kinds.first()?;
            text += &format!(" There was no {object} in the {place}.");
            denies.push(usual_place(object, place));
            if let Some(place) = untried {
                text += &format!(" Look for a {object} in or on the {place} first.");
            }
        }
        (Some((thing, place)), Some(verb)) if account.treatments.is_empty() => {
            text += &format!(" The {thing} was in the {place}.");
            if let Some(tool) = untried {
                text += &format!(" Then {verb} the {thing} with the {tool}.");
            }
        }
        (Some((thing, place)), _) => {
            text += &format!(" The {thing} was in the {place}, and the time ran out after that.");
            if account.is_pair {
                text += &format!(" There was no other {object} there.");
            }
        }
    }
    Some(Lesson {
        kind: LessonKind::Reflection,
        subject: account.sentence.to_owned(),
        topic: object.clone(),
        text,
        denies,
    })
}

/// What a task asks to be done to a thing.
fn wanted_treatment(sentence: &str) -> Option<&'static str> {
    let asks = |words: [&str; 2]| sentence.split(' ').any(|word| words.contains(&word));
    [
        ("clean", ["clean", "clean"]),
        ("heat", ["hot", "heat"]),
        ("cool", ["cool", "cool"]),
    ]
    .into_iter()
    .find(|(_, words)| asks(*words))
    .map(|(verb, _)| verb)
}

/// A play as it was: the task, every action, how it ended.
pub(super) fn transcript(experience: &Experience) -> String {
    let asked = format!("Your task was to: {}", Account::of(experience).sentence);
    experience.transcript(&asked, "It succeeded.", "It failed.")
}
