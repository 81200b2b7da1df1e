//! Text to tokens and back, by a `tokenizer.json` or by what a GGUF file holds.

mod gguf;

use std::path::{Path, PathBuf};

use tokenizers::Tokenizer;

use super::weights::{Weights, problem};
use crate::error::{Result, invalid};

const FILE: &str = "tokenizer.json";

/// The tokenizer of a language model.
#[derive(Debug)]
pub struct LmTokenizer {
    source: PathBuf,
    tokenizer: Tokenizer,
    /// Texts that stand for one token whatever surrounds them, longest first.
    marks: Vec<String>,
    chat_template: Option<String>,
    end: Option<u32>,
}

impl LmTokenizer {
    /// Reads a `tokenizer.json`.
    pub fn from_file(file: &Path) -> Result<Self> {
        let bytes =
            std::fs::read(file).map_err(|error| problem(file, format_args!("can not be read: {error}")))?;
        Self::from_bytes(file, &bytes)
    }

    fn from_bytes(source: &Path, bytes: &[u8]) -> Result<Self> {
        let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(|error| {
            problem(
                source,
                format_args!("is not a tokenizer that is known here: {error}"),
            )
        })?;
        tokenizer.with_padding(None);
        tokenizer
            .with_truncation(None)
            .map_err(|error| problem(source, error))?;
        let mut marks: Vec<String> = tokenizer
            .get_added_tokens_decoder()
            .into_values()
            .map(|token| token.content)
            .collect();
        marks.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        Ok(Self {
            source: source.to_owned(),
            tokenizer,
            marks,
            chat_template: None,
            end: None,
        })
    }

    /// The tokenizer of a model.
    pub(crate) fn load(weights: &Weights) -> Result<Self> {
        match weights {
            Weights::Directory(files) => Self::from_file(&files.directory().join(FILE)),
            Weights::Gguf(file) => {
                let mut tokenizer = Self::from_bytes(file.path(), &gguf::tokenizer_json(file)?)?;
                tokenizer.chat_template = file.text("tokenizer.chat_template").map(str::to_owned);
                tokenizer.end = file
                    .value("tokenizer.ggml.eos_token_id")
                    .and_then(|value| value.to_u32().ok());
                Ok(tokenizer)
            }
        }
    }

    /// Reads the tokenizer of a model without its weights.
    pub fn of_model(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return Self::from_file(&path.join(FILE));
        }
        Self::load(&Weights::open(path)?)
    }

    /// Token ids of a text. Marks such as `<|im_start|>` become their tokens.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self
            .tokenizer
            .encode_fast(text, false)
            .map_err(|error| problem(&self.source, format_args!("a text can not be split: {error}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of tokens. Incomplete characters at the end come out as replacement characters.
    pub fn decode(&self, tokens: &[u32], with_marks: bool) -> Result<String> {
        self.tokenizer
            .decode(tokens, !with_marks)
            .map_err(|error| problem(&self.source, format_args!("tokens can not be joined: {error}")))
    }

    /// The token that a word is by itself.
    pub fn single(&self, word: &str) -> Result<u32> {
        match self.encode(word)?.as_slice() {
            [token] => Ok(*token),
            other => Err(invalid(
                format_args!("word {word:?}"),
                format_args!(
                    "is {} tokens of {}; it must be one",
                    other.len(),
                    self.source.display()
                ),
            )),
        }
    }

    /// The token of a mark, if it has one.
    pub fn mark(&self, text: &str) -> Option<u32> {
        self.tokenizer.token_to_id(text)
    }

    /// The text with every mark broken by a space, so that data can not pose as the structure of a prompt.
    pub fn without_marks(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for mark in &self.marks {
            if !text.contains(mark.as_str()) {
                continue;
            }
            let head = mark.chars().next().map_or(0, char::len_utf8);
            let broken = format!("{} {}", &mark[..head], &mark[head..]);
            text = text.replace(mark.as_str(), &broken);
        }
        text
    }

    /// The chat template that the model came with, if it was in the file.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// The token that ends an answer, if the file says.
    pub const fn end_of_text(&self) -> Option<u32> {
        self.end
    }

    /// One more than the largest id.
    pub fn ids_end(&self) -> usize {
        let largest = self.tokenizer.get_vocab(true).into_values().max();
        largest.map_or(0, |id| id as usize + 1)
    }
}
