//! Child processes that behave, and every way in which they may not.
#![allow(clippy::unwrap_used)]

use std::{
    future::Future,
    io::Read,
    net::TcpListener,
    sync::Arc,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use upliftmem_agent::{
    CommandExecutor, CommandSettings, Execution, ExecutionRequest, Executor, ExecutorError, MemoryText,
};
use upliftmem_core::{MemoryId, Purpose, RolloutId, Task};

/// A child of this crate's that does what its arguments say, and little patience with it.
fn settings(arguments: &[&str]) -> CommandSettings {
    let mut settings = CommandSettings::new(env!("CARGO_BIN_EXE_misbehaving-executor"), arguments.to_vec());
    settings.name = Some("child".into());
    settings.timeout = Duration::from_secs(30);
    settings.backoff = Duration::from_millis(10);
    settings.grace = Duration::from_secs(10);
    settings
}

fn executor(arguments: &[&str]) -> CommandExecutor {
    CommandExecutor::new(settings(arguments)).unwrap()
}

/// Request number n is answered with performance n/1000 and cost n.
fn request(number: u32) -> ExecutionRequest {
    ExecutionRequest {
        id: RolloutId::from_u128(1000 + u128::from(number)),
        task: Task::new(number.to_string(), "Do it."),
        memories: vec![MemoryText {
            id: MemoryId::from_u128(1),
            text: "It helps to\nlook twice.".into(),
        }],
        seed: u64::from(number),
        purpose: Purpose::Probe,
    }
}

fn check_own(number: u32, execution: &Execution) {
    assert_eq!(execution.cost.get(), f64::from(number));
    assert_eq!(execution.performance.get(), f64::from(number) / 1000.0);
    assert_eq!(execution.diagnostics["seed"], number);
}

/// Asks all at once; the results in the order of the numbers.
async fn all(
    executor: &Arc<CommandExecutor>,
    numbers: std::ops::Range<u32>,
) -> Vec<(u32, Result<Execution, ExecutorError>)> {
    let asked: Vec<_> = numbers
        .map(|number| {
            let executor = Arc::clone(executor);
            (
                number,
                tokio::spawn(async move { executor.execute(&request(number)).await }),
            )
        })
        .collect();
    let mut results = Vec::new();
    for (number, result) in asked {
        results.push((number, result.await.unwrap()));
    }
    results
}

async fn failure(executor: &CommandExecutor, number: u32) -> String {
    match executor.execute(&request(number)).await {
        Err(ExecutorError::Failed(message)) => message,
        other => panic!("{other:?}"),
    }
}

async fn unavailable(executor: &CommandExecutor, number: u32) -> String {
    match executor.execute(&request(number)).await {
        Err(ExecutorError::Unavailable(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn has(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

/// Waits until what holds the connection is gone.
async fn gone(listener: TcpListener) {
    let waiting = tokio::task::spawn_blocking(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        // An end or a reset; anything but the time running out.
        match connection.read(&mut [0]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    });
    assert!(waiting.await.unwrap(), "a process was left behind");
}

#[tokio::test]
async fn a_good_child_answers_everything_and_is_started_once() {
    let executor = Arc::new(executor(&["good"]));
    for (number, result) in all(&executor, 0..50).await {
        check_own(number, &result.unwrap());
    }
    let health = executor.health();
    assert_eq!((health.starts, health.answers, health.violations), (1, 50, 0));
    executor.shut_down().await;
    has(&unavailable(&executor, 1).await, &["was shut down"]);
}

#[tokio::test]
async fn several_children_share_the_work() {
    let mut settings = settings(&["slow", "50"]);
    (settings.processes, settings.in_flight) = (3, 1);
    let executor = Arc::new(CommandExecutor::new(settings).unwrap());
    for (number, result) in all(&executor, 0..9).await {
        check_own(number, &result.unwrap());
    }
    assert_eq!(executor.health().starts, 3);
}

#[tokio::test]
async fn environment_and_directory_are_the_childs() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(&["environment"]);
    settings.directory = Some(directory.path().to_owned());
    settings.environment.insert("GREETING".into(), "hello".into());
    let executor = CommandExecutor::new(settings).unwrap();
    let told = executor.execute(&request(1)).await.unwrap().diagnostics;
    assert_eq!(told["greeting"], "hello");
    assert_eq!(
        told["directory"].as_str().unwrap(),
        directory.path().canonicalize().unwrap().to_str().unwrap()
    );
}

#[tokio::test]
async fn a_program_that_is_not_there_is_said_at_once() {
    let executor = CommandExecutor::new(CommandSettings::new("no-such-program", ["x"])).unwrap();
    assert_eq!(executor.name(), "command:no-such-program x");
    has(
        &unavailable(&executor, 1).await,
        &["can not start \"no-such-program\"", "PATH"],
    );
}

#[tokio::test]
async fn a_child_that_crashes_at_once_is_unavailable_with_its_last_words() {
    let mut settings = settings(&["crash-at-once"]);
    settings.crashes_max = 2;
    let executor = CommandExecutor::new(settings).unwrap();
    let message = unavailable(&executor, 1).await;
    has(
        &message,
        &[
            "2 children in a row gave no answer",
            "exit status: 3",
            "no module named agent",
            "run the command by hand",
        ],
    );
    assert_eq!(executor.health().starts, 2);
}

#[tokio::test]
async fn a_request_is_sent_again_only_so_often() {
    let mut settings = settings(&["crash-at-once"]);
    (settings.retries, settings.crashes_max) = (1, 10);
    let executor = CommandExecutor::new(settings).unwrap();
    has(
        &failure(&executor, 1).await,
        &["sent 2 times", "exit status: 3", "no module named agent"],
    );
}

#[tokio::test]
async fn a_child_that_crashes_now_and_then_loses_nothing() {
    let executor = Arc::new(executor(&["crash-after", "7"]));
    for (number, result) in all(&executor, 0..40).await {
        check_own(number, &result.unwrap());
    }
    let health = executor.health();
    assert!(health.starts >= 6, "{health:?}");
    assert_eq!(health.answers, 40);
}

#[tokio::test]
async fn a_child_that_answers_one_request_and_leaves_is_started_for_each() {
    let executor = executor(&["crash-after", "1"]);
    for number in 0..5 {
        check_own(number, &executor.execute(&request(number)).await.unwrap());
    }
}

#[tokio::test]
async fn one_task_that_crashes_every_child_takes_no_other_with_it() {
    let mut settings = settings(&["poison", "3"]);
    settings.in_flight = 8;
    let executor = Arc::new(CommandExecutor::new(settings).unwrap());
    for (number, result) in all(&executor, 0..8).await {
        match number {
            3 => has(
                &result.unwrap_err().to_string(),
                &["exit status: 9", "sent 3 times"],
            ),
            _ => check_own(number, &result.unwrap()),
        }
    }
}

#[tokio::test]
async fn a_hanging_request_fails_and_the_others_are_sent_again() {
    let mut settings = settings(&["hang-on", "1"]);
    (settings.in_flight, settings.timeout) = (4, Duration::from_secs(1));
    let executor = Arc::new(CommandExecutor::new(settings).unwrap());
    for (number, result) in all(&executor, 0..4).await {
        match number {
            1 => has(
                &result.unwrap_err().to_string(),
                &["did not answer", "within 1 s", "executor.timeout"],
            ),
            _ => check_own(number, &result.unwrap()),
        }
    }
    assert_eq!(executor.health().starts, 2);
}

#[tokio::test]
async fn half_a_line_was_never_said() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let executor = executor(&["half-a-line-once", mark.to_str().unwrap()]);
    check_own(5, &executor.execute(&request(5)).await.unwrap());
    let health = executor.health();
    assert_eq!((health.starts, health.answers, health.violations), (2, 1, 0));
}

#[tokio::test]
async fn garbage_between_answers_is_counted_and_ignored() {
    let executor = executor(&["garbage-around"]);
    check_own(5, &executor.execute(&request(5)).await.unwrap());
    let health = executor.health();
    assert_eq!((health.violations, health.answers), (3, 1));
    has(&health.last_violation.unwrap(), &["is not JSON"]);
}

#[tokio::test]
async fn a_flood_of_garbage_is_stopped_long_before_the_time_is_up() {
    let mut settings = settings(&["garbage-flood"]);
    (settings.line_bytes_max, settings.crashes_max) = (1 << 10, 2);
    let executor = CommandExecutor::new(settings).unwrap();
    has(
        &unavailable(&executor, 1).await,
        &["wrote 4096 bytes that are no answer", "all work and no play"],
    );
}

#[tokio::test]
async fn a_flood_on_stderr_blocks_nothing() {
    let executor = executor(&["stderr-flood"]);
    for number in 0..3 {
        check_own(number, &executor.execute(&request(number)).await.unwrap());
    }
}

#[tokio::test]
async fn a_second_answer_is_never_an_outcome() {
    let executor = executor(&["twice"]);
    for number in 1..10 {
        check_own(number, &executor.execute(&request(number)).await.unwrap());
    }
    let health = executor.health();
    assert!(health.violations >= 8, "{health:?}");
    has(&health.last_violation.unwrap(), &["unknown or already answered"]);
}

#[tokio::test]
async fn an_answer_for_nobody_is_never_an_outcome() {
    let executor = executor(&["unknown-id"]);
    check_own(7, &executor.execute(&request(7)).await.unwrap());
    assert_eq!(executor.health().violations, 1);
}

#[tokio::test]
async fn an_answer_out_of_range_fails_its_request_at_once() {
    for (fields, expected) in [
        (r#""performance":NaN,"cost":1"#, "is not JSON"),
        (r#""performance":1.01,"cost":1"#, "1.01 is outside [0, 1]"),
        (r#""performance":1,"cost":-3"#, "-3 is negative"),
        (r#""performance":1"#, r#""cost" is missing"#),
        (r#""performance":1,"cost":1,"error":"both""#, "both"),
    ] {
        let executor = executor(&["fields", fields]);
        has(
            &failure(&executor, 1).await,
            &["child answered wrongly", expected],
        );
        let health = executor.health();
        assert_eq!((health.starts, health.violations), (1, 1), "{fields}");
    }
}

#[tokio::test]
async fn an_error_is_the_executors_own_words() {
    let executor = executor(&["fields", r#""error":"the browser is gone""#]);
    assert_eq!(failure(&executor, 1).await, "the browser is gone");
    assert_eq!(executor.health().violations, 0);
}

#[tokio::test]
async fn a_line_without_an_end_is_stopped_at_its_limit() {
    let mut settings = settings(&["huge-line"]);
    (settings.line_bytes_max, settings.retries, settings.crashes_max) = (1 << 20, 1, 10);
    let executor = CommandExecutor::new(settings).unwrap();
    has(
        &failure(&executor, 1).await,
        &["wrote a line of more than 1048576 bytes"],
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_child_that_closes_its_output_but_lives_is_replaced() {
    let mut settings = CommandSettings::new("sh", ["-c", "read line; exec >&-; sleep 60"]);
    (settings.backoff, settings.crashes_max) = (Duration::from_millis(10), 2);
    let executor = CommandExecutor::new(settings).unwrap();
    let started = Instant::now();
    has(
        &unavailable(&executor, 1).await,
        &["closed its input or output but went on running"],
    );
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_child_that_ignores_the_end_of_its_input_is_killed_with_all_it_started() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut settings = settings(&["ignore-stdin-close", &address]);
    settings.grace = Duration::from_millis(100);
    let executor = CommandExecutor::new(settings).unwrap();
    check_own(1, &executor.execute(&request(1)).await.unwrap());
    executor.shut_down().await;
    gone(listener).await;
}

#[tokio::test]
async fn what_a_crashed_child_started_ends_although_it_holds_the_output() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let executor = executor(&["leave-grandchild", &address]);
    check_own(1, &executor.execute(&request(1)).await.unwrap());
    gone(listener).await;
    check_own(2, &executor.execute(&request(2)).await.unwrap());
}

#[test]
fn a_runtime_that_goes_away_leaves_no_child() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let executor = executor(&["ignore-stdin-close", &address]);
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let first = runtime();
    first.block_on(async { check_own(1, &executor.execute(&request(1)).await.unwrap()) });
    first.shutdown_background();
    runtime().block_on(gone(listener));
}

#[tokio::test]
async fn shutting_down_waits_for_answers_that_come_in_time() {
    let executor = Arc::new(executor(&["slow", "300"]));
    let asked = {
        let executor = Arc::clone(&executor);
        tokio::spawn(async move { executor.execute(&request(4)).await })
    };
    tokio::time::sleep(Duration::from_millis(150)).await;
    executor.shut_down().await;
    check_own(4, &asked.await.unwrap().unwrap());
}

/// Drops the call after a moment, as a caller that gives up does.
async fn abandon<F: Future>(call: F) {
    assert!(
        tokio::time::timeout(Duration::from_millis(100), call)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_call_that_is_dropped_confuses_no_later_answer() {
    let mut settings = settings(&["slow", "400"]);
    settings.in_flight = 2;
    let executor = CommandExecutor::new(settings).unwrap();
    abandon(executor.execute(&request(1))).await;
    abandon(executor.execute(&request(2))).await;
    // Both places are taken by what nobody waits for any more; the third gets one when the child is done.
    check_own(3, &executor.execute(&request(3)).await.unwrap());
    let health = executor.health();
    assert_eq!((health.answers, health.violations, health.starts), (3, 0, 1));
}

#[tokio::test]
async fn the_same_request_asked_again_takes_over_what_is_being_done() {
    let executor = Arc::new(executor(&["slow", "2000"]));
    abandon(executor.execute(&request(1))).await;
    let again = {
        let executor = Arc::clone(&executor);
        tokio::spawn(async move { executor.execute(&request(1)).await })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    has(&failure(&executor, 1).await, &["already being executed"]);
    check_own(1, &again.await.unwrap().unwrap());
    assert_eq!(executor.health().answers, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]
    #[test]
    fn any_order_of_answers_gives_every_request_its_own(count in 1..40_u32, seed: u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut settings = settings(&["shuffle", &count.to_string(), &seed.to_string()]);
            settings.in_flight = 40;
            let executor = Arc::new(CommandExecutor::new(settings).unwrap());
            for (number, result) in all(&executor, 0..count).await {
                check_own(number, &result.unwrap());
            }
            assert_eq!(executor.health().violations, 0);
            executor.shut_down().await;
        });
    }
}
