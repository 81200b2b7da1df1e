//! Reference solutions of BigCodeBench in the sandbox: `cargo run --release -p upliftmem-bench --example bigcodebench -- FOLDER
//! [PYTHON] [all]`.
//!
//! Runs those of the tasks that need the standard library only, or of all, and prints which fail and what the sandbox was granted.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Duration;

use upliftmem_bench::bigcodebench::{Benchmark, Limits, PythonSandbox};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("name the folder with tasks.jsonl.gz, split.json and hard.json")?;
    let python = arguments.next().unwrap_or_else(|| "python3".to_owned());
    let is_all = arguments.next().is_some_and(|which| which == "all");
    let benchmark = Benchmark::load(folder)?;
    let sandbox = PythonSandbox::new(python)?.with_limits(Limits {
        time: Duration::from_secs(240),
        ..Limits::default()
    });
    let tasks = benchmark
        .tasks()
        .iter()
        .filter(|task| is_all || task.is_standard_library_only());
    let (mut run, mut passed, mut lacking, mut seconds) = (0, 0, 0, 0.0);
    let mut granted = None;
    for task in tasks {
        let report = sandbox.run(&task.reference_solution(), &task.test)?;
        run += 1;
        seconds += report.time.as_secs_f64();
        if report.has_passed() {
            passed += 1;
        } else {
            let broken = report.broken.clone().unwrap_or_default();
            lacking += usize::from(broken.starts_with("ModuleNotFoundError"));
            let failed = report.cases.iter().filter(|case| !case.why.is_empty());
            let why: Vec<_> = failed
                .map(|case| format!("{}: {}", case.name, last_line(&case.why)))
                .collect();
            println!(
                "{} after {:.1} s: {broken} {}",
                task.task_id,
                report.time.as_secs_f64(),
                why.join("; ")
            );
        }
        granted = report.granted.or(granted);
    }
    println!(
        "Python {}: {passed} of {run} pass; {lacking} lack a module of their tests; {seconds:.0} s",
        sandbox.version()
    );
    println!("granted: {granted:?}");
    Ok(())
}

fn last_line(text: &str) -> &str {
    text.trim().lines().next_back().unwrap_or_default()
}
