//! Whole files, as operators have them: every setting that comes of them, and every warning.

use expect_test::{Expect, expect};
use settings::{Files, Loaded, Origin, Overrides, Plain, Secrets, Settings};

use crate::{Folder, machine, sample, warnings};

/// The sample as it is, but on a host that has what it names.
fn load(folder: &Folder, name: &str) -> Loaded {
    let host = folder.path("host");
    let text = std::fs::read_to_string(sample(name)).unwrap();
    let there = |text: &str| {
        text.replace("/etc/ironic", &host.to_string_lossy())
            .replace("/var/lib/ironic", &host.to_string_lossy())
    };
    for file in ["htpasswd", "esp.img", "ipa.kernel", "ipa.initramfs"] {
        folder.write(&format!("host/{file}"), "");
    }
    let ironic = folder.write(name, there(&text));
    let files = Files {
        site: None,
        ironic: vec![ironic],
    };
    Settings::load_on(&files, &Overrides::default(), &machine()).unwrap_or_else(|error| panic!("{error}"))
}

/// What differs from a site without any file.
fn check(name: &str, expected_settings: Expect, expected_warnings: Expect) {
    let folder = Folder::new();
    let loaded = load(&folder, name);
    let bare = Settings::load_on(&Files::default(), &Overrides::default(), &machine()).unwrap();
    let bare = bare.entries();
    let mut lines = Vec::new();
    for entry in loaded.entries() {
        let same = bare
            .iter()
            .any(|other| other.name == entry.name && other.value == entry.value);
        if (same && entry.origin == Origin::Default) || entry.value == Plain::Unset {
            continue;
        }
        let option = match &entry.origin {
            Origin::Option { line, option, .. } => format!("  # {line} {option}"),
            _ => String::new(),
        };
        lines.push(format!("{} = {}{option}", entry.name, entry.value));
    }
    expected_settings.assert_eq(&folder.plain(&lines.join("\n")));
    expected_warnings.assert_eq(&folder.plain(&warnings(&loaded)));
}

#[test]
fn a_standalone_conductor() {
    check(
        "standalone.conf",
        expect![[r#"
            data-dir = "host/farrier"  # 11 [DEFAULT] state_path
            secret-key-file = "host/farrier/secret.key"
            file-url-allowed-paths = ["/var/lib/ironic", "/shared/html", "/templates", "/opt/cache/files", "/vagrant"]
            api.listen = "10.1.10.30:6385"  # 19 [api] host_ip
            api.auth = "http_basic"  # 3 [DEFAULT] auth_strategy
            api.htpasswd = "host/htpasswd"  # 4 [DEFAULT] http_basic_auth_user_file
            api.public-url = "https://ironic.example"  # 21 [api] public_endpoint
            agent.listen = "10.1.10.30:6387"  # 19 [api] host_ip
            agent.urls = ["http://10.1.10.30:6387"]  # 36 [deploy] external_callback_url
            conductor.name = "rack-7"  # 9 [DEFAULT] host
            conductor.group = "hall-2"  # 28 [conductor] conductor_group
            conductor.deploy-callback-timeout-s = 3600  # 25 [conductor] deploy_callback_timeout
            conductor.automated-clean = false  # 24 [conductor] automated_clean
            images.listen = "10.1.10.30:6386"  # 19 [api] host_ip
            images.external-url = "http://10.1.10.30:6386"  # 10 [DEFAULT] my_ip
            images.cache.max-bytes = 10737418240  # 39 [deploy] iso_cache_size
            images.cache.max-age-minutes = 90  # 40 [deploy] iso_cache_ttl
            images.esp = "host/esp.img"  # 12 [DEFAULT] esp_image
            images.grub-config-path = "EFI/debian/grub.cfg"  # 13 [DEFAULT] grub_config_path
            images.deploy-kernel = "host/ipa.kernel"  # 26 [conductor] deploy_kernel
            images.deploy-ramdisk = "host/ipa.initramfs"  # 27 [conductor] deploy_ramdisk
            images.kernel-append-params = "nofb vga=normal console=ttyS0,115200n8 ipa-debug=1"  # 46 [ilo] kernel_append_params
            images.redfish-kernel-append-params = "nofb vga=normal console=ttyS0,115200n8 ipa-debug=1"
            images.instance-kernel-append-params = "nofb console=ttyS1"  # 50 [pxe] pxe_append_params
            backend.1.id = "web-root"  # 43 [ilo] use_web_server_for_images
            backend.1.kind = "web-root"  # 43 [ilo] use_web_server_for_images
            backend.1.root = "host/httpboot"  # 34 [deploy] http_root
            backend.1.url = "http://10.1.10.30:8080/httpboot"  # 35 [deploy] http_url
            backend.1.mode = "0644"
            netboot.root = "host/httpboot"  # 34 [deploy] http_root
            netboot.url = "http://10.1.10.30:8080/httpboot"  # 35 [deploy] http_url
            netboot.bootfile-by-arch.aarch64 = "ipxe-arm.efi"  # 52 [pxe] ipxe_bootfile_name_by_arch
            netboot.loaders = ["ipxe.efi:/etc/hostname"]  # 53 [pxe] loader_file_paths
            netboot.kernel-append-params = "nofb console=ttyS1"  # 50 [pxe] pxe_append_params
            netboot.timeout-ms = 60000  # 51 [pxe] ipxe_timeout
            bmc.timeout-s = 30  # 44 [ilo] client_timeout
            bmc.verify = false  # 45 [ilo] verify_ca
            drivers.enabled = ["ilo", "ilo5", "redfish", "agent_ilo", "iscsi_ilo"]  # 5 [DEFAULT] enabled_hardware_types
            drivers.boot-interfaces = ["ilo-virtual-media", "ilo-ipxe"]  # 6 [DEFAULT] enabled_boot_interfaces
            drivers.default-boot-interface = "ilo-virtual-media"  # 7 [DEFAULT] default_boot_interface"#]],
        expect![[r#"
            standalone.conf:3: [api] passwords travel unencrypted; set tls-certificate and tls-key, or put a TLS proxy before it
            standalone.conf:6: [DEFAULT] enabled_boot_interfaces names redfish-virtual-media beside what Farrier has (ilo-virtual-media, ilo-ipxe): nodes that ask for them are refused
            standalone.conf:8: [DEFAULT] enabled_management_interfaces has no effect: a driver brings its own interfaces; only those for booting can be chosen
            standalone.conf:14: [DEFAULT] rpc_transport has no effect: conductors talk to one another through the store alone
            standalone.conf:15: [DEFAULT] log_dir has no effect: log lines go to standard error; FARRIER_LOG filters them, --log-json shapes them
            standalone.conf:16: [DEFAULT] debug = True has no effect: start with FARRIER_LOG=debug
            standalone.conf:30: [database] has no effect: Farrier keeps records of its own, see [store] of farrier.toml
            standalone.conf:37: [deploy] default_boot_mode has no effect: [ilo] default_boot_mode is read, for all drivers
            standalone.conf:38: [deploy] erase_devices_priority has no effect: the ramdisk's own clean steps and their own settings erase devices
            standalone.conf:50: [pxe] pxe_append_params is deprecated; write it as [pxe] kernel_append_params
            standalone.conf:53: [pxe] loader_file_paths names "../x.efi", which is left out: a plain file name and an absolute path are taken
            standalone.conf:53: [pxe] loader_file_paths is left out: /nowhere/away.efi: No such file or directory (os error 2); put the file there and start again, or correct the path"#]],
    );
}

#[test]
fn a_conductor_of_a_cloud() {
    check(
        "swift.conf",
        expect![[r#"
            data-dir = "/var/lib/ironic/farrier"
            secret-key-file = "/var/lib/ironic/farrier/secret.key"
            file-url-allowed-paths = ["/var/lib/ironic", "/shared/html", "/templates", "/opt/cache/files", "/vagrant"]
            agent.listen = "10.1.10.30:6385"
            agent.urls = ["https://ironic.example/baremetal"]  # 38 [service_catalog] endpoint_override
            agent.image-download-source = "swift"  # 17 [agent] image_download_source
            conductor.lease-s = 30  # 10 [conductor] heartbeat_timeout
            conductor.deploy-callback-timeout-s = 604800  # 8 [conductor] deploy_callback_timeout
            conductor.power-sync-interval-s = 86400  # 9 [conductor] sync_power_state_interval
            images.grub-config-path = "EFI/BOOT/grub.cfg"
            images.rescue-kernel = "glance://11111111-2222-3333-4444-555555555555"  # 11 [conductor] rescue_kernel
            images.rescue-ramdisk = "glance://66666666-7777-8888-9999-aaaaaaaaaaaa"  # 12 [conductor] rescue_ramdisk
            images.by-arch.aarch64.deploy-kernel = "http://images.example/arm.kernel"  # 13 [conductor] deploy_kernel_by_arch
            images.by-arch.aarch64.deploy-ramdisk = "http://images.example/arm.initrd"  # 14 [conductor] deploy_ramdisk_by_arch
            images.by-arch.x86_64.deploy-kernel = "http://images.example/x86.kernel"  # 13 [conductor] deploy_kernel_by_arch
            images.by-arch.x86_64.deploy-ramdisk = "http://images.example/x86.initrd"  # 14 [conductor] deploy_ramdisk_by_arch
            backend.1.id = "swift"
            backend.1.kind = "swift"
            backend.1.auth-type = "application-credential"  # 41 [swift] auth_type
            backend.1.auth-url = "https://keystone.example:5000/v3"  # 42 [swift] auth_url
            backend.1.application-credential-id = "abcdef"  # 43 [swift] application_credential_id
            backend.1.application-credential-secret = ***  # 44 [swift] application_credential_secret
            backend.1.region = "RegionOne"  # 45 [swift] region_name
            backend.1.interface = "public"  # 46 [swift] valid_interfaces
            backend.1.verify = false  # 48 [swift] insecure
            backend.1.container = "ilo_images"  # 34 [ilo] swift_ilo_container
            backend.1.lifetime-s = 605400  # 35 [ilo] swift_object_expiry_timeout
            backend.1.attempts = 5  # 47 [swift] swift_max_retries
            backend.1.segment-size = 1073741824
            backend.1.delivery = "auto"
            drivers.enabled = ["ilo", "agent_ilo", "iscsi_ilo"]  # 3 [DEFAULT] enabled_hardware_types
            glance.auth-type = "password"  # 20 [glance] auth_type
            glance.auth-url = "https://keystone.example:5000"  # 21 [glance] auth_url
            glance.username = "glance-reader"  # 22 [glance] username
            glance.user-domain = "Default"  # 25 [glance] user_domain_name
            glance.password = ***  # 23 [glance] password
            glance.project = "service"  # 24 [glance] project_name
            glance.project-domain = "Default"  # 26 [glance] project_domain_name
            glance.interface = "public"
            glance.verify = true
            glance.attempts = 3  # 31 [glance] num_retries
            glance.swift.temp-url-key = ***  # 27 [glance] swift_temp_url_key
            glance.swift.temp-url-duration-s = 1200
            glance.swift.temp-url-cache = true  # 29 [glance] swift_temp_url_cache_enabled
            glance.swift.download-start-delay-s = 60  # 30 [glance] swift_temp_url_expected_download_start_delay
            glance.swift.api-version = "v1"
            glance.swift.account = "AUTH_glance"  # 28 [glance] swift_account
            glance.swift.account-prefix = "AUTH"
            glance.swift.container = "glance"
            glance.swift.containers-seed = 0"#]],
        expect![[r#"
            swift.conf:4: [DEFAULT] transport_url has no effect: conductors talk to one another through the store alone
            swift.conf:5: [DEFAULT] log_file has no effect: log lines go to standard error; FARRIER_LOG filters them, --log-json shapes them
            swift.conf:8: [conductor] deploy_callback_timeout = 0 is not offered: 604800 is taken (seconds)
            swift.conf:9: [conductor] sync_power_state_interval = -1 is not offered: 86400 is taken (seconds)
            swift.conf:35: [ilo] swift_object_expiry_timeout = 1000 ends before a ramdisk may have called back: 605400 is taken (the longest wait, and 600 for its start); raise it, or leave it out"#]],
    );
}

#[test]
fn a_conductor_of_former_times() {
    check(
        "former.conf",
        expect![[r#"
            data-dir = "/var/lib/ironic/farrier"
            secret-key-file = "/var/lib/ironic/farrier/secret.key"
            file-url-allowed-paths = ["/var/lib/ironic", "/shared/html", "/templates", "/opt/cache/files", "/vagrant"]
            agent.listen = "10.1.10.30:6385"
            agent.urls = ["http://10.0.0.4:6385"]  # 11 [conductor] api_url
            conductor.automated-clean = false  # 12 [conductor] clean_nodes
            images.external-url = "http://10.0.0.4:6386"  # 5 [DEFAULT] my_ip
            images.grub-config-path = "EFI/BOOT/grub.cfg"
            images.instance-kernel-append-params = "nofb nomodeset vga=normal"  # 31 [pxe] pxe_append_params
            backend.1.id = "swift"
            backend.1.kind = "swift"
            backend.1.auth-type = "password"
            backend.1.auth-url = "http://10.0.0.2:35357"  # 17 [keystone_authtoken] identity_uri
            backend.1.username = "ironic"  # 18 [keystone_authtoken] admin_user
            backend.1.user-domain = "Default"
            backend.1.password = ***  # 19 [keystone_authtoken] admin_password
            backend.1.project = "service"  # 20 [keystone_authtoken] admin_tenant_name
            backend.1.project-domain = "Default"
            backend.1.interface = "public"
            backend.1.verify = true
            backend.1.container = "ironic_ilo_container"
            backend.1.lifetime-s = 7200  # 26 [ilo] swift_object_expiry_timeout
            backend.1.attempts = 3
            backend.1.segment-size = 1073741824
            backend.1.delivery = "auto"
            netboot.root = "/httpboot"  # 29 [pxe] http_root
            netboot.url = "http://10.0.0.4:8088"  # 30 [pxe] http_url
            netboot.kernel-append-params = "nofb nomodeset vga=normal"  # 31 [pxe] pxe_append_params
            bmc.port = 443  # 24 [ilo] client_port
            drivers.enabled = ["agent_ilo", "iscsi_ilo", "pxe_ilo"]  # 4 [DEFAULT] enabled_drivers
            glance.auth-type = "password"
            glance.auth-url = "http://10.0.0.2:35357"  # 17 [keystone_authtoken] identity_uri
            glance.username = "ironic"  # 18 [keystone_authtoken] admin_user
            glance.user-domain = "Default"
            glance.password = ***  # 19 [keystone_authtoken] admin_password
            glance.project = "service"  # 20 [keystone_authtoken] admin_tenant_name
            glance.project-domain = "Default"
            glance.interface = "public"
            glance.verify = true
            glance.attempts = 3
            glance.swift.temp-url-key = ***  # 37 [glance] swift_temp_url_key
            glance.swift.temp-url-duration-s = 1200
            glance.swift.temp-url-cache = false
            glance.swift.download-start-delay-s = 0
            glance.swift.endpoint = "http://10.0.0.3:8080"  # 38 [glance] swift_endpoint_url
            glance.swift.api-version = "v1"
            glance.swift.account = "AUTH_12345"  # 39 [glance] swift_account
            glance.swift.account-prefix = "AUTH"
            glance.swift.container = "glance"
            glance.swift.containers-seed = 0"#]],
        expect![[r#"
        former.conf:6: [DEFAULT] verbose has no effect: log lines go to standard error; FARRIER_LOG filters them, --log-json shapes them
        former.conf:7: [DEFAULT] rpc_backend has no effect: conductors talk to one another through the store alone
        former.conf:8: [DEFAULT] isolinux_bin is left out: /opt/syslinux/isolinux.bin: No such file or directory (os error 2); put the file there and start again, or correct the path
        former.conf:12: [conductor] clean_nodes is deprecated; write it as [conductor] automated_clean
        former.conf:13: [conductor] heartbeat_interval has no effect: a lease says which conductors live: [conductor] heartbeat_timeout is read
        former.conf:16: [keystone_authtoken] auth_uri is deprecated; write it as [keystone_authtoken] www_authenticate_uri
        former.conf:21: [keystone_authtoken] signing_dir has no effect: Farrier's API does not take tokens
        former.conf:25: [ilo] power_retry has no effect: the power state is read until [conductor] power_state_change_timeout
        former.conf:29: [pxe] http_root is deprecated; write it as [deploy] http_root
        former.conf:30: [pxe] http_url is deprecated; write it as [deploy] http_url
        former.conf:31: [pxe] pxe_append_params is deprecated; write it as [pxe] kernel_append_params
        former.conf:32: [pxe] ipxe_enabled has no effect: [DEFAULT] enabled_boot_interfaces names ilo-ipxe or does not
        former.conf:33: [pxe] tftp_server has no effect: there is no TFTP: iPXE fetches over HTTP
        former.conf:36: [glance] glance_host has no effect: endpoint_override is read
        former.conf:40: [glance] temp_url_endpoint_type has no effect: temporary URLs are those of Swift"#]],
    );
}

#[test]
fn the_options_of_the_design() {
    check(
        "spec-names.conf",
        expect![[r#"
        data-dir = "/var/lib/ironic/farrier"
        secret-key-file = "/var/lib/ironic/farrier/secret.key"
        file-url-allowed-paths = ["/var/lib/ironic", "/shared/html", "/templates", "/opt/cache/files", "/vagrant"]
        agent.listen = "10.1.10.30:6385"
        images.grub-config-path = "EFI/BOOT/grub.cfg"
        backend.1.id = "web-root"  # 3 [ilo] use_http_web_server_for_images
        backend.1.kind = "web-root"  # 3 [ilo] use_http_web_server_for_images
        backend.1.root = "/httpboot"  # 6 [deploy] http_server_root
        backend.1.url = "http://10.10.1.30/httpboot"  # 7 [deploy] http_server_url
        backend.1.mode = "0644"
        netboot.root = "/httpboot"  # 6 [deploy] http_server_root
        netboot.url = "http://10.10.1.30/httpboot"  # 7 [deploy] http_server_url"#]],
        expect![[""]],
    );
}

#[test]
fn the_web_server_in_its_former_section() {
    check(
        "pxe-names.conf",
        expect![[r#"
        data-dir = "/var/lib/ironic/farrier"
        secret-key-file = "/var/lib/ironic/farrier/secret.key"
        file-url-allowed-paths = ["/var/lib/ironic", "/shared/html", "/templates", "/opt/cache/files", "/vagrant"]
        agent.listen = "10.1.10.30:6385"
        images.grub-config-path = "EFI/BOOT/grub.cfg"
        backend.1.id = "web-root"  # 3 [ilo] use_http_web_server_for_images
        backend.1.kind = "web-root"  # 3 [ilo] use_http_web_server_for_images
        backend.1.root = "/srv/httpboot"  # 6 [pxe] http_root
        backend.1.url = "http://10.10.1.30/httpboot"  # 7 [pxe] http_url
        backend.1.mode = "0644"
        netboot.root = "/srv/httpboot"  # 6 [pxe] http_root
        netboot.url = "http://10.10.1.30/httpboot"  # 7 [pxe] http_url"#]],
        expect![[r#"
        pxe-names.conf:6: [pxe] http_root is deprecated; write it as [deploy] http_root
        pxe-names.conf:7: [pxe] http_url is deprecated; write it as [deploy] http_url"#]],
    );
}

#[test]
fn each_of_them_can_be_migrated() {
    for name in [
        "standalone.conf",
        "swift.conf",
        "former.conf",
        "spec-names.conf",
        "pxe-names.conf",
    ] {
        let folder = Folder::new();
        let loaded = load(&folder, name);
        let migrated = loaded.migrated(&machine(), &Secrets::Inline).unwrap();
        let file = folder.write("farrier.toml", migrated.toml.expose());
        let files = Files {
            site: Some(file),
            ironic: Vec::new(),
        };
        let again = Settings::load_on(&files, &Overrides::default(), &machine()).unwrap();
        assert_eq!(again.settings, loaded.settings, "{name}");
    }
}
