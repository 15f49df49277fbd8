//! TLS 1.2 and newer by rustls, and its failures in an operator's words.

use std::error::Error;
use std::sync::Arc;

use reqwest::{Client, ClientBuilder, redirect};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{BODY_CAP, Failure, FailureKind, IDLE, Reply, Request, certificates};
use crate::access::{Deadlines, Tls};

/// The error is the reason in words.
pub(super) fn client(tls: &Tls, deadlines: &Deadlines) -> Result<Client, String> {
    // A process without a provider would make the TLS library panic.
    if CryptoProvider::get_default().is_none() {
        // Lost races leave one installed too.
        let _installed = ring::default_provider().install_default();
    }
    let builder = Client::builder()
        .http1_only()
        .http1_allow_spaces_after_header_name_in_responses(true)
        .http1_allow_obsolete_multiline_headers_in_responses(true)
        .http1_ignore_invalid_headers_in_responses(true)
        .no_proxy()
        .referer(false)
        .redirect(redirect::Policy::none())
        .connect_timeout(deadlines.connect)
        .pool_max_idle_per_host(1)
        .pool_idle_timeout(IDLE)
        .user_agent(concat!("farrier/", env!("CARGO_PKG_VERSION")));
    trusting(builder, tls)?
        .build()
        .map_err(|error| format!("the TLS client cannot be made: {}", chain(&error)))
}

/// One request, one answer.
pub(super) async fn send(client: &Client, request: Request) -> Result<Reply, Failure> {
    let broken = |error: reqwest::Error| Failure {
        kind: if is_distrust(&error) {
            FailureKind::Distrust
        } else {
            FailureKind::Broken
        },
        reason: reason(&error),
        arrived: !error.is_connect() && !error.is_builder(),
    };
    let mut builder = client.request(request.method, request.url).headers(request.headers);
    if let Some(body) = request.body {
        builder = builder.body(body);
    }
    let mut response = builder.send().await.map_err(broken)?;
    let cap = u64::try_from(BODY_CAP).unwrap_or(u64::MAX);
    if response.content_length().is_some_and(|length| length > cap) {
        return Err(Failure::too_big());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if body.len() + chunk.len() > BODY_CAP {
            return Err(Failure::too_big());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Reply {
        status: response.status(),
        headers: std::mem::take(response.headers_mut()),
        body,
    })
}

fn trusting(builder: ClientBuilder, tls: &Tls) -> Result<ClientBuilder, String> {
    match tls {
        Tls::Insecure => Ok(builder.tls_danger_accept_invalid_certs(true)),
        Tls::Verify { ca: None } => Ok(builder),
        Tls::Verify { ca: Some(ca) } => {
            let provider = Arc::new(ring::default_provider());
            let verifier = Trust::new(certificates(ca)?, Arc::clone(&provider))?;
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| format!("the TLS client cannot be made: {error}"))?
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
                .with_no_client_auth();
            Ok(builder.tls_backend_preconfigured(config))
        }
    }
}

/// Trusts what the given certificates signed, and the given certificates themselves.
#[derive(Debug)]
struct Trust {
    given: Vec<CertificateDer<'static>>,
    chain: Arc<WebPkiServerVerifier>,
}

impl Trust {
    fn new(given: Vec<CertificateDer<'static>>, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(given.iter().cloned());
        let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| format!("`ca` holds no usable certificate: {error}"))?;
        Ok(Self { given, chain })
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // Factory certificates of BMCs are self-signed, name nobody and are marked as CAs, so no chain leads to them;
        // whoever hands us that very certificate vouches for it. The handshake still proves that the peer has its key.
        if self.given.iter().any(|given| given.as_ref() == end_entity.as_ref()) {
            return Ok(ServerCertVerified::assertion());
        }
        self.chain
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// Why a request got no answer, down to the failing layer.
fn reason(error: &reqwest::Error) -> String {
    if let Some(tls) = tls_error(error) {
        return tls_reason(tls);
    }
    let layers = chain(error);
    if error.is_connect() {
        format!("no connection: {layers}")
    } else {
        format!("the connection broke: {layers}")
    }
}

/// Whether what failed is the BMC's certificate: trying again does not help, another setting does.
fn is_distrust(error: &reqwest::Error) -> bool {
    matches!(tls_error(error), Some(rustls::Error::InvalidCertificate(_)))
}

fn tls_reason(error: &rustls::Error) -> String {
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage, PeerIncompatible};
    match error {
        InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "its certificate is for another name: call it by the name in the certificate, or name a file with that very certificate (driver_info/ilo_verify_ca, or --ca)".to_owned(),
        InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "its certificate has expired: renew it, or name a file with that very certificate (driver_info/ilo_verify_ca, or --ca)".to_owned()
        }
        InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "its certificate is not valid yet: check the clocks of the BMC and of this machine".to_owned(),
        InvalidCertificate(why) => format!(
            "its certificate is not trusted ({why}): name a PEM file with its CA or with the BMC's own certificate (driver_info/ilo_verify_ca, or --ca)"
        ),
        PeerIncompatible(_) | AlertReceived(_) => format!(
            "no TLS handshake ({error}): if it speaks only protocols or ciphers older than TLS 1.2 with forward secrecy, allow these (driver_info/bmc_tls = legacy, or --tls legacy)"
        ),
        InvalidMessage(_) => format!("no TLS handshake ({error}): is this port http instead of https?"),
        other => format!("TLS failed: {other}"),
    }
}

fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    let mut next: Option<&(dyn Error + 'static)> = error.source();
    while let Some(layer) = next {
        if let Some(found) = layer.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        let inner = layer.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => layer.source(),
        };
    }
    None
}

/// The innermost messages of an error; the outermost one repeats the URL and is left out.
fn chain(error: &reqwest::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(layer) = next {
        let text = layer.to_string();
        if texts.last().is_none_or(|last| *last != text) {
            texts.push(text);
        }
        next = layer.source();
    }
    if texts.is_empty() {
        "the request could not be made".to_owned()
    } else {
        texts.join(": ")
    }
}
