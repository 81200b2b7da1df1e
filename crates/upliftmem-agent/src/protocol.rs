//! Executor protocol, version 1: one JSON object for a request, one for its response.
//!
//! Reading is strict about what would become an outcome and tolerant about everything else: fields that are not of
//! the protocol are ignored, and a `null` counts as absent.

use serde::Serialize;
use serde_json::{Map, Value};
use upliftmem_core::{Cost, Performance, Purpose, RolloutId, TrajectoryStep};

use crate::{Execution, ExecutionRequest, MemoryText, text::excerpt};

/// The version that is spoken here.
pub const PROTOCOL_VERSION: u64 = 1;

#[derive(Serialize)]
struct RequestObject<'a> {
    v: u64,
    id: RolloutId,
    task: TaskObject<'a>,
    memories: &'a [MemoryText],
    seed: u64,
    purpose: Purpose,
}

#[derive(Serialize)]
struct TaskObject<'a> {
    /// What the task's owner calls it.
    id: &'a str,
    context: &'a str,
    metadata: &'a Map<String, Value>,
}

/// The request as one JSON object, without line breaks.
pub fn write_request(request: &ExecutionRequest) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&RequestObject {
        v: PROTOCOL_VERSION,
        id: request.id,
        task: TaskObject {
            id: &request.task.name,
            context: &request.task.context,
            metadata: &request.task.metadata,
        },
        memories: &request.memories,
        seed: request.seed,
        purpose: request.purpose,
    })
}

/// What an executor answered: which execution it speaks of, and how that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The request's id.
    pub id: RolloutId,
    /// The execution, or in the executor's own words why it failed.
    pub result: Result<Execution, String>,
}

/// A response that says nothing one could rely on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ProtocolError {
    /// The request it meant to answer, as far as that can be told.
    pub id: Option<RolloutId>,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// Reads one response object.
pub fn read_response(line: &[u8]) -> Result<Response, ProtocolError> {
    let object = match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Err(unaddressed(format!("{:?} is not a JSON object", excerpt(line)))),
        Err(error) => {
            return Err(ProtocolError {
                id: salvaged_id(line),
                problem: format!("{:?} is not JSON: {error}", excerpt(line)),
            });
        }
    };
    let id = read_id(&object).map_err(unaddressed)?;
    match read_result(&object) {
        Ok(result) => Ok(Response { id, result }),
        Err(problem) => Err(ProtocolError {
            id: Some(id),
            problem,
        }),
    }
}

fn unaddressed(problem: String) -> ProtocolError {
    ProtocolError { id: None, problem }
}

fn read_id(object: &Map<String, Value>) -> Result<RolloutId, String> {
    let id = present(object, "id").ok_or(r#""id" is missing; repeat the request's"#)?;
    let unknown = || {
        format!(
            r#""id" {} is not of a request; repeat the request's"#,
            excerpt(id.to_string().as_bytes())
        )
    };
    id.as_str().ok_or_else(unknown)?.parse().map_err(|_| unknown())
}

/// What the object says of its execution. Everything is checked before anything is believed.
fn read_result(object: &Map<String, Value>) -> Result<Result<Execution, String>, String> {
    match present(object, "v") {
        None => return Err(r#""v" is missing; this is version 1"#.into()),
        Some(version) if version.as_u64() != Some(PROTOCOL_VERSION) => {
            return Err(format!(
                r#""v" is {}; only version 1 is spoken here"#,
                excerpt(version.to_string().as_bytes())
            ));
        }
        Some(_) => {}
    }
    match (present(object, "error"), present(object, "performance")) {
        (Some(_), Some(_)) => Err(r#"has both "error" and "performance"; give one"#.into()),
        (None, None) => Err(r#"has neither "performance" nor "error"; give one"#.into()),
        (Some(Value::String(error)), None) => Ok(Err(excerpt(error.as_bytes()))),
        (Some(_), None) => Err(r#""error" is not a text"#.into()),
        (None, Some(_)) => read_execution(object).map(Ok),
    }
}

fn read_execution(object: &Map<String, Value>) -> Result<Execution, String> {
    let trajectory = match present(object, "trajectory") {
        None => Vec::new(),
        Some(Value::Array(steps)) => steps
            .iter()
            .enumerate()
            .map(|(position, step)| read_step(position, step))
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(r#""trajectory" is not a list of steps"#.into()),
    };
    let diagnostics = match present(object, "diagnostics") {
        None => Map::new(),
        Some(Value::Object(diagnostics)) => diagnostics.clone(),
        Some(_) => return Err(r#""diagnostics" is not an object"#.into()),
    };
    Ok(Execution {
        performance: Performance::new(number(object, "performance")?).map_err(|error| error.to_string())?,
        cost: Cost::new(number(object, "cost")?).map_err(|error| error.to_string())?,
        trajectory,
        diagnostics,
    })
}

fn read_step(position: usize, step: &Value) -> Result<TrajectoryStep, String> {
    let text = |key| {
        step.get(key)
            .and_then(Value::as_str)
            .map(str::to_owned)
            .ok_or_else(|| format!(r#""trajectory" step {}: no text "{key}""#, position + 1))
    };
    Ok(TrajectoryStep {
        action: text("action")?,
        observation: text("observation")?,
    })
}

fn number(object: &Map<String, Value>, key: &str) -> Result<f64, String> {
    let value = present(object, key).ok_or_else(|| format!(r#""{key}" is missing"#))?;
    value.as_f64().ok_or_else(|| {
        format!(
            r#""{key}" is not a number: {}"#,
            excerpt(value.to_string().as_bytes())
        )
    })
}

/// The field, if it is there and not null.
fn present<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

/// The id that a line names although it is not JSON, so that its request need not wait until its time is up. The
/// usual case is a `NaN`, which some JSON writers put out.
fn salvaged_id(line: &[u8]) -> Option<RolloutId> {
    let line = str::from_utf8(line).ok()?;
    let (_, rest) = line.split_once(r#""id""#)?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    rest.strip_prefix('"')?.split_once('"')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use upliftmem_core::{MemoryId, Task};

    use super::*;

    const ID: &str = "00000000-0000-0000-0000-000000000007";

    #[test]
    fn a_request_is_what_the_protocol_says_to_the_byte() {
        let mut task = Task::new("kitchen-1", "Put a \"clean\" mug\non the desk.");
        task.metadata.insert("level".into(), json!(3));
        let request = ExecutionRequest {
            id: RolloutId::from_u128(7),
            task,
            memories: vec![MemoryText {
                id: MemoryId::from_u128(1),
                text: "Mugs are near the sink.".into(),
            }],
            seed: u64::MAX,
            purpose: Purpose::Probe,
        };
        let line = String::from_utf8(write_request(&request).unwrap()).unwrap();
        assert_eq!(
            line,
            concat!(
                r#"{"v":1,"id":"00000000-0000-0000-0000-000000000007","#,
                r#""task":{"id":"kitchen-1","context":"Put a \"clean\" mug\non the desk.","metadata":{"level":3}},"#,
                r#""memories":[{"id":"00000000-0000-0000-0000-000000000001","text":"Mugs are near the sink."}],"#,
                r#""seed":18446744073709551615,"purpose":"probe"}"#
            )
        );
    }

    #[test]
    fn an_execution_is_read_with_everything_it_tells() {
        let line = json!({
            "v": 1, "id": ID, "performance": 0.25, "cost": 12,
            "trajectory": [{"action": "look", "observation": "a desk"}],
            "diagnostics": {"model": "m"}, "error": null, "something": "else",
        });
        let response = read_response(line.to_string().as_bytes()).unwrap();
        assert_eq!(response.id, RolloutId::from_u128(7));
        let execution = response.result.unwrap();
        assert_eq!((execution.performance.get(), execution.cost.get()), (0.25, 12.0));
        assert_eq!(execution.trajectory[0].observation, "a desk");
        assert_eq!(execution.diagnostics["model"], "m");
    }

    #[test]
    fn an_error_is_kept_in_the_executors_words() {
        let line = format!(r#"{{"v":1,"id":"{ID}","error":"no such task"}}"#);
        let response = read_response(line.as_bytes()).unwrap();
        assert_eq!(response.result, Err("no such task".into()));
    }

    /// A line whose id is known but which is no outcome.
    fn refused(fields: &str, expected: &str) {
        let line = format!(r#"{{"id":"{ID}",{fields}}}"#);
        let error = read_response(line.as_bytes()).unwrap_err();
        assert_eq!(error.id, Some(RolloutId::from_u128(7)), "{line}");
        assert!(error.problem.contains(expected), "{line}: {error}");
    }

    #[test]
    fn what_is_wrong_is_said_and_whose_it_was() {
        refused(r#""performance":1,"cost":1"#, r#""v" is missing"#);
        refused(r#""v":2,"performance":1,"cost":1"#, r#""v" is 2; only version 1"#);
        refused(r#""v":"1","performance":1,"cost":1"#, "only version 1");
        refused(r#""v":1,"performance":1"#, r#""cost" is missing"#);
        refused(r#""v":1,"performance":1,"cost":null"#, r#""cost" is missing"#);
        refused(r#""v":1,"performance":1.5,"cost":1"#, "1.5 is outside [0, 1]");
        refused(r#""v":1,"performance":-0.1,"cost":1"#, "-0.1 is outside [0, 1]");
        refused(r#""v":1,"performance":1,"cost":-1"#, "-1 is negative");
        refused(
            r#""v":1,"performance":"1","cost":1"#,
            r#""performance" is not a number"#,
        );
        refused(
            r#""v":1,"performance":true,"cost":1"#,
            r#""performance" is not a number"#,
        );
        refused(r#""v":1,"performance":NaN,"cost":1"#, "is not JSON");
        refused(r#""v":1,"performance":1e999,"cost":1"#, "is not JSON");
        refused(r#""v":1,"performance":1,"cost":1,"error":"x""#, "both");
        refused(r#""v":1,"cost":1"#, "neither");
        refused(r#""v":1,"error":7"#, r#""error" is not a text"#);
        refused(
            r#""v":1,"performance":1,"cost":1,"trajectory":{}"#,
            "list of steps",
        );
        refused(
            r#""v":1,"performance":1,"cost":1,"trajectory":[{"action":"a","observation":"o"},{"action":"a"}]"#,
            r#"step 2: no text "observation""#,
        );
        refused(
            r#""v":1,"performance":1,"cost":1,"diagnostics":[]"#,
            "not an object",
        );
    }

    #[test]
    fn a_line_for_nobody_says_so() {
        for line in [
            "",
            "Loading model...",
            "[]",
            "\u{1f}",
            r#"{"v":1,"performance":1,"cost":1}"#,
            r#"{"v":1,"id":7,"performance":1,"cost":1}"#,
            r#"{"v":1,"id":"task-1","performance":1,"cost":1}"#,
        ] {
            assert_eq!(read_response(line.as_bytes()).unwrap_err().id, None, "{line}");
        }
        assert!(read_response(&[0xff, 0xfe]).unwrap_err().id.is_none());
    }

    #[test]
    fn a_message_shows_only_so_much_of_a_line() {
        let error = read_response("x".repeat(1 << 20).as_bytes()).unwrap_err();
        assert!(error.problem.len() < 500, "{}", error.problem.len());
    }
}
