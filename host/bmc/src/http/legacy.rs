//! The TLS of BMCs that rustls does not reach: TLS 1.0 to 1.2 with old ciphers, by the machine's OpenSSL. Used only where a
//! node asks for it. Certificates are judged as strictly as elsewhere.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use openssl::error::ErrorStack;
use openssl::ssl::{Ssl, SslContext, SslMethod, SslMode, SslOptions, SslVerifyMode, SslVersion};
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::verify::{X509CheckFlags, X509VerifyFlags};
use openssl::x509::{X509, X509StoreContextRef, X509VerifyResult};
use reqwest::header::{HOST, HeaderValue, USER_AGENT};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_openssl::SslStream;
use tokio_util::task::AbortOnDropHandle;
use url::{Host, Url};

use super::{BODY_CAP, Failure, FailureKind, IDLE, Reply, Request, certificates};
use crate::access::{BmcConfig, Ca, Tls};

/// `SSL_OP_LEGACY_SERVER_CONNECT`: firmwares from before RFC 5746 cannot renegotiate securely, and we never renegotiate.
const LEGACY_SERVER_CONNECT: u64 = 0x4;
/// Every cipher that is compiled in, but for those that authenticate nobody or encrypt nothing.
const CIPHERS: &str = "ALL:!aNULL:!eNULL:@SECLEVEL=0";

/// A TLS connection to a BMC.
pub(crate) type LegacyStream = SslStream<TcpStream>;

/// Connections to one BMC over legacy TLS, and HTTP/1.1 on them.
pub(crate) struct LegacyClient {
    context: SslContext,
    host: Host<String>,
    port: u16,
    verify: bool,
    connect: Duration,
    idle: Mutex<Option<Idle>>,
}

/// A connection that waits for the next request.
struct Idle {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortOnDropHandle<()>,
    since: Instant,
}

impl LegacyClient {
    pub(crate) fn new(config: &BmcConfig, origin: &Url) -> Result<Self, String> {
        let host = origin.host().ok_or("the address names no host")?.to_owned();
        Ok(Self {
            context: context(&config.tls)?,
            host,
            port: origin.port_or_known_default().unwrap_or(443),
            verify: matches!(config.tls, Tls::Verify { .. }),
            connect: config.deadlines.connect,
            idle: Mutex::new(None),
        })
    }

    /// A new connection, its handshake done.
    pub(crate) async fn connect(&self) -> Result<LegacyStream, Failure> {
        match timeout(self.connect, self.handshake()).await {
            Ok(result) => result,
            Err(_) => Err(unconnected(format!("no connection within {:.0?}", self.connect))),
        }
    }

    async fn handshake(&self) -> Result<LegacyStream, Failure> {
        let tcp = match &self.host {
            Host::Domain(name) => TcpStream::connect((name.as_str(), self.port)).await,
            Host::Ipv4(address) => TcpStream::connect((*address, self.port)).await,
            Host::Ipv6(address) => TcpStream::connect((*address, self.port)).await,
        };
        let tcp = tcp.map_err(|error| unconnected(format!("no connection: {error}")))?;
        // A small document must not wait for the acknowledgement of another.
        let _ = tcp.set_nodelay(true);
        let broken = |error: ErrorStack| unconnected(format!("the TLS client cannot be made: {error}"));
        let ssl = self.ssl().map_err(broken)?;
        let mut stream = SslStream::new(ssl, tcp).map_err(broken)?;
        match Pin::new(&mut stream).connect().await {
            Ok(()) => Ok(stream),
            Err(error) => Err(refused(stream.ssl().verify_result(), self.verify, &error)),
        }
    }

    fn ssl(&self) -> Result<Ssl, ErrorStack> {
        let mut ssl = Ssl::new(&self.context)?;
        if let Host::Domain(name) = &self.host {
            ssl.set_hostname(name)?;
        }
        if self.verify {
            let parameters = ssl.param_mut();
            parameters.set_hostflags(X509CheckFlags::NO_PARTIAL_WILDCARDS);
            match &self.host {
                Host::Domain(name) => parameters.set_host(name)?,
                Host::Ipv4(address) => parameters.set_ip((*address).into())?,
                Host::Ipv6(address) => parameters.set_ip((*address).into())?,
            }
        }
        Ok(ssl)
    }

    /// One request, one answer; on the connection of the last one where that still stands.
    pub(super) async fn send(&self, request: Request) -> Result<Reply, Failure> {
        let idle = self.idle.lock().await.take();
        let idle = idle.filter(|idle| idle.since.elapsed() < IDLE && !idle.sender.is_closed());
        let (mut sender, driver, reused) = match idle {
            Some(idle) => (idle.sender, idle.driver, true),
            None => {
                let (sender, driver) = self.open().await?;
                (sender, driver, false)
            }
        };
        let wire = self.wire(&request)?;
        let outcome = match sender.ready().await {
            Ok(()) => sender.send_request(wire.clone()).await,
            Err(error) => Err(error),
        };
        let (response, mut sender, driver) = match outcome {
            Ok(response) => (response, sender, driver),
            // The BMC closed the idle connection meanwhile, and nothing was sent on it.
            Err(error) if reused && (error.is_canceled() || error.is_closed()) => {
                let (mut sender, driver) = self.open().await?;
                let response = sender.send_request(wire).await.map_err(|error| broken(&error))?;
                (response, sender, driver)
            }
            Err(error) => return Err(broken(&error)),
        };
        let (head, body) = response.into_parts();
        let body = match Limited::new(body, BODY_CAP).collect().await {
            Ok(body) => body.to_bytes().to_vec(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => return Err(Failure::too_big()),
            Err(error) => {
                return Err(Failure {
                    kind: FailureKind::Broken,
                    reason: format!("the connection broke: {error}"),
                    arrived: true,
                });
            }
        };
        if sender.ready().await.is_ok() {
            let since = Instant::now();
            *self.idle.lock().await = Some(Idle { sender, driver, since });
        }
        Ok(Reply {
            status: head.status,
            headers: head.headers,
            body,
        })
    }

    async fn open(&self) -> Result<(SendRequest<Full<Bytes>>, AbortOnDropHandle<()>), Failure> {
        let stream = self.connect().await?;
        let handshake = http1::Builder::new()
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .ignore_invalid_headers_in_responses(true)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|error| broken(&error))?;
        // How the connection ends, the request on it tells.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok((sender, AbortOnDropHandle::new(driver)))
    }

    fn wire(&self, request: &Request) -> Result<hyper::Request<Full<Bytes>>, Failure> {
        let unsendable = |what: &str| unconnected(format!("the request could not be made: {what}"));
        let target = match request.url.query() {
            Some(query) => format!("{}?{query}", request.url.path()),
            None => request.url.path().to_owned(),
        };
        let mut wire = hyper::Request::new(Full::new(request.body.clone().unwrap_or_default()));
        *wire.method_mut() = request.method.clone();
        *wire.uri_mut() = target.parse().map_err(|_| unsendable("its path is none"))?;
        *wire.headers_mut() = request.headers.clone();
        let host = match request.url.port() {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.to_string(),
        };
        let host = HeaderValue::from_str(&host).map_err(|_| unsendable("its host is none"))?;
        wire.headers_mut().insert(HOST, host);
        let agent = HeaderValue::from_static(concat!("farrier/", env!("CARGO_PKG_VERSION")));
        wire.headers_mut().insert(USER_AGENT, agent);
        Ok(wire)
    }
}

fn context(tls: &Tls) -> Result<SslContext, String> {
    let given = match tls {
        Tls::Verify { ca: Some(ca) } => Some(given(ca)?),
        Tls::Verify { ca: None } | Tls::Insecure => None,
    };
    let make = || -> Result<SslContext, ErrorStack> {
        let mut builder = SslContext::builder(SslMethod::tls_client())?;
        builder.set_security_level(0);
        builder.set_cipher_list(CIPHERS)?;
        builder.set_min_proto_version(Some(SslVersion::TLS1))?;
        // Firmwares of that age drop the connection at the sight of a TLS 1.3 hello.
        builder.set_max_proto_version(Some(SslVersion::TLS1_2))?;
        builder.set_options(SslOptions::from_bits_retain(LEGACY_SERVER_CONNECT));
        builder.set_mode(SslMode::AUTO_RETRY);
        match (tls, given) {
            (Tls::Insecure, _) => builder.set_verify(SslVerifyMode::NONE),
            (Tls::Verify { .. }, None) => {
                builder.set_default_verify_paths()?;
                builder.set_verify(SslVerifyMode::PEER);
            }
            (Tls::Verify { .. }, Some(given)) => {
                let mut store = X509StoreBuilder::new()?;
                for certificate in &given {
                    store.add_cert(certificate.clone())?;
                }
                store.set_flags(X509VerifyFlags::PARTIAL_CHAIN)?;
                builder.set_verify_cert_store(store.build())?;
                builder.set_verify_callback(SslVerifyMode::PEER, move |sound, chain| sound || vouched(&given, chain));
            }
        }
        Ok(builder.build())
    };
    make().map_err(|error| format!("the TLS client cannot be made: {error}"))
}

fn given(ca: &Ca) -> Result<Vec<X509>, String> {
    certificates(ca)?
        .iter()
        .map(|der| {
            X509::from_der(der).map_err(|error| format!("`ca` holds a certificate that OpenSSL cannot read: {error}"))
        })
        .collect()
}

/// Whether the BMC shows one of the very certificates that were given: whoever gave it vouches for it, whatever name and dates
/// it bears. The handshake still proves that the peer has its key.
fn vouched(given: &[X509], chain: &mut X509StoreContextRef) -> bool {
    let Some(Ok(shown)) = chain
        .current_cert()
        .filter(|_| chain.error_depth() == 0)
        .map(|cert| cert.to_der())
    else {
        return false;
    };
    let known = given
        .iter()
        .any(|given| given.to_der().is_ok_and(|given| given == shown));
    if known {
        chain.set_error(X509VerifyResult::OK);
    }
    known
}

fn refused(verdict: X509VerifyResult, verify: bool, error: &openssl::ssl::Error) -> Failure {
    if verify && verdict != X509VerifyResult::OK {
        return Failure {
            kind: FailureKind::Distrust,
            reason: format!(
                "its certificate is not trusted ({}): name a PEM file with its CA or with the BMC's own certificate (driver_info/ilo_verify_ca, or --ca)",
                verdict.error_string()
            ),
            arrived: false,
        };
    }
    let why = error
        .io_error()
        .map_or_else(|| error.to_string(), std::string::ToString::to_string);
    unconnected(format!("no TLS handshake ({why})"))
}

fn unconnected(reason: String) -> Failure {
    Failure {
        kind: FailureKind::Broken,
        reason,
        arrived: false,
    }
}

fn broken(error: &hyper::Error) -> Failure {
    let mut reason = format!("the connection broke: {error}");
    let mut next = std::error::Error::source(error);
    while let Some(layer) = next {
        reason.push_str(&format!(": {layer}"));
        next = layer.source();
    }
    Failure {
        kind: FailureKind::Broken,
        reason,
        arrived: true,
    }
}
