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
    let python = set_up(root)?;
    let built = Command::new("cargo")
        .args(["build", "-p", "upliftmem"])
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo can not be started: {error}"))?;
    if !built.success() {
        return Err("the program was not built".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    for script in ["mcp_client.py", "mem0_client.py", "schema_check.py"] {
        let status = Command::new(&python)
            .arg(root.join(SCRIPTS).join(script))
            .env("UPLIFTMEM_BINARY", target.join("debug/upliftmem"))
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

/// A Python environment with the clients, made once and again when the list of them changes.
fn set_up(root: &Path) -> Result<PathBuf, String> {
    let place = root.join("target/clients");
    let python = place.join("bin/python");
    let list = root.join(SCRIPTS).join("requirements.txt");
    let wanted = std::fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let mark = place.join("installed.txt");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    output(root, "python3", &["-m", "venv", &place.display().to_string()])?;
    let pip = python.display().to_string();
    output(
        root,
        &pip,
        &["-m", "pip", "install", "-q", "-r", &list.display().to_string()],
    )?;
    std::fs::write(&mark, wanted).map_err(|error| format!("{}: {error}", mark.display()))?;
    Ok(python)
}
