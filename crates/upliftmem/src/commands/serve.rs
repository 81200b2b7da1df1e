//! `serve`: the server.

use std::{net::IpAddr, sync::Arc};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use upliftmem_engine::Distilling;
use upliftmem_server::{
    App, AuthMode, ServerSettings, Setup, TlsFiles, ToolChoice, bind, listen, router, serve_stdio,
};

use crate::context::Context;

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Where to listen [default: server.address of the configuration].
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// Stop when standard input is closed: for a program that starts a server of its own, and may be killed.
    #[arg(long)]
    until_stdin_closes: bool,
}

pub(crate) async fn serve(mut context: Context, arguments: ServeArguments) -> Result<()> {
    if let Some(address) = arguments.address {
        context.config.server.address = address;
    }
    let settings = context.config.server.clone();
    let authenticated = needs_keys(&settings)?;
    let tls = tls_files(&context)?;
    let app = app(&context, authenticated)?;
    let listening = bind(&settings.address, tls.as_ref())
        .await
        .with_context(|| format!("{} can not be listened on", settings.address))?;
    let address = listening.address()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    tell(&context, scheme, &address.to_string(), authenticated).await?;
    tracing::info!(%address, scheme, keys = authenticated, "listening");
    let stop = async {
        tokio::select! {
            () = stopped() => {}
            () = stdin_closed(), if arguments.until_stdin_closes => {}
        }
    };
    listen(&app, router(&app), listening, stop).await?;
    Ok(())
}

#[derive(Debug, Args)]
pub(crate) struct McpArguments {
    /// The tools that are offered [default: server.mcp_tools of the configuration].
    #[arg(long, value_enum)]
    tools: Option<Tools>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Tools {
    /// search_memory, add_memory, report_outcome.
    Default,
    /// Those, and get_memory, update_memory, delete_memory.
    All,
}

pub(crate) async fn mcp(mut context: Context, arguments: McpArguments) -> Result<()> {
    if let Some(tools) = arguments.tools {
        context.config.server.mcp_tools = match tools {
            Tools::Default => ToolChoice::Default,
            Tools::All => ToolChoice::All,
        };
    }
    let app = app(&context, false)?;
    serve_stdio(&app).await.context("MCP ended early")?;
    Ok(())
}

/// What requests reach.
pub(crate) fn app(context: &Context, authenticated: bool) -> Result<Arc<App>> {
    let settings = context.config.server.clone();
    let upstream_key = match settings.upstream_key_variable.as_str() {
        "" => None,
        name => Some(
            std::env::var(name)
                .with_context(|| format!("server.upstream_key_variable: {name} is not set"))?,
        ),
    };
    let live = context.live()?;
    Ok(App::new(Setup {
        distilling: context
            .distiller()?
            .map(|distiller| Distilling::new(Arc::clone(&live), distiller)),
        live,
        settings,
        authenticated,
        default_scope: Some(context.config.scope.clone()),
        upstream_key,
        otlp_headers: otlp_headers(&context.config.server.otlp_headers_variable)?,
    }))
}

/// The headers for the collector of traces, as OpenTelemetry writes them in one variable.
fn otlp_headers(variable: &str) -> Result<Vec<(String, String)>> {
    if variable.is_empty() {
        return Ok(Vec::new());
    }
    let text = std::env::var(variable)
        .with_context(|| format!("server.otlp_headers_variable: {variable} is not set"))?;
    text.split(',')
        .filter(|pair| !pair.trim().is_empty())
        .map(|pair| {
            let (name, value) = pair
                .split_once('=')
                .with_context(|| format!("{variable}: a part has no =; write it as name=value,name=value"))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}

/// Says on standard output where it is, so that a program that started it can read the port.
async fn tell(context: &Context, scheme: &str, address: &str, authenticated: bool) -> Result<()> {
    let url = format!("{scheme}://{address}");
    let document = json!({ "url": url, "keys": authenticated });
    let no_key = authenticated
        && context
            .store
            .list_keys()
            .await?
            .iter()
            .all(|key| key.revoked_at.is_some());
    context.output.result(&document, || {
        let mut text =
            format!("{url}\n  dashboard: {url}/   API: {url}/docs   MCP: {url}/mcp   metrics: {url}/metrics");
        if no_key {
            text +=
                "\n  requests need a key and there is none: `upliftmem keys create NAME --agent-id default`";
        }
        text
    })
}

/// Whether requests need a key at this address.
fn needs_keys(settings: &ServerSettings) -> Result<bool> {
    if settings.auth == AuthMode::On {
        return Ok(true);
    }
    let Some((host, _)) = settings.address.rsplit_once(':') else {
        bail!(
            "server.address: {:?} has no port; write it as 127.0.0.1:7077",
            settings.address
        );
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let loopback = host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    Ok(!loopback)
}

fn tls_files(context: &Context) -> Result<Option<TlsFiles>> {
    let settings = &context.config.server;
    match (settings.tls_certificate.as_str(), settings.tls_key.as_str()) {
        ("", "") => Ok(None),
        ("", _) | (_, "") => {
            bail!("server.tls_certificate and server.tls_key: one is missing; give both or none")
        }
        (certificate, key) => Ok(Some(TlsFiles {
            certificate: context.config.directory.join(certificate),
            key: context.config.directory.join(key),
        })),
    }
}

/// Done when the process is asked to stop.
pub(crate) async fn stopped() {
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<()>();
    tokio::select! {
        () = interrupted => {}
        () = terminated => {}
    }
}

/// Done when standard input ends. A thread of its own reads, so that the runtime never waits for it.
async fn stdin_closed() {
    let (closed, wait) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let read = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        tracing::info!(ok = read.is_ok(), "standard input was closed");
        closed.send(()).ok();
    });
    if wait.await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_needed_unless_the_address_is_a_loopback_one() {
        let at = |address: &str| ServerSettings {
            address: address.into(),
            ..ServerSettings::default()
        };
        for local in ["127.0.0.1:1", "localhost:1", "[::1]:1", "127.8.8.8:0"] {
            assert!(!needs_keys(&at(local)).unwrap(), "{local}");
        }
        for open in [
            "0.0.0.0:1",
            "[::]:1",
            "192.168.1.2:1",
            "example.com:1",
            "localhost.example.com:1",
        ] {
            assert!(needs_keys(&at(open)).unwrap(), "{open}");
        }
        assert!(needs_keys(&at("localhost")).is_err());
        let on = ServerSettings {
            auth: AuthMode::On,
            ..ServerSettings::default()
        };
        assert!(needs_keys(&on).unwrap());
    }
}
