//! Results in files: what was done is not done again, and everything says what it was made from.

use std::{fs, path::PathBuf};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Bench, Error, Event, Result};

/// A result with what it was made from.
#[derive(Serialize, Deserialize)]
struct Record<T> {
    made_from: Value,
    #[serde(default)]
    code: String,
    result: T,
}

/// A hash of the sources that results depend on. It is kept with every result, and not compared: a comment that was changed
/// does not make an evaluation worthless, but whoever reads should know.
pub(super) const CODE: &str = env!("UPLIFTMEM_CODE_DIGEST");

impl Bench {
    /// What every result depends on: benchmark, data, agent, sizes, seeds, settings, program.
    pub(super) fn made_from(&self) -> Value {
        let mut made_from = json!({
            "suite": self.suite.name(),
            "data": self.suite.data_digest(),
            "agent": self.suite.executor().name(),
            "embedder": self.embedder.generation().name,
            "sizes": self.sizes,
            "runs": self.runs,
            "seed": self.seed,
            "retrieval": self.engine.retrieval,
            "acquisition": self.engine.acquisition,
            "training": self.engine.training,
            "utility": self.engine.utility,
            "scorer": self.compact,
            "writes": self.writes,
            "version": env!("CARGO_PKG_VERSION"),
        });
        // What is not there is not named: results without it stay what they are.
        let settings = self.suite.agent_settings();
        let optional = [
            ("agent_settings", (!settings.is_null()).then(|| settings.clone())),
            ("writer", self.writer.as_ref().map(|writer| json!(writer.name()))),
            ("steps", self.steps.as_ref().map(|steps| json!(steps.name()))),
        ];
        for (name, value) in optional {
            if let (Some(fields), Some(value)) = (made_from.as_object_mut(), value) {
                fields.insert(name.into(), value);
            }
        }
        made_from
    }

    fn record_file(&self, name: &str) -> PathBuf {
        self.folder.join("results").join(format!("{name}.json"))
    }

    /// A result that was made before, of the same things.
    pub(super) fn recorded<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.record_file(name);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read(&path).map_err(Error::file(&path))?;
        let record: Record<T> =
            serde_json::from_slice(&text).map_err(|source| Error::Record { path, source })?;
        if record.made_from != self.made_from() {
            return Ok(None);
        }
        if record.code != CODE {
            self.tell(Event::Note(format!(
                "{name} was made by other code ({})",
                record.code
            )));
        }
        Ok(Some(record.result))
    }

    /// Keeps a result.
    pub(super) fn record<T: Serialize>(&self, name: &str, result: &T) -> Result<()> {
        let record = json!({ "made_from": self.made_from(), "code": CODE, "result": result });
        self.write(&self.record_file(name), &format!("{record}\n"))
    }

    /// Writes a file whole or not at all.
    pub(super) fn write(&self, path: &std::path::Path, text: &str) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::file(folder))?;
        }
        let unfinished = path.with_extension("part");
        fs::write(&unfinished, text).map_err(Error::file(&unfinished))?;
        fs::rename(&unfinished, path).map_err(Error::file(path))
    }

    /// A short hash of what training depends on: stores of other settings have other names.
    pub(super) fn fingerprint(&self) -> String {
        let mut made_from = self.made_from();
        if let Some(fields) = made_from.as_object_mut() {
            fields.remove("runs");
            let sizes = [self.sizes.seed, self.sizes.runtime, self.sizes.warm_up];
            fields.insert("sizes".into(), json!(sizes));
        }
        let hash = Sha256::digest(made_from.to_string().as_bytes());
        hash[..4].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
