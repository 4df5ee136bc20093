//! Identities: certificates, the key that goes with them, and the CA that both sides trust.
//!
//! Problem: limits of a rack must not reach others, and a machine must not report for a rack that
//! it does not lead. Approach: mutual TLS. Both sides have a certificate of one private CA. A
//! machine's certificate names the machine in its subject alternative names (as a DNS name, the way
//! all CAs can issue), a fabric broker's the host by which agents reach it. The broker reads the
//! names of a client from the certificate that TLS has verified, never from a message.
//!
//! An agent reads the files anew for every connection and a broker at SIGHUP, so certificates are
//! renewed without a restart. Faults are reported at the start, not at the first connection: the
//! other side's TLS would refuse wrong uses (RFC 5280, 4.2.1.12) and dates (4.1.2.5) with less
//! readable errors. An agent checks the dates only when it connects: a machine whose certificate
//! has ended still enforces the rack's shares.
//!
//! Worked example: a certificate with the DNS names `m1` and `m1.example.org` is valid for the
//! machine `m1`.

use crate::state::secret::{self, SecretError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

/// More than this is no key.
const LONGEST_KEY: u64 = 64 * 1024;
/// The name of gRPC's protocol in TLS negotiation (ALPN): HTTP/2.
const HTTP2: &[u8] = b"h2";

/// The files of an identity, all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFiles {
    /// The certificate, then the intermediate ones between it and the CA.
    pub certificate: PathBuf,
    /// Its private key, which only its owner can read.
    pub private_key: PathBuf,
    /// The certificate of the CA that both sides trust; several during a change of CAs.
    pub ca: PathBuf,
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: String,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
    /// The key cannot be read, or users other than its owner can read it.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The file has wrong content.
    #[error("{path} {reason}")]
    Content {
        /// The file.
        path: String,
        /// The cause.
        reason: String,
    },
    /// The certificate does not name its user.
    #[error("{path} does not name `{wanted}`: it is for {names}")]
    Name {
        /// The certificate's file.
        path: String,
        /// The name that it must contain.
        wanted: String,
        /// The names that it contains.
        names: String,
    },
    /// The certificate is not for this use.
    #[error("{path} is not for {}", wanted.purpose())]
    Use {
        /// The certificate's file.
        path: String,
        /// The required use.
        wanted: Use,
    },
    /// The certificate has ended.
    #[error("{path} ended on {end}")]
    Ended {
        /// The certificate's file.
        path: String,
        /// The date of its end.
        end: String,
    },
    /// The certificate has not begun.
    #[error("{path} is not valid before {begin}")]
    NotYet {
        /// The certificate's file.
        path: String,
        /// The date of its beginning.
        begin: String,
    },
}

impl IdentityError {
    /// How to solve the problem.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Use { wanted: Use::Serve, .. } => {
                "a fabric broker's certificate is for server authentication: `weir certificate DIR --fabric HOST`"
            }
            Self::Use { wanted: Use::Connect, .. } => {
                "a machine's certificate is for client authentication: `weir certificate DIR --machine NAME`"
            }
            Self::Ended { .. } => {
                "get a new one; with `weir certificate`: move the old certificate and key out of its directory first"
            }
            Self::NotYet { .. } => "is the clock of this host right?",
            _ => "`weir certificate DIR --policy POLICY --fabric HOST` makes a CA and all certificates",
        }
    }
}

/// The use of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Server authentication: a fabric broker's.
    Serve,
    /// Client authentication: a machine's.
    Connect,
}

impl Use {
    fn purpose(self) -> &'static str {
        match self {
            Self::Serve => "server authentication",
            Self::Connect => "client authentication",
        }
    }
}

/// A certificate with its key and the CA, valid by construction.
#[derive(Debug)]
pub struct Identity {
    /// The texts of the three files, for gRPC's client.
    pub(crate) pem: Pem,
    server: Arc<ServerConfig>,
    names: Vec<String>,
    uses: Vec<Use>,
    begins: i64,
    expires: i64,
}

/// The texts of an identity's files.
pub(crate) struct Pem {
    pub(crate) certificate: String,
    pub(crate) private_key: String,
    pub(crate) ca: String,
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pem(secret)")
    }
}

impl Identity {
    /// Reads and checks the three files.
    pub fn read(files: &IdentityFiles) -> Result<Self, IdentityError> {
        let text = |path: &Path| {
            std::fs::read_to_string(path).map_err(|error| IdentityError::Io { path: path.display().to_string(), error })
        };
        let pem = Pem {
            certificate: text(&files.certificate)?,
            private_key: secret::read(&files.private_key, LONGEST_KEY)?,
            ca: text(&files.ca)?,
        };
        let content = |path: &Path, reason: String| IdentityError::Content { path: path.display().to_string(), reason };
        let chain = certificates(&pem.certificate).map_err(|reason| content(&files.certificate, reason))?;
        let ca = certificates(&pem.ca).map_err(|reason| content(&files.ca, reason))?;
        let key = PrivateKeyDer::from_pem_slice(pem.private_key.as_bytes())
            .map_err(|error| content(&files.private_key, format!("does not hold a private key: {error}")))?;
        let mut roots = RootCertStore::empty();
        for certificate in ca {
            roots.add(certificate).map_err(|error| content(&files.ca, format!("cannot be a CA: {error}")))?;
        }
        let leaf = chain.first().expect("there is one");
        let parsed = parse(leaf).map_err(|reason| content(&files.certificate, reason))?;
        let uses = uses(&parsed).map_err(|reason| content(&files.certificate, reason))?;
        let (names, validity) = (names(&parsed), parsed.validity());
        let (begins, expires) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        // Also finds a key that is not the certificate's.
        let server = server(chain, key, roots)
            .map_err(|reason| content(&files.certificate, format!("cannot be used: {reason}")))?;
        Ok(Self { pem, server, names, uses, begins, expires })
    }

    /// The identity of a fabric broker. Checks everything that a client's TLS checks at `now` (in
    /// seconds since 1970): use, dates, and the host by which clients reach the broker, where it is
    /// known.
    pub(crate) fn of_broker(files: &IdentityFiles, host: Option<&str>, now: i64) -> Result<Self, IdentityError> {
        let identity = Self::read(files)?;
        identity.check_use(Use::Serve, files)?;
        identity.check_dates(now, files)?;
        if let Some(host) = host {
            identity.check_name(host, files)?;
        }
        Ok(identity)
    }

    /// The names in the certificate: DNS names and addresses.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The end of the certificate, in seconds since 1970.
    pub fn expires(&self) -> i64 {
        self.expires
    }

    /// Refuses a certificate that does not name `wanted`.
    pub fn check_name(&self, wanted: &str, files: &IdentityFiles) -> Result<(), IdentityError> {
        if self.names.iter().any(|name| name == wanted) {
            return Ok(());
        }
        let names = if self.names.is_empty() { "no name".to_owned() } else { self.names.join(", ") };
        Err(IdentityError::Name { path: files.certificate.display().to_string(), wanted: wanted.to_owned(), names })
    }

    /// Refuses a certificate that is for another use.
    pub fn check_use(&self, wanted: Use, files: &IdentityFiles) -> Result<(), IdentityError> {
        if self.uses.contains(&wanted) {
            return Ok(());
        }
        Err(IdentityError::Use { path: files.certificate.display().to_string(), wanted })
    }

    /// Refuses a certificate that is not valid at `now`, in seconds since 1970. The intermediate
    /// ones are not checked, since another path may replace one that has ended.
    pub fn check_dates(&self, now: i64, files: &IdentityFiles) -> Result<(), IdentityError> {
        let path = || files.certificate.display().to_string();
        if now < self.begins {
            return Err(IdentityError::NotYet { path: path(), begin: date(self.begins) });
        }
        if now > self.expires {
            return Err(IdentityError::Ended { path: path(), end: date(self.expires) });
        }
        Ok(())
    }

    /// Refuses a machine's certificate that no certificate of its CA file has signed, at `now` in seconds since 1970.
    pub fn check_ca(&self, now: i64, files: &IdentityFiles) -> Result<(), IdentityError> {
        let content = |path: &Path, reason: String| IdentityError::Content { path: path.display().to_string(), reason };
        let read = |pem: &str, path: &Path| certificates(pem).map_err(|reason| content(path, reason));
        let chain = read(&self.pem.certificate, &files.certificate)?;
        let mut roots = RootCertStore::empty();
        for certificate in read(&self.pem.ca, &files.ca)? {
            roots.add(certificate).map_err(|error| content(&files.ca, format!("cannot be a CA: {error}")))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let verifier = verifier.map_err(|error| content(&files.ca, format!("cannot be a CA: {error}")))?;
        let (leaf, between) = chain.split_first().expect("there is one");
        let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap_or(0)));
        verifier.verify_client_cert(leaf, between, now).map(drop).map_err(|error| {
            let reason = format!("is not of the CA in {}: {error}", files.ca.display());
            content(&files.certificate, reason)
        })
    }

    /// The configuration of a server that accepts clients of the same CA only.
    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        self.server.clone()
    }
}

fn server(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: RootCertStore,
) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let clients = clients.build().map_err(|error| error.to_string())?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key);
    let mut config = config.map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(Arc::new(config))
}

/// The certificates of a text, at least one.
fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let all = all.map_err(|error| format!("does not hold a certificate: {error}"))?;
    if all.is_empty() { Err("does not hold a certificate".to_owned()) } else { Ok(all) }
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, String> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| format!("is malformed: {error}"))?;
    Ok(parsed)
}

/// The DNS names and addresses of a certificate.
fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(alternatives)) = certificate.subject_alternative_name() else { return Vec::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv4Addr::from(bytes).to_string()),
            16 => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
            _ => None,
        },
        _ => None,
    };
    alternatives.value.general_names.iter().filter_map(name).collect()
}

/// The uses of a certificate. A certificate without the extension is for all uses. "Any use" among
/// others does not count, as TLS treats it as one more use (rustls-webpki, `verify_cert.rs`).
fn uses(certificate: &X509Certificate<'_>) -> Result<Vec<Use>, String> {
    let usage = certificate.extended_key_usage().map_err(|error| format!("is malformed: {error}"))?;
    let Some(usage) = usage else { return Ok(vec![Use::Serve, Use::Connect]) };
    let all = [(Use::Serve, usage.value.server_auth), (Use::Connect, usage.value.client_auth)];
    Ok(all.into_iter().filter_map(|(wanted, there)| there.then_some(wanted)).collect())
}

/// A date as people read it.
fn date(seconds: i64) -> String {
    ASN1Time::from_timestamp(seconds).map_or_else(|_| format!("{seconds} s since 1970"), |date| date.to_string())
}

/// The names of a client, from the certificate that TLS has verified.
pub(crate) fn names_of(certificate: &CertificateDer<'_>) -> Vec<String> {
    parse(certificate).map_or_else(|_| Vec::new(), |certificate| names(&certificate))
}
