//! The worked examples of prompt E1: the transcripts that ReAct's authors published, where they are beside the games.

use std::{collections::BTreeMap, fs, io, path::Path};

use crate::alfworld::LoadError;

/// The file with the transcripts, beside the games.
const FILE: &str = "react_examples.json";

/// How a game's name begins, and what the transcripts call such tasks.
const KINDS: [(&str, &str); 6] = [
    ("pick_and_place", "put"),
    ("pick_clean_then_place", "clean"),
    ("pick_heat_then_place", "heat"),
    ("pick_cool_then_place", "cool"),
    ("look_at_obj", "examine"),
    ("pick_two_obj", "puttwo"),
];

/// The kind of a game, by its name.
pub(super) fn kind_of(game: &str) -> Option<&'static str> {
    let play = super::play_of(game);
    KINDS
        .iter()
        .find(|(prefix, _)| play.starts_with(prefix))
        .map(|&(_, kind)| kind)
}

/// Two examples for each kind of task, without thoughts, since E1 asks for commands alone; none if there is no file.
pub(super) fn read(collection: &Path) -> Result<BTreeMap<String, String>, LoadError> {
    let folder = if collection.is_dir() {
        Some(collection)
    } else {
        collection.parent()
    };
    let Some(file) = folder.map(|folder| folder.join(FILE)) else {
        return Ok(BTreeMap::new());
    };
    let name = || file.display().to_string();
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(source) => return Err(LoadError::Read { file: name(), source }),
    };
    let transcripts: BTreeMap<String, String> =
        serde_json::from_str(&text).map_err(|source| LoadError::Json { file: name(), source })?;
    let two = KINDS.iter().filter_map(|(_, kind)| {
        let one = |number: u8| transcripts.get(&format!("act_{kind}_{number}"));
        let texts = [one(1)?, one(0)?].map(|text| as_played(text));
        Some(((*kind).to_owned(), texts.join("\n\n")))
    });
    Ok(two.collect())
}

/// The transcripts say `put X in/on Y` where the games say `move X to Y`.
fn as_played(transcript: &str) -> String {
    let lines = transcript.trim().lines().map(|line| {
        for (from, to) in [("> put ", "> move "), ("You put the ", "You move the ")] {
            let rest = line.strip_prefix(from);
            if let Some((what, place)) = rest.and_then(|rest| rest.split_once(" in/on ")) {
                return format!("{to}{what} to {place}");
            }
        }
        line.to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_from_names() {
        let kind = |name: &str| kind_of(&format!("train/{name}-Mug-None-Desk-308/trial_1"));
        assert_eq!(kind("pick_and_place_simple"), Some("put"));
        assert_eq!(kind("pick_two_obj_and_place"), Some("puttwo"));
        assert_eq!(kind("look_at_obj_in_light"), Some("examine"));
        assert_eq!(kind("dance"), None);
    }

    #[test]
    fn examples_speak_as_the_games_do() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap().is_empty());
        let told = "Your task is to: put some mug on desk.\n> put mug 1 in/on desk 1\nYou put the mug 1 in/on the desk 1.\n";
        let file = serde_json::json!({"act_put_0": told, "act_put_1": "> look\n", "act_heat_0": told});
        fs::write(folder.path().join(FILE), file.to_string()).unwrap();
        let read = read(folder.path()).unwrap();
        assert_eq!(read.len(), 1, "a kind with one example has too few: {read:?}");
        assert_eq!(
            read["put"],
            "> look\n\nYour task is to: put some mug on desk.\n> move mug 1 to desk 1\nYou move the mug 1 to the desk 1."
        );
        fs::write(folder.path().join(FILE), "{").unwrap();
        assert!(super::read(folder.path()).unwrap_err().to_string().contains(FILE));
    }
}
