//! What a node's `instance_info` asks to deploy, checked before anything is touched. Pure.

use agent::ImageInfo;
use model::{BootInterface, Driver, Node, Secret};
use serde_json::Value;
use url::Url;

/// Key of the config drive among a node's secrets.
pub(crate) const CONFIG_DRIVE: &str = "configdrive";

/// What is to be deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    /// Written by the ramdisk; `None` = the instance runs from its boot ISO alone.
    pub(crate) image: Option<ImageInfo>,
}

/// Something that a deployment needs is missing or unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot deploy: {place} {problem}; set it on the node (`farrier node set`, or PATCH of /{place})")]
pub struct InstanceError {
    /// Which field ("instance_info/image_source").
    pub place: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Whether a node could be deployed as it is described; for `GET …/validate` and before a deployment.
pub fn validate_instance(node: &Node) -> Result<(), InstanceError> {
    instance(node, node.secrets.get(CONFIG_DRIVE)).map(|_| ())
}

/// What to deploy. `config_drive`: the one that is to go with it.
pub(crate) fn instance(node: &Node, config_drive: Option<&Secret>) -> Result<Instance, InstanceError> {
    let image = image(node)?;
    match node.driver {
        Driver::AgentIlo if image.is_none() => {
            return Err(missing("image_source", "is not set: the URL of the image to write"));
        }
        Driver::AgentIlo => {}
        Driver::IscsiIlo => boot_source(node)?,
    }
    if let Some(drive) = config_drive {
        check_config_drive(drive, image.is_some())?;
    }
    Ok(Instance { image })
}

/// The instance's own boot ISO: ready-made, or from a kernel and a ramdisk.
fn boot_source(node: &Node) -> Result<(), InstanceError> {
    let set = |key| text(node, key).map(|value| value.is_some());
    let iso = set("boot_iso")? || set("ilo_boot_iso")?;
    let pair = (set("kernel")?, set("ramdisk")?);
    if node.boot_interface == BootInterface::IloIpxe && iso && pair != (true, true) {
        return Err(missing(
            "kernel",
            "is not set: with the boot interface ilo-ipxe an instance boots from kernel and ramdisk, and boot_iso is for ilo-virtual-media",
        ));
    }
    if iso {
        return Ok(());
    }
    match pair {
        (true, true) => Ok(()),
        (false, _) => Err(missing(
            "kernel",
            "is not set: an iscsi_ilo node boots from kernel and ramdisk, or from boot_iso",
        )),
        (true, false) => Err(missing(
            "ramdisk",
            "is not set: an iscsi_ilo node boots from kernel and ramdisk, or from boot_iso",
        )),
    }
}

fn image(node: &Node) -> Result<Option<ImageInfo>, InstanceError> {
    let Some(source) = text(node, "image_source")? else {
        return Ok(None);
    };
    let url = Url::parse(source).ok();
    if !url.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
        return Err(missing(
            "image_source",
            "is no http(s) URL, and the ramdisk fetches the image by itself",
        ));
    }
    if let Some(format) = text(node, "image_disk_format")?.filter(|format| *format != "raw") {
        let problem = format!(
            "is `{}`, but only raw images are written; convert it (qemu-img convert -O raw)",
            cut(format)
        );
        return Err(missing("image_disk_format", &problem));
    }
    if let Some(kind) = text(node, "image_type")?.filter(|kind| !matches!(*kind, "whole-disk" | "whole-disk-image")) {
        let problem = format!("is `{}`, but only whole-disk images are written", cut(kind));
        return Err(missing("image_type", &problem));
    }
    let (os_hash, checksum) = digest(node)?;
    Ok(Some(ImageInfo {
        id: source
            .rsplit('/')
            .next()
            .unwrap_or("image")
            .split('?')
            .next()
            .map(cut)
            .unwrap_or_default(),
        urls: vec![source.to_owned()],
        os_hash,
        checksum,
        node: node.id,
    }))
}

/// Hash algorithm with value, and the bare checksum.
type Digests = (Option<(String, String)>, Option<String>);

fn digest(node: &Node) -> Result<Digests, InstanceError> {
    let algorithm = text(node, "image_os_hash_algo")?;
    let value = text(node, "image_os_hash_value")?;
    let checksum = text(node, "image_checksum")?;
    let is_hex = |text: &str| text.bytes().all(|digit| digit.is_ascii_hexdigit());
    match (algorithm, value, checksum) {
        (Some(algorithm), Some(value), _) => {
            let length = match algorithm {
                "sha256" => 64,
                "sha512" => 128,
                other => {
                    let problem = format!("is `{}`; use sha256 or sha512", cut(other));
                    return Err(missing("image_os_hash_algo", &problem));
                }
            };
            if value.len() != length || !is_hex(value) {
                let problem = format!("is not {length} hexadecimal digits, as a {algorithm} is");
                return Err(missing("image_os_hash_value", &problem));
            }
            Ok((Some((algorithm.to_owned(), value.to_ascii_lowercase())), None))
        }
        (Some(_), None, _) => Err(missing("image_os_hash_value", "is not set, but image_os_hash_algo is")),
        (None, Some(_), _) => Err(missing("image_os_hash_algo", "is not set, but image_os_hash_value is")),
        (None, None, Some(checksum)) if is_hex(checksum) => {
            let checksum = checksum.to_ascii_lowercase();
            match checksum.len() {
                64 => Ok((Some(("sha256".to_owned(), checksum.clone())), Some(checksum))),
                128 => Ok((Some(("sha512".to_owned(), checksum.clone())), Some(checksum))),
                32 => Ok((None, Some(checksum))),
                _ => Err(missing(
                    "image_checksum",
                    "is no MD5, SHA-256 or SHA-512 in hexadecimal digits",
                )),
            }
        }
        (None, None, Some(_)) => Err(missing("image_checksum", "is no digest in hexadecimal digits")),
        (None, None, None) => Err(missing(
            "image_os_hash_value",
            "is not set: give image_os_hash_algo (sha256) and image_os_hash_value, or image_checksum",
        )),
    }
}

/// Agents take a URL, or the base64 of a gzip'd image; both go through unchanged.
fn check_config_drive(drive: &Secret, image: bool) -> Result<(), InstanceError> {
    let error = |problem: &str| InstanceError {
        place: "configdrive".to_owned(),
        problem: problem.to_owned(),
    };
    let text = drive.expose().trim();
    if !image {
        return Err(error(
            "is given, but there is no image_source and so no disk to write it to",
        ));
    }
    if text.starts_with('{') {
        return Err(error(
            "is given as JSON; give the base64 of a gzip'd ISO 9660 image (mkisofs -V config-2), or its URL",
        ));
    }
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    let base64 = |c: u8| c.is_ascii_alphanumeric() || b"+/=\n\r".contains(&c);
    if text.is_empty() || (!is_url && !text.bytes().all(base64)) {
        return Err(error("is neither base64 nor an http(s) URL"));
    }
    Ok(())
}

/// A text of `instance_info`; empty and null count as not set.
fn text<'a>(node: &'a Node, key: &str) -> Result<Option<&'a str>, InstanceError> {
    match node.instance_info.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(missing(key, "is not a text")),
    }
}

fn missing(key: &str, problem: &str) -> InstanceError {
    InstanceError {
        place: format!("instance_info/{key}"),
        problem: problem.to_owned(),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::node;

    fn with(driver: Driver, info: Value) -> Node {
        let mut node = node();
        node.driver = driver;
        node.instance_info = serde_json::from_value(info).unwrap();
        node
    }

    #[test]
    fn each_driver_says_what_it_misses_and_where_to_set_it() {
        let sha = "ab".repeat(32);
        let url = "http://10.1.0.1/a.raw";
        for (driver, info, place) in [
            (Driver::AgentIlo, json!({}), "instance_info/image_source"),
            (
                Driver::AgentIlo,
                json!({"image_source": null}),
                "instance_info/image_source",
            ),
            (
                Driver::AgentIlo,
                json!({"image_source": 7}),
                "instance_info/image_source",
            ),
            (
                Driver::AgentIlo,
                json!({"image_source": "file:///a.raw"}),
                "instance_info/image_source",
            ),
            (
                Driver::AgentIlo,
                json!({"image_source": "glance-uuid"}),
                "instance_info/image_source",
            ),
            (
                Driver::AgentIlo,
                json!({"image_source": url}),
                "instance_info/image_os_hash_value",
            ),
            (
                Driver::AgentIlo,
                json!({"image_source": url, "image_os_hash_algo": "sha256"}),
                "instance_info/image_os_hash_value",
            ),
            (
                Driver::AgentIlo,
                json!({"image_source": url, "image_os_hash_value": sha}),
                "instance_info/image_os_hash_algo",
            ),
            (
                Driver::AgentIlo,
                json!({"image_source": url, "image_os_hash_algo": "crc", "image_os_hash_value": sha}),
                "instance_info/image_os_hash_algo",
            ),
            (
                Driver::AgentIlo,
                json!({"image_source": url, "image_os_hash_algo": "sha512", "image_os_hash_value": sha}),
                "instance_info/image_os_hash_value",
            ),
            (
                Driver::AgentIlo,
                json!({"image_source": url, "image_checksum": "http://h/sums"}),
                "instance_info/image_checksum",
            ),
            (
                Driver::AgentIlo,
                json!({"image_source": url, "image_checksum": sha, "image_disk_format": "qcow2"}),
                "instance_info/image_disk_format",
            ),
            (
                Driver::AgentIlo,
                json!({"image_source": url, "image_checksum": sha, "image_type": "partition"}),
                "instance_info/image_type",
            ),
            (Driver::IscsiIlo, json!({}), "instance_info/kernel"),
            (
                Driver::IscsiIlo,
                json!({"kernel": "http://h/k"}),
                "instance_info/ramdisk",
            ),
            (
                Driver::IscsiIlo,
                json!({"image_source": url, "image_checksum": sha}),
                "instance_info/kernel",
            ),
        ] {
            let error = validate_instance(&with(driver, info.clone())).unwrap_err();
            assert_eq!(error.place, place, "{info}");
            assert!(error.to_string().contains("farrier node set"), "{error}");
        }
    }

    #[test]
    fn whole_descriptions_pass_with_the_digest_that_the_agent_needs() {
        let sha = "AB".repeat(32);
        let info = json!({"image_source": "http://10.1.0.1/d/a.raw?sig=s3cret", "image_checksum": sha});
        let found = instance(&with(Driver::AgentIlo, info), None).unwrap();
        let image = found.image.unwrap();
        assert_eq!(image.os_hash, Some(("sha256".to_owned(), sha.to_lowercase())));
        assert_eq!(image.id, "a.raw");

        let iso = instance(&with(Driver::IscsiIlo, json!({"boot_iso": "http://h/i.iso"})), None).unwrap();
        assert_eq!(iso.image, None);
        let both = json!({"kernel": "http://h/k", "ramdisk": "http://h/r", "image_source": "http://h/a", "image_checksum": sha});
        assert!(instance(&with(Driver::IscsiIlo, both), None).unwrap().image.is_some());
    }

    #[test]
    fn over_the_network_an_instance_boots_from_kernel_and_ramdisk_only() {
        let iso = json!({"boot_iso": "http://h/i.iso"});
        let both = json!({"boot_iso": "http://h/i.iso", "kernel": "http://h/k", "ramdisk": "http://h/r"});
        for (interface, info, good) in [
            (BootInterface::IloVirtualMedia, &iso, true),
            (BootInterface::IloIpxe, &iso, false),
            (BootInterface::IloIpxe, &both, true),
        ] {
            let mut node = with(Driver::IscsiIlo, info.clone());
            node.boot_interface = interface;
            let outcome = validate_instance(&node);
            assert_eq!(outcome.is_ok(), good, "{interface} {info}: {outcome:?}");
        }
    }

    #[test]
    fn a_config_drive_must_be_what_agents_take() {
        let info = json!({"image_source": "http://h/a.raw", "image_checksum": "ab".repeat(32)});
        let node = with(Driver::AgentIlo, info);
        for (drive, good) in [
            ("H4sIAAAAAAAA/w==", true),
            ("http://h/drive", true),
            (r#"{"meta_data": {}}"#, false),
            ("", false),
            ("not base64!", false),
        ] {
            let outcome = instance(&node, Some(&Secret::new(drive)));
            assert_eq!(outcome.is_ok(), good, "{drive}: {outcome:?}");
        }
        let iso = with(Driver::IscsiIlo, json!({"boot_iso": "http://h/i.iso"}));
        assert!(instance(&iso, Some(&Secret::new("H4sI"))).is_err());
    }
}
