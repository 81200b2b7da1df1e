//! `cargo xtask ci`: the gate that every change passes, on the stock toolchain and nothing else.
#![allow(clippy::print_stdout, clippy::print_stderr)] // It talks to a person at a terminal.

mod housekeeping;
mod layers;
mod steps;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <command>

commands
  ci            everything below, in this order; stops at the first failure
  fmt           is the code formatted?
  layers        do the crates depend on each other only downwards?
  housekeeping  does any tracked file name a path of the machine it was written on?
  clippy        lints on all targets, warnings denied
  test          unit, behaviour and doc tests
  doc           documentation builds, warnings denied
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let steps: Vec<&steps::Step> = match arguments[..] {
        [] | ["help" | "-h" | "--help"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        ["ci"] => steps::ALL.iter().collect(),
        [name] => steps::ALL.iter().filter(|step| step.name == name).collect(),
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
