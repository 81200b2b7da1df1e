//! What a server is told by whoever starts it. Section `[server]` of the configuration.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits and habits of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// Where it listens.
    pub address: String,
    /// Whether requests need a key: always, or unless the address is a loopback one.
    pub auth: AuthMode,
    /// PEM files of the certificate chain and its key; both or none.
    pub tls_certificate: String,
    /// See `tls_certificate`.
    pub tls_key: String,
    /// Origins that browsers may call from; none by default.
    pub cors_origins: Vec<String>,
    /// Bytes of a request body.
    pub body_bytes_max: usize,
    /// Bytes of an imported file.
    pub import_bytes_max: usize,
    /// Memories of one batch, and candidates that a caller brings.
    pub batch_items_max: usize,
    /// Rows of one page of a listing.
    pub page_rows_max: usize,
    /// Requests that are worked on at once; more are told to come back.
    pub requests_max: usize,
    /// Connections that are open at once.
    pub connections_max: usize,
    /// Requests a second of one key, on average; 0 is no limit.
    pub rate_per_second: f64,
    /// Requests that a key may send at once after a pause.
    pub rate_burst: u32,
    /// Seconds for one request.
    pub timeout_seconds: u64,
    /// Seconds that requests get to finish when the server stops.
    pub shutdown_seconds: u64,
    /// Seconds that a handed-out execution is kept without a heartbeat.
    pub lease_seconds: u64,
    /// Scopes that are kept in memory with their scorers.
    pub scopes_max: usize,
    /// Seconds after which a scope in use looks for labels that other processes wrote.
    pub look_after_seconds: u64,
    /// MCP tools that are offered: `default` or `all`.
    pub mcp_tools: ToolChoice,
    /// Where chat completions are forwarded to, without `/chat/completions`; empty turns the pass-through off.
    pub upstream_url: String,
    /// The environment variable with the upstream's key; empty sends the caller's own.
    pub upstream_key_variable: String,
    /// Seconds for one forwarded request.
    pub upstream_timeout_seconds: u64,
    /// Where OpenTelemetry traces are sent, as `http://host:4318/v1/traces`; empty sends none.
    pub otlp_url: String,
    /// The environment variable with headers for the collector, as `name=value,name=value`.
    pub otlp_headers_variable: String,
    /// Whether traces have queries and the memories that were chosen in them.
    pub otlp_content: bool,
}

/// When keys are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// Unless the address is a loopback one.
    #[default]
    Auto,
    /// Always.
    On,
}

/// Which MCP tools are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// Search, add, report.
    #[default]
    Default,
    /// Those, and get, update, delete.
    All,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:7077".into(),
            auth: AuthMode::Auto,
            tls_certificate: String::new(),
            tls_key: String::new(),
            cors_origins: Vec::new(),
            body_bytes_max: 2 << 20,
            import_bytes_max: 64 << 20,
            batch_items_max: 1_000,
            page_rows_max: 500,
            requests_max: 256,
            connections_max: 1_024,
            rate_per_second: 0.0,
            rate_burst: 100,
            timeout_seconds: 30,
            shutdown_seconds: 20,
            lease_seconds: 600,
            scopes_max: 64,
            look_after_seconds: 5,
            mcp_tools: ToolChoice::Default,
            upstream_url: String::new(),
            upstream_key_variable: String::new(),
            upstream_timeout_seconds: 300,
            otlp_url: String::new(),
            otlp_headers_variable: String::new(),
            otlp_content: false,
        }
    }
}

impl ServerSettings {
    /// Time for one request.
    pub(crate) const fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// How long a handed-out execution is kept.
    pub(crate) const fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds)
    }
}
