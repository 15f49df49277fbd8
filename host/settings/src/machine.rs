//! What this machine contributes to the defaults: its name, and an address that others reach it by.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Host name.
    pub host_name: String,
    /// Address towards the default route; loopback if there is none.
    pub address: IpAddr,
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            host_name: name.trim().to_owned(),
            address: address().unwrap_or(Ipv4Addr::LOCALHOST.into()),
        }
    }

    /// `http://ADDRESS:PORT` of a listener as others see it: a wildcard listens on this machine's address.
    pub(crate) fn url_of(&self, listener: std::net::SocketAddr) -> String {
        let ip = if listener.ip().is_unspecified() {
            self.address
        } else {
            listener.ip()
        };
        format!("http://{}", std::net::SocketAddr::new(ip, listener.port()))
    }
}

/// The address that a packet to the outside would leave from. Nothing is sent: connecting a UDP socket only asks the routes.
fn address() -> Option<IpAddr> {
    // 192.0.2.0/24 is for documentation (RFC 5737) and reached by the default route.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
