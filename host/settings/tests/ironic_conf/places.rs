//! Where things are: listeners, the agent's URL, state, boot files.

use expect_test::expect;

use crate::{Folder, SWIFT, entry, good, refused, warned, warnings};

#[test]
fn the_agents_url_is_the_first_that_is_set() {
    let [external, catalog, api] = [
        "[deploy]\nexternal_callback_url = http://first/\n",
        "[service_catalog]\nendpoint_override = http://second\n",
        "[conductor]\napi_url = http://third\n",
    ];
    for (text, url) in [
        (format!("{api}{catalog}{external}"), "\"http://first\""),
        (format!("{api}{catalog}"), "\"http://second\""),
        (api.to_owned(), "\"http://third\""),
    ] {
        let shown = entry(&good(&format!("{text}{SWIFT}")), "agent.urls");
        assert!(shown.starts_with(&format!("[{url}]")), "{shown}");
    }
    assert_eq!(entry(&good(SWIFT), "agent.urls"), "(not set) (default)");
}

#[test]
fn without_passwords_the_api_stays_on_loopback_and_ramdisks_are_answered_in_its_place() {
    let at = |text: &str| {
        let loaded = good(&format!("{SWIFT}{text}"));
        let names = ["api.listen", "agent.listen", "images.listen"];
        let texts = names.map(|name| entry(&loaded, name).split(' ').next().unwrap().to_owned());
        texts.map(|text| text.trim_matches('"').to_owned())
    };
    let everywhere = ["127.0.0.1:6385", "10.1.10.30:6385", "0.0.0.0:6386"];
    assert_eq!(at(""), everywhere);
    assert_eq!(at("[DEFAULT]\nauth_strategy = noauth\n"), everywhere);
    let one = "[DEFAULT]\nauth_strategy = noauth\n[api]\nhost_ip = 10.0.0.9\nport = 1234\n";
    assert_eq!(at(one), ["127.0.0.1:1234", "10.0.0.9:1234", "10.0.0.9:6386"]);
    let loopback = "[api]\nhost_ip = 127.0.0.7\n";
    assert_eq!(at(loopback), ["127.0.0.7:6385", "127.0.0.7:6387", "127.0.0.7:6386"]);
    let six = "[api]\nhost_ip = ::\n";
    assert_eq!(at(six), ["[::1]:6385", "10.1.10.30:6385", "[::]:6386"]);

    let said = |text: &str| warnings(&good(&format!("{SWIFT}{text}")));
    assert_eq!(said(""), "");
    assert_eq!(said(loopback), "");
    warned(
        &format!("{one}{SWIFT}"),
        expect![[r#"
            ironic.conf:2: [DEFAULT] auth_strategy = noauth lets everybody use every server: the API listens at 127.0.0.1:1234 alone; set auth_strategy = http_basic and http_basic_auth_user_file in [DEFAULT] for others to use it"#]],
    );
    warned(
        &format!("[DEFAULT]\nauth_strategy = keystone\n{SWIFT}"),
        expect![[r#"
            ironic.conf:2: [DEFAULT] auth_strategy = keystone is not offered: the API listens at 127.0.0.1:6385 alone, and asks nobody there for a password; set auth_strategy = http_basic and http_basic_auth_user_file in [DEFAULT] for others to use it"#]],
    );
    warned(
        &format!("[api]\nhost_ip = 10.0.0.9\n{SWIFT}"),
        expect![[r#"
            ironic.conf:2: [api] host_ip is not where the API listens, which nobody needs a password for: it is at 127.0.0.1:6385 alone; set auth_strategy = http_basic and http_basic_auth_user_file in [DEFAULT] for others to use it"#]],
    );
}

#[test]
fn with_passwords_the_api_is_where_ironic_had_it() {
    let folder = Folder::new();
    let htpasswd = folder.write("htpasswd", "");
    let text = format!(
        "{SWIFT}[DEFAULT]\nauth_strategy = http_basic\nhttp_basic_auth_user_file = {}\n",
        htpasswd.display()
    );
    let loaded = good(&text);
    assert_eq!(entry(&loaded, "api.listen"), "\"0.0.0.0:6385\" (default)");
    assert_eq!(entry(&loaded, "agent.listen"), "\"0.0.0.0:6387\" (default)");
    refused(
        &format!("{SWIFT}[DEFAULT]\nauth_strategy = http_basic\n"),
        expect![[r#"
            ironic.conf:7: [DEFAULT] http_basic_auth_user_file cannot be read: /etc/ironic/htpasswd: No such file or directory (os error 2); put the file there, or correct the path"#]],
    );
    let tls = format!(
        "{text}[api]\nenable_ssl_api = True\n[ssl]\ncert_file = {0}\nkey_file = {0}\n",
        htpasswd.display()
    );
    assert!(good(&tls).settings.api.tls.is_some());
}

#[test]
fn state_is_kept_where_ironic_keeps_its_own() {
    let loaded = good(SWIFT);
    assert_eq!(entry(&loaded, "data-dir"), "\"/var/lib/ironic/farrier\" (default)");
    assert_eq!(
        entry(&loaded, "secret-key-file"),
        "\"/var/lib/ironic/farrier/secret.key\" (default)"
    );
    let loaded = good(&format!("{SWIFT}[DEFAULT]\nstate_path = /srv/ironic/\n"));
    assert_eq!(
        entry(&loaded, "data-dir"),
        "\"/srv/ironic/farrier\" (line 7, [DEFAULT] state_path)"
    );
}

#[test]
fn boot_files_that_are_missing_are_left_out_and_told_of() {
    let folder = Folder::new();
    folder.write("kernel", "");
    folder.write("esp.img", "");
    folder.write(
        "ironic.conf",
        format!("{SWIFT}[DEFAULT]\nisolinux_bin = /nowhere/isolinux.bin\nesp_image = esp.img\n[conductor]\ndeploy_kernel = kernel\ndeploy_ramdisk = ramdisk\nrescue_kernel = kernel\nbootloader_by_arch = a.b:x,aarch64:file:///nowhere/esp\n"),
    );
    let loaded = folder.load(None, &["ironic.conf"]).unwrap();
    let images = &loaded.settings.images;
    assert_eq!(
        images.esp.as_ref().unwrap().to_string(),
        format!("file://{}", folder.path("esp.img").display())
    );
    assert!(images.deploy_kernel.is_none() && images.rescue_kernel.is_none() && images.by_arch.is_empty());
    assert_eq!(images.isolinux, std::path::Path::new("/usr/lib/ISOLINUX/isolinux.bin"));
    expect![[r#"
        ironic.conf:7: [DEFAULT] isolinux_bin is left out: /nowhere/isolinux.bin: No such file or directory (os error 2); put the file there and start again, or correct the path
        ironic.conf:11: [conductor] deploy_ramdisk is left out: ramdisk: No such file or directory (os error 2); put the file there and start again, or correct the path
        ironic.conf:12: [conductor] rescue_kernel has no effect without rescue_ramdisk, which is not set; they are booted together
        ironic.conf:13: [conductor] bootloader_by_arch names "a.b", which is no architecture
        ironic.conf:13: [conductor] bootloader_by_arch is left out: /nowhere/esp: No such file or directory (os error 2); put the file there and start again, or correct the path"#]]
    .assert_eq(&folder.plain(&warnings(&loaded)));
}

#[test]
fn an_esp_that_was_made_for_ironic_finds_its_settings_where_ironic_puts_them() {
    assert_eq!(
        entry(&good(SWIFT), "images.grub-config-path"),
        "\"EFI/BOOT/grub.cfg\" (default)"
    );
}

#[test]
fn certificates_of_bmcs_are_checked_as_ironic_is_told_to() {
    let folder = Folder::new();
    let file = folder.write("ca.pem", "");
    let bmc = |text: &str| {
        let loaded = good(&format!("{SWIFT}[ilo]\n{text}\n"));
        (
            loaded.settings.bmc.trust.clone(),
            warnings(&loaded).split(": ").nth(1).unwrap_or_default().to_owned(),
        )
    };
    use settings::BmcTrust::{Anything, File, System};
    let path = file.display();
    assert_eq!(bmc(""), (System, String::new()));
    assert_eq!(bmc("verify_ca = True"), (System, String::new()));
    assert_eq!(bmc("verify_ca = no"), (Anything, String::new()));
    assert_eq!(bmc(&format!("verify_ca = {path}")), (File(file.clone()), String::new()));
    let deprecated = "[ilo] ca_file is deprecated; write it as [ilo] verify_ca".to_owned();
    assert_eq!(bmc(&format!("ca_file = {path}")), (File(file.clone()), deprecated));
    assert_eq!(
        bmc(&format!("verify_ca = False\nca_file = {path}")),
        (Anything, String::new())
    );
    assert_eq!(bmc("verify_ca = /"), (System, "[ilo] verify_ca is a folder".to_owned()));
}

#[test]
fn kernel_lines_of_drivers_differ_and_may_name_the_default() {
    let text = format!(
        "{SWIFT}[ilo]\nkernel_append_params = %default% a\n   b\n[redfish]\nkernel_append_params =\n[pxe]\npxe_append_params = c\n"
    );
    let images = &good(&text).settings.images;
    assert_eq!(images.kernel_append_params, "nofb vga=normal a b");
    assert_eq!(images.redfish_kernel_append_params, "");
    assert_eq!(images.instance_kernel_append_params, "c");
    assert_eq!(good(&text).settings.netboot.kernel_append_params, "c");
}
