//! `cargo xtask ci`: the gate that every change passes, on the stock toolchain and nothing else.
#![allow(clippy::print_stdout, clippy::print_stderr)] // It talks to a person at a terminal.

mod clients;
mod dashboard;
mod deploy;
mod generated;
mod housekeeping;
mod layers;
mod postgres;
mod python;
mod steps;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <command>

commands
  ci            everything below, in this order; stops at the first failure
  fmt           is the code formatted?
  layers        do the crates depend on each other only downwards?
  generated     is the text that programs write up to date?
  housekeeping  does any tracked file name a path of the machine it was written on?
  clippy        lints on all targets, warnings denied
  test          unit, behaviour and doc tests, with a throw-away PostgreSQL
  doc           documentation builds, warnings denied

  ci --all      all that and what takes longer:
  clients       MCP's SDK, mem0's client and schemathesis against the server (Python, set up under target/)
  clients-all   the same clients with many more cases
  python        the Python client: style, types, tests against the program (Python 3.10, set up under target/)
  deploy        do Kubernetes and Compose know every field of deploy/? (Python, set up under target/)
  dashboard     is web/dist what web/ builds, and does every page work? (Node.js, npm; installs Chromium)

  generate      writes the text that `generated` checks
  postgres -- COMMAND...
                runs a command with UPLIFTMEM_TEST_POSTGRES naming a throw-away PostgreSQL with pgvector
  soak          50 faults: workers, replicas, trainers and the database are killed while a run goes on
  soak-store    kills a writing process 200 times on each database and compares with a model
";

fn main() -> ExitCode {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
    let steps: Vec<&steps::Step> = match arguments[..] {
        [] | ["help" | "-h" | "--help"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        ["generate"] => return exit(generated::write(&steps::workspace_root())),
        ["postgres", "--", ..] => return exit(postgres::run(&command[2..])),
        ["soak"] => return exit(postgres::soak()),
        ["soak-store"] => return exit(postgres::soak_store()),
        ["ci"] => steps::ALL.iter().collect(),
        ["ci", "--all"] => steps::ALL.iter().chain(steps::SLOW).collect(),
        [name] => {
            let all = steps::ALL.iter().chain(steps::SLOW);
            all.filter(|step| step.name == name).collect()
        }
        _ => Vec::new(),
    };
    if steps.is_empty() {
        eprintln!("xtask: {:?} is not a command\n\n{HELP}", arguments.join(" "));
        return ExitCode::from(2);
    }
    if steps::run(&steps) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Says what went wrong, if anything did.
fn exit(result: Result<(), impl std::fmt::Display>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("xtask: {problem}");
            ExitCode::FAILURE
        }
    }
}
