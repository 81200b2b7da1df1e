//! The files of `deploy/`: does Kubernetes know every field, and does Compose?

use std::{path::Path, process::Command};

use crate::{clients::environment, steps::output};

/// The validators; each carries its schemas.
const VALIDATORS: [&str; 2] = ["kubernetes-validate==1.37.0", "check-jsonschema==0.39.0"];
/// The oldest Kubernetes that the manifests are for.
const KUBERNETES: &str = "1.30";

/// Checks every manifest and the compose file, offline once the validators are there.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    if output(root, "python3", &["--version"]).is_err() {
        println!("skipped: python3 is not here, and the validators are written in it");
        return Ok(());
    }
    let python = environment(root, "deploy", &VALIDATORS.join(" "), &VALIDATORS)?;
    let programs = python.parent().unwrap_or(root);
    let folder = root.join("deploy/kubernetes");
    let mut manifests: Vec<String> = std::fs::read_dir(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .flatten()
        .map(|entry| entry.path().display().to_string())
        .filter(|path| path.ends_with(".yaml"))
        .collect();
    manifests.sort();
    let mut kubernetes = vec!["--kubernetes-version", KUBERNETES, "--strict"];
    kubernetes.extend(manifests.iter().map(String::as_str));
    run(&programs.join("kubernetes-validate"), &kubernetes)?;
    let compose = root.join("deploy/compose.yaml").display().to_string();
    run(
        &programs.join("check-jsonschema"),
        &["--builtin-schema", "vendor.compose-spec", &compose],
    )
}

fn run(program: &Path, arguments: &[&str]) -> Result<(), String> {
    let status = Command::new(program)
        .args(arguments)
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{}: {status}", program.display()))
    }
}
