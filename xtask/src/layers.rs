//! Crates depend on each other only downwards: core <- lm <- {scorer, store, agent} <- engine <- {bench, server} <- upliftmem.

use std::path::Path;

use serde_json::Value;

use crate::steps::output;

/// Which crates stand on which level. A crate may depend on any crate of a lower level, also in its tests.
const LAYERS: &[&[&str]] = &[
    &["upliftmem-core"],
    &["upliftmem-lm"],
    &["upliftmem-scorer", "upliftmem-store", "upliftmem-agent"],
    &["upliftmem-engine"],
    &["upliftmem-bench", "upliftmem-server"],
    &["upliftmem"],
    // Tools may look at everything; nothing may depend on them.
    &["xtask"],
];

/// Compares the layers with what cargo says.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let metadata = output(root, "cargo", &["metadata", "--format-version", "1", "--no-deps"])?;
    let metadata: Value =
        serde_json::from_slice(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let problems = problems(&metadata)?;
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("\n   "))
    }
}

/// The layers from the top down, for people.
pub(crate) fn diagram() -> String {
    let mut lines: Vec<String> = LAYERS
        .iter()
        .map(|layer| format!("  {}", layer.join("   ")))
        .collect();
    lines.reverse();
    format!("```text\n{}\n```\n", lines.join("\n    |\n"))
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

/// Every crate that is not in the list and every dependency that does not go down.
fn problems(metadata: &Value) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for package in array(metadata, "packages")? {
        let name = text(package, "name")?;
        let Some(own) = layer(name) else {
            problems.push(format!(
                "{name} has no layer; give it one in LAYERS (xtask/src/layers.rs) and in ARCHITECTURE.md"
            ));
            continue;
        };
        for dependency in array(package, "dependencies")? {
            // Only path dependencies are crates of this workspace.
            if dependency["path"].is_null() {
                continue;
            }
            let other = text(dependency, "name")?;
            if layer(other).is_none_or(|below| below >= own) {
                problems.push(format!(
                    "{name} must not depend on {other}; a crate depends on crates of lower layers only"
                ));
            }
        }
    }
    Ok(problems)
}

fn array<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value[key]
        .as_array()
        .ok_or_else(|| format!("cargo metadata has no list {key:?}"))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value[key]
        .as_str()
        .ok_or_else(|| format!("cargo metadata has no text {key:?}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(name: &str, dependency: &str, kind: Option<&str>, expected: &str) {
        let metadata = json!({"packages": [{"name": name, "dependencies": [
            {"name": "serde", "path": null, "kind": null},
            {"name": dependency, "path": "/somewhere", "kind": kind},
        ]}]});
        assert_eq!(problems(&metadata).unwrap().join(";"), expected);
    }

    #[test]
    fn down_is_allowed_however_far() {
        check("upliftmem-scorer", "upliftmem-core", None, "");
        check("upliftmem-bench", "upliftmem-core", None, "");
        check("upliftmem", "upliftmem-agent", Some("dev"), "");
    }

    #[test]
    fn sideways_and_up_are_not_even_for_tests() {
        let refused = |name, other| {
            format!("{name} must not depend on {other}; a crate depends on crates of lower layers only")
        };
        for (name, other) in [
            ("upliftmem-core", "upliftmem-store"),
            ("upliftmem-store", "upliftmem-agent"),
            ("upliftmem-bench", "upliftmem-server"),
            ("upliftmem", "xtask"),
            ("upliftmem", "upliftmem-extras"),
        ] {
            check(name, other, Some("dev"), &refused(name, other));
        }
    }

    #[test]
    fn an_unknown_crate_is_told_where_to_go() {
        let metadata = json!({"packages": [{"name": "upliftmem-extras", "dependencies": []}]});
        let problems = problems(&metadata).unwrap();
        assert!(problems[0].starts_with("upliftmem-extras has no layer; give it one in LAYERS"));
    }

    #[test]
    fn other_output_than_cargos_is_an_error() {
        assert!(problems(&json!({})).unwrap_err().contains("packages"));
    }
}
