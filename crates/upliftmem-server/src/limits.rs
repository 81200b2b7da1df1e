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
    error::{ApiError, Code, Result},
};

/// The header that names a request.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Callers whose pace is remembered.
const CALLERS_MAX: usize = 10_000;

/// A bucket of permits for each caller, refilled at a steady pace.
pub(crate) struct RateLimiter {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<String, (f64, Instant)>>,
}

impl RateLimiter {
    pub(crate) fn new(per_second: f64, burst: u32) -> Self {
        Self {
            per_second,
            burst: f64::from(burst.max(1)),
            buckets: Mutex::default(),
        }
    }

    /// Takes a permit, or says when to come back.
    pub(crate) fn take(&self, caller: &str) -> Result<()> {
        self.take_at(caller, Instant::now())
    }

    fn take_at(&self, caller: &str, now: Instant) -> Result<()> {
        if self.per_second <= 0.0 {
            return Ok(());
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= CALLERS_MAX && !buckets.contains_key(caller) {
            let full = |(permits, at): &(f64, Instant)| {
                permits + now.duration_since(*at).as_secs_f64() * self.per_second >= self.burst
            };
            buckets.retain(|_, bucket| !full(bucket));
        }
        let (permits, at) = buckets.entry(caller.to_owned()).or_insert((self.burst, now));
        let refilled = *permits + now.duration_since(*at).as_secs_f64() * self.per_second;
        *permits = refilled.min(self.burst);
        *at = now;
        if *permits >= 1.0 {
            *permits -= 1.0;
            return Ok(());
        }
        let wait = ((1.0 - *permits) / self.per_second).ceil();
        let mut error = ApiError::new(
            Code::RateLimited,
            format_args!("more than {} requests a second; slow down", self.per_second),
        );
        error.retry_after = Some((wait as u64).max(1));
        Err(error)
    }
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
        let limiter = RateLimiter::new(2.0, 3);
        let start = Instant::now();
        for _ in 0..3 {
            assert!(limiter.take_at("a", start).is_ok());
        }
        let refused = limiter.take_at("a", start).unwrap_err();
        assert_eq!(refused.retry_after, Some(1));
        assert!(limiter.take_at("b", start).is_ok(), "others are not held up");
        assert!(limiter.take_at("a", start + Duration::from_millis(600)).is_ok());
        assert!(limiter.take_at("a", start + Duration::from_millis(700)).is_err());
        assert!(RateLimiter::new(0.0, 1).take_at("a", start).is_ok());
    }
}
