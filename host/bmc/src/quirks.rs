//! What differs between vendors, models and firmwares, as data: one row a quirk. Only what the code acts on stands here;
//! whatever a BMC can be asked about (allowed values, actions, error messages) is asked, not looked up.

/// One known oddity.
#[derive(Debug)]
pub(crate) struct Quirk {
    /// Part of the system's `Manufacturer`, in lower case.
    pub(crate) vendor: &'static str,
    /// Parts of the system's `Model` that do *not* have it, in lower case.
    pub(crate) except_models: &'static [&'static str],
    /// Gone from this firmware of the BMC on, by its first two numbers; `None`: in all of them.
    pub(crate) until_firmware: Option<(u32, u32)>,
    /// What one sees without the remedy.
    pub(crate) symptom: &'static str,
    /// What we do about it.
    pub(crate) remedy: Remedy,
}

/// What is done about a quirk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Remedy {
    /// Prefer this boot override target for the virtual CD where it is allowed.
    CdTarget(&'static str),
    /// Boot the virtual CD or floppy by these values of `ServerBoot.1.FirstBootDevice` among the manager's attributes.
    FirstBootDevice { cd: &'static str, floppy: &'static str },
    /// Try the virtual media slots whose names begin so before the others.
    Slots(&'static str),
}

impl Remedy {
    pub(crate) fn slots(self) -> Option<&'static str> {
        match self {
            Self::Slots(prefix) => Some(prefix),
            Self::CdTarget(_) | Self::FirstBootDevice { .. } => None,
        }
    }
}

/// All of them.
pub(crate) static QUIRKS: &[Quirk] = &[
    Quirk {
        vendor: "supermicro",
        except_models: &["ars-111gl-nhr"],
        until_firmware: None,
        symptom: "boot target Cd is accepted and means the physical drive: the server boots its disk",
        remedy: Remedy::CdTarget("UsbCd"),
    },
    Quirk {
        vendor: "dell",
        except_models: &[],
        until_firmware: Some((6, 0)),
        symptom: "boot target Cd is accepted and means the physical drive: the server boots its disk",
        remedy: Remedy::FirstBootDevice {
            cd: "VCD-DVD",
            floppy: "vFDD",
        },
    },
    Quirk {
        vendor: "lenovo",
        except_models: &[],
        until_firmware: None,
        symptom: "of ten slots only EXT1 to EXT4 fetch an image by URL; the others refuse it",
        remedy: Remedy::Slots("EXT"),
    },
];

/// What a firmware calls its boot mode among its BIOS attributes.
#[derive(Debug)]
pub(crate) struct ModeNames {
    /// The attribute.
    pub(crate) attribute: &'static str,
    /// Its values for UEFI, to be tried in order.
    pub(crate) uefi: &'static [&'static str],
    /// Its values for legacy BIOS.
    pub(crate) legacy: &'static [&'static str],
}

/// The names of the boot mode. Only the one that a BMC shows is used.
pub(crate) static BOOT_MODES: &[ModeNames] = &[
    // HPE; Dell calls the second one `Bios`.
    ModeNames {
        attribute: "BootMode",
        uefi: &["Uefi"],
        legacy: &["LegacyBios", "Bios"],
    },
    // Supermicro.
    ModeNames {
        attribute: "BootModeSelect",
        uefi: &["UEFI"],
        legacy: &["Legacy"],
    },
    // Lenovo.
    ModeNames {
        attribute: "BootModes_SystemBootMode",
        uefi: &["UEFIMode"],
        legacy: &["LegacyMode"],
    },
];

/// BMCs that refuse a URL with a query: part of the system's `Manufacturer`, in lower case, and what one sees.
static PLAIN_URLS_ONLY: &[(&str, &str)] = &[("supermicro", "a URL with `?` or `=` in it is not mounted")];

/// Whether a server's BMC takes URLs with a query, such as signed ones; `vendor` is the system's `Manufacturer`.
pub fn takes_url_queries(vendor: &str) -> bool {
    let vendor = vendor.to_lowercase();
    !PLAIN_URLS_ONLY.iter().any(|(part, _)| vendor.contains(part))
}

/// The rows that a server falls under. A firmware that is not told counts as an old one.
pub(crate) fn of(vendor: &str, model: &str, firmware: Option<&str>) -> impl Iterator<Item = &'static Quirk> {
    let (vendor, model) = (vendor.to_lowercase(), model.to_lowercase());
    let version = firmware.and_then(version);
    QUIRKS.iter().filter(move |quirk| {
        vendor.contains(quirk.vendor)
            && !quirk.except_models.iter().any(|part| model.contains(part))
            && match (quirk.until_firmware, version) {
                (Some(end), Some(version)) => version < end,
                (_, None) | (None, _) => true,
            }
    })
}

/// The first two numbers of "6.10.30.00".
fn version(firmware: &str) -> Option<(u32, u32)> {
    let mut numbers = firmware.split('.').map(|part| part.trim().parse().ok());
    Some((numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bmc_takes_signed_urls_unless_a_row_says_otherwise() {
        assert!(takes_url_queries("HPE") && takes_url_queries(""));
        assert!(!takes_url_queries("Supermicro"));
    }

    #[test]
    fn a_quirk_is_found_by_vendor_and_spared_by_model_and_firmware() {
        let remedy = |vendor, model, firmware| of(vendor, model, firmware).next().map(|quirk| quirk.remedy);
        let dell = QUIRKS[1].remedy;
        for (vendor, model, firmware, want) in [
            ("Super Micro", "X11", None, None),
            ("Supermicro", "X11", None, Some(Remedy::CdTarget("UsbCd"))),
            ("Supermicro", "ARS-111GL-NHR-LCC", None, None),
            ("HPE", "ProLiant DL360 Gen10", None, None),
            ("Dell Inc.", "PowerEdge R640", Some("5.10.50.00"), Some(dell)),
            ("Dell Inc.", "PowerEdge R640", Some("6.00.00.00"), None),
            ("Dell Inc.", "PowerEdge R640", Some("7.0"), None),
            ("Dell Inc.", "PowerEdge R640", Some("?"), Some(dell)),
            ("Lenovo", "SR650", None, Some(Remedy::Slots("EXT"))),
        ] {
            assert_eq!(remedy(vendor, model, firmware), want, "{vendor} {model} {firmware:?}");
        }
        assert!(QUIRKS.iter().all(|quirk| !quirk.symptom.is_empty()));
    }
}
