//! One game: its file, read and checked, ready to be played any number of times.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::episode::Episode;
use super::error::{Fault, LoadError};
use super::goal::{Goal, TaskKind};
use super::names::names;
use super::problem::Problem;

/// A game of ALFWorld. It never changes; play it with [`Game::start`].
#[derive(Debug)]
pub struct Game {
    name: String,
    task: String,
    walkthrough: Vec<String>,
    pub(super) help: String,
    pub(super) problem: Problem,
    pub(super) goal: Goal,
    pub(super) object_names: Vec<String>,
    pub(super) receptacle_names: Vec<String>,
    /// Receptacles at each location, ascending.
    pub(super) receptacles_at: Vec<Vec<usize>>,
    pub(super) receptacle_roles: Vec<ReceptacleRole>,
    pub(super) is_knife: Vec<bool>,
    /// `go to ...` for every receptacle with a place, in the order of the text.
    pub(super) go_commands: Vec<(String, usize)>,
}

/// What a receptacle can do to the object in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceptacleRole {
    Plain,
    Cleans,
    Heats,
    Cools,
}

/// The JSON of a game file.
#[derive(Deserialize)]
struct GameFile<'a> {
    #[serde(borrow)]
    pddl_problem: Cow<'a, str>,
    #[serde(borrow)]
    grammar: Cow<'a, str>,
    walkthrough: Option<Vec<String>>,
}

impl Game {
    /// Reads a `game.tw-pddl` file. The game's name is the path of its folder.
    ///
    /// # Errors
    /// The file can not be read or is not a game; the error says where and why.
    pub fn load(file: impl AsRef<Path>) -> Result<Self, LoadError> {
        let file = file.as_ref();
        let shown = file.display().to_string();
        let json = fs::read(file).map_err(|source| LoadError::Read {
            file: shown.clone(),
            source,
        })?;
        let folder = file.parent().unwrap_or(file).display().to_string();
        Self::from_json(&folder, &shown, &json)
    }

    /// Reads a game from the bytes of its file, under a name of the caller's; `file` is for messages.
    ///
    /// # Errors
    /// The bytes are not a game; the error says where and why.
    pub fn from_json(name: &str, file: &str, json: &[u8]) -> Result<Self, LoadError> {
        let parsed: GameFile<'_> = serde_json::from_slice(json).map_err(|source| LoadError::Json {
            file: file.to_owned(),
            source,
        })?;
        let missing = |what: &str| LoadError::Release {
            file: file.to_owned(),
            message: format!("no {what} in the grammar"),
        };
        // Older releases say `put X in/on Y` and differ in other rules too.
        if !parsed.grammar.contains("\"move {o} to {r}\"") {
            return Err(missing("command `move {o} to {r}`"));
        }
        let task = between(&parsed.grammar, "Your task is to: ", "\"")
            .ok_or_else(|| missing("`Your task is to: ...`"))?;
        let help = between(&parsed.grammar, "action help {", "}")
            .and_then(|action| between(action, "feedback :: \"\n", "\";"))
            .ok_or_else(|| missing("text of `help`"))?;
        let text = parsed.pddl_problem.to_ascii_lowercase();
        let located = |fault: Fault| fault.located(file, &text);
        let (problem, goal) = Problem::parse(&text).map_err(located)?;
        let game = Self::new(problem, goal);
        Ok(Self {
            name: name.to_owned(),
            task: task.to_owned(),
            walkthrough: parsed.walkthrough.unwrap_or_default(),
            help: help.to_owned(),
            ..game
        })
    }

    fn new(problem: Problem, goal: Goal) -> Self {
        let (object_names, receptacle_names) = all_names(&problem);
        let mut receptacles_at = vec![Vec::new(); problem.start.objects_at.len()];
        let mut go_commands = Vec::new();
        for (receptacle, traits) in problem.receptacles.iter().enumerate() {
            if let Some(location) = traits.location {
                receptacles_at[location].push(receptacle);
                go_commands.push((format!("go to {}", receptacle_names[receptacle]), receptacle));
            }
        }
        go_commands.sort();
        let role = |kind: Option<usize>| match kind.map(|kind| problem.receptacle_types[kind].as_str()) {
            Some("sinktype" | "sinkbasintype") => ReceptacleRole::Cleans,
            Some("microwavetype") => ReceptacleRole::Heats,
            Some("fridgetype") => ReceptacleRole::Cools,
            _ => ReceptacleRole::Plain,
        };
        let is_knife = |kind: Option<usize>| {
            kind.is_some_and(|kind| {
                matches!(
                    problem.object_types[kind].as_str(),
                    "knifetype" | "butterknifetype"
                )
            })
        };
        Self {
            name: String::new(),
            task: String::new(),
            walkthrough: Vec::new(),
            help: String::new(),
            receptacle_roles: problem
                .receptacles
                .iter()
                .map(|traits| role(traits.kind))
                .collect(),
            is_knife: problem
                .objects
                .iter()
                .map(|traits| is_knife(traits.kind))
                .collect(),
            object_names,
            receptacle_names,
            receptacles_at,
            go_commands,
            problem,
            goal,
        }
    }

    /// Begins a play.
    #[must_use]
    pub fn start(&self) -> Episode<'_> {
        Episode::new(self)
    }

    /// The name given at loading: `split/task/trial` in a collection.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the player is asked to do: the text after "Your task is to: ".
    #[must_use]
    pub fn task(&self) -> &str {
        &self.task
    }

    /// The official type of the task.
    #[must_use]
    pub fn task_kind(&self) -> TaskKind {
        self.goal.kind
    }

    /// Commands that win, as the file gives them.
    #[must_use]
    pub fn walkthrough(&self) -> &[String] {
        &self.walkthrough
    }
}

/// Names of objects and of receptacles: both are numbered together, and only what a fact mentions counts.
fn all_names(problem: &Problem) -> (Vec<String>, Vec<String>) {
    let mentioned = problem.object_ids.iter().zip(&problem.is_mentioned).enumerate();
    let objects = mentioned
        .filter(|(_, (_, is))| **is)
        .map(|(number, (id, _))| (id.as_str(), true, number));
    let receptacles = problem
        .receptacle_ids
        .iter()
        .enumerate()
        .map(|(number, id)| (id.as_str(), false, number));
    let mut all: Vec<_> = objects.chain(receptacles).collect();
    all.sort_unstable();
    let ids: Vec<_> = all.iter().map(|(id, ..)| *id).collect();
    let mut object_names = problem.object_ids.clone();
    let mut receptacle_names = problem.receptacle_ids.clone();
    for (name, (_, is_object, number)) in names(&ids).into_iter().zip(all) {
        let list = if is_object {
            &mut object_names
        } else {
            &mut receptacle_names
        };
        list[number] = name;
    }
    (object_names, receptacle_names)
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::LoadError;
    use super::Game;

    const GRAMMAR: &str = "\"rhs\": \"Your task is to: put a mug in shelf.\"\n template :: \"move {o} to {r}\";\n\
        action help {\n template :: \"help\";\n feedback :: \"\nAsk.\n\";\n}\n";

    /// A shelf, a closed drawer with a mug at the same place, a knife and an apple; the agent stands elsewhere.
    const PROBLEM: &str = "(define (problem small)
(:domain alfred)
(:objects agent1 - agent
  Mug_bar_1 Knife_bar_1 Apple_bar_1 Apple_bar_2 Mug - object
  MugType KnifeType AppleType - otype
  ShelfType DrawerType - rtype
  Shelf_bar_1 Drawer_bar_1 - receptacle
  loc_bar_1 loc_bar_2 - location)
(:init
  (atLocation agent1 loc_bar_1)
  (receptacleType Shelf_bar_1 ShelfType) (receptacleAtLocation Shelf_bar_1 loc_bar_2)
  (receptacleType Drawer_bar_1 DrawerType) (receptacleAtLocation Drawer_bar_1 loc_bar_2) (openable Drawer_bar_1)
  (canContain ShelfType MugType) (canContain DrawerType AppleType)
  (objectType Mug_bar_1 MugType) (pickupable Mug_bar_1) (inReceptacle Mug_bar_1 Drawer_bar_1)
  (objectType Knife_bar_1 KnifeType) (pickupable Knife_bar_1) (inReceptacle Knife_bar_1 Shelf_bar_1)
  (objectType Apple_bar_1 AppleType) (pickupable Apple_bar_1) (sliceable Apple_bar_1)
  (inReceptacle Apple_bar_1 Shelf_bar_1) (objectAtLocation Apple_bar_1 loc_bar_2))
(:goal (and (exists (?r - receptacle) (exists (?o - object)
  (and (inReceptacle ?o ?r) (objectType ?o MugType) (receptacleType ?r ShelfType)))))))";

    fn file(problem: &str) -> Vec<u8> {
        let json = serde_json::json!({"pddl_problem": problem, "grammar": GRAMMAR, "walkthrough": ["look"]});
        serde_json::to_vec(&json).unwrap()
    }

    fn read(problem: &str) -> Result<Game, LoadError> {
        Game::from_json("small", "small.tw-pddl", &file(problem))
    }

    #[test]
    fn a_small_game_is_played_to_its_end() {
        let game = read(PROBLEM).unwrap();
        let mut episode = game.start();
        assert_eq!(
            episode.opening().observation,
            "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, \
             you see a drawer 1, and a shelf 1.\n\nYour task is to: put a mug in shelf."
        );
        let mut check = |command: &str, expected: &str| {
            let step = episode.step(command);
            assert_eq!(step.observation, expected, "{command}");
            step
        };
        check("help", "Ask.\n");
        check("take mug 1 from drawer 1", "Nothing happens.");
        check(
            " go to shelf 1 ",
            "You arrive at shelf 1. On the shelf 1, you see a apple 1, and a knife 1.",
        );
        check(
            "look",
            "You are facing the drawer 1, and shelf 1. Next to it, you see nothing.",
        );
        check(
            "take knife 1 from shelf 1",
            "You pick up the knife 1 from the shelf 1.",
        );
        let step = check(
            "slice apple 1 with knife 1",
            "You sliced the apple 1 with the knife 1.",
        );
        let expected = [
            "examine drawer 1",
            "examine knife 1",
            "examine shelf 1",
            "help",
            "inventory",
            "look",
            "open drawer 1",
        ];
        assert_eq!(step.admissible[..7], expected);
        // A knife fits nowhere here, so this room has to be won in another way.
        let game = read(&PROBLEM.replace(
            "ShelfType MugType)",
            "ShelfType MugType) (canContain ShelfType KnifeType)",
        ))
        .unwrap();
        let mut episode = game.start();
        let commands = [
            "go to drawer 1",
            "take knife 1 from shelf 1",
            "slice apple 1 with knife 1",
            "move knife 1 to shelf 1",
        ];
        for command in commands {
            assert!(episode.step(command).observation.starts_with("You "), "{command}");
        }
        episode.step("take apple 1 from shelf 1");
        assert_eq!(
            episode.step("examine apple 1").observation,
            "This is a sliced apple 1."
        );
        assert_eq!(
            episode.step("move apple 1 to drawer 1").observation,
            "Nothing happens."
        );
        episode.step("open drawer 1");
        episode.step("move apple 1 to drawer 1");
        let step = episode.step("take mug 1 from drawer 1");
        assert_eq!((step.won, step.done), (false, false));
        let step = episode.step("move mug 1 to shelf 1");
        assert_eq!((step.won, step.done), (true, true));
    }

    #[test]
    fn faults_name_file_and_place() {
        let message = |from: &str, to: &str| read(&PROBLEM.replacen(from, to, 1)).unwrap_err().to_string();
        let place = "small.tw-pddl: pddl_problem, line ";
        assert_eq!(
            message("(openable Drawer", "(openable Door"),
            format!("{place}12, column 100: `door_bar_1` is not declared")
        );
        assert_eq!(
            message("(atLocation agent1", "(atLocation Mug"),
            format!("{place}10, column 15: `mug` is of sort Object, expected Agent")
        );
        assert_eq!(
            message("(pickupable", "(lickable"),
            format!("{place}14, column 34: unknown fact `lickable`")
        );
        assert_eq!(
            message("alfred", "kitchen"),
            format!("{place}2, column 1: the domain is not `alfred`")
        );
        assert_eq!(
            message("(and (in", "(or (in"),
            format!("{place}18, column 8: the goal is none of ALFWorld's six kinds")
        );
        let grammar = String::from_utf8(file(PROBLEM))
            .unwrap()
            .replace("move {o} to", "put {o} in/on");
        let error = Game::from_json("old", "old.tw-pddl", grammar.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("old.tw-pddl: no command `move {o} to {r}` in the grammar"),
            "{error}"
        );
        let error = Game::from_json("cut", "cut.tw-pddl", b"{\"pddl_problem\": ")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("cut.tw-pddl: not a game.tw-pddl file: ") && error.contains("line 1 column"),
            "{error}"
        );
        assert!(
            Game::load("no/such/game.tw-pddl")
                .unwrap_err()
                .to_string()
                .starts_with("no/such/game.tw-pddl: can not be read")
        );
    }

    /// Whatever was made of the file: it plays or the error names the file.
    fn play_or_refuse(json: &[u8]) {
        match Game::from_json("mutated", "mutated.tw-pddl", json) {
            Ok(game) => {
                let mut episode = game.start();
                let mut step = episode.opening();
                for turn in 0..20 {
                    let command = step.admissible[turn * 7 % step.admissible.len()].clone();
                    step = episode.step(&command);
                }
            }
            Err(error) => assert!(error.to_string().starts_with("mutated.tw-pddl: "), "{error}"),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        /// Bytes of the file replaced, parts of the problem cut out and doubled.
        #[test]
        fn mutated_files_never_panic(
            bytes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in (any::<prop::sample::Index>(), 0_usize..40),
            token in prop::sample::select(vec!["", "(", ")", " - ", ";", "mug_bar_1", "loc_bar_2", "é", "(and)", "()"]),
        ) {
            let mut problem = PROBLEM.to_owned();
            let start = cut.0.index(problem.len());
            let end = (start + cut.1).min(problem.len());
            problem.replace_range(start..end, token);
            play_or_refuse(&file(&problem));
            let mut json = file(&problem);
            for (place, byte) in bytes {
                let place = place.index(json.len());
                json[place] = byte;
            }
            play_or_refuse(&json);
        }
    }
}
