//! Several files, folders of files, and a site file above them.

use expect_test::expect;

use crate::{Folder, SWIFT, entry, warnings};

fn group(folder: &Folder, site: Option<&str>, ironic: &[&str]) -> String {
    let loaded = folder.load(site, ironic).unwrap_or_else(|error| panic!("{error}"));
    let found = loaded
        .entries()
        .into_iter()
        .find(|entry| entry.name == "conductor.group")
        .unwrap();
    folder.plain(&format!("{} {}", found.value, found.origin))
}

fn names(group: &str) -> String {
    format!("[conductor]\nconductor_group = {group}\n")
}

#[test]
fn later_files_win_and_each_is_followed_by_the_folder_beside_it() {
    let folder = Folder::new();
    folder.write("a.conf", format!("{SWIFT}{}", names("a")));
    folder.write("b.conf", names("b"));
    assert_eq!(group(&folder, None, &["a.conf"]), "\"a\" a.conf:7");
    assert_eq!(group(&folder, None, &["a.conf", "b.conf"]), "\"b\" b.conf:2");
    assert_eq!(group(&folder, None, &["b.conf", "a.conf"]), "\"a\" a.conf:7");
    folder.write("a.conf.d/20.conf", names("a-20"));
    folder.write("a.conf.d/10.conf", names("a-10"));
    folder.write("a.conf.d/.hidden.conf", names("hidden"));
    folder.write("a.conf.d/30.conf.bak", names("backup"));
    assert_eq!(group(&folder, None, &["a.conf"]), "\"a-20\" a.conf.d/20.conf:2");
    assert_eq!(group(&folder, None, &["a.conf", "b.conf"]), "\"b\" b.conf:2");
    assert_eq!(
        group(&folder, None, &["a.conf.d", "a.conf"]),
        "\"a-20\" a.conf.d/20.conf:2"
    );
    folder.write("only/x.conf", format!("{SWIFT}{}", names("x")));
    assert_eq!(group(&folder, None, &["only"]), "\"x\" only/x.conf:7");
}

#[test]
fn the_site_file_beats_them_all_setting_by_setting() {
    let folder = Folder::new();
    folder.write(
        "ironic.conf",
        format!(
            "{SWIFT}{}[ilo]\nclient_timeout = 30\nclient_port = 444\n",
            names("ironic")
        ),
    );
    folder.write("farrier.toml", "[conductor]\ngroup = 'site'\n[bmc]\nport = 445\n");
    assert_eq!(
        group(&folder, Some("farrier.toml"), &["ironic.conf"]),
        "\"site\" farrier.toml:2"
    );
    let loaded = folder.load(Some("farrier.toml"), &["ironic.conf"]).unwrap();
    assert_eq!(entry(&loaded, "bmc.timeout-s"), "30 (line 9, [ilo] client_timeout)");
    assert_eq!(loaded.settings.bmc.port, Some(445));
    assert_eq!(loaded.settings.backends[0].id, "swift");
}

#[test]
fn backends_of_the_site_file_take_the_place_of_those_of_ironic_and_none_is_missed_there() {
    let folder = Folder::new();
    folder.write("ironic.conf", "[DEFAULT]\n");
    folder.write("farrier.toml", "[[backend]]\nid = 'local'\nkind = 'embedded'\n");
    let loaded = folder.load(Some("farrier.toml"), &["ironic.conf"]).unwrap();
    assert_eq!(loaded.settings.backends.len(), 1);
    assert_eq!(loaded.settings.backends[0].id, "local");
}

#[test]
fn passwords_in_the_site_file_open_the_api() {
    let folder = Folder::new();
    folder.write("htpasswd", "");
    folder.write(
        "ironic.conf",
        format!("{SWIFT}[DEFAULT]\nauth_strategy = keystone\n[api]\nhost_ip = 10.0.0.9\n"),
    );
    folder.write("farrier.toml", "[api]\nauth = 'http_basic'\nhtpasswd = 'htpasswd'\n");
    let loaded = folder.load(Some("farrier.toml"), &["ironic.conf"]).unwrap();
    assert_eq!(
        entry(&loaded, "api.listen"),
        "\"10.0.0.9:6385\" (line 9, [api] host_ip)"
    );
    assert!(!warnings(&loaded).contains("keystone"), "{}", warnings(&loaded));
}

#[test]
fn the_mistakes_of_all_files_are_told_together() {
    let folder = Folder::new();
    folder.write("a.conf", "[ilo]\nclient_port = x\n[oops\n");
    folder.write("b.conf", "early = 1\n[ilo]\nclient_timeout = y\n");
    folder.write("farrier.toml", "[conductor]\nlease-s = 0\ngrope = 'x'\n");
    let error = folder
        .load(Some("farrier.toml"), &["a.conf", "b.conf", "missing.conf"])
        .unwrap_err();
    expect![[r#"
        a.conf:2: [ilo] client_port must be a whole number from 0 to 65535
        a.conf:3: begins a section, but does not end in `]`; write it as [name], with nothing behind it
        b.conf:1: stands before any section; put [DEFAULT] above it
        b.conf:3: [ilo] client_timeout must be a whole number
        farrier.toml:2: [conductor] lease-s = 0 must be a whole number from 1 to 3600
        farrier.toml:3: [conductor] grope is no setting that Farrier knows; known here: name, group, lease-s, deploy-callback-timeout-s, clean-callback-timeout-s, rescue-callback-timeout-s, inspect-timeout-s, prepare-timeout-s, fetch-alarm-s, power-timeout-s, soft-power-off-timeout-s, workers, automated-clean, power-sync-interval-s
        missing.conf: cannot be read: No such file or directory (os error 2); give another --ironic-conf, or make it readable for the user that Farrier runs as"#]]
    .assert_eq(&folder.plain(&error.to_string()));
}

#[test]
fn interpolation_crosses_files() {
    let folder = Folder::new();
    folder.write(
        "a.conf",
        format!("{SWIFT}[conductor]\nconductor_group = ${{DEFAULT_group}}-$host\n[DEFAULT]\nhost = a\n")
            .replace("${DEFAULT_group}", "g"),
    );
    folder.write("b.conf", "[DEFAULT]\nhost = b\n");
    assert_eq!(group(&folder, None, &["a.conf", "b.conf"]), "\"g-b\" a.conf:7");
}
