//! Distilling: what of a conversation is worth knowing later, a sentence each.
//!
//! Nothing here decides whether a note helps: it is a memory like any other, and outcomes decide.

use std::{fmt, sync::Arc};

use crate::{
    WriterError,
    chat::{ChatModel, ChatRequest, Finish, Sampling, Usage, spoken},
    prompts::distil_messages,
};

/// Characters of a conversation that are read at once; longer ones are read in pieces.
const PIECE_CHARS: usize = 8_000;
/// Most notes of a piece: a model that repeats itself does not fill a store.
const NOTES_MAX: usize = 16;
/// Most characters of a note; what is longer is no sentence.
const NOTE_CHARS_MAX: usize = 600;
/// Tokens for the notes of a piece.
const NOTES_TOKENS: usize = 512;

/// One thing that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Who said it: `user`, `assistant`, a name.
    pub role: String,
    /// What was said.
    pub text: String,
}

/// A conversation as one text: a turn begins at the margin, its further lines do not.
pub fn conversation(said: &[Said]) -> String {
    let turns: Vec<String> = said
        .iter()
        .map(|said| {
            format!(
                "{}: {}",
                said.role.replace(['\n', '\r'], " "),
                said.text.replace('\n', "\n  ")
            )
        })
        .collect();
    turns.join("\n")
}

/// Asks a language model for notes.
pub struct Distiller {
    model: Arc<dyn ChatModel>,
    sampling: Sampling,
}

impl fmt::Debug for Distiller {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Distiller")
            .field("model", &self.model.name())
            .finish_non_exhaustive()
    }
}

impl Distiller {
    /// Notes by this model, at this temperature.
    pub fn new(model: Arc<dyn ChatModel>, temperature: f64) -> Self {
        let sampling = Sampling {
            temperature,
            max_tokens: NOTES_TOKENS,
            ..Sampling::default()
        };
        Self { model, sampling }
    }

    /// The model that is asked.
    pub fn name(&self) -> &str {
        self.model.name()
    }

    /// What is worth keeping of a conversation, each note once; none may be.
    pub async fn notes(&self, conversation: &str) -> Result<Vec<String>, WriterError> {
        let (mut notes, mut usage) = (Vec::<String>::new(), Usage::default());
        for piece in pieces(conversation) {
            let request = ChatRequest {
                messages: distil_messages(piece),
                sampling: self.sampling.clone(),
            };
            let reply = self.model.chat(&request).await?;
            usage += reply.usage;
            let read = read_notes(spoken(&reply.text), reply.finish).map_err(|problem| {
                let said = crate::text::excerpt(reply.text.as_bytes());
                WriterError::Malformed { problem, said, usage }
            })?;
            for note in read {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        Ok(notes)
    }
}

/// Parts of a conversation that can be read at once, cut between turns where there is a place to.
fn pieces(conversation: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = conversation;
    while let Some((end, _)) = rest.char_indices().nth(PIECE_CHARS) {
        // Before the last turn that begins within it; else before its last line; else anywhere.
        let within = &rest[..end];
        let turn = within
            .match_indices('\n')
            .map(|(at, _)| at)
            .rfind(|&at| !rest[at + 1..].starts_with(' '));
        let cut = turn
            .or_else(|| within.rfind('\n'))
            .filter(|&at| at > 0)
            .unwrap_or(end);
        pieces.push(&rest[..cut]);
        rest = rest[cut..].trim_start_matches('\n');
    }
    if !rest.trim().is_empty() {
        pieces.push(rest);
    }
    pieces
}

/// The notes of an answer, or what is wrong with it.
fn read_notes(answer: &str, finish: Finish) -> Result<Vec<String>, String> {
    let mut notes: Vec<String> = Vec::new();
    for line in answer.lines() {
        if let Some(note) = bullet(line.trim_start()) {
            notes.push(note.trim().to_owned());
        } else if let Some(last) = notes.last_mut()
            && line.starts_with(char::is_whitespace)
            && !line.trim().is_empty()
        {
            last.push(' ');
            last.push_str(line.trim());
        }
    }
    if notes.is_empty() {
        let nothing = answer.trim().trim_end_matches('.');
        return if nothing.eq_ignore_ascii_case("none") {
            Ok(notes)
        } else {
            Err("no line begins with \"- \"".into())
        };
    }
    // The last one was not finished.
    if finish == Finish::Length {
        notes.pop();
    }
    notes.retain(|note| {
        let length = note.chars().count();
        (1..=NOTE_CHARS_MAX).contains(&length) && !note.trim_end_matches('.').eq_ignore_ascii_case("none")
    });
    notes.truncate(NOTES_MAX);
    Ok(notes)
}

/// What stands behind a mark of a list.
fn bullet(line: &str) -> Option<&str> {
    if let Some(rest) = ["- ", "* ", "\u{2022} "]
        .iter()
        .find_map(|mark| line.strip_prefix(mark))
    {
        return Some(rest);
    }
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = &line[digits..];
    (1..=2)
        .contains(&digits)
        .then(|| rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") ")))
        .flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(answer: &str) -> Vec<String> {
        read_notes(answer, Finish::Stop).unwrap()
    }

    #[test]
    fn notes_are_the_lines_of_a_list() {
        let answer = "Here are the notes:\n- Ana is allergic to nuts.\n* The van is at gate 4,\n  behind the hall.\n2) Ask Bo first.\nBye!";
        assert_eq!(
            read(answer),
            [
                "Ana is allergic to nuts.",
                "The van is at gate 4, behind the hall.",
                "Ask Bo first."
            ]
        );
    }

    #[test]
    fn nothing_may_be_worth_keeping_but_it_must_be_said() {
        assert!(read(" NONE.\n").is_empty());
        assert!(read("- None").is_empty());
        assert!(read_notes("I have read it all.", Finish::Stop).is_err());
        assert!(read_notes("", Finish::Length).is_err());
    }

    #[test]
    fn a_note_that_was_cut_off_is_not_kept() {
        let notes = read_notes("- Ana is allergic to nuts.\n- The door code is 4", Finish::Length).unwrap();
        assert_eq!(notes, ["Ana is allergic to nuts."]);
    }

    #[test]
    fn what_is_too_long_or_too_much_is_left_out() {
        let long = format!("- {}\n- Short.", "x".repeat(NOTE_CHARS_MAX + 1));
        assert_eq!(read(&long), ["Short."]);
        let many: String = (0..99).map(|at| format!("- Note {at}.\n")).collect();
        assert_eq!(read(&many).len(), NOTES_MAX);
    }

    #[test]
    fn a_turn_begins_at_the_margin() {
        let said = [("user", "one\ntwo"), ("a\nb", "three")].map(|(role, text)| Said {
            role: role.into(),
            text: text.into(),
        });
        assert_eq!(conversation(&said), "user: one\n  two\na b: three");
    }

    #[test]
    fn long_conversations_are_cut_between_turns() {
        let turn = format!("user: {}\n  more", "y".repeat(5_000));
        let text = [turn.as_str(); 3].join("\n");
        let cut = pieces(&text);
        assert_eq!(cut.len(), 3);
        assert!(cut.iter().all(|piece| *piece == turn), "{cut:?}");
    }

    proptest! {
        #[test]
        fn pieces_lose_nothing_and_are_bounded(text in "[a\u{e9} \n]{0,30000}") {
            let cut = pieces(&text);
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
            prop_assert_eq!(cut.iter().map(|piece| letters(piece)).sum::<usize>(), letters(&text));
            prop_assert!(cut.iter().all(|piece| piece.chars().count() <= PIECE_CHARS));
        }
    }
}
