//! What a node's `instance_info` asks to deploy, checked before anything is touched. Pure.

use model::{BootInterface, Driver, Node, Secret};
use serde_json::Value;

use crate::config_drive;
use crate::wanted::{WantedImage, is_glance, wanted};

/// Key of the config drive among a node's secrets.
pub(crate) const CONFIG_DRIVE: &str = "configdrive";

/// What is to be deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    /// Written by the ramdisk; `None` = the instance runs from its boot ISO alone.
    pub(crate) image: Option<WantedImage>,
}

/// Something that a deployment needs is missing or unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot deploy: {place} {problem}{}", remedy(.place))]
pub struct InstanceError {
    /// Which field ("instance_info/image_source").
    pub place: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Where to mend it; a config drive is no field of the node but comes with the request.
fn remedy(place: &str) -> String {
    match place {
        "configdrive" => String::new(),
        _ => format!("; set it on the node (`farrier node set`, or PATCH of /{place})"),
    }
}

/// Whether a node could be deployed as it is described; for `GET …/validate`.
pub fn validate_instance(node: &Node) -> Result<(), InstanceError> {
    validate_with(node, None)
}

/// The same with the config drive that is to go with it, where a request gives one.
pub fn validate_with(node: &Node, config_drive: Option<&Secret>) -> Result<(), InstanceError> {
    instance(node, config_drive.or_else(|| node.secrets.get(CONFIG_DRIVE))).map(|_| ())
}

/// What to deploy. `drive`: the config drive that is to go with it.
pub(crate) fn instance(node: &Node, drive: Option<&Secret>) -> Result<Instance, InstanceError> {
    let image = wanted(node)?;
    match node.driver {
        Driver::AgentIlo if image.is_none() => {
            return Err(missing("image_source", "is not set: the URL of the image to write"));
        }
        Driver::AgentIlo => {}
        Driver::IscsiIlo => boot_source(node)?,
    }
    if let Some(drive) = drive {
        config_drive::check(drive)?;
        if image.is_none() {
            let problem = "is given, but there is no image_source and so no disk to write it to";
            return Err(config_drive::wrong(problem));
        }
    }
    Ok(Instance { image })
}

/// The instance's own boot ISO: ready-made, or from a kernel and a ramdisk.
fn boot_source(node: &Node) -> Result<(), InstanceError> {
    let set = |key| text(node, key).map(|value| value.is_some());
    // The image's own properties may name them.
    if text(node, "image_source")?.is_some_and(is_glance) {
        return Ok(());
    }
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

/// A text of `instance_info`; empty and null count as not set.
pub(crate) fn text<'a>(node: &'a Node, key: &str) -> Result<Option<&'a str>, InstanceError> {
    match node.instance_info.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(missing(key, "is not a text")),
    }
}

pub(crate) fn missing(key: &str, problem: &str) -> InstanceError {
    InstanceError {
        place: format!("instance_info/{key}"),
        problem: problem.to_owned(),
    }
}

pub(crate) fn cut(text: &str) -> String {
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
                json!({"image_source": url, "image_checksum": "ftp://h/sums"}),
                "instance_info/image_checksum",
            ),
            (
                Driver::AgentIlo,
                json!({"image_source": url, "image_checksum": sha, "image_disk_format": "vmdk"}),
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
                json!({"image_source": "/srv/a.raw"}),
                "instance_info/kernel",
            ),
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
        let image = found.image.unwrap().direct().unwrap();
        assert_eq!(image.os_hash, Some(("sha256".to_owned(), sha.to_lowercase())));
        assert_eq!(image.id, "a.raw");

        let iso = instance(&with(Driver::IscsiIlo, json!({"boot_iso": "http://h/i.iso"})), None).unwrap();
        assert_eq!(iso.image, None);
        let glance = json!({"image_source": "7f1a4b1e-0000-4000-8000-000000000001"});
        assert!(instance(&with(Driver::IscsiIlo, glance), None).is_ok());
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
    fn a_config_drive_must_be_what_agents_take_and_needs_a_disk() {
        let info = json!({"image_source": "http://h/a.raw", "image_checksum": "ab".repeat(32)});
        let node = with(Driver::AgentIlo, info);
        let drive = |text| Some(Secret::new(text));
        assert!(validate_with(&node, drive("H4sIAAAAAAAA/w==").as_ref()).is_ok());
        let error = validate_with(&node, drive("not base64!").as_ref()).unwrap_err();
        assert!(!error.to_string().contains("farrier node set"), "{error}");
        let iso = with(Driver::IscsiIlo, json!({"boot_iso": "http://h/i.iso"}));
        assert!(validate_with(&iso, drive("H4sI").as_ref()).is_err());
    }
}
