//! The instances, read and checked against the published checksums.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::LoadError;

/// What an instance is about. The first three ask when memory should guide an answer, the others how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// A question of fact, and a user who likes the wrong answer. Memory is no evidence.
    ObjectiveFactJudgment,
    /// A preference that holds for a part of the question.
    ContextualScopeControl,
    /// A preference against what was found out.
    MemoryEvidenceConflict,
    /// A preference that is to be followed.
    PersonalizedMemoryUse,
    /// A preference that has changed.
    ValidMemorySelection,
}

impl Scenario {
    /// All five.
    pub const ALL: [Self; 5] = [
        Self::ObjectiveFactJudgment,
        Self::ContextualScopeControl,
        Self::MemoryEvidenceConflict,
        Self::PersonalizedMemoryUse,
        Self::ValidMemorySelection,
    ];

    /// The benchmark's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ObjectiveFactJudgment => "objective_fact_judgment",
            Self::ContextualScopeControl => "contextual_scope_control",
            Self::MemoryEvidenceConflict => "memory_evidence_conflict",
            Self::PersonalizedMemoryUse => "personalized_memory_use",
            Self::ValidMemorySelection => "valid_memory_selection",
        }
    }
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person.
    User,
    /// The agent.
    Assistant,
}

/// One turn of a dialogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogueTurn {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl DialogueTurn {
    /// The turn as a memory of its own, which is all that the NaiveRAG store does.
    #[must_use]
    pub fn as_memory(&self) -> String {
        let speaker = match self.role {
            Role::User => "User",
            Role::Assistant => "Assistant",
        };
        format!("{speaker}: {}", self.content)
    }
}

/// A memory that a judge may know of and an agent never sees.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GoldMemory {
    /// What is remembered.
    pub content: String,
    /// `active`, `current` or `outdated`.
    pub status: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct GoldMemories {
    items: Vec<GoldMemory>,
}

/// How an answer is judged. Never for an agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Evaluation {
    /// A good answer.
    pub reference_answer: String,
    /// What an answer would be that gives in to the preference.
    #[serde(default)]
    pub preference_aligned_answer: Option<String>,
    /// More of what is good and bad, in the words of the scenario.
    pub rubric: BTreeMap<String, serde_json::Value>,
}

impl Evaluation {
    /// A text of the rubric.
    #[must_use]
    pub fn rubric_text(&self, name: &str) -> Option<&str> {
        self.rubric.get(name)?.as_str()
    }

    /// A list of texts of the rubric.
    #[must_use]
    pub fn rubric_list(&self, name: &str) -> Vec<String> {
        let list = self.rubric.get(name).and_then(serde_json::Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(|text| text.as_str().map(str::to_owned))
            .collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    subtype: String,
}

/// One instance: a dialogue that lies in the past, and a question now.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Instance {
    /// The benchmark's name for it.
    pub id: String,
    /// Its scenario.
    #[serde(rename = "task")]
    pub scenario: Scenario,
    /// What was said; memory systems extract their store from it.
    pub dialogue: Vec<DialogueTurn>,
    /// What is asked.
    pub question: String,
    /// How the answer is judged.
    pub evaluation: Evaluation,
    memory: GoldMemories,
    #[serde(default)]
    metadata: Metadata,
}

impl Instance {
    /// What should be remembered, for a judge.
    #[must_use]
    pub fn gold_memories(&self) -> &[GoldMemory] {
        &self.memory.items
    }

    /// The kind of instance within its scenario.
    #[must_use]
    pub fn subtype(&self) -> &str {
        &self.metadata.subtype
    }

    /// The NaiveRAG store: one turn a memory.
    #[must_use]
    pub fn turn_memories(&self) -> Vec<String> {
        self.dialogue.iter().map(DialogueTurn::as_memory).collect()
    }
}

#[derive(Deserialize)]
struct Manifest {
    tasks: BTreeMap<Scenario, ManifestEntry>,
}

#[derive(Deserialize)]
struct ManifestEntry {
    file: String,
    samples: usize,
    sha256: String,
}

/// Reads all instances that the `manifest.json` of a folder names, scenario by scenario in the order of [`Scenario::ALL`]. Files
/// may be gzipped; what is checked is what is in them.
///
/// # Errors
/// A file is missing, broken, or not the one that the manifest means.
pub fn load(folder: impl AsRef<Path>) -> Result<Vec<Instance>, LoadError> {
    let folder = folder.as_ref();
    let manifest_file = folder.join("manifest.json");
    let json = fs::read(&manifest_file).map_err(|source| LoadError::Read {
        file: manifest_file.clone(),
        source,
    })?;
    let manifest: Manifest = serde_json::from_slice(&json).map_err(|source| LoadError::Json {
        file: manifest_file.clone(),
        line: source.line(),
        source,
    })?;
    let mut instances = Vec::new();
    for scenario in Scenario::ALL {
        let entry = manifest
            .tasks
            .get(&scenario)
            .ok_or_else(|| LoadError::Inconsistent {
                file: manifest_file.clone(),
                message: format!("does not name {}", scenario.name()),
            })?;
        instances.extend(read_scenario(folder, scenario, entry)?);
    }
    Ok(instances)
}

fn read_scenario(
    folder: &Path,
    scenario: Scenario,
    entry: &ManifestEntry,
) -> Result<Vec<Instance>, LoadError> {
    let plain = folder.join(&entry.file);
    let zipped = folder.join(format!("{}.gz", entry.file));
    let file = if zipped.is_file() { zipped } else { plain };
    let bytes = read_whole(&file).map_err(|source| LoadError::Read {
        file: file.clone(),
        source,
    })?;
    check(&file, &bytes, &entry.sha256)?;
    let mut instances = Vec::new();
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let instance: Instance = serde_json::from_slice(line).map_err(|source| LoadError::Json {
            file: file.clone(),
            line: number + 1,
            source,
        })?;
        if instance.scenario != scenario {
            return Err(LoadError::Inconsistent {
                file,
                message: format!("line {} is of {}", number + 1, instance.scenario.name()),
            });
        }
        instances.push(instance);
    }
    if instances.len() != entry.samples {
        return Err(LoadError::Inconsistent {
            file,
            message: format!(
                "has {} instances, the manifest says {}",
                instances.len(),
                entry.samples
            ),
        });
    }
    Ok(instances)
}

fn read_whole(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut reader = BufReader::new(File::open(file)?);
    if file.extension().is_some_and(|extension| extension == "gz") {
        MultiGzDecoder::new(reader).read_to_end(&mut bytes)?;
    } else {
        reader.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// One published checksum was taken with the line ends of another system: both are the published file.
fn check(file: &Path, bytes: &[u8], expected: &str) -> Result<(), LoadError> {
    let found = hex(&Sha256::digest(bytes));
    if found == expected {
        return Ok(());
    }
    let mut other_ends = Vec::with_capacity(bytes.len() + bytes.len() / 1000);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line {
            [text @ .., b'\r', b'\n'] => {
                other_ends.extend_from_slice(text);
                other_ends.push(b'\n');
            }
            [text @ .., b'\n'] => {
                other_ends.extend_from_slice(text);
                other_ends.extend_from_slice(b"\r\n");
            }
            text => other_ends.extend_from_slice(text),
        }
    }
    if hex(&Sha256::digest(&other_ends)) == expected {
        return Ok(());
    }
    Err(LoadError::Checksum {
        file: file.to_owned(),
        expected: expected.to_owned(),
        found,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: usize, task: Scenario) -> String {
        let instance = serde_json::json!({
            "id": id.to_string(), "task": task, "dialogue": [{"role": "user", "content": "Hello."}], "question": "?",
            "memory": {"policy": "use", "items": [{"content": "x", "type": "y", "status": "active"}]},
            "evaluation": {"reference_answer": "!", "rubric": {"a": "b", "list": ["c", 1]}}, "metadata": {},
        });
        format!("{instance}\n")
    }

    /// A folder of five small files, changed after their checksums were taken.
    fn folder(change: impl Fn(&str) -> String) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let tasks: serde_json::Map<String, serde_json::Value> = Scenario::ALL
            .into_iter()
            .map(|scenario| {
                let text = line(1, scenario) + &line(2, scenario);
                let file = format!("{}.jsonl", scenario.name());
                fs::write(folder.path().join(&file), change(&text)).unwrap();
                let sha256 = hex(&Sha256::digest(text.as_bytes()));
                let entry = serde_json::json!({"file": file, "samples": 2, "sha256": sha256});
                (scenario.name().to_owned(), entry)
            })
            .collect();
        let manifest = serde_json::json!({"tasks": tasks});
        fs::write(folder.path().join("manifest.json"), manifest.to_string()).unwrap();
        folder
    }

    #[test]
    fn files_are_read_with_either_line_ends() {
        for change in [str::to_owned as fn(&str) -> String, |text: &str| {
            text.replace('\n', "\r\n")
        }] {
            let instances = load(folder(change).path()).unwrap();
            assert_eq!(instances.len(), 10);
            assert_eq!(instances[0].turn_memories(), ["User: Hello."]);
            assert_eq!(instances[0].evaluation.rubric_list("list"), ["c"]);
            assert_eq!(instances[0].evaluation.rubric_text("list"), None);
        }
    }

    #[test]
    fn a_changed_or_missing_file_is_named() {
        let changed = load(folder(|text| text.replace("Hello", "Hullo")).path()).unwrap_err();
        assert!(matches!(changed, LoadError::Checksum { .. }), "{changed}");
        assert!(
            changed.to_string().contains("objective_fact_judgment.jsonl"),
            "{changed}"
        );
        let missing = folder(str::to_owned);
        fs::remove_file(missing.path().join("valid_memory_selection.jsonl")).unwrap();
        let missing = load(missing.path()).unwrap_err().to_string();
        assert!(
            missing.contains("valid_memory_selection.jsonl: can not be read"),
            "{missing}"
        );
        let empty = tempfile::tempdir().unwrap();
        assert!(
            load(empty.path())
                .unwrap_err()
                .to_string()
                .contains("manifest.json")
        );
    }
}
