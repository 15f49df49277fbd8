//! `[drivers]`: which ways of driving a server the site offers.

use crate::entries::Out;
use crate::section::Section;

/// `[drivers]`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drivers {
    /// Nodes may be of these only; empty = of every driver that there is.
    pub enabled: Vec<String>,
    /// How nodes may boot; empty = in every way that their driver knows.
    pub boot_interfaces: Vec<String>,
    /// For nodes that name none; `None` = the first that their driver knows.
    pub default_boot_interface: Option<String>,
}

impl Drivers {
    pub(crate) fn take(mut section: Section<'_>) -> Self {
        let drivers = Self {
            enabled: section.value("enabled").unwrap_or_default(),
            boot_interfaces: section.value("boot-interfaces").unwrap_or_default(),
            default_boot_interface: section.value("default-boot-interface"),
        };
        if let Some(default) = &drivers.default_boot_interface
            && !drivers.boot_interfaces.is_empty()
            && !drivers.boot_interfaces.contains(default)
        {
            section.problem("default-boot-interface", "is not among boot-interfaces; add it there");
        }
        section.end();
        drivers
    }
}

impl Drivers {
    pub(crate) fn write(&self, out: &mut Out) {
        let Self {
            enabled,
            boot_interfaces,
            default_boot_interface,
        } = self;
        let some = |names: &Vec<String>| Some(names.clone()).filter(|names| !names.is_empty());
        out.put("enabled", some(enabled));
        out.put("boot-interfaces", some(boot_interfaces));
        out.put("default-boot-interface", default_boot_interface.as_ref());
    }
}
