//! Asking a web server, through its redirects, or a service of OpenStack.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::header::{HeaderMap, LOCATION};
use reqwest::{Method, Response, StatusCode};
use tokio::net::lookup_host;
use tokio::time::timeout;
use url::{Host, Url};

use super::errors::{late, local_error, unreachable};
use super::{CONNECT, Http};
use crate::openstack::{Client, OpenStackError};
use crate::{SourceError, address};

/// Most redirects that one fetch follows.
const REDIRECTS: usize = 5;

/// Who is asked, for what.
#[derive(Clone)]
pub(crate) enum Asked {
    Web {
        /// May hold credentials.
        url: Url,
        shown: String,
    },
    OpenStack {
        client: Client,
        /// The service's type in the catalogue.
        service: &'static str,
        /// Under its endpoint.
        path: Vec<String>,
        shown: String,
    },
}

impl Asked {
    pub(crate) fn shown(&self) -> &str {
        match self {
            Self::Web { shown, .. } | Self::OpenStack { shown, .. } => shown,
        }
    }
}

impl Http {
    /// The first answer that is no redirect.
    pub(super) async fn ask(&self, asked: &Asked, headers: HeaderMap) -> Result<Response, SourceError> {
        match asked {
            Asked::Web { url, shown } => self.ask_web(url, shown, headers).await,
            Asked::OpenStack {
                client,
                service,
                path,
                shown,
            } => {
                let asked = ask_openstack(client, service, path, headers).await;
                asked.map_err(|source| SourceError::OpenStack {
                    reference: shown.clone(),
                    source: Arc::new(source),
                })
            }
        }
    }

    async fn ask_web(&self, first: &Url, shown: &str, headers: HeaderMap) -> Result<Response, SourceError> {
        let mut url = first.clone();
        for _ in 0..=REDIRECTS {
            if !self.allow_local {
                self.check(&url, shown).await?;
            }
            let mut request = self.client.client().get(url.clone()).headers(headers.clone());
            if let Some(login) = self.login(&url, first) {
                request = request.basic_auth(&login.user, Some(login.password.expose()));
            }
            let response = timeout(CONNECT + self.stall, request.send())
                .await
                .map_err(|_| late(shown, CONNECT + self.stall, "no answer came"))?
                .map_err(|error| unreachable(&error, shown))?;
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(location) = location.filter(|_| is_redirect(response.status())) else {
                return Ok(response);
            };
            url = next(&url, location, first).map_err(|reason| refused(shown, reason))?;
        }
        Err(refused(shown, &format!("it redirects more than {REDIRECTS} times")))
    }

    /// Addresses that stand in the URL itself never reach the resolver, and with a proxy no name of it does.
    async fn check(&self, url: &Url, shown: &str) -> Result<(), SourceError> {
        let host = url.host_str().unwrap_or_default();
        let found: Vec<IpAddr> = match url.host() {
            Some(Host::Ipv4(v4)) => vec![v4.into()],
            Some(Host::Ipv6(v6)) => vec![v6.into()],
            // A name that only the proxy can resolve is the proxy's to judge.
            Some(Host::Domain(name)) if self.proxied => match lookup_host((name, 0)).await {
                Ok(found) => found.map(|address| address.ip()).collect(),
                Err(_) => Vec::new(),
            },
            Some(Host::Domain(_)) | None => Vec::new(),
        };
        let port = url.port_or_known_default().unwrap_or_default();
        for address in found {
            if self.allowed.contains(&SocketAddr::new(address.to_canonical(), port)) {
                continue;
            }
            address::check(host, address).map_err(|local| local_error(&local, shown))?;
        }
        Ok(())
    }

    /// What the site logs in with. A URL's own user and password go before; the client sends them by itself.
    fn login(&self, url: &Url, first: &Url) -> Option<&super::Login> {
        if !url.username().is_empty() || url.password().is_some() {
            return None;
        }
        self.logins.iter().find(|login| match &login.origin {
            Some(origin) => origin.origin() == url.origin(),
            None => first.origin() == url.origin(),
        })
    }
}

async fn ask_openstack(
    client: &Client,
    service: &str,
    path: &[String],
    headers: HeaderMap,
) -> Result<Response, OpenStackError> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let mut request = client.request(service, Method::GET, &path).await?;
    request.headers_mut().extend(headers);
    client.send(request).await
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Where a redirect leads. Credentials of the reference stay with the server that it names.
fn next(url: &Url, location: &str, first: &Url) -> Result<Url, &'static str> {
    let mut next = url
        .join(location)
        .map_err(|_| "it redirects to something that is not a URL")?;
    match (url.scheme(), next.scheme()) {
        (_, "https") | ("http", "http") => {}
        ("https", "http") => return Err("it redirects from https to http"),
        _ => return Err("it redirects to something that is neither http nor https"),
    }
    let (user, password) = match next.origin() == first.origin() {
        true => (first.username(), first.password()),
        false => ("", None),
    };
    // Fails for URLs without a host only.
    let set = next.set_username(user).and_then(|()| next.set_password(password));
    set.map_err(|()| "it redirects to something that is not a URL")?;
    Ok(next)
}

fn refused(shown: &str, reason: &str) -> SourceError {
    SourceError::Refused {
        reference: shown.to_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_with_the_server_that_the_reference_names() {
        let first = Url::parse("https://u:p@h/a").unwrap();
        for (location, leads_to) in [
            ("/b", "https://u:p@h/b"),
            ("https://h/b", "https://u:p@h/b"),
            ("https://h:443/b", "https://u:p@h/b"),
            ("https://h:8443/b", "https://h:8443/b"),
            ("https://other/b", "https://other/b"),
            ("https://x:y@other/b", "https://other/b"),
            ("//other/b", "https://other/b"),
        ] {
            assert_eq!(next(&first, location, &first).unwrap().as_str(), leads_to, "{location}");
        }
        let elsewhere = Url::parse("https://other/b").unwrap();
        assert_eq!(next(&elsewhere, "/c", &first).unwrap().as_str(), "https://other/c");
        assert_eq!(
            next(&elsewhere, "https://h/c", &first).unwrap().as_str(),
            "https://u:p@h/c"
        );
        for wrong in ["http://h/b", "file:///etc/passwd", "https://", "gopher://h/"] {
            assert!(next(&first, wrong, &first).is_err(), "{wrong}");
        }
    }
}
