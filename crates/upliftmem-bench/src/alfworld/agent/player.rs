//! The player: one command after another until it thinks that all is done.

use std::collections::BTreeSet;

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::{
    notes::{self, Note, Spot},
    request::{Aim, Request, Treatment},
    room::{Room, kind},
};

/// All that a player is shown at a turn.
#[derive(Clone, Copy, Debug)]
pub struct View<'v> {
    /// The environment's text.
    pub observation: &'v str,
    /// The commands that do something now.
    pub admissible: &'v [String],
}

/// A scripted player with the notes it was given.
#[derive(Clone, Debug)]
pub struct Player {
    notes: Vec<Note>,
    rng: ChaCha8Rng,
    scene: Option<Scene>,
}

/// A task under way.
#[derive(Clone, Debug)]
struct Scene {
    request: Request,
    room: Room,
    /// The room in an order drawn by lot: where to look when nothing is known.
    lot: Vec<String>,
    held: Option<String>,
    /// What is still to be done to the thing in hand.
    pending: Vec<Treatment>,
    /// Receptacles that did not do what is pending.
    refused: BTreeSet<String>,
    /// Receptacles that did not take the thing in hand.
    full: BTreeSet<String>,
    target: Option<String>,
    placed: Vec<String>,
    lamp_is_lit: bool,
    last: String,
}

impl Player {
    /// A player that has read these memories, in this order, and draws its lots from this seed.
    pub fn new<'t>(memories: impl IntoIterator<Item = &'t str>, seed: u64) -> Self {
        Self {
            notes: notes::read(memories),
            rng: ChaCha8Rng::seed_from_u64(seed),
            scene: None,
        }
    }

    /// The next command, or none if the player thinks it is done or knows no further. The first view is the opening.
    pub fn act(&mut self, view: View<'_>) -> Option<String> {
        if self.scene.is_none() {
            self.scene = self.enter(view.observation);
        }
        let scene = self.scene.as_mut()?;
        scene.learn(view.observation);
        let command = scene.decide(&self.notes, view.admissible)?;
        scene.last.clone_from(&command);
        Some(command)
    }

    fn enter(&mut self, opening: &str) -> Option<Scene> {
        let request = Request::read(opening)?;
        let room = Room::read(opening);
        let mut lot = room.names.clone();
        lot.shuffle(&mut self.rng);
        let mut scene = Scene {
            room,
            lot,
            held: None,
            pending: Vec::new(),
            refused: BTreeSet::new(),
            full: BTreeSet::new(),
            target: None,
            placed: Vec::new(),
            lamp_is_lit: false,
            last: String::new(),
            request,
        };
        scene.pending = scene.treatments(&self.notes);
        Some(scene)
    }
}

impl Scene {
    /// What is done to the thing: what notes say of it, then what was asked for.
    fn treatments(&self, notes: &[Note]) -> Vec<Treatment> {
        let mut all: Vec<Treatment> = Vec::new();
        for note in notes {
            if let Note::Before { thing, treatment } = note
                && (*thing == self.request.object || thing == "it")
                && Some(*treatment) != self.request.treatment
                && !all.contains(treatment)
            {
                all.push(*treatment);
            }
        }
        all.extend(self.request.treatment);
        all
    }

    /// Takes in what the last command led to.
    fn learn(&mut self, observation: &str) {
        self.room.observe(observation);
        let done = observation.starts_with("You ");
        let words: Vec<&str> = self.last.split(' ').collect();
        match words.as_slice() {
            ["take", thing, number, "from", ..] if done => {
                self.held = Some(format!("{thing} {number}"));
                self.room.begin_anew();
            }
            ["move", ..] if done => {
                self.placed.extend(self.held.take());
                self.room.begin_anew();
            }
            ["use", ..] if done => self.lamp_is_lit = true,
            [verb, ..] if done => self.pending.retain(|treatment| treatment.verb() != *verb),
            _ => {}
        }
    }

    fn decide(&mut self, notes: &[Note], admissible: &[String]) -> Option<String> {
        let object = self.request.object.clone();
        if self.held.is_none() {
            let stops = |note: &Note| matches!(note, Note::Stop { thing } if *thing == object);
            let enough = self.placed.len() >= self.request.count;
            if enough || (!self.placed.is_empty() && notes.iter().any(stops)) {
                return None;
            }
            if !self.placed.is_empty() && self.pending.is_empty() {
                self.pending = self.treatments(notes);
            }
            return self
                .taking(admissible)
                .or_else(|| self.searching(&object, notes, admissible));
        }
        if let Some(treatment) = self.pending.first().copied() {
            if let Some(command) = self.treating(treatment, notes, admissible) {
                return Some(command);
            }
            self.pending.remove(0);
            self.refused.clear();
            return self.decide(notes, admissible);
        }
        match self.request.aim.clone() {
            Aim::Receptacle(place) => self.placing(&place, admissible),
            Aim::Lamp(_) if self.lamp_is_lit => None,
            Aim::Lamp(lamp) => {
                let lit = format!("use {lamp} ");
                let here = admissible.iter().find(|command| command.starts_with(&lit));
                here.cloned().or_else(|| self.searching(&lamp, notes, admissible))
            }
        }
    }

    /// A thing of the wanted kind within reach that was not put away already.
    fn taking(&self, admissible: &[String]) -> Option<String> {
        let found = admissible.iter().find(|command| {
            let Some((thing, receptacle)) = command
                .strip_prefix("take ")
                .and_then(|rest| rest.split_once(" from "))
            else {
                return false;
            };
            kind(thing) == self.request.object
                && !self.placed.iter().any(|placed| placed == thing)
                && self.target.as_deref() != Some(receptacle)
        });
        found.cloned()
    }

    /// To the next place on the list; what it opened in vain it closes again, as one does in other people's rooms.
    fn searching(&self, thing: &str, notes: &[Note], admissible: &[String]) -> Option<String> {
        if let Some(opened) = self.last.strip_prefix("open ") {
            let close = format!("close {opened}");
            if admissible.contains(&close) {
                return Some(close);
            }
        }
        let list = self.search_list(thing, notes);
        let next = list.iter().find(|place| !self.room.is_searched(place))?;
        look_into(next, admissible)
    }

    /// Where to look, in order: where notes say that things are, whichever things; then by lot; and last where notes say
    /// that this thing is not.
    fn search_list(&self, thing: &str, notes: &[Note]) -> Vec<String> {
        let spots = notes.iter().filter_map(|note| match note {
            Note::Place { receptacle } => Some(receptacle),
            _ => None,
        });
        let mut list: Vec<String> = spots.flat_map(|spot| self.those(spot)).collect();
        let absent = |place: &String| {
            notes.iter().any(|note| {
                matches!(note, Note::Absent { thing: other, receptacle } if other == thing && receptacle.is_kind_of(place))
            })
        };
        let (last, by_lot): (Vec<String>, Vec<String>) = self.lot.iter().cloned().partition(absent);
        list.extend(by_lot);
        list.extend(last);
        let mut once = BTreeSet::new();
        list.retain(|place| once.insert(place.clone()));
        list
    }

    /// The receptacles that a note means: the very one, then all of its kind.
    fn those(&self, spot: &Spot) -> Vec<String> {
        let names = &self.room.names;
        let very = names.iter().filter(|name| spot.is(name));
        let kind = names.iter().filter(|name| spot.is_kind_of(name));
        very.chain(kind).cloned().collect()
    }

    /// Does it here if that is possible; else on to the next receptacle, those of notes first: alone it has to try them all.
    fn treating(&mut self, treatment: Treatment, notes: &[Note], admissible: &[String]) -> Option<String> {
        let held = self.held.clone()?;
        let here = format!("{} {held} with ", treatment.verb());
        if let Some(command) = admissible.iter().find(|command| command.starts_with(&here)) {
            return Some(command.clone());
        }
        if let Some(tried) = self.last.strip_prefix("go to ") {
            self.refused.insert(tried.to_owned());
        }
        let noted = notes.iter().filter_map(|note| match note {
            Note::Tool {
                treatment: other,
                receptacle,
            } if *other == treatment => Some(receptacle),
            _ => None,
        });
        let noted: Vec<String> = noted.flat_map(|spot| self.those(spot)).collect();
        noted
            .iter()
            .chain(&self.lot)
            .filter(|place| !self.refused.contains(*place))
            .find_map(|place| go(place, admissible))
    }

    /// To a receptacle of the wanted kind, and the thing into it; all things into the same.
    fn placing(&mut self, place: &str, admissible: &[String]) -> Option<String> {
        let held = self.held.clone()?;
        loop {
            if self.target.is_none() {
                let fits = |name: &&String| kind(name) == place && !self.full.contains(*name);
                self.target = self.room.names.iter().find(fits).cloned();
            }
            let target = self.target.clone()?;
            let moved = format!("move {held} to {target}");
            let opened = format!("open {target}");
            let found = [moved, opened]
                .into_iter()
                .find(|command| admissible.contains(command));
            if let Some(command) = found.or_else(|| go(&target, admissible)) {
                return Some(command);
            }
            self.full.insert(target);
            self.target = None;
        }
    }
}

/// Going there, unless that is where one is.
fn go(place: &str, admissible: &[String]) -> Option<String> {
    let command = format!("go to {place}");
    admissible.contains(&command).then_some(command)
}

/// Going there, or opening it, or looking at it if one stands before it already.
fn look_into(place: &str, admissible: &[String]) -> Option<String> {
    ["go to", "open", "examine"]
        .map(|verb| format!("{verb} {place}"))
        .into_iter()
        .find(|command| admissible.contains(command))
}
