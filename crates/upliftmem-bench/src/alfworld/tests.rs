//! A small game played to its end, faults with their places, and files broken in every way.

use std::fs;

use proptest::prelude::*;

use super::{Game, LoadError, Split, visit_games};

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
    let walkthrough = [
        "go to drawer 1",
        "open drawer 1",
        "take mug 1 from drawer 1",
        "move mug 1 to shelf 1",
    ];
    let json = serde_json::json!({"pddl_problem": problem, "grammar": GRAMMAR, "walkthrough": walkthrough});
    serde_json::to_vec(&json).unwrap()
}

fn read(problem: &str) -> Result<Game, LoadError> {
    Game::from_json("small", "small.tw-pddl", &file(problem))
}

pub(super) fn small_game() -> Game {
    read(PROBLEM).unwrap()
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

#[test]
fn a_folder_is_read_in_the_order_of_the_names() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["valid_seen/b/trial", "train/a/trial", "train/a/other", "notes"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("readme.txt"), "not a game").unwrap();
        if name != "notes" {
            fs::write(folder.path().join(name).join("game.tw-pddl"), file(PROBLEM)).unwrap();
        }
    }
    let mut names = Vec::new();
    visit_games(
        folder.path(),
        |name| name != "train/a/other",
        |game| names.push(game.name().to_owned()),
    )
    .unwrap();
    assert_eq!(names, ["train/a/trial", "valid_seen/b/trial"]);
    assert_eq!(Split::of(&names[1]), Some(Split::ValidSeen));
    assert_eq!(Split::of("elsewhere/b/trial"), None);
}

#[test]
fn a_collection_that_is_none_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("games.tar.xz");
    let refused = || visit_games(&archive, |_| true, |_| ()).unwrap_err().to_string();
    let expected = format!("{}: can not be read: ", archive.display());
    assert!(refused().starts_with(&expected));
    fs::write(&archive, "no archive at all").unwrap();
    assert!(refused().starts_with(&expected));
}
