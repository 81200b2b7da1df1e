//! The steps that memory systems ask a language model for.
//!
//! Every question and its answer are a line of a file: the record of what the model did, and the reason why nothing is asked
//! twice. An answer that has not the form that was asked for does nothing but stand there as unused: the system's rule, which it
//! has for the case that there is no model, does the step.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use upliftmem_agent::{
    chat::{ChatError, ChatMessage, ChatModel, ChatRequest, Sampling, spoken},
    prompts::{Field, Template, plain},
    transcript,
};

use crate::{
    protocol::{Error, Result},
    suite::Experience,
};

const SYSTEM: Template = Template(include_str!("../../prompts/steps_system.txt"));
const EXTRACT: Template = Template(include_str!("../../prompts/extract.txt"));
/// Characters of an experience that a model reads.
const EXPERIENCE_CHARS: usize = 4_000;
/// Facts of one experience.
const FACTS_MAX: usize = 6;
/// Characters of a text that a model may write.
const TEXT_MAX: usize = 1_200;
/// Tokens of an answer.
const ANSWER_TOKENS: usize = 320;

/// A language model that does steps of memory systems.
pub struct Steps {
    model: Arc<dyn ChatModel>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Answers by what was asked.
    known: BTreeMap<String, String>,
    file: Option<File>,
    counts: StepCounts,
}

/// What became of the questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepCounts {
    /// Steps that the model did.
    pub used: u64,
    /// Steps that the rule did because the model's answer was none.
    pub unused: u64,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    step: String,
    asked: String,
    /// None if the model could not answer: it is asked again.
    said: Option<String>,
    used: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Steps {
    /// A model, and the file of what it was asked; a line that was being written when a run ended is dropped.
    ///
    /// # Errors
    /// The file can not be read, or is another.
    pub fn new(model: Arc<dyn ChatModel>, kept: Option<&Path>) -> io::Result<Self> {
        let mut state = State::default();
        if let Some(path) = kept {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let mut file = OpenOptions::new()
                .create(true)
                .read(true)
                .append(true)
                .open(path)?;
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            let whole = text
                .iter()
                .rposition(|&byte| byte == b'\n')
                .map_or(0, |end| end + 1);
            file.set_len(whole as u64)?;
            for line in text[..whole]
                .split(|&byte| byte == b'\n')
                .filter(|line| !line.is_empty())
            {
                let line: Line = serde_json::from_slice(line).map_err(|error| {
                    let what = format!(
                        "{}: a line is no step: {error}; remove the file to begin anew",
                        path.display()
                    );
                    io::Error::new(io::ErrorKind::InvalidData, what)
                })?;
                if let Some(said) = line.said {
                    state.known.insert(line.asked, said);
                }
            }
            state.file = Some(file);
        }
        Ok(Self {
            model,
            state: Mutex::new(state),
        })
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        self.model.name()
    }

    /// What became of the questions so far.
    pub fn counts(&self) -> StepCounts {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).counts
    }

    /// Asks for a step. None if the answer is not one that `read` takes, or there is none: then the rule does the step.
    pub(super) async fn ask<T>(
        &self,
        step: &str,
        template: Template,
        fields: &[Field<'_>],
        read: impl Fn(&str) -> Option<T> + Send,
    ) -> Result<Option<T>> {
        let user = template.fill(fields);
        let mut hash = Sha256::new();
        for text in [self.model.name(), step, &user] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        let asked: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let known = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.known.get(&asked).cloned()
        };
        if let Some(said) = known {
            let answer = read(spoken(&said));
            self.count(answer.is_some());
            return Ok(answer);
        }
        let request = ChatRequest {
            messages: vec![ChatMessage::system(SYSTEM.fill(&[])), ChatMessage::user(user)],
            sampling: Sampling {
                max_tokens: ANSWER_TOKENS,
                ..Sampling::default()
            },
        };
        let (said, problem) = match self.model.chat(&request).await {
            Ok(reply) => (Some(reply.text), None),
            Err(ChatError::Failed(problem) | ChatError::TooLong(problem)) => (None, Some(problem)),
            Err(error) => return Err(Error::Execution(error.to_string())),
        };
        let answer = said.as_deref().and_then(|said| read(spoken(said)));
        self.count(answer.is_some());
        self.keep(Line {
            step: step.to_owned(),
            asked,
            said,
            used: answer.is_some(),
            problem,
        })?;
        Ok(answer)
    }

    fn count(&self, is_used: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.counts.used += u64::from(is_used);
        state.counts.unused += u64::from(!is_used);
    }

    fn keep(&self, line: Line) -> Result<()> {
        let failed =
            |error: &dyn std::fmt::Display| Error::Execution(format!("a step can not be kept: {error}"));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &mut state.file {
            let mut text = serde_json::to_vec(&line).map_err(|error| failed(&error))?;
            text.push(b'\n');
            file.write_all(&text).map_err(|error| failed(&error))?;
        }
        if let Some(said) = line.said {
            state.known.insert(line.asked, said);
        }
        Ok(())
    }

    /// What an experience is worth remembering for, in sentences.
    pub(super) async fn facts(&self, system: &str, experience: &Experience) -> Result<Option<Vec<String>>> {
        #[derive(Deserialize)]
        struct Facts {
            facts: Vec<String>,
        }
        let (told, most) = (told(experience), FACTS_MAX.to_string());
        let fields = [("experience", Some(told.as_str())), ("most", Some(most.as_str()))];
        let read = |said: &str| {
            let facts = json_in::<Facts>(said)?.facts;
            let facts: Option<Vec<String>> = facts.iter().map(|fact| text_in(fact)).collect();
            facts.filter(|facts| facts.len() <= FACTS_MAX)
        };
        self.ask(&format!("{system}-extract"), EXTRACT, &fields, read)
            .await
    }
}

/// An experience as a model reads it: what was to be done, what was done, how it ended. Indented, so that nothing in it looks
/// like the prompt around it.
pub(super) fn told(experience: &Experience) -> String {
    let context = plain(&experience.task.context);
    let trajectory = &experience.execution.trajectory;
    if trajectory.is_empty() {
        return indented(&context);
    }
    let steps = plain(&transcript(trajectory, EXPERIENCE_CHARS));
    let end = if experience.succeeded() {
        "It was solved."
    } else {
        "It was not solved."
    };
    indented(&format!("{context}\n{steps}\n{end}"))
}

/// Lines that begin two columns in.
pub(super) fn indented(text: &str) -> String {
    format!("  {}", plain(text).replace('\n', "\n  "))
}

/// `[1] text`, one a line.
pub(super) fn numbered<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let lines = (1..)
        .zip(texts)
        .map(|(number, text)| format!("[{number}] {}", plain(text).replace('\n', "\n  ")));
    lines.collect::<Vec<_>>().join("\n")
}

/// A text that can be kept: something, and not too much.
pub(super) fn text_in(said: &str) -> Option<String> {
    let text = plain(said);
    let text = text.trim();
    (!text.is_empty() && text.chars().count() <= TEXT_MAX).then(|| text.to_owned())
}

/// The first JSON object of an answer that has the form.
pub(super) fn json_in<T: DeserializeOwned>(said: &str) -> Option<T> {
    let mut starts = said.match_indices('{').map(|(at, _)| at);
    starts.find_map(|start| {
        let mut values = serde_json::Deserializer::from_str(&said[start..]).into_iter::<T>();
        values.next()?.ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_what_is_none_is_not() {
        assert_eq!(json_in::<Vec<u8>>("[1]"), None);
        let found: Option<BTreeMap<String, u8>> = json_in("Sure {x} ```{\"a\": 1}``` {\"b\": 2}");
        assert_eq!(found, Some(BTreeMap::from([("a".to_owned(), 1)])));
        assert_eq!(text_in("  yes.\u{200b}\n"), Some("yes.".to_owned()));
        assert_eq!(text_in(" \n "), None);
        assert_eq!(text_in(&"x".repeat(TEXT_MAX + 1)), None);
    }

    #[test]
    fn material_stays_within_its_heading() {
        assert_eq!(indented("a\nAnswer:"), "  a\n  Answer:");
        assert_eq!(numbered(["a\nb", "c"].into_iter()), "[1] a\n  b\n[2] c");
    }
}
