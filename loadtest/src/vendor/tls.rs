//! A vendor's certificate.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use super::VendorError;

/// A self-signed certificate and its key.
#[derive(Clone)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
    pem: String,
}

impl Identity {
    /// A fresh one for these names (`localhost`, `127.0.0.1`, …).
    ///
    /// # Errors
    ///
    /// [`VendorError::Tls`] when a name is not valid.
    pub fn self_signed(names: &[&str]) -> Result<Self, VendorError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names)
            .map_err(|error| VendorError::Tls(error.to_string()))?;
        Ok(Self {
            certificate: made.cert.der().clone(),
            key: made.signing_key.serialize_der(),
            pem: made.cert.pem(),
        })
    }

    /// The certificate as PEM: what a client has to trust.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    pub(super) fn acceptor(&self) -> Result<TlsAcceptor, VendorError> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(vec![self.certificate.clone()], key)
            })
            .map_err(|error| VendorError::Tls(error.to_string()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Identity").finish_non_exhaustive()
    }
}
