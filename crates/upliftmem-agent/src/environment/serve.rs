//! An environment at the other end of a pipe: the serving side of the environment protocol.

use std::io::{self, BufRead, Read, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use upliftmem_core::Task;

use super::{Environment, EnvironmentError, Turn};
use crate::text::excerpt;

/// The longest request that is read.
const REQUEST_MAX: usize = 1 << 20;

/// A request: one of the two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default)]
    reset: Option<TaskObject>,
    #[serde(default)]
    step: Option<String>,
}

#[derive(Deserialize)]
struct TaskObject {
    /// What the task's owner calls it.
    id: String,
    #[serde(default)]
    context: String,
    #[serde(default)]
    metadata: Map<String, Value>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Turn(Turn),
    Error { error: String },
}

/// Plays an environment for whoever writes requests, one JSON object a line, until the requests end.
///
/// `{"reset":{"id":...,"context":...}}` and `{"step":"action"}` are answered by a turn, everything that goes wrong by
/// `{"error":"..."}`: an answer for every line, in order, and the environment goes on.
///
/// # Errors
/// Requests can not be read or answers not written. A reader of answers who has gone away is the end, not an error.
pub fn serve_environment(
    environment: &mut dyn Environment,
    mut requests: impl BufRead,
    mut answers: impl Write,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let answer = match read_line(&mut requests, &mut line)? {
            Line::End => return Ok(()),
            Line::Whole if line.trim_ascii().is_empty() => continue,
            Line::Whole => answer(environment, &line),
            Line::TooLong => Answer::Error {
                error: format!("a request is longer than {REQUEST_MAX} bytes"),
            },
        };
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        match answers.write_all(&text).and_then(|()| answers.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads up to the next line feed, which is left out, and never holds more than the longest request. The last line needs none.
fn read_line(requests: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Line> {
    let limit = REQUEST_MAX as u64 + 1;
    if requests.by_ref().take(limit).read_until(b'\n', line)? == 0 {
        return Ok(Line::End);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Line::Whole);
    }
    if line.len() <= REQUEST_MAX {
        return Ok(Line::Whole);
    }
    // What is left of it is of no use.
    loop {
        line.clear();
        let read = requests.by_ref().take(limit).read_until(b'\n', line)?;
        if read == 0 || line.last() == Some(&b'\n') {
            return Ok(Line::TooLong);
        }
    }
}

fn answer(environment: &mut dyn Environment, line: &[u8]) -> Answer {
    let turn = match serde_json::from_slice(line) {
        Ok(Request {
            reset: Some(task),
            step: None,
        }) => environment.reset(&Task {
            metadata: task.metadata,
            ..Task::new(task.id, task.context)
        }),
        Ok(Request {
            reset: None,
            step: Some(action),
        }) => environment.step(&action),
        Ok(_) => Err(EnvironmentError::Broken(
            r#"a request has either "reset" or "step": {"reset":{"id":"..."}} or {"step":"..."}"#.to_owned(),
        )),
        Err(error) => Err(EnvironmentError::Broken(format!(
            "{:?} is not a request: {error}",
            excerpt(line)
        ))),
    };
    match turn {
        Ok(turn) => Answer::Turn(turn),
        Err(error) => Answer::Error {
            error: error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use upliftmem_core::Performance;

    use super::*;

    /// Counts down from the number that its task is named by; done at 0.
    struct Countdown(Option<u32>);

    impl Countdown {
        fn turn(&mut self, left: u32) -> Turn {
            self.0 = (left > 0).then_some(left);
            Turn {
                observation: format!("{left} left"),
                actions: (left > 0).then(|| vec!["down".to_owned()]),
                performance: if left == 0 {
                    Performance::SUCCESS
                } else {
                    Performance::FAILURE
                },
                done: left == 0,
            }
        }
    }

    impl Environment for Countdown {
        fn reset(&mut self, task: &Task) -> Result<Turn, EnvironmentError> {
            let left = task.name.parse().map_err(|_| EnvironmentError::UnknownTask {
                environment: "countdown".into(),
                task: task.name.clone(),
                why: "not a number".into(),
            })?;
            Ok(self.turn(left))
        }

        fn step(&mut self, action: &str) -> Result<Turn, EnvironmentError> {
            let left = self.0.ok_or(EnvironmentError::NotRunning)?;
            Ok(self.turn(if action == "down" { left - 1 } else { left }))
        }
    }

    fn answers(requests: &[u8]) -> Vec<Value> {
        let mut written = Vec::new();
        serve_environment(&mut Countdown(None), requests, &mut written).unwrap();
        let written = String::from_utf8(written).unwrap();
        written
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn an_episode_is_played_and_the_last_line_needs_no_end() {
        let requests = b"{\"reset\":{\"id\":\"2\",\"context\":\"Count.\",\"metadata\":{}}}\n\n\
            {\"step\":\"up\"}\r\n{\"step\":\"down\"}\n{\"step\":\"down\"}";
        let turn = |left: u32| json!({"observation": format!("{left} left"), "actions": ["down"], "performance": 0.0, "done": false});
        let end = json!({"observation": "0 left", "performance": 1.0, "done": true});
        assert_eq!(answers(requests), [turn(2), turn(2), turn(1), end]);
        assert!(answers(b"").is_empty());
    }

    #[test]
    fn faults_are_answered_and_it_goes_on() {
        let long = format!("{{\"step\":\"{}\"}}\n", "x".repeat(3 * REQUEST_MAX));
        let requests = [
            r#"{"step":"down"}"#,
            r#"{"reset":{"id":"one"}}"#,
            r#"{"reset":{"id":"1"},"step":"down"}"#,
            "{}",
            "[1",
            "\"\u{fffd}\"",
            r#"{"stop":1}"#,
        ]
        .join("\n");
        let requests = format!("{requests}\n{long}{{\"reset\":{{\"id\":\"1\"}}}}\n");
        let answers = answers(requests.as_bytes());
        let expected = [
            "no episode is running",
            "no task \"one\" in countdown",
            "either \"reset\" or \"step\"",
            "either \"reset\" or \"step\"",
            "is not a request",
            "is not a request",
            "unknown field `stop`",
            "longer than 1048576 bytes",
        ];
        assert_eq!(answers.len(), expected.len() + 1);
        for (answer, expected) in answers.iter().zip(expected) {
            let error = answer["error"].as_str().unwrap();
            assert!(error.contains(expected), "{error:?} does not say {expected:?}");
        }
        assert_eq!(answers[expected.len()]["observation"], "1 left");
    }

    #[test]
    fn a_reader_who_left_is_the_end() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let requests: &[u8] = b"{\"step\":\"down\"}\n";
        serve_environment(&mut Countdown(None), requests, Gone).unwrap();
    }
}
