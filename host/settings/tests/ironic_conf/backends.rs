//! Where images are published.

use expect_test::expect;
use settings::{BackendKind, Delivery};

use crate::{SWIFT, entry, good, refused, warned};

/// Id, kind and drivers of each backend.
fn backends(text: &str) -> Vec<String> {
    let settings = good(text).settings;
    let shown = |backend: &settings::Backend| {
        let kind = match &backend.kind {
            BackendKind::Embedded => "embedded".to_owned(),
            BackendKind::WebRoot { root, url, mode } => format!("{} {url} {mode:o}", root.display()),
            BackendKind::Swift(swift) => format!("swift {} {:?}", swift.container, swift.lifetime),
            BackendKind::S3(_) => "s3".to_owned(),
        };
        let [ilo, redfish] = ["agent_ilo", "redfish"].map(|driver| backend.is_for(driver));
        format!("{}: {kind} ilo={ilo} redfish={redfish}", backend.id)
    };
    settings.backends.iter().map(shown).collect()
}

#[test]
fn the_ilo_drivers_publish_to_swift_unless_the_flag_says_the_web_server() {
    assert_eq!(
        backends(SWIFT),
        [
            "swift: swift ironic_ilo_container None ilo=true redfish=false",
            "embedded-redfish: embedded ilo=false redfish=true"
        ]
    );
    let off = format!("{SWIFT}[ilo]\nuse_http_web_server_for_images = off\n[deploy]\nhttp_url = http://w/h\n");
    assert_eq!(
        backends(&off),
        [
            "swift: swift ironic_ilo_container None ilo=true redfish=false",
            "web-root-redfish: /httpboot http://w/h 644 ilo=false redfish=true"
        ]
    );
    let on = "[ilo]\nuse_web_server_for_images = 1\n[deploy]\nhttp_url = http://w/h/\nhttp_root = /srv\n";
    assert_eq!(backends(on), ["web-root: /srv http://w/h 644 ilo=true redfish=true"]);
}

#[test]
fn the_redfish_drivers_have_a_flag_of_their_own() {
    let both = format!("{SWIFT}[redfish]\nuse_swift = True\nswift_object_expiry_timeout = 9000\n");
    assert_eq!(
        backends(&both),
        [
            "swift: swift ironic_ilo_container None ilo=true redfish=false",
            "swift-redfish: swift ironic_redfish_container Some(9000s) ilo=false redfish=true"
        ]
    );
    let one = format!("{both}swift_container = x\n[ilo]\nswift_ilo_container = x\n");
    assert_eq!(backends(&one), ["swift: swift x None ilo=true redfish=true"]);
    let without = format!("{SWIFT}[DEFAULT]\nenabled_hardware_types = ilo\n");
    assert_eq!(
        backends(&without),
        ["swift: swift ironic_ilo_container None ilo=true redfish=true"]
    );
    let mixed = "[ilo]\nuse_web_server_for_images = yes\n[deploy]\nhttp_url = http://w\n[redfish]\nuse_swift = yes\n";
    assert_eq!(
        backends(&format!("{SWIFT}{mixed}")),
        [
            "web-root: /httpboot http://w 644 ilo=true redfish=false",
            "swift-redfish: swift ironic_redfish_container None ilo=false redfish=true"
        ]
    );
}

#[test]
fn what_is_missing_for_the_backend_that_is_asked_for_is_a_mistake_with_a_place() {
    refused(
        "[DEFAULT]\n[ilo]\nuse_web_server_for_images = True\n",
        expect![
            "ironic.conf:3: [ilo] use_web_server_for_images = True needs [deploy] http_url; set it to the URL of the folder /httpboot as BMCs see it"
        ],
    );
    refused(
        "# nothing\n[DEFAULT]\n",
        expect![[r#"
            ironic.conf:1: [ilo] use_web_server_for_images is not True, so that the iLO drivers' images go to Swift, and [swift] has no credentials; set auth_type, auth_url, username, password and project_name there, or set [ilo] use_web_server_for_images = True with [deploy] http_root and http_url"#]],
    );
    refused(
        "[DEFAULT]\n[swift]\nauth_url = http://k\n",
        expect![[r#"
            ironic.conf:2: [swift] username, password, project_name must be set as well: credentials with auth_type = password need them"#]],
    );
    refused(
        "[swift]\nauth_type = v3token\n",
        expect![[r#"
            ironic.conf:2: [swift] auth_type is none that is offered; use password, v3applicationcredential, v1password or none"#]],
    );
    refused(
        "[swift]\nauth_type = v3applicationcredential\nauth_url = http://k\napplication_credential_name = x\n",
        expect![[r#"
            ironic.conf:2: [swift] username, application_credential_secret must be set as well: credentials with auth_type = v3applicationcredential need them"#]],
    );
    refused(
        "[redfish]\nuse_swift = True\n[ilo]\nuse_web_server_for_images = True\n[deploy]\nhttp_url = http://w\n",
        expect![[r#"
            ironic.conf:2: [redfish] use_swift is True, and [swift] has no credentials; set auth_type, auth_url, username, password and project_name there, or set [redfish] use_swift = False with [deploy] http_root and http_url"#]],
    );
}

#[test]
fn credentials_come_from_the_section_that_is_named_or_from_the_one_of_former_times() {
    let named = "[swift]\nauth_section = Mine\nregion_name = two\n[mine]\nauth_url = http://k/v3\nusername = u\npassword = hunter2\nproject_id = p1\ndefault_domain_id = d\n";
    let loaded = good(named);
    assert_eq!(
        entry(&loaded, "backend.1.auth-url"),
        "\"http://k/v3\" (line 5, [mine] auth_url)"
    );
    assert_eq!(
        entry(&loaded, "backend.1.user-domain-id"),
        "\"d\" (line 9, [mine] default_domain_id)"
    );
    assert_eq!(
        entry(&loaded, "backend.1.project-id"),
        "\"p1\" (line 8, [mine] project_id)"
    );
    assert_eq!(entry(&loaded, "backend.1.password"), "*** (line 7, [mine] password)");
    assert_eq!(
        entry(&loaded, "backend.1.region"),
        "\"two\" (line 3, [swift] region_name)"
    );
    warned(named, expect![""]);

    let former = "[keystone_authtoken]\nauth_uri = http://k:5000/v2.0/\nadmin_user = u\nadmin_password = p\nadmin_tenant_name = t\ncafile = /etc/hostname\n";
    let loaded = good(former);
    assert_eq!(
        entry(&loaded, "backend.1.auth-url"),
        "\"http://k:5000\" (line 2, [keystone_authtoken] auth_uri)"
    );
    assert_eq!(
        entry(&loaded, "backend.1.project"),
        "\"t\" (line 5, [keystone_authtoken] admin_tenant_name)"
    );
    assert_eq!(
        entry(&loaded, "backend.1.ca"),
        "\"/etc/hostname\" (line 6, [keystone_authtoken] cafile)"
    );
    // Its own section wins as a whole.
    let loaded = good(&format!("{former}{SWIFT}"));
    assert_eq!(
        entry(&loaded, "backend.1.username"),
        "\"ironic\" (line 9, [swift] username)"
    );
    assert_eq!(entry(&loaded, "backend.1.ca"), "(not set) (default)");
}

#[test]
fn tempauth_and_no_authentication_are_offered() {
    let v1 = good(
        "[swift]\nauth_type = v1password\nauth_url = http://s/auth/v1.0\nproject_name = test\nusername = tester\npassword = testing\n",
    );
    assert_eq!(entry(&v1, "backend.1.auth-type"), "\"v1\" (line 2, [swift] auth_type)");
    assert_eq!(
        entry(&v1, "backend.1.username"),
        "\"test:tester\" (line 5, [swift] username)"
    );
    let none = good("[swift]\nauth_type = none\nendpoint_override = http://s/v1/AUTH_x\n");
    assert_eq!(
        entry(&none, "backend.1.endpoint"),
        "\"http://s/v1/AUTH_x\" (line 3, [swift] endpoint_override)"
    );
}

#[test]
fn a_lifetime_that_ends_before_its_wait_is_raised() {
    let text = format!("{SWIFT}[ilo]\nswift_object_expiry_timeout = 900\n");
    warned(
        &text,
        expect![[r#"
            ironic.conf:7: [ilo] swift_object_expiry_timeout = 900 ends before a ramdisk may have called back: 2400 is taken (the longest wait, and 600 for its start); raise it, or leave it out"#]],
    );
    let settings = good(&text).settings;
    let BackendKind::Swift(swift) = &settings.backends[0].kind else {
        panic!("{:?}", settings.backends);
    };
    assert_eq!(swift.lifetime.unwrap().as_secs(), 2400);
    assert_eq!(swift.delivery, Delivery::Auto);
}

#[test]
fn permissions_are_the_decimal_number_that_ironic_takes_them_for() {
    let web = |mode: &str| {
        format!("[ilo]\nuse_web_server_for_images = True\nfile_permission = {mode}\n[deploy]\nhttp_url = http://w\n")
    };
    assert_eq!(
        entry(&good(&web("384")), "backend.1.mode"),
        "\"0600\" (line 3, [ilo] file_permission)"
    );
    assert_eq!(entry(&good(&web("0644")), "backend.1.mode"), "\"0644\" (default)");
    warned(
        &web("0644"),
        expect![[r#"
            ironic.conf:3: [ilo] file_permission = 644 is no permissions of a file that we could write: 0644 is taken; it is a decimal number: for permissions 0644 write 420
            ironic.conf:3: [ilo] file_permission = 644 is no permissions of a file that we could write: 0644 is taken; it is a decimal number: for permissions 0644 write 420"#]],
    );
}

#[test]
fn what_bmcs_are_told_may_differ_from_the_web_servers_own_url() {
    let text = "[ilo]\nuse_web_server_for_images = True\n[deploy]\nhttp_url = http://10.0.0.1:8080\nexternal_http_url = https://bmc.example/x\n";
    let loaded = good(text);
    assert_eq!(
        entry(&loaded, "backend.1.url"),
        "\"https://bmc.example/x\" (line 5, [deploy] external_http_url)"
    );
    assert_eq!(
        entry(&loaded, "netboot.url"),
        "\"http://10.0.0.1:8080\" (line 4, [deploy] http_url)"
    );
}
