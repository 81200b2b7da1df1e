//! The Python client: its style, its types, and its tests against the program.

use std::{path::Path, process::Command};

use crate::{
    clients::{environment, program},
    steps::output,
};

/// What must hold, each a module of the environment and its arguments.
const CHECKS: &[&[&str]] = &[
    &["ruff", "check"],
    &["ruff", "format", "--check"],
    &["mypy"],
    &["pytest"],
];

/// Sets up an environment under target/ with the package and its test extras, and runs the checks in it.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    if output(root, "python3", &["--version"]).is_err() {
        println!("skipped: python3 is not here, and the client is written in it");
        return Ok(());
    }
    let package = root.join("python");
    let project = package.join("pyproject.toml");
    let wanted =
        std::fs::read_to_string(&project).map_err(|error| format!("{}: {error}", project.display()))?;
    let with_tests = format!("{}[test]", package.display());
    let python = environment(root, "python-client", &wanted, &["-e", &with_tests])?;
    let program = program(root)?;
    for check in CHECKS {
        let status = Command::new(&python)
            .arg("-m")
            .args(*check)
            .current_dir(&package)
            .env("UPLIFTMEM_BINARY", &program)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .status()
            .map_err(|error| format!("{} can not be started: {error}", python.display()))?;
        if !status.success() {
            return Err(format!("{}: {status}", check.join(" ")));
        }
    }
    Ok(())
}
