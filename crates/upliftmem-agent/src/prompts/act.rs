//! Acting in a text world. Paper: E1, E2.

use serde::{Deserialize, Serialize};

use super::{InjectedMemories, PublicTask, PublicTurn, template::Template};
use crate::chat::{ChatMessage, spoken};

const E1_SYSTEM: Template = Template(include_str!("../../prompts/e1_system.txt"));
const E1_USER: Template = Template(include_str!("../../prompts/e1_user.txt"));
const E1_OBSERVATION: Template = Template(include_str!("../../prompts/e1_observation.txt"));
const E2_SYSTEM: Template = Template(include_str!("../../prompts/e2_system.txt"));
const E2_USER: Template = Template(include_str!("../../prompts/e2_user.txt"));
const ACT_SYSTEM: Template = Template(include_str!("../../prompts/generic_act_system.txt"));
const ACT_USER: Template = Template(include_str!("../../prompts/generic_act_user.txt"));
const ACT_OBSERVATION: Template = Template(include_str!("../../prompts/generic_act_observation.txt"));

/// How an agent is told about its world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActStyle {
    /// A household. Paper: E1.
    Alfworld,
    /// A shop. Paper: E2.
    Webshop,
    /// Any world.
    Generic,
}

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenStep {
    /// What the agent said.
    pub reply: String,
    /// What was done, or was to be done; empty if the reply held no action.
    pub action: String,
    /// What the world showed then.
    pub turn: PublicTurn,
}

/// An episode so far.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// What is to be done.
    pub task: &'a PublicTask,
    /// What is remembered.
    pub memories: &'a InjectedMemories,
    /// Examples of the same kind of task, the same with and without memories.
    pub examples: Option<&'a str>,
    /// What the world showed first.
    pub first: &'a PublicTurn,
    /// What was done since.
    pub steps: &'a [TakenStep],
}

impl ActStyle {
    /// The conversation whose next message is the next action.
    pub fn messages(self, scene: Scene<'_>) -> Vec<ChatMessage> {
        match self {
            Self::Webshop => vec![
                ChatMessage::system(E2_SYSTEM.fill(&[])),
                ChatMessage::user(shop_page(scene)),
            ],
            Self::Alfworld => transcript(scene, E1_SYSTEM, E1_USER, E1_OBSERVATION),
            Self::Generic => transcript(scene, ACT_SYSTEM, ACT_USER, ACT_OBSERVATION),
        }
    }

    /// The action in a reply; `None` if it holds none.
    pub fn action(self, reply: &str) -> Option<String> {
        let spoken = spoken(reply);
        let lines = || spoken.lines().map(str::trim).filter(|line| !line.is_empty());
        let named = lines().find_map(|line| strip_prefix_ignoring_case(line, "action:"));
        let line = match self {
            Self::Webshop => named.or_else(|| {
                lines().find(|line| {
                    ["search[", "click["]
                        .iter()
                        .any(|start| strip_prefix_ignoring_case(line, start).is_some())
                })
            }),
            Self::Alfworld | Self::Generic => named.or_else(|| lines().next()),
        }?;
        let action = line.trim_start_matches('>').trim().trim_matches('`').trim();
        (!action.is_empty()).then(|| action.to_owned())
    }
}

/// One message for the task, then one for each action and for what the world showed.
fn transcript(scene: Scene<'_>, system: Template, user: Template, observation: Template) -> Vec<ChatMessage> {
    let (first, context) = (scene.first.observation(), scene.task.context());
    let task = if first.contains(context) || context.is_empty() {
        first.to_owned()
    } else if first.is_empty() {
        context.to_owned()
    } else {
        format!("{context}\n{first}")
    };
    let mut messages = vec![
        ChatMessage::system(system.fill(&[])),
        ChatMessage::user(user.fill(&[
            ("example_texts", scene.examples),
            ("memories", scene.memories.numbered().as_deref()),
            ("task_description", Some(task.as_str())),
            ("commands", commands(scene.first).as_deref()),
        ])),
    ];
    for step in scene.steps {
        let seen = observation.fill(&[
            ("observation", Some(step.turn.observation())),
            ("commands", commands(&step.turn).as_deref()),
        ]);
        match messages.last_mut().filter(|_| step.action.is_empty()) {
            // Endpoints refuse empty messages, and templates two of the same role: the world goes on where it was.
            Some(last) => {
                last.content.push('\n');
                last.content.push_str(&seen);
            }
            None => {
                messages.push(ChatMessage::assistant(step.action.clone()));
                messages.push(ChatMessage::user(seen));
            }
        }
    }
    messages
}

fn commands(turn: &PublicTurn) -> Option<String> {
    turn.actions().map(|actions| actions.join("; "))
}

/// A shop is shown page by page, with what was done before.
fn shop_page(scene: Scene<'_>) -> String {
    let now = scene.steps.last().map_or(scene.first, |step| &step.turn);
    let history: Vec<&str> = scene
        .steps
        .iter()
        .map(|step| step.action.as_str())
        .filter(|action| !action.is_empty())
        .collect();
    let history = if history.is_empty() {
        "none".to_owned()
    } else {
        history.join("\n")
    };
    E2_USER.fill(&[
        ("instruction_text", Some(scene.task.context())),
        ("memory_block", scene.memories.numbered().as_deref()),
        ("history_block", Some(history.as_str())),
        ("observation_text", Some(now.observation())),
        (
            "available_actions_text",
            now.actions().map(|actions| actions.join("\n")).as_deref(),
        ),
    ])
}

fn strip_prefix_ignoring_case<'a>(line: &'a str, prefix: &str) -> Option<&'a str> {
    let head = line.get(..prefix.len())?;
    // A named action is what follows; a shop's action keeps its verb.
    head.eq_ignore_ascii_case(prefix).then(|| {
        if prefix.ends_with('[') {
            line
        } else {
            line[prefix.len()..].trim()
        }
    })
}
