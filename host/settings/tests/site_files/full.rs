//! A site file that sets everything.

use std::path::Path;
use std::time::Duration;

use settings::{
    ApplicationCredential, Auth, BackendKind, BmcTrust, Credential, DefaultBootMode, Delivery, ImageDownloadSource,
    Interface, Member, Mode, Named, Overrides, Reference, Reinsert, Role,
};

use crate::load_in;

#[test]
fn every_name_of_a_full_site_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for file in [
        "htpasswd",
        "tls.pem",
        "tls.key",
        "isolinux.bin",
        "ldlinux.c32",
        "esp.img",
        "ipa x.initramfs",
        "kernel",
        "ramdisk",
        "ca.pem",
        "acme.wasm",
    ] {
        std::fs::write(folder.path().join(file), "").unwrap();
    }
    for (file, secret) in [
        ("swift.password", "hunter2\n"),
        ("s3.key", "AKID:hunter3\n"),
        ("glance.secret", "hunter4"),
    ] {
        std::fs::write(folder.path().join(file), secret).unwrap();
    }
    let text = r#"
        data-dir = "data"
        secret-key-file = "/etc/farrier/secret.key"
        file-url-allowed-paths = ["/srv/images", "images"]

        [api]
        listen = "0.0.0.0:6385"
        auth = "http_basic"
        htpasswd = "htpasswd"
        tls-certificate = "tls.pem"
        tls-key = "tls.key"
        public-url = "https://farrier.example/"

        [agent]
        listen = "0.0.0.0:6387"
        urls = ["http://10.1.10.30:6387/", "http://10.1.10.31:6387"]
        callback-networks = ["10.1.0.0/16"]
        require-tls = false
        heartbeat-timeout-s = 90
        image-download-source = "swift"

        [store]
        kind = "sqlite"

        [conductor]
        name = "rack-8"
        group = "Hall-2"
        lease-s = 20
        deploy-callback-timeout-s = 600
        clean-callback-timeout-s = 700
        rescue-callback-timeout-s = 800
        inspect-timeout-s = 900
        prepare-timeout-s = 500
        fetch-alarm-s = 0
        power-timeout-s = 30
        soft-power-off-timeout-s = 300
        workers = 50
        automated-clean = false
        power-sync-interval-s = 300

        [images]
        listen = "0.0.0.0:6386"
        external-url = "https://10.1.10.30:6386/media/"
        tls-certificate = "ca.pem"
        tls-key = "ca.pem"
        only-to-bmc = true
        cache = { max-bytes = "1GiB", max-age-days = 2 }
        isolinux = "isolinux.bin"
        ldlinux = "ldlinux.c32"
        esp = "esp.img"
        grub-config-path = "EFI/fedora/grub.cfg"
        deploy-kernel = "https://images.example/ipa.kernel"
        deploy-ramdisk = "ipa x.initramfs"
        rescue-kernel = "glance://01234567-89AB-cdef-0123-456789abcdef"
        rescue-ramdisk = "kernel"
        server-ca = "ca.pem"
        server-timeout-s = 7
        server-user = "images"
        server-password-file = "swift.password"
        server-proxy = "http://farrier:pr0xy@proxy.example:3128"
        default-boot-mode = "uefi"
        kernel-append-params = "%default% console=ttyS0"
        redfish-kernel-append-params = "quiet"
        instance-kernel = "kernel"
        instance-ramdisk = "ramdisk"
        instance-kernel-append-params = "root=/dev/sda1"

        [images.by-arch.aarch64]
        deploy-kernel = "kernel"
        esp = "esp.img"

        [netboot]
        root = "/srv/http"
        url = "http://10.1.10.30:8080/netboot"
        bios-bootfile = "ipxe.pxe"
        uefi-bootfile = "ipxe.efi"
        bootfile-by-arch = { aarch64 = "ipxe-arm.efi" }
        loaders = ["ipxe.efi:/etc/hostname"]
        kernel-append-params = "%default% ipxe"
        timeout-ms = 5000

        [bmc]
        port = 8443
        timeout-s = 20
        ca = "ca.pem"

        [drivers]
        enabled = ["agent_ilo"]
        boot-interfaces = ["ilo-virtual-media", "ilo-ipxe"]
        default-boot-interface = "ilo-ipxe"

        [glance]
        auth-type = "application-credential"
        auth-url = "https://keystone.example:5000/v3"
        application-credential-name = "farrier"
        username = "ironic"
        user-domain-id = "d1"
        application-credential-secret-file = "glance.secret"
        endpoint = "https://glance.example"
        attempts = 5
        [glance.swift]
        temp-url-key = "k"
        temp-url-duration-s = 60
        temp-url-cache = true
        download-start-delay-s = 20
        endpoint = "https://swift.example"
        api-version = "v1"
        account = "AUTH_x"
        account-prefix = "AUTH"
        container = "g"
        containers-seed = 2

        [[backend]]
        id = "local"
        kind = "embedded"
        drivers = ["redfish"]
        [[backend]]
        id = "httpd"
        kind = "web-root"
        root = "/httpboot"
        url = "http://10.1.10.30/httpboot/"
        mode = "0640"
        publish = false
        [[backend]]
        id = "swift"
        kind = "swift"
        auth-url = "https://keystone.example:5000/v3"
        username = "ironic"
        password-file = "swift.password"
        project = "service"
        container = "c"
        region = "one"
        interface = "internal"
        endpoint = "https://swift.example/v1/AUTH_x"
        ca = "ca.pem"
        verify = false
        temp-url-key = "k"
        lifetime-s = 7200
        attempts = 4
        segment-size = "5MiB"
        delivery = "direct"
        [[backend]]
        id = "s3"
        kind = "s3"
        endpoint = "https://s3.example"
        bucket = "farrier"
        access-key-file = "s3.key"
        session-token = "lent-hunter"
        ca = "ca.pem"
        path-style = false
        attempts = 2
        part-size = "16MiB"

        [take-over]
        reinsert-active = "now"

        [security]
        allow-local-addresses = true

        [[plugin]]
        role = "vmedia"
        component = "acme.wasm"
        digest = "sha256:abababababababababababababababababababababababababababababababab"
        match = { vendor = "HPE", "bmc.generation" = ">=6", bmc.firmware = 2 }
        mode = "shadow"
        grant = { bmc = ["media-state"], storage = { backends = ["local"], max-lifetime-s = 3600 } }
        limits = { memory = "32MiB", cpu-ms = 200, wall-s = 120, host-calls = 200, host-bytes = "1MiB", handles = 256, log-bytes = "64KiB" }
        settings = { prefer = "https", tries = [1, 2.5, true] }
        [[plugin]]
        role = "take-over"
        component = "./acme.wasm"
        grant = {}
    "#;
    let loaded = load_in(folder.path(), text, &Overrides::default()).unwrap();
    assert_eq!(loaded.warnings, []);
    let settings = loaded.settings;
    let here = |name: &str| folder.path().join(name);
    assert_eq!(settings.data_dir, here("data"));
    assert_eq!(
        settings.file_url_allowed_paths,
        [Path::new("/srv/images"), &here("images")]
    );
    assert_eq!(
        settings.api.auth,
        Auth::HttpBasic {
            htpasswd: here("htpasswd")
        }
    );
    assert_eq!(settings.api.tls.as_ref().unwrap().key, here("tls.key"));
    assert_eq!(
        settings.agent.urls_at(settings.agent.listen),
        ["http://10.1.10.30:6387", "http://10.1.10.31:6387"]
    );
    assert!(settings.agent.callback_networks[0].contains("10.1.2.3".parse().unwrap()));
    assert!(!settings.agent.require_tls && !settings.conductor.automated_clean);
    assert_eq!(settings.conductor.power_sync_interval.as_secs(), 300);
    assert_eq!(settings.conductor.clean_callback_timeout.as_secs(), 700);
    let images = &settings.images;
    assert_eq!(images.external_url_at(images.listen), "https://10.1.10.30:6386/media");
    assert_eq!(
        (images.cache.max_bytes, images.cache.max_age.as_secs()),
        (1 << 30, 172_800)
    );
    assert_eq!(
        images.deploy_kernel.as_ref().unwrap().to_string(),
        "https://images.example/ipa.kernel"
    );
    assert_eq!(
        images.deploy_ramdisk.as_ref().unwrap().to_string(),
        format!("file://{}/ipa%20x.initramfs", folder.path().display())
    );
    assert_eq!(
        images.instance_kernel.as_ref().unwrap().to_string(),
        format!("file://{}", here("kernel").display())
    );
    assert_eq!(images.esp, Some(Reference::File(here("esp.img"))));
    assert_eq!(
        images.rescue_kernel.as_ref().unwrap().to_string(),
        "glance://01234567-89ab-cdef-0123-456789abcdef"
    );
    assert_eq!(images.kernel_append_params, "nofb vga=normal console=ttyS0");
    assert_eq!(images.redfish_kernel_append_params, "quiet");
    assert_eq!(images.servers.account.as_ref().unwrap().password.expose(), "hunter2");
    assert_eq!(
        (images.servers.timeout.as_secs(), images.default_boot_mode),
        (7, DefaultBootMode::Uefi)
    );
    assert_eq!(images.by_arch["aarch64"].esp, images.esp);
    assert_eq!(
        images.servers.proxy.as_ref().unwrap().expose(),
        "http://farrier:pr0xy@proxy.example:3128"
    );
    assert_eq!(settings.agent.image_download_source, ImageDownloadSource::Swift);
    let netboot = &settings.netboot;
    assert_eq!(netboot.root, Path::new("/srv/http"));
    assert_eq!(netboot.url.as_ref().unwrap().as_str(), "http://10.1.10.30:8080/netboot");
    assert_eq!(netboot.bootfile_by_arch["aarch64"], "ipxe-arm.efi");
    // What the site says, then what distributions bring.
    let loaders: Vec<_> = netboot
        .loader_candidates()
        .into_iter()
        .map(|(name, places)| format!("{name} {}", places[0].display()))
        .collect();
    assert_eq!(
        loaders,
        [
            "ipxe.efi /etc/hostname",
            "ipxe.pxe /usr/lib/ipxe/ipxe.pxe",
            "ipxe-arm.efi /usr/lib/ipxe/ipxe-arm.efi"
        ]
    );
    assert_eq!(netboot.kernel_append_params, "nofb vga=normal console=ttyS0 ipxe");
    assert_eq!(netboot.timeout, Some(Duration::from_secs(5)));
    assert_eq!(
        (settings.bmc.port, settings.bmc.timeout),
        (Some(8443), Some(Duration::from_secs(20)))
    );
    assert_eq!(settings.bmc.trust, BmcTrust::File(here("ca.pem")));
    assert_eq!(settings.drivers.default_boot_interface.as_deref(), Some("ilo-ipxe"));
    let glance = settings.glance.as_ref().unwrap();
    let Credential::Application { credential, secret } = &glance.access.credential else {
        panic!("{glance:?}");
    };
    assert_eq!(secret.expose(), "hunter4");
    let user = Member::Name {
        name: "ironic".into(),
        domain: Named::Id("d1".into()),
    };
    assert_eq!(
        *credential,
        ApplicationCredential::Name {
            name: "farrier".into(),
            user
        }
    );
    assert_eq!((glance.attempts, glance.swift.containers_seed), (5, 2));
    assert!(glance.swift.temp_url_cache && glance.swift.download_start_delay.as_secs() == 20);
    let ids: Vec<_> = settings.backends.iter().map(|b| b.id.as_str()).collect();
    assert_eq!(ids, ["local", "httpd", "swift", "s3"]);
    let BackendKind::WebRoot { url, mode, .. } = &settings.backends[1].kind else {
        panic!("{:?}", settings.backends[1]);
    };
    assert_eq!((url.as_str(), *mode), ("http://10.1.10.30/httpboot", 0o640));
    assert!(settings.backends[0].is_for("redfish") && !settings.backends[0].is_for("agent_ilo"));
    assert!(!settings.backends[1].is_for("agent_ilo") && settings.backends[2].is_for("ilo5"));
    let BackendKind::Swift(swift) = &settings.backends[2].kind else {
        panic!("{:?}", settings.backends[2]);
    };
    assert_eq!((swift.delivery, swift.attempts), (Delivery::Direct, 4));
    assert_eq!(swift.lifetime, Some(Duration::from_secs(7200)));
    assert_eq!(swift.segment_size, 5 << 20);
    let access = &swift.access;
    let of_default = |name: &str| Member::Name {
        name: name.into(),
        domain: Named::Name("Default".into()),
    };
    let Credential::Password {
        user,
        password,
        project,
    } = &access.credential
    else {
        panic!("{access:?}");
    };
    assert_eq!((user, project), (&of_default("ironic"), &of_default("service")));
    assert_eq!(password.expose(), "hunter2");
    assert_eq!(
        (access.region.as_deref(), access.interface),
        (Some("one"), Interface::Internal)
    );
    assert!(!access.verify);
    let BackendKind::S3(s3) = &settings.backends[3].kind else {
        panic!("{:?}", settings.backends[3]);
    };
    let key = s3.access_key.as_ref().unwrap();
    assert_eq!((key.id.as_str(), key.secret.expose()), ("AKID", "hunter3"));
    assert_eq!(key.session.as_ref().unwrap().expose(), "lent-hunter");
    assert_eq!((s3.delivery, s3.path_style), (Delivery::Auto, false));
    assert_eq!((s3.attempts, s3.part_size), (2, 16 << 20));
    assert!(settings.images.tls.is_some() && settings.images.only_to_bmc);
    let printed = format!("{settings:?}");
    assert!(!printed.contains("hunter"), "{printed}");
    assert_eq!(settings.take_over.reinsert_active, Reinsert::Now);
    assert!(settings.security.allow_local_addresses);
    let [vmedia, take_over] = settings.plugins.as_slice() else {
        panic!("{:?}", settings.plugins);
    };
    assert_eq!((vmedia.role, vmedia.mode), (Role::Vmedia, Mode::Shadow));
    assert_eq!(vmedia.component, here("acme.wasm"));
    let facts: Vec<_> = vmedia.facts.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(
        facts,
        [("bmc.firmware", "2"), ("bmc.generation", ">=6"), ("vendor", "HPE")]
    );
    assert_eq!(
        vmedia.grant.as_ref().unwrap().to_string(),
        r#"{"bmc":["media-state"],"storage":{"backends":["local"],"max-lifetime-s":3600}}"#
    );
    assert_eq!(
        vmedia.settings.to_string(),
        r#"{"prefer":"https","tries":[1,2.5,true]}"#
    );
    assert_eq!(vmedia.limits.memory, Some(32 << 20));
    assert_eq!(vmedia.limits.cpu, Some(Duration::from_millis(200)));
    assert_eq!(take_over.grant.as_ref().unwrap().to_string(), "{}");
    assert_eq!(
        (take_over.limits.handles, take_over.settings.to_string()),
        (None, "{}".into())
    );
}
