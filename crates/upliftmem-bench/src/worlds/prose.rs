//! Texts of tasks and memories. They show topic, kind and often the object; seldom whether a memory helps.

use rand::{Rng, RngExt};

use super::words::{CIRCUMSTANCES, DOUBT, PRAISE, REMARKS, TOPICS};

/// A topic and one of its kinds of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) topic: usize,
    pub(super) kind: usize,
}

impl Place {
    fn name(self) -> &'static str {
        TOPICS[self.topic].name
    }

    /// Another kind of job of the same topic.
    pub(super) fn neighbour(self, steps: usize) -> Self {
        Self {
            kind: (self.kind + steps) % TOPICS[self.topic].kinds.len(),
            ..self
        }
    }

    /// A thing found there.
    pub(super) fn object(self, rng: &mut impl Rng) -> &'static str {
        pick(rng, &TOPICS[self.topic].objects)
    }
}

/// How a memory is worded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// In the words of a request: near to tasks of its kind.
    Everyday,
    /// In the words of a manual: it shares the topic's name with a task, and little more.
    Formal,
    /// About the topic as a whole.
    General,
    /// A task's own words again: nearer to tasks of its kind than anything else.
    Echo,
    /// Everyday, and three times as long as it need be.
    Wordy,
}

/// Whether a memory helps where it applies, as far as its text may hint at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaning {
    Helps,
    Harms,
    Neither,
}

/// One hint in so many texts, and one of four hints is wrong.
const HINT_SHARE: f64 = 0.12;
const HINT_TRUE: f64 = 0.75;

fn pick<T: Copy>(rng: &mut impl Rng, items: &[T]) -> T {
    items[rng.random_range(0..items.len())]
}

/// What a task asks for.
pub(super) fn task(rng: &mut impl Rng, place: Place, object: Option<&str>) -> String {
    let request = request(rng, place, object);
    let circumstance = pick(rng, &CIRCUMSTANCES);
    format!("{request} {circumstance}")
}

fn request(rng: &mut impl Rng, place: Place, object: Option<&str>) -> String {
    let job = TOPICS[place.topic].kinds[place.kind].everyday;
    let name = place.name();
    let about = object.map_or(String::new(), |object| {
        let link = pick(
            rng,
            &[
                "using the",
                "starting at the",
                "minding the",
                "and the matter is the",
            ],
        );
        format!(", {link} {object}")
    });
    match rng.random_range(0..5) {
        0 => format!("Please {job} in the {name}{about}."),
        1 => format!("I need you to {job} for the {name} today{about}."),
        2 => format!("Could you {job} over in {name}{about}?"),
        3 => format!("The {name} team wants to {job}{about}."),
        _ => format!("Help me {job}, it is for {name}{about}."),
    }
}

/// What a memory says about an object.
pub(super) fn memory(
    rng: &mut impl Rng,
    place: Place,
    object: &str,
    voice: Voice,
    leaning: Leaning,
) -> String {
    let name = place.name();
    let kind = &TOPICS[place.topic].kinds[place.kind];
    let other = place.object(rng);
    let advice = match rng.random_range(0..6) {
        0 => format!("start from the {object} and only then touch the {other}"),
        1 => format!("check the {object} twice"),
        2 => format!("the {object} comes before the {other}"),
        3 => format!("ask about the {object} up front"),
        4 => format!("leave the {other} alone until the {object} is done"),
        _ => format!("keep the {object} and the {other} apart"),
    };
    let body = match voice {
        Voice::Everyday | Voice::Wordy => match rng.random_range(0..3) {
            0 => format!("To {} in the {name}, {advice}.", kind.everyday),
            1 => format!(
                "Last time somebody had to {} for the {name}: {advice}.",
                kind.everyday
            ),
            _ => format!("{name}, {}: {advice}.", kind.everyday),
        },
        Voice::Formal => match rng.random_range(0..2) {
            0 => format!("Note on {} ({name}): {advice}.", kind.formal),
            _ => format!("Regarding {name} and its {}, {advice}.", kind.formal),
        },
        Voice::General => format!("Whatever is done in the {name}, {advice}."),
        Voice::Echo => format!("{} Then {advice}.", request(rng, place, Some(object))),
    };
    let mut text = body;
    let remarks = match voice {
        Voice::Wordy => 4 + rng.random_range(0..3),
        _ => rng.random_range(0..2),
    };
    for _ in 0..remarks {
        text.push(' ');
        text.push_str(pick(rng, &REMARKS));
    }
    if let Some(hint) = hint(rng, leaning) {
        text.push(' ');
        text.push_str(hint);
    }
    text
}

fn hint(rng: &mut impl Rng, leaning: Leaning) -> Option<&'static str> {
    if !rng.random_bool(HINT_SHARE) {
        return None;
    }
    let praise = match leaning {
        Leaning::Helps => rng.random_bool(HINT_TRUE),
        Leaning::Harms => !rng.random_bool(HINT_TRUE),
        Leaning::Neither => rng.random_bool(0.5),
    };
    Some(if praise {
        pick(rng, &PRAISE)
    } else {
        pick(rng, &DOUBT)
    })
}

/// About how many tokens a text has: a little more than its words.
pub(super) fn tokens(text: &str) -> u32 {
    let words = u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX / 2);
    words + words / 3
}
