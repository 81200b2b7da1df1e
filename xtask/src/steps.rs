//! The steps of the gate, in the order in which they fail cheapest.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use crate::{clients, dashboard, deploy, generated, housekeeping, layers, postgres, python};

/// One thing that must hold.
pub(crate) struct Step {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    check: Check,
}

enum Check {
    /// A command, and the environment it needs. No step sets RUSTFLAGS: that would rebuild everything.
    Command {
        line: &'static str,
        environment: &'static [(&'static str, &'static str)],
    },
    /// A check of our own.
    Function(fn(&Path) -> Result<(), String>),
}

const fn command(name: &'static str, line: &'static str) -> Step {
    Step {
        name,
        check: Check::Command {
            line,
            environment: &[],
        },
    }
}

/// Every step, in order.
pub(crate) const ALL: &[Step] = &[
    command("fmt", "cargo fmt --all --check"),
    Step {
        name: "layers",
        check: Check::Function(layers::check),
    },
    Step {
        name: "generated",
        check: Check::Function(generated::check),
    },
    Step {
        name: "housekeeping",
        check: Check::Function(housekeeping::check),
    },
    command("clippy", "cargo clippy --workspace --all-targets -- -D warnings"),
    Step {
        name: "test",
        check: Check::Function(test),
    },
    Step {
        name: "doc",
        check: Check::Command {
            line: "cargo doc --workspace --no-deps",
            environment: &[("RUSTDOCFLAGS", "-D warnings")],
        },
    },
];

/// What takes too long for every change.
pub(crate) const SLOW: &[Step] = &[
    Step {
        name: "clients",
        check: Check::Function(clients::check),
    },
    Step {
        name: "clients-all",
        check: Check::Function(clients::check_all),
    },
    Step {
        name: "python",
        check: Check::Function(python::check),
    },
    Step {
        name: "deploy",
        check: Check::Function(deploy::check),
    },
    Step {
        name: "dashboard",
        check: Check::Function(dashboard::check),
    },
];

/// The tests of the PostgreSQL store need a server.
fn test(_root: &Path) -> Result<(), String> {
    let server = postgres::start().map_err(|problem| format!("no PostgreSQL to test against: {problem}"))?;
    run_command(
        "cargo test --workspace --no-fail-fast",
        &[("UPLIFTMEM_TEST_POSTGRES", &server.url)],
    )
}

/// Runs the steps until one fails; says how long each took and how to see a failure again.
pub(crate) fn run(steps: &[&Step]) -> bool {
    let started = Instant::now();
    for step in steps {
        println!("== {}", step.name);
        let began = Instant::now();
        let result = match &step.check {
            Check::Command { line, environment } => run_command(line, environment),
            Check::Function(check) => check(&workspace_root()),
        };
        let seconds = began.elapsed().as_secs_f64();
        if let Err(problem) = result {
            println!("== {} FAILED after {seconds:.1} s: {problem}", step.name);
            println!("   to see it again: {}", step.again());
            return false;
        }
        println!("== {} ok, {seconds:.1} s", step.name);
    }
    println!("== all ok, {:.1} s", started.elapsed().as_secs_f64());
    true
}

impl Step {
    /// The command that repeats this step alone.
    fn again(&self) -> String {
        match &self.check {
            Check::Command { line, environment } => environment
                .iter()
                .map(|(key, value)| format!("{key}={value:?} "))
                .chain([(*line).to_owned()])
                .collect(),
            Check::Function(_) => format!("cargo xtask {}", self.name),
        }
    }
}

fn run_command(line: &str, environment: &[(&str, &str)]) -> Result<(), String> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let status = Command::new(program)
        .args(words)
        .envs(environment.iter().copied())
        .current_dir(workspace_root())
        .status()
        .map_err(|error| format!("{program} can not be started: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(status.to_string())
    }
}

/// What a command prints, or why it could not.
pub(crate) fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("{program} can not be started: {error}"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!(
            "{program} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}

/// The folder of the workspace's Cargo.toml, wherever the command was typed.
pub(crate) fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_can_be_seen_again_with_one_line() {
        let again: Vec<String> = ALL.iter().map(Step::again).collect();
        assert_eq!(again[0], "cargo fmt --all --check");
        assert_eq!(again[1], "cargo xtask layers");
        assert_eq!(
            again[6],
            "RUSTDOCFLAGS=\"-D warnings\" cargo doc --workspace --no-deps"
        );
    }

    #[test]
    fn a_failing_command_says_so() {
        assert!(run_command("true", &[]).is_ok());
        assert!(run_command("false", &[]).is_err());
        assert!(
            run_command("no-such-program-exists", &[])
                .unwrap_err()
                .contains("can not be started")
        );
    }
}
