//! What listens: `[api]` for users, `[agent]` for ramdisks.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use model::Network;

use crate::entries::{Out, word};
use crate::machine::Machine;
use crate::section::Section;
use crate::values::HttpUrl;

/// `[api]`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Api {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Who may use it.
    pub auth: Auth,
    /// It speaks https.
    pub tls: Option<Tls>,
    /// Its URL as users see it, for links in answers; `None` = as each request names it.
    pub public_url: Option<HttpUrl>,
}

/// How users prove who they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Auth {
    /// Not at all: whoever reaches it. Only on loopback.
    None,
    /// Basic authentication against a file of bcrypt hashes.
    HttpBasic {
        /// The file, as `htpasswd -B` writes it.
        htpasswd: PathBuf,
    },
}

/// A certificate and its key, PEM files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tls {
    /// Certificate, then what signed it.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

impl Tls {
    /// Takes the pair out of a section that holds other settings as well.
    pub(crate) fn take(section: &mut Section<'_>) -> Option<Self> {
        let certificate = section.value::<PathBuf>("tls-certificate");
        let key = section.value::<PathBuf>("tls-key");
        match (certificate, key) {
            (Some(certificate), Some(key)) => Some(Self { certificate, key }),
            (Some(_), None) => {
                section.needs_beside("tls-certificate", "tls-key", "");
                None
            }
            (None, Some(_)) => {
                section.needs_beside("tls-key", "tls-certificate", "");
                None
            }
            (None, None) => None,
        }
    }
}

impl Api {
    pub(crate) fn take(mut section: Section<'_>) -> Self {
        #[derive(Clone, Copy)]
        enum Kind {
            None,
            HttpBasic,
        }
        let listen = section.value("listen");
        let kinds = [("none", Kind::None), ("http_basic", Kind::HttpBasic)];
        let kind = section.choice("auth", &kinds);
        let auth = match kind.unwrap_or(Kind::None) {
            Kind::None => {
                // Named for later; checked once it is used.
                section.item("htpasswd");
                Auth::None
            }
            Kind::HttpBasic => Auth::HttpBasic {
                htpasswd: section
                    .required(
                        "htpasswd",
                        "auth = \"http_basic\" needs a file that `htpasswd -B -c FILE USER` made",
                    )
                    .unwrap_or_default(),
            },
        };
        let tls = Tls::take(&mut section);
        let public_url = section.value("public-url");
        section.end();
        Self {
            listen: listen.unwrap_or((Ipv4Addr::LOCALHOST, 6385).into()),
            auth,
            tls,
            public_url,
        }
    }
}

/// `[agent]`: what ramdisks can reach (look-up and heartbeat, nothing else), and how we reach them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agent {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The site-wide list, the same on every conductor; empty = this machine's own address. See [`Agent::urls_at`].
    pub urls: Vec<HttpUrl>,
    /// Ramdisks are called back only in these networks. Loopback and link-local ones have to be named; where it is not set,
    /// ramdisks may be anywhere else.
    pub callback_networks: Vec<Network>,
    /// A ramdisk must serve https.
    pub require_tls: bool,
    /// Within which time an agent must be heard again.
    pub heartbeat_timeout: Duration,
    /// Where ramdisks fetch disk images, if their nodes do not say (`image_download_source`).
    pub image_download_source: ImageDownloadSource,
    machine: Machine,
}

/// Where a ramdisk fetches the image for its disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageDownloadSource {
    /// Where it lies, if the ramdisk can fetch it there as it is; else from a conductor.
    Http,
    /// As [`ImageDownloadSource::Http`], but an image of Glance from the Swift behind it, by a temporary URL.
    Swift,
    /// From a conductor, whatever it is.
    Local,
}

/// The words for them, in the settings and on nodes.
pub const IMAGE_DOWNLOAD_SOURCES: &[(&str, ImageDownloadSource)] = &[
    ("http", ImageDownloadSource::Http),
    ("swift", ImageDownloadSource::Swift),
    ("local", ImageDownloadSource::Local),
];

impl Agent {
    pub(crate) fn take(mut section: Section<'_>, machine: &Machine) -> Self {
        let agent = Self {
            listen: section.value("listen").unwrap_or((Ipv4Addr::UNSPECIFIED, 6387).into()),
            urls: section.value("urls").unwrap_or_default(),
            callback_networks: section.value("callback-networks").unwrap_or(Network::EVERYWHERE.into()),
            require_tls: section.value("require-tls").unwrap_or(true),
            heartbeat_timeout: section.seconds("heartbeat-timeout-s", 5..=3600, 60),
            image_download_source: section
                .choice("image-download-source", IMAGE_DOWNLOAD_SOURCES)
                .unwrap_or(ImageDownloadSource::Http),
            machine: machine.clone(),
        };
        section.end();
        agent
    }

    /// The URLs for `ipa-api-url`, when the listener is bound there (port 0 in `listen` takes any free port).
    pub fn urls_at(&self, bound: SocketAddr) -> Vec<String> {
        if self.urls.is_empty() {
            vec![self.machine.url_of(bound)]
        } else {
            self.urls.iter().map(HttpUrl::to_string).collect()
        }
    }
}

impl Tls {
    /// Also where there is none.
    pub(crate) fn write(tls: Option<&Self>, out: &mut Out) {
        out.put("tls-certificate", tls.map(|tls| &tls.certificate));
        out.put("tls-key", tls.map(|tls| &tls.key));
    }
}

impl Api {
    pub(crate) fn write(&self, out: &mut Out) {
        let Self {
            listen,
            auth,
            tls,
            public_url,
        } = self;
        out.put("listen", listen.to_string());
        let (kind, htpasswd) = match auth {
            Auth::None => ("none", None),
            Auth::HttpBasic { htpasswd } => ("http_basic", Some(htpasswd)),
        };
        out.put("auth", kind);
        out.put("htpasswd", htpasswd);
        Tls::write(tls.as_ref(), out);
        out.put("public-url", public_url.as_ref());
    }
}

impl Agent {
    pub(crate) fn write(&self, out: &mut Out) {
        let Self {
            listen,
            urls,
            callback_networks,
            require_tls,
            heartbeat_timeout,
            image_download_source,
            machine: _,
        } = self;
        out.put("listen", listen.to_string());
        let urls: Vec<_> = urls.iter().map(HttpUrl::to_string).collect();
        out.put("urls", Some(urls).filter(|urls| !urls.is_empty()));
        let networks = callback_networks.iter().map(Network::to_string);
        out.put("callback-networks", networks.collect::<Vec<_>>());
        out.put("require-tls", *require_tls);
        out.put("heartbeat-timeout-s", *heartbeat_timeout);
        out.put(
            "image-download-source",
            word(IMAGE_DOWNLOAD_SOURCES, image_download_source),
        );
    }
}
