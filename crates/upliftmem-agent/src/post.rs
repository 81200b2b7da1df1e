//! Requests to a service by POST, with patience: time-outs, repetitions after waits that double, a limit on open requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use jiff::{Timestamp, fmt::rfc2822};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use upliftmem_core::InvalidInput;
use ureq::{
    Agent, Body, Timeout,
    http::{HeaderName, HeaderValue, Response, Uri},
    tls::{Certificate, RootCerts, TlsConfig},
};

use crate::{pace::Pace, text::excerpt};

/// Longest time for a connection to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// So many requests in a row that nothing came of, and the service is taken to be at fault and not they.
const UNANSWERED_MAX: usize = 4;
/// Query parameters whose names hold one of these are secrets.
const SECRETS: [&str; 6] = ["key", "token", "secret", "password", "auth", "sig"];

/// A service, and how patient we are with it.
#[derive(Clone)]
pub(crate) struct PostSettings {
    /// The part of the configuration that these are from, for messages.
    pub(crate) section: &'static str,
    pub(crate) url: String,
    pub(crate) headers: BTreeMap<String, String>,
    /// How many requests are open at once.
    pub(crate) concurrency: usize,
    /// How many requests are begun in a minute; 0 is no limit.
    pub(crate) requests_per_minute: u32,
    /// Longest time for one attempt, the answer included.
    pub(crate) timeout: Duration,
    /// How often a request is posted again after status 429, 5xx or a broken connection.
    pub(crate) retries: u32,
    /// Whether one whose time was up is posted again: only if doing it twice does no harm.
    pub(crate) repeat_timeouts: bool,
    pub(crate) backoff: Duration,
    /// The longest wait. A service that asks for more is not waited for.
    pub(crate) backoff_max: Duration,
    pub(crate) answer_bytes_max: u64,
    /// Seed of the chance in the waits.
    pub(crate) seed: u64,
    pub(crate) proxy: Option<String>,
    pub(crate) authority: Option<Vec<u8>>,
}

/// Posts requests to one service.
pub(crate) struct Posts {
    settings: PostSettings,
    /// What is asked, as it may be shown.
    pub(crate) shown: String,
    post: Arc<Post>,
    places: Arc<Semaphore>,
    pace: Pace,
    /// Requests that were given up since the last answer.
    unanswered: Mutex<BTreeSet<u128>>,
}

/// Everything that one attempt needs.
struct Post {
    agent: Agent,
    url: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    answer_bytes_max: u64,
}

/// What is wrong with an answer.
pub(crate) enum WrongAnswer {
    /// Another attempt would do no better.
    Final(String),
    /// Another attempt may.
    Passing(String),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PostError {
    /// This request failed.
    Failed(String),
    /// Every request would, until the owner has acted or the service is back.
    Unavailable(String),
}

/// Why an attempt brought no answer.
enum Failure {
    /// Another attempt would do no better.
    Final(String),
    /// No attempt would, for any request: the owner must act.
    Owner(String),
    /// Another attempt may do better.
    Passing(String),
    /// The service is there for nobody just now: it limits the rate or is away. It may have said how long to wait.
    Away { problem: String, wait: Option<Duration> },
    /// The time was up; the service may still be at it.
    Late(String),
    /// There is nobody; perhaps not yet.
    Nobody(String),
}

impl Posts {
    /// Checks the settings. Nothing is sent yet.
    pub(crate) fn new(settings: PostSettings) -> Result<Self, InvalidInput> {
        let section = settings.section;
        let url = parse_url(section, &settings.url)?;
        if !(1..=10_000).contains(&settings.concurrency) {
            return Err(InvalidInput::new(
                format_args!("{section}.concurrency"),
                format_args!("{} is outside 1 to 10000", settings.concurrency),
            ));
        }
        if settings.timeout.is_zero() {
            return Err(InvalidInput::new(
                format_args!("{section}.timeout"),
                "is 0; nothing could be executed",
            ));
        }
        let mut headers = Vec::new();
        for (name, value) in &settings.headers {
            // The value may be a secret: it is not shown.
            let refuse =
                || InvalidInput::new(format_args!("{section}.headers.{name}"), "is not a valid header");
            let parsed = HeaderName::try_from(name.as_str()).map_err(|_| refuse())?;
            let value = HeaderValue::try_from(value.as_str()).map_err(|_| refuse())?;
            headers.push((parsed, value));
        }
        Ok(Self {
            shown: without_secrets(&url),
            post: Arc::new(Post {
                agent: agent(&settings)?,
                url,
                headers,
                answer_bytes_max: settings.answer_bytes_max,
            }),
            places: Arc::new(Semaphore::new(settings.concurrency)),
            pace: Pace::per_minute(settings.requests_per_minute),
            unanswered: Mutex::default(),
            settings,
        })
    }

    /// Posts until there is an answer that `read` takes. Waits depend on `id` alone. A call that is dropped leaves its last
    /// attempt running until it is answered or its time is up.
    pub(crate) async fn ask<T>(
        &self,
        id: u128,
        body: Vec<u8>,
        read: impl Fn(&[u8]) -> Result<T, WrongAnswer>,
    ) -> Result<T, PostError> {
        let body = Arc::new(body);
        let section = self.settings.section;
        let unavailable = |problem: String| {
            PostError::Unavailable(format!(
                "{problem}; check {section}.url, its key and the service, then run the same command again: it goes on"
            ))
        };
        // Not a failure of this request: it would be one of every other request too, and failures are final after a few.
        let away = |problem: String| {
            PostError::Unavailable(format!(
                "{problem}; the service at {section}.url is away or limits the rate: run the same command again later, it goes on"
            ))
        };
        // Whose fault it is shows when others fare the same.
        let failed = |problem: String| {
            let mut unanswered = self.unanswered();
            unanswered.insert(id);
            let count = unanswered.len();
            if count < UNANSWERED_MAX {
                return PostError::Failed(problem);
            }
            unanswered.clear();
            away(format!(
                "{problem}, the last of {count} requests without one answer"
            ))
        };
        let started = Instant::now();
        for attempt in 0.. {
            let answer = self.attempt(Arc::clone(&body)).await;
            if matches!(answer, Ok(_) | Err(Failure::Final(_))) {
                self.unanswered().clear();
            }
            let answer = answer.and_then(|body| {
                read(&body).map_err(|wrong| match wrong {
                    WrongAnswer::Final(problem) => Failure::Final(problem),
                    WrongAnswer::Passing(problem) => Failure::Passing(problem),
                })
            });
            let (problem, asked, given_up): (_, _, &(dyn Fn(String) -> PostError + Sync)) = match answer {
                Ok(answer) => return Ok(answer),
                Err(Failure::Late(problem)) if self.settings.repeat_timeouts => (problem, None, &failed),
                Err(Failure::Final(problem)) => return Err(PostError::Failed(problem)),
                Err(Failure::Late(problem)) => {
                    let problem = format!("{problem}; raise {section}.timeout if it needs longer");
                    return Err(PostError::Failed(problem));
                }
                Err(Failure::Owner(problem)) => return Err(unavailable(problem)),
                Err(Failure::Passing(problem)) => (problem, None, &failed),
                Err(Failure::Away { problem, wait }) => (problem, wait, &away),
                Err(Failure::Nobody(problem)) => (problem, None, &unavailable),
            };
            let longest = self.settings.backoff_max;
            if let Some(wait) = asked.filter(|&wait| wait > longest) {
                return Err(away(format!(
                    "{problem}; it asks to wait {} s, the limit is {} s",
                    wait.as_secs(),
                    longest.as_secs_f64()
                )));
            }
            if attempt >= self.settings.retries {
                let seconds = started.elapsed().as_secs_f64();
                let tries = attempt + 1;
                let problem = format!("{problem}; gave up after {tries} attempts in {seconds:.1} s");
                return Err(given_up(problem));
            }
            let wait = asked.map_or_else(
                || self.wait(id, attempt),
                |asked| self.wait_as_asked(id, attempt, asked),
            );
            tracing::warn!(target: "executor", service = self.shown, "{problem}; again in {wait:?}");
            tokio::time::sleep(wait).await;
        }
        unreachable!("the loop has no end but its returns")
    }

    fn unanswered(&self) -> std::sync::MutexGuard<'_, BTreeSet<u128>> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One attempt, on a thread of its own: the client blocks. The thread keeps the place until it is done, so that a
    /// call that is dropped can not raise the number of open requests.
    async fn attempt(&self, body: Arc<Vec<u8>>) -> Result<Vec<u8>, Failure> {
        let closed = || Failure::Final("the client is going away".into());
        let place: OwnedSemaphorePermit = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(|_| closed())?;
        // Every attempt takes its turn, not only the first: the service counts them all.
        tokio::time::sleep(self.pace.wait(Instant::now())).await;
        let (reply, answer) = oneshot::channel();
        let post = Arc::clone(&self.post);
        thread::Builder::new()
            .name("http-client".into())
            .spawn(move || {
                let result = post.send(&body);
                drop(place);
                reply.send(result).ok();
            })
            .map_err(|error| Failure::Passing(format!("no thread for the request: {error}")))?;
        answer.await.map_err(|_| closed())?
    }

    /// The wait before the next attempt: doubled each time, less up to half by chance.
    pub(crate) fn wait(&self, id: u128, attempt: u32) -> Duration {
        let doubled = self.settings.backoff.saturating_mul(1 << attempt.min(20));
        let share = 1.0 - self.chance(id, attempt) / 2.0;
        doubled.min(self.settings.backoff_max).mul_f64(share)
    }

    /// The wait that a service asked for, and something more by chance: all who wait were told the same.
    pub(crate) fn wait_as_asked(&self, id: u128, attempt: u32, asked: Duration) -> Duration {
        asked + (asked / 4 + self.settings.backoff).mul_f64(self.chance(id, attempt))
    }

    /// A number in [0, 1] that depends on nothing but these and the settings.
    fn chance(&self, id: u128, attempt: u32) -> f64 {
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(&id.to_le_bytes());
        seed[16..24].copy_from_slice(&self.settings.seed.to_le_bytes());
        seed[24..28].copy_from_slice(&attempt.to_le_bytes());
        ChaCha8Rng::from_seed(seed).random_range(0.0..=1.0)
    }
}

impl Post {
    /// One attempt: what the service answered, if it says that all is well.
    fn send(&self, body: &[u8]) -> Result<Vec<u8>, Failure> {
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
            return Ok(body);
        }
        let problem = format!("answered {status}: {}", excerpt(&body));
        Err(match status.as_u16() {
            // No wait fills an empty account, although the status is that of a limited rate.
            429 if speaks_of_quota(&body) => Failure::Owner(problem),
            429 | 502 | 503 | 529 => Failure::Away { problem, wait },
            500..=599 if wait.is_some() => Failure::Away { problem, wait },
            // Perhaps about this request alone.
            500..=599 => Failure::Passing(problem),
            // Not about this request: any other would fare the same.
            300..=399 | 401..=405 | 407 => Failure::Owner(problem),
            _ => Failure::Final(problem),
        })
    }
}

/// What an error of the client means for us.
fn no_answer(error: &ureq::Error) -> Failure {
    let problem = error.to_string();
    match error {
        ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve)
        | ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_) => Failure::Nobody(problem),
        ureq::Error::Io(io) if io.kind() == io::ErrorKind::ConnectionRefused => Failure::Nobody(problem),
        ureq::Error::Timeout(_) => Failure::Late(problem),
        ureq::Error::BodyExceedsLimit(limit) => {
            Failure::Final(format!("answered with more than {limit} bytes"))
        }
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::Pem(_) => Failure::Owner(problem),
        ureq::Error::Io(io) if is_untrusted(io) => Failure::Owner(problem),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => Failure::Final(problem),
        _ => Failure::Passing(problem),
    }
}

/// Whether a broken connection is a failed handshake: the client wraps those.
fn is_untrusted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData && error.to_string().contains("certificate")
}

/// Whether an answer says that the account is empty, in the words of OpenAI's protocol.
fn speaks_of_quota(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("insufficient_quota")
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

fn parse_url(section: &str, url: &str) -> Result<Uri, InvalidInput> {
    // The text may hold a password: it is not shown.
    let refuse = |problem: &str| InvalidInput::new(format_args!("{section}.url"), problem);
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

fn agent(settings: &PostSettings) -> Result<Agent, InvalidInput> {
    let section = settings.section;
    let proxy = settings
        .proxy
        .as_deref()
        .map(ureq::Proxy::new)
        .transpose()
        .map_err(|error| InvalidInput::new(format_args!("{section}.proxy"), error))?;
    let mut tls = TlsConfig::builder();
    if let Some(pem) = &settings.authority {
        let certificate = Certificate::from_pem(pem)
            .map_err(|error| InvalidInput::new(format_args!("{section}.authority"), error))?;
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
