//! How fast the native ALFWorld plays: `cargo bench -p upliftmem-bench --bench alfworld`.
//!
//! Plays the games of the two unseen-task splits, from the folder `UPLIFTMEM_BENCH_DIR` (see `tests/alfworld.rs`): each
//! game's walkthrough, and random admissible commands. An item is one step: text, admissible commands and verdict.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::path::PathBuf;
use std::sync::LazyLock;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use upliftmem_bench::alfworld::{Game, Split, visit_games};

const RANDOM_STEPS: usize = 50;

static FOLDER: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let folder = PathBuf::from(std::env::var_os("UPLIFTMEM_BENCH_DIR")?).join("alfworld");
    folder.is_dir().then_some(folder)
});

/// Games of unknown tasks: 274 in the official release.
static GAMES: LazyLock<Vec<Game>> = LazyLock::new(|| {
    let mut games = Vec::new();
    if let Some(folder) = FOLDER.as_ref() {
        let archive = folder.join("games.tar.xz");
        let collection = if archive.is_file() { &archive } else { folder };
        let wanted = |name: &str| matches!(Split::of(name), Some(Split::ValidSeen | Split::ValidUnseen));
        visit_games(collection, wanted, |game| games.push(game)).unwrap();
    }
    games
});

fn main() {
    if GAMES.is_empty() {
        eprintln!("skipped: UPLIFTMEM_BENCH_DIR does not name a folder with the games in `alfworld`");
        return;
    }
    divan::main();
}

#[divan::bench]
fn walkthroughs(bencher: Bencher<'_, '_>) {
    let steps: usize = GAMES.iter().map(|game| game.walkthrough().len()).sum();
    bencher.counter(ItemsCount::new(steps)).bench_local(|| {
        for game in GAMES.iter() {
            let mut episode = game.start();
            for command in game.walkthrough() {
                black_box(episode.step(command));
            }
        }
    });
}

#[divan::bench]
fn random_play(bencher: Bencher<'_, '_>) {
    let steps = GAMES.len() * RANDOM_STEPS;
    bencher.counter(ItemsCount::new(steps)).bench_local(|| {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for game in GAMES.iter() {
            let mut episode = game.start();
            let mut step = episode.opening();
            for _ in 0..RANDOM_STEPS {
                let choice = rng.random_range(0..step.admissible.len());
                step = black_box(episode.step(&step.admissible[choice]));
            }
        }
    });
}
