//! Executors that are HTTP services: the request object by POST, the response object in the answer.

use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use jiff::{Timestamp, fmt::rfc2822};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use upliftmem_core::{InvalidInput, RolloutId};
use ureq::{
    Agent, Body, Timeout,
    http::{HeaderName, HeaderValue, Response, Uri},
    tls::{Certificate, RootCerts, TlsConfig},
};

use crate::{
    Execution, ExecutionRequest, Executor, ExecutorError,
    protocol::{read_response, write_request},
    text::excerpt,
};

/// Longest time for a connection to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Query parameters whose names hold one of these are secrets.
const SECRETS: [&str; 6] = ["key", "token", "secret", "password", "auth", "sig"];

/// A service that executes tasks, and how patient we are with it.
#[derive(Clone)]
pub struct HttpExecutorSettings {
    /// Where requests are posted to, `http` or `https`. Redirections are not followed.
    pub url: String,
    /// What executes, for the records; `http:` and the URL without secrets if none.
    pub name: Option<String>,
    /// Sent with every request, for example `authorization`.
    pub headers: BTreeMap<String, String>,
    /// How many requests are open at once.
    pub concurrency: usize,
    /// Longest time for one attempt, the answer included.
    pub timeout: Duration,
    /// How often a request is posted again after status 429, 5xx or a broken connection.
    pub retries: u32,
    /// The first wait before a repetition, less some chance; each further wait is twice as long.
    pub backoff: Duration,
    /// The longest wait. A service that asks for more is not waited for.
    pub backoff_max: Duration,
    /// Bytes of an answer that are read before it is refused.
    pub answer_bytes_max: u64,
    /// Seed of the chance in the waits: requests that failed together do not come back together.
    pub seed: u64,
    /// A proxy for all requests; the environment is not consulted.
    pub proxy: Option<String>,
    /// A certificate authority (PEM) to trust instead of the public ones.
    pub authority: Option<Vec<u8>>,
}

impl HttpExecutorSettings {
    /// Usual patience: four requests at once, ten minutes for each, four repetitions.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            name: None,
            headers: BTreeMap::new(),
            concurrency: 4,
            timeout: Duration::from_secs(600),
            retries: 4,
            backoff: Duration::from_millis(500),
            backoff_max: Duration::from_secs(60),
            answer_bytes_max: 16 << 20,
            seed: 0,
            proxy: None,
            authority: None,
        }
    }
}

/// Runs tasks by asking a service.
///
/// The service sees a request's id again when it is posted again: one that remembers what it has executed need not
/// execute it twice.
pub struct HttpExecutor {
    settings: HttpExecutorSettings,
    name: String,
    post: Arc<Post>,
    places: Arc<Semaphore>,
}

/// Everything that one attempt needs.
struct Post {
    agent: Agent,
    url: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    answer_bytes_max: u64,
}

/// Why an attempt brought no answer.
enum Failure {
    /// Another attempt would do no better.
    Final(String),
    /// No attempt would, for any request: the owner must act.
    Owner(String),
    /// Another attempt may do better, after this wait if the service asked for one.
    Passing { problem: String, wait: Option<Duration> },
    /// There is nobody; perhaps not yet.
    Nobody(String),
}

impl HttpExecutor {
    /// Checks the settings. Nothing is sent yet.
    pub fn new(settings: HttpExecutorSettings) -> Result<Self, InvalidInput> {
        let url = parse_url(&settings.url)?;
        if settings.name.as_deref().is_some_and(str::is_empty) {
            return Err(InvalidInput::new(
                "executor.name",
                "is empty; leave it out or give one",
            ));
        }
        if !(1..=10_000).contains(&settings.concurrency) {
            return Err(InvalidInput::new(
                "executor.concurrency",
                format_args!("{} is outside 1 to 10000", settings.concurrency),
            ));
        }
        if settings.timeout.is_zero() {
            return Err(InvalidInput::new(
                "executor.timeout",
                "is 0; nothing could be executed",
            ));
        }
        let mut headers = Vec::new();
        for (name, value) in &settings.headers {
            // The value may be a secret: it is not shown.
            let refuse =
                || InvalidInput::new(format_args!("executor.headers.{name}"), "is not a valid header");
            let parsed = HeaderName::try_from(name.as_str()).map_err(|_| refuse())?;
            let value = HeaderValue::try_from(value.as_str()).map_err(|_| refuse())?;
            headers.push((parsed, value));
        }
        Ok(Self {
            name: settings
                .name
                .clone()
                .unwrap_or_else(|| format!("http:{}", without_secrets(&url))),
            post: Arc::new(Post {
                agent: agent(&settings)?,
                url,
                headers,
                answer_bytes_max: settings.answer_bytes_max,
            }),
            places: Arc::new(Semaphore::new(settings.concurrency)),
            settings,
        })
    }

    /// One attempt, on a thread of its own: the client blocks. The thread keeps the place until it is done, so that a
    /// call that is dropped can not raise the number of open requests.
    async fn attempt(&self, id: RolloutId, body: Arc<Vec<u8>>) -> Result<Result<Execution, String>, Failure> {
        let closed = || Failure::Final("the executor is going away".into());
        let place: OwnedSemaphorePermit = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        let post = Arc::clone(&self.post);
        thread::Builder::new()
            .name("http-executor".into())
            .spawn(move || {
                let result = post.send(id, &body);
                drop(place);
                reply.send(result).ok();
            })
            .map_err(|error| Failure::Passing {
                problem: format!("no thread for the request: {error}"),
                wait: None,
            })?;
        answer.await.map_err(|_| closed())?
    }

    /// The wait before the next attempt: doubled each time, less up to half by chance.
    fn wait(&self, id: RolloutId, attempt: u32) -> Duration {
        let doubled = self.settings.backoff.saturating_mul(1 << attempt.min(20));
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(&id.as_u128().to_le_bytes());
        seed[16..24].copy_from_slice(&self.settings.seed.to_le_bytes());
        seed[24..28].copy_from_slice(&attempt.to_le_bytes());
        let share = ChaCha8Rng::from_seed(seed).random_range(0.5..=1.0);
        doubled.min(self.settings.backoff_max).mul_f64(share)
    }
}

#[async_trait]
impl Executor for HttpExecutor {
    fn name(&self) -> &str {
        &self.name
    }

    /// A call that is dropped leaves its last attempt running until it is answered or its time is up.
    async fn execute(&self, request: &ExecutionRequest) -> Result<Execution, ExecutorError> {
        let id = request.id;
        let failed = |problem: String| ExecutorError::Failed(format!("executor {}: {problem}", self.name));
        let unavailable = |problem: String| {
            ExecutorError::Unavailable(format!(
                "executor {}: {problem}; check executor.url and the service",
                self.name
            ))
        };
        let body = Arc::new(write_request(request).map_err(|error| failed(error.to_string()))?);
        let started = Instant::now();
        for attempt in 0.. {
            let (problem, wait, nobody) = match self.attempt(id, Arc::clone(&body)).await {
                Ok(Ok(execution)) => return Ok(execution),
                Ok(Err(error)) => return Err(ExecutorError::Failed(error)),
                Err(Failure::Final(problem)) => return Err(failed(problem)),
                Err(Failure::Owner(problem)) => return Err(unavailable(problem)),
                Err(Failure::Passing { problem, wait }) => (problem, wait, false),
                Err(Failure::Nobody(problem)) => (problem, None, true),
            };
            if attempt >= self.settings.retries {
                let seconds = started.elapsed().as_secs_f64();
                let problem = format!(
                    "{problem}; gave up after {} attempts in {seconds:.1} s",
                    attempt + 1
                );
                return Err(if nobody {
                    unavailable(problem)
                } else {
                    failed(problem)
                });
            }
            let longest = self.settings.backoff_max;
            if let Some(wait) = wait.filter(|&wait| wait > longest) {
                return Err(failed(format!(
                    "{problem}; it asks to wait {} s, the limit is {} s; try later",
                    wait.as_secs(),
                    longest.as_secs_f64()
                )));
            }
            let wait = wait.unwrap_or_else(|| self.wait(id, attempt));
            tracing::warn!(target: "executor", executor = self.name, "{problem}; again in {wait:?}");
            tokio::time::sleep(wait).await;
        }
        unreachable!("the loop has no end but its returns")
    }
}

impl Post {
    /// One attempt: the response the service gave for this id.
    fn send(&self, id: RolloutId, body: &[u8]) -> Result<Result<Execution, String>, Failure> {
        let mut request = self.agent.post(&self.url).content_type("application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut response = request.send(body).map_err(|error| no_answer(&error))?;
        let wait = retry_after(&response);
        let status = response.status();
        let body = response
            .body_mut()
            .with_config()
            .limit(self.answer_bytes_max)
            .read_to_vec()
            .map_err(|error| no_answer(&error))?;
        if status.is_success() {
            return answer_for(id, &body).map_err(Failure::Final);
        }
        let problem = format!("answered {status}: {}", excerpt(&body));
        Err(match status.as_u16() {
            429 | 500..=599 => Failure::Passing { problem, wait },
            // Not about this request: any other would fare the same.
            300..=399 | 401 | 403..=405 | 407 => Failure::Owner(problem),
            _ => Failure::Final(problem),
        })
    }
}

fn answer_for(id: RolloutId, body: &[u8]) -> Result<Result<Execution, String>, String> {
    let response = read_response(body).map_err(|error| format!("answered wrongly: {error}"))?;
    if response.id == id {
        Ok(response.result)
    } else {
        Err(format!(
            "answered wrongly: for {} when asked for {id}",
            response.id
        ))
    }
}

/// What an error of the client means for us.
fn no_answer(error: &ureq::Error) -> Failure {
    let problem = error.to_string();
    let passing = |problem| Failure::Passing { problem, wait: None };
    match error {
        ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve)
        | ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_) => Failure::Nobody(problem),
        ureq::Error::Io(io) if io.kind() == io::ErrorKind::ConnectionRefused => Failure::Nobody(problem),
        // The service may still be at it: asking again would execute twice.
        ureq::Error::Timeout(_) => {
            Failure::Final(format!("{problem}; raise executor.timeout if it needs longer"))
        }
        ureq::Error::BodyExceedsLimit(limit) => {
            Failure::Final(format!("answered with more than {limit} bytes"))
        }
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => Failure::Owner(problem),
        ureq::Error::Io(io) if is_untrusted(io) => Failure::Owner(problem),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => Failure::Final(problem),
        _ => passing(problem),
    }
}

/// Whether a broken connection is a failed handshake: the client wraps those.
fn is_untrusted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData && error.to_string().contains("certificate")
}

/// How long the service asks to wait: seconds, or until a date.
fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let value = response.headers().get("retry-after")?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = rfc2822::parse(value).ok()?.timestamp();
    let seconds = date.as_second() - Timestamp::now().as_second();
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

fn parse_url(url: &str) -> Result<Uri, InvalidInput> {
    // The text may hold a password: it is not shown.
    let refuse = |problem: &str| InvalidInput::new("executor.url", problem);
    let parsed: Uri = url.parse().map_err(|_| refuse("is not a URL"))?;
    if !matches!(parsed.scheme_str(), Some("http" | "https")) {
        return Err(refuse("does not begin with http:// or https://"));
    }
    if parsed.host().is_none_or(str::is_empty) {
        return Err(refuse("names no host"));
    }
    Ok(parsed)
}

/// The URL as it may be shown and kept: no user, no password, no value of a parameter that sounds like a secret.
fn without_secrets(url: &Uri) -> String {
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let mut shown = format!("{}://{host}{}", url.scheme_str().unwrap_or_default(), url.path());
    if let Some(query) = url.query() {
        let parameters: Vec<String> = query
            .split('&')
            .map(|parameter| match parameter.split_once('=') {
                Some((name, _)) if is_secret(name) => format!("{name}=..."),
                _ => parameter.to_owned(),
            })
            .collect();
        shown.push('?');
        shown.push_str(&parameters.join("&"));
    }
    shown
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

fn agent(settings: &HttpExecutorSettings) -> Result<Agent, InvalidInput> {
    let proxy = settings
        .proxy
        .as_deref()
        .map(ureq::Proxy::new)
        .transpose()
        .map_err(|error| InvalidInput::new("executor.proxy", error))?;
    let mut tls = TlsConfig::builder();
    if let Some(pem) = &settings.authority {
        let certificate =
            Certificate::from_pem(pem).map_err(|error| InvalidInput::new("executor.authority", error))?;
        tls = tls.root_certs(RootCerts::new_with_certs(&[certificate]));
    }
    Ok(Agent::config_builder()
        .timeout_global(Some(settings.timeout))
        .timeout_connect(Some(CONNECT_TIMEOUT.min(settings.timeout)))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(proxy)
        .tls_config(tls.build())
        .build()
        .new_agent())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(url: &str) -> String {
        HttpExecutor::new(HttpExecutorSettings::new(url)).unwrap().name
    }

    #[test]
    fn the_name_is_the_url_without_secrets() {
        assert_eq!(
            name("http://localhost:8000/run"),
            "http:http://localhost:8000/run"
        );
        assert_eq!(
            name("https://user:word@agents.example/run?model=a&api_key=s3cret"),
            "http:https://agents.example/run?model=a&api_key=..."
        );
    }

    fn refused(change: impl FnOnce(&mut HttpExecutorSettings), expected: &str) {
        let mut settings = HttpExecutorSettings::new("http://localhost/");
        change(&mut settings);
        let error = HttpExecutor::new(settings).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn settings_that_could_never_work_are_refused_by_name() {
        refused(|settings| settings.url = "localhost:80".into(), "executor.url");
        refused(
            |settings| settings.url = "ftp://host/".into(),
            "http:// or https://",
        );
        refused(
            |settings| settings.url = "http://h h/".into(),
            "executor.url: is not a URL",
        );
        refused(|settings| settings.concurrency = 0, "executor.concurrency: 0");
        refused(|settings| settings.timeout = Duration::ZERO, "executor.timeout");
        refused(
            |settings| settings.authority = Some(b"x".into()),
            "executor.authority",
        );
        refused(
            |settings| {
                drop(
                    settings
                        .headers
                        .insert("authorization".into(), "Bearer s3cret\n".into()),
                );
            },
            "executor.headers.authorization: is not a valid header",
        );
    }

    #[test]
    fn waits_double_up_to_the_longest_and_differ_between_requests() {
        let executor = HttpExecutor::new(HttpExecutorSettings::new("http://localhost/")).unwrap();
        let id = RolloutId::from_u128(1);
        for (attempt, longest) in [(0, 0.5), (1, 1.0), (3, 4.0), (30, 60.0)] {
            let wait = executor.wait(id, attempt).as_secs_f64();
            assert!((longest / 2.0..=longest).contains(&wait), "{attempt}: {wait}");
            assert_eq!(executor.wait(id, attempt).as_secs_f64(), wait);
        }
        assert_ne!(executor.wait(id, 1), executor.wait(RolloutId::from_u128(2), 1));
    }
}
