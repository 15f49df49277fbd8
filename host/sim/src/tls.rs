//! Certificates: the CA and the servers' certificate of the simulated BMCs, and the client side for https media.
//!
//! Old BMCs are served by OpenSSL, since rustls has nothing older than TLS 1.2: see [`legacy`].

use std::io;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use crate::error::SimError;
use crate::profile::TlsOffer;

mod legacy;

/// A connection to a BMC, its handshake done.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// The server side of a BMC's TLS, and what vouches for it.
#[derive(Clone)]
pub(crate) struct Service {
    /// Of the CA.
    pub(crate) ca_pem: String,
    acceptor: Acceptor,
}

#[derive(Clone)]
enum Acceptor {
    Modern(TlsAcceptor),
    Legacy(openssl::ssl::SslContext),
}

impl Service {
    /// Makes a CA and a certificate for the loopback names and `extra`, as old as the offer.
    pub(crate) fn generate(offer: TlsOffer, extra: Option<std::net::IpAddr>) -> Result<Self, SimError> {
        if offer != TlsOffer::Modern {
            let (ca_pem, context) =
                legacy::generate(offer, extra).map_err(|error| SimError::Certificates(error.to_string()))?;
            return Ok(Self {
                ca_pem,
                acceptor: Acceptor::Legacy(context),
            });
        }
        let identity = Identity::generate(extra)?;
        Ok(Self {
            ca_pem: identity.ca_pem,
            acceptor: Acceptor::Modern(TlsAcceptor::from(identity.server)),
        })
    }

    /// Does the handshake.
    pub(crate) async fn accept(&self, tcp: impl Stream + 'static) -> io::Result<Box<dyn Stream>> {
        match &self.acceptor {
            Acceptor::Modern(acceptor) => Ok(Box::new(acceptor.accept(tcp).await?)),
            Acceptor::Legacy(context) => Ok(Box::new(legacy::accept(context, tcp).await?)),
        }
    }
}

/// What vouches for a certificate, and a TLS server set-up with that certificate for the loopback names.
pub(crate) struct Identity {
    pub(crate) ca_pem: String,
    pub(crate) server: Arc<ServerConfig>,
}

impl Identity {
    /// Makes a new CA and a certificate for 127.0.0.1, ::1, localhost and `extra`.
    pub(crate) fn generate(extra: Option<std::net::IpAddr>) -> Result<Self, SimError> {
        let wrong = |error: rcgen::Error| SimError::Certificates(error.to_string());
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        ca.distinguished_name.push(DnType::CommonName, "Simulated iLO CA");
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().map_err(wrong)?).map_err(wrong)?;
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".into(), "::1".into()];
        names.extend(extra.map(|address| address.to_string()));
        names.dedup();
        let key = KeyPair::generate().map_err(wrong)?;
        let leaf = CertificateParams::new(names)
            .and_then(|mut params| {
                params.distinguished_name.push(DnType::CommonName, "Simulated iLO");
                params.signed_by(&key, &ca)
            })
            .map_err(wrong)?;
        Self::serving(ca.pem(), leaf.der().clone(), &key)
    }

    /// Makes a certificate that signs itself, as the deploy agent does at boot; what vouches for it is the certificate itself.
    pub(crate) fn self_signed() -> Result<Self, SimError> {
        let wrong = |error: rcgen::Error| SimError::Certificates(error.to_string());
        let key = KeyPair::generate().map_err(wrong)?;
        let certificate = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".into()])
            .and_then(|mut params| {
                params
                    .distinguished_name
                    .push(DnType::CommonName, "Simulated deploy agent");
                params.self_signed(&key)
            })
            .map_err(wrong)?;
        Self::serving(certificate.pem(), certificate.der().clone(), &key)
    }

    fn serving(ca_pem: String, certificate: CertificateDer<'static>, key: &KeyPair) -> Result<Self, SimError> {
        let key =
            PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| SimError::Certificates(error.to_owned()))?;
        let server = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![certificate], key))
            .map_err(|error| SimError::Certificates(error.to_string()))?;
        Ok(Self {
            ca_pem,
            server: Arc::new(server),
        })
    }
}

/// How a client of ours checks a server's certificate.
pub(crate) enum Trust<'a> {
    /// Not at all.
    Anything,
    /// Against these PEM certificates only; an empty list trusts nobody.
    Only(&'a str),
}

pub(crate) fn client(trust: Trust<'_>) -> Result<Arc<ClientConfig>, SimError> {
    let wrong = |error: rustls::Error| SimError::Certificates(error.to_string());
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(wrong)?;
    let config = match trust {
        Trust::Anything => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnything(provider())))
            .with_no_client_auth(),
        Trust::Only(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let certificate = certificate.map_err(|error| SimError::Certificates(error.to_string()))?;
                roots.add(certificate).map_err(wrong)?;
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
    };
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// An iLO reads https images without checking who serves them unless it was given a certificate.
#[derive(Debug)]
struct AcceptAnything(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnything {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
