//! What the player knows of the room: which receptacles there are, and which it has looked into since it began to look for
//! what it wants now. It keeps nothing else in mind: what it saw on the way it has to find again.

use std::collections::BTreeSet;

/// The room, as far as it is in mind.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    /// Receptacles in the order of the opening text.
    pub(super) names: Vec<String>,
    looked_into: BTreeSet<String>,
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
        let names = list
            .split(',')
            .map(|item| item.trim().trim_start_matches("and ").trim_start_matches("a "))
            .filter(|item| !item.is_empty() && *item != "nothing");
        Self {
            names: names.map(str::to_owned).collect(),
            looked_into: BTreeSet::new(),
        }
    }

    /// Keeps in mind which receptacle a text of the environment shows the contents of.
    pub(super) fn observe(&mut self, observation: &str) {
        let open = observation
            .split_once(" is open. In it, you see ")
            .and_then(|(before, _)| before.rsplit_once("The "));
        let plain = observation
            .split_once(", you see ")
            .and_then(|(before, _)| before.rsplit_once("On the "));
        if let Some((_, name)) = open.or(plain) {
            self.looked_into.insert(name.to_owned());
        }
    }

    /// Whether a receptacle was looked into.
    pub(super) fn is_searched(&self, receptacle: &str) -> bool {
        self.looked_into.contains(receptacle)
    }

    /// Something else is looked for now.
    pub(super) fn begin_anew(&mut self) {
        self.looked_into.clear();
    }
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
        assert!(room.is_searched("shelf 1") && !room.is_searched("drawer 1"));
        room.observe("You open the drawer 1. The drawer 1 is open. In it, you see nothing.");
        assert!(room.is_searched("drawer 1"));
        room.begin_anew();
        assert!(!room.is_searched("shelf 1"));
        assert_eq!(kind("toiletpaperhanger 12"), "toiletpaperhanger");
        assert!(Room::read("").names.is_empty());
    }
}
