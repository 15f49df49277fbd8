//! What each setting means, in the order of the guide.

pub(super) const MEANINGS: &[(&str, &str)] = &[
    (
        "data-dir",
        "Folder of the store, the cache and, in every other folder than the default, the key",
    ),
    (
        "secret-key-file",
        "Key that secrets are sealed with; made at the first start. Default in another `data-dir`: `secret.key` there",
    ),
    (
        "file-url-allowed-paths",
        "Folders and files that `file:` references of nodes may lie in. Default: `images` in `data-dir`",
    ),
    ("api.listen", "Where the API listens"),
    ("api.auth", "`none` (on loopback only) or `http_basic`"),
    (
        "api.htpasswd",
        "File of users and bcrypt hashes (`htpasswd -B`), for `http_basic`",
    ),
    (
        "api.tls-certificate",
        "PEM file of the certificate and what signed it; with `tls-key`, the API speaks https",
    ),
    ("api.tls-key", "PEM file of its private key"),
    (
        "api.public-url",
        "URL of the API as users see it, for the links in its answers. Default: as each request names it",
    ),
    ("agent.listen", "Where ramdisks look themselves up and call back"),
    (
        "agent.urls",
        "The URLs that ramdisks are told, the same list on every conductor. Default: this machine's address",
    ),
    (
        "agent.callback-networks",
        "Networks in which ramdisks are called back; loopback and link-local ones have to be named",
    ),
    ("agent.require-tls", "Ramdisks must serve https"),
    (
        "agent.heartbeat-timeout-s",
        "Seconds within which a ramdisk must be heard again (5 to 3600)",
    ),
    (
        "agent.image-download-source",
        "Where ramdisks fetch disk images: `http` (where they lie, if they can), `swift` (the same, but Glance's from the Swift behind it) or `local` (from the conductor). A node's `image_download_source` wins",
    ),
    ("store.kind", "`sqlite` (one machine); `etcd` is not in this release"),
    ("store.endpoints", "URLs of etcd"),
    ("store.ca", "PEM file with the authority of etcd's certificates"),
    ("store.certificate", "PEM file of our own certificate for etcd"),
    ("store.key", "PEM file of its private key"),
    ("store.prefix", "Before every key in etcd"),
    (
        "conductor.name",
        "Name of the conductor, unique in the store. Default: the host's name",
    ),
    ("conductor.group", "Only nodes of this conductor group are taken"),
    (
        "conductor.lease-s",
        "Seconds that others wait before they take over its nodes (1 to 3600)",
    ),
    (
        "conductor.deploy-callback-timeout-s",
        "Seconds that a deploy ramdisk may take to call back (at most 7 days)",
    ),
    ("conductor.clean-callback-timeout-s", "The same for cleaning"),
    (
        "conductor.rescue-callback-timeout-s",
        "The same for rescue. No effect in this release, but for the lifetime of images",
    ),
    (
        "conductor.inspect-timeout-s",
        "Seconds that an inspection may take. No effect in this release, but for the lifetime of images",
    ),
    (
        "conductor.prepare-timeout-s",
        "Seconds that a step which does not work out is tried again (10 to 86400)",
    ),
    (
        "conductor.fetch-alarm-s",
        "Seconds in which a server must have read something of its boot image, or is booted once more; 0 = never",
    ),
    (
        "conductor.power-timeout-s",
        "Seconds that a server may take to reach a power state",
    ),
    (
        "conductor.soft-power-off-timeout-s",
        "The same where its operating system is asked",
    ),
    (
        "conductor.workers",
        "Nodes that are worked on at the same time (1 to 10000)",
    ),
    (
        "conductor.automated-clean",
        "Nodes are cleaned before they become available",
    ),
    (
        "conductor.power-sync-interval-s",
        "Seconds between two looks at a server's power state (1 to 86400)",
    ),
    ("images.listen", "Where BMCs fetch images from the conductor itself"),
    (
        "images.external-url",
        "URL of that as BMCs see it. Default: this machine's address",
    ),
    (
        "images.tls-certificate",
        "PEM file of the certificate and what signed it; with `tls-key`, images are served by https",
    ),
    ("images.tls-key", "PEM file of its private key"),
    (
        "images.only-to-bmc",
        "A node's images are given to the address of its BMC alone",
    ),
    (
        "images.cache.max-bytes",
        "Bytes that fetched files may take together, like `\"20GiB\"`; what a node may still boot comes on top",
    ),
    ("images.cache.max-age-days", "Days after which unused files go"),
    ("images.cache.max-age-minutes", "The same in minutes, instead"),
    (
        "images.server-ca",
        "PEM file of authorities to trust beside the machine's own, where images are fetched",
    ),
    (
        "images.server-timeout-s",
        "Seconds that a server may say nothing (1 to 3600)",
    ),
    ("images.server-user", "User for servers that ask for one"),
    ("images.server-password", "Its password"),
    ("images.server-password-file", "File that holds it, instead"),
    (
        "images.server-proxy",
        "URL of a proxy that image servers are asked through; it may hold a user and a password. Glance and Swift are asked directly",
    ),
    ("images.server-proxy-file", "File that holds it, instead"),
    ("images.isolinux", "`isolinux.bin`, to boot with BIOS"),
    (
        "images.ldlinux",
        "`ldlinux.c32` of the same version. Default: beside `isolinux.bin`, or where distributions put it",
    ),
    (
        "images.esp",
        "EFI system partition image, to boot with UEFI: a path, an http(s) URL, or `glance://UUID`; `farrier image esp` makes one",
    ),
    (
        "images.grub-config-path",
        "Where the ESP's GRUB looks for its settings inside the ISO",
    ),
    (
        "images.deploy-kernel",
        "Kernel of the deploy ramdisk: a path, an http(s) URL, or `glance://UUID`",
    ),
    ("images.deploy-ramdisk", "The deploy ramdisk"),
    (
        "images.rescue-kernel",
        "Kernel of the rescue ramdisk. Default: that of the deploy ramdisk",
    ),
    ("images.rescue-ramdisk", "The rescue ramdisk"),
    (
        "images.by-arch.ARCH.deploy-kernel",
        "The same for nodes with `properties/cpu_arch` = ARCH",
    ),
    ("images.by-arch.ARCH.deploy-ramdisk", "The same"),
    ("images.by-arch.ARCH.rescue-kernel", "The same"),
    ("images.by-arch.ARCH.rescue-ramdisk", "The same"),
    ("images.by-arch.ARCH.esp", "The same"),
    (
        "images.kernel-append-params",
        "Added to the kernel line of ramdisks; `%default%` stands for the default",
    ),
    (
        "images.redfish-kernel-append-params",
        "The same for nodes that are driven by Redfish. No effect in this release",
    ),
    (
        "images.instance-kernel",
        "Kernel of instances that boot from an ISO, where a node names none",
    ),
    ("images.instance-ramdisk", "Their ramdisk"),
    ("images.instance-kernel-append-params", "Added to their kernel line"),
    (
        "images.default-boot-mode",
        "`auto` (as the server is set), `bios` or `uefi`. No effect in this release: it is always `auto`",
    ),
    ("backend.id", "Its name in grants, records and plugins: a-z 0-9 - _"),
    (
        "backend.kind",
        "`embedded` (served by the conductors), `web-root`, `swift` or `s3`",
    ),
    (
        "backend.publish",
        "New images go there; `false`: what is there is served, renewed and withdrawn, and nothing comes to it",
    ),
    (
        "backend.drivers",
        "Only for nodes of these drivers: `ilo`, `redfish`. Default: for all",
    ),
    ("backend.root", "web-root: the folder that the web server serves"),
    (
        "backend.url",
        "web-root: the URL of that folder as BMCs see it; its path is kept",
    ),
    (
        "backend.mode",
        "web-root: permissions of the files, as `chmod` takes them",
    ),
    (
        "backend.auth-type",
        "swift: `password` (Keystone), `application-credential` (Keystone), `v1` (Swift's tempauth) or `none`",
    ),
    (
        "backend.auth-url",
        "swift: URL of Keystone, or of the v1 authentication",
    ),
    ("backend.username", "swift: the user; for v1, `ACCOUNT:USER`"),
    ("backend.user-id", "swift: its identifier, instead"),
    ("backend.user-domain", "swift: domain of the user"),
    ("backend.user-domain-id", "swift: identifier of that, instead"),
    ("backend.password", "swift: the user's password"),
    ("backend.password-file", "swift: file that holds it, instead"),
    ("backend.project", "swift: the user's project"),
    ("backend.project-id", "swift: its identifier, instead"),
    ("backend.project-domain", "swift: domain of the project"),
    ("backend.project-domain-id", "swift: identifier of that, instead"),
    (
        "backend.application-credential-id",
        "swift: identifier of the credential",
    ),
    (
        "backend.application-credential-name",
        "swift: its name, instead, beside its user",
    ),
    ("backend.application-credential-secret", "swift: its secret"),
    (
        "backend.application-credential-secret-file",
        "swift: file that holds it, instead",
    ),
    (
        "backend.endpoint",
        "swift: URL of the account, instead of the catalogue's. s3: URL of the service",
    ),
    (
        "backend.interface",
        "swift: which endpoint of the catalogue: `public`, `internal` or `admin`",
    ),
    ("backend.verify", "swift: certificates are checked"),
    ("backend.container", "swift: the container; made if it is not there"),
    (
        "backend.temp-url-key",
        "swift: signs temporary URLs. Default: the account's own, made if it has none",
    ),
    ("backend.temp-url-key-file", "swift: file that holds it, instead"),
    (
        "backend.lifetime-s",
        "swift: seconds that what is published lasts at least; raised to the longest wait. Default: as long as that",
    ),
    (
        "backend.segment-size",
        "swift: bytes of one object; bigger images are kept in segments",
    ),
    ("backend.bucket", "s3: the bucket; it must exist"),
    ("backend.region", "swift: region of the catalogue. s3: signed into URLs"),
    ("backend.access-key", "s3: the key, as `ID:SECRET`"),
    ("backend.access-key-file", "s3: file that holds it, instead"),
    ("backend.session-token", "s3: of a key that is lent"),
    ("backend.session-token-file", "s3: file that holds it, instead"),
    (
        "backend.path-style",
        "s3: the bucket is in the path of URLs, not in their host",
    ),
    (
        "backend.part-size",
        "s3: bytes of one part; bigger images are sent in parts",
    ),
    (
        "backend.ca",
        "swift, s3: PEM file of authorities to trust beside the machine's own",
    ),
    (
        "backend.attempts",
        "swift, s3: attempts of a request, the first one included",
    ),
    (
        "backend.delivery",
        "swift, s3: `direct` (a signed URL), `relay` (through a conductor, by a short URL), or `auto`: direct where the URL lives long enough and the BMC takes it",
    ),
    (
        "netboot.root",
        "Folder that a web server serves, for servers that boot by iPXE. Default: that of the first web-root backend",
    ),
    (
        "netboot.url",
        "URL of that folder. Default: that backend's; without one, the conductors serve the files",
    ),
    (
        "netboot.bios-bootfile",
        "What DHCP names to machines with BIOS; served beside `boot.ipxe`, where the file is found",
    ),
    ("netboot.uefi-bootfile", "What it names to machines with UEFI; likewise"),
    ("netboot.bootfile-by-arch.ARCH", "The same by processor; likewise"),
    (
        "netboot.loaders",
        "Where these files are, as `NAME:PATH`, and more like them. Default: in `/usr/lib/ipxe` or `/usr/share/ipxe`",
    ),
    (
        "netboot.kernel-append-params",
        "Added to the kernel line of ramdisks that are booted so. Default: `[images] kernel-append-params`",
    ),
    ("netboot.timeout-ms", "Milliseconds that iPXE tries one file"),
    ("bmc.port", "Port of BMCs whose nodes name none. Default: 443"),
    ("bmc.timeout-s", "Seconds that a request may take, likewise (1 to 3600)"),
    ("bmc.verify", "Certificates of BMCs are checked, likewise"),
    (
        "bmc.ca",
        "PEM file with their authority, or with their own certificates",
    ),
    (
        "drivers.enabled",
        "Drivers that nodes may have. No effect in this release: all may be used",
    ),
    (
        "drivers.boot-interfaces",
        "Ways to boot that nodes may have: `ilo-virtual-media`, `ilo-ipxe`. Default: all",
    ),
    (
        "drivers.default-boot-interface",
        "For nodes that name none. Default: `ilo-virtual-media`",
    ),
    ("glance.auth-type", "As for a swift backend"),
    ("glance.auth-url", "As for a swift backend"),
    ("glance.username", "As for a swift backend"),
    ("glance.user-id", "As for a swift backend"),
    ("glance.user-domain", "As for a swift backend"),
    ("glance.user-domain-id", "As for a swift backend"),
    ("glance.password", "As for a swift backend"),
    ("glance.password-file", "As for a swift backend"),
    ("glance.project", "As for a swift backend"),
    ("glance.project-id", "As for a swift backend"),
    ("glance.project-domain", "As for a swift backend"),
    ("glance.project-domain-id", "As for a swift backend"),
    ("glance.application-credential-id", "As for a swift backend"),
    ("glance.application-credential-name", "As for a swift backend"),
    ("glance.application-credential-secret", "As for a swift backend"),
    ("glance.application-credential-secret-file", "As for a swift backend"),
    ("glance.endpoint", "URL of Glance, instead of the catalogue's"),
    ("glance.interface", "As for a swift backend"),
    ("glance.region", "As for a swift backend"),
    ("glance.ca", "As for a swift backend"),
    ("glance.verify", "As for a swift backend"),
    ("glance.attempts", "Attempts of a request, the first one included"),
    (
        "glance.swift.temp-url-key",
        "For `[agent] image-download-source = \"swift\"`, as all of `glance.swift`: signs temporary URLs. Default: the account's own key, made if it has none",
    ),
    ("glance.swift.temp-url-key-file", "File that holds it, instead"),
    ("glance.swift.temp-url-duration-s", "Seconds that a temporary URL works"),
    (
        "glance.swift.temp-url-cache",
        "The same URL is told again while it works, for the sake of a cache between ramdisks and Swift",
    ),
    (
        "glance.swift.download-start-delay-s",
        "One that ends sooner than this is not told again",
    ),
    (
        "glance.swift.endpoint",
        "URL of the Swift behind Glance, without version and account. Default: the catalogue's",
    ),
    ("glance.swift.api-version", "Its version"),
    (
        "glance.swift.account",
        "Glance's account in it. Default: that of the project that `[glance]` authenticates for",
    ),
    (
        "glance.swift.account-prefix",
        "Before a project's identifier in an account's name",
    ),
    ("glance.swift.container", "Glance's container"),
    (
        "glance.swift.containers-seed",
        "Characters of an image's identifier that its container's name ends in",
    ),
    (
        "take-over.reinsert-active",
        "When a medium of an active node that nobody serves any more is inserted again: `at-next-reset` or `now`",
    ),
    ("plugin.role", "`backend-selection`, `vmedia`, `take-over` or `vendor`"),
    ("plugin.component", "The component's file"),
    ("plugin.digest", "`sha256:…` of the component; nothing else is loaded"),
    (
        "plugin.match",
        "What a node's facts must be for it; the first plugin that matches wins",
    ),
    ("plugin.mode", "`enforce`, or `shadow`: its answers are only compared"),
    (
        "plugin.grant",
        "What it may; `{}`: nothing. Default: what its role needs",
    ),
    ("plugin.limits.memory", "Bytes of memory of a call, like `\"32MiB\"`"),
    ("plugin.limits.cpu-ms", "Milliseconds that it may compute"),
    ("plugin.limits.wall-s", "Seconds from the call to its answer"),
    ("plugin.limits.host-calls", "Calls of host functions"),
    ("plugin.limits.host-bytes", "Bytes to and from the host"),
    ("plugin.limits.handles", "Images and locations at a time"),
    ("plugin.limits.log-bytes", "Bytes of log"),
    ("plugin.settings", "What it is given as its own settings"),
    (
        "security.allow-local-addresses",
        "What users, agents and BMCs make us connect to may be on this machine or its link; for a laboratory",
    ),
];
