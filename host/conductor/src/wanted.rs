//! The disk image that a node asks for in its `instance_info`, as Ironic, Bifrost and Metal3 write it. Pure.

use std::fmt;

use agent::{DiskFormat, ImageInfo};
use model::{Node, NodeId};
use url::Url;

use crate::instance::{InstanceError, cut, missing, text};

/// An image for the node's disk. `Debug` does not show where it comes from: that may be signed.
#[derive(Clone, PartialEq, Eq)]
pub struct WantedImage {
    /// An http(s) URL, which the ramdisk can fetch by itself; or an absolute path, a `file:` URL, an image of Glance
    /// (`glance://UUID`, a bare UUID) or an object of Swift (`swift://CONTAINER/OBJECT`), which it cannot.
    pub source: String,
    /// What it must hash to.
    pub checksum: WantedChecksum,
    /// What it is said to be; `None` = its bytes say it.
    pub format: Option<WantedFormat>,
    /// For which node.
    pub node: NodeId,
}

/// See [`WantedImage`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WantedChecksum {
    /// The digest itself.
    Digest {
        /// `sha256` or `sha512`.
        algorithm: &'static str,
        /// Lower-case hexadecimal digits.
        hex: String,
    },
    /// A file that lists it.
    File {
        /// Its http(s) URL.
        url: String,
        /// What kind of digest it lists, where that is told.
        algorithm: Option<&'static str>,
    },
    /// None was given, which is allowed for images that do not come over the network or that Glance vouches for.
    None,
}

/// See [`WantedImage`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WantedFormat {
    /// A disk, byte for byte.
    Raw,
    /// QEMU's copy-on-write format.
    Qcow2,
    /// ISO 9660, written byte for byte.
    Iso,
}

impl WantedFormat {
    /// How the ramdisk treats it.
    pub fn for_agent(self) -> DiskFormat {
        match self {
            Self::Raw | Self::Iso => DiskFormat::Raw,
            Self::Qcow2 => DiskFormat::Qcow2,
        }
    }
}

impl WantedImage {
    /// Whether the ramdisk can fetch it where it lies.
    pub fn is_on_the_web(&self) -> bool {
        is_web(&self.source)
    }

    /// What the ramdisk is told if nobody looks at the image for it; `None` if it cannot fetch it by itself. An image of an
    /// unknown format counts as raw.
    pub fn direct(&self) -> Option<ImageInfo> {
        let (os_hash, checksum) = match &self.checksum {
            WantedChecksum::Digest { algorithm, hex } => (Some(((*algorithm).to_owned(), hex.clone())), None),
            // Agents read such files by themselves.
            WantedChecksum::File {
                url,
                algorithm: Some(algorithm),
            } => (Some(((*algorithm).to_owned(), url.clone())), None),
            WantedChecksum::File { url, algorithm: None } => (None, Some(url.clone())),
            WantedChecksum::None => return None,
        };
        self.is_on_the_web().then(|| ImageInfo {
            id: self.id(),
            urls: vec![self.source.clone()],
            os_hash,
            checksum,
            format: self.format.unwrap_or(WantedFormat::Raw).for_agent(),
            node: self.node,
        })
    }

    /// How the image is called in messages; the agent also names a file by it.
    pub fn id(&self) -> String {
        let path = self.source.split(['?', '#']).next().unwrap_or_default();
        let last = path.rsplit('/').next().unwrap_or_default();
        let plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
        let id: String = last.chars().filter(plain).take(80).collect();
        let id = id.trim_start_matches('.');
        if id.is_empty() {
            "image".to_owned()
        } else {
            id.to_owned()
        }
    }
}

impl fmt::Debug for WantedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WantedImage")
            .field("checksum", &self.checksum)
            .field("format", &self.format)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// The image of a node that has one.
pub(crate) fn wanted(node: &Node) -> Result<Option<WantedImage>, InstanceError> {
    let Some(source) = text(node, "image_source")? else {
        return Ok(None);
    };
    if !is_reference(source) {
        return Err(missing(
            "image_source",
            "is no http(s) URL, absolute path, file: URL, Glance image (its UUID) or Swift object (swift://CONTAINER/OBJECT)",
        ));
    }
    if let Some(kind) = text(node, "image_type")?.filter(|kind| !matches!(*kind, "whole-disk" | "whole-disk-image")) {
        let problem = format!("is `{}`, but only whole-disk images are written", cut(kind));
        return Err(missing("image_type", &problem));
    }
    let checksum = checksum(node)?;
    if checksum == WantedChecksum::None && is_web(source) {
        return Err(missing(
            "image_os_hash_value",
            "is not set: give image_os_hash_algo (sha256) and image_os_hash_value, or image_checksum",
        ));
    }
    Ok(Some(WantedImage {
        source: source.to_owned(),
        checksum,
        format: format(node)?,
        node: node.id,
    }))
}

fn format(node: &Node) -> Result<Option<WantedFormat>, InstanceError> {
    let Some(name) = text(node, "image_disk_format")? else {
        return Ok(None);
    };
    match name.to_ascii_lowercase().as_str() {
        // Newer tools tell a raw image with a partition table from one without.
        "raw" | "gpt" => Ok(Some(WantedFormat::Raw)),
        "qcow2" => Ok(Some(WantedFormat::Qcow2)),
        "iso" => Ok(Some(WantedFormat::Iso)),
        _ => {
            let problem = format!(
                "is `{}`, but only raw, qcow2 and iso images are written; convert it (qemu-img convert -O raw)",
                cut(name)
            );
            Err(missing("image_disk_format", &problem))
        }
    }
}

fn checksum(node: &Node) -> Result<WantedChecksum, InstanceError> {
    let algorithm = text(node, "image_os_hash_algo")?;
    let value = text(node, "image_os_hash_value")?;
    match (algorithm, value, text(node, "image_checksum")?) {
        (Some(algorithm), Some(value), _) => {
            let name = algorithm.to_ascii_lowercase();
            let Some(kind) = KINDS.iter().find(|kind| kind.name == name) else {
                return Err(match WEAK.iter().find(|(weak, ..)| *weak == name) {
                    Some((_, _, shown)) => missing("image_os_hash_algo", &forged(shown)),
                    None => missing(
                        "image_os_hash_algo",
                        &format!("is `{}`; use sha256 or sha512", cut(algorithm)),
                    ),
                });
            };
            if is_web(value) {
                return Ok(WantedChecksum::File {
                    url: value.to_owned(),
                    algorithm: Some(kind.name),
                });
            }
            kind.digest(value).ok_or_else(|| {
                let problem = format!("is not {} hexadecimal digits, as a {} is", kind.digits, kind.name);
                missing("image_os_hash_value", &problem)
            })
        }
        (Some(_), None, _) => Err(missing("image_os_hash_value", "is not set, but image_os_hash_algo is")),
        (None, Some(_), _) => Err(missing("image_os_hash_algo", "is not set, but image_os_hash_value is")),
        (None, None, Some(checksum)) => bare(checksum).map_err(|problem| missing("image_checksum", &problem)),
        (None, None, None) => Ok(WantedChecksum::None),
    }
}

/// A digest that is known by its length, or by the algorithm before a colon; or the URL of a checksum file.
fn bare(checksum: &str) -> Result<WantedChecksum, String> {
    if is_web(checksum) {
        return Ok(WantedChecksum::File {
            url: checksum.to_owned(),
            algorithm: None,
        });
    }
    let (name, digits) = match checksum.split_once(':') {
        Some((name, digits)) => (Some(name.to_ascii_lowercase()), digits),
        None => (None, checksum),
    };
    let weak = WEAK.iter().find(|(weak, len, _)| match &name {
        Some(name) => name == weak,
        None => digits.len() == *len,
    });
    if let Some((_, _, shown)) = weak {
        return Err(forged(shown));
    }
    let kind = KINDS.iter().find(|kind| match &name {
        Some(name) => name == kind.name,
        None => digits.len() == kind.digits,
    });
    kind.and_then(|kind| kind.digest(digits)).ok_or_else(|| {
        "is no SHA-256 or SHA-512 in hexadecimal digits, nor the http(s) URL of a checksum file".to_owned()
    })
}

/// A digest that vouches for what it is of.
struct Kind {
    name: &'static str,
    digits: usize,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "sha256",
        digits: 64,
    },
    Kind {
        name: "sha512",
        digits: 128,
    },
];

/// Digests for which anybody can make another image: name, digits, for people.
const WEAK: [(&str, usize, &str); 2] = [("md5", 32, "an MD5"), ("sha1", 40, "a SHA-1")];

fn forged(shown: &str) -> String {
    format!(
        "is {shown}, which can be forged, and which agents refuse by default: set image_os_hash_algo = sha256 and \
         image_os_hash_value (sha256sum IMAGE)"
    )
}

impl Kind {
    fn digest(&self, digits: &str) -> Option<WantedChecksum> {
        let right = digits.len() == self.digits && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        right.then(|| WantedChecksum::Digest {
            algorithm: self.name,
            hex: digits.to_ascii_lowercase(),
        })
    }
}

fn is_web(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// An image of Glance: `glance://UUID`, or its UUID alone.
pub(crate) fn is_glance(text: &str) -> bool {
    let id = text.strip_prefix("glance://").unwrap_or(text);
    let hex = |part: &str, len| part.len() == len && part.bytes().all(|digit| digit.is_ascii_hexdigit());
    let mut parts = id.split('-');
    let fits = |&len: &usize| parts.next().is_some_and(|part| hex(part, len));
    [8, 4, 4, 4, 12].iter().all(fits) && parts.next().is_none()
}

fn is_reference(text: &str) -> bool {
    let file = Url::parse(text).is_ok_and(|url| url.scheme() == "file");
    let swift = text
        .strip_prefix("swift:")
        .is_some_and(|name| !name.trim_matches('/').is_empty());
    is_glance(text) || is_web(text) || text.starts_with('/') || file || swift
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::node;

    fn of(info: Value) -> Result<Option<WantedImage>, InstanceError> {
        let mut node = node();
        node.instance_info = serde_json::from_value(info).unwrap();
        wanted(&node)
    }

    fn one(info: Value) -> WantedImage {
        of(info).unwrap().unwrap()
    }

    const URL: &str = "http://10.1.0.1/d/a.raw?sig=s3cret";

    #[test]
    fn checksums_are_taken_in_every_form_that_ironic_takes() {
        let (short, long) = ("AB".repeat(32), "Cd".repeat(64));
        let digest = |algorithm, hex: &str| WantedChecksum::Digest {
            algorithm,
            hex: hex.to_lowercase(),
        };
        let sums = "https://h/SHA256SUMS";
        let file = |algorithm| WantedChecksum::File {
            url: sums.to_owned(),
            algorithm,
        };
        for (given, checksum) in [
            (
                json!({"image_os_hash_algo": "sha256", "image_os_hash_value": short}),
                digest("sha256", &short),
            ),
            (
                json!({"image_os_hash_algo": "SHA512", "image_os_hash_value": long}),
                digest("sha512", &long),
            ),
            (json!({"image_checksum": short}), digest("sha256", &short)),
            (json!({"image_checksum": long}), digest("sha512", &long)),
            (
                json!({"image_checksum": format!("sha256:{short}")}),
                digest("sha256", &short),
            ),
            (json!({"image_checksum": sums}), file(None)),
            (
                json!({"image_os_hash_algo": "sha256", "image_os_hash_value": sums}),
                file(Some("sha256")),
            ),
            // The stronger pair goes before what older tools know.
            (
                json!({"image_os_hash_algo": "sha256", "image_os_hash_value": short, "image_checksum": "d".repeat(32)}),
                digest("sha256", &short),
            ),
        ] {
            let mut info = given.clone();
            info["image_source"] = json!(URL);
            assert_eq!(one(info).checksum, checksum, "{given}");
        }
    }

    #[test]
    fn what_can_be_forged_is_refused_with_the_remedy() {
        for (given, place) in [
            (
                json!({"image_checksum": "a".repeat(32)}),
                "instance_info/image_checksum",
            ),
            (
                json!({"image_checksum": "a".repeat(40)}),
                "instance_info/image_checksum",
            ),
            (
                json!({"image_checksum": format!("md5:{}", "a".repeat(32))}),
                "instance_info/image_checksum",
            ),
            (
                json!({"image_os_hash_algo": "md5", "image_os_hash_value": "a".repeat(32)}),
                "instance_info/image_os_hash_algo",
            ),
        ] {
            let mut info = given.clone();
            info["image_source"] = json!(URL);
            let error = of(info).unwrap_err();
            assert_eq!(error.place, place, "{given}");
            assert!(
                error.problem.contains("forged") && error.problem.contains("sha256sum"),
                "{error}"
            );
        }
    }

    #[test]
    fn sources_that_the_ramdisk_cannot_fetch_need_no_checksum_of_their_own() {
        for source in [
            "/srv/a.raw",
            "file:///srv/a.raw",
            "glance://7f1a4b1e-0000-4000-8000-000000000001",
            "7f1a4b1e-0000-4000-8000-000000000001",
            "swift://images/a.raw",
            "swift:a.raw",
        ] {
            let image = one(json!({"image_source": source}));
            assert_eq!(
                (image.checksum.clone(), image.direct()),
                (WantedChecksum::None, None),
                "{source}"
            );
        }
        for wrong in [
            "glance-uuid",
            "7f1a4b1e",
            "nfs://h/x",
            "a.raw",
            "swift:",
            "swift://",
            "http://",
            "glance://x",
        ] {
            let error = of(json!({"image_source": wrong})).unwrap_err();
            assert_eq!(error.place, "instance_info/image_source", "{wrong}");
        }
    }

    #[test]
    fn formats_are_taken_by_their_names_in_ironic() {
        let sha = "ab".repeat(32);
        for (name, format, for_agent) in [
            (json!("raw"), Some(WantedFormat::Raw), DiskFormat::Raw),
            (json!("gpt"), Some(WantedFormat::Raw), DiskFormat::Raw),
            (json!("QCOW2"), Some(WantedFormat::Qcow2), DiskFormat::Qcow2),
            (json!("iso"), Some(WantedFormat::Iso), DiskFormat::Raw),
            (json!(null), None, DiskFormat::Raw),
        ] {
            let image = one(json!({"image_source": URL, "image_checksum": sha, "image_disk_format": name}));
            assert_eq!(
                (image.format, image.direct().unwrap().format),
                (format, for_agent),
                "{name}"
            );
        }
        for wrong in ["vmdk", "vhd", "vdi", "ami", "unknown"] {
            let error =
                of(json!({"image_source": URL, "image_checksum": sha, "image_disk_format": wrong})).unwrap_err();
            assert_eq!(error.place, "instance_info/image_disk_format");
        }
    }

    #[test]
    fn an_id_is_a_plain_file_name_without_secrets() {
        let sha = "ab".repeat(32);
        for (source, id) in [
            (URL, "a.raw"),
            ("http://h/", "image"),
            ("http://h/..", "image"),
            ("http://h/a%2Fb", "a2Fb"),
            ("http://h/.hidden", "hidden"),
        ] {
            let image = one(json!({"image_source": source, "image_checksum": sha}));
            assert_eq!(image.id(), id, "{source}");
            assert!(!format!("{image:?} {:?}", image.direct()).contains("s3cret"));
        }
    }
}
