//! A server in memory, and short ways to ask it.
#![allow(dead_code, clippy::unwrap_used)] // Each test file uses some of it.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode, header},
};
use serde_json::Value;
use tower::ServiceExt;
use upliftmem_agent::{Distiller, chat::ChatModel};
use upliftmem_engine::{
    Distilling, Live, LiveSettings, ProbeSettings, ReferencePolicy, RetrievalSettings, UtilitySettings,
};
use upliftmem_scorer::{CompactSettings, embedder::HashEmbedder};
use upliftmem_server::{App, ServerSettings, Setup, create_key, router};
use upliftmem_store::{Permission, ScopeParts, SqlitePlace, Store, StoreLimits, open_sqlite};

/// A server without a socket.
pub(crate) struct Server {
    pub(crate) app: Arc<App>,
    pub(crate) router: Router,
    pub(crate) store: Arc<dyn Store>,
}

/// How a test wants it.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) authenticated: bool,
    /// What distils conversations.
    pub(crate) model: Option<Arc<dyn ChatModel>>,
    pub(crate) settings: ServerSettings,
    pub(crate) place: Option<std::path::PathBuf>,
}

pub(crate) fn live_settings() -> LiveSettings {
    LiveSettings {
        retrieval: RetrievalSettings::default(),
        utility: UtilitySettings::default().rule().unwrap(),
        utility_cost_max: UtilitySettings::default().cost_max,
        acquisition: ProbeSettings {
            probe_budget: 8,
            acquisition_interval: 5,
            ..ProbeSettings::default()
        },
        scorer: CompactSettings::default().into(),
        agent: "agent".into(),
        labels_of: None,
        references: ReferencePolicy::Request,
        attempts_max: 2,
        scopes_max: 8,
        look_after: Duration::from_secs(3_600),
    }
}

pub(crate) async fn server(wanted: Wanted) -> Server {
    let place = wanted.place.map_or(SqlitePlace::Memory, SqlitePlace::File);
    let store = open_sqlite(place, StoreLimits::default()).await.unwrap();
    let live = Live::new(
        Arc::clone(&store),
        Arc::new(HashEmbedder::default()),
        live_settings(),
    );
    let distilling = wanted
        .model
        .map(|model| Distilling::new(Arc::clone(&live), Distiller::new(model, 0.0)));
    let app = App::new(Setup {
        live,
        distilling,
        settings: wanted.settings,
        authenticated: wanted.authenticated,
        default_scope: Some(ScopeParts {
            agent_id: Some("default".into()),
            ..ScopeParts::default()
        }),
        otlp_headers: Vec::new(),
        upstream_key: None,
    });
    Server {
        router: router(&app),
        app,
        store,
    }
}

/// A server that needs no keys.
pub(crate) async fn open_server() -> Server {
    server(Wanted::default()).await
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The body of a request that must have succeeded.
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(
            self.status,
            StatusCode::OK,
            "{}",
            String::from_utf8_lossy(&self.body)
        );
        self.json()
    }

    /// The code of a request that must have failed.
    pub(crate) fn code(&self) -> String {
        assert!(
            !self.status.is_success(),
            "{}",
            String::from_utf8_lossy(&self.body)
        );
        let body = self.json();
        assert!(
            body["error"]["docs"]
                .as_str()
                .unwrap()
                .contains("docs/server.md#")
        );
        assert_eq!(body["detail"], body["error"]["message"]);
        body["error"]["code"].as_str().unwrap().to_owned()
    }
}

impl Server {
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: to_bytes(body, usize::MAX).await.unwrap().to_vec(),
        }
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(key) = key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let body = match body {
            None => Body::empty(),
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Body::from(body.to_string())
            }
        };
        self.send(request.body(body).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, None, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path, None, Some(body)).await
    }

    /// A key of a tenant.
    pub(crate) async fn key(&self, user: Option<&str>, permission: Permission) -> String {
        let tenant = ScopeParts {
            user_id: user.map(ToOwned::to_owned),
            ..ScopeParts::default()
        };
        let made = create_key(self.store.as_ref(), "test", tenant, permission).await;
        made.unwrap().1
    }
}
