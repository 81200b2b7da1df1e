//! Clients that others wrote, run against the server: MCP's SDK, mem0's client, schemathesis.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::steps::output;

/// Where the scripts are.
const SCRIPTS: &str = "crates/upliftmem-server/tests/clients";
/// Cases of each operation in the gate, and when everything is run.
const EXAMPLES: (&str, &str) = ("5", "100");

/// The scripts with few cases.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    run(root, EXAMPLES.0)
}

/// The scripts with many cases.
pub(crate) fn check_all(root: &Path) -> Result<(), String> {
    run(root, EXAMPLES.1)
}

fn run(root: &Path, examples: &str) -> Result<(), String> {
    if output(root, "python3", &["--version"]).is_err() {
        println!("skipped: python3 is not here, and these clients are written in it");
        return Ok(());
    }
    let list = root.join(SCRIPTS).join("requirements.txt");
    let wanted = std::fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let python = environment(root, "clients", &wanted, &["-r", &list.display().to_string()])?;
    let program = program(root)?;
    for script in ["mcp_client.py", "mem0_client.py", "schema_check.py"] {
        let status = Command::new(&python)
            .arg(root.join(SCRIPTS).join(script))
            .env("UPLIFTMEM_BINARY", &program)
            .env("UPLIFTMEM_SCHEMA_EXAMPLES", examples)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .status()
            .map_err(|error| format!("{} can not be started: {error}", python.display()))?;
        if !status.success() {
            return Err(format!("{script}: {status}"));
        }
    }
    Ok(())
}

/// The program, built.
pub(crate) fn program(root: &Path) -> Result<PathBuf, String> {
    let built = Command::new("cargo")
        .args(["build", "-p", "upliftmem"])
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo can not be started: {error}"))?;
    if !built.success() {
        return Err("the program was not built".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("debug/upliftmem"))
}

/// The Python of an environment under target/ with what pip is told to install; made again when `wanted` changes.
pub(crate) fn environment(
    root: &Path,
    name: &str,
    wanted: &str,
    install: &[&str],
) -> Result<PathBuf, String> {
    let place = root.join("target").join(name);
    let python = place.join("bin/python");
    let mark = place.join("installed.txt");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    output(root, "python3", &["-m", "venv", &place.display().to_string()])?;
    let pip = ["-m", "pip", "install", "-q"];
    output(root, &python.display().to_string(), &[&pip[..], install].concat())?;
    std::fs::write(&mark, wanted).map_err(|error| format!("{}: {error}", mark.display()))?;
    Ok(python)
}
