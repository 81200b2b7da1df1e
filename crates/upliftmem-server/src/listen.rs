//! The socket: connections up to a number, TLS if files are given, a stop that lets requests finish.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::Router;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;

use crate::App;

/// Time for the headers of a request, and for a handshake.
const SLOW: Duration = Duration::from_secs(10);

/// PEM files of a certificate chain and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A socket that is bound and not yet answered.
pub struct Listening {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Listening {
    /// Where it is bound.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Binds a socket; from here on connections wait to be answered.
pub async fn bind(address: &str, tls: Option<&TlsFiles>) -> io::Result<Listening> {
    let tls = tls.map(acceptor).transpose()?;
    let socket = TcpListener::bind(address).await?;
    Ok(Listening { socket, tls })
}

fn acceptor(files: &TlsFiles) -> io::Result<TlsAcceptor> {
    let bad = |file: &PathBuf, problem: &dyn std::fmt::Display| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{}: {problem}", file.display()),
        )
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.certificate)
        .map_err(|error| bad(&files.certificate, &error))?
        .collect::<Result<_, _>>()
        .map_err(|error| bad(&files.certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| bad(&files.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| bad(&files.certificate, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Answers until `stop` is done, then lets requests finish within the configured time.
pub async fn listen(
    app: &Arc<App>,
    router: Router,
    listening: Listening,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let graceful = GracefulShutdown::new();
    let following = tokio::spawn(Arc::clone(&app.live).follow());
    let distilling = app
        .distilling
        .clone()
        .map(|distilling| tokio::spawn(distilling.run()));
    let permits = Arc::new(Semaphore::new(app.settings.connections_max.max(1)));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listening.socket.accept() => accepted,
            () = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file handles, or a connection that was gone before it was taken.
                tracing::warn!(%error, "a connection was not taken");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            app.metrics.refused_connection();
            drop(stream);
            continue;
        };
        let watcher = graceful.watcher();
        let (app, router, tls) = (Arc::clone(app), router.clone(), listening.tls.clone());
        tokio::spawn(async move {
            app.metrics.connected(1);
            serve_one(stream, tls, router, watcher).await;
            app.metrics.connected(-1);
            drop(permit);
        });
    }
    drop(listening);
    following.abort();
    // What it was at is still in the store, and waits for the next start.
    if let Some(distilling) = distilling {
        distilling.abort();
    }
    let began = Instant::now();
    let patience = Duration::from_secs(app.settings.shutdown_seconds);
    if tokio::time::timeout(patience, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still running after shutdown_seconds and were cut off");
    }
    tracing::info!(milliseconds = began.elapsed().as_millis() as u64, "stopped");
    Ok(())
}

async fn serve_one(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Answers are small and awaited: they are sent at once.
    let _ = stream.set_nodelay(true);
    match tls {
        None => answer(stream, router, watcher).await,
        Some(tls) => match tokio::time::timeout(SLOW, tls.accept(stream)).await {
            Ok(Ok(stream)) => answer(stream, router, watcher).await,
            Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
            Err(_) => tracing::debug!("a handshake took too long"),
        },
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(SLOW)
        .max_buf_size(64 * 1024);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended");
    }
}
