//! What every request can reach.

use std::sync::Arc;

use upliftmem_engine::{Distilling, Live};
use upliftmem_store::{ScopeParts, Store};

use crate::{
    auth::KeyCache,
    error::{ApiError, Result},
    jobs::Jobs,
    limits::RateLimiter,
    metrics::Metrics,
    settings::ServerSettings,
    traces::Traces,
    upstream::Upstream,
};

/// The state that handlers share.
pub(crate) type Shared = Arc<App>;

/// What a server serves, and how.
pub struct App {
    pub(crate) live: Arc<Live>,
    pub(crate) settings: ServerSettings,
    /// Whether requests need a key.
    pub(crate) authenticated: bool,
    /// The scope of requests that name none, where no key is needed.
    pub(crate) default_scope: Option<ScopeParts>,
    pub(crate) keys: KeyCache,
    /// How fast each key asks.
    pub(crate) limiter: RateLimiter,
    /// How fast each tenant with a quota asks.
    pub(crate) tenants: RateLimiter,
    pub(crate) metrics: Metrics,
    pub(crate) jobs: Jobs,
    pub(crate) upstream: Option<Upstream>,
    /// What turns conversations into memories, if a model does.
    pub(crate) distilling: Option<Arc<Distilling>>,
    pub(crate) traces: Option<Traces>,
    pub(crate) in_flight: Arc<tokio::sync::Semaphore>,
}

/// What [`App::new`] needs to know beside the settings.
pub struct Setup {
    /// What answers.
    pub live: Arc<Live>,
    /// What turns conversations into memories; without it, `infer` is refused.
    pub distilling: Option<Arc<Distilling>>,
    /// Limits and habits.
    pub settings: ServerSettings,
    /// Whether requests need a key.
    pub authenticated: bool,
    /// The scope of requests that name none, where no key is needed.
    pub default_scope: Option<ScopeParts>,
    /// The key of the upstream of chat completions; without one, the caller's own is sent.
    pub upstream_key: Option<String>,
    /// Headers that go with traces to their collector.
    pub otlp_headers: Vec<(String, String)>,
}

impl App {
    /// Everything in place, nothing listening yet.
    pub fn new(setup: Setup) -> Shared {
        let settings = setup.settings;
        Arc::new(Self {
            live: setup.live,
            distilling: setup.distilling,
            authenticated: setup.authenticated,
            default_scope: setup.default_scope,
            keys: KeyCache::default(),
            limiter: RateLimiter::default(),
            tenants: RateLimiter::default(),
            metrics: Metrics::new(),
            jobs: Jobs::default(),
            upstream: Upstream::new(&settings, setup.upstream_key),
            traces: Traces::start(&settings, setup.otlp_headers),
            in_flight: Arc::new(tokio::sync::Semaphore::new(settings.requests_max.max(1))),
            settings,
        })
    }

    /// What distils conversations, to be run beside the router; [`crate::listen`] does.
    pub fn distilling(&self) -> Option<Arc<Distilling>> {
        self.distilling.clone()
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.live.store()
    }

    /// Rows of a page that was asked for; what the schema does not allow is refused.
    pub(crate) fn rows(&self, asked: Option<usize>) -> Result<usize> {
        let most = self.rows_max();
        match asked {
            None => Ok(most.min(100)),
            Some(rows) if (1..=most).contains(&rows) => Ok(rows),
            Some(_) => Err(ApiError::invalid("limit", format_args!("ask for 1 to {most}"))),
        }
    }

    /// Most rows of a page.
    pub(crate) fn rows_max(&self) -> usize {
        let most = self.store().limits().page_rows_max - 1;
        self.settings.page_rows_max.min(most).max(1)
    }
}
