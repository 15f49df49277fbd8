//! What differs between vendors, models and firmwares, as data: one row a quirk. Only what the code acts on stands here;
//! whatever a BMC can be asked about (allowed values, actions, error messages) is asked, not looked up.

/// One known oddity.
#[derive(Debug)]
pub(crate) struct Quirk {
    /// Part of the system's `Manufacturer`, in lower case.
    pub(crate) vendor: &'static str,
    /// Parts of the system's `Model` that do *not* have it, in lower case.
    pub(crate) except_models: &'static [&'static str],
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
}

/// All of them; the first row that matches counts.
pub(crate) static QUIRKS: &[Quirk] = &[Quirk {
    vendor: "supermicro",
    except_models: &["ars-111gl-nhr"],
    symptom: "boot target Cd is accepted and means the physical drive: the server boots its disk",
    remedy: Remedy::CdTarget("UsbCd"),
}];

/// BMCs that refuse a URL with a query: part of the system's `Manufacturer`, in lower case, and what one sees.
static PLAIN_URLS_ONLY: &[(&str, &str)] = &[("supermicro", "a URL with `?` or `=` in it is not mounted")];

/// Whether a server's BMC takes URLs with a query, such as signed ones; `vendor` is the system's `Manufacturer`.
pub fn takes_url_queries(vendor: &str) -> bool {
    let vendor = vendor.to_lowercase();
    !PLAIN_URLS_ONLY.iter().any(|(part, _)| vendor.contains(part))
}

/// The row that a server falls under.
pub(crate) fn of(vendor: &str, model: &str) -> Option<&'static Quirk> {
    let (vendor, model) = (vendor.to_lowercase(), model.to_lowercase());
    QUIRKS
        .iter()
        .find(|quirk| vendor.contains(quirk.vendor) && !quirk.except_models.iter().any(|part| model.contains(part)))
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
    fn a_quirk_is_found_by_vendor_and_spared_by_model() {
        assert!(of("Super Micro", "X11").is_none());
        assert_eq!(of("Supermicro", "X11").unwrap().remedy, Remedy::CdTarget("UsbCd"));
        assert!(of("Supermicro", "ARS-111GL-NHR-LCC").is_none());
        assert!(of("HPE", "ProLiant DL360 Gen10").is_none());
    }
}
