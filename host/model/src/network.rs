//! IP networks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network in CIDR notation (RFC 4632, RFC 4291): `10.1.0.0/16`, `fd00::/8`; a bare address is a network of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// The text is no network.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{text}` is not a network; write it as 10.1.0.0/16 or fd00::/8, with no bits set after the prefix")]
pub struct ParseNetworkError {
    /// What was given, cut to 80 characters.
    pub text: String,
}

impl Network {
    /// The networks that hold every address.
    pub const EVERYWHERE: [Self; 2] = [
        Self {
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            prefix: 0,
        },
        Self {
            address: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            prefix: 0,
        },
    ];

    /// Its first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Whether the address lies in it. An IPv4 address mapped into IPv6 counts as the IPv4 address that it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => {
                cut(net.to_bits().into(), 32, self.prefix) == cut(ip.to_bits().into(), 32, self.prefix)
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) => {
                cut(net.to_bits(), 128, self.prefix) == cut(ip.to_bits(), 128, self.prefix)
            }
            _ => false,
        }
    }
}

/// The leading `prefix` bits of a number of `width` bits.
fn cut(bits: u128, width: u8, prefix: u8) -> u128 {
    bits.checked_shr(u32::from(width - prefix)).unwrap_or(0)
}

impl FromStr for Network {
    type Err = ParseNetworkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseNetworkError {
            text: text.chars().take(80).collect(),
        };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let (bits, width) = match address {
            IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
            IpAddr::V6(ip) => (ip.to_bits(), 128),
        };
        let prefix = match prefix {
            None => width,
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().map_err(|_| error())?
            }
            Some(_) => return Err(error()),
        };
        if prefix > width
            || bits
                != cut(bits, width, prefix)
                    .checked_shl(u32::from(width - prefix))
                    .unwrap_or(0)
        {
            return Err(error());
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        for (network, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("10.0.0.7", "10.0.0.7", "10.0.0.6"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::/0", "fd00::1", "10.0.0.1"),
            ("10.1.0.0/16", "::ffff:10.1.2.3", "::ffff:10.2.2.3"),
        ] {
            let net: Network = network.parse().unwrap();
            assert!(net.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!net.contains(outside.parse().unwrap()), "{network} {outside}");
        }
        for bad in [
            "",
            "10.1.0.0/33",
            "10.1.0.1/16",
            "10.1/16",
            "fd00::/129",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "::/",
            "x/8",
        ] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }

    #[test]
    fn everywhere_holds_every_address() {
        for address in ["203.0.113.9", "::ffff:203.0.113.9", "2001:db8::1", "::"] {
            let address = address.parse().unwrap();
            assert!(
                Network::EVERYWHERE.iter().any(|network| network.contains(address)),
                "{address}"
            );
        }
    }
}
