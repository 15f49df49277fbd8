//! What a node asks of its firmware, by its capabilities. The default `vmedia` plugin reads them in the same way.

use model::{BootMode, Node};
use runtime::capability;

/// The boot mode that the server is to have; `None` = as it is.
pub(super) fn boot_mode(node: &Node) -> Result<Option<BootMode>, String> {
    let secure = asks_for_secure_boot(node);
    match capability(node, "boot_mode").as_deref() {
        Some("uefi") => Ok(Some(BootMode::Uefi)),
        Some("bios") if secure => {
            Err("capabilities ask for boot_mode:bios and secure_boot:true: secure boot needs uefi".to_owned())
        }
        Some("bios") => Ok(Some(BootMode::Bios)),
        Some(other) => {
            let other: String = other.chars().take(80).collect();
            Err(format!("capability boot_mode is `{other}`; it can be `bios` or `uefi`"))
        }
        None => Ok(secure.then_some(BootMode::Uefi)),
    }
}

/// Secure boot is wanted for the instance.
pub(super) fn asks_for_secure_boot(node: &Node) -> bool {
    capability(node, "secure_boot").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}
