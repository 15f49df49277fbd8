//! Whether an image can be made that a server's firmware boots: its boot mode against the boot loaders that the site has.
//!
//! Asked before a server is powered, before anything is published, and by `farrier node validate`. A server whose firmware
//! skips the image that it is given would wait for its ramdisk until the time is up, and nobody would know why.

use model::{BootInterface, BootMode, Driver, Node};
use runtime::capability;
use serde_json::Value;
use settings::{Images, Reference};

use super::boot_sources::arch;

/// What a boot image is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// The deploy, clean or rescue ramdisk.
    Ramdisk,
    /// An instance that runs from its boot ISO.
    Instance,
}

/// Every image that is made for this node.
pub(super) fn check_all(images: &Images, node: &Node) -> Result<(), String> {
    check(images, node, Purpose::Ramdisk, None)?;
    match node.driver {
        Driver::AgentIlo => Ok(()),
        Driver::IscsiIlo => check(images, node, Purpose::Instance, None),
    }
}

/// `says`: the boot mode that the BMC has just answered with; the one on record is older.
pub(super) fn check(images: &Images, node: &Node, purpose: Purpose, says: Option<BootMode>) -> Result<(), String> {
    if node.boot_interface != BootInterface::IloVirtualMedia || is_ready_made(node, purpose) {
        return Ok(());
    }
    let Some((mode, whence)) = boot_mode(node, says)? else {
        return Ok(());
    };
    let missing = match (mode, images.esp_for(arch(node))) {
        (BootMode::Uefi, None) => "[images] esp is not set".to_owned(),
        (BootMode::Uefi, Some(Reference::File(esp))) if !esp.exists() => {
            format!("there is no file {} ([images] esp)", esp.display())
        }
        (BootMode::Bios, _) if !images.isolinux.exists() => {
            format!("there is no file {} ([images] isolinux)", images.isolinux.display())
        }
        (BootMode::Uefi | BootMode::Bios, _) => return Ok(()),
    };
    let (name, remedy) = match mode {
        BootMode::Uefi => (
            "UEFI",
            "make one with `farrier image esp --efi shimx64.efi.signed grubx64.efi.signed -o esp.img` and name it in farrier.toml",
        ),
        BootMode::Bios => (
            "BIOS",
            "install isolinux (of the syslinux project), or name its isolinux.bin in farrier.toml",
        ),
    };
    Err(format!(
        "node {} boots {name} ({whence}), and {missing}, so its firmware would skip every boot ISO that is made here: {remedy}",
        node.name
            .as_ref()
            .map_or_else(|| node.id.to_string(), ToString::to_string)
    ))
}

/// An ISO that is taken as it is boots what its maker meant it to.
fn is_ready_made(node: &Node, purpose: Purpose) -> bool {
    let (fields, keys) = match purpose {
        Purpose::Ramdisk => (&node.driver_info, ["deploy_iso", "ilo_deploy_iso"]),
        Purpose::Instance => (&node.instance_info, ["boot_iso", "ilo_boot_iso"]),
    };
    let text = |key: &&str| fields.get(*key).and_then(Value::as_str);
    keys.iter().filter_map(text).any(|reference| !reference.is_empty())
}

/// The mode that the server boots in, and who says so: what is asked for is set before the boot, so it goes first.
fn boot_mode(node: &Node, says: Option<BootMode>) -> Result<Option<(BootMode, &'static str)>, String> {
    let secure = capability(node, "secure_boot").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    Ok(match (capability(node, "boot_mode").as_deref(), says, node.boot_mode) {
        (Some("uefi"), ..) => Some((BootMode::Uefi, "capability boot_mode")),
        (Some("bios"), ..) if secure => {
            return Err("capabilities ask for boot_mode:bios and secure_boot:true: secure boot needs uefi".to_owned());
        }
        (Some("bios"), ..) => Some((BootMode::Bios, "capability boot_mode")),
        (Some(other), ..) => {
            let other: String = other.chars().take(80).collect();
            return Err(format!("capability boot_mode is `{other}`; it can be `bios` or `uefi`"));
        }
        (None, ..) if secure => Some((BootMode::Uefi, "capability secure_boot")),
        (None, Some(mode), _) => Some((mode, "its BMC says so")),
        (None, None, Some(mode)) => Some((mode, "boot_mode on the node's record, as its BMC said last")),
        (None, None, None) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use model::NodeId;
    use serde_json::json;

    use super::*;

    /// Settings of a site whose boot loaders are these. What a site file names is there when it is read; later it may be gone.
    fn images(esp: Option<&str>, isolinux: &str) -> Images {
        let folder = tempfile::tempdir().unwrap();
        let overrides = settings::Overrides {
            data_dir: Some(folder.path().to_owned()),
            ..settings::Overrides::default()
        };
        let loaded = settings::Settings::load(&settings::Files::default(), &overrides).unwrap();
        let mut images = loaded.settings.images;
        images.esp = esp.map(|esp| Reference::File(esp.into()));
        images.isolinux = isolinux.into();
        images
    }

    #[test]
    fn a_server_is_refused_whose_firmware_has_no_loader_and_told_from_where_that_is_known() {
        let exists = std::env::current_exe().unwrap();
        let there = exists.to_str().unwrap();
        let uefi = |capabilities: &str, recorded: Option<BootMode>| {
            let mut node = Node::new(NodeId::random(), Driver::IscsiIlo, SystemTime::now());
            node.properties.insert("capabilities".to_owned(), capabilities.into());
            node.boot_mode = recorded;
            node
        };
        let (bios, efi) = (Some(BootMode::Bios), Some(BootMode::Uefi));
        for (node, says, esp, isolinux, part) in [
            (
                uefi("boot_mode:uefi", None),
                bios,
                None,
                there,
                Some("UEFI (capability boot_mode)"),
            ),
            (
                uefi("secure_boot:True", None),
                None,
                None,
                there,
                Some("UEFI (capability secure_boot)"),
            ),
            (
                uefi("", bios),
                efi,
                None,
                there,
                Some("UEFI (its BMC says so), and [images] esp is not set"),
            ),
            (
                uefi("", efi),
                None,
                None,
                there,
                Some("UEFI (boot_mode on the node's record"),
            ),
            (
                uefi("", efi),
                None,
                Some("/no/esp.img"),
                there,
                Some("no file /no/esp.img"),
            ),
            (uefi("", efi), None, Some(there), "/no/isolinux.bin", None),
            (
                uefi("boot_mode:bios", efi),
                efi,
                Some(there),
                "/no/isolinux.bin",
                Some("BIOS (capability boot_mode)"),
            ),
            (
                uefi("", None),
                bios,
                None,
                "/no/isolinux.bin",
                Some("no file /no/isolinux.bin"),
            ),
            (uefi("boot_mode:bios", efi), efi, None, there, None),
            (uefi("", None), None, None, "/no/isolinux.bin", None),
            (
                uefi("boot_mode:legacy", None),
                None,
                Some(there),
                there,
                Some("it can be `bios` or `uefi`"),
            ),
            (
                uefi("boot_mode:bios,secure_boot:true", None),
                None,
                Some(there),
                there,
                Some("secure boot needs uefi"),
            ),
        ] {
            let found = check(&images(esp, isolinux), &node, Purpose::Ramdisk, says);
            match (&found, part) {
                (Ok(()), None) => {}
                (Err(found), Some(part)) => assert!(found.contains(part), "{found}"),
                other => panic!("{other:?}"),
            }
        }
        let error = check_all(&images(None, there), &uefi("", efi)).unwrap_err();
        assert!(error.contains("farrier image esp --efi"), "{error}");
    }

    #[test]
    fn a_ready_made_iso_is_taken_as_it_is() {
        let mut node = Node::new(NodeId::random(), Driver::IscsiIlo, SystemTime::now());
        node.boot_mode = Some(BootMode::Uefi);
        node.driver_info
            .insert("deploy_iso".to_owned(), json!("http://192.0.2.1/d.iso"));
        let images = images(None, "/no/isolinux.bin");
        assert_eq!(check(&images, &node, Purpose::Ramdisk, None), Ok(()));
        assert!(check_all(&images, &node).is_err(), "its instance's ISO is made");
        node.instance_info
            .insert("boot_iso".to_owned(), json!("http://192.0.2.1/i.iso"));
        assert_eq!(check_all(&images, &node), Ok(()));
    }
}
