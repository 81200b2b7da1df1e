//! A service that behaves, and the ways in which it may not. The service is a real one on the loopback interface.
#![allow(clippy::unwrap_used)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use upliftmem_agent::{
    Execution, ExecutionRequest, Executor, ExecutorError, HttpExecutor, HttpExecutorSettings,
};
use upliftmem_core::{Purpose, RolloutId, Task};

/// What the service does with one request.
type Behaviour = Box<dyn Fn(&mut TcpStream, &Value) + Send + Sync>;

/// A service that follows a script, one entry for each request; the last entry is for all further ones.
struct Service {
    url: String,
    /// When each request came, with its headers.
    seen: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Service {
    fn new(script: Vec<Behaviour>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/run", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (script, record) = (Arc::new(script), Arc::clone(&seen));
        // The thread ends with the test's process.
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (script, record) = (Arc::clone(&script), Arc::clone(&record));
                thread::spawn(move || {
                    let mut connection = connection.unwrap();
                    let (headers, body) = receive(&connection);
                    let number = {
                        let mut record = record.lock().unwrap();
                        record.push((Instant::now(), headers));
                        record.len() - 1
                    };
                    script[number.min(script.len() - 1)](&mut connection, &body);
                });
            }
        });
        Self { url, seen }
    }

    fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// The time between the first two requests.
    fn gap(&self) -> Duration {
        let seen = self.seen.lock().unwrap();
        seen[1].0 - seen[0].0
    }

    fn executor(&self) -> HttpExecutor {
        self.with(|_| ())
    }

    fn with(&self, change: impl FnOnce(&mut HttpExecutorSettings)) -> HttpExecutor {
        let mut settings = HttpExecutorSettings::new(self.url.clone());
        settings.timeout = Duration::from_secs(20);
        settings.backoff = Duration::from_millis(20);
        settings.backoff_max = Duration::from_secs(5);
        settings.retries = 2;
        change(&mut settings);
        HttpExecutor::new(settings).unwrap()
    }
}

fn receive(connection: &TcpStream) -> (String, Value) {
    let mut reader = BufReader::new(connection);
    let mut headers = String::new();
    while !headers.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut headers).unwrap(), 0);
    }
    let length = headers
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("content-length:")?
                .trim()
                .parse()
                .ok()
        })
        .unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (headers, serde_json::from_slice(&body).unwrap())
}

fn respond(connection: &mut TcpStream, status: &str, headers: &str, body: &str) {
    // The client may have gone away; that is its right.
    write!(
        connection,
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
    .ok();
}

fn fixed(status: &'static str, headers: &'static str, body: &'static str) -> Behaviour {
    Box::new(move |connection, _| respond(connection, status, headers, body))
}

fn good() -> Behaviour {
    Box::new(|connection, request| {
        let number: f64 = request["task"]["id"].as_str().unwrap().parse().unwrap();
        let answer = json!({"v": 1, "id": request["id"], "performance": number / 1000.0, "cost": number});
        respond(connection, "200 OK", "", &answer.to_string());
    })
}

/// Answers with the request's id and these fields.
fn fields(fields: &'static str) -> Behaviour {
    Box::new(move |connection, request| {
        let answer = format!(r#"{{"v":1,"id":{},{fields}}}"#, request["id"]);
        respond(connection, "200 OK", "", &answer);
    })
}

fn request(number: u32) -> ExecutionRequest {
    ExecutionRequest {
        id: RolloutId::from_u128(1000 + u128::from(number)),
        task: Task::new(number.to_string(), "Do it."),
        memories: Vec::new(),
        seed: 1,
        purpose: Purpose::Reference,
    }
}

fn check_own(number: u32, result: Result<Execution, ExecutorError>) {
    assert_eq!(result.unwrap().cost.get(), f64::from(number));
}

async fn check_failed(executor: &HttpExecutor, parts: &[&str]) {
    match executor.execute(&request(1)).await {
        Err(ExecutorError::Failed(message)) => has(&message, parts),
        other => panic!("{other:?}"),
    }
}

async fn check_unavailable(executor: &HttpExecutor, parts: &[&str]) {
    match executor.execute(&request(1)).await {
        Err(ExecutorError::Unavailable(message)) => has(&message, parts),
        other => panic!("{other:?}"),
    }
}

fn has(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

#[tokio::test]
async fn a_good_service_answers_with_everything_sent_along() {
    let service = Service::new(vec![good()]);
    let executor = service.with(|settings| {
        settings
            .headers
            .insert("authorization".into(), "Bearer key".into());
    });
    assert_eq!(executor.name(), format!("http:{}", service.url));
    check_own(7, executor.execute(&request(7)).await);
    let headers = service.seen.lock().unwrap()[0].1.to_ascii_lowercase();
    has(
        &headers,
        &[
            "post /run http/1.1",
            "authorization: bearer key",
            "content-type: application/json",
        ],
    );
}

#[tokio::test]
async fn no_more_requests_are_open_than_allowed_and_each_gets_its_own_answer() {
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counting = {
        let (open, most, good) = (Arc::clone(&open), Arc::clone(&most), good());
        Box::new(move |connection: &mut TcpStream, request: &Value| {
            most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(30));
            open.fetch_sub(1, Ordering::SeqCst);
            good(connection, request);
        })
    };
    let service = Service::new(vec![counting]);
    let executor = Arc::new(service.with(|settings| settings.concurrency = 3));
    let asked: Vec<_> = (0..12)
        .map(|number| {
            let executor = Arc::clone(&executor);
            (
                number,
                tokio::spawn(async move { executor.execute(&request(number)).await }),
            )
        })
        .collect();
    for (number, result) in asked {
        check_own(number, result.await.unwrap());
    }
    assert!((2..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
}

#[tokio::test]
async fn a_passing_failure_is_tried_again() {
    let service = Service::new(vec![
        fixed("500 Internal Server Error", "", "out of luck"),
        Box::new(|_, _| ()),
        good(),
    ]);
    check_own(5, service.executor().execute(&request(5)).await);
    assert_eq!(service.requests(), 3);
}

#[tokio::test]
async fn a_lasting_failure_is_told_with_its_words() {
    let service = Service::new(vec![fixed("500 Internal Server Error", "", "out of luck")]);
    check_failed(
        &service.executor(),
        &["500", "out of luck", "gave up after 3 attempts"],
    )
    .await;
    assert_eq!(service.requests(), 3);
}

#[tokio::test]
async fn a_request_that_the_service_refuses_is_not_repeated() {
    let service = Service::new(vec![fixed("422 Unprocessable Entity", "", "no such task")]);
    check_failed(&service.executor(), &["422", "no such task"]).await;
    assert_eq!(service.requests(), 1);
}

#[tokio::test]
async fn what_only_the_owner_can_mend_makes_the_executor_unavailable() {
    for status in ["401 Unauthorized", "404 Not Found", "302 Found"] {
        let service = Service::new(vec![fixed(status, "location: http://127.0.0.1:1/\r\n", "")]);
        check_unavailable(&service.executor(), &[&status[..3], "check executor.url"]).await;
        assert_eq!(service.requests(), 1);
    }
}

#[tokio::test]
async fn nobody_there_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://user:word@{}/", listener.local_addr().unwrap());
    drop(listener);
    let mut settings = HttpExecutorSettings::new(url);
    (settings.retries, settings.backoff) = (1, Duration::from_millis(10));
    let executor = HttpExecutor::new(settings).unwrap();
    check_unavailable(&executor, &["gave up after 2 attempts", "check executor.url"]).await;
    let message = executor.execute(&request(1)).await.unwrap_err().to_string();
    assert!(!message.contains("word"), "{message}");
}

#[tokio::test]
async fn a_service_that_asks_to_wait_is_waited_for() {
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let service = Service::new(vec![fixed(status, "retry-after: 1\r\n", ""), good()]);
        check_own(3, service.executor().execute(&request(3)).await);
        assert!(service.gap() >= Duration::from_secs(1), "{:?}", service.gap());
    }
}

#[tokio::test]
async fn a_service_that_stays_away_is_unavailable() {
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let service = Service::new(vec![fixed(status, "", "busy")]);
        check_unavailable(&service.executor(), &[&status[..3], "gave up after 3 attempts"]).await;
        assert_eq!(service.requests(), 3);
    }
}

#[tokio::test]
async fn a_wait_until_a_date_that_is_past_is_none_and_one_too_long_is_refused() {
    let past = "retry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
    let service = Service::new(vec![fixed("429 Too Many Requests", past, ""), good()]);
    check_own(3, service.executor().execute(&request(3)).await);
    let service = Service::new(vec![fixed("429 Too Many Requests", "retry-after: 3600\r\n", "")]);
    check_unavailable(
        &service.executor(),
        &[
            "429",
            "asks to wait 3600 s, the limit is 5 s",
            "same command again",
        ],
    )
    .await;
    assert_eq!(service.requests(), 1);
}

#[tokio::test]
async fn a_service_that_hangs_fails_the_request_and_is_not_asked_twice() {
    let service = Service::new(vec![Box::new(|_, _| thread::sleep(Duration::from_secs(30)))]);
    let executor = service.with(|settings| settings.timeout = Duration::from_millis(300));
    check_failed(&executor, &["timeout", "executor.timeout"]).await;
    assert_eq!(service.requests(), 1);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_answer() {
    let torn: Behaviour = Box::new(|connection, request| {
        let answer = json!({"v": 1, "id": request["id"], "performance": 1, "cost": 1}).to_string();
        write!(
            connection,
            "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n{answer}"
        )
        .unwrap();
    });
    let service = Service::new(vec![torn, good()]);
    check_own(9, service.executor().execute(&request(9)).await);
    assert_eq!(service.requests(), 2);
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let service = Service::new(vec![fields(
        r#""performance":1,"cost":1,"diagnostics":{"log":"0123456789012345678901234567890123456789"}"#,
    )]);
    let executor = service.with(|settings| settings.answer_bytes_max = 64);
    check_failed(&executor, &["more than 64 bytes"]).await;
    assert_eq!(service.requests(), 1);
}

#[tokio::test]
async fn an_answer_that_is_none_is_said_clearly() {
    for (behaviour, expected) in [
        (
            fixed("200 OK", "content-type: text/html\r\n", "<html>Welcome</html>"),
            "<html>Welcome</html>",
        ),
        (fixed("200 OK", "", ""), "is not JSON"),
        (fields(r#""performance":2,"cost":1"#), "2 is outside [0, 1]"),
        (fields(r#""performance":NaN,"cost":1"#), "is not JSON"),
        (
            fixed(
                "200 OK",
                "",
                r#"{"v":1,"id":"00000000-0000-0000-0000-0000000000ff","performance":1,"cost":1}"#,
            ),
            "for 00000000-0000-0000-0000-0000000000ff when asked for",
        ),
    ] {
        let service = Service::new(vec![behaviour]);
        check_failed(&service.executor(), &["answered wrongly", expected]).await;
        assert_eq!(service.requests(), 1);
    }
}

#[tokio::test]
async fn an_error_is_the_services_own_words() {
    let service = Service::new(vec![fields(r#""error":"the browser is gone""#)]);
    let result = service.executor().execute(&request(1)).await;
    assert_eq!(result, Err(ExecutorError::Failed("the browser is gone".into())));
}
