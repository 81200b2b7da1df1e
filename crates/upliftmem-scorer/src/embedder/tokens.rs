//! Text to token ids, by a `tokenizer.json`.

use std::path::PathBuf;

use serde::Deserialize;
use tokenizers::{ModelWrapper, Tokenizer, TruncationParams};

use super::{ModelDirectory, Result, files::problem};

const FILE: &str = "tokenizer.json";

/// A tokenizer whose padding is off: sequences keep their own lengths.
pub(crate) struct Tokens {
    file: PathBuf,
    tokenizer: Tokenizer,
    /// The unknown token of unigram models, which only the file tells.
    unigram_unknown: Option<u32>,
}

#[derive(Deserialize)]
struct UnknownOfFile {
    model: UnknownOfModel,
}

#[derive(Deserialize)]
struct UnknownOfModel {
    unk_id: Option<u32>,
}

impl Tokens {
    /// Reads the tokenizer; `tokens_max` takes the place of the limit in the file.
    pub(crate) fn load(directory: &mut ModelDirectory, tokens_max: Option<usize>) -> Result<Self> {
        let bytes = directory.bytes(FILE)?;
        let file = directory.file(FILE);
        let mut tokenizer = Tokenizer::from_bytes(&bytes).map_err(|error| {
            problem(
                &file,
                format_args!("is not a tokenizer that is known here: {error}"),
            )
        })?;
        tokenizer.with_padding(None);
        let truncation = tokens_max.map(|max_length| TruncationParams {
            max_length,
            ..TruncationParams::default()
        });
        tokenizer.with_truncation(truncation).map_err(|error| {
            problem(
                &file,
                format_args!("can not keep to {tokens_max:?} tokens: {error}"),
            )
        })?;
        let unigram_unknown = serde_json::from_slice::<UnknownOfFile>(&bytes)
            .ok()
            .and_then(|file| file.model.unk_id);
        Ok(Self {
            file,
            tokenizer,
            unigram_unknown,
        })
    }

    /// Token ids of a text, with or without the marks of start and end.
    pub(crate) fn ids(&self, text: &str, marks: bool) -> Result<Vec<u32>> {
        let encoding = self
            .tokenizer
            .encode_fast(text, marks)
            .map_err(|error| problem(&self.file, format_args!("a text can not be split: {error}")))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// One more than the largest id.
    pub(crate) fn ids_end(&self) -> usize {
        let largest = self.tokenizer.get_vocab(true).into_values().max();
        largest.map_or(0, |id| id as usize + 1)
    }

    /// What stands for a piece of text that has no token.
    pub(crate) fn unknown(&self) -> Option<u32> {
        let token = match self.tokenizer.get_model() {
            ModelWrapper::WordPiece(model) => model.unk_token.clone(),
            ModelWrapper::WordLevel(model) => model.unk_token.clone(),
            ModelWrapper::BPE(model) => model.unk_token.clone()?,
            ModelWrapper::Unigram(_) => return self.unigram_unknown,
        };
        self.tokenizer.token_to_id(&token)
    }

    /// The median number of characters of a token, rounded down.
    pub(crate) fn median_length(&self) -> usize {
        let mut lengths: Vec<usize> = self
            .tokenizer
            .get_vocab(true)
            .keys()
            .map(|token| token.chars().count())
            .collect();
        lengths.sort_unstable();
        let middle = lengths.len() / 2;
        if lengths.is_empty() {
            0
        } else if lengths.len() % 2 == 1 {
            lengths[middle]
        } else {
            usize::midpoint(lengths[middle - 1], lengths[middle])
        }
    }
}
