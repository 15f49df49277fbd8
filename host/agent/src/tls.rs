//! TLS towards an agent: its own certificate, pinned byte for byte.
//!
//! The ramdisk makes its certificate at boot and sends it with its heartbeat, over a connection that the token vouches for.
//! Names and dates in it mean nothing (the server's clock may be years off), so the pin is compared and nothing else.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// A client that talks to the holder of one of the certificates in `pem`, and to nobody else.
pub(crate) fn pinned(pem: &str) -> Result<ClientConfig, String> {
    let mut pins = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()).take(8) {
        pins.push(certificate.map_err(|error| format!("its PEM text is broken: {error}"))?);
    }
    if pins.is_empty() {
        return Err("it holds no PEM certificate".to_owned());
    }
    let provider = match CryptoProvider::get_default() {
        Some(provider) => provider.clone(),
        None => Arc::new(rustls::crypto::ring::default_provider()),
    };
    let algorithms = provider.signature_verification_algorithms;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { pins, algorithms }))
        .with_no_client_auth();
    Ok(config)
}

#[derive(Debug)]
struct Pinned {
    pins: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.pins.iter().any(|pin| pin.as_ref() == end_entity.as_ref()) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            ))
        }
    }

    // The handshake's signature is what proves that the peer holds the key of the pinned certificate.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
