//! Site files, good and bad, and every word that an operator is told about them.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use expect_test::{Expect, expect};
use settings::{Auth, BackendKind, Files, Loaded, Machine, Origin, Overrides, Settings, SettingsError, Store};

mod full;

fn machine() -> Machine {
    Machine {
        host_name: "rack-7.example".into(),
        address: "10.1.10.30".parse::<IpAddr>().unwrap(),
    }
}

fn site(file: &Path) -> Files {
    Files {
        site: Some(file.to_owned()),
        ironic: Vec::new(),
    }
}

fn load_in(folder: &Path, text: &str, overrides: &Overrides) -> Result<Loaded, SettingsError> {
    let file = folder.join("farrier.toml");
    std::fs::write(&file, text).unwrap();
    Settings::load_on(&site(&file), overrides, &machine())
}

fn load(text: &str) -> Result<Loaded, SettingsError> {
    let folder = tempfile::tempdir().unwrap();
    load_in(folder.path(), text, &Overrides::default())
}

fn good(text: &str) -> Settings {
    load(text).unwrap().settings
}

/// The whole message, with the folder of the file left out.
fn refused(text: &str, expected: Expect) {
    let folder = tempfile::tempdir().unwrap();
    let error = load_in(folder.path(), text, &Overrides::default()).unwrap_err();
    let folder = format!("{}/", folder.path().display());
    expected.assert_eq(&error.to_string().replace(&folder, ""));
}

#[test]
fn no_file_is_a_working_site() {
    let loaded = Settings::load_on(&Files::default(), &Overrides::default(), &machine()).unwrap();
    let settings = &loaded.settings;
    assert_eq!(good(""), *settings);
    assert_eq!(settings.api.listen.to_string(), "127.0.0.1:6385");
    assert_eq!(settings.api.auth, Auth::None);
    assert_eq!(settings.secret_key_file, Path::new("/etc/farrier/secret.key"));
    assert_eq!(settings.conductor.name.as_str(), "rack-7.example");
    assert_eq!(settings.conductor.lease, Duration::from_secs(10));
    assert_eq!(
        settings.agent.urls_at(settings.agent.listen),
        ["http://10.1.10.30:6387"]
    );
    let bound = "127.0.0.1:40001".parse().unwrap();
    assert_eq!(settings.images.external_url_at(bound), "http://127.0.0.1:40001");
    assert!(settings.agent.require_tls && !settings.security.allow_local_addresses);
    let ramdisk = "10.1.10.77".parse().unwrap();
    let networks = &settings.agent.callback_networks;
    assert!(networks.iter().any(|network| network.contains(ramdisk)));
    assert_eq!(settings.backends.len(), 1);
    assert_eq!(settings.backends[0].kind, BackendKind::Embedded);
    let sqlite = Store::Sqlite {
        path: "/var/lib/farrier/farrier.db".into(),
    };
    assert_eq!(settings.store, sqlite);
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    expect![[r#"
        [agent] urls is not set: ramdisks are told http://10.1.10.30:6387; set it where they reach this machine by another address, and wherever there is more than one conductor
        [images] external-url is not set: BMCs are told http://10.1.10.30:6386; set it where they reach this machine by another address
        [images] esp is not set: servers boot in BIOS mode only; `farrier image esp` makes one for UEFI"#]]
    .assert_eq(&warnings.join("\n"));
}

#[test]
fn a_site_in_another_folder_keeps_its_key_there_and_the_command_line_wins() {
    let overrides = Overrides {
        data_dir: Some("/srv/f".into()),
        api_listen: Some("127.0.0.1:0".parse().unwrap()),
    };
    let folder = tempfile::tempdir().unwrap();
    let text = "data-dir = '/elsewhere'\n[api]\nlisten = '127.0.0.1:7000'\n";
    let loaded = load_in(folder.path(), text, &overrides).unwrap();
    let settings = &loaded.settings;
    assert_eq!(settings.secret_key_file, Path::new("/srv/f/secret.key"));
    assert_eq!(settings.images.cache.folder, Path::new("/srv/f/cache"));
    assert_eq!(settings.api.listen.port(), 0);
    assert_eq!(loaded.origins["api.listen"], Origin::CommandLine("--listen"));
    assert_eq!(loaded.origins["data-dir"].to_string(), "--data");
    assert_eq!(loaded.origins["api.auth"], Origin::Default);
}

#[test]
fn unknown_names_are_refused_with_the_one_that_was_meant() {
    refused(
        "data_dir = '/x'\n[apis]\n\n[api]\nlisten = '127.0.0.1:1'\nport = 5\n\n[conductor]\nleases = 3\n[[plugin]]\nrole = 'vmedia'\ncomponent = '/dev/zero'\ngrants = {}\ngrant = { bcm = [] }\n",
        expect![[r#"
            farrier.toml:1: data_dir is no setting that Farrier knows; did you mean `data-dir`?
            farrier.toml:2: apis is no section that Farrier knows; did you mean `api`?
            farrier.toml:6: [api] port is no setting that Farrier knows; known here: listen, auth, htpasswd, tls-certificate, tls-key, public-url
            farrier.toml:9: [conductor] leases is no setting that Farrier knows; did you mean `lease-s`?
            farrier.toml:12: [[plugin]] 1 component cannot be read: /dev/zero: it is not a regular file; put the file there, or correct the path
            farrier.toml:13: [[plugin]] 1 grants is no setting that Farrier knows; did you mean `grant`?
            farrier.toml:14: [[plugin]] 1 grant names `bcm`, which is no grant; known here: bmc, bmc-raw, image, power, secrets, state, storage, vmedia-service"#]],
    );
}

#[test]
fn wrong_values_are_refused_with_what_they_should_be() {
    refused(
        r#"
data-dir = 7
file-url-allowed-paths = "/x"
[api]
listen = "localhost:6385"
auth = "basic"
[agent]
listen = 6387
urls = ["http://10.0.0.1", "ftp://x",
  "http://root:hunter2@x"]
callback-networks = ["10.0.0.1/8", "x"]
require-tls = "yes"
[store]
kind = "postgres"
[conductor]
name = "a b"
lease-s = 0
group = "hall 2"
power-sync-interval-s = 1.5
automated-clean = 1979-05-27
[images]
external-url = "10.0.0.1"
cache = { max-bytes = "20 gigs", max-age-days = -1 }
deploy-kernel = "glance:abc"
esp = ""
[take-over]
reinsert-active = true
[[plugin]]
role = "media"
component = 5
digest = "sha256:abc"
match = { vendor = ["HPE"] }
grant = "all"
settings = 5
limits = { memory = "much", cpu-ms = 0 }
"#,
        expect![[r#"
            farrier.toml:2: data-dir = 7 must be a text like "/var/lib/farrier"
            farrier.toml:3: file-url-allowed-paths = "/x" must be a list: ["…", "…"]
            farrier.toml:5: [api] listen = "localhost:6385" must be an IP address and a port like "127.0.0.1:6385" or "[::1]:6385"
            farrier.toml:6: [api] auth = "basic" must be one of: none, http_basic
            farrier.toml:8: [agent] listen = 6387 must be a text like "127.0.0.1:6385" or "[::1]:6385"
            farrier.toml:9: [agent] urls entry 2 must begin with http:// or https://
            farrier.toml:11: [agent] callback-networks entry 1 = "10.0.0.1/8" must be a network like "10.1.0.0/16" or "2001:db8::/32", with no bits set behind its prefix
            farrier.toml:12: [agent] require-tls = "yes" must be true or false (without quotes)
            farrier.toml:14: [store] kind = "postgres" must be one of: sqlite, etcd
            farrier.toml:16: [conductor] name = "a b" must be 1 to 255 of A-Z a-z 0-9 - . _
            farrier.toml:17: [conductor] lease-s = 0 must be a whole number from 1 to 3600
            farrier.toml:18: [conductor] group must be at most 255 of A-Z a-z 0-9 - . _; no node could be of another group
            farrier.toml:19: [conductor] power-sync-interval-s = 1.5 must be a whole number from 1 to 86400
            farrier.toml:20: [conductor] automated-clean = 1979-05-27 must be true or false (without quotes)
            farrier.toml:22: [images] external-url is no URL; write it like "http://10.0.0.1:6386"
            farrier.toml:23: [images] cache max-bytes = "20 gigs" must be a size like "20GiB" or "64KiB" (B, KiB, MiB, GiB, TiB, kB, MB, GB, TB)
            farrier.toml:23: [images] cache max-age-days = -1 must be a whole number from 1 to 3650
            farrier.toml:24: [images] deploy-kernel = "glance:abc" names no image; write glance:// and the image's identifier
            farrier.toml:25: [images] esp = "" must be a path
            farrier.toml:27: [take-over] reinsert-active = true must be one of: at-next-reset, now
            farrier.toml:29: [[plugin]] 1 role = "media" must be one of: backend-selection, vmedia, take-over, vendor
            farrier.toml:30: [[plugin]] 1 component = 5 must be a text like "/var/lib/farrier"
            farrier.toml:31: [[plugin]] 1 digest = "sha256:abc" must be `sha256:` and 64 hexadecimal digits; `sha256sum FILE` prints them
            farrier.toml:32: [[plugin]] 1 match vendor is a list, but must be a text like "HPE" or ">=6"
            farrier.toml:33: [[plugin]] 1 grant = "all" must be a table; {} grants nothing, and no grant at all the role's default
            farrier.toml:34: [[plugin]] 1 settings = 5 must be a table
            farrier.toml:35: [[plugin]] 1 limits memory = "much" must be a size like "20GiB" or "64KiB" (B, KiB, MiB, GiB, TiB, kB, MB, GB, TB)
            farrier.toml:35: [[plugin]] 1 limits cpu-ms = 0 must be a whole number from 1 to 3600000"#]],
    );
}

#[test]
fn the_password_in_a_url_is_not_repeated() {
    let error = load("[images]\nexternal-url = 'http://root:hunter2@x'\ndeploy-kernel = 'http://root:hunter2@x'\n");
    let text = error.unwrap_err().to_string();
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn a_wrong_value_is_told_once_and_not_as_if_it_were_missing() {
    refused(
        "[images]\ndeploy-kernel = 'ftp://x/k'\ndeploy-ramdisk = 'https://images.example/r'\n",
        expect![[
            r#"farrier.toml:2: [images] deploy-kernel must be "https://images.example/ipa.kernel", or a path; `ftp:` is not supported"#
        ]],
    );
    refused(
        "[api]\ntls-certificate = 7\ntls-key = '/dev/null'\n",
        expect![[r#"farrier.toml:2: [api] tls-certificate = 7 must be a text like "/var/lib/farrier""#]],
    );
    let wrong = "[agent]\nurls = 'x'\n[images]\nexternal-url = 'x'\nesp = 7\n";
    let error = load(wrong).unwrap_err();
    assert_eq!(error.problems.len(), 3, "{error}");
    assert_eq!(error.warnings, []);
}

#[test]
fn what_does_not_go_together_is_refused() {
    refused(
        "[api]\nlisten = '0.0.0.0:6385'\n",
        expect![[
            r#"farrier.toml:2: [api] listen = "0.0.0.0:6385" lets everybody who reaches it use every server, since auth = "none"; listen on 127.0.0.1, or set auth = "http_basic" and htpasswd"#
        ]],
    );
    refused(
        "[api]\nauth = 'http_basic'\ntls-key = 'x'\n",
        expect![[r#"
        farrier.toml:1: [api] htpasswd is missing; auth = "http_basic" needs a file that `htpasswd -B -c FILE USER` made
        farrier.toml:3: [api] tls-key needs tls-certificate beside it"#]],
    );
    refused(
        "[api]\nlisten = '127.0.0.1:6387'\n[images]\nlisten = '10.0.0.1:6387'\n",
        expect![[r#"
            farrier.toml:4: [images] listen = "10.0.0.1:6387" takes the port of [agent] listen = "0.0.0.0:6387"; give each its own
            [agent] listen = "0.0.0.0:6387" takes the port of [api] listen = "127.0.0.1:6387"; give each its own"#]],
    );
    refused(
        "[conductor]\nlease-s = 60\ndeploy-callback-timeout-s = 60\n",
        expect![
            "farrier.toml:3: [conductor] deploy-callback-timeout-s = 60 must be longer than [conductor] lease-s = 60, or a node fails before anybody can take it over"
        ],
    );
    refused(
        "[conductor]\npower-sync-interval-s = 0\n",
        expect!["farrier.toml:2: [conductor] power-sync-interval-s = 0 must be a whole number from 1 to 86400"],
    );
    refused(
        "[images]\ndeploy-kernel = 'x'\n",
        expect![[r#"
            farrier.toml:2: [images] deploy-kernel needs deploy-ramdisk beside it: they are booted together
            farrier.toml:2: [images] deploy-kernel cannot be read: x: No such file or directory (os error 2); put the file there, or correct the path"#]],
    );
    refused(
        "[store]\nkind = 'etcd'\nkey = 'x'\n",
        expect![[r#"
        farrier.toml:1: [store] endpoints is missing; kind = "etcd" needs endpoints = ["https://10.0.0.1:2379", …]
        farrier.toml:3: [store] key needs certificate beside it"#]],
    );
    refused(
        "[store]\nkind = 'etcd'\nendpoints = []\n",
        expect!["farrier.toml:3: [store] endpoints is empty; name at least one etcd server"],
    );
    refused(
        "[store]\nendpoints = ['http://x']\n",
        expect!["farrier.toml:2: [store] endpoints is no setting that Farrier knows; known here: kind"],
    );
}

#[test]
fn backends_need_a_name_of_their_own_and_what_their_kind_needs() {
    refused(
        "[[backend]]\n[[backend]]\nid = 'A'\nkind = 'embedded'\n[[backend]]\nid = 'x'\nkind = 'ftp'\nroot = 'y'\n[[backend]]\nid = 'x'\nkind = 'web-root'\nurl = 'file:///x'\n[[backend]]\nid = 'y'\nkind = 'embedded'\n[[backend]]\nid = 'z'\nkind = 'swift'\n",
        expect![[r#"
            farrier.toml:1: [[backend]] 1 id is missing; give it a name, which grants and plugins use
            farrier.toml:1: [[backend]] 1 kind is missing; set it to one of: embedded, web-root, swift, s3
            farrier.toml:3: [[backend]] 2 id = "A" must be 1 to 64 of a-z 0-9 - _
            farrier.toml:7: [[backend]] 3 kind = "ftp" must be one of: embedded, web-root, swift, s3
            farrier.toml:9: [[backend]] 4 root is missing; name the folder that the web server serves
            farrier.toml:10: [[backend]] 4 id = "x" is taken by a backend before; ids must differ
            farrier.toml:12: [[backend]] 4 url must begin with http:// or https://
            farrier.toml:15: [[backend]] 5 kind = "embedded" is listed twice; one serves every artefact
            farrier.toml:16: [[backend]] 6 auth-url is missing; give the URL of Keystone (…/v3)
            farrier.toml:16: [[backend]] 6 username is missing; name the user (username, or user-id)
            farrier.toml:16: [[backend]] 6 password-file is missing; name a file that holds the password
            farrier.toml:16: [[backend]] 6 project is missing; name the user's project (project, or project-id)"#]],
    );
    refused(
        "[backend]\nid = 'x'\n",
        expect!["farrier.toml:1: backend must be written as [[backend]] tables, not as a table"],
    );
    refused(
        "backend = ['x']\n",
        expect!["farrier.toml:1: backend must be written as [[backend]] tables, not as a text"],
    );
}

#[test]
fn files_that_a_site_names_must_be_there() {
    refused(
        "[api]\nauth = 'http_basic'\nhtpasswd = '/nonexistent/htpasswd'\n[images]\nesp = '/'\ndeploy-kernel = 'https://x/k'\ndeploy-ramdisk = 'file:///nonexistent/r'\n[[backend]]\nid = 'e'\nkind = 'embedded'\n[[backend]]\nid = 's'\nkind = 's3'\nendpoint = 'http://x'\nbucket = 'b'\naccess-key-file = '/nonexistent/key'\n[[plugin]]\nrole = 'vmedia'\ncomponent = '/nonexistent/p.wasm'\n",
        expect![[r#"
            farrier.toml:3: [api] htpasswd cannot be read: /nonexistent/htpasswd: No such file or directory (os error 2); put the file there, or correct the path
            farrier.toml:5: [images] esp cannot be read: /: it is not a regular file; put the file there, or correct the path
            farrier.toml:7: [images] deploy-ramdisk cannot be read: /nonexistent/r: No such file or directory (os error 2); put the file there, or correct the path
            farrier.toml:16: [[backend]] 2 access-key-file cannot be used: /nonexistent/key: No such file or directory (os error 2); put the file there, or correct the path
            farrier.toml:19: [[plugin]] 1 component cannot be read: /nonexistent/p.wasm: No such file or directory (os error 2); put the file there, or correct the path"#]],
    );
    refused(
        "[images]\ndeploy-kernel = 'file://host/x'\ndeploy-ramdisk = 'http://u:p@x'\n",
        expect![[r#"
            farrier.toml:2: [images] deploy-kernel = "file://host/x" names no file of this machine; write file:///absolute/path
            farrier.toml:3: [images] deploy-ramdisk must not hold a user or password, which end up in logs"#]],
    );
}

#[test]
fn a_file_that_is_no_toml_is_refused_with_its_line() {
    refused(
        "[api]\nlisten = \n",
        expect![
            "farrier.toml:2: is not TOML: string values must be quoted, expected literal string; correct this line"
        ],
    );
    refused(
        "[api]\n[api]\n",
        expect!["farrier.toml:2: is not TOML: duplicate key; correct this line"],
    );
    refused(
        "api = 5\nplugin = 3\n",
        expect![[r#"
        farrier.toml:1: api must be a table, not a whole number
        farrier.toml:2: plugin must be written as [[plugin]] tables, not as a whole number"#]],
    );
    refused(
        "data-dir = 99999999999999999999\n",
        expect![[r#"farrier.toml:1: data-dir = 99999999999999999999 must be a text like "/var/lib/farrier""#]],
    );
    refused(
        "[agent]\r\nurls = 'x'\r\n",
        expect![[r#"farrier.toml:2: [agent] urls = "x" must be a list: ["…", "…"]"#]],
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let check = |file: &Path, expected: Expect| {
        let error = Settings::load_on(&site(file), &Overrides::default(), &machine());
        let text = error.unwrap_err().to_string();
        let folder = folder.path().display().to_string();
        expected.assert_eq(&text.replace(&folder, "FOLDER"));
    };
    check(
        &folder.path().join("absent.toml"),
        expect![
            "FOLDER/absent.toml: cannot be read: No such file or directory (os error 2); give another --config, or none for a site of defaults"
        ],
    );
    check(
        folder.path(),
        expect!["FOLDER: is no site file: it must be a regular file of at most 4194304 bytes"],
    );
    let latin = folder.path().join("latin.toml");
    std::fs::write(&latin, b"# ok\n# \xe9\n").unwrap();
    check(
        &latin,
        expect!["FOLDER/latin.toml:2: is not UTF-8 text; save the file as UTF-8"],
    );
    let huge = folder.path().join("huge.toml");
    std::fs::write(&huge, vec![b'#'; 5 << 20]).unwrap();
    check(
        &huge,
        expect!["FOLDER/huge.toml: is no site file: it must be a regular file of at most 4194304 bytes"],
    );
}

#[test]
fn the_machine_itself_gives_defaults() {
    let loaded = Settings::load(&Files::default(), &Overrides::default()).unwrap();
    assert!(!Machine::here().address.is_unspecified());
    assert!(!loaded.settings.conductor.name.as_str().is_empty());
}

#[test]
fn proxies_loaders_and_temporary_urls_that_could_not_be_used_are_refused() {
    refused(
        r#"
[images]
server-proxy = "proxy.example:3128"
[netboot]
loaders = ["snponly.efi:/etc/hostname", "snponly.efi:/etc/hosts", "../x:/etc/hosts", "x.efi:here", "y.efi:/nowhere"]
[agent]
image-download-source = "https"
[glance]
auth-type = "none"
endpoint = "http://192.0.2.1:9292"
[glance.swift]
temp-url-duration-s = 60
download-start-delay-s = 60
"#,
        expect![[r#"
            farrier.toml:3: [images] server-proxy is no URL of a proxy; write http://HOST:PORT, or http://USER:PASSWORD@HOST:PORT
            farrier.toml:5: [netboot] loaders names "snponly.efi" twice; keep one of them
            farrier.toml:5: [netboot] loaders holds "../x:/etc/hosts"; write NAME:PATH, like "snponly.efi:/usr/lib/ipxe/snponly.efi", with a name of letters, digits and .-_ and an absolute path
            farrier.toml:5: [netboot] loaders holds "x.efi:here"; write NAME:PATH, like "snponly.efi:/usr/lib/ipxe/snponly.efi", with a name of letters, digits and .-_ and an absolute path
            farrier.toml:5: [netboot] loaders cannot be read: /nowhere: No such file or directory (os error 2); put the file there, or correct the path
            farrier.toml:7: [agent] image-download-source = "https" must be one of: http, swift, local
            farrier.toml:13: [glance] swift download-start-delay-s must be less than temp-url-duration-s: no URL would live until its download begins"#]],
    );
}
