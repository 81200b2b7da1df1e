//! Large JSON files, one entry at a time and in their own order.

use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::marker::PhantomData;
use std::path::Path;

use serde::de::{DeserializeOwned, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::{LoadError, not_json, unreadable};

/// Whether to read on.
pub(super) enum Flow {
    Continue,
    Stop,
}

/// Hands every element of an array to `visit`.
pub(super) fn each_element<T: DeserializeOwned>(
    file: &Path,
    visit: impl FnMut(T) -> Result<Flow, LoadError>,
) -> Result<(), LoadError> {
    let mut end = None;
    let elements = Elements {
        visit,
        end: &mut end,
        of: PhantomData,
    };
    let read = open(file)?.deserialize_seq(elements);
    end.unwrap_or(read.map_err(not_json(file)))
}

/// Hands every entry of an object to `visit`.
pub(super) fn each_entry<T: DeserializeOwned>(
    file: &Path,
    visit: impl FnMut(String, T) -> Result<Flow, LoadError>,
) -> Result<(), LoadError> {
    let mut end = None;
    let entries = Entries {
        visit,
        end: &mut end,
        of: PhantomData,
    };
    let read = open(file)?.deserialize_map(entries);
    end.unwrap_or(read.map_err(not_json(file)))
}

type FileDeserializer = serde_json::Deserializer<serde_json::de::IoRead<BufReader<File>>>;

fn open(file: &Path) -> Result<FileDeserializer, LoadError> {
    let opened = File::open(file).map_err(unreadable(file))?;
    Ok(serde_json::Deserializer::from_reader(BufReader::with_capacity(
        1 << 20,
        opened,
    )))
}

/// How a reading was ended by whoever looked at the entries. What the parser says of the rest does not matter then.
type End = Option<Result<(), LoadError>>;

fn go_on<E: Error>(flow: Result<Flow, LoadError>, end: &mut End) -> Result<(), E> {
    *end = match flow {
        Ok(Flow::Continue) => return Ok(()),
        Ok(Flow::Stop) => Some(Ok(())),
        Err(error) => Some(Err(error)),
    };
    Err(E::custom("ended"))
}

struct Elements<'e, T, F> {
    visit: F,
    end: &'e mut End,
    of: PhantomData<T>,
}

impl<'de, T: DeserializeOwned, F: FnMut(T) -> Result<Flow, LoadError>> Visitor<'de> for Elements<'_, T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element()? {
            go_on((self.visit)(element), self.end)?;
        }
        Ok(())
    }
}

struct Entries<'e, T, F> {
    visit: F,
    end: &'e mut End,
    of: PhantomData<T>,
}

impl<'de, T: DeserializeOwned, F: FnMut(String, T) -> Result<Flow, LoadError>> Visitor<'de>
    for Entries<'_, T, F>
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        while let Some((name, value)) = entries.next_entry()? {
            go_on((self.visit)(name, value), self.end)?;
        }
        Ok(())
    }
}

/// An object as a list, in the order of the file. The official files write an empty text where there is none.
pub(super) fn in_order<'de, D, T>(deserializer: D) -> Result<Vec<(String, T)>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_any(InOrder(PhantomData))
}

struct InOrder<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
    type Value = Vec<(String, T)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, or an empty text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if text.is_empty() {
            Ok(Vec::new())
        } else {
            Err(E::invalid_value(Unexpected::Str(text), &self))
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            list.push(entry);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_read_until_told_to_stop_or_broken() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("list.json");
        let sum = |json: &str, stop_at: u32| {
            fs::write(&file, json).unwrap();
            let mut sum = 0;
            let read = each_element(&file, |number: u32| {
                sum += number;
                Ok(if number == stop_at {
                    Flow::Stop
                } else {
                    Flow::Continue
                })
            });
            (sum, read.map_err(|error| error.to_string()))
        };
        assert_eq!(sum("[1, 2, 3]", 0), (6, Ok(())));
        assert_eq!(sum("[1, 2, oops", 2), (3, Ok(())));
        let (before, broken) = sum("[1, 2, oops", 0);
        assert_eq!(before, 3);
        assert!(
            broken
                .unwrap_err()
                .contains("list.json: expected value at line 1")
        );
        assert!(sum("{}", 0).1.is_err());

        fs::write(&file, r#"{"a": 1, "b": 2}"#).unwrap();
        let mut names = String::new();
        each_entry(&file, |name, _: u32| {
            names += &name;
            Ok(Flow::Continue)
        })
        .unwrap();
        assert_eq!(names, "ab");
    }
}
