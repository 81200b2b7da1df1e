//! Lines of a file, bounded, and the fields of a line, by name.

use std::io::{BufRead, Read};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// The non-empty lines of a file with their numbers.
pub(super) struct Lines<R> {
    file: String,
    input: R,
    line: u64,
    bytes_max: usize,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(file: &str, input: R, bytes_max: usize) -> Self {
        Self {
            file: file.to_owned(),
            input,
            line: 0,
            bytes_max,
        }
    }

    fn read(&mut self) -> Result<Option<String>> {
        self.line += 1;
        let mut bytes = Vec::new();
        let most = self.bytes_max as u64 + 1;
        let read = (&mut self.input)
            .take(most)
            .read_until(b'\n', &mut bytes)
            .map_err(|error| Error::File {
                file: self.file.clone(),
                problem: error,
            })?;
        if read == 0 {
            return Ok(None);
        }
        if read > self.bytes_max {
            let problem = format!("it is longer than line_bytes_max = {}", self.bytes_max);
            return Err(bad(&self.file, self.line, "line", problem));
        }
        String::from_utf8(bytes)
            .map(Some)
            .map_err(|error| bad(&self.file, self.line, "line", format!("it is not UTF-8: {error}")))
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<(u64, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read() {
                Err(error) => return Some(Err(error)),
                Ok(None) => return None,
                Ok(Some(line)) if line.trim().is_empty() => {}
                Ok(Some(line)) => return Some(Ok((self.line, line))),
            }
        }
    }
}

/// An error of one line.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers hand over literals and errors alike"
)]
pub(super) fn bad(file: &str, line: u64, field: &str, problem: impl ToString) -> Error {
    Error::Import {
        file: file.to_owned(),
        line,
        field: field.to_owned(),
        problem: problem.to_string(),
    }
}

/// The fields of one line. Taking one checks it; what is left is kept as it is.
pub(super) struct Fields<'a> {
    file: &'a str,
    line: u64,
    map: Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn parse(file: &'a str, line: u64, text: &str) -> Result<Self> {
        match serde_json::from_str(text.trim_end()) {
            Ok(Value::Object(map)) => Ok(Self { file, line, map }),
            Ok(_) => Err(bad(file, line, "line", "it is not a JSON object")),
            Err(error) => {
                // It counts lines of its own, of which there is one.
                let problem = error.to_string().replace(" at line 1 column ", " at column ");
                Err(bad(file, line, "line", format!("it is not JSON: {problem}")))
            }
        }
    }

    pub(super) const fn of(file: &'a str, line: u64, map: Map<String, Value>) -> Self {
        Self { file, line, map }
    }

    /// A field that may be missing; null is missing.
    pub(super) fn optional<T: DeserializeOwned>(&mut self, field: &str) -> Result<Option<T>> {
        match self.map.remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value)
                .map(Some)
                .map_err(|error| bad(self.file, self.line, field, error)),
        }
    }

    /// A field that must be there.
    pub(super) fn required<T: DeserializeOwned>(&mut self, field: &str) -> Result<T> {
        self.optional(field)?
            .ok_or_else(|| bad(self.file, self.line, field, "it is missing"))
    }

    /// The first of several spellings of a field.
    pub(super) fn any_of<T: DeserializeOwned>(&mut self, fields: &[&str]) -> Result<Option<T>> {
        for field in fields {
            if let Some(value) = self.optional(field)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    pub(super) fn refuse(&self, field: &str, problem: impl ToString) -> Error {
        bad(self.file, self.line, field, problem)
    }

    /// What was not taken.
    pub(super) fn rest(self) -> Map<String, Value> {
        self.map
    }
}

/// A moment as others write it: RFC 3339, or seconds since the epoch.
pub(super) fn moment(fields: &mut Fields<'_>, field: &str) -> Result<Option<crate::Timestamp>> {
    match fields.optional::<Value>(field)? {
        None => Ok(None),
        Some(Value::String(text)) => {
            let with_zone = text.parse::<jiff::Timestamp>();
            let parsed = with_zone.or_else(|_| {
                // Python writes moments without a zone; they are UTC by convention.
                let civil = text.parse::<jiff::civil::DateTime>();
                civil
                    .and_then(|civil| civil.to_zoned(jiff::tz::TimeZone::UTC))
                    .map(|zoned| zoned.timestamp())
            });
            let moment = parsed.map_err(|error| fields.refuse(field, error))?;
            u64::try_from(moment.as_millisecond())
                .map(|millis| Some(crate::Timestamp::from_millis(millis)))
                .map_err(|_| fields.refuse(field, "it is before 1970"))
        }
        Some(Value::Number(number)) => match number.as_f64() {
            Some(seconds) if (0.0..1e12).contains(&seconds) => {
                let duration = std::time::Duration::from_secs_f64(seconds);
                Ok(Some(crate::Timestamp::default().after(duration)))
            }
            _ => Err(fields.refuse(field, "it is not a moment in seconds")),
        },
        Some(_) => Err(fields.refuse(field, "it is not a moment")),
    }
}
