//! The native ALFWorld against recordings of the official one.
//!
//! Needs the data: a folder `UPLIFTMEM_BENCH_DIR` with `alfworld/games.tar.xz` (or the unpacked splits in `alfworld/`) and
//! `alfworld/transcripts.jsonl.gz`. Without it these tests say so and stop.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde::Deserialize;
use upliftmem_bench::alfworld::{Game, Split, TaskKind, visit_games};

#[derive(Deserialize)]
struct Recording {
    game: String,
    mode: String,
    steps: Vec<RecordedStep>,
}

#[derive(Deserialize)]
struct RecordedStep {
    cmd: Option<String>,
    obs: String,
    adm: Vec<String>,
    #[serde(default)]
    won: bool,
    #[serde(default)]
    done: bool,
}

fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("UPLIFTMEM_BENCH_DIR").map(|data| PathBuf::from(data).join("alfworld"));
    let folder = folder.filter(|folder| folder.is_dir());
    if folder.is_none() {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("skipped: UPLIFTMEM_BENCH_DIR does not name a folder with `alfworld` in it");
        }
    }
    folder
}

fn games(folder: &Path) -> PathBuf {
    let archive = folder.join("games.tar.xz");
    if archive.is_file() {
        archive
    } else {
        folder.to_owned()
    }
}

fn recordings(folder: &Path) -> BTreeMap<String, Vec<Recording>> {
    let file = File::open(folder.join("transcripts.jsonl.gz")).unwrap();
    let mut by_game: BTreeMap<String, Vec<Recording>> = BTreeMap::new();
    for line in BufReader::new(flate2::read::MultiGzDecoder::new(file)).lines() {
        let recording: Recording = serde_json::from_str(&line.unwrap()).unwrap();
        by_game.entry(recording.game.clone()).or_default().push(recording);
    }
    by_game
}

/// Plays what was recorded; gives the differences, one text a step, and the number of steps.
fn replay(game: &Game, recording: &Recording) -> (Vec<String>, usize) {
    let mut episode = game.start();
    let mut differences = Vec::new();
    for (number, expected) in recording.steps.iter().enumerate() {
        let step = match &expected.cmd {
            None => episode.opening(),
            Some(command) => episode.step(command),
        };
        let is_equal = step.observation == expected.obs
            && step.admissible == expected.adm
            && (step.won, step.done) == (expected.won, expected.done);
        if !is_equal {
            let (game, mode, cmd) = (&recording.game, &recording.mode, &expected.cmd);
            differences.push(format!(
                "{game} ({mode}) step {number} {cmd:?}\n  expected {:?} won {} {:?}\n  found    {:?} won {} {:?}",
                expected.obs, expected.won, expected.adm, step.observation, step.won, step.admissible
            ));
        }
    }
    (differences, recording.steps.len())
}

#[test]
fn every_recorded_step_is_equal() {
    let Some(folder) = data() else { return };
    let recordings = recordings(&folder);
    let (mut differences, mut episodes, mut steps) = (Vec::new(), 0, 0);
    let wanted = |name: &str| recordings.contains_key(name);
    visit_games(&games(&folder), wanted, |game| {
        for recording in &recordings[game.name()] {
            let (found, count) = replay(&game, recording);
            differences.extend(found);
            steps += count;
            episodes += 1;
        }
    })
    .unwrap();
    let shown = differences
        .iter()
        .take(10)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        differences.is_empty(),
        "{} of {steps} steps differ:\n{shown}",
        differences.len()
    );
    assert_eq!((episodes, steps), (124, 2028));
}

#[test]
fn every_walkthrough_wins_and_all_games_are_there() {
    let Some(folder) = data() else { return };
    let mut splits: BTreeMap<Split, usize> = BTreeMap::new();
    let mut kinds: BTreeMap<TaskKind, usize> = BTreeMap::new();
    visit_games(
        &games(&folder),
        |_| true,
        |game| {
            let mut episode = game.start();
            let (last, before) = game.walkthrough().split_last().unwrap();
            for command in before {
                assert!(
                    !episode.step(command).done,
                    "{}: over before the end, at {command:?}",
                    game.name()
                );
            }
            let end = episode.step(last);
            assert!(
                end.won && end.done,
                "{}: not won: {}",
                game.name(),
                end.observation
            );
            let folder = game.name().split('/').nth(1).unwrap();
            assert!(
                folder.starts_with(game.task_kind().official_name()),
                "{}",
                game.name()
            );
            *splits.entry(Split::of(game.name()).unwrap()).or_default() += 1;
            *kinds.entry(game.task_kind()).or_default() += 1;
        },
    )
    .unwrap();
    let official = Split::ALL.map(|split| (split, split.official_count()));
    assert_eq!(splits, BTreeMap::from(official));
    let counts = TaskKind::ALL.map(|kind| kinds[&kind]);
    assert_eq!(counts, [895, 745, 523, 607, 899, 358]);
}

/// The bytes of one official game.
fn official_file(folder: &Path) -> Vec<u8> {
    let archive = games(folder);
    let mut json = Vec::new();
    if archive.is_dir() {
        let mut place = archive.join("valid_seen");
        while place.is_dir() {
            let mut inside: Vec<_> = fs::read_dir(&place)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            inside.sort();
            place = inside
                .into_iter()
                .find(|path| path.is_dir() || path.ends_with("game.tw-pddl"))
                .unwrap();
        }
        return fs::read(place).unwrap();
    }
    let reader = lzma_rust2::XzReader::new(BufReader::new(File::open(archive).unwrap()), true);
    let mut archive = tar::Archive::new(reader);
    let mut entries = archive.entries().unwrap().map(Result::unwrap);
    let mut game = entries
        .find(|entry| entry.path().unwrap().ends_with("game.tw-pddl"))
        .unwrap();
    game.read_to_end(&mut json).unwrap();
    json
}

/// A whole official file with a few bytes changed and a piece cut out: it plays, or the error names file and place.
#[test]
fn mutated_official_files_never_panic() {
    let Some(folder) = data() else { return };
    let json = official_file(&folder);
    let mutation = (
        any::<prop::sample::Index>(),
        0_usize..60,
        prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    );
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(300)
    };
    let accepted = Cell::new(0);
    proptest!(config, |((start, length, places) in mutation, byte in any::<u8>())| {
        let mut json = json.clone();
        let start = start.index(json.len());
        json.drain(start..(start + length).min(json.len()));
        for place in places {
            let place = place.index(json.len());
            json[place] = byte;
        }
        match Game::from_json("mutated", "mutated.tw-pddl", &json) {
            Ok(game) => {
                accepted.set(accepted.get() + 1);
                let mut episode = game.start();
                for command in game.walkthrough() {
                    episode.step(command);
                }
            }
            Err(error) => prop_assert!(error.to_string().starts_with("mutated.tw-pddl: "), "{error}"),
        }
    });
    assert!(accepted.get() < 300, "no mutation was noticed");
}
