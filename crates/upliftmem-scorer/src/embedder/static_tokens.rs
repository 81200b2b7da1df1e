//! Static embeddings: every token has one vector, a text is the mean of its tokens. Layout of model2vec.

use std::path::Path;

use serde::Deserialize;

use super::{
    Embedder, Generation, ModelDirectory, Result, direction,
    files::{Tensors, problem},
    head,
    tokens::Tokens,
};
use crate::Embedding;

const WEIGHTS: &str = "model.safetensors";
/// The limit of model2vec where the configuration names none.
const TOKENS_MAX: usize = 512;

/// A model in the layout of model2vec, such as potion-base-8M.
pub struct StaticEmbedder {
    generation: Generation,
    tokens: Tokens,
    unknown: Option<u32>,
    characters_max: usize,
    table: Table,
}

/// `max_length` may be absent (the usual limit), null (no limit) or a number.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    model_type: Option<String>,
    #[serde(default = "usual_limit")]
    max_length: Option<usize>,
}

#[expect(clippy::unnecessary_wraps, reason = "the default of a field that may be null")]
fn usual_limit() -> Option<usize> {
    Some(TOKENS_MAX)
}

/// The vectors of the tokens. Files with a reduced vocabulary share rows and keep a weight for each token.
struct Table {
    dimension: usize,
    rows: Vec<f32>,
    row_of_token: Option<Vec<u32>>,
    weight_of_token: Option<Vec<f32>>,
}

impl StaticEmbedder {
    /// Loads `model.safetensors`, `tokenizer.json` and `config.json` from a directory.
    pub fn load(directory: &Path) -> Result<Self> {
        let mut directory = ModelDirectory::open(directory, "static 1")?;
        let config: Config = directory.json("config.json")?;
        if let Some(kind) = config.model_type.filter(|kind| kind != "model2vec") {
            return Err(problem(
                &directory.file("config.json"),
                format_args!(
                    "is the configuration of a {kind:?} model; a static model is a \"model2vec\" model"
                ),
            ));
        }
        let tokens = Tokens::load(&mut directory, config.max_length)?;
        let bytes = directory.bytes(WEIGHTS)?;
        let table = Table::read(
            &Tensors::parse(directory.file(WEIGHTS), &bytes)?,
            &tokens,
            &directory,
        )?;
        Ok(Self {
            generation: directory.generation(table.dimension),
            unknown: tokens.unknown(),
            // The reference cuts texts before it splits them, so do we: a cut word gives other tokens.
            characters_max: config
                .max_length
                .map_or(usize::MAX, |max| max.saturating_mul(tokens.median_length())),
            tokens,
            table,
        })
    }

    fn one(&self, text: &str) -> Result<Embedding> {
        let mut tokens = self.tokens.ids(head(text, self.characters_max), false)?;
        tokens.retain(|&token| Some(token) != self.unknown);
        direction(&self.table.sum(&tokens))
    }
}

impl Embedder for StaticEmbedder {
    fn generation(&self) -> &Generation {
        &self.generation
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Embedding>> {
        texts.iter().map(|text| self.one(text)).collect()
    }
}

impl Table {
    fn read(tensors: &Tensors<'_>, tokens: &Tokens, directory: &ModelDirectory) -> Result<Self> {
        // sentence-transformers writes the same table under another name.
        let name = if tensors.has("embeddings") {
            "embeddings"
        } else {
            "embedding.weight"
        };
        let shape = tensors.shape(name)?;
        let &[rows, dimension] = shape.as_slice() else {
            return Err(problem(
                &directory.file(WEIGHTS),
                format_args!("tensor {name:?} has the shape {shape:?}; a table has rows and columns"),
            ));
        };
        let row_of_token = tensors
            .has("mapping")
            .then(|| tensors.row_numbers("mapping", rows))
            .transpose()?;
        let weight_of_token = tensors
            .has("weights")
            .then(|| tensors.numbers("weights", &tensors.shape("weights")?))
            .transpose()?;
        let table = Self {
            dimension,
            rows: tensors.numbers(name, &shape)?,
            row_of_token,
            weight_of_token,
        };
        table.check(tokens, rows, directory)?;
        Ok(table)
    }

    /// Every token the tokenizer can give has its row and its weight.
    fn check(&self, tokens: &Tokens, rows: usize, directory: &ModelDirectory) -> Result<()> {
        let needed = tokens.ids_end();
        let mapped = self.row_of_token.as_ref().map_or(rows, Vec::len);
        let weighted = self.weight_of_token.as_ref().map_or(needed, Vec::len);
        if self.dimension == 0 || mapped < needed || weighted < needed {
            return Err(problem(
                &directory.file(WEIGHTS),
                format_args!(
                    "has {mapped} rows and {weighted} weights of {} entries for the {needed} tokens of tokenizer.json; \
                     the two files belong to different models",
                    self.dimension
                ),
            ));
        }
        Ok(())
    }

    /// The weighted sum of the tokens' vectors: the mean but for its length, which is lost anyway.
    fn sum(&self, tokens: &[u32]) -> Vec<f32> {
        let mut sum = vec![0.0; self.dimension];
        for &token in tokens {
            let token = token as usize;
            let row = self
                .row_of_token
                .as_ref()
                .map_or(token, |rows| rows[token] as usize);
            let weight = self
                .weight_of_token
                .as_ref()
                .map_or(1.0, |weights| weights[token]);
            let row = &self.rows[row * self.dimension..(row + 1) * self.dimension];
            for (sum, &value) in sum.iter_mut().zip(row) {
                *sum += weight * value;
            }
        }
        sum
    }
}
