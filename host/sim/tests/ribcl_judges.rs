//! python-hpilo and proliantutils, which nobody here wrote, drive simulated iLOs by RIBCL and RIS: what they read is what was set.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as its body may")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use sim::{Device, Profile};
use support::*;

/// A program that the set-up installs.
fn lab_program(key: &str) -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.lab/lab.env");
    let file = std::env::var_os("FARRIER_LAB").map_or(default, PathBuf::from);
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("the lab is not set up: run `make setup` ({}: {error})", file.display()));
    let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let path = PathBuf::from(found.unwrap_or_else(|| panic!("the lab names no {key}: run `make setup`")));
    assert!(path.exists(), "{} is gone: run `make setup`", path.display());
    path
}

/// Runs a judge and returns what it says it was told.
async fn judge(script: &str, arguments: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges").join(script);
    let output = tokio::process::Command::new(lab_program("BMC_PYTHON"))
        .arg(script)
        .args(arguments)
        .env("SIM_PASSWORD", PASSWORD)
        .env_remove("PYTHONWARNINGS")
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn ilo(profile: &str) -> Lab {
    lab(|config| config.profile = Profile::by_name(profile).unwrap()).await
}

fn port(lab: &Lab) -> String {
    lab.running.server(0).unwrap().address.port().to_string()
}

/// The commands in the trace that change something.
fn changes(lab: &Lab) -> Vec<String> {
    let trace = lab.running.trace(0).unwrap().into_iter();
    trace
        .filter_map(|exchange| Some(exchange.body?.as_str()?.to_owned()))
        .filter(|command| command.starts_with('<') && !command.starts_with("<GET_"))
        .collect()
}

fn vm(device: &str, url: &str, option: &str, protect: &str) -> Value {
    json!({
        "vm_applet": "DISCONNECTED", "device": device, "boot_option": option, "write_protect": protect,
        "image_inserted": if url.is_empty() {"NO"} else {"YES"}, "image_url": url,
    })
}

#[tokio::test]
async fn python_hpilo_reads_from_an_ilo_4_what_it_set() {
    hpilo_drives("ilo4", "iLO4", "2.82", "iLO 4 Advanced").await;
}

#[tokio::test]
async fn python_hpilo_reads_from_an_ilo_5_what_it_set() {
    hpilo_drives("ilo5", "iLO5", "2.72", "iLO Advanced").await;
}

#[tokio::test]
async fn python_hpilo_reads_from_an_ilo_3_what_it_set() {
    hpilo_drives("ilo3", "iLO3", "1.82", "iLO 3 Advanced").await;
}

async fn hpilo_drives(profile: &str, processor: &str, version: &str, licence: &str) {
    let lab = ilo(profile).await;
    let images = Http::images(&[("/a.iso", vec![7; 8192]), ("/a.img", vec![8; 8192])]).await;
    let (iso, floppy) = (images.url("/a.iso"), images.url("/a.img"));
    let told = judge("hpilo_drives.py", &[&port(&lab), USER, &iso, &floppy]).await;

    assert_eq!(told["protocol"], "http");
    let firmware = &told["firmware"];
    assert_eq!(firmware["firmware_version"], version);
    assert_eq!(firmware["management_processor"], processor);
    assert_eq!(firmware["license_type"], licence);
    assert_eq!(told["licences"][0]["license_type"], licence);
    let facts = Profile::by_name(profile).unwrap();
    assert_eq!(told["product"], facts.model.as_str());
    assert_eq!(told["host"][1]["Product Name"], facts.model.as_str());
    assert_eq!(told["network"], "127.0.0.1");
    assert_eq!(told["user"]["user_login"], USER);
    assert_eq!(told["stranger"], json!({"error": "IloUserNotFound", "code": 0x0a}));

    for (device, url, comes) in [("CDROM", &iso, "YES"), ("FLOPPY", &floppy, "NO")] {
        let media = &told["media"][device];
        assert_eq!(media["empty"], vm(device, "", "NO_BOOT", comes));
        assert_eq!(media["inserted"], vm(device, url, "NO_BOOT", comes));
        assert_eq!(
            media["connected"],
            vm(device, url, "BOOT_ALWAYS", "YES"),
            "not boot-neutral"
        );
        assert_eq!(media["no_boot"], vm(device, url, "NO_BOOT", "NO"));
        assert_eq!(media["once"], vm(device, url, "BOOT_ONCE", "YES"));
        assert_eq!(
            media["over"],
            vm(device, &format!("{url}.other"), "BOOT_ONCE", "YES"),
            "overwritten"
        );
        assert_eq!(media["ejected"], vm(device, "", "NO_BOOT", "YES"));
        assert_eq!(media["again"], json!({"error": "IloError", "code": 0x39}));
    }
    assert_eq!(told["no_device"]["code"], 0x35);
    assert_eq!(told["no_option"]["code"], 0x35);
    assert_eq!(told["connect_nothing"]["code"], 0x39);

    assert_eq!(told["normal"], "normal");
    assert_eq!(told["once"], json!(["cdrom", "network", "hdd", "normal"]));
    if facts.boot_mode == sim::BootMode::Uefi {
        let names = |order: &Value| -> Vec<String> {
            let order = order.as_array().unwrap().iter();
            order.map(|entry| entry[0].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&told["order"]), ["Boot000B", "Boot000A", "Boot0007", "Boot0009"]);
        assert_eq!(
            names(&told["reordered"]),
            ["Boot0007", "Boot000B", "Boot0009", "Boot000A"]
        );
        assert!(told["order"][0][1].as_str().unwrap().contains("HP iLO Virtual USB CD"));
        assert_eq!(told["mode"], json!({"done": "UEFI"}));
        assert_eq!(told["supported"], json!({"done": "LEGACY_UEFI"}));
        assert_eq!(told["pending"], "LEGACY");
    } else {
        assert_eq!(told["order"], json!(["cdrom", "usb", "hdd", "network"]));
        assert_eq!(told["reordered"], json!(["hdd", "cdrom", "network", "usb"]));
        for refused in ["mode", "supported"] {
            assert_eq!(told[refused], json!({"error": "IloFeatureNotSupported", "code": 0x3c}));
        }
    }

    assert_eq!(told["power"], json!(["OFF", "ON", "OFF"]));
    assert_eq!(told["reset_off"]["error"], "IloError");
    assert_eq!(told["on_again"], json!(["Host power is already ON."]));
    assert_eq!(told["reset"], json!(["Server being reset."]));
    assert_eq!(told["hold_off"], json!(["Host power is already OFF."]));
    assert_eq!(told["uid"], json!(["OFF", "ON"]));
    assert_eq!(told["wrong_password"], json!({"error": "IloLoginFailed", "code": 0x5f}));

    let changes = changes(&lab);
    assert_eq!(
        changes[0],
        format!("<INSERT_VIRTUAL_MEDIA DEVICE=\"CDROM\" IMAGE_URL=\"{iso}\"/>")
    );
    assert_eq!(
        changes[1],
        "<SET_VM_STATUS DEVICE=\"CDROM\"><VM_BOOT_OPTION value=\"CONNECT\"/><VM_WRITE_PROTECT value=\"YES\"/></SET_VM_STATUS>"
    );
    // An insert fetches nothing; what was connected was looked at.
    let reads = until(|| {
        let reads = lab.running.media_reads(0, Device::Cd).unwrap();
        (reads[0].requests > 0).then_some(reads)
    })
    .await;
    assert_eq!(reads.len(), 2);
    assert_eq!(reads[1].requests, 0, "the second one was never connected");
}

/// Its answers end with no end of the connection, which the judge waits for; so it is asked little.
#[tokio::test]
async fn python_hpilo_finds_an_ilo_2_out_and_talks_straight_to_it() {
    let lab = ilo("ilo2").await;
    let told = judge("hpilo_drives.py", &[&port(&lab), USER, "-", "-", "little"]).await;
    assert_eq!(told["protocol"], "raw");
    assert_eq!(told["firmware"]["management_processor"], "iLO2");
    assert_eq!(told["firmware"]["firmware_version"], "2.29");
    assert_eq!(told["order"], json!(["cdrom", "usb", "hdd", "network"]));
    assert_eq!(told["once"], "cdrom");
    assert_eq!(changes(&lab), ["<SET_ONE_TIME_BOOT VALUE=\"CDROM\"/>"]);
    let trace = lab.running.trace(0).unwrap();
    assert_eq!(
        (trace[0].method.as_str(), trace[0].status),
        ("POST", Some(404)),
        "HTTP was tried first"
    );
    assert!(trace[1..].iter().all(|exchange| exchange.method == "RAW"));
}

async fn proliantutils_drives(way: &str, profile: &str) -> (Lab, Http, String, Value) {
    let lab = ilo(profile).await;
    let images = Http::images(&[("/a.iso", vec![7; 8192])]).await;
    let iso = images.url("/a.iso");
    let ca = lab.running.ca_pem().to_str().unwrap().to_owned();
    let told = judge("proliantutils_drives.py", &[way, &port(&lab), USER, &ca, &iso]).await;
    assert_eq!(told["product"], "ProLiant DL360 Gen9");
    assert_eq!(told["power"], json!(["OFF", "ON", "OFF"]));
    assert_eq!(told["one_time"], json!(["Normal", "CDROM", "NETWORK", "HDD"]));
    assert_eq!(told["persistent"], json!(["CDROM", "NETWORK", "HDD"]));
    assert_eq!(told["mode"], json!(["UEFI", "UEFI", "LEGACY", "UEFI"]));
    assert_eq!(told["supported"], "legacy bios and uefi");
    for (state, url) in [
        ("empty", ""),
        ("inserted", &iso),
        ("once", &iso),
        ("again", &iso),
        ("ejected", ""),
    ] {
        assert_eq!(told[state]["IMAGE_URL"], url, "{state}");
        let inserted = if url.is_empty() { "NO" } else { "YES" };
        assert_eq!(told[state]["IMAGE_INSERTED"], inserted, "{state}");
    }
    assert_eq!(told["missing_image"]["error"], "ImageRefValidationFailed");
    let heads = images
        .seen()
        .iter()
        .filter(|seen| seen.head.starts_with("HEAD /a.iso "))
        .count();
    assert_eq!(heads, 2, "it looks before each insert");
    assert_eq!(lab.running.inserted(0, Device::Cd).unwrap(), None);
    (lab, images, iso, told)
}

#[tokio::test]
async fn proliantutils_reads_by_ribcl_what_it_set() {
    let (lab, _images, iso, told) = proliantutils_drives("ribcl", "ilo4").await;
    assert_eq!(told["firmware"], "2.82");
    assert_eq!(told["licence"], "iLO 4 Advanced");
    assert_eq!(told["once"]["BOOT_OPTION"], "BOOT_ONCE");
    assert_eq!(told["on_again"], "Host power is already ON.");
    assert_eq!(told["reset"], "Server being reset.");
    assert_eq!(told["wrong_password"]["error"], "IloLoginFailError");
    assert_eq!(
        changes(&lab)[0],
        format!("<INSERT_VIRTUAL_MEDIA DEVICE=\"CDROM\" IMAGE_URL=\"{iso}\"/>")
    );
}

#[tokio::test]
async fn proliantutils_reads_by_ris_what_it_set() {
    let (lab, _images, iso, told) = proliantutils_drives("ris", "ilo4-ris").await;
    assert_eq!(told["firmware"], "2.20");
    assert_eq!(told["post"], "PowerOff");
    assert_eq!(told["bios"], "Uefi");
    assert_eq!(told["secure_boot"], false);
    assert_eq!(told["wrong_password"]["error"], "IloError");
    let trace = lab.running.trace(0).unwrap();
    let patches: Vec<&Value> = trace
        .iter()
        .filter(|exchange| exchange.method == "PATCH" && exchange.path == "/rest/v1/Managers/1/VirtualMedia/2")
        .filter_map(|exchange| exchange.body.as_ref())
        .collect();
    let once = json!({"Oem": {"Hp": {"BootOnNextServerReset": true}}});
    assert_eq!(
        patches,
        [
            &json!({"Image": iso}),
            &once,
            // It ejects by itself before it inserts again.
            &json!({"Image": null}),
            &json!({"Image": iso}),
            &json!({"Image": null}),
        ]
    );
}

#[tokio::test]
async fn proliantutils_reads_by_ris_from_a_late_ilo_4_too() {
    let (_lab, _images, _iso, told) = proliantutils_drives("ris", "ilo4").await;
    assert_eq!(told["firmware"], "2.82");
}
