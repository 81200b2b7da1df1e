//! PostgreSQL behind TLS: a door with a self-signed certificate in front of the test server.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};
use upliftmem_store::*;

use crate::support::*;

/// How a PostgreSQL client asks for TLS: eight bytes, and a number that is no version.
const REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Opens a door to the server that lets only TLS in; says its port and its certificate.
async fn door(server: (String, u16)) -> (u16, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (acceptor, server) = (acceptor.clone(), server.clone());
            tokio::spawn(async move {
                let mut request = [0; 8];
                client.read_exact(&mut request).await.ok()?;
                if request != REQUEST {
                    return None;
                }
                client.write_all(b"S").await.ok()?;
                let mut inside = acceptor.accept(client).await.ok()?;
                let mut outside = TcpStream::connect(server).await.ok()?;
                tokio::io::copy_bidirectional(&mut inside, &mut outside)
                    .await
                    .ok()
            });
        }
    });
    (port, made.cert.pem())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sslmode_is_respected() {
    let Some(place) = PostgresSchema::new() else {
        return;
    };
    let config: postgres::Config = place.place().url.parse().unwrap();
    let host = match &config.get_hosts()[0] {
        postgres::config::Host::Tcp(host) => host.clone(),
        postgres::config::Host::Unix(_) => return,
    };
    let (port, pem) = door((host, config.get_ports()[0])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("root.pem");
    std::fs::write(&file, pem).unwrap();
    let (user, database) = (config.get_user().unwrap(), config.get_dbname().unwrap());
    let open = async |host: &str, words: &str| {
        let url = format!("postgresql://{user}@{host}:{port}/{database}?{words}");
        let behind = PostgresPlace { url, ..place.place() };
        open_postgres(behind, limits()).await
    };
    let root = format!("sslrootcert={}", file.display());
    let trusted = |mode: &str| format!("sslmode={mode}&{root}");
    for (host, words) in [
        ("localhost", trusted("verify-full")),
        ("127.0.0.1", trusted("verify-ca")),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", "sslmode=prefer".to_owned()),
    ] {
        let store = open(host, &words).await.unwrap();
        store.pool_version(&alice()).await.unwrap();
    }
    for (host, words, told) in [
        ("127.0.0.1", trusted("verify-full"), "certificate"),
        ("localhost", "sslmode=verify-full".to_owned(), "certificate"),
        ("localhost", "sslmode=verify-ca".to_owned(), "certificate"),
        ("127.0.0.1", "sslmode=disable".to_owned(), "can not be used"),
        ("127.0.0.1", "sslmode=perhaps".to_owned(), "sslmode"),
    ] {
        let error = open(host, &words).await.map(drop).unwrap_err().to_string();
        assert!(error.contains(told), "{words}: {error}");
    }
}
