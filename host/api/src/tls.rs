//! Certificates and keys of the listeners.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why a listener cannot speak TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or holds no PEM of its kind.
    #[error("{path} holds no {what} in PEM: {reason}")]
    File {
        /// Which file.
        path: String,
        /// "certificate" or "private key".
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// They do not fit together, or the key is of an unknown kind.
    #[error("certificate {certificate} and key {key} cannot be used together")]
    Pair {
        /// The certificate's file.
        certificate: String,
        /// The key's file.
        key: String,
        /// Why.
        #[source]
        source: rustls::Error,
    },
}

/// Reads a certificate chain and its key. TLS 1.2 and 1.3, HTTP/1.1 only. Needs rustls's provider installed.
pub fn load(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let file = |path: &Path, what, reason: String| TlsError::File {
        path: path.display().to_string(),
        what,
        reason,
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| file(certificate, "certificate", error.to_string()))?;
    if chain.is_empty() {
        return Err(file(certificate, "certificate", "there is none in it".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| file(key, "private key", error.to_string()))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|source| TlsError::Pair {
            certificate: certificate.display().to_string(),
            key: key.display().to_string(),
            source,
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
