//! `[[backend]]`: the named places that artefacts are published to.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use model::Secret;

use crate::entries::{Out, word};
use crate::openstack::OpenStack;
use crate::section::{Report, Section};
use crate::values::{FileMode, HttpUrl};

/// What a wait may take on top of its own time-out before an artefact may go: the server's POST and the agent's start.
const MARGIN: Duration = Duration::from_secs(600);

/// One backend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backend {
    /// Its name in grants, records and plugins.
    pub id: String,
    /// What it is.
    pub kind: BackendKind,
    /// New artefacts are put there; if not, what is there is served, renewed and withdrawn, and nothing comes to it.
    pub publish: bool,
    /// For nodes of these drivers only; empty = for every node. See [`Backend::is_for`].
    pub drivers: Vec<DriverFamily>,
    /// Which one it is in the file, from 1.
    pub(crate) place: usize,
}

impl Backend {
    /// Whether new artefacts of a node with this driver may be put there.
    pub fn is_for(&self, driver: &str) -> bool {
        self.publish && (self.drivers.is_empty() || self.drivers.contains(&DriverFamily::of(driver)))
    }
}

/// Drivers that share their image settings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DriverFamily {
    /// `agent_ilo`, `iscsi_ilo`, `ilo`, `ilo5` and their like.
    Ilo,
    /// All others.
    Redfish,
}

impl DriverFamily {
    /// Where a driver belongs.
    pub fn of(driver: &str) -> Self {
        if driver.contains("ilo") {
            Self::Ilo
        } else {
            Self::Redfish
        }
    }

    /// `ilo`, `redfish`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ilo => "ilo",
            Self::Redfish => "redfish",
        }
    }
}

const FAMILIES: &[(&str, DriverFamily)] = &[("ilo", DriverFamily::Ilo), ("redfish", DriverFamily::Redfish)];

/// What a backend is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BackendKind {
    /// Served by the conductors themselves, at `[images] external-url`.
    Embedded,
    /// Files for a web server.
    WebRoot {
        /// The folder that it serves.
        root: PathBuf,
        /// The folder's URL.
        url: HttpUrl,
        /// Permissions of the files.
        mode: u32,
    },
    /// OpenStack Swift.
    Swift(Swift),
    /// S3.
    S3(S3),
}

/// An OpenStack Swift backend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Swift {
    /// How to come to it.
    pub access: OpenStack,
    /// Made if it is not there.
    pub container: String,
    /// Signs temporary URLs; `None` = the account's own key, made if it has none.
    pub temp_url_key: Option<Secret>,
    /// How long what is published there lasts at least; `None` = as long as its wait. Never shorter than that.
    pub lifetime: Option<Duration>,
    /// Attempts of a request, the first one included.
    pub attempts: u32,
    /// Bytes of one object; bigger artefacts are kept in segments.
    pub segment_size: u64,
    /// How BMCs get at it.
    pub delivery: Delivery,
}

/// An S3 backend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct S3 {
    /// Of the service.
    pub endpoint: HttpUrl,
    /// Must exist.
    pub bucket: String,
    /// Signed into URLs.
    pub region: String,
    /// `None` = no key (a bucket that everybody may write, in a laboratory).
    pub access_key: Option<AccessKey>,
    /// PEM file of CAs to trust beside the machine's own.
    pub ca: Option<PathBuf>,
    /// The bucket's name is in the path of URLs, not in their host.
    pub path_style: bool,
    /// Attempts of a request, the first one included.
    pub attempts: u32,
    /// Bytes of one part; bigger artefacts are sent in parts.
    pub part_size: u64,
    /// How BMCs get at it.
    pub delivery: Delivery,
}

/// A key of S3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessKey {
    /// Its identifier.
    pub id: String,
    /// Its secret.
    pub secret: Secret,
    /// Of a key that is lent for a while.
    pub session: Option<Secret>,
}

/// How a BMC gets what is in an object store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// By a signed URL where it lives long enough and the BMC takes it, else through a conductor.
    Auto,
    /// By a signed URL of the store.
    Direct,
    /// Through a conductor, under a short URL that does not run out.
    Relay,
}

/// A year: nothing that is published for a wait lasts longer.
const MOST_SECONDS: u64 = 366 * 24 * 60 * 60;

pub(crate) const DELIVERY: &[(&str, Delivery)] = &[
    ("auto", Delivery::Auto),
    ("direct", Delivery::Direct),
    ("relay", Delivery::Relay),
];

/// The least and the most that stores take as one piece of something bigger: S3's bounds, which Swift's are wider than.
const PIECES: std::ops::RangeInclusive<u64> = 5 << 20..=5 << 30;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Embedded,
    WebRoot,
    Swift,
    S3,
}

const KINDS: &[(&str, Kind)] = &[
    ("embedded", Kind::Embedded),
    ("web-root", Kind::WebRoot),
    ("swift", Kind::Swift),
    ("s3", Kind::S3),
];

/// All backends; `embedded` if none is listed.
pub(crate) fn take(sections: Vec<Section<'_>>) -> Vec<Backend> {
    if sections.is_empty() {
        return vec![Backend {
            id: "embedded".into(),
            kind: BackendKind::Embedded,
            publish: true,
            drivers: Vec::new(),
            place: 0,
        }];
    }
    let mut ids = BTreeSet::new();
    let mut has_embedded = false;
    let mut backends = Vec::new();
    for (place, mut section) in (1..).zip(sections) {
        let id: Option<String> = section.required("id", "give it a name, which grants and plugins use");
        if let Some(id) = &id {
            if !is_id(id) {
                let rule = format!("= {id:?} must be 1 to 64 of a-z 0-9 - _");
                section.problem("id", &rule);
            } else if !ids.insert(id.clone()) {
                let reason = format!("= {id:?} is taken by a backend before; ids must differ");
                section.problem("id", &reason);
            }
        }
        let kind = kind(&mut section);
        if matches!(kind, Some(BackendKind::Embedded)) {
            if has_embedded {
                let reason = "= \"embedded\" is listed twice; one serves every artefact";
                section.problem("kind", reason);
            }
            has_embedded = true;
        }
        let publish = section.value("publish").unwrap_or(true);
        let drivers = section.choices("drivers", FAMILIES);
        section.end();
        if let (Some(id), Some(kind)) = (id, kind) {
            backends.push(Backend {
                id,
                kind,
                publish,
                drivers,
                place,
            });
        }
    }
    backends
}

/// Raises lifetimes that would end before the waits that they serve, and says so.
pub(crate) fn outlast(backends: &mut [Backend], longest_wait: Duration, report: &Report) {
    let least = longest_wait + MARGIN;
    for backend in backends {
        let BackendKind::Swift(Swift {
            lifetime: Some(lifetime),
            ..
        }) = &mut backend.kind
        else {
            continue;
        };
        if *lifetime < least {
            let name = format!("backend.{}.lifetime-s", backend.place);
            let label = report.label(&name, &format!("[[backend]] {} lifetime-s", backend.place));
            report.warning(
                report.origin(&name),
                format!(
                    "{label} = {} ends before a ramdisk may have called back: {} is taken (the longest wait, and {} for its start); raise it, or leave it out",
                    lifetime.as_secs(),
                    least.as_secs(),
                    MARGIN.as_secs(),
                ),
            );
            *lifetime = least;
        }
    }
}

fn is_id(text: &str) -> bool {
    let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(legal)
}

fn kind(section: &mut Section<'_>) -> Option<BackendKind> {
    if section.is_absent("kind") {
        let words: Vec<_> = KINDS.iter().map(|(word, _)| *word).collect();
        let remedy = format!("set it to one of: {}", words.join(", "));
        section.required::<String>("kind", &remedy)?;
    }
    let Some(kind) = section.choice("kind", KINDS) else {
        // What belongs in it cannot be told.
        section.rest();
        return None;
    };
    match kind {
        Kind::Embedded => Some(BackendKind::Embedded),
        Kind::WebRoot => {
            let root = section.required("root", "name the folder that the web server serves");
            let url = section.required("url", "give the URL of that folder, as BMCs see it");
            let mode = section.value("mode").unwrap_or(FileMode(0o644));
            Some(BackendKind::WebRoot {
                root: root?,
                url: url?,
                mode: mode.0,
            })
        }
        Kind::Swift => {
            let access = OpenStack::take(section);
            let container = section.value::<String>("container");
            let temp_url_key = section.secret_if_set("temp-url-key", "temp-url-key-file");
            let lifetime = section.number("lifetime-s", 1..=MOST_SECONDS);
            let attempts = section.number("attempts", 1..=100);
            let segment_size = section.size("segment-size", PIECES);
            let delivery = section.choice("delivery", DELIVERY);
            Some(BackendKind::Swift(Swift {
                access: access?,
                container: container.unwrap_or("ironic_ilo_container".into()),
                temp_url_key,
                lifetime: lifetime.map(Duration::from_secs),
                attempts: attempts.and_then(|n| u32::try_from(n).ok()).unwrap_or(3),
                segment_size: segment_size.unwrap_or(1 << 30),
                delivery: delivery.unwrap_or(Delivery::Auto),
            }))
        }
        Kind::S3 => {
            let endpoint = section.required("endpoint", "give the URL of the service");
            let bucket = section.required("bucket", "name a bucket that exists");
            let region = section.value::<String>("region");
            let access_key = section.secret_if_set("access-key", "access-key-file");
            let session = section.secret_if_set("session-token", "session-token-file");
            let access_key = access_key.and_then(|pair| access_key_of(section, &pair, session));
            let ca = section.value("ca");
            let path_style = section.value("path-style").unwrap_or(true);
            let attempts = section.number("attempts", 1..=100);
            let part_size = section.size("part-size", PIECES);
            let delivery = section.choice("delivery", DELIVERY);
            Some(BackendKind::S3(S3 {
                endpoint: endpoint?,
                bucket: bucket?,
                region: region.unwrap_or("us-east-1".into()),
                access_key,
                ca,
                path_style,
                attempts: attempts.and_then(|n| u32::try_from(n).ok()).unwrap_or(3),
                part_size: part_size.unwrap_or(64 << 20),
                delivery: delivery.unwrap_or(Delivery::Auto),
            }))
        }
    }
}

/// `ID:SECRET`. No secret holds a colon, but the identifiers of Swift's S3 do.
fn access_key_of(section: &Section<'_>, pair: &Secret, session: Option<Secret>) -> Option<AccessKey> {
    match pair.expose().rsplit_once(':') {
        Some((id, secret)) if !id.is_empty() && !secret.is_empty() => Some(AccessKey {
            id: id.to_owned(),
            secret: Secret::new(secret),
            session,
        }),
        _ => {
            let key = match section.is_set("access-key") {
                true => "access-key",
                false => "access-key-file",
            };
            section.problem(key, "must hold the key's identifier and its secret, as ID:SECRET");
            None
        }
    }
}

impl Backend {
    pub(crate) fn write(&self, out: &mut Out) {
        let Self {
            id,
            kind,
            publish,
            drivers,
            place: _,
        } = self;
        out.put("id", id);
        let word_of = match kind {
            BackendKind::Embedded => Kind::Embedded,
            BackendKind::WebRoot { .. } => Kind::WebRoot,
            BackendKind::Swift(_) => Kind::Swift,
            BackendKind::S3(_) => Kind::S3,
        };
        out.put("kind", word(KINDS, &word_of));
        match kind {
            BackendKind::Embedded => {}
            BackendKind::WebRoot { root, url, mode } => {
                out.put("root", root);
                out.put("url", url);
                out.put("mode", format!("{mode:04o}"));
            }
            BackendKind::Swift(swift) => swift.write(out),
            BackendKind::S3(s3) => s3.write(out),
        }
        out.put("publish", *publish);
        let drivers: Vec<_> = drivers.iter().map(|family| word(FAMILIES, family).to_owned()).collect();
        out.put("drivers", Some(drivers).filter(|drivers| !drivers.is_empty()));
    }
}

impl Swift {
    fn write(&self, out: &mut Out) {
        let Self {
            access,
            container,
            temp_url_key,
            lifetime,
            attempts,
            segment_size,
            delivery,
        } = self;
        access.write(out);
        out.put("container", container);
        out.put("temp-url-key", temp_url_key.as_ref());
        out.put("lifetime-s", *lifetime);
        out.put("attempts", *attempts);
        out.put("segment-size", *segment_size);
        out.put("delivery", word(DELIVERY, delivery));
    }
}

impl S3 {
    fn write(&self, out: &mut Out) {
        let Self {
            endpoint,
            bucket,
            region,
            access_key,
            ca,
            path_style,
            attempts,
            part_size,
            delivery,
        } = self;
        out.put("endpoint", endpoint);
        out.put("bucket", bucket);
        out.put("region", region);
        let pair = access_key
            .as_ref()
            .map(|AccessKey { id, secret, session: _ }| Secret::new(format!("{id}:{}", secret.expose())));
        out.put("access-key", pair.as_ref());
        let session = access_key.as_ref().and_then(|key| key.session.as_ref());
        out.put("session-token", session);
        out.put("ca", ca.as_ref());
        out.put("path-style", *path_style);
        out.put("attempts", *attempts);
        out.put("part-size", *part_size);
        out.put("delivery", word(DELIVERY, delivery));
    }
}
