//! The service that chat completions are forwarded to.

use std::{io::Read, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{
    error::{ApiError, Code, Result},
    settings::ServerSettings,
};

/// Bytes that are read at once.
const CHUNK: usize = 16 * 1024;

/// Where chat completions go.
#[derive(Clone)]
pub(crate) struct Upstream {
    url: String,
    key: Option<Arc<str>>,
    agent: ureq::Agent,
}

/// What came back: the start at once, the rest as it comes.
pub(crate) struct Forwarded {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) chunks: mpsc::Receiver<std::io::Result<Bytes>>,
}

impl Upstream {
    pub(crate) fn new(settings: &ServerSettings, key: Option<String>) -> Option<Self> {
        if settings.upstream_url.is_empty() {
            return None;
        }
        let timeout = Duration::from_secs(settings.upstream_timeout_seconds.max(1));
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(timeout))
            .build();
        Some(Self {
            url: settings.upstream_url.trim_end_matches('/').to_owned(),
            key: key.map(Into::into),
            agent: agent.into(),
        })
    }

    /// Posts a chat completion. `caller` is the caller's own authorization, sent if no key is configured.
    pub(crate) async fn chat(&self, body: Vec<u8>, caller: Option<String>) -> Result<Forwarded> {
        let url = format!("{}/chat/completions", self.url);
        let authorization = self.key.as_ref().map(|key| format!("Bearer {key}")).or(caller);
        let agent = self.agent.clone();
        let (to, chunks) = mpsc::channel(16);
        let (start, started) = tokio::sync::oneshot::channel();
        // Reading blocks: it has a thread of its own until the answer ends or the caller goes away.
        tokio::task::spawn_blocking(move || {
            let mut request = agent.post(&url).header("content-type", "application/json");
            if let Some(authorization) = authorization {
                request = request.header("authorization", authorization);
            }
            let response = match request.send(&body[..]) {
                Ok(response) => response,
                Err(error) => {
                    drop(start.send(Err(error.to_string())));
                    return;
                }
            };
            let content_type = response
                .headers()
                .get("content-type")
                .and_then(|value| value.to_str().ok())
                .unwrap_or("application/json")
                .to_owned();
            if start
                .send(Ok((response.status().as_u16(), content_type)))
                .is_err()
            {
                return;
            }
            let mut reader = response.into_body().into_reader();
            let mut buffer = vec![0; CHUNK];
            loop {
                let chunk = match reader.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(read) => Ok(Bytes::copy_from_slice(&buffer[..read])),
                    Err(error) => Err(error),
                };
                let failed = chunk.is_err();
                if to.blocking_send(chunk).is_err() || failed {
                    return;
                }
            }
        });
        let failed = |problem: String| {
            tracing::warn!(%problem, "the upstream did not answer");
            ApiError::new(
                Code::UpstreamFailed,
                "the upstream of chat completions did not answer; check server.upstream_url",
            )
        };
        let (status, content_type) = started
            .await
            .map_err(|_| failed("it was given up".into()))?
            .map_err(failed)?;
        Ok(Forwarded {
            status,
            content_type,
            chunks,
        })
    }
}
