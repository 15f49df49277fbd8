//! Which call-back URLs a site lets an agent name.

use std::net::IpAddr;

use model::Network;
use url::{Host, Url};

/// What a call-back URL must be like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallbackPolicy {
    /// Only https.
    pub require_tls: bool,
    /// The host must be an address in one of these; none = no agent may call in. Loopback and link-local addresses are
    /// covered only by a network that itself is one of those.
    pub networks: Vec<Network>,
}

/// Why a call-back URL is refused. The messages show at most its origin.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum CallbackError {
    /// No absolute http(s) URL, or one with credentials, a query or a fragment.
    #[error("the agent's call-back URL is not one: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Plain http where TLS is required.
    #[error(
        "the agent calls back by plain http from {host}; let the ramdisk serve https, or set [agent] require-tls = false"
    )]
    NotTls {
        /// Its host.
        host: String,
    },
    /// A name where an address must stand.
    #[error("the agent's call-back URL names `{host}`; it must be an address, since a name can point anywhere")]
    Name {
        /// The name, cut to 80 characters.
        host: String,
    },
    /// Outside the site's networks.
    #[error(
        "the agent calls back from {address}, which [agent] callback-networks ({networks}) does not allow; add its network there (one of this machine or its link must be named by itself)"
    )]
    Outside {
        /// Its address.
        address: IpAddr,
        /// The networks, or "none are set".
        networks: String,
    },
}

impl CallbackPolicy {
    /// The URL, parsed, if the policy allows it.
    pub fn check(&self, callback_url: &str) -> Result<Url, CallbackError> {
        let malformed = |reason| CallbackError::Malformed { reason };
        if callback_url.len() > 255 {
            return Err(malformed("it is longer than 255 characters"));
        }
        let url = Url::parse(callback_url).map_err(|_| malformed("it does not parse"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(malformed("its scheme is neither http nor https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(malformed("it holds credentials"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(malformed("it holds a query or a fragment"));
        }
        let address = match url.host() {
            Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
            Some(Host::Ipv6(ip)) => IpAddr::V6(ip),
            Some(Host::Domain(name)) => {
                let host = name.chars().take(80).collect();
                return Err(CallbackError::Name { host });
            }
            None => return Err(malformed("it has no host")),
        };
        if self.require_tls && url.scheme() != "https" {
            let host = address.to_string();
            return Err(CallbackError::NotTls { host });
        }
        let special = is_special(address);
        let covers = |net: &&Network| net.contains(address) && (!special || is_special(net.address()));
        if self.networks.iter().find(covers).is_none() {
            let mut networks: Vec<_> = self.networks.iter().map(Network::to_string).collect();
            if networks.is_empty() {
                networks.push("none are set".to_owned());
            }
            let networks = networks.join(", ");
            return Err(CallbackError::Outside { address, networks });
        }
        Ok(url)
    }
}

/// Addresses that lead back to ourselves or to the neighbourhood, which a wide network must not cover by accident.
fn is_special(address: IpAddr) -> bool {
    match address.to_canonical() {
        // 0.0.0.0/0 itself is a wide network, not a special one: only the address 0.0.0.0 as a target is.
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local() || ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local() || ip.is_multicast(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(require_tls: bool, networks: &[&str]) -> CallbackPolicy {
        let networks = networks.iter().map(|text| text.parse().unwrap()).collect();
        CallbackPolicy { require_tls, networks }
    }

    #[test]
    fn a_callback_url_must_be_an_address_in_the_sites_networks() {
        let strict = policy(true, &["10.1.0.0/16", "fd00::/8"]);
        for good in [
            "https://10.1.2.3:9999",
            "https://10.1.2.3",
            "https://[fd00::7]:9999/",
            "https://10.1.2.3:9999/base",
        ] {
            assert!(strict.check(good).is_ok(), "{good}");
        }
        for (bad, says) in [
            ("http://10.1.2.3:9999", "require-tls"),
            ("https://10.2.2.3:9999", "callback-networks"),
            ("https://[fe80::1]:9999", "callback-networks"),
            ("https://ramdisk.example:9999", "must be an address"),
            ("https://user:pw@10.1.2.3", "credentials"),
            ("https://10.1.2.3/?a=b", "query"),
            ("ftp://10.1.2.3", "neither http nor https"),
            ("10.1.2.3:9999", "does not parse"),
        ] {
            let refusal = strict.check(bad).unwrap_err().to_string();
            assert!(refusal.contains(says), "{bad}: {refusal}");
        }
        let long = format!("https://10.1.2.3/{}", "a".repeat(255));
        assert!(strict.check(&long).is_err());
        // Odd spellings of an address are the address that they mean.
        assert!(policy(false, &["10.0.0.0/8"]).check("http://0x7f000001:1/").is_err());
    }

    #[test]
    fn a_wide_network_does_not_cover_loopback_or_link_local_unless_named() {
        let wide = policy(false, &["0.0.0.0/0", "::/0"]);
        for url in [
            "http://127.0.0.1:1",
            "http://169.254.169.254",
            "http://[::1]:1",
            "http://[::ffff:127.0.0.1]:1",
        ] {
            assert!(wide.check(url).is_err(), "{url}");
        }
        assert!(policy(false, &["127.0.0.0/8"]).check("http://127.0.0.1:1").is_ok());
        assert!(policy(false, &[]).check("http://10.0.0.1").is_err());
    }
}
