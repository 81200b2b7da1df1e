//! What keeps a server answering: a request's name, its time, how many at once, how many a second.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use rand::TryRng;
use tracing::Instrument;

use crate::{
    app::Shared,
    auth::Caller,
    error::{ApiError, Code, Result},
};

/// The header that names a request.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Callers whose pace is remembered.
const CALLERS_MAX: usize = 10_000;

/// How fast somebody may ask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// On average; 0 is as fast as they like.
    pub(crate) per_second: f64,
    /// At once, after a pause.
    pub(crate) burst: f64,
}

impl Pace {
    /// A pace whose burst is what comes in a second.
    pub(crate) fn steady(per_second: f64) -> Self {
        Self {
            per_second,
            burst: per_second.max(1.0),
        }
    }
}

struct Bucket {
    permits: f64,
    at: Instant,
    pace: Pace,
}

impl Bucket {
    fn refilled(&self, now: Instant) -> f64 {
        let more = now.duration_since(self.at).as_secs_f64() * self.pace.per_second;
        (self.permits + more).min(self.pace.burst)
    }
}

/// A bucket of permits for each name, refilled at a steady pace.
#[derive(Default)]
pub(crate) struct RateLimiter(Mutex<HashMap<String, Bucket>>);

impl RateLimiter {
    /// Takes a permit, or says after how many seconds there is one.
    pub(crate) fn take(&self, name: &str, pace: Pace) -> Result<(), u64> {
        self.take_at(name, pace, Instant::now())
    }

    fn take_at(&self, name: &str, pace: Pace, now: Instant) -> Result<(), u64> {
        if pace.per_second <= 0.0 {
            return Ok(());
        }
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= CALLERS_MAX && !buckets.contains_key(name) {
            buckets.retain(|_, bucket| bucket.refilled(now) < bucket.pace.burst);
        }
        let bucket = buckets.entry(name.to_owned()).or_insert(Bucket {
            permits: pace.burst,
            at: now,
            pace,
        });
        bucket.pace = pace;
        bucket.permits = bucket.refilled(now);
        bucket.at = now;
        if bucket.permits >= 1.0 {
            bucket.permits -= 1.0;
            return Ok(());
        }
        let wait = ((1.0 - bucket.permits) / pace.per_second).ceil();
        Err((wait as u64).max(1))
    }
}

/// Counts a request of a key, and of every tenant with a quota that the key belongs to.
pub(crate) fn keep_pace(app: &Shared, caller: &Caller) -> Result<()> {
    let settings = &app.settings;
    let own = Pace {
        per_second: settings.rate_per_second,
        burst: f64::from(settings.rate_burst.max(1)),
    };
    let refuse = |message: String, wait| {
        let mut error = ApiError::new(Code::RateLimited, message);
        error.retry_after = Some(wait);
        error
    };
    app.limiter.take(&caller.id, own).map_err(|wait| {
        let per_second = own.per_second;
        refuse(
            format!("more than {per_second} requests a second; slow down"),
            wait,
        )
    })?;
    for (tenant, per_second) in &caller.paces {
        let taken = app.tenants.take(tenant, Pace::steady(*per_second));
        taken.map_err(|wait| {
            let message = format!(
                "all keys of {tenant} together send more than {per_second} requests a second; slow down, or raise the \
                 quota with `upliftmem quotas set`"
            );
            refuse(message, wait)
        })?;
    }
    Ok(())
}

/// The outermost layer: names the request, turns it away early when there are too many, measures and logs it.
pub(crate) async fn admit(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let id = request_id(&request);
    let method = request.method().clone();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "unmatched".to_owned(), |path| path.as_str().to_owned());
    let span = tracing::info_span!("request", %id, %method, route);
    let trace = app.traces.as_ref().map(|traces| traces.begin(request.headers()));
    if let Some(trace) = &trace {
        request.extensions_mut().insert(trace.clone());
    }
    let began = Instant::now();
    let mut response = match host_allowed(&app, &request) {
        Err(error) => error.into_response(),
        Ok(()) => match std::sync::Arc::clone(&app.in_flight).try_acquire_owned() {
            Ok(permit) => {
                let response = next.run(request).instrument(span.clone()).await;
                drop(permit);
                response
            }
            Err(_) => ApiError::new(Code::Overloaded, "too many requests at once; try again").into_response(),
        },
    };
    let seconds = began.elapsed().as_secs_f64();
    let status = response.status();
    app.metrics.request(&method, &route, status, seconds);
    if let (Some(traces), Some(trace)) = (&app.traces, &trace) {
        traces.end(trace, &id, &method, &route, status);
    }
    span.in_scope(|| {
        tracing::info!(status = status.as_u16(), milliseconds = seconds * 1e3, "answered");
    });
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
        .headers_mut()
        .entry(header::X_CONTENT_TYPE_OPTIONS)
        .or_insert(HeaderValue::from_static("nosniff"));
    response
}

/// The caller's own name for a request if it is short and plain, else a new one.
fn request_id(request: &Request) -> String {
    let given = request.headers().get(&REQUEST_ID).and_then(|id| id.to_str().ok());
    let plain = |id: &&str| {
        !id.is_empty()
            && id.len() <= 64
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
    };
    match given.filter(plain) {
        Some(id) => id.to_owned(),
        None => new_request_id(),
    }
}

fn new_request_id() -> String {
    let mut bytes = [0; 16];
    // Without randomness requests are told apart by their time alone; nothing depends on it.
    if rand::rngs::SysRng.try_fill_bytes(&mut bytes).is_err() {
        let nanos = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        bytes = nanos.to_be_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Without keys, only pages and programs of this machine may call: a web page that made its own name point here
/// may not.
fn host_allowed(app: &Shared, request: &Request) -> Result<()> {
    if app.authenticated {
        return Ok(());
    }
    let header = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let Some(host) = header.or_else(|| request.uri().host()) else {
        return Ok(());
    };
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) {
            name
        } else {
            host
        }
    });
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let loopback = name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    if loopback {
        return Ok(());
    }
    Err(ApiError::new(
        Code::HostForbidden,
        "without keys this server answers to localhost only; turn keys on with server.auth = \"on\"",
    ))
}

/// Ends a request that takes too long. What it wrote by then is durable.
pub(crate) async fn in_time(State(app): State<Shared>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(app.settings.timeout(), next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::new(
            Code::Timeout,
            format_args!("it took more than {} s; try again", app.settings.timeout_seconds),
        )
        .into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_is_let_through_and_then_the_pace_is_kept() {
        let limiter = RateLimiter::default();
        let pace = Pace {
            per_second: 2.0,
            burst: 3.0,
        };
        let start = Instant::now();
        for _ in 0..3 {
            assert!(limiter.take_at("a", pace, start).is_ok());
        }
        assert_eq!(limiter.take_at("a", pace, start), Err(1));
        assert!(
            limiter.take_at("b", pace, start).is_ok(),
            "others are not held up"
        );
        let later = |millis| start + Duration::from_millis(millis);
        assert!(limiter.take_at("a", pace, later(600)).is_ok());
        assert!(limiter.take_at("a", pace, later(700)).is_err());
        assert!(limiter.take_at("a", Pace::steady(0.0), start).is_ok());
        let slow = Pace::steady(0.1);
        assert!(limiter.take_at("c", slow, start).is_ok(), "once at least");
        assert_eq!(limiter.take_at("c", slow, start), Err(10));
        assert!(
            limiter.take_at("c", Pace::steady(5.0), later(300)).is_ok(),
            "a raised pace counts at once"
        );
    }
}
