//! One row, one line. Keys and numbers have one spelling, so that equal rows are equal bytes.

use serde_json::{Map, Value, json};

use super::{StoredExecution, StoredTask, StoredTicket};
use crate::{Journaled, StoredMemory};

/// Puts a field unless it is empty.
fn put(map: &mut Map<String, Value>, field: &str, value: Value) {
    let empty = match &value {
        Value::Null => true,
        Value::Object(object) => object.is_empty(),
        _ => false,
    };
    if !empty {
        map.insert(field.to_owned(), value);
    }
}

/// The line of a memory.
pub(crate) fn memory(stored: &StoredMemory) -> String {
    let mut map = stored.extra.clone();
    let memory = &stored.memory;
    put(&mut map, "id", json!(memory.id));
    put(&mut map, "text", json!(memory.text));
    put(&mut map, "tokens", json!(memory.tokens));
    put(&mut map, "source_task", json!(memory.source_task));
    put(&mut map, "metadata", json!(memory.metadata));
    put(&mut map, "kind", json!(stored.kind));
    put(&mut map, "provenance", json!(stored.provenance));
    put(&mut map, "status", json!(stored.status));
    put(&mut map, "quarantine_reason", json!(stored.quarantine_reason));
    put(&mut map, "created_at", json!(stored.created_at));
    put(&mut map, "updated_at", json!(stored.updated_at));
    put(&mut map, "expires_at", json!(stored.expires_at));
    put(&mut map, "superseded_by", json!(stored.superseded_by));
    let mut line = Value::Object(map);
    // `json!` would widen the numbers to f64 and print them longer than they are.
    if let Some(embedding) = &stored.embedding {
        line["embedding"] =
            json!({ "generation": embedding.generation(), "vector": numbers(embedding.vector()) });
    }
    line.to_string()
}

/// Shortest decimal numbers that read back as the same f32.
fn numbers(vector: &[f32]) -> Vec<Value> {
    let shortest = |x: &f32| x.to_string().parse::<f64>().unwrap_or_else(|_| f64::from(*x));
    vector.iter().map(|x| json!(shortest(x))).collect()
}

/// The line of a task. The `id` is the owner's name for it.
pub(crate) fn task(stored: &StoredTask) -> String {
    let mut map = stored.extra.clone();
    put(&mut map, "id", json!(stored.task.name));
    put(&mut map, "context", json!(stored.task.context));
    put(&mut map, "metadata", json!(stored.task.metadata));
    Value::Object(map).to_string()
}

/// The line of an execution.
pub(crate) fn execution(stored: &StoredExecution) -> String {
    json!(stored).to_string()
}

/// The line of a ticket.
pub(crate) fn ticket(stored: &StoredTicket) -> String {
    json!(stored).to_string()
}

/// The line of a journal entry.
pub(crate) fn entry(journaled: &Journaled) -> String {
    json!(journaled).to_string()
}
