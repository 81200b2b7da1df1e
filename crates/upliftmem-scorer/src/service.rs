//! Asking a service for JSON, patiently: what may pass is asked again, what may not is told at once.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;
use ureq::Agent;

/// Characters of an error answer that are shown.
const SHOWN_MAX: usize = 300;

/// How patient we are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Longest time for one request, the answer included.
    pub(crate) timeout: Duration,
    /// How often a request is repeated after status 429, 5xx or a broken connection.
    pub(crate) retries: u32,
    /// The first wait before a repetition; each further wait is twice as long.
    pub(crate) backoff: Duration,
    /// The longest wait. A server that asks for more is not waited for.
    pub(crate) backoff_max: Duration,
    /// Bytes of an answer that are read before it is refused.
    pub(crate) answer_bytes_max: u64,
}

/// One address that is asked.
pub(crate) struct Service {
    pub(crate) url: String,
    key: Option<String>,
    patience: Patience,
    agent: Agent,
}

/// Why a request failed, and whether to try again.
enum Failure {
    Final(String),
    Passing { problem: String, wait: Option<Duration> },
}

impl Service {
    /// Nothing is sent yet. `key` is sent as a bearer token; the environment's proxies are not consulted.
    pub(crate) fn new(
        url: String,
        key: Option<String>,
        proxy: Option<ureq::Proxy>,
        patience: Patience,
    ) -> Self {
        let agent = Agent::config_builder()
            .timeout_global(Some(patience.timeout))
            .http_status_as_error(false)
            .proxy(proxy)
            .build()
            .new_agent();
        Self {
            url,
            key,
            patience,
            agent,
        }
    }

    /// Posts a question, again while that makes sense, and reads the answer. An answer that can not be read is not asked for
    /// again: the service would say the same.
    pub(crate) fn ask<T>(
        &self,
        question: &impl Serialize,
        read: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<T, String> {
        let body = serde_json::to_vec(question).map_err(|error| error.to_string())?;
        let mut backoff = self.patience.backoff;
        let longest = self.patience.backoff_max;
        let started = Instant::now();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (problem, wait) = match self.attempt(&body) {
                Ok(answer) => return read(&answer),
                Err(Failure::Final(problem)) => return Err(problem),
                Err(Failure::Passing { problem, wait }) => (problem, wait),
            };
            if attempts > self.patience.retries {
                let seconds = started.elapsed().as_secs_f64();
                return Err(format!(
                    "{problem}; gave up after {attempts} attempts in {seconds:.1} s"
                ));
            }
            if let Some(wait) = wait.filter(|&wait| wait > longest) {
                return Err(format!(
                    "{problem}; the server asks to wait {} s, the limit is {} s; try later",
                    wait.as_secs(),
                    longest.as_secs_f64()
                ));
            }
            thread::sleep(wait.unwrap_or(backoff.min(longest)));
            backoff = backoff.saturating_mul(2);
        }
    }

    fn attempt(&self, body: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut request = self.agent.post(&self.url).content_type("application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let passing = |error: ureq::Error| Failure::Passing {
            problem: error.to_string(),
            wait: None,
        };
        let mut response = request.send(body).map_err(|error| match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => Failure::Final(error.to_string()),
            other => passing(other),
        })?;
        let status = response.status();
        let wait = response
            .headers()
            .get("retry-after")
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        let body = response
            .body_mut()
            .with_config()
            .limit(self.patience.answer_bytes_max)
            .read_to_vec()
            .map_err(passing)?;
        if status.is_success() {
            return Ok(body);
        }
        let shown: String = String::from_utf8_lossy(&body)
            .trim()
            .chars()
            .take(SHOWN_MAX)
            .collect();
        let problem = format!("answered {status}: {shown}");
        if status.as_u16() == 429 || status.is_server_error() {
            Err(Failure::Passing { problem, wait })
        } else {
            Err(Failure::Final(problem))
        }
    }
}
