//! Microversions: which are served, how a request names one, and the documents `GET /` and `GET /v1`.
//!
//! Every answer has the newest shape that Farrier serves; older versions get the same shape, which their clients read because
//! microversions add fields. So the oldest version offered is the one from which on a node's first state is `enroll`, and a
//! request that names none gets the newest.

use std::collections::BTreeMap;
use std::fmt;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use wire::ironic::{Link, Root, V1, Version as VersionDocument};

use crate::error::ApiError;
use crate::state::{ApiState, clip};

/// A microversion of major version 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Microversion(u32);

/// Oldest and newest that are served.
const OLDEST: Microversion = Microversion(11);
const NEWEST: Microversion = Microversion(94);

const REQUESTED: HeaderName = HeaderName::from_static("x-openstack-ironic-api-version");
const MINIMUM: HeaderName = HeaderName::from_static("x-openstack-ironic-api-minimum-version");
const MAXIMUM: HeaderName = HeaderName::from_static("x-openstack-ironic-api-maximum-version");
const STANDARD: HeaderName = HeaderName::from_static("openstack-api-version");

impl fmt::Display for Microversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

impl From<Microversion> for HeaderValue {
    fn from(version: Microversion) -> Self {
        // Digits and a dot are always a legal header value.
        Self::from_str(&version.to_string()).unwrap_or_else(|_| Self::from_static("1.1"))
    }
}

/// The version that a request asks for: `OpenStack-API-Version: baremetal 1.68` or `X-OpenStack-Ironic-API-Version: 1.68`,
/// or `latest` in either.
fn requested(headers: &HeaderMap) -> Result<Microversion, ApiError> {
    let standard = headers
        .get_all(STANDARD)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(|value| value.trim().strip_prefix("baremetal "));
    let ironic = headers.get(REQUESTED).map(|value| value.to_str().unwrap_or(""));
    let Some(text) = standard.or(ironic).map(str::trim) else {
        return Ok(NEWEST);
    };
    if text.eq_ignore_ascii_case("latest") {
        return Ok(NEWEST);
    }
    let version = text
        .strip_prefix("1.")
        .filter(|minor| minor.bytes().all(|digit| digit.is_ascii_digit()))
        .and_then(|minor| minor.parse().ok())
        .map(Microversion);
    match version {
        Some(version) if (OLDEST..=NEWEST).contains(&version) => Ok(version),
        _ => Err(ApiError::Version(format!(
            "version `{}` of the API was asked for; served are {OLDEST} to {NEWEST}",
            clip(text)
        ))),
    }
}

/// Refuses versions that are not served, and says in every answer which are.
pub(crate) async fn negotiate(request: Request, next: Next) -> Response {
    let requested = requested(request.headers());
    let used = *requested.as_ref().unwrap_or(&NEWEST);
    let mut response = match requested {
        Ok(_) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(MINIMUM, OLDEST.into());
    headers.insert(MAXIMUM, NEWEST.into());
    headers.insert(REQUESTED, used.into());
    if let Ok(value) = HeaderValue::from_str(&format!("baremetal {used}")) {
        headers.insert(STANDARD, value);
    }
    headers.append(
        axum::http::header::VARY,
        HeaderValue::from_static("OpenStack-API-Version, X-OpenStack-Ironic-API-Version"),
    );
    response
}

/// Where links of answers begin: the site's public URL, else what the client called this API.
#[derive(Clone, Debug)]
pub(crate) struct Base(pub(crate) String);

impl Base {
    pub(crate) fn of(state: &ApiState, headers: &HeaderMap) -> Self {
        if let Some(url) = &state.site.public_url {
            return Self(url.trim_end_matches('/').to_owned());
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        let host = headers.get(axum::http::header::HOST);
        let host = host.and_then(|host| host.to_str().ok());
        match host.filter(|host| !host.is_empty() && host.chars().all(legal)) {
            Some(host) if state.site.tls => Self(format!("https://{host}")),
            Some(host) => Self(format!("http://{host}")),
            // Without a host links are relative to wherever the client came from.
            None => Self(String::new()),
        }
    }

    /// `self` and `bookmark` links of one thing.
    pub(crate) fn links(&self, path: &str) -> Vec<Link> {
        let link = |rel: &str, prefix: &str| Link {
            href: format!("{}{prefix}/{path}", self.0),
            rel: rel.to_owned(),
        };
        vec![link("self", "/v1"), link("bookmark", "")]
    }

    fn version(&self) -> VersionDocument {
        VersionDocument {
            id: "v1".to_owned(),
            links: vec![Link {
                href: format!("{}/v1/", self.0),
                rel: "self".to_owned(),
            }],
            status: "CURRENT".to_owned(),
            min_version: OLDEST.to_string(),
            version: NEWEST.to_string(),
        }
    }
}

/// `GET /`.
pub(crate) async fn root(State(state): State<ApiState>, headers: HeaderMap) -> Response {
    let version = Base::of(&state, &headers).version();
    let document = Root {
        name: "Farrier".to_owned(),
        description: "Bare-metal driver host with OpenStack Ironic's API".to_owned(),
        default_version: version.clone(),
        versions: vec![version],
    };
    axum::Json(document).into_response()
}

/// `GET /v1`.
pub(crate) async fn v1(State(state): State<ApiState>, headers: HeaderMap) -> Response {
    let base = Base::of(&state, &headers);
    let collections = ["nodes", "ports", "drivers", "conductors", "lookup", "heartbeat"];
    let collections: BTreeMap<_, _> = collections
        .into_iter()
        .map(|name| (name.to_owned(), json!(base.links(&format!("{name}/")))))
        .collect();
    let version = base.version();
    let document = V1 {
        id: "v1".to_owned(),
        links: version.links.clone(),
        media_types: vec![BTreeMap::from([
            ("base".to_owned(), "application/json".to_owned()),
            ("type".to_owned(), "application/vnd.openstack.ironic.v1+json".to_owned()),
        ])],
        version,
        collections,
    };
    axum::Json(document).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &'static str, value: &str) -> Result<Microversion, String> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        requested(&headers).map_err(|error| error.to_string())
    }

    #[test]
    fn both_headers_name_a_version_and_none_means_the_newest() {
        let ironic = "x-openstack-ironic-api-version";
        let standard = "openstack-api-version";
        assert_eq!(asked(ironic, "1.68"), Ok(Microversion(68)));
        assert_eq!(asked(ironic, "latest"), Ok(NEWEST));
        assert_eq!(asked(standard, "baremetal 1.50"), Ok(Microversion(50)));
        assert_eq!(asked(standard, "compute 2.1, baremetal latest"), Ok(NEWEST));
        assert_eq!(asked(standard, "compute 2.1"), Ok(NEWEST));
        assert_eq!(requested(&HeaderMap::new()).ok(), Some(NEWEST));
        for bad in ["1.115", "1.1", "2.0", "1.+7", "1.", "one", "1.4294967296"] {
            let refusal = asked(ironic, bad).unwrap_err();
            assert!(refusal.contains("1.11 to 1.94"), "{bad}: {refusal}");
        }
    }
}
