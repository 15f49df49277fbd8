//! `[images]`: what nodes boot, and where BMCs fetch it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::Secret;
use url::Url;

use crate::entries::{Out, word};
use crate::machine::Machine;
use crate::section::Section;
use crate::serving::Tls;
use crate::values::{HttpUrl, Reference, Size};

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;
/// Ten years.
const MOST_DAYS: u64 = 3650;

/// What ramdisks get on their kernel line if the site says nothing.
pub(crate) const KERNEL_APPEND_PARAMS: &str = "nofb vga=normal";

/// `[images]`: what nodes boot, and where BMCs fetch it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Images {
    /// Where the embedded backend listens.
    pub listen: SocketAddr,
    /// Its URL as BMCs see it; `None` = this machine's own address. See [`Images::external_url_at`].
    pub external_url: Option<HttpUrl>,
    /// The embedded backend speaks https.
    pub tls: Option<Tls>,
    /// The embedded backend gives a node's images to the address of its BMC alone.
    pub only_to_bmc: bool,
    /// Kernels, ramdisks and images that were fetched.
    pub cache: Cache,
    /// Who we are at the servers that references lead to.
    pub servers: ImageServers,
    /// `isolinux.bin`, for BIOS.
    pub isolinux: PathBuf,
    /// `ldlinux.c32` of the same version. See [`Images::ldlinux_candidates`].
    pub ldlinux: Option<PathBuf>,
    /// EFI system partition image, for UEFI; a site without one boots BIOS only.
    pub esp: Option<Reference>,
    /// Where the ESP's GRUB looks for its configuration inside the ISO.
    pub grub_config_path: String,
    /// Kernel of the deploy ramdisk, for nodes that name none.
    pub deploy_kernel: Option<Reference>,
    /// The deploy ramdisk.
    pub deploy_ramdisk: Option<Reference>,
    /// Kernel of the rescue ramdisk; `None` = that of the deploy ramdisk.
    pub rescue_kernel: Option<Reference>,
    /// The rescue ramdisk.
    pub rescue_ramdisk: Option<Reference>,
    /// The same by processor architecture (`properties/cpu_arch`), before those for all.
    pub by_arch: BTreeMap<String, ArchImages>,
    /// After our own parameters on every ramdisk's kernel line.
    pub kernel_append_params: String,
    /// The same for nodes that are driven by Redfish.
    pub redfish_kernel_append_params: String,
    /// Kernel of instance boot ISOs, for nodes whose `instance_info` names none.
    pub instance_kernel: Option<Reference>,
    /// Ramdisk of instance boot ISOs.
    pub instance_ramdisk: Option<Reference>,
    /// Kernel line of instance boot ISOs.
    pub instance_kernel_append_params: String,
    /// For nodes that ask for none.
    pub default_boot_mode: DefaultBootMode,
    machine: Machine,
}

/// `[images] cache`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cache {
    /// `cache` in the data folder.
    pub folder: PathBuf,
    /// Least recently used files go beyond this.
    pub max_bytes: u64,
    /// Files unused for so long go.
    pub max_age: Duration,
}

/// Who we are at the servers of images, and how patient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageServers {
    /// PEM file of CAs to trust beside the machine's own.
    pub ca: Option<PathBuf>,
    /// Longest silence of a server.
    pub timeout: Duration,
    /// For basic authentication.
    pub account: Option<Account>,
    /// URL of the proxy that they are asked through; it may hold a user and a password.
    pub proxy: Option<Secret>,
}

/// A user and a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// The user.
    pub user: String,
    /// Its password.
    pub password: Secret,
}

/// `[images.by-arch.…]`: what takes the place of the settings of the same name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ArchImages {
    /// Kernel of the deploy ramdisk.
    pub deploy_kernel: Option<Reference>,
    /// The deploy ramdisk.
    pub deploy_ramdisk: Option<Reference>,
    /// Kernel of the rescue ramdisk.
    pub rescue_kernel: Option<Reference>,
    /// The rescue ramdisk.
    pub rescue_ramdisk: Option<Reference>,
    /// EFI system partition image.
    pub esp: Option<Reference>,
}

/// A kernel and its ramdisk, as far as the site names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ramdisk<'a> {
    /// Its kernel.
    pub kernel: Option<&'a Reference>,
    /// It.
    pub ramdisk: Option<&'a Reference>,
}

/// How servers boot that nobody said anything about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DefaultBootMode {
    /// As the server is set already.
    Auto,
    /// BIOS.
    Bios,
    /// UEFI.
    Uefi,
}

pub(crate) const BOOT_MODES: &[(&str, DefaultBootMode)] = &[
    ("auto", DefaultBootMode::Auto),
    ("bios", DefaultBootMode::Bios),
    ("uefi", DefaultBootMode::Uefi),
];

impl Images {
    pub(crate) fn take(mut section: Section<'_>, data_dir: &Path, machine: &Machine) -> Self {
        let line = |given: Option<String>, default: &str| match given {
            Some(given) => expand_default(&given, KERNEL_APPEND_PARAMS),
            None => default.to_owned(),
        };
        let cache = Cache::take(section.section("cache"), data_dir);
        let servers = ImageServers::take(&mut section);
        let kernel_append_params = line(section.line("kernel-append-params"), KERNEL_APPEND_PARAMS);
        let redfish = section.line("redfish-kernel-append-params");
        let images = Self {
            listen: section.value("listen").unwrap_or((Ipv4Addr::UNSPECIFIED, 6386).into()),
            external_url: section.value("external-url"),
            tls: Tls::take(&mut section),
            only_to_bmc: section.value("only-to-bmc").unwrap_or(false),
            cache,
            servers,
            isolinux: section
                .value("isolinux")
                .unwrap_or("/usr/lib/ISOLINUX/isolinux.bin".into()),
            ldlinux: section.value("ldlinux"),
            esp: section.value("esp"),
            grub_config_path: section
                .value("grub-config-path")
                .unwrap_or("EFI/debian/grub.cfg".into()),
            deploy_kernel: section.value("deploy-kernel"),
            deploy_ramdisk: section.value("deploy-ramdisk"),
            rescue_kernel: section.value("rescue-kernel"),
            rescue_ramdisk: section.value("rescue-ramdisk"),
            by_arch: by_arch(section.section("by-arch")),
            redfish_kernel_append_params: line(redfish, &kernel_append_params),
            kernel_append_params,
            instance_kernel: section.value("instance-kernel"),
            instance_ramdisk: section.value("instance-ramdisk"),
            instance_kernel_append_params: line(section.line("instance-kernel-append-params"), ""),
            default_boot_mode: section
                .choice("default-boot-mode", BOOT_MODES)
                .unwrap_or(DefaultBootMode::Auto),
            machine: machine.clone(),
        };
        pairs(
            &section,
            [
                ("deploy-kernel", images.deploy_kernel.is_some()),
                ("deploy-ramdisk", images.deploy_ramdisk.is_some()),
            ],
        );
        pairs(
            &section,
            [
                ("rescue-kernel", images.rescue_kernel.is_some()),
                ("rescue-ramdisk", images.rescue_ramdisk.is_some()),
            ],
        );
        section.end();
        images
    }

    /// The URL that BMCs see, when the listener is bound there (port 0 in `listen` takes any free port).
    pub fn external_url_at(&self, bound: SocketAddr) -> String {
        match &self.external_url {
            Some(url) => url.to_string(),
            None => {
                let url = self.machine.url_of(bound);
                match &self.tls {
                    Some(_) => url.replacen("http:", "https:", 1),
                    None => url,
                }
            }
        }
    }

    /// Where `ldlinux.c32` may be, in the order to look: as set, beside `isolinux.bin`, where distributions put it.
    pub fn ldlinux_candidates(&self) -> Vec<PathBuf> {
        match &self.ldlinux {
            Some(set) => vec![set.clone()],
            None => ldlinux_for(&self.isolinux),
        }
    }

    /// The deploy ramdisk of servers with processors of this architecture.
    pub fn deploy(&self, arch: Option<&str>) -> Ramdisk<'_> {
        let own = self.of_arch(arch);
        Ramdisk {
            kernel: own
                .and_then(|own| own.deploy_kernel.as_ref())
                .or(self.deploy_kernel.as_ref()),
            ramdisk: own
                .and_then(|own| own.deploy_ramdisk.as_ref())
                .or(self.deploy_ramdisk.as_ref()),
        }
    }

    /// Their rescue ramdisk: the deploy ramdisk where the site has none for that.
    pub fn rescue(&self, arch: Option<&str>) -> Ramdisk<'_> {
        let own = self.of_arch(arch);
        let deploy = self.deploy(arch);
        let kernel = own.and_then(|own| own.rescue_kernel.as_ref());
        let ramdisk = own.and_then(|own| own.rescue_ramdisk.as_ref());
        Ramdisk {
            kernel: kernel.or(self.rescue_kernel.as_ref()).or(deploy.kernel),
            ramdisk: ramdisk.or(self.rescue_ramdisk.as_ref()).or(deploy.ramdisk),
        }
    }

    /// Their EFI system partition image.
    pub fn esp_for(&self, arch: Option<&str>) -> Option<&Reference> {
        let own = self.of_arch(arch).and_then(|own| own.esp.as_ref());
        own.or(self.esp.as_ref())
    }

    fn of_arch(&self, arch: Option<&str>) -> Option<&ArchImages> {
        self.by_arch.get(arch?)
    }

    /// Every reference that the site itself names, with the setting that names it.
    pub fn references(&self) -> Vec<(String, &Reference)> {
        let own = [
            ("esp", &self.esp),
            ("deploy-kernel", &self.deploy_kernel),
            ("deploy-ramdisk", &self.deploy_ramdisk),
            ("rescue-kernel", &self.rescue_kernel),
            ("rescue-ramdisk", &self.rescue_ramdisk),
            ("instance-kernel", &self.instance_kernel),
            ("instance-ramdisk", &self.instance_ramdisk),
        ];
        let own = own.into_iter().map(|(key, reference)| (key.to_owned(), reference));
        let by_arch = self.by_arch.iter().flat_map(|(arch, images)| {
            let of_arch = images.entries().into_iter();
            of_arch.map(move |(key, reference)| (format!("by-arch.{arch}.{key}"), reference))
        });
        let named = own.chain(by_arch);
        named
            .filter_map(|(key, reference)| Some((key, reference.as_ref()?)))
            .collect()
    }
}

impl ArchImages {
    pub(crate) fn entries(&self) -> [(&'static str, &Option<Reference>); 5] {
        [
            ("deploy-kernel", &self.deploy_kernel),
            ("deploy-ramdisk", &self.deploy_ramdisk),
            ("rescue-kernel", &self.rescue_kernel),
            ("rescue-ramdisk", &self.rescue_ramdisk),
            ("esp", &self.esp),
        ]
    }
}

impl Cache {
    fn take(mut section: Section<'_>, data_dir: &Path) -> Self {
        let max_bytes = section.value("max-bytes").unwrap_or(Size(20 << 30)).0;
        let days = section.number("max-age-days", 1..=MOST_DAYS);
        let minutes = section.number("max-age-minutes", 1..=MOST_DAYS * 24 * 60);
        if days.is_some() && minutes.is_some() {
            section.problem("max-age-minutes", "and max-age-days are both set; keep one of them");
        }
        let seconds = match minutes {
            Some(minutes) => MINUTE * minutes,
            None => DAY * days.unwrap_or(7),
        };
        section.end();
        Self {
            folder: data_dir.join("cache"),
            max_bytes,
            max_age: Duration::from_secs(seconds),
        }
    }
}

impl ImageServers {
    fn take(section: &mut Section<'_>) -> Self {
        let user: Option<String> = section.value("server-user");
        let password = section.secret_if_set("server-password", "server-password-file");
        let account = match (user, password) {
            (Some(user), Some(password)) => Some(Account { user, password }),
            (Some(_), None) => {
                if !section.is_set("server-password") {
                    section.needs_beside("server-user", "server-password-file", "");
                }
                None
            }
            (None, Some(_)) => {
                let key = match section.is_set("server-password") {
                    true => "server-password",
                    false => "server-password-file",
                };
                section.needs_beside(key, "server-user", "");
                None
            }
            (None, None) => None,
        };
        Self {
            ca: section.value("server-ca"),
            timeout: section.seconds("server-timeout-s", 1..=3600, 30),
            account,
            proxy: proxy(section),
        }
    }
}

fn proxy(section: &mut Section<'_>) -> Option<Secret> {
    let proxy = section.secret_if_set("server-proxy", "server-proxy-file")?;
    let is_one = Url::parse(proxy.expose()).is_ok_and(|url| {
        let is_bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        matches!(url.scheme(), "http" | "https") && url.has_host() && is_bare
    });
    if is_one {
        return Some(proxy);
    }
    let key = match section.is_set("server-proxy") {
        true => "server-proxy",
        false => "server-proxy-file",
    };
    section.problem(
        key,
        "is no URL of a proxy; write http://HOST:PORT, or http://USER:PASSWORD@HOST:PORT",
    );
    None
}

/// A kernel and its ramdisk come together.
fn pairs(section: &Section<'_>, [(kernel, has_kernel), (ramdisk, has_ramdisk)]: [(&str, bool); 2]) {
    if has_kernel != has_ramdisk {
        let (there, missing) = if has_kernel {
            (kernel, ramdisk)
        } else {
            (ramdisk, kernel)
        };
        section.needs_beside(there, missing, ": they are booted together");
    }
}

fn by_arch(mut section: Section<'_>) -> BTreeMap<String, ArchImages> {
    let sections = section.named_sections();
    let take = |(arch, mut section): (String, Section<'_>)| {
        let images = ArchImages {
            deploy_kernel: section.value("deploy-kernel"),
            deploy_ramdisk: section.value("deploy-ramdisk"),
            rescue_kernel: section.value("rescue-kernel"),
            rescue_ramdisk: section.value("rescue-ramdisk"),
            esp: section.value("esp"),
        };
        section.end();
        (arch, images)
    };
    sections.into_iter().map(take).collect()
}

/// What a node asks to have on its kernel line: `%default%` in it stands for what the site has there.
pub fn expand_default(given: &str, default: &str) -> String {
    given.replace("%default%", default)
}

/// Where the `ldlinux.c32` of an `isolinux.bin` may be: beside it, where distributions put it.
pub fn ldlinux_for(isolinux: &Path) -> Vec<PathBuf> {
    vec![
        isolinux.with_file_name("ldlinux.c32"),
        // Debian and Ubuntu; Fedora, RHEL and SUSE; Arch.
        "/usr/lib/syslinux/modules/bios/ldlinux.c32".into(),
        "/usr/share/syslinux/ldlinux.c32".into(),
        "/usr/lib/syslinux/bios/ldlinux.c32".into(),
    ]
}

impl Images {
    pub(crate) fn write(&self, out: &mut Out) {
        let Self {
            listen,
            external_url,
            tls,
            only_to_bmc,
            cache,
            servers,
            isolinux,
            ldlinux,
            esp,
            grub_config_path,
            deploy_kernel,
            deploy_ramdisk,
            rescue_kernel,
            rescue_ramdisk,
            by_arch,
            kernel_append_params,
            redfish_kernel_append_params,
            instance_kernel,
            instance_ramdisk,
            instance_kernel_append_params,
            default_boot_mode,
            machine: _,
        } = self;
        out.put("listen", listen.to_string());
        out.put("external-url", external_url.as_ref());
        Tls::write(tls.as_ref(), out);
        out.put("only-to-bmc", *only_to_bmc);
        out.section("cache", |out| cache.write(out));
        servers.write(out);
        out.put("isolinux", isolinux);
        out.put("ldlinux", ldlinux.as_ref());
        out.put("esp", esp.as_ref());
        out.put("grub-config-path", grub_config_path);
        out.put("deploy-kernel", deploy_kernel.as_ref());
        out.put("deploy-ramdisk", deploy_ramdisk.as_ref());
        out.put("rescue-kernel", rescue_kernel.as_ref());
        out.put("rescue-ramdisk", rescue_ramdisk.as_ref());
        for (arch, images) in by_arch {
            out.section(&format!("by-arch.{arch}"), |out| {
                for (key, reference) in images.entries() {
                    out.put(key, reference.as_ref());
                }
            });
        }
        out.put("kernel-append-params", kernel_append_params);
        out.put("redfish-kernel-append-params", redfish_kernel_append_params);
        out.put("instance-kernel", instance_kernel.as_ref());
        out.put("instance-ramdisk", instance_ramdisk.as_ref());
        out.put("instance-kernel-append-params", instance_kernel_append_params);
        out.put("default-boot-mode", word(BOOT_MODES, default_boot_mode));
    }
}

impl Cache {
    fn write(&self, out: &mut Out) {
        let Self {
            folder: _,
            max_bytes,
            max_age,
        } = self;
        out.put("max-bytes", *max_bytes);
        let seconds = max_age.as_secs();
        match seconds % DAY {
            0 => out.put("max-age-days", seconds / DAY),
            _ => out.put("max-age-minutes", seconds / MINUTE),
        }
    }
}

impl ImageServers {
    fn write(&self, out: &mut Out) {
        let Self {
            ca,
            timeout,
            account,
            proxy,
        } = self;
        out.put("server-ca", ca.as_ref());
        out.put("server-timeout-s", *timeout);
        out.put("server-user", account.as_ref().map(|account| &account.user));
        out.put("server-password", account.as_ref().map(|account| &account.password));
        out.put("server-proxy", proxy.as_ref());
    }
}
