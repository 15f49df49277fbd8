//! Who fetches an artefact, as far as that bears on its URL and on its server.

use std::net::IpAddr;

/// A BMC as an image server sees it. The default is one of which nothing is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reader {
    /// The only addresses that may fetch the artefact; empty = whoever knows the URL. What this process serves obeys it; a
    /// web server or an object store knows nothing of it.
    pub only: Vec<IpAddr>,
    /// Which URLs it takes.
    pub urls: UrlRules,
}

/// Which URLs a BMC takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UrlRules {
    /// With a `?`, which a signed URL has.
    pub queries: bool,
    /// Characters of the longest one.
    pub longest: usize,
}

impl Default for UrlRules {
    fn default() -> Self {
        Self {
            queries: true,
            longest: crate::base_url::MAX_URL,
        }
    }
}

impl UrlRules {
    /// Whether it takes this one.
    pub fn allow(&self, url: &str) -> bool {
        url.len() <= self.longest && (self.queries || !url.contains('?'))
    }
}

impl Reader {
    /// Whether this address may fetch.
    pub(crate) fn allows(only: &[IpAddr], by: IpAddr) -> bool {
        // A listener on `[::]` sees IPv4 peers as mapped addresses.
        let by = by.to_canonical();
        only.is_empty() || only.iter().any(|allowed| allowed.to_canonical() == by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_the_address_it_maps() {
        let bmc: IpAddr = "192.0.2.7".parse().unwrap();
        for (by, allowed) in [
            ("192.0.2.7", true),
            ("::ffff:192.0.2.7", true),
            ("192.0.2.8", false),
            ("::1", false),
        ] {
            assert_eq!(Reader::allows(&[bmc], by.parse().unwrap()), allowed, "{by}");
            assert!(Reader::allows(&[], by.parse().unwrap()));
        }
    }

    #[test]
    fn a_url_that_a_bmc_refuses_is_told_by_its_query_and_its_length() {
        let rules = UrlRules {
            queries: false,
            longest: 20,
        };
        assert!(rules.allow("http://h/a.iso"));
        assert!(!rules.allow("http://h/a.iso?s=1"));
        assert!(!rules.allow("http://h/aaaaaaaaaaaaaaaa.iso"));
        assert!(UrlRules::default().allow("http://h/a.iso?s=1"));
    }
}
