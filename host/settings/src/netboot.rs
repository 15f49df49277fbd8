//! `[netboot]`: servers that boot by iPXE, on the same folder and URL as the web server's backend.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::backends::{Backend, BackendKind};
use crate::entries::Out;
use crate::images::expand_default;
use crate::section::Section;
use crate::values::HttpUrl;

/// Where Ironic has it.
const ROOT: &str = "/httpboot";

/// `[netboot]`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Netboot {
    /// The folder that a web server serves.
    pub root: PathBuf,
    /// The folder's URL; `None` = the conductor itself serves scripts, kernels and ramdisks at `[images] external-url`.
    pub url: Option<HttpUrl>,
    /// What DHCP names to a machine with BIOS.
    pub bios_bootfile: String,
    /// What DHCP names to a machine with UEFI.
    pub uefi_bootfile: String,
    /// What it names by processor architecture, before those two.
    pub bootfile_by_arch: BTreeMap<String, String>,
    /// After our own parameters on every ramdisk's kernel line.
    pub kernel_append_params: String,
    /// How long iPXE tries one file.
    pub timeout: Option<Duration>,
}

impl Netboot {
    pub(crate) fn take(mut section: Section<'_>, backends: &[Backend], kernel_append_params: &str) -> Self {
        let web_root = backends.iter().find_map(|backend| match &backend.kind {
            BackendKind::WebRoot { root, url, .. } => Some((root.clone(), url.clone())),
            BackendKind::Embedded | BackendKind::Swift(_) | BackendKind::S3(_) => None,
        });
        let (its_root, its_url) = match web_root {
            Some((root, url)) => (Some(root), Some(url)),
            None => (None, None),
        };
        let root: Option<PathBuf> = section.value("root");
        let url: Option<HttpUrl> = section.value("url");
        // The backend's URL leads to the backend's folder and to no other.
        let url = url.or(if root.is_none() || root == its_root {
            its_url
        } else {
            None
        });
        let line: Option<String> = section.line("kernel-append-params");
        let text = |given: Option<String>, default: &str| given.unwrap_or_else(|| default.to_owned());
        let netboot = Self {
            root: root.or(its_root).unwrap_or_else(|| ROOT.into()),
            url,
            bios_bootfile: text(section.value("bios-bootfile"), "undionly.kpxe"),
            uefi_bootfile: text(section.value("uefi-bootfile"), "snponly.efi"),
            bootfile_by_arch: section.texts("bootfile-by-arch"),
            kernel_append_params: line.map_or_else(
                || kernel_append_params.to_owned(),
                |line| expand_default(&line, kernel_append_params),
            ),
            timeout: section.number("timeout-ms", 1..=3_600_000).map(Duration::from_millis),
        };
        section.end();
        netboot
    }
}

impl Netboot {
    pub(crate) fn write(&self, out: &mut Out) {
        let Self {
            root,
            url,
            bios_bootfile,
            uefi_bootfile,
            bootfile_by_arch,
            kernel_append_params,
            timeout,
        } = self;
        out.put("root", root);
        out.put("url", url.as_ref());
        out.put("bios-bootfile", bios_bootfile);
        out.put("uefi-bootfile", uefi_bootfile);
        out.section("bootfile-by-arch", |out| {
            for (arch, file) in bootfile_by_arch {
                out.put(arch, file);
            }
        });
        out.put("kernel-append-params", kernel_append_params);
        let milliseconds = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        out.put("timeout-ms", milliseconds);
    }
}
