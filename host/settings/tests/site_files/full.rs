//! A site file that sets everything.

use std::path::Path;
use std::time::Duration;

use settings::{Auth, BackendKind, Delivery, Mode, Overrides, Reinsert, Role};

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
        "swift.password",
        "acme.wasm",
    ] {
        std::fs::write(folder.path().join(file), "").unwrap();
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

        [agent]
        listen = "0.0.0.0:6387"
        urls = ["http://10.1.10.30:6387/", "http://10.1.10.31:6387"]
        callback-networks = ["10.1.0.0/16"]
        require-tls = false

        [store]
        kind = "sqlite"

        [conductor]
        name = "rack-8"
        group = "Hall-2"
        lease-s = 20
        deploy-callback-timeout-s = 600
        clean-callback-timeout-s = 700
        automated-clean = false
        power-sync-interval-s = 300

        [images]
        listen = "0.0.0.0:6386"
        external-url = "https://10.1.10.30:6386/media/"
        cache = { max-bytes = "1GiB", max-age-days = 2 }
        isolinux = "isolinux.bin"
        ldlinux = "ldlinux.c32"
        esp = "esp.img"
        grub-config-path = "EFI/fedora/grub.cfg"
        deploy-kernel = "https://images.example/ipa.kernel"
        deploy-ramdisk = "ipa x.initramfs"
        kernel-append-params = "console=ttyS0"
        instance-kernel = "kernel"
        instance-ramdisk = "ramdisk"
        instance-kernel-append-params = "root=/dev/sda1"

        [[backend]]
        id = "local"
        kind = "embedded"
        [[backend]]
        id = "httpd"
        kind = "web-root"
        root = "/httpboot"
        url = "http://10.1.10.30/httpboot/"
        [[backend]]
        id = "swift"
        kind = "swift"
        auth-url = "https://keystone.example:5000/v3"
        username = "ironic"
        password-file = "swift.password"
        project = "service"
        container = "c"
        delivery = "direct"
        [[backend]]
        id = "s3"
        kind = "s3"
        endpoint = "https://s3.example"
        bucket = "farrier"

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
    assert_eq!(settings.api.tls.unwrap().key, here("tls.key"));
    assert_eq!(
        settings.agent.urls_at(settings.agent.listen),
        ["http://10.1.10.30:6387", "http://10.1.10.31:6387"]
    );
    assert!(settings.agent.callback_networks[0].contains("10.1.2.3".parse().unwrap()));
    assert!(!settings.agent.require_tls && !settings.conductor.automated_clean);
    assert_eq!(settings.conductor.power_sync_interval.as_secs(), 300);
    assert_eq!(settings.conductor.clean_callback_timeout.as_secs(), 700);
    let images = settings.images;
    assert_eq!(images.external_url_at(images.listen), "https://10.1.10.30:6386/media");
    assert_eq!(
        (images.cache.max_bytes, images.cache.max_age.as_secs()),
        (1 << 30, 172_800)
    );
    assert_eq!(
        images.deploy_kernel.unwrap().to_string(),
        "https://images.example/ipa.kernel"
    );
    assert_eq!(
        images.deploy_ramdisk.unwrap().to_string(),
        format!("file://{}/ipa%20x.initramfs", folder.path().display())
    );
    assert_eq!(
        images.instance_kernel.unwrap().to_string(),
        format!("file://{}", here("kernel").display())
    );
    assert_eq!(images.esp, Some(here("esp.img")));
    let ids: Vec<_> = settings.backends.iter().map(|b| b.id.as_str()).collect();
    assert_eq!(ids, ["local", "httpd", "swift", "s3"]);
    let BackendKind::WebRoot { url, .. } = &settings.backends[1].kind else {
        panic!("{:?}", settings.backends[1]);
    };
    assert_eq!(url.as_str(), "http://10.1.10.30/httpboot");
    let BackendKind::Swift(swift) = &settings.backends[2].kind else {
        panic!("{:?}", settings.backends[2]);
    };
    assert_eq!(
        (swift.delivery, swift.user_domain.as_str()),
        (Delivery::Direct, "Default")
    );
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
