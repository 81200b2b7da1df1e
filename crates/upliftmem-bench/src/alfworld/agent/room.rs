//! What the player knows of the room: which receptacles there are, which were looked into, what was seen in them.

use std::collections::BTreeMap;

/// A receptacle as the player knows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Whether its contents are known.
    pub(super) is_known: bool,
    /// Whether it was found closed.
    pub(super) is_closed: bool,
    /// Things in it when it was last looked at.
    pub(super) things: Vec<String>,
}

/// The room, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    /// Receptacles in the order of the opening text.
    pub(super) names: Vec<String>,
    receptacles: BTreeMap<String, Seen>,
}

/// `mug` of `mug 3`.
pub(super) fn kind(name: &str) -> &str {
    name.rsplit_once(' ')
        .filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(name, |(kind, _)| kind)
}

impl Room {
    /// The receptacles that an opening text lists.
    pub(super) fn read(opening: &str) -> Self {
        let list = opening
            .split_once("you see ")
            .and_then(|(_, rest)| rest.split_once('.'))
            .map_or("", |(list, _)| list);
        let names: Vec<String> = listed(list);
        let receptacles = names.iter().map(|name| (name.clone(), Seen::default()));
        Self {
            receptacles: receptacles.collect(),
            names,
        }
    }

    pub(super) fn get(&self, receptacle: &str) -> Option<&Seen> {
        self.receptacles.get(receptacle)
    }

    /// Learns from an answer of the environment whatever it says about receptacles.
    pub(super) fn observe(&mut self, observation: &str) {
        for sentence in observation.split_inclusive('.').map(str::trim) {
            if let Some((name, list)) = sentence
                .strip_prefix("On the ")
                .and_then(|rest| rest.split_once(", you see "))
            {
                self.know(name, listed(list));
            } else if let Some(name) = sentence
                .strip_prefix("The ")
                .and_then(|rest| rest.strip_suffix(" is closed."))
            {
                let seen = self.receptacles.entry(name.to_owned()).or_default();
                seen.is_closed = true;
            }
        }
        // "The drawer 1 is open. In it, you see a pen 1." is one fact in two sentences.
        if let Some((before, list)) = observation.split_once(" is open. In it, you see ")
            && let Some((_, name)) = before.rsplit_once("The ")
        {
            self.know(name, listed(list));
        }
    }

    fn know(&mut self, name: &str, things: Vec<String>) {
        let seen = self.receptacles.entry(name.to_owned()).or_default();
        seen.is_known = true;
        seen.is_closed = false;
        seen.things = things;
    }

    /// A thing was taken away.
    pub(super) fn take(&mut self, thing: &str) {
        for seen in self.receptacles.values_mut() {
            seen.things.retain(|other| other != thing);
        }
    }

    /// Where a thing of this kind was seen, in the order of the opening text.
    pub(super) fn places_of<'r>(&'r self, wanted: &'r str) -> impl Iterator<Item = &'r str> {
        self.names.iter().map(String::as_str).filter(move |name| {
            self.get(name)
                .is_some_and(|seen| seen.things.iter().any(|thing| kind(thing) == wanted))
        })
    }
}

/// `a X 1, a Y 2, and a Z 3.` as names.
fn listed(list: &str) -> Vec<String> {
    list.trim_end_matches('.')
        .split(',')
        .map(|item| item.trim().trim_start_matches("and ").trim_start_matches("a "))
        .filter(|item| !item.is_empty() && *item != "nothing")
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_environment_are_understood() {
        let mut room = Room::read(
            "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, \
             you see a drawer 2, a drawer 1, and a shelf 1.\n\nYour task is to: put a mug in shelf.",
        );
        assert_eq!(room.names, ["drawer 2", "drawer 1", "shelf 1"]);
        room.observe("You arrive at shelf 1. On the shelf 1, you see a mug 2, and a pen 1.");
        room.observe("You arrive at drawer 1. The drawer 1 is closed.");
        assert!(
            room.get("drawer 1")
                .is_some_and(|seen| seen.is_closed && !seen.is_known)
        );
        room.observe("You open the drawer 1. The drawer 1 is open. In it, you see nothing.");
        assert!(
            room.get("drawer 1")
                .is_some_and(|seen| seen.is_known && seen.things.is_empty())
        );
        assert_eq!(room.places_of("mug").collect::<Vec<_>>(), ["shelf 1"]);
        room.take("mug 2");
        assert_eq!(room.places_of("mug").count(), 0);
        assert_eq!(kind("toiletpaperhanger 12"), "toiletpaperhanger");
        assert!(Room::read("").names.is_empty());
    }
}
