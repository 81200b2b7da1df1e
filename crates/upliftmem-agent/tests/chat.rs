//! An endpoint that speaks OpenAI's protocol, and the ways in which it may not. It is a real server on the loopback interface.
#![allow(clippy::unwrap_used)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use upliftmem_agent::chat::{
    ChatError, ChatMessage, ChatModel, ChatReply, ChatRequest, Finish, OpenAiChat, OpenAiSettings,
    ReplyCache, Sampling,
};

/// What the endpoint does with one request.
type Behaviour = Box<dyn Fn(&mut TcpStream) + Send + Sync>;

/// An endpoint that follows a script; the last entry is for all further requests.
struct Endpoint {
    url: String,
    seen: Arc<Mutex<Vec<(Instant, String, Value)>>>,
}

impl Endpoint {
    fn new(script: Vec<Behaviour>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (script, record) = (Arc::new(script), Arc::clone(&seen));
        // The thread ends with the test's process.
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (script, record) = (Arc::clone(&script), Arc::clone(&record));
                thread::spawn(move || {
                    let mut connection = connection.unwrap();
                    let (head, body) = receive(&connection);
                    let number = {
                        let mut record = record.lock().unwrap();
                        record.push((Instant::now(), head, body));
                        record.len() - 1
                    };
                    script[number.min(script.len() - 1)](&mut connection);
                });
            }
        });
        Self { url, seen }
    }

    fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    fn settings(&self) -> OpenAiSettings {
        let mut settings = OpenAiSettings::new(&self.url, "tiny");
        settings.timeout = Duration::from_secs(20);
        settings.backoff = Duration::from_millis(20);
        settings.backoff_max = Duration::from_secs(5);
        settings.retries = 3;
        settings
    }

    fn model(&self) -> OpenAiChat {
        OpenAiChat::new(self.settings()).unwrap()
    }
}

fn receive(connection: &TcpStream) -> (String, Value) {
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0);
    }
    let length = head
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
    (head, serde_json::from_slice(&body).unwrap())
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

fn says(text: &'static str) -> Behaviour {
    Box::new(move |connection| {
        let answer = json!({
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 3},
        });
        respond(connection, "200 OK", "", &answer.to_string());
    })
}

fn answers(status: &'static str, headers: &'static str, body: &'static str) -> Behaviour {
    Box::new(move |connection| respond(connection, status, headers, body))
}

fn question() -> ChatRequest {
    ChatRequest {
        messages: vec![ChatMessage::system("Be brief."), ChatMessage::user("Who?")],
        sampling: Sampling {
            stop: vec!["\n".into()],
            seed: 7,
            ..Sampling::default()
        },
    }
}

async fn ask(endpoint: &Endpoint) -> Result<ChatReply, ChatError> {
    endpoint.model().chat(&question()).await
}

#[tokio::test]
async fn a_request_is_what_the_protocol_says() {
    let endpoint = Endpoint::new(vec![says("Mara.")]);
    let mut settings = endpoint.settings();
    settings.key = Some("s3cret".into());
    settings.extra.insert("think".into(), json!(false));
    let reply = OpenAiChat::new(settings)
        .unwrap()
        .chat(&question())
        .await
        .unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("Mara.", Finish::Stop));
    assert_eq!(
        (reply.usage.prompt_tokens, reply.usage.completion_tokens),
        (11, 3)
    );
    let seen = endpoint.seen.lock().unwrap();
    let (_, head, body) = &seen[0];
    assert!(head.starts_with("POST /v1/chat/completions "), "{head}");
    assert!(
        head.to_lowercase().contains("authorization: bearer s3cret"),
        "{head}"
    );
    assert_eq!(
        *body,
        json!({
            "model": "tiny", "stream": false, "temperature": 0.0, "top_p": 1.0, "max_tokens": 256, "seed": 3,
            "stop": ["\n"], "think": false,
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}],
        })
    );
}

#[tokio::test]
async fn what_passes_is_waited_out() {
    let endpoint = Endpoint::new(vec![
        answers("500 Internal Server Error", "", "oops"),
        answers("200 OK", "", r#"{"choices":[{"message":{"content":"Ma"#),
        answers("200 OK", "", r#"{"choices":[]}"#),
        says("Mara."),
    ]);
    assert_eq!(ask(&endpoint).await.unwrap().text, "Mara.");
    assert_eq!(endpoint.requests(), 4);
}

#[tokio::test]
async fn a_rate_limit_is_kept_to_as_long_as_it_says() {
    let endpoint = Endpoint::new(vec![
        answers("429 Too Many Requests", "retry-after: 1\r\n", "slow down"),
        says("Mara."),
    ]);
    assert_eq!(ask(&endpoint).await.unwrap().text, "Mara.");
    let seen = endpoint.seen.lock().unwrap();
    assert!(seen[1].0 - seen[0].0 >= Duration::from_millis(990));
}

#[tokio::test]
async fn an_endpoint_that_asks_for_too_much_patience_is_not_waited_for() {
    let endpoint = Endpoint::new(vec![answers(
        "429 Too Many Requests",
        "retry-after: 3600\r\n",
        "",
    )]);
    let error = ask(&endpoint).await.unwrap_err();
    assert!(matches!(error, ChatError::Unavailable(_)), "{error:?}");
    for part in ["3600 s", "chat.url", "same command again"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(endpoint.requests(), 1);
}

#[tokio::test]
async fn an_empty_account_is_the_owners_business_and_not_waited_for() {
    let body = r#"{"error":{"message":"You exceeded your current quota.","code":"insufficient_quota"}}"#;
    for status in ["429 Too Many Requests", "402 Payment Required"] {
        let endpoint = Endpoint::new(vec![answers(status, "", body)]);
        let error = ask(&endpoint).await.unwrap_err();
        assert!(matches!(error, ChatError::Unavailable(_)), "{error:?}");
        assert!(error.to_string().contains("key"), "{error}");
        assert_eq!(endpoint.requests(), 1);
    }
}

#[tokio::test]
async fn a_late_answer_is_asked_for_again() {
    let late: Behaviour = Box::new(|connection| {
        thread::sleep(Duration::from_secs(3));
        respond(connection, "200 OK", "", "{}");
    });
    let endpoint = Endpoint::new(vec![late, says("Mara.")]);
    let mut settings = endpoint.settings();
    settings.timeout = Duration::from_millis(500);
    let reply = OpenAiChat::new(settings)
        .unwrap()
        .chat(&question())
        .await
        .unwrap();
    assert_eq!(reply.text, "Mara.");
}

#[tokio::test]
async fn an_endpoint_that_is_away_stops_the_run() {
    for status in [
        "503 Service Unavailable",
        "502 Bad Gateway",
        "429 Too Many Requests",
    ] {
        let endpoint = Endpoint::new(vec![answers(status, "", "busy")]);
        let error = ask(&endpoint).await.unwrap_err();
        assert!(matches!(error, ChatError::Unavailable(_)), "{error:?}");
        assert!(error.to_string().contains("4 attempts"), "{error}");
        assert_eq!(endpoint.requests(), 4);
    }
}

#[tokio::test]
async fn a_request_that_the_endpoint_fails_at_is_given_up_alone() {
    let endpoint = Endpoint::new(vec![answers("500 Internal Server Error", "", "oops")]);
    let error = ask(&endpoint).await.unwrap_err();
    assert!(matches!(error, ChatError::Failed(_)), "{error:?}");
    assert!(error.to_string().contains("4 attempts"), "{error}");
    assert_eq!(endpoint.requests(), 4);
}

#[tokio::test]
async fn an_endpoint_that_fails_at_everything_stops_the_run() {
    let oops = || answers("500 Internal Server Error", "", "oops");
    let endpoint = Endpoint::new(vec![oops(), oops(), oops(), says("Mara."), oops()]);
    let mut settings = endpoint.settings();
    settings.retries = 0;
    let model = OpenAiChat::new(settings).unwrap();
    let mut ended = Vec::new();
    for seed in 0..8 {
        let mut asked = question();
        // The lowest bit is not sent.
        asked.sampling.seed = 2 * seed;
        ended.push(match model.chat(&asked).await {
            Ok(_) => "answered",
            Err(ChatError::Failed(_)) => "failed",
            Err(ChatError::Unavailable(problem)) => {
                assert!(problem.contains("4 requests"), "{problem}");
                "unavailable"
            }
            Err(other) => panic!("{other}"),
        });
    }
    let failed = "failed";
    assert_eq!(ended[..4], [failed, failed, failed, "answered"]);
    assert_eq!(ended[4..], [failed, failed, failed, "unavailable"]);
}

#[tokio::test]
async fn one_request_that_fails_again_and_again_is_no_sign_of_an_endpoint_that_does() {
    let endpoint = Endpoint::new(vec![answers("500 Internal Server Error", "", "oops")]);
    let mut settings = endpoint.settings();
    settings.retries = 0;
    let model = OpenAiChat::new(settings).unwrap();
    for _ in 0..6 {
        let error = model.chat(&question()).await.unwrap_err();
        assert!(matches!(error, ChatError::Failed(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_wrong_key_is_the_owners_business_and_is_not_shown() {
    let endpoint = Endpoint::new(vec![answers("401 Unauthorized", "", "bad key")]);
    let mut settings = endpoint.settings();
    settings.key = Some("s3cret".into());
    let error = OpenAiChat::new(settings)
        .unwrap()
        .chat(&question())
        .await
        .unwrap_err();
    assert!(matches!(error, ChatError::Unavailable(_)), "{error:?}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    assert_eq!(endpoint.requests(), 1);
}

#[tokio::test]
async fn nobody_there_is_said_with_the_way_out() {
    let endpoint = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/v1", listener.local_addr().unwrap())
    };
    let mut settings = OpenAiSettings::new(endpoint, "tiny");
    settings.backoff = Duration::from_millis(5);
    settings.retries = 1;
    let error = OpenAiChat::new(settings)
        .unwrap()
        .chat(&question())
        .await
        .unwrap_err();
    assert!(matches!(error, ChatError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains("chat.url"), "{error}");
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_told_apart() {
    let body = r#"{"error":{"code":"context_length_exceeded","message":"maximum context length is 8192"}}"#;
    let endpoint = Endpoint::new(vec![answers("400 Bad Request", "", body)]);
    let error = ask(&endpoint).await.unwrap_err();
    assert!(matches!(error, ChatError::TooLong(_)), "{error:?}");
}

#[tokio::test]
async fn what_was_paid_for_is_not_paid_for_again() {
    let place = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(vec![says("Mara."), says("Somebody else.")]);
    let model = || {
        let mut settings = endpoint.settings();
        settings.replies = Some(ReplyCache::new(place.path()));
        OpenAiChat::new(settings).unwrap()
    };
    assert_eq!(model().chat(&question()).await.unwrap().text, "Mara.");
    assert_eq!(model().chat(&question()).await.unwrap().text, "Mara.");
    assert_eq!(endpoint.requests(), 1);
    let mut other = question();
    other.sampling.seed = 900;
    assert_eq!(model().chat(&other).await.unwrap().text, "Somebody else.");
}

/// What endpoints answer with where a model thought and said nothing.
fn nothing(finish: &'static str) -> Behaviour {
    Box::new(move |connection| {
        let answer = json!({
            "choices": [{"message": {"role": "assistant", "content": null}, "finish_reason": finish}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 256},
        });
        respond(connection, "200 OK", "", &answer.to_string());
    })
}

#[tokio::test]
async fn an_answer_that_was_cut_before_it_began_is_told_as_such_and_not_kept() {
    let place = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(vec![nothing("length"), says("Mara.")]);
    let mut settings = endpoint.settings();
    settings.replies = Some(ReplyCache::new(place.path()));
    let model = OpenAiChat::new(settings).unwrap();
    let cut = model.chat(&question()).await.unwrap();
    assert_eq!((cut.text.as_str(), cut.finish), ("", Finish::Length));
    let error = cut.said().unwrap_err().to_string();
    assert!(error.contains("256 tokens"), "{error}");
    assert_eq!(model.chat(&question()).await.unwrap().text, "Mara.");
    assert_eq!(model.chat(&question()).await.unwrap().text, "Mara.");
    assert_eq!(endpoint.requests(), 2);
}

#[tokio::test]
async fn an_answer_without_a_text_is_none() {
    let endpoint = Endpoint::new(vec![nothing("stop"), says("Mara.")]);
    assert_eq!(ask(&endpoint).await.unwrap().text, "Mara.");
    let endpoint = Endpoint::new(vec![nothing("stop")]);
    let error = ask(&endpoint).await.unwrap_err();
    assert!(matches!(error, ChatError::Failed(_)), "{error:?}");
    assert!(error.to_string().contains("without a text"), "{error}");
}

#[tokio::test]
async fn requests_keep_their_pace() {
    let endpoint = Endpoint::new(vec![says("Mara.")]);
    let mut settings = endpoint.settings();
    settings.requests_per_minute = 200;
    let model = OpenAiChat::new(settings).unwrap();
    // When the first one was sent at the earliest: a busy machine sees it later.
    let start = Instant::now();
    for _ in 0..3 {
        model.chat(&question()).await.unwrap();
    }
    let seen = endpoint.seen.lock().unwrap();
    assert!(seen[2].0 - start >= Duration::from_millis(590));
}

#[tokio::test]
async fn what_is_sent_again_keeps_the_pace_too() {
    let busy = || answers("503 Service Unavailable", "", "busy");
    let endpoint = Endpoint::new(vec![busy(), busy(), says("Mara.")]);
    let mut settings = endpoint.settings();
    settings.requests_per_minute = 100;
    let start = Instant::now();
    OpenAiChat::new(settings)
        .unwrap()
        .chat(&question())
        .await
        .unwrap();
    let seen = endpoint.seen.lock().unwrap();
    assert!(seen[2].0 - start >= Duration::from_millis(1190));
}

#[tokio::test]
async fn a_model_that_can_not_weigh_answers_says_so() {
    let endpoint = Endpoint::new(vec![says("Mara.")]);
    let error = endpoint
        .model()
        .choices(&question().messages, &["a".into(), "b".into()])
        .await
        .unwrap_err();
    assert!(matches!(error, ChatError::Unsupported(_)), "{error:?}");
}
