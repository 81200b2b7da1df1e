//! Questions and their judge.

use super::{InjectedMemories, PublicTask, fence::plain, template::Template};
use crate::chat::ChatMessage;

const QA_SYSTEM: Template = Template(include_str!("../../prompts/qa_system.txt"));
const QA_USER: Template = Template(include_str!("../../prompts/qa_user.txt"));
const REPLY_SYSTEM: Template = Template(include_str!("../../prompts/reply_system.txt"));
const REPLY_USER: Template = Template(include_str!("../../prompts/reply_user.txt"));
const JUDGE_SYSTEM: Template = Template(include_str!("../../prompts/judge_system.txt"));
const JUDGE_USER: Template = Template(include_str!("../../prompts/judge_user.txt"));

/// The conversation whose next message is the answer.
pub fn question_messages(task: &PublicTask, memories: &InjectedMemories) -> Vec<ChatMessage> {
    vec![
        ChatMessage::system(QA_SYSTEM.fill(&[])),
        ChatMessage::user(QA_USER.fill(&[
            ("memories", memories.numbered().as_deref()),
            ("question", Some(task.context())),
        ])),
    ]
}

/// The conversation whose next message answers a user who was talked with before.
pub fn reply_messages(task: &PublicTask, memories: &InjectedMemories) -> Vec<ChatMessage> {
    vec![
        ChatMessage::system(REPLY_SYSTEM.fill(&[])),
        ChatMessage::user(REPLY_USER.fill(&[
            ("memories", memories.numbered().as_deref()),
            ("question", Some(task.context())),
        ])),
    ]
}

/// What a judge is given. The judge is not the agent: it may know the reference.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// What was asked.
    pub question: &'a PublicTask,
    /// What should have been answered.
    pub reference: &'a str,
    /// What was.
    pub answer: &'a str,
    /// What counts.
    pub rubric: &'a str,
}

/// The conversation whose next message is a score between 0 and 1.
pub fn judge_messages(judged: Judged<'_>) -> Vec<ChatMessage> {
    let answer: String = plain(judged.answer).chars().take(4_000).collect();
    vec![
        ChatMessage::system(JUDGE_SYSTEM.fill(&[])),
        ChatMessage::user(JUDGE_USER.fill(&[
            ("rubric", Some(judged.rubric)),
            ("question", Some(judged.question.context())),
            ("reference", Some(judged.reference)),
            ("answer", Some(super::fence::indented(&answer, true).as_str())),
        ])),
    ]
}
