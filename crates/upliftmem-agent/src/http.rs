//! Executors that are HTTP services: the request object by POST, the response object in the answer.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use upliftmem_core::{InvalidInput, RolloutId};

use crate::{
    Execution, ExecutionRequest, Executor, ExecutorError,
    post::{PostError, PostSettings, Posts, WrongAnswer},
    protocol::{read_response, write_request},
};

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
    /// The longest wait. A service that asks for more is not waited for: it counts as unavailable.
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
    name: String,
    posts: Posts,
}

impl HttpExecutor {
    /// Checks the settings. Nothing is sent yet.
    pub fn new(settings: HttpExecutorSettings) -> Result<Self, InvalidInput> {
        if settings.name.as_deref().is_some_and(str::is_empty) {
            return Err(InvalidInput::new(
                "executor.name",
                "is empty; leave it out or give one",
            ));
        }
        let name = settings.name;
        let posts = Posts::new(PostSettings {
            section: "executor",
            requests_per_minute: 0,
            url: settings.url,
            headers: settings.headers,
            concurrency: settings.concurrency,
            timeout: settings.timeout,
            retries: settings.retries,
            // The service may still be at it: asking again would execute twice.
            repeat_timeouts: false,
            backoff: settings.backoff,
            backoff_max: settings.backoff_max,
            answer_bytes_max: settings.answer_bytes_max,
            seed: settings.seed,
            proxy: settings.proxy,
            authority: settings.authority,
        })?;
        Ok(Self {
            name: name.unwrap_or_else(|| format!("http:{}", posts.shown)),
            posts,
        })
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
        let named = |problem: String| format!("executor {}: {problem}", self.name);
        let body = write_request(request).map_err(|error| ExecutorError::Failed(named(error.to_string())))?;
        let read = |body: &[u8]| answer_for(id, body).map_err(WrongAnswer::Final);
        match self.posts.ask(id.as_u128(), body, read).await {
            Ok(result) => result.map_err(ExecutorError::Failed),
            Err(PostError::Failed(problem)) => Err(ExecutorError::Failed(named(problem))),
            Err(PostError::Unavailable(problem)) => Err(ExecutorError::Unavailable(named(problem))),
        }
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
        let executor = executor.posts;
        let id = 1;
        for (attempt, longest) in [(0, 0.5), (1, 1.0), (3, 4.0), (30, 60.0)] {
            let wait = executor.wait(id, attempt).as_secs_f64();
            assert!((longest / 2.0..=longest).contains(&wait), "{attempt}: {wait}");
            assert_eq!(executor.wait(id, attempt).as_secs_f64(), wait);
        }
        assert_ne!(executor.wait(id, 1), executor.wait(2, 1));
    }

    #[test]
    fn those_who_were_told_the_same_wait_do_not_return_together() {
        let executor = HttpExecutor::new(HttpExecutorSettings::new("http://localhost/")).unwrap();
        let asked = Duration::from_secs(20);
        let waits: Vec<_> = (0..8)
            .map(|id| executor.posts.wait_as_asked(id, 0, asked))
            .collect();
        let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
        assert!(
            *least >= asked && *most <= Duration::from_millis(25_500),
            "{waits:?}"
        );
        assert!(*most - *least > Duration::from_secs(1), "{waits:?}");
    }
}
