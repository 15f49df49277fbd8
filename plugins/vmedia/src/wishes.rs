//! What node and site ask for: boot mode, secure boot, kernel arguments, lifetimes.

use crate::bindings::farrier::driver::bmc;
use crate::bindings::farrier::driver::inventory::Node;
use crate::bindings::farrier::driver::types::{BootMode, Error};

/// How long a ramdisk may take to call back if the site does not say (Ironic's `deploy_callback_timeout`).
const CALLBACK_TIMEOUT_S: u32 = 1800;
/// Between publishing and the start of that wait lie a power-off, a reset and the firmware's self-test.
const MARGIN_S: u32 = 600;

/// How long floppy and ISO must be fetchable: at least the wait for the ramdisk.
pub(crate) fn lifetime_s(wait: Option<&str>, setting: Option<&str>) -> u32 {
    let seconds = |text: &str| text.trim().parse::<u32>().ok();
    let wait = wait.and_then(seconds).unwrap_or(CALLBACK_TIMEOUT_S);
    let setting = setting.and_then(seconds).unwrap_or(0);
    wait.saturating_add(MARGIN_S).max(setting)
}

/// The boot mode that the node asks for. Looked at first: a wish that cannot be met must not be found out about when images
/// are published and slots are filled.
pub(crate) fn boot_mode(node: &Node) -> Result<Option<BootMode>, Error> {
    wanted_boot_mode(
        node.fact("capability.boot_mode").as_deref(),
        node.fact("capability.secure_boot").as_deref(),
    )
}

/// Changes the boot mode if another one than the server has is wanted.
pub(crate) fn apply_boot_mode(node: &Node, wanted: Option<BootMode>) -> Result<(), Error> {
    let Some(wanted) = wanted else {
        return Ok(());
    };
    match bmc::boot_mode_of(node) {
        Ok(current) if current == wanted => Ok(()),
        // A server that knows no boot modes is an old one with a BIOS.
        Err(Error::Unsupported(_)) if wanted == BootMode::Bios => Ok(()),
        Ok(_) => bmc::set_boot_mode(node, wanted),
        Err(error) => Err(error),
    }
}

/// Switches secure boot on if the node asks for it.
pub(crate) fn apply_secure_boot(node: &Node) -> Result<(), Error> {
    if !asks_for_secure_boot(node) || bmc::secure_boot_of(node)? {
        return Ok(());
    }
    bmc::set_secure_boot(node, true)
}

/// Switches secure boot off if it was the node that asked for it.
pub(crate) fn undo_secure_boot(node: &Node) -> Result<(), Error> {
    if !asks_for_secure_boot(node) || !bmc::secure_boot_of(node)? {
        return Ok(());
    }
    bmc::set_secure_boot(node, false)
}

fn asks_for_secure_boot(node: &Node) -> bool {
    node.fact("capability.secure_boot")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn wanted_boot_mode(mode: Option<&str>, secure_boot: Option<&str>) -> Result<Option<BootMode>, Error> {
    let secure = secure_boot.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    match mode {
        Some("uefi") => Ok(Some(BootMode::Uefi)),
        Some("bios") if secure => Err(Error::Invalid(
            "capabilities ask for boot_mode:bios and secure_boot:true: secure boot needs uefi".to_owned(),
        )),
        Some("bios") => Ok(Some(BootMode::Bios)),
        Some(other) => Err(Error::Invalid(format!(
            "capability boot_mode is `{other}`; it can be `bios` or `uefi`"
        ))),
        None => Ok(secure.then_some(BootMode::Uefi)),
    }
}

/// A text out of the JSON of a node's field.
pub(crate) fn text(field: &str, json: &str) -> Result<String, Error> {
    serde_json::from_str(json).map_err(|_| Error::Invalid(format!("{field} must be a text")))
}

/// Kernel arguments of the ramdisk: the node's own, where `%default%` stands for the site's; else the site's.
pub(crate) fn kernel_arguments(node: Option<&str>, site: Option<&str>) -> Option<String> {
    let decode = |json: Option<&str>| json.and_then(|json| serde_json::from_str::<String>(json).ok());
    let site = decode(site).unwrap_or_default();
    let line = match decode(node) {
        Some(own) => own.replace("%default%", &site),
        None => site,
    };
    let line = line.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// Kernel arguments of an instance: where its root is, and what else the node or the site asks for.
pub(crate) fn instance_kernel_arguments(
    root: Option<&str>,
    node: Option<&str>,
    site: Option<&str>,
) -> Result<Option<String>, Error> {
    let mut line = Vec::new();
    if let Some(root) = root {
        let field = "instance_info.root_uuid_or_disk_id";
        let root = text(field, root)?;
        let legal = |c: char| c.is_ascii_hexdigit() || c == '-';
        if root.starts_with("0x") {
            // The signature of a whole disk: it says nothing of where the root is.
        } else if (1..=64).contains(&root.len()) && root.chars().all(legal) {
            line.push(format!("root=UUID={root}"));
        } else {
            return Err(Error::Invalid(format!(
                "{field} is neither a file system's UUID nor a disk's signature"
            )));
        }
    }
    line.extend(kernel_arguments(node, site));
    Ok((!line.is_empty()).then(|| line.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_live_at_least_as_long_as_the_ramdisk_is_waited_for() {
        for (wait, setting, expected) in [
            (None, None, 2400),
            (Some("60"), None, 660),
            (Some("3600"), Some("900"), 4200),
            (Some("3600"), Some("86400"), 86_400),
            (Some("soon"), Some("\"x\""), 2400),
            (Some("4294967295"), None, u32::MAX),
        ] {
            assert_eq!(lifetime_s(wait, setting), expected, "{wait:?} {setting:?}");
        }
    }

    #[test]
    fn a_boot_mode_is_asked_for_by_capabilities_only() {
        let wish = |mode, secure| wanted_boot_mode(mode, secure).map_err(|_| ());
        assert_eq!(wish(None, None), Ok(None));
        assert_eq!(wish(Some("uefi"), None), Ok(Some(BootMode::Uefi)));
        assert_eq!(wish(Some("bios"), Some("false")), Ok(Some(BootMode::Bios)));
        assert_eq!(wish(None, Some("True")), Ok(Some(BootMode::Uefi)));
        assert_eq!(wish(Some("bios"), Some("true")), Err(()));
        assert_eq!(wish(Some("legacy"), None), Err(()));
    }

    #[test]
    fn a_nodes_kernel_arguments_replace_the_sites_or_extend_them() {
        let line = |node, site| kernel_arguments(node, site);
        assert_eq!(line(None, None), None);
        assert_eq!(line(None, Some("\"console=ttyS0\"")).as_deref(), Some("console=ttyS0"));
        assert_eq!(
            line(Some("\"quiet\""), Some("\"console=ttyS0\"")).as_deref(),
            Some("quiet")
        );
        let both = line(Some("\"%default% quiet\""), Some("\"console=ttyS0\""));
        assert_eq!(both.as_deref(), Some("console=ttyS0 quiet"));
        assert_eq!(line(Some("7"), None), None);
    }

    #[test]
    fn an_instance_boots_from_its_root_file_system() {
        let line = |root, node| instance_kernel_arguments(root, node, None).map_err(|_| ());
        let uuid = "\"0a1b2c3d-0000-4000-8000-0123456789ab\"";
        assert_eq!(
            line(Some(uuid), Some("\"quiet\"")),
            Ok(Some("root=UUID=0a1b2c3d-0000-4000-8000-0123456789ab quiet".to_owned()))
        );
        assert_eq!(line(Some("\"0x1234abcd\""), None), Ok(None));
        assert_eq!(line(Some("\"x init=/bin/sh\""), None), Err(()));
        assert_eq!(line(Some("7"), None), Err(()));
    }
}
