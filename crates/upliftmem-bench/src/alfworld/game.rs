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
