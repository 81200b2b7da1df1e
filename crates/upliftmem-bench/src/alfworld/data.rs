//! The published collection of games: its splits, and reading it from a folder or an archive.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::error::LoadError;
use super::game::Game;

const GAME_FILE: &str = "game.tw-pddl";

/// The official splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Split {
    /// Games to learn from.
    Train,
    /// Unknown tasks in known rooms.
    ValidSeen,
    /// A sample of training tasks.
    ValidTrain,
    /// Unknown tasks in unknown rooms.
    ValidUnseen,
}

impl Split {
    /// All splits, in the order of their folders' names.
    pub const ALL: [Self; 4] = [Self::Train, Self::ValidSeen, Self::ValidTrain, Self::ValidUnseen];

    /// The folder of the split.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::ValidSeen => "valid_seen",
            Self::ValidTrain => "valid_train",
            Self::ValidUnseen => "valid_unseen",
        }
    }

    /// How many games the official release has in it.
    #[must_use]
    pub fn official_count(self) -> usize {
        match self {
            Self::Train => 3553,
            Self::ValidSeen => 140,
            Self::ValidTrain => 200,
            Self::ValidUnseen => 134,
        }
    }

    /// The split of a game named `split/task/trial`.
    #[must_use]
    pub fn of(game_name: &str) -> Option<Self> {
        let folder = game_name.split('/').next()?;
        Self::ALL.into_iter().find(|split| split.folder() == folder)
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.folder())
    }
}

/// Reads every game whose name `wanted` accepts from a folder or a `.tar.xz` archive and hands it to `visit`.
///
/// A game's name is its path within the collection, `split/task/trial`. A folder is read in the order of the names, an
/// archive in its own order: it is read once from front to end, since one unpacked is some hundred megabytes.
///
/// # Errors
/// The first thing that can not be read; `visit` has had what came before it.
pub fn visit_games(
    collection: &Path,
    mut wanted: impl FnMut(&str) -> bool,
    mut visit: impl FnMut(Game),
) -> Result<(), LoadError> {
    if !collection.is_dir() {
        return visit_archive(collection, &mut wanted, &mut visit);
    }
    let mut files = Vec::new();
    find_files(collection, &mut files)?;
    for file in files {
        let name = game_name(file.strip_prefix(collection).unwrap_or(&file));
        if wanted(&name) {
            let shown = file.display().to_string();
            let json = fs::read(&file).map_err(unreadable(&shown))?;
            visit(Game::from_json(&name, &shown, &json)?);
        }
    }
    Ok(())
}

/// All game files below a folder, ascending.
fn find_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), LoadError> {
    let shown = folder.display().to_string();
    let entries: io::Result<Vec<_>> = fs::read_dir(folder).map_err(unreadable(&shown))?.collect();
    let mut entries = entries.map_err(unreadable(&shown))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        // A link is not followed: it could lead in a circle.
        if entry.file_type().map_err(unreadable(&shown))?.is_dir() {
            find_files(&entry.path(), files)?;
        } else if entry.file_name() == GAME_FILE {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn visit_archive(
    archive: &Path,
    wanted: &mut impl FnMut(&str) -> bool,
    visit: &mut impl FnMut(Game),
) -> Result<(), LoadError> {
    let shown = archive.display().to_string();
    let file = File::open(archive).map_err(unreadable(&shown))?;
    let mut archive = tar::Archive::new(lzma_rust2::XzReader::new(BufReader::new(file), true));
    let mut json = Vec::new();
    for entry in archive.entries().map_err(unreadable(&shown))? {
        let mut entry = entry.map_err(unreadable(&shown))?;
        let path = entry.path().map_err(unreadable(&shown))?.into_owned();
        if path.file_name().is_none_or(|file| file != GAME_FILE) {
            continue;
        }
        let name = game_name(&path);
        if wanted(&name) {
            json.clear();
            entry.read_to_end(&mut json).map_err(unreadable(&shown))?;
            visit(Game::from_json(
                &name,
                &format!("{shown}: {}", path.display()),
                &json,
            )?);
        }
    }
    Ok(())
}

/// `./split/task/trial/game.tw-pddl` as `split/task/trial`, on every system.
fn game_name(file: &Path) -> String {
    let folders = file.parent().unwrap_or(file).components();
    let parts: Vec<_> = folders
        .map(|part| part.as_os_str().to_string_lossy())
        .filter(|part| part != ".")
        .collect();
    parts.join("/")
}

fn unreadable(file: &str) -> impl Fn(io::Error) -> LoadError + '_ {
    move |source| LoadError::Read {
        file: file.to_owned(),
        source,
    }
}
