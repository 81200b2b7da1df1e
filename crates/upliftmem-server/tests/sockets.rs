//! The same on real sockets: keep-alive, TLS, a stop in good order, too many connections.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use support::{Wanted, server};
use tokio::sync::oneshot;
use upliftmem_server::{ServerSettings, TlsFiles, bind, listen, router};

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn start(wanted: Wanted, tls: Option<&TlsFiles>) -> Running {
    let server = server(wanted).await;
    let listening = bind("127.0.0.1:0", tls).await.unwrap();
    let address = listening.address().unwrap();
    let (stop, stopped) = oneshot::channel();
    let app = Arc::clone(&server.app);
    let ended = tokio::spawn(async move {
        let stop = async {
            let _ = stopped.await;
        };
        listen(&app, router(&app), listening, stop).await
    });
    Running { address, stop, ended }
}

/// One request on an open connection; the body of the answer.
fn exchange(stream: &mut (impl Read + Write), method: &str, path: &str, body: &str) -> (u16, String) {
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    answer_of(stream)
}

fn head_of(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

fn answer_of(stream: &mut impl Read) -> (u16, String) {
    let head = head_of(stream);
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap()
        .parse()
        .unwrap();
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).unwrap();
    (head[9..12].parse().unwrap(), String::from_utf8(answer).unwrap())
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_carries_many_requests_and_a_stop_is_orderly() {
    let running = start(Wanted::default(), None).await;
    let address = running.address;
    let work = tokio::task::spawn_blocking(move || {
        let mut stream = connect(address);
        for number in 0..20 {
            let body = json!({ "text": format!("memory {number}") }).to_string();
            let (status, answer) = exchange(&mut stream, "POST", "/v1/memories", &body);
            assert_eq!(status, 200, "{answer}");
        }
        let (_, page) = exchange(&mut stream, "GET", "/v1/memories?limit=100", "");
        let page: Value = serde_json::from_str(&page).unwrap();
        assert_eq!(page["results"].as_array().unwrap().len(), 20);
    });
    work.await.unwrap();
    // An idle connection does not hold up the stop.
    let idle = connect(address);
    running.stop.send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(10), running.ended).await;
    ended.unwrap().unwrap().unwrap();
    drop(idle);
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_under_way_is_finished_when_the_server_stops() {
    let running = start(Wanted::default(), None).await;
    let address = running.address;
    let (sent, was_sent) = std::sync::mpsc::channel();
    let (stop_sent, stopping) = std::sync::mpsc::channel();
    let work = tokio::task::spawn_blocking(move || {
        let memories: Vec<Value> = (0..900)
            .map(|n| json!({ "text": format!("memory number {n}") }))
            .collect();
        let body = json!({ "memories": memories }).to_string();
        let mut stream = connect(address);
        write!(
            stream,
            "POST /v1/memories/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .unwrap();
        // The server says so when it has begun to read the body.
        assert!(head_of(&mut stream).starts_with("http/1.1 100"));
        sent.send(()).unwrap();
        stopping.recv().unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        answer_of(&mut stream)
    });
    was_sent.recv().unwrap();
    running.stop.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    stop_sent.send(()).unwrap();
    running.ended.await.unwrap().unwrap();
    let (status, answer) = work.await.unwrap();
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_above_the_limit_are_closed_at_once() {
    let settings = ServerSettings {
        connections_max: 2,
        ..ServerSettings::default()
    };
    let running = start(
        Wanted {
            settings,
            ..Wanted::default()
        },
        None,
    )
    .await;
    let address = running.address;
    tokio::task::spawn_blocking(move || {
        let mut first = connect(address);
        let mut second = connect(address);
        assert_eq!(exchange(&mut first, "GET", "/healthz", "").0, 200);
        assert_eq!(exchange(&mut second, "GET", "/healthz", "").0, 200);
        let mut third = connect(address);
        let mut nothing = Vec::new();
        // A reset or an end, and no answer.
        let read = third.read_to_end(&mut nothing);
        assert!(read.is_err() || nothing.is_empty());
        let (_, metrics) = exchange(&mut first, "GET", "/metrics", "");
        assert!(
            metrics.contains("upliftmem_connections_refused_total 1"),
            "{metrics}"
        );
    })
    .await
    .unwrap();
    running.stop.send(()).unwrap();
    running.ended.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_when_files_are_given_and_bad_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let files = TlsFiles {
        certificate: directory.path().join("chain.pem"),
        key: directory.path().join("key.pem"),
    };
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    let running = start(Wanted::default(), Some(&files)).await;
    let address = running.address;
    let root = made.cert.der().clone();
    tokio::task::spawn_blocking(move || {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(root).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = rustls::StreamOwned::new(session, connect(address));
        assert_eq!(exchange(&mut stream, "GET", "/healthz", ""), (200, "ok\n".into()));
        // Plain text on the same port gets no answer and harms nobody.
        let mut plain = connect(address);
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = plain.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP"));
        assert_eq!(exchange(&mut stream, "GET", "/healthz", "").0, 200);
    })
    .await
    .unwrap();
    running.stop.send(()).unwrap();
    running.ended.await.unwrap().unwrap();

    std::fs::write(&files.key, "not a key").unwrap();
    let error = bind("127.0.0.1:0", Some(&files)).await.err().unwrap();
    assert!(error.to_string().contains("key.pem"), "{error}");
}

/// An upstream that answers every request with what it was sent.
fn echo() -> SocketAddr {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in socket.incoming() {
            let mut stream = stream.unwrap();
            let mut seen = Vec::new();
            let mut buffer = [0; 4_096];
            let (head, length) = loop {
                let read = stream.read(&mut buffer).unwrap();
                seen.extend_from_slice(&buffer[..read]);
                let text = String::from_utf8_lossy(&seen).into_owned();
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    let wanted = head
                        .to_lowercase()
                        .lines()
                        .find_map(|line| line.strip_prefix("content-length: ").map(|n| n.parse().unwrap()));
                    let wanted: usize = wanted.unwrap_or(0);
                    if body.len() >= wanted {
                        break (head.to_owned(), wanted);
                    }
                }
            };
            let body = &seen[seen.len() - length..];
            let authorized = head.to_lowercase().contains("authorization: bearer theirs");
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-authorized: {authorized}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(body).unwrap();
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_completions_are_forwarded_with_the_retrieval_named() {
    let settings = ServerSettings {
        upstream_url: format!("http://{}/v1/", echo()),
        ..ServerSettings::default()
    };
    let server = server(Wanted {
        settings,
        ..Wanted::default()
    })
    .await;
    server
        .post("/v1/memories", &json!({ "text": "the mug is blue" }))
        .await
        .ok();
    let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "where is the mug?" }] });
    let answer = server.post("/v1/chat/completions", &body).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    assert_eq!(answer.headers["x-upliftmem-abstained"], "true");
    let id = answer.headers["x-upliftmem-retrieval-id"]
        .to_str()
        .unwrap()
        .to_owned();
    assert_eq!(answer.json(), body, "nothing helps yet, so nothing is injected");
    let outcome = json!({ "retrieval_id": id, "success": false });
    assert_eq!(
        server.post("/v1/outcomes", &outcome).await.ok()["reference"],
        "self"
    );
    let silent = json!({ "messages": [{ "role": "system", "content": "x" }] });
    let answer = server.post("/v1/chat/completions", &silent).await;
    assert!(!answer.headers.contains_key("x-upliftmem-retrieval-id"));

    let nowhere = support::server(Wanted {
        settings: ServerSettings {
            upstream_url: "http://127.0.0.1:9".into(),
            ..ServerSettings::default()
        },
        ..Wanted::default()
    })
    .await;
    assert_eq!(
        nowhere.post("/v1/chat/completions", &body).await.code(),
        "upstream_failed"
    );
    let off = support::open_server().await;
    assert_eq!(
        off.post("/v1/chat/completions", &body).await.code(),
        "not_configured"
    );
}
