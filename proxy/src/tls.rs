//! TLS: the one cryptographic provider, the certificates that we show, and whom we trust.
//!
//! Certificates are renewed while the gateway runs. A [`ServerTls`] therefore holds its
//! configuration behind an atomic pointer: [`ServerTls::reload`] reads the files again and swaps it
//! whole, or keeps the former one when anything is wrong with the new files. Each handshake uses
//! what stands at its start.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

use crate::config;

/// HTTP/2 first, for clients that know both.
const ALPN_BOTH: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Why TLS cannot be set up.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The certificate does not belong to the key, or cannot be used.
    #[error("certificate {} and key {} cannot be used", cert.display(), key.display())]
    Pair {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What is wrong with them.
        #[source]
        source: rustls::Error,
    },
    /// The host is not a name or address that a certificate can hold.
    #[error("{host:?} is not a host that a certificate can name")]
    Name {
        /// The host.
        host: String,
        /// What is wrong with it.
        #[source]
        source: rustls::pki_types::InvalidDnsNameError,
    },
    /// The file cannot be read or is not PEM of the expected kind.
    #[error("{} cannot be read as PEM {expected}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What it should have held.
        expected: &'static str,
        /// What is wrong with it.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The authority's certificates cannot be used.
    #[error("the authority in {} cannot be used", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The provider lacks a protocol version.
    #[error("the cryptographic provider offers no usable protocol version")]
    Versions(#[source] rustls::Error),
}

/// Makes aws-lc-rs the process's provider. Safe to call more than once.
pub fn install_provider() {
    // An error means that one is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    Arc::clone(provider)
}

/// The certificate that the gateway shows to clients, and whom it accepts.
#[derive(Debug)]
pub struct ServerTls {
    files: config::Tls,
    current: ArcSwap<ServerConfig>,
    read: std::sync::Mutex<Contents>,
}

/// The files' bytes, to see whether they have changed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Contents {
    cert: Vec<u8>,
    key_digest: Option<blake3::Hash>,
    client_ca: Vec<u8>,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or the certificate does not fit the key.
    pub fn new(files: config::Tls) -> Result<Self, TlsError> {
        let config = server_config(&files)?;
        Ok(Self {
            read: std::sync::Mutex::new(Contents::of(&files)),
            current: ArcSwap::from_pointee(config),
            files,
        })
    }

    /// Reads the files again. Handshakes from now on use what they hold.
    ///
    /// # Errors
    ///
    /// As [`ServerTls::new`]; the former certificate stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let contents = Contents::of(&self.files);
        let config = server_config(&self.files)?;
        self.current.store(Arc::new(config));
        *self.lock() = contents;
        Ok(())
    }

    /// Reloads if a file has other bytes than when it was last read; says whether it did. Comparing
    /// bytes sees through the renamed links by which Kubernetes swaps secrets.
    ///
    /// # Errors
    ///
    /// As [`ServerTls::reload`], each time until the files are right again.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        if Contents::of(&self.files) == *self.lock() {
            return Ok(false);
        }
        self.reload().map(|()| true)
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Contents> {
        self.read
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Contents {
    fn of(files: &config::Tls) -> Self {
        let read = |path: &Path| std::fs::read(path).unwrap_or_default();
        Self {
            cert: read(&files.cert),
            key_digest: std::fs::read(&files.key)
                .ok()
                .map(|key| blake3::hash(&zeroize::Zeroizing::new(key))),
            client_ca: files.client_ca.as_deref().map(read).unwrap_or_default(),
        }
    }
}

fn server_config(files: &config::Tls) -> Result<ServerConfig, TlsError> {
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|source| TlsError::Pem {
        path: files.key.clone(),
        expected: "private key",
        source,
    })?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Versions)?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            add_authority(&mut roots, path)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
                .build()
                .map_err(|source| TlsError::Authority {
                    path: path.clone(),
                    source: source.into(),
                })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|source| TlsError::Pair {
            cert: files.cert.clone(),
            key: files.key.clone(),
            source,
        })?;
    config.alpn_protocols = ALPN_BOTH.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

/// Which versions of HTTP a client offers in its handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2, else HTTP/1.1.
    Http2,
}

/// What a connection to a vendor needs: the system's authorities, or Mozilla's list where the system
/// has none, and `ca` besides.
///
/// # Errors
///
/// `ca` cannot be read or used.
pub fn client_config(ca: Option<&Path>, offer: Offer) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::clone(&public_roots());
    if let Some(path) = ca {
        add_authority(&mut roots, path)?;
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Versions)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = match offer {
        Offer::Http1 => vec![b"http/1.1".to_vec()],
        Offer::Http2 => ALPN_BOTH.map(<[u8]>::to_vec).to_vec(),
    };
    Ok(Arc::new(config))
}

/// The system's authorities (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured), read once.
fn public_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        Arc::new(roots)
    });
    Arc::clone(roots)
}

fn add_authority(roots: &mut RootCertStore, path: &Path) -> Result<(), TlsError> {
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|source| TlsError::Authority {
                path: path.to_owned(),
                source: source.into(),
            })?;
    }
    Ok(())
}

/// All certificates of a file; none is an error.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::Pem {
        path: path.to_owned(),
        expected: "certificate",
        source,
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(failed)?;
    if certificates.is_empty() {
        return Err(failed(rustls::pki_types::pem::Error::NoItemsFound));
    }
    Ok(certificates)
}
