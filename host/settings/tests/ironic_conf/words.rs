//! Names of options: those of today, of former times, of the design, and those that nobody knows.

use expect_test::expect;

use crate::{SWIFT, entry, good, refused, warned};

const WEB: &str = "[ilo]\nuse_web_server_for_images = True\n";

#[test]
fn two_names_of_one_option_must_agree() {
    refused(
        &format!("{WEB}use_http_web_server_for_images = False\n[deploy]\nhttp_url = http://w\n"),
        expect![
            "ironic.conf:2: [ilo] use_web_server_for_images and [ilo] use_http_web_server_for_images (ironic.conf:3) are two names of one option with different values; keep one of them"
        ],
    );
    refused(
        &format!(
            "{WEB}[deploy]\nhttp_url = http://a\nhttp_server_url = http://b\nhttp_root = /a\nhttp_server_root = /b\n"
        ),
        expect![[r#"
            ironic.conf:4: [deploy] http_url and [deploy] http_server_url (ironic.conf:5) are two names of one option with different values; keep one of them
            ironic.conf:6: [deploy] http_root and [deploy] http_server_root (ironic.conf:7) are two names of one option with different values; keep one of them"#]],
    );
    // It is the value that counts, not how it is written.
    let same = good(&format!(
        "{WEB}use_http_web_server_for_images = yes\n[deploy]\nhttp_url = http://w\nhttp_server_url = http://w\n"
    ));
    assert_eq!(
        entry(&same, "backend.1.url"),
        "\"http://w\" (line 5, [deploy] http_url)"
    );
}

#[test]
fn the_former_section_of_the_web_server_works_and_the_one_of_today_wins() {
    let both = format!("{WEB}[pxe]\nhttp_url = http://old\nhttp_root = /old\n[deploy]\nhttp_url = http://new\n");
    let loaded = good(&both);
    assert_eq!(
        entry(&loaded, "backend.1.url"),
        "\"http://new\" (line 7, [deploy] http_url)"
    );
    assert_eq!(entry(&loaded, "backend.1.root"), "\"/old\" (line 5, [pxe] http_root)");
    assert_eq!(
        entry(&loaded, "netboot.url"),
        "\"http://new\" (line 7, [deploy] http_url)"
    );
    assert_eq!(entry(&loaded, "netboot.root"), "\"/old\" (line 5, [pxe] http_root)");
    warned(
        &both,
        expect![[r#"
            ironic.conf:4: [pxe] http_url is not read, since [deploy] http_url is set at ironic.conf:7; remove it
            ironic.conf:5: [pxe] http_root is deprecated; write it as [deploy] http_root"#]],
    );
    let spec = good(&format!(
        "{WEB}[pxe]\nhttp_url = http://old\n[deploy]\nhttp_server_url = http://new\n"
    ));
    assert_eq!(
        entry(&spec, "backend.1.url"),
        "\"http://new\" (line 6, [deploy] http_server_url)"
    );
}

#[test]
fn what_nobody_knows_is_told_with_the_nearest_name() {
    warned(
        &format!(
            "{SWIFT}[ilo]\nuse_web_server_for_image = True\nfoo = hunter3\n[deploi]\nhttp_url = x\n[xyzzy]\na = 1\n[default]\nhost = x\n"
        ),
        expect![[r#"
            ironic.conf:7: [ilo] use_web_server_for_image is no option that Farrier knows and has no effect; did you mean `use_web_server_for_images`?
            ironic.conf:8: [ilo] foo is no option that Farrier knows and has no effect
            ironic.conf:9: [deploi] is no section that Farrier knows and has no effect; did you mean [deploy]?
            ironic.conf:11: [xyzzy] is no section that Farrier knows and has no effect
            ironic.conf:13: [default] is no section that Farrier knows and has no effect; did you mean [DEFAULT]?"#]],
    );
}

#[test]
fn what_has_no_effect_is_told_with_what_happens_instead() {
    warned(
        &format!(
            "{SWIFT}[database]\nconnection = mysql://ironic:hunter2@db/ironic\nmax_retries = 3\n[conductor]\nforce_power_state_during_sync = True\nworkers_pool_size = 7\n[deploy]\nfast_track = False\npower_off_after_deploy_failure = False\n[api]\nunix_socket = /x\n[conductor]\nmax_concurrent_clean = 5\n"
        ),
        expect![[r#"
            ironic.conf:6: [database] has no effect: Farrier keeps records of its own, see [store] of farrier.toml
            ironic.conf:10: [conductor] force_power_state_during_sync = True has no effect: what the BMC says is adopted
            ironic.conf:14: [deploy] power_off_after_deploy_failure = False has no effect: a server whose deployment failed is switched off
            ironic.conf:16: [api] unix_socket has no effect: the API listens on an address
            ironic.conf:18: [conductor] max_concurrent_clean has no effect: [conductor] workers_pool_size is read"#]],
    );
}

#[test]
fn values_of_the_wrong_type_are_mistakes_all_told_at_once_and_never_shown() {
    refused(
        "[ilo]\nclient_port = hunter2\nuse_web_server_for_images = hunter2\ndefault_boot_mode = hunter2\n[conductor]\ndeploy_callback_timeout = -5\nautomated_clean =\nbootloader_by_arch = hunter2\n[deploy]\nhttp_url = hunter2\n[api]\nhost_ip = ironic.example\nenable_ssl_api = True\n[DEFAULT]\nhost = $nowhere\nmy_ip = $state_path $my_ip\n[swift]\nauth_url = http://k\nusername = x\npassword = $hunter2\nproject_name = p\n",
        expect![[r#"
            ironic.conf:2: [ilo] client_port must be a whole number from 0 to 65535
            ironic.conf:3: [ilo] use_web_server_for_images must be True or False
            ironic.conf:4: [ilo] default_boot_mode must be one of: auto, bios, uefi
            ironic.conf:6: [conductor] deploy_callback_timeout must be a whole number, 0 or more
            ironic.conf:7: [conductor] automated_clean must be True or False
            ironic.conf:8: [conductor] bootloader_by_arch must be pairs like name:value, separated by commas
            ironic.conf:10: [deploy] http_url must be a URL like http://10.0.0.1:8080/path
            ironic.conf:12: [api] host_ip must be an IP address; Farrier looks no name up before it listens
            ironic.conf:13: [api] enable_ssl_api = True needs [api] cert_file beside it; name the PEM file
            ironic.conf:13: [api] enable_ssl_api = True needs [api] key_file beside it; name the PEM file
            ironic.conf:15: [DEFAULT] host refers to `$nowhere`, which is no option; correct it, or write `$$` for a dollar sign
            ironic.conf:16: [DEFAULT] my_ip refers to `$my_ip`: ironic.conf:16: [DEFAULT] my_ip refers to itself (DEFAULT.my_ip → DEFAULT.my_ip); break the circle
            ironic.conf:20: [swift] password holds a `$` that refers to no option that could be used; write `$$` for a dollar sign"#]],
    );
}

#[test]
fn what_the_rest_of_farrier_refuses_is_told_by_the_options_name() {
    refused(
        &format!(
            "{SWIFT}[conductor]\nconductor_group = hall 2\ndeploy_callback_timeout = 5\n[DEFAULT]\nhost = a b\ndefault_boot_interface = ilo-virtual-media\nenabled_boot_interfaces = ilo-ipxe\n[api]\npublic_endpoint = ironic\n[deploy]\nexternal_callback_url = ftp://x\n"
        ),
        expect![[r#"
            ironic.conf:7: [conductor] conductor_group must be at most 255 of A-Z a-z 0-9 - . _; no node could be of another group
            ironic.conf:8: [conductor] deploy_callback_timeout = 5 must be longer than [conductor] lease-s = 10, or a node fails before anybody can take it over
            ironic.conf:10: [DEFAULT] host = "a b" must be 1 to 255 of A-Z a-z 0-9 - . _
            ironic.conf:11: [DEFAULT] default_boot_interface is not among boot-interfaces; add it there
            ironic.conf:14: [api] public_endpoint is no URL; write it like "http://10.0.0.1:6386"
            ironic.conf:16: [deploy] external_callback_url entry 1 must begin with http:// or https://"#]],
    );
}

#[test]
fn ways_to_boot_that_farrier_has_not_are_passed_over() {
    warned(
        &format!("{SWIFT}[DEFAULT]\nenabled_boot_interfaces = ilo-ipxe, ilo-pxe, pxe\ndefault_boot_interface = pxe\n"),
        expect![[r#"
            ironic.conf:7: [DEFAULT] enabled_boot_interfaces names ilo-pxe, pxe beside what Farrier has (ilo-virtual-media, ilo-ipxe): nodes that ask for them are refused
            ironic.conf:8: [DEFAULT] default_boot_interface = pxe is none that Farrier has (ilo-virtual-media, ilo-ipxe): nodes boot by virtual media where they say nothing"#]],
    );
    let none = format!("{SWIFT}[DEFAULT]\nenabled_boot_interfaces = ipxe,pxe\n");
    warned(
        &none,
        expect![
            "ironic.conf:7: [DEFAULT] enabled_boot_interfaces names none that Farrier has: all of them are offered (ilo-virtual-media, ilo-ipxe)"
        ],
    );
    assert!(good(&none).settings.drivers.boot_interfaces.is_empty());
}
