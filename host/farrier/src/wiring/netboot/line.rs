//! Kernel lines of what boots over the network: what the host tells the ramdisk, then what node and site append.

use conductor::{Parameter, ParameterValue};
use model::{Fields, Node};
use netboot::KernelLine;
use serde_json::Value;
use settings::{Images, Netboot, expand_default};

/// Of the deploy or clean ramdisk.
pub(super) fn ramdisk(node: &Node, parameters: &[Parameter], site: &Netboot) -> Result<KernelLine, String> {
    let mut pairs = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        match &parameter.value {
            ParameterValue::Plain(text) => pairs.push((parameter.key.clone(), text.clone())),
            ParameterValue::Secret(_) => {
                return Err(format!(
                    "the parameter `{}` is a secret, and everybody on the network can read what boots there",
                    parameter.key
                ));
            }
        }
    }
    let own = match text(&node.instance_info, "instance_info")? {
        Some(own) => Some((own, "instance_info")),
        None => text(&node.driver_info, "driver_info")?.map(|own| (own, "driver_info")),
    };
    let (appended, whence) = append(own, &site.kernel_append_params, "[netboot] kernel-append-params");
    KernelLine::new(&pairs, &appended).map_err(|error| format!("{whence}: {error}"))
}

/// Of an instance that boots from kernel and ramdisk.
pub(super) fn instance(node: &Node, site: &Images) -> Result<KernelLine, String> {
    let mut line = Vec::new();
    if let Some(root) = root(node)? {
        line.push(format!("root=UUID={root}"));
    }
    let own = text(&node.instance_info, "instance_info")?.map(|own| (own, "instance_info"));
    let site = &site.instance_kernel_append_params;
    let (appended, whence) = append(own, site, "[images] instance-kernel-append-params");
    line.push(appended);
    KernelLine::new(&[], &line.join(" ")).map_err(|error| format!("{whence}: {error}"))
}

/// The node's own parameters, where `%default%` stands for the site's; else the site's. And where they stand.
fn append(own: Option<(&str, &str)>, site: &str, place: &str) -> (String, String) {
    match own {
        Some((own, fields)) => (expand_default(own, site), format!("{fields}/kernel_append_params")),
        None => (site.to_owned(), place.to_owned()),
    }
}

fn text<'a>(fields: &'a Fields, place: &str) -> Result<Option<&'a str>, String> {
    match fields.get("kernel_append_params") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{place}/kernel_append_params is not a text")),
    }
}

/// The file system that the instance's root is on.
fn root(node: &Node) -> Result<Option<&str>, String> {
    let legal = |root: &str| (1..=64).contains(&root.len()) && root.bytes().all(|c| c.is_ascii_hexdigit() || c == b'-');
    match node.instance_info.get("root_uuid_or_disk_id") {
        None | Some(Value::Null) => Ok(None),
        // The signature of a whole disk: it says nothing of where the root is.
        Some(Value::String(root)) if root.starts_with("0x") => Ok(None),
        Some(Value::String(root)) if legal(root) => Ok(Some(root)),
        Some(_) => {
            Err("instance_info/root_uuid_or_disk_id is neither a file system's UUID nor a disk's signature".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use model::{Driver, NodeId};
    use serde_json::json;

    use super::*;

    fn settings() -> settings::Settings {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("farrier.toml");
        let text = format!(
            "data-dir = {:?}\n[images]\ninstance-kernel-append-params = \"ro\"\n[netboot]\nkernel-append-params = \"nofb\"\n",
            folder.path()
        );
        std::fs::write(&file, text).unwrap();
        let files = settings::Files {
            site: Some(file),
            ironic: Vec::new(),
        };
        settings::Settings::load(&files, &settings::Overrides::default())
            .unwrap()
            .settings
    }

    fn node(driver_info: Value, instance_info: Value) -> Node {
        let mut node = Node::new(NodeId::random(), Driver::IscsiIlo, SystemTime::now());
        node.driver_info = serde_json::from_value(driver_info).unwrap();
        node.instance_info = serde_json::from_value(instance_info).unwrap();
        node
    }

    #[test]
    fn a_ramdisk_is_told_ours_then_the_nodes_then_the_sites() {
        let site = settings().netboot;
        let ours = [Parameter {
            key: "ipa-api-url".to_owned(),
            value: ParameterValue::Plain("http://10.1.0.1:6387".to_owned()),
        }];
        for (driver_info, instance_info, end) in [
            (json!({}), json!({}), "nofb"),
            (json!({"kernel_append_params": "a %default% b"}), json!({}), "a nofb b"),
            (
                json!({"kernel_append_params": "a"}),
                json!({"kernel_append_params": "b"}),
                "b",
            ),
        ] {
            let line = ramdisk(&node(driver_info, instance_info), &ours, &site).unwrap();
            assert_eq!(line.as_str(), format!("ipa-api-url=http://10.1.0.1:6387 {end}"));
        }
    }

    #[test]
    fn an_instance_is_told_its_root() {
        let site = settings().images;
        for (info, line) in [
            (json!({}), "ro"),
            (json!({"root_uuid_or_disk_id": "ab-12"}), "root=UUID=ab-12 ro"),
            (
                json!({"root_uuid_or_disk_id": "0x1234", "kernel_append_params": "rw"}),
                "rw",
            ),
        ] {
            assert_eq!(instance(&node(json!({}), info), &site).unwrap().as_str(), line);
        }
    }

    #[test]
    fn what_cannot_be_booted_is_told_with_its_place_and_no_secret_gets_through() {
        let settings = settings();
        let bad = json!({"kernel_append_params": "x ${y}"});
        let error = ramdisk(&node(bad.clone(), json!({})), &[], &settings.netboot).unwrap_err();
        assert!(error.starts_with("driver_info/kernel_append_params: "), "{error}");
        let error = instance(&node(json!({}), bad), &settings.images).unwrap_err();
        assert!(error.starts_with("instance_info/kernel_append_params: "), "{error}");
        for info in [
            json!({"kernel_append_params": 7}),
            json!({"root_uuid_or_disk_id": "/dev/sda1; reboot"}),
        ] {
            assert!(instance(&node(json!({}), info), &settings.images).is_err());
        }
        let token = [Parameter {
            key: "ipa-agent-token".to_owned(),
            value: ParameterValue::Secret("agent-token".to_owned()),
        }];
        let error = ramdisk(&node(json!({}), json!({})), &token, &settings.netboot).unwrap_err();
        assert!(error.contains("is a secret"), "{error}");
    }
}
