//! Files from the hub: continued where a connection broke, repeated a limited number of times.

use std::{fmt, path::Path, thread, time::Duration};

use ureq::{
    Agent, Body,
    http::{Response, StatusCode},
};

use super::{KnownModel, ModelFile, ModelsError, Progress, Result, arrival::Arrival};

/// The hub's public address.
pub const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// Where the hub is and how patient we are with it.
#[derive(Clone)]
pub struct Hub {
    /// The address of the hub or of a mirror with the same paths.
    pub endpoint: String,
    /// For models that are not open to everyone; sent as a bearer token, and only to the endpoint itself.
    pub token: Option<String>,
    /// A proxy for all requests; the environment is not consulted.
    pub proxy: Option<String>,
    /// Longest wait for a connection, and for an answer to begin.
    pub timeout: Duration,
    /// Longest time for the body of one answer; what has arrived by then is kept and continued.
    pub body_timeout: Duration,
    /// How often a file is tried again after a broken connection, status 429 or 5xx.
    pub retries: u32,
    /// The first wait before a repetition; each further wait is twice as long, a minute at most.
    pub backoff: Duration,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            endpoint: DEFAULT_ENDPOINT.to_owned(),
            token: None,
            proxy: None,
            timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(600),
            retries: 8,
            backoff: Duration::from_secs(1),
        }
    }
}

impl fmt::Debug for Hub {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// Repetitions where nobody answers: a person without a network is not kept waiting for minutes.
const NOBODY_RETRIES_MAX: u32 = 2;

/// Why an attempt failed, and whether another may succeed.
enum Failure {
    Final(String),
    Passing(String),
    /// Nobody answers at the address; most often there is no network.
    Nobody(String),
    /// The disk, or a file that is not the published one.
    Given(ModelsError),
}

impl From<ModelsError> for Failure {
    fn from(error: ModelsError) -> Self {
        Self::Given(error)
    }
}

/// Fetches one file to a path.
pub(super) fn fetch(
    hub: &Hub,
    model: &KnownModel,
    file: &ModelFile,
    path: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<()> {
    let url = format!(
        "{}/{}/resolve/{}/{}",
        hub.endpoint.trim_end_matches('/'),
        model.repository,
        model.revision,
        file.path
    );
    let failed = |problem: String| ModelsError::Fetch {
        model: model.name.to_owned(),
        file: file.path.to_owned(),
        origin: url.clone(),
        problem,
    };
    let agent = hub.agent().map_err(|error| failed(error.to_string()))?;
    let mut backoff = hub.backoff;
    for attempt in 0_u32.. {
        let request = Transfer {
            hub,
            agent: &agent,
            url: &url,
            model,
            file,
        };
        let attempted = request.attempt(path, progress);
        let patience = match attempted {
            Err(Failure::Nobody(_)) => hub.retries.min(NOBODY_RETRIES_MAX),
            _ => hub.retries,
        };
        match attempted {
            Ok(()) => return Ok(()),
            Err(Failure::Given(error)) => return Err(error),
            Err(Failure::Final(problem)) => return Err(failed(problem)),
            Err(Failure::Passing(problem) | Failure::Nobody(problem)) if attempt >= patience => {
                return Err(failed(format!(
                    "{problem}; gave up after {} attempts. Pull again to go on",
                    attempt + 1
                )));
            }
            Err(Failure::Passing(_) | Failure::Nobody(_)) => {
                thread::sleep(backoff.min(Duration::from_secs(60)));
            }
        }
        backoff = backoff.saturating_mul(2);
    }
    unreachable!("the loop has no end but its returns")
}

impl Hub {
    fn agent(&self) -> Result<Agent, ureq::Error> {
        let proxy = self.proxy.as_deref().map(ureq::Proxy::new).transpose()?;
        Ok(Agent::config_builder()
            .timeout_connect(Some(self.timeout))
            .timeout_recv_response(Some(self.timeout))
            .timeout_recv_body(Some(self.body_timeout))
            .http_status_as_error(false)
            // Compressed, a file could not be continued in the middle.
            .accept_encoding("identity")
            .proxy(proxy)
            .build()
            .new_agent())
    }
}

/// One file from one address.
struct Transfer<'a> {
    hub: &'a Hub,
    agent: &'a Agent,
    url: &'a str,
    model: &'a KnownModel,
    file: &'a ModelFile,
}

impl Transfer<'_> {
    fn attempt(&self, path: &Path, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), Failure> {
        // Without a hash nothing would tell whether the two parts belong together.
        let mut arrival = match self.file.sha256 {
            Some(_) => Arrival::resume(path)?,
            None => Arrival::start(path)?,
        };
        let response = self.ask(arrival.done())?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT if starts_at(&response, arrival.done()) => {}
            // The server does not continue files, or has none so long: from the beginning.
            StatusCode::OK => arrival = Arrival::start(path)?,
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                Arrival::start(path)?;
                return Err(Failure::Passing(
                    "the server can not continue the file".to_owned(),
                ));
            }
            status => return Err(self.refused(status)),
        }
        let rest: Option<u64> = header(&response, "content-length").and_then(|length| length.parse().ok());
        let total = rest.map(|rest| arrival.done() + rest);
        let mut body = response.into_body().into_reader();
        arrival
            .receive(&mut body, &mut |done| {
                progress(Progress {
                    file: self.file.path,
                    done,
                    total,
                });
            })?
            .map_err(|error| Failure::Passing(error.to_string()))?;
        if total.is_some_and(|total| total != arrival.done()) {
            return Err(Failure::Passing("the connection ended too early".to_owned()));
        }
        Ok(arrival.finish(self.model, self.file, self.url)?)
    }

    fn ask(&self, done: u64) -> Result<Response<Body>, Failure> {
        let mut request = self.agent.get(self.url);
        if let Some(token) = &self.hub.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if done > 0 {
            request = request.header("range", format!("bytes={done}-"));
        }
        request.call().map_err(|error| match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::TooManyRedirects => {
                Failure::Final(error.to_string())
            }
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => Failure::Nobody(error.to_string()),
            ureq::Error::Io(ref io) if io.kind() == std::io::ErrorKind::ConnectionRefused => {
                Failure::Nobody(error.to_string())
            }
            other => Failure::Passing(other.to_string()),
        })
    }

    fn refused(&self, status: StatusCode) -> Failure {
        let message = format!("the server answered {status}");
        match status.as_u16() {
            401 | 403 if self.hub.token.is_none() => Failure::Final(format!(
                "{message}; give a token that may read {}",
                self.model.repository
            )),
            401 | 403 => Failure::Final(format!(
                "{message}; the token may not read {}",
                self.model.repository
            )),
            404 => Failure::Final(format!(
                "{message}: there is no such file at {}",
                self.hub.endpoint
            )),
            429 | 500..=599 => Failure::Passing(message),
            _ => Failure::Final(message),
        }
    }
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// Whether the part that comes is the part that was asked for.
fn starts_at(response: &Response<Body>, done: u64) -> bool {
    header(response, "content-range").is_some_and(|range| range.starts_with(&format!("bytes {done}-")))
}
