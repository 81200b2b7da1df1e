//! Traces, taken by a collector on loopback.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::mpsc,
    time::Duration,
};

use axum::{
    body::Body,
    http::{Request, header},
};
use serde_json::{Value, json};
use support::{Server, Wanted, server};
use upliftmem_server::ServerSettings;

/// Takes traces until it is dropped with the test; each body and its path.
fn collector() -> (String, mpsc::Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let (to, from) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            loop {
                let (mut path, mut length) = (String::new(), 0);
                let mut line = String::new();
                while reader.read_line(&mut line).unwrap_or(0) > 0 && line != "\r\n" {
                    if path.is_empty() {
                        path = line.split(' ').nth(1).unwrap().to_owned();
                    }
                    let lower = line.to_lowercase();
                    if let Some(value) = lower.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                if path.is_empty() {
                    break;
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
                if to.send((path, serde_json::from_slice(&body).unwrap())).is_err() {
                    return;
                }
            }
        }
    });
    (url, from)
}

async fn traced(url: &str, content: bool) -> Server {
    let settings = ServerSettings {
        otlp_url: url.to_owned(),
        otlp_content: content,
        ..ServerSettings::default()
    };
    server(Wanted {
        settings,
        ..Wanted::default()
    })
    .await
}

async fn search(server: &Server, traceparent: Option<&str>) {
    server
        .post("/v1/memories", &json!({ "text": "the secret kettle" }))
        .await
        .ok();
    let mut request = Request::post("/v1/memories/search").header(header::CONTENT_TYPE, "application/json");
    if let Some(parent) = traceparent {
        request = request.header("traceparent", parent);
    }
    let body = json!({ "query": "where is the secret kettle" }).to_string();
    server.send(request.body(Body::from(body)).unwrap()).await.ok();
}

/// Every span that came until one of this name did.
fn spans_until(from: &mpsc::Receiver<(String, Value)>, name: &str) -> Vec<Value> {
    let mut spans = Vec::new();
    while !spans.iter().any(|span: &Value| span["name"] == name) {
        let (path, body) = from.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(path, "/v1/traces");
        let resource = &body["resourceSpans"][0];
        assert_eq!(
            resource["resource"]["attributes"][0],
            json!({ "key": "service.name", "value": { "stringValue": "upliftmem" } })
        );
        spans.extend(resource["scopeSpans"][0]["spans"].as_array().unwrap().clone());
    }
    spans
}

#[tokio::test]
async fn a_search_is_a_span_of_its_callers_trace_and_says_nothing_of_its_content() {
    let (url, from) = collector();
    let server = traced(&url, false).await;
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    search(&server, Some(&format!("00-{trace}-{parent}-01"))).await;
    let spans = spans_until(&from, "POST /v1/memories/search");
    let whole = serde_json::to_string(&spans).unwrap();
    assert!(!whole.contains("kettle"), "{whole}");
    let root = spans
        .iter()
        .find(|span| span["name"] == "POST /v1/memories/search")
        .unwrap();
    assert_eq!(
        (&root["traceId"], &root["parentSpanId"]),
        (&json!(trace), &json!(parent))
    );
    assert_eq!(root["kind"], 2);
    let attributes = root["attributes"].as_array().unwrap();
    let value = |key: &str| {
        attributes
            .iter()
            .find(|found| found["key"] == key)
            .map(|found| &found["value"])
    };
    assert_eq!(
        value("http.response.status_code"),
        Some(&json!({ "intValue": "200" }))
    );
    assert_eq!(
        value("http.route"),
        Some(&json!({ "stringValue": "/v1/memories/search" }))
    );
    assert!(value("upliftmem.abstained").is_some());
    let steps: Vec<&Value> = spans
        .iter()
        .filter(|span| span["parentSpanId"] == root["spanId"])
        .collect();
    let names: Vec<&str> = steps.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["embed", "recall", "search sets"]);
    let nanos = |span: &Value, end: &str| span[end].as_str().unwrap().parse::<u128>().unwrap();
    for span in &spans {
        assert!(nanos(span, "startTimeUnixNano") <= nanos(span, "endTimeUnixNano"));
    }
    drop(server);
}

#[tokio::test]
async fn content_is_there_if_it_is_asked_for() {
    let (url, from) = collector();
    let server = traced(&url, true).await;
    search(&server, None).await;
    let spans = spans_until(&from, "POST /v1/memories/search");
    let whole = serde_json::to_string(&spans).unwrap();
    assert!(whole.contains("where is the secret kettle"), "{whole}");
}

#[tokio::test]
async fn a_caller_that_does_not_sample_has_no_spans_and_a_collector_that_is_away_stops_nobody() {
    let (url, from) = collector();
    let server = traced(&url, false).await;
    let unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    search(&server, Some(unsampled)).await;
    server.get("/healthz").await;
    let names: Vec<Value> = spans_until(&from, "GET /healthz")
        .into_iter()
        .map(|mut span| span["name"].take())
        .collect();
    assert!(!names.contains(&json!("POST /v1/memories/search")), "{names:?}");

    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let server = traced(&format!("http://{address}/v1/traces"), false).await;
    search(&server, None).await;
    for _ in 0..100 {
        let metrics = server.get("/metrics").await;
        let text = String::from_utf8(metrics.body).unwrap();
        if !text.contains("upliftmem_spans_dropped 0") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("spans that nobody took were not counted");
}
