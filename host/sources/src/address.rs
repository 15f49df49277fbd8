//! Which addresses a source may be fetched from. What names a source may come from a user of the API, and must not turn
//! this machine's own services, or those on its link (169.254.169.254), into sources.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// A host's address that is not allowed; found in the chain of a request's error.
#[derive(Clone, Debug)]
pub(crate) struct LocalAddress {
    pub(crate) host: String,
    pub(crate) address: IpAddr,
}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is the local address {}", self.host, self.address)
    }
}

impl std::error::Error for LocalAddress {}

/// Resolves names, and refuses those that have a local address. The addresses that it returns are the ones connected to,
/// so that a name cannot change its mind in between.
pub(crate) struct Outside;

impl Resolve for Outside {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            for address in found.iter().map(SocketAddr::ip) {
                check(&host, address)?;
            }
            if found.is_empty() {
                return Err(io::Error::other(format!("{host} has no address")).into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

/// Whether an address may be connected to.
pub(crate) fn check(host: &str, address: IpAddr) -> Result<(), LocalAddress> {
    if is_local(address) || is_own(address) {
        let host = host.chars().take(255).collect();
        return Err(LocalAddress { host, address });
    }
    Ok(())
}

/// Where clouds serve the credentials of the machine that asks, outside the link-local range: Amazon, Alibaba, Azure, Oracle.
const METADATA: [IpAddr; 4] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
];

fn is_local(address: IpAddr) -> bool {
    if METADATA.contains(&address) {
        return true;
    }
    match address {
        IpAddr::V4(v4) => is_local_v4(v4),
        IpAddr::V6(v6) => {
            let link_local = v6.segments()[0] & 0xffc0 == 0xfe80;
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || link_local
                || embedded(v6).is_some_and(|v4| is_local(v4.into()))
        }
    }
}

fn is_local_v4(v4: Ipv4Addr) -> bool {
    v4.is_loopback() || v4.is_link_local() || v4.is_multicast() || v4.is_broadcast() || v4.octets()[0] == 0
}

/// The IPv4 address that an IPv6 one leads to: mapped (RFC 4291), NAT64 (RFC 6052), 6to4 (RFC 3056).
fn embedded(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0 | 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(v4(g, h)),
        [0x2002, ..] => Some(v4(b, c)),
        _ => None,
    }
}

/// An address is ours if the kernel would send from it to itself. Nothing is sent by connecting a UDP socket.
fn is_own(address: IpAddr) -> bool {
    let any: SocketAddr = match address {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let source = UdpSocket::bind(any).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    // No route: nothing to protect, and the request will say so itself.
    source.is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_its_link_are_local() {
        for text in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "fd00:ec2::254",
            "100.100.100.200",
            "::ffff:168.63.129.16",
        ] {
            assert!(check("h", text.parse().unwrap()).is_err(), "{text}");
        }
        for text in [
            "10.1.2.3",
            "192.0.2.1",
            "203.0.113.9",
            "2001:db8::1",
            "64:ff9b::c000:201",
        ] {
            assert!(!is_local(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn our_own_address_is_ours() {
        // Routed over loopback whatever this machine's interfaces are.
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("192.0.2.1".parse().unwrap()));
    }
}
