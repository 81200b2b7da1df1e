//! The OpenAPI document, made from the table of routes and the types of requests and answers.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::{
    error::ErrorBody,
    table::{Answers, Route},
};

/// Describes these routes.
pub(crate) fn document(routes: &[Route]) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut schemas = settings.into_generator();
    let failure = schemas.subschema_for::<ErrorBody>();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let mut parameters = path_parameters(route.path);
        if route.scoped {
            parameters.extend(scope_parameters());
        }
        if let Some(query) = route.query {
            parameters.extend(query_parameters(query(&mut schemas).as_value()));
        }
        let answer = match route.answers {
            Answers::Json(schema) => json!({ "application/json": { "schema": schema(&mut schemas) } }),
            Answers::Other(media) => json!({ media: { "schema": {} } }),
        };
        let failed = json!({
            "description": "What is wrong, with a stable code and a link.",
            "content": { "application/json": { "schema": failure } },
        });
        let mut operation = json!({
            "operationId": route.id,
            "tags": [route.tag],
            "summary": route.summary,
            "x-permission": route.permission,
            "parameters": parameters,
            "responses": {
                "200": { "description": "Done.", "content": answer },
                "4XX": failed,
                "5XX": failed,
            },
        });
        if let Some(body) = route.body {
            let schema = body(&mut schemas);
            operation["requestBody"] =
                json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        }
        if let Some(media) = route.raw_body {
            operation["requestBody"] =
                json!({ "required": true, "content": { media: { "schema": { "type": "string" } } } });
        }
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation;
    }
    let definitions = schemas.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "UpliftMem",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Memory for LLM agents that learns from outcomes which memories help, and when to use none.",
        },
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{ "key": [] }],
    })
}

/// The parts of a path in braces; those that end in `_id` are ours, and those of keys have a form of their own.
fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    names
        .map(|name| {
            let mut schema = json!({ "type": "string", "minLength": 1 });
            if name.ends_with("_id") && name != "key_id" {
                schema["format"] = json!("uuid");
            }
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect()
}

/// Whose data it is.
fn scope_parameters() -> Vec<Value> {
    ["user_id", "agent_id", "run_id", "app_id"]
        .map(|name| {
            json!({ "name": name, "in": "query", "schema": { "type": "string", "minLength": 1, "maxLength": 256 } })
        })
        .to_vec()
}

fn query_parameters(schema: &Value) -> Vec<Value> {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let required = |name: &str| {
        let list = schema["required"].as_array();
        list.is_some_and(|list| list.iter().any(|required| required == name))
    };
    properties
        .iter()
        .map(|(name, schema)| {
            let mut schema = schema.clone();
            // A value that is absent is left out of a query string; there is no null in it.
            if let Some(types) = schema["type"].as_array() {
                let kept: Vec<Value> = types.iter().filter(|word| *word != "null").cloned().collect();
                if let [only] = &kept[..] {
                    schema["type"] = only.clone();
                }
            }
            json!({ "name": name, "in": "query", "required": required(name), "schema": schema })
        })
        .collect()
}
