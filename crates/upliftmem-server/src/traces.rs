//! OpenTelemetry: a span for every request, sent to a collector as OTLP over HTTP in JSON.
//!
//! A request that comes with a `traceparent` is part of its caller's trace. What is asked and answered is in no span unless
//! `otlp_content` is on. Spans that a collector does not take are dropped and counted: a server never waits for it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use axum::http::{HeaderMap, Method, StatusCode};
use rand::TryRng;
use serde_json::{Value, json};

use crate::settings::ServerSettings;

/// Spans that wait to be sent.
const WAITING_MAX: usize = 4_096;
/// Spans that are sent together, and how long the first of them waits for others.
const TOGETHER_MAX: usize = 512;
const TOGETHER: Duration = Duration::from_millis(500);
/// Time for a collector to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Characters of a text in a span.
const CONTENT_MAX: usize = 2_000;

/// The way to a collector.
pub(crate) struct Traces {
    content: bool,
    queue: Option<mpsc::SyncSender<Value>>,
    sender: Option<JoinHandle<()>>,
    dropped: Arc<AtomicU64>,
}

impl Traces {
    /// Starts sending, if the settings name a collector. `headers` go with every request to it.
    pub(crate) fn start(settings: &ServerSettings, headers: Vec<(String, String)>) -> Option<Self> {
        if settings.otlp_url.is_empty() {
            return None;
        }
        let (queue, spans) = mpsc::sync_channel(WAITING_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let collector = Collector {
            url: settings.otlp_url.clone(),
            headers,
            // As everywhere: the environment names no proxy.
            agent: ureq::Agent::config_builder()
                .proxy(None)
                .timeout_global(Some(PATIENCE))
                .build()
                .into(),
            dropped: Arc::clone(&dropped),
        };
        let sender = std::thread::Builder::new()
            .name("upliftmem-otlp".into())
            .spawn(move || collector.send_all(&spans))
            .inspect_err(|error| tracing::warn!(%error, "traces are not sent"))
            .ok();
        Some(Self {
            content: settings.otlp_content,
            queue: Some(queue),
            sender,
            dropped,
        })
    }

    /// Spans that were lost.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Begins the span of a request; one whose caller does not sample it has none.
    pub(crate) fn begin(&self, headers: &HeaderMap) -> Trace {
        let parent = headers
            .get("traceparent")
            .and_then(|value| value.to_str().ok())
            .and_then(parent_of);
        let (trace, parent) = match parent {
            Some((_, _, false)) => return Trace::default(),
            Some((trace, span, true)) => (trace, Some(span)),
            None => (random_hex(16), None),
        };
        Trace(Some(Arc::new(Mutex::new(Open {
            trace,
            span: random_hex(8),
            parent,
            began: SystemTime::now(),
            attributes: Vec::new(),
            steps: Vec::new(),
            content: self.content,
        }))))
    }

    /// Ends the span of a request and sends it with its steps.
    pub(crate) fn end(&self, trace: &Trace, id: &str, method: &Method, route: &str, status: StatusCode) {
        let Some(open) = &trace.0 else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut attributes = vec![
            attribute("http.request.method", json!(method.as_str())),
            attribute("http.route", json!(route)),
            attribute("http.response.status_code", json!(status.as_u16())),
            attribute("upliftmem.request_id", json!(id)),
        ];
        attributes.append(&mut open.attributes);
        let mut span = json!({
            "traceId": open.trace,
            "spanId": open.span,
            "name": format!("{method} {route}"),
            "kind": 2,
            "startTimeUnixNano": nanos(open.began),
            "endTimeUnixNano": nanos(SystemTime::now()),
            "attributes": attributes,
            "status": { "code": if status.is_server_error() { 2 } else { 0 } },
        });
        if let Some(parent) = &open.parent {
            span["parentSpanId"] = json!(parent);
        }
        let steps = std::mem::take(&mut open.steps);
        for span in steps.into_iter().chain([span]) {
            let sent = self
                .queue
                .as_ref()
                .is_some_and(|queue| queue.try_send(span).is_ok());
            if !sent {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // The sender ends after the last span; its patience bounds the wait.
        self.queue = None;
        if let Some(sender) = self.sender.take() {
            drop(sender.join());
        }
    }
}

/// The span of the request that is being answered; nothing if it has none.
#[derive(Clone, Default)]
pub(crate) struct Trace(Option<Arc<Mutex<Open>>>);

struct Open {
    trace: String,
    span: String,
    parent: Option<String>,
    began: SystemTime,
    attributes: Vec<Value>,
    steps: Vec<Value>,
    content: bool,
}

impl Trace {
    /// Notes a number or a word that is no content.
    pub(crate) fn note(&self, key: &str, value: Value) {
        if let Some(open) = &self.0 {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            open.attributes.push(attribute(key, value));
        }
    }

    /// Notes a text, if texts are wanted.
    pub(crate) fn content(&self, key: &str, text: &str) {
        if let Some(open) = &self.0 {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            if open.content {
                let text: String = text.chars().take(CONTENT_MAX).collect();
                open.attributes.push(attribute(key, json!(text)));
            }
        }
    }

    /// Notes steps that followed each other and took so many milliseconds each, the first from `began` on.
    pub(crate) fn steps(&self, began: SystemTime, steps: &[(&str, f64)]) {
        let Some(open) = &self.0 else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at = began;
        for (name, milliseconds) in steps {
            let end = at + Duration::from_secs_f64((milliseconds / 1e3).clamp(0.0, 3_600.0));
            let span = json!({
                "traceId": open.trace,
                "spanId": random_hex(8),
                "parentSpanId": open.span,
                "name": name,
                "kind": 1,
                "startTimeUnixNano": nanos(at),
                "endTimeUnixNano": nanos(end),
            });
            open.steps.push(span);
            at = end;
        }
    }
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(if self.0.is_some() {
            "Trace(..)"
        } else {
            "Trace(none)"
        })
    }
}

/// Where spans go.
struct Collector {
    url: String,
    headers: Vec<(String, String)>,
    agent: ureq::Agent,
    dropped: Arc<AtomicU64>,
}

impl Collector {
    fn send_all(&self, spans: &mpsc::Receiver<Value>) {
        let mut told = false;
        while let Ok(first) = spans.recv() {
            let mut together = vec![first];
            // However many come, the first waits no longer than this.
            let until = Instant::now() + TOGETHER;
            while together.len() < TOGETHER_MAX
                && let Ok(next) = spans.recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                together.push(next);
            }
            let count = together.len() as u64;
            match self.send(&together) {
                Ok(()) => told = false,
                Err(error) => {
                    self.dropped.fetch_add(count, Ordering::Relaxed);
                    if !told {
                        tracing::warn!(%error, "the collector at otlp_url takes no traces; they are dropped");
                    }
                    told = true;
                }
            }
        }
    }

    fn send(&self, spans: &[Value]) -> Result<(), ureq::Error> {
        let service = [
            attribute("service.name", json!("upliftmem")),
            attribute("service.version", json!(env!("CARGO_PKG_VERSION"))),
        ];
        let body = json!({ "resourceSpans": [{
            "resource": { "attributes": service },
            "scopeSpans": [{ "scope": { "name": "upliftmem-server" }, "spans": spans }],
        }] });
        let mut request = self
            .agent
            .post(&self.url)
            .header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.send(body.to_string()).map(drop)
    }
}

fn attribute(key: &str, value: Value) -> Value {
    let value = match value {
        // 64-bit numbers are strings in JSON of protocol buffers.
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::Bool(word) => json!({ "boolValue": word }),
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    };
    json!({ "key": key, "value": value })
}

fn nanos(at: SystemTime) -> String {
    at.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos()
        .to_string()
}

fn random_hex(bytes: usize) -> String {
    let mut random = [0_u8; 16];
    if rand::rngs::SysRng.try_fill_bytes(&mut random).is_err() {
        random = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos().to_be_bytes();
    }
    let start = 16 - bytes.min(16);
    random[start..].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The trace, the span and whether it is sampled, of a `traceparent` as the W3C writes it.
fn parent_of(text: &str) -> Option<(String, String, bool)> {
    let mut parts = text.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, length: usize| {
        text.len() == length
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let good = hex(version, 2)
        && version != "ff"
        && hex(trace, 32)
        && trace.bytes().any(|b| b != b'0')
        && hex(span, 16)
        && span.bytes().any(|b| b != b'0')
        && hex(flags, 2);
    let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
    good.then(|| (trace.to_owned(), span.to_owned(), sampled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_traceparent_is_followed() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let good = |flags: &str| parent_of(&format!("00-{trace}-{span}-{flags}"));
        assert_eq!(good("01"), Some((trace.into(), span.into(), true)));
        assert_eq!(good("00").map(|parent| parent.2), Some(false));
        for bad in [
            String::new(),
            format!("00-{trace}-{span}"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{trace}-{span}-zz"),
        ] {
            assert_eq!(parent_of(&bad), None, "{bad:?}");
        }
    }
}
