//! TLS to the server, as `sslmode` and `sslrootcert` of its address say. The words mean what they mean to libpq.

use std::{path::Path, sync::Arc};

use postgres::{Client, Config, NoTls};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Result};

/// What is checked about the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Nothing: the connection is encrypted, and may be to anyone.
    Nothing,
    /// That a trusted authority signed it.
    Authority,
    /// And that it is the host's.
    AuthorityAndName,
}

/// How connections are made.
#[derive(Clone)]
pub(super) struct Connector {
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

impl Connector {
    /// Reads an address: an URL, or words `key=value`.
    pub(super) fn new(address: &str) -> Result<Self> {
        let (address, given) = without_tls_words(address);
        let mut root = None;
        let mut mode = "prefer".to_owned();
        for (key, value) in given {
            match key {
                "sslmode" => mode = value,
                _ => root = Some(value),
            }
        }
        let mut config: Config = address
            .parse()
            .map_err(|error: postgres::Error| Error::invalid("postgres url", error))?;
        let (required, check) = match (mode.as_str(), &root) {
            ("disable", _) => (postgres::config::SslMode::Disable, Check::Nothing),
            ("prefer", _) => (postgres::config::SslMode::Prefer, Check::Nothing),
            ("require", None) => (postgres::config::SslMode::Require, Check::Nothing),
            ("require" | "verify-ca", _) => (postgres::config::SslMode::Require, Check::Authority),
            ("verify-full", _) => (postgres::config::SslMode::Require, Check::AuthorityAndName),
            _ => {
                return Err(Error::invalid(
                    "sslmode",
                    format_args!(
                        "it is {mode:?}; disable, prefer, require, verify-ca and verify-full are known"
                    ),
                ));
            }
        };
        config.ssl_mode(required);
        let tls = match required {
            postgres::config::SslMode::Disable => None,
            _ => Some(MakeRustlsConnect::new(client(check, root.as_deref())?)),
        };
        Ok(Self { config, tls })
    }

    pub(super) const fn config(&mut self) -> &mut Config {
        &mut self.config
    }

    pub(super) fn connect(&self) -> std::result::Result<Client, postgres::Error> {
        match &self.tls {
            Some(tls) => self.config.connect(tls.clone()),
            None => self.config.connect(NoTls),
        }
    }
}

/// The address without the words that the driver does not know, and those words.
fn without_tls_words(address: &str) -> (String, Vec<(&str, String)>) {
    let url = address.starts_with("postgres://") || address.starts_with("postgresql://");
    let (before, words, between) = match address.split_once('?') {
        Some((before, query)) if url => (format!("{before}?"), query, '&'),
        _ if url => (address.to_owned(), "", '&'),
        _ => (String::new(), address, ' '),
    };
    let (mut kept, mut taken) = (Vec::new(), Vec::new());
    for word in words.split(between).filter(|word| !word.is_empty()) {
        match word.split_once('=') {
            Some((key @ ("sslmode" | "sslrootcert"), value)) if url => taken.push((key, decoded(value))),
            Some((key @ ("sslmode" | "sslrootcert"), value)) => {
                taken.push((key, value.trim_matches('\'').to_owned()));
            }
            _ => kept.push(word),
        }
    }
    (before + &kept.join(&between.to_string()), taken)
}

/// The text behind `%2F` and the like.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = match rest {
            [b'%', code @ ..] => code
                .get(..2)
                .and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok()),
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &rest[3..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn client(check: Check, root: Option<&str>) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let wrong = |error: &dyn std::fmt::Display| Error::invalid("sslrootcert", error);
    let authority = match check {
        Check::Nothing => None,
        Check::Authority | Check::AuthorityAndName => Some(
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots(root)?), Arc::clone(&provider))
                .build()
                .map_err(|error| wrong(&error))?,
        ),
    };
    let verifier = Verifier {
        authority,
        check,
        provider: Arc::clone(&provider),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(config)
}

/// The authorities of a PEM file; without one those that browsers trust.
fn roots(file: Option<&str>) -> Result<RootCertStore> {
    let Some(file) = file.filter(|&file| file != "system") else {
        return Ok(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect());
    };
    let wrong =
        |problem: &dyn std::fmt::Display| Error::invalid("sslrootcert", format_args!("{file}: {problem}"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(Path::new(file)).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"it has no certificate"));
    }
    Ok(roots)
}

/// Checks as much of a certificate as was asked for, and always that the server has its key.
#[derive(Debug)]
struct Verifier {
    authority: Option<Arc<WebPkiServerVerifier>>,
    check: Check,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(authority) = &self.authority else {
            return Ok(ServerCertVerified::assertion());
        };
        // The name is looked at last: a certificate that is wrong only in it has passed the rest.
        match authority.verify_server_cert(certificate, intermediates, name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.check == Check::Authority => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_about_tls_are_taken_out_of_every_kind_of_address() {
        let check = |address: &str, left: &str, words: &[(&str, &str)]| {
            let (kept, taken) = without_tls_words(address);
            let taken: Vec<(&str, &str)> = taken.iter().map(|(key, value)| (*key, value.as_str())).collect();
            assert_eq!((kept.as_str(), taken.as_slice()), (left, words), "{address}");
        };
        check("postgresql://u@h/d", "postgresql://u@h/d", &[]);
        check(
            "postgresql://u@h/d?sslmode=verify-full&connect_timeout=5&sslrootcert=%2Fa%20b.pem",
            "postgresql://u@h/d?connect_timeout=5",
            &[("sslmode", "verify-full"), ("sslrootcert", "/a b.pem")],
        );
        check(
            "host=h user=u sslmode=require",
            "host=h user=u",
            &[("sslmode", "require")],
        );
    }

    #[test]
    fn an_unknown_mode_and_a_missing_file_are_refused() {
        let told = |address: &str| Connector::new(address).map(drop).unwrap_err().to_string();
        assert!(told("host=h sslmode=sometimes").contains("verify-full"));
        assert!(told("host=h sslmode=verify-ca sslrootcert=/no/such.pem").contains("/no/such.pem"));
        assert!(Connector::new("host=h").is_ok());
    }
}
