//! From a conversation to notes.

use super::{
    fence::{indented, plain},
    template::Template,
};
use crate::chat::ChatMessage;

const DISTIL_SYSTEM: Template = Template(include_str!("../../prompts/distil_system.txt"));
const DISTIL_USER: Template = Template(include_str!("../../prompts/distil_user.txt"));

/// The conversation whose next message is what is worth keeping of another one.
pub fn distil_messages(conversation: &str) -> Vec<ChatMessage> {
    let conversation = indented(&plain(conversation), true);
    vec![
        ChatMessage::system(DISTIL_SYSTEM.fill(&[])),
        ChatMessage::user(DISTIL_USER.fill(&[("conversation", Some(conversation.as_str()))])),
    ]
}
