//! An image URL: what of it goes on the wire, and the connection to where it points.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::media::{MediaError, Stream};
use crate::profile::{MediaClient, RangeForm};

/// An image URL that a BMC can read.
#[derive(Clone)]
pub(crate) struct ImageUrl {
    tls: bool,
    host: Host<String>,
    port: u16,
    /// Path as it stands in the request line.
    path: String,
    authorization: Option<String>,
}

impl ImageUrl {
    /// Parses an absolute http or https URL; says why not.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| error.to_string())?;
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            other => return Err(format!("scheme {other} cannot be read by a BMC")),
        };
        let host = url.host().ok_or("no host")?.to_owned();
        let port = url.port_or_known_default().ok_or("no port")?;
        let mut path = url.path().to_owned();
        if let Some(query) = url.query() {
            path.push('?');
            path.push_str(query);
        }
        let authorization = (!url.username().is_empty()).then(|| {
            let pair = format!("{}:{}", url.username(), url.password().unwrap_or_default());
            format!("Basic {}", STANDARD.encode(pair))
        });
        Ok(Self {
            tls,
            host,
            port,
            path,
            authorization,
        })
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The request as it goes on the wire in a BMC's shape. `range`: first and last byte.
    pub(super) fn request(&self, shape: &MediaClient, method: &str, range: Option<(u64, u64)>) -> String {
        let mut text = format!("{method} {} HTTP/1.1\r\nHost: {}", self.path, self.host);
        let usual = if self.tls { 443 } else { 80 };
        if shape.host_port && self.port != usual {
            text.push_str(&format!(":{}", self.port));
        }
        text.push_str("\r\n");
        for (name, value) in &shape.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some((first, last)) = range {
            text.push_str(&match shape.range {
                RangeForm::Plain => format!("Range: bytes={first}-{last}\r\n"),
                RangeForm::Padded => format!("Range: bytes={first:020}-{last:020}\r\n"),
            });
        }
        if let Some(value) = &self.authorization {
            text.push_str(&format!("Authorization: {value}\r\n"));
        }
        text.push_str("\r\n");
        text
    }

    pub(super) async fn connect(&self, tls: &Arc<ClientConfig>) -> Result<Box<dyn Stream>, MediaError> {
        let wrong = |reason: String| MediaError::Connect {
            address: self.address(),
            reason,
        };
        let tcp = match &self.host {
            Host::Domain(name) => TcpStream::connect((name.as_str(), self.port)).await,
            Host::Ipv4(address) => TcpStream::connect((*address, self.port)).await,
            Host::Ipv6(address) => TcpStream::connect((*address, self.port)).await,
        }
        .map_err(|error| wrong(error.to_string()))?;
        tcp.set_nodelay(true).map_err(|error| wrong(error.to_string()))?;
        if !self.tls {
            return Ok(Box::new(tcp));
        }
        let name = match &self.host {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|error| wrong(error.to_string()))?,
            Host::Ipv4(address) => ServerName::IpAddress(IpAddr::V4(*address).into()),
            Host::Ipv6(address) => ServerName::IpAddress(IpAddr::V6(*address).into()),
        };
        let stream = TlsConnector::from(Arc::clone(tls))
            .connect(name, tcp)
            .await
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Box::new(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    fn shape(profile: &str) -> &'static MediaClient {
        &Profile::by_name(profile).unwrap().media_client
    }

    #[test]
    fn a_request_has_its_bmcs_shape_byte_for_byte() {
        let url = ImageUrl::parse("http://127.0.0.1:8080/a/b.iso").unwrap();
        let range = Some((561_152, 563_199));
        for profile in ["ilo2", "ilo3", "ilo4", "ilo5", "ilo6", "ilo7"] {
            assert_eq!(
                url.request(shape(profile), "GET", range),
                "GET /a/b.iso HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: bytes=00000000000000561152-00000000000000563199\r\n\r\n",
                "{profile}"
            );
        }
        assert_eq!(
            url.request(shape("dell"), "GET", range),
            "GET /a/b.iso HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Wget/1.21 (linux-gnu)\r\nRange: bytes=561152-563199\r\n\r\n"
        );
        assert_eq!(
            url.request(shape("generic"), "GET", None),
            "GET /a/b.iso HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept-Encoding: gzip, deflate, zstd\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n"
        );
        let url = ImageUrl::parse("https://[::1]/x.iso").unwrap();
        assert!(
            url.request(shape("lenovo"), "GET", range)
                .contains("\r\nHost: [::1]\r\n")
        );
        let url = ImageUrl::parse("http://u:p@h/x.iso").unwrap();
        assert!(
            url.request(shape("ilo5"), "GET", range)
                .contains("\r\nAuthorization: Basic dTpw\r\n")
        );
    }

    #[test]
    fn only_http_urls_are_images() {
        for text in ["file:///x.iso", "ftp://h/x.iso", "nfs://h/x.iso", "/x.iso", "http:///"] {
            assert!(ImageUrl::parse(text).is_err(), "{text}");
        }
    }
}
