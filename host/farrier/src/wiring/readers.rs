//! What is known of who fetches a node's artefacts: the address of its BMC, and which URLs that takes.

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use model::Node;
use storage::{Reader, UrlRules};

/// How long the name of a BMC may take to be resolved.
const RESOLVE: Duration = Duration::from_secs(5);

/// See [`runtime::live::Readers`].
#[derive(Clone, Copy)]
pub(super) struct Readers {
    /// What this process serves for a node is given to the address of its BMC alone.
    pub(super) only_to_bmc: bool,
}

#[async_trait]
impl runtime::live::Readers for Readers {
    async fn reader(&self, node: &Node) -> Reader {
        let vendor = node.facts.get("vendor").map_or("", String::as_str);
        Reader {
            only: if self.only_to_bmc {
                addresses(node).await
            } else {
                Vec::new()
            },
            urls: UrlRules {
                queries: bmc::takes_url_queries(vendor),
                ..UrlRules::default()
            },
        }
    }
}

/// The addresses behind `driver_info/ilo_address`. A name that does not resolve now gives one that nobody has: refusing the
/// BMC is seen and mended, serving everybody is not.
async fn addresses(node: &Node) -> Vec<IpAddr> {
    let text = node.driver_info.get("ilo_address").and_then(|value| value.as_str());
    let host = host_of(text.unwrap_or_default());
    if let Ok(address) = host.parse() {
        return vec![address];
    }
    let found = tokio::time::timeout(RESOLVE, tokio::net::lookup_host((host, 443))).await;
    let found: Vec<IpAddr> = match found {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
        _ => Vec::new(),
    };
    if found.is_empty() {
        tracing::warn!(node = %node.id, "the address of the BMC does not resolve; nobody is given its images");
        return vec![IpAddr::from([0, 0, 0, 0])];
    }
    found
}

/// The host of an address as users write it: bare, with a port, in brackets, as a URL.
fn host_of(text: &str) -> &str {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some(inner) = rest.strip_prefix('[') {
        return inner.split(']').next().unwrap_or_default();
    }
    match rest.matches(':').count() {
        1 => rest.split(':').next().unwrap_or_default(),
        _ => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_bmc_is_found_however_it_is_written() {
        for (text, host) in [
            ("10.0.0.7", "10.0.0.7"),
            ("10.0.0.7:8443", "10.0.0.7"),
            ("https://10.0.0.7:8443/redfish/v1", "10.0.0.7"),
            ("fd00::7", "fd00::7"),
            ("[fd00::7]:443", "fd00::7"),
            ("https://[fd00::7]/", "fd00::7"),
            ("ilo.example", "ilo.example"),
        ] {
            assert_eq!(host_of(text), host, "{text}");
        }
    }
}
