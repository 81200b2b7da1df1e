//! What the player is asked to do, read from the sentence of the task.

/// What has to be done to a thing before it is put somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Treatment {
    Clean,
    Heat,
    Cool,
}

impl Treatment {
    pub(super) const ALL: [Self; 3] = [Self::Clean, Self::Heat, Self::Cool];

    /// The verb of the command.
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Heat => "heat",
            Self::Cool => "cool",
        }
    }

    /// Words that ask for it.
    fn of(word: &str) -> Option<Self> {
        match word {
            "clean" => Some(Self::Clean),
            "hot" | "heat" => Some(Self::Heat),
            "cool" => Some(Self::Cool),
            _ => None,
        }
    }
}

/// A task in the player's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The kind of the thing.
    pub(super) object: String,
    /// How many of them.
    pub(super) count: usize,
    /// What to do to it first.
    pub(super) treatment: Option<Treatment>,
    /// Where it ends.
    pub(super) aim: Aim,
}

/// Where a thing ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// In or on a receptacle of this kind.
    Receptacle(String),
    /// In the hand, while this lamp is lit.
    Lamp(String),
}

impl Request {
    /// Reads the sentence after "Your task is to: " of an opening text. A sentence of another form is none.
    pub(super) fn read(opening: &str) -> Option<Self> {
        let (_, sentence) = opening.split_once("Your task is to: ")?;
        let sentence = sentence.trim().trim_end_matches('.').to_ascii_lowercase();
        let words: Vec<&str> = sentence.split_whitespace().collect();
        let treatment = words.iter().find_map(|word| Treatment::of(word));
        let (object, aim, count) = match words.as_slice() {
            ["look", "at", object, "under", "the", lamp]
            | ["examine", "the", object, "with", "the", lamp] => (object, Aim::Lamp((*lamp).to_owned()), 1),
            ["put", "two", object, _, place] | ["find", "two", object, "and", "put", "them", _, place] => {
                (object, Aim::Receptacle((*place).to_owned()), 2)
            }
            ["put", _, object, _, place]
            | ["put", _, _, object, _, place]
            | [_, _, object, "and", "put", "it", _, place] => {
                (object, Aim::Receptacle((*place).to_owned()), 1)
            }
            _ => return None,
        };
        Some(Self {
            object: (*object).to_owned(),
            count,
            treatment,
            aim,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_sentence_is_read() {
        let check = |sentence: &str, object: &str, count, treatment, aim: Aim| {
            let expected = Request {
                object: object.into(),
                count,
                treatment,
                aim,
            };
            let opening = format!("You see a desk 1.\n\nYour task is to: {sentence}");
            assert_eq!(Request::read(&opening), Some(expected), "{sentence}");
        };
        let put = |place: &str| Aim::Receptacle(place.into());
        let lamp = || Aim::Lamp("desklamp".into());
        check("put a mug in desk.", "mug", 1, None, put("desk"));
        check("put some book on sidetable.", "book", 1, None, put("sidetable"));
        check(
            "put a hot cup in cabinet.",
            "cup",
            1,
            Some(Treatment::Heat),
            put("cabinet"),
        );
        check(
            "clean some bowl and put it in shelf.",
            "bowl",
            1,
            Some(Treatment::Clean),
            put("shelf"),
        );
        check("put two cd in safe.", "cd", 2, None, put("safe"));
        check("find two cd and put them in safe.", "cd", 2, None, put("safe"));
        check("look at book under the desklamp.", "book", 1, None, lamp());
        check("examine the bowl with the desklamp.", "bowl", 1, None, lamp());
        assert_eq!(Request::read("Your task is to: dance."), None);
        assert_eq!(Request::read(""), None);
    }
}
