//! Everything that is done with the repository beside building it.

mod postgres;

use std::{io::Write as _, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["postgres", "--", ..] => postgres::run(&arguments[2..]),
        ["soak-store"] => postgres::soak_store(),
        _ => Err("usage: cargo xtask postgres -- COMMAND... | soak-store".into()),
    };
    done.unwrap_or_else(|error| {
        drop(writeln!(std::io::stderr(), "xtask: {error}"));
        ExitCode::FAILURE
    })
}
