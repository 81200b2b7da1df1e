//! Objects of a JSON file of any size, one at a time.

use std::io::{BufRead, Read};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::reader::bad;
use crate::error::{Error, Result};

/// The objects of a JSON array, of an array under one of `names` in an object, or of a file with one object after
/// another; each with the line it starts in. Only one object is in memory at a time.
pub(super) struct Objects<R> {
    file: String,
    input: Counted<R>,
    names: &'static [&'static str],
    bytes_max: usize,
    place: Place,
}

/// Where in the file the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    /// In an array; `wrapped` if it is a field of an object.
    Array {
        wrapped: bool,
        first: bool,
    },
    /// Between objects that follow each other.
    Between,
    /// After an array: nothing may follow.
    End,
}

impl<R: BufRead> Objects<R> {
    pub(super) fn new(file: &str, input: R, names: &'static [&'static str], bytes_max: usize) -> Self {
        Self {
            file: file.to_owned(),
            input: Counted {
                input,
                line: 1,
                left: 0,
            },
            names,
            bytes_max,
            place: Place::Start,
        }
    }

    fn advance(&mut self) -> Result<Option<(u64, Map<String, Value>)>> {
        loop {
            let next = self.peek()?;
            match (self.place, next) {
                (Place::Start, Some(b'[')) => self.enter_array(false),
                (Place::Start, Some(b'{')) => {
                    let line = self.input.line;
                    self.place = Place::Between;
                    if let Some(fields) = self.fields()? {
                        return Ok(Some((line, fields)));
                    }
                }
                (Place::Start, Some(_)) => {
                    return Err(self.refuse("it is neither an object nor an array"));
                }
                (Place::Array { wrapped, .. }, Some(b']')) => {
                    self.input.consume();
                    self.place = Place::End;
                    if wrapped {
                        self.rest_of_fields()?;
                    }
                }
                (Place::Array { wrapped, first }, Some(_)) => {
                    if !first {
                        self.expect(b',')?;
                    }
                    self.place = Place::Array {
                        wrapped,
                        first: false,
                    };
                    return self.object().map(Some);
                }
                (Place::Between, Some(_)) => return self.object().map(Some),
                (Place::Between | Place::End | Place::Start, None) => return Ok(None),
                (Place::End, Some(_)) => return Err(self.refuse("something follows the end")),
                (Place::Array { .. }, None) => return Err(self.refuse("the array does not end")),
            }
        }
    }

    fn enter_array(&mut self, wrapped: bool) {
        self.input.consume();
        self.place = Place::Array { wrapped, first: true };
    }

    fn object(&mut self) -> Result<(u64, Map<String, Value>)> {
        if self.peek()? != Some(b'{') {
            return Err(self.refuse("the item is not a JSON object"));
        }
        let line = self.input.line;
        Ok((line, self.value()?))
    }

    /// The fields of an object, unless one of them is the array that is looked for: then its items come next.
    fn fields(&mut self) -> Result<Option<Map<String, Value>>> {
        self.expect(b'{')?;
        let mut fields = Map::new();
        while self.peek()? != Some(b'}') {
            if !fields.is_empty() {
                self.expect(b',')?;
            }
            let name = self.name()?;
            if self.names.contains(&name.as_str()) {
                return match self.peek()? {
                    Some(b'[') => {
                        self.enter_array(true);
                        Ok(None)
                    }
                    _ => Err(bad(&self.file, self.input.line, &name, "it is not an array")),
                };
            }
            let value = self.any_value()?;
            fields.insert(name, value);
        }
        self.input.consume();
        Ok(Some(fields))
    }

    /// What follows the array in its object: read, and of no use.
    fn rest_of_fields(&mut self) -> Result<()> {
        while self.peek()? != Some(b'}') {
            self.expect(b',')?;
            self.name()?;
            self.any_value()?;
        }
        self.input.consume();
        Ok(())
    }

    fn name(&mut self) -> Result<String> {
        if self.peek()? != Some(b'"') {
            return Err(self.refuse("a field's name is missing"));
        }
        let name = self.value()?;
        self.expect(b':')?;
        self.peek()?;
        Ok(name)
    }

    fn any_value(&mut self) -> Result<Value> {
        if matches!(self.peek()?, Some(b'{' | b'[' | b'"')) {
            return self.value();
        }
        // The end of a number is only seen by reading on, which the parser would do.
        let mut word = Vec::new();
        while let Some(byte) = self.input.next_byte().map_err(|error| self.unreadable(error))? {
            if matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace() || word.len() > 64 {
                break;
            }
            word.push(byte);
            self.input.consume();
        }
        serde_json::from_slice(&word).map_err(|error| self.refuse(format!("it is not JSON: {error}")))
    }

    /// Reads a value that starts with a bracket or a quotation mark, to its end and not further.
    fn value<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.input.line;
        self.input.left = self.bytes_max;
        let parsed = T::deserialize(&mut serde_json::Deserializer::from_reader(&mut self.input));
        parsed.map_err(|error| {
            let problem = if self.input.left == 0 {
                format!("it is longer than line_bytes_max = {}", self.bytes_max)
            } else {
                format!("it is not JSON: {error}")
            };
            bad(&self.file, line, "line", problem)
        })
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.peek()? != Some(byte) {
            return Err(self.refuse(format!("it is not JSON: {:?} is missing", char::from(byte))));
        }
        self.input.consume();
        Ok(())
    }

    /// The next byte that is no blank, which stays where it is.
    fn peek(&mut self) -> Result<Option<u8>> {
        loop {
            match self.input.next_byte() {
                Ok(Some(byte)) if byte.is_ascii_whitespace() => self.input.consume(),
                Ok(next) => return Ok(next),
                Err(error) => return Err(self.unreadable(error)),
            }
        }
    }

    fn unreadable(&self, problem: std::io::Error) -> Error {
        Error::File {
            file: self.file.clone(),
            problem,
        }
    }

    fn refuse(&self, problem: impl ToString) -> Error {
        bad(&self.file, self.input.line, "line", problem)
    }
}

impl<R: BufRead> Iterator for Objects<R> {
    type Item = Result<(u64, Map<String, Value>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

/// Counts lines, and lets a parser read only so much.
struct Counted<R> {
    input: R,
    line: u64,
    left: usize,
}

impl<R: BufRead> Counted<R> {
    fn next_byte(&mut self) -> std::io::Result<Option<u8>> {
        Ok(self.input.fill_buf()?.first().copied())
    }

    /// Goes past the byte that was looked at.
    fn consume(&mut self) {
        if let Ok(Some(b'\n')) = self.next_byte() {
            self.line += 1;
        }
        self.input.consume(1);
    }
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let most = into.len().min(self.left);
        let read = self.input.read(&mut into[..most])?;
        self.left -= read;
        self.line += into[..read].iter().filter(|&&byte| byte == b'\n').count() as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Result<Vec<u64>> {
        Objects::new("f", text.as_bytes(), &["results"], 40)
            .map(|item| item.map(|(line, _)| line))
            .collect()
    }

    #[test]
    fn every_form_gives_its_objects_and_their_lines() {
        let check = |text: &str, expected: &[u64]| assert_eq!(lines(text).unwrap(), expected, "{text}");
        check("", &[]);
        check(" [ ] ", &[]);
        check("[\n{\"a\":1},\n\n{\"a\":[2]}]\n", &[2, 4]);
        check(
            "{\"total\":2,\"ok\":true,\"results\":[{},\n{}],\"page\":{\"next\":null}}",
            &[1, 2],
        );
        check("{\"a\":1}\n{\"a\":2}\n\n{\"a\":\"x\"}", &[1, 2, 4]);
        check("{\"a\":{\"results\":1}}", &[1]);
    }

    #[test]
    fn what_is_no_such_file_is_refused_by_line() {
        let check = |text: &str, expected: &str| {
            let told = lines(text).unwrap_err().to_string();
            assert!(told.contains(expected), "{text}: {told}");
        };
        check("5", "neither");
        check("[{},\n5]", "line 2");
        check("[{}", "does not end");
        check("[{} {}]", "','");
        check("[{}]x", "follows");
        check("{\"results\":5}", "not an array");
        check("[\n{\"a\":\n", "line 2");
        check(&format!("[{{\"a\":\"{}\"}}]", "x".repeat(50)), "line_bytes_max");
    }
}
