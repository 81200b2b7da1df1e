//! The program: arguments, configuration, and one function a command.

mod allocator;
mod commands;
mod config;
mod context;
mod failure;
mod figures;
mod output;
mod png;
mod progress;

use std::{io::IsTerminal, process::ExitCode};

use clap::Parser;

use commands::Arguments;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.computes_and_ends() {
        allocator::keep_freed_pages();
    }
    start_log(arguments.default_log());
    set_clock();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&anyhow::anyhow!("the runtime did not start: {error}")),
    };
    match runtime.block_on(commands::run(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Sets this process's clock ahead (or back) for tests of machines whose clocks are apart.
fn set_clock() {
    let ahead = std::env::var("UPLIFTMEM_TEST_CLOCK_AHEAD_SECONDS").ok();
    if let Some(seconds) = ahead.and_then(|text| text.parse::<i64>().ok()) {
        tracing::warn!(seconds, "this process's clock is set apart");
        upliftmem_store::set_clock_ahead(seconds.saturating_mul(1_000));
    }
}

/// Logs to standard error: text for people, or JSON lines with `UPLIFTMEM_LOG_FORMAT=json`.
fn start_log(default: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("UPLIFTMEM_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Colours are for terminals: in a file they are noise.
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    if std::env::var_os("UPLIFTMEM_LOG_FORMAT").is_some_and(|format| format == "json") {
        log.json().init();
    } else {
        log.init();
    }
}

/// Says what went wrong, with all its causes.
#[expect(clippy::print_stderr, reason = "the one place where a failure is told")]
fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("{}", failure::told(error));
    ExitCode::from(1)
}
