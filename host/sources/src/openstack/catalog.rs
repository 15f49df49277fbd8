//! The service catalogue: which service is where.

use serde::Deserialize;
use url::{Origin, Url};

use super::identity::Interface;

/// Most endpoints that are kept.
const ENDPOINTS: usize = 4096;

/// What a token's catalogue names, of web services.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalog(Vec<Entry>);

#[derive(Clone, Debug)]
struct Entry {
    service: String,
    interface: String,
    region: Option<String>,
    url: Url,
}

/// The shape in Keystone's answer.
#[derive(Deserialize)]
pub(super) struct Service {
    r#type: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    interface: String,
    #[serde(default)]
    region_id: Option<String>,
    #[serde(default)]
    region: Option<String>,
    url: String,
}

impl Catalog {
    /// Endpoints that are no http(s) URL are not for us, whoever put them there.
    pub(super) fn new(services: Vec<Service>) -> Self {
        let mut entries = Vec::new();
        for Service {
            r#type: service,
            endpoints,
        } in services
        {
            for endpoint in endpoints {
                if let Some(url) = web(&endpoint.url)
                    && entries.len() < ENDPOINTS
                {
                    entries.push(Entry {
                        service: service.clone(),
                        interface: endpoint.interface,
                        region: endpoint.region_id.or(endpoint.region),
                        url,
                    });
                }
            }
        }
        Self(entries)
    }

    /// A catalogue of one service, as v1 authentication gives it.
    pub(super) fn of(service: &str, url: Url) -> Self {
        Self(vec![Entry {
            service: service.to_owned(),
            interface: Interface::Public.as_str().to_owned(),
            region: None,
            url,
        }])
    }

    /// The first that fits.
    pub(super) fn endpoint(&self, service: &str, interface: Interface, region: Option<&str>) -> Option<&Url> {
        let fits = |entry: &&Entry| {
            entry.service == service
                && entry.interface.strip_suffix("URL").unwrap_or(&entry.interface) == interface.as_str()
                && region.is_none_or(|region| entry.region.as_deref() == Some(region))
        };
        self.0.iter().find(fits).map(|entry| &entry.url)
    }

    pub(super) fn has_origin(&self, origin: &Origin) -> bool {
        self.0.iter().any(|entry| entry.url.origin() == *origin)
    }

    /// For people: what there is of this service, or which services there are.
    pub(super) fn describe(&self, service: &str) -> String {
        let of_it = self.0.iter().filter(|entry| entry.service == service);
        let mut found: Vec<String> = of_it
            .map(|entry| {
                format!(
                    "{} in {}",
                    entry.interface,
                    entry.region.as_deref().unwrap_or("no region")
                )
            })
            .collect();
        if found.is_empty() {
            found = self.0.iter().map(|entry| entry.service.clone()).collect();
        }
        found.sort();
        found.dedup();
        found.truncate(20);
        match found.is_empty() {
            true => "nothing".to_owned(),
            false => found.join(", "),
        }
    }
}

/// A web URL with a host.
pub(super) fn web(text: &str) -> Option<Url> {
    let url = Url::parse(text.trim()).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn catalog() -> Catalog {
        let endpoint =
            |interface: &str, region: &str, url: &str| json!({"interface": interface, "region_id": region, "url": url});
        let services = json!([
            {"type": "identity", "endpoints": []},
            {"type": "object-store", "name": "swift", "endpoints": [
                endpoint("admin", "one", "http://a1/v1"),
                endpoint("public", "one", "http://p1/v1/AUTH_x"),
                endpoint("public", "two", "http://p2/v1/AUTH_x"),
                endpoint("public", "three", "ftp://p3"),
                endpoint("internal", "one", "not a url"),
            ]},
        ]);
        Catalog::new(serde_json::from_value(services).unwrap())
    }

    #[test]
    fn the_endpoint_fits_service_interface_and_region() {
        let found = |interface, region| {
            let catalog = catalog();
            catalog
                .endpoint("object-store", interface, region)
                .map(ToString::to_string)
        };
        assert_eq!(found(Interface::Public, None).unwrap(), "http://p1/v1/AUTH_x");
        assert_eq!(found(Interface::Public, Some("two")).unwrap(), "http://p2/v1/AUTH_x");
        assert_eq!(found(Interface::Admin, Some("one")).unwrap(), "http://a1/v1");
        assert_eq!(found(Interface::Public, Some("three")), None, "not a web URL");
        assert_eq!(found(Interface::Internal, None), None, "no URL at all");
        assert_eq!(catalog().endpoint("image", Interface::Public, None), None);
        assert_eq!(
            catalog().describe("object-store"),
            "admin in one, public in one, public in two"
        );
        assert_eq!(catalog().describe("image"), "object-store");
    }

    #[test]
    fn origins_are_those_of_endpoints_only() {
        let origin = |text: &str| Url::parse(text).unwrap().origin();
        assert!(catalog().has_origin(&origin("http://p1:80/elsewhere")));
        for foreign in ["https://p1/v1", "http://p1:8080/", "http://evil/", "ftp://p3/"] {
            assert!(!catalog().has_origin(&origin(foreign)), "{foreign}");
        }
    }
}
