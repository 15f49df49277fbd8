//! `[netboot]`: servers that boot by iPXE, on the same folder and URL as the web server's backend.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
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
    /// Where those files are on this machine; see [`Netboot::loader_candidates`].
    pub loaders: Vec<Loader>,
    /// After our own parameters on every ramdisk's kernel line.
    pub kernel_append_params: String,
    /// How long iPXE tries one file.
    pub timeout: Option<Duration>,
}

/// A boot loader that firmware fetches by its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loader {
    /// Its name under the HTTP root.
    pub name: String,
    /// The file on this machine.
    pub path: PathBuf,
}

/// Where distributions put iPXE: Debian and Ubuntu; Fedora, RHEL and SUSE.
const IPXE: [&str; 2] = ["/usr/lib/ipxe", "/usr/share/ipxe"];

impl Loader {
    /// `NAME:PATH` with an absolute path, as Ironic writes them.
    fn parse(text: &str) -> Option<Self> {
        let (name, path) = text.split_once(':')?;
        (is_file_name(name) && path.starts_with('/')).then(|| Self {
            name: name.to_owned(),
            path: path.into(),
        })
    }
}

/// One that stands for no folder and is not hidden.
pub(crate) fn is_file_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=80).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(plain)
}

fn loaders(section: &mut Section<'_>) -> Vec<Loader> {
    let texts: Vec<String> = section.value("loaders").unwrap_or_default();
    let mut loaders: Vec<Loader> = Vec::with_capacity(texts.len());
    for text in texts {
        let shown: String = text.chars().take(80).collect();
        match Loader::parse(&text) {
            Some(loader) if loaders.iter().any(|other| other.name == loader.name) => {
                section.problem("loaders", &format!("names {:?} twice; keep one of them", loader.name));
            }
            Some(loader) => loaders.push(loader),
            None => section.problem("loaders", &format!("holds {shown:?}; write NAME:PATH, like \"snponly.efi:/usr/lib/ipxe/snponly.efi\", with a name of letters, digits and .-_ and an absolute path")),
        }
    }
    loaders
}

impl Netboot {
    /// The boot loaders that servers may ask for by name, each with where it may be on this machine, in the order to look: those
    /// that the site names, then what DHCP names where distributions put it.
    pub fn loader_candidates(&self) -> Vec<(&str, Vec<PathBuf>)> {
        let mut found: Vec<(&str, Vec<PathBuf>)> = self
            .loaders
            .iter()
            .map(|loader| (loader.name.as_str(), vec![loader.path.clone()]))
            .collect();
        let named = [&self.bios_bootfile, &self.uefi_bootfile];
        for name in named.into_iter().chain(self.bootfile_by_arch.values()) {
            let is_new = found.iter().all(|(other, _)| other != name);
            if is_new && is_file_name(name) {
                let places = IPXE.map(|folder| Path::new(folder).join(name));
                found.push((name.as_str(), places.into()));
            }
        }
        found
    }

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
            loaders: loaders(&mut section),
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
            loaders,
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
        let loaders: Vec<String> = loaders
            .iter()
            .map(|loader| format!("{}:{}", loader.name, loader.path.display()))
            .collect();
        out.put("loaders", Some(loaders).filter(|loaders| !loaders.is_empty()));
        out.put("kernel-append-params", kernel_append_params);
        let milliseconds = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        out.put("timeout-ms", milliseconds);
    }
}
