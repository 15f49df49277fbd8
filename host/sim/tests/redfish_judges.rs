//! sushy and DMTF's Redfish service validator, which nobody here wrote, judge the simulated Redfish services.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as its body may")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use sim::{Device, PowerState, Profile};
use support::*;

/// A program or a folder that the set-up installs.
fn lab_path(key: &str) -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.lab/lab.env");
    let file = std::env::var_os("FARRIER_LAB").map_or(default, PathBuf::from);
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("the lab is not set up: run `make setup` ({}: {error})", file.display()));
    let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let path = PathBuf::from(found.unwrap_or_else(|| panic!("the lab names no {key}: run `make setup`")));
    assert!(path.exists(), "{} is gone: run `make setup`", path.display());
    path
}

/// Runs a judge and returns what it says.
async fn judge(script: &str, arguments: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges").join(script);
    let output = tokio::process::Command::new(lab_path("BMC_PYTHON"))
        .arg(script)
        .args(arguments)
        .env("SIM_PASSWORD", PASSWORD)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

/// Profiles that speak Redfish.
fn services() -> Vec<&'static str> {
    let speaks = |name: &&str| Profile::by_name(name).unwrap().speaks(sim::Protocol::Redfish);
    Profile::names().into_iter().filter(speaks).collect()
}

/// What sushy finds out, and cannot do, at one profile.
struct Expected {
    /// Boot override target of the virtual CD.
    target: &'static str,
    slot: &'static str,
    /// Why the insert is refused, if it is.
    insert_refused: Option<&'static str>,
    /// A firmware setting: its name, its value, another value.
    setting: Option<[&'static str; 3]>,
    secure_boot: bool,
}

fn expected(profile: &str) -> Expected {
    let usual = Expected {
        target: "Cd",
        slot: "2",
        insert_refused: None,
        setting: Some(["BootMode", "Uefi", "LegacyBios"]),
        secure_boot: true,
    };
    match profile {
        // sushy knows neither HP's own actions, nor flat settings, nor links under Oem.
        "ilo4" => Expected {
            insert_refused: Some("BadRequestError"),
            setting: None,
            secure_boot: false,
            ..usual
        },
        "ilo5" | "ilo6" | "ilo7" => usual,
        "generic" => Expected { slot: "Cd", ..usual },
        "dell" => Expected {
            slot: "CD",
            setting: Some(["BootMode", "Uefi", "Bios"]),
            ..usual
        },
        "supermicro" => Expected {
            target: "UsbCd",
            slot: "VirtualMedia1",
            setting: Some(["BootModeSelect", "UEFI", "Legacy"]),
            ..usual
        },
        // A firmware setting without If-Match is answered 428, and sushy sends none there.
        "lenovo" => Expected {
            slot: "EXT1",
            setting: None,
            ..usual
        },
        // It shows no firmware settings.
        "ami" => Expected {
            slot: "CD1",
            setting: None,
            ..usual
        },
        other => panic!("nothing is expected of {other} yet"),
    }
}

#[tokio::test]
async fn sushy_reads_from_every_redfish_service_what_it_set() {
    for profile in services() {
        let lab = lab(|config| config.profile = Profile::by_name(profile).unwrap()).await;
        let image = "http://127.0.0.1:9/x.iso";
        let want = expected(profile);
        let [name, before, after] = want.setting.unwrap_or(["None", "", ""]);
        let server = lab.running.server(0).unwrap().clone();
        let ca = server.ca_pem.display().to_string();
        let told = judge(
            "sushy_drives.py",
            &[&server.url, &ca, USER, image, want.target, name, after],
        )
        .await;

        let facts = Profile::by_name(profile).unwrap();
        let identity = &told["identity"];
        assert_eq!(identity["manufacturer"], facts.vendor.as_str(), "{profile}");
        assert_eq!(identity["model"], facts.model.as_str(), "{profile}");
        assert_eq!(identity["bmc_firmware"], facts.firmware.as_str(), "{profile}");
        assert_eq!(identity["uuid"], server.uuid.as_str(), "{profile}");
        assert_eq!(told["macs"], json!([server.mac]), "{profile}");

        assert_eq!(told["power"], json!(["Off", "On", "Off"]), "{profile}");
        assert_eq!(lab.running.power(0).unwrap(), PowerState::Off);
        assert_eq!(told["allowed"], true, "{profile}");
        let boot = json!({"Once": [want.target, "Once"], "Continuous": [want.target, "Continuous"]});
        assert_eq!(told["boot"], boot, "{profile}");

        let media = &told["media"];
        assert_eq!(media["slot"], want.slot, "{profile}");
        assert_eq!(media["empty"], json!(["", false]), "{profile}");
        match want.insert_refused {
            None => assert_eq!(media["insert"], json!([image, true]), "{profile}"),
            Some(error) => assert_eq!(media["insert"], json!({ "error": error }), "{profile}"),
        }
        assert_eq!(
            (&media["eject"], &media["ejected"]),
            (&Value::Null, &json!(false)),
            "{profile}"
        );
        assert_eq!(lab.running.inserted(0, Device::Cd).unwrap(), None, "{profile}");

        if want.setting.is_some() {
            assert_eq!(told["bios"], json!([before, after]), "{profile}");
        }
        let secure = if want.secure_boot {
            json!([false, true])
        } else {
            Value::Null
        };
        assert_eq!(told["secure_boot"], secure, "{profile}");
        lab.running.stop().await;
    }
}

/// What the validator complains of and stays as it is: kind, end of the property, beginning of the message, profiles (empty: all), why.
const EXEMPT: [(&str, &str, &str, &[&str], &str); 4] = [
    (
        "WARN",
        "/VirtualMedia",
        "Deprecated Property Warning",
        &[],
        "virtual media under the manager: where these BMCs have them (deprecated by DSP8010 2023.1)",
    ),
    (
        "WARN",
        "/@odata.id",
        "Deprecated URI Warning",
        &[],
        "the same, of the collection and its members",
    ),
    (
        "WARN",
        "/ImageName",
        "Empty String Warning",
        &["ilo4", "ilo5", "ilo6", "ilo7"],
        "an iLO's empty slot shows empty texts, as HPE's mock-up has it",
    ),
    (
        "FAIL",
        "/Boot/BootSourceOverrideTarget",
        "Property Value Error",
        &["supermicro"],
        "its virtual CD is the target UsbCd, which is not in the schema's list: the point of that profile",
    ),
];

#[tokio::test]
async fn the_service_validator_passes_on_every_redfish_service() {
    let schemas = lab_path("REDFISH_SCHEMAS").display().to_string();
    let mut used = [false; EXEMPT.len()];
    for profile in services() {
        let lab = lab(|config| {
            config.profile = Profile::by_name(profile).unwrap();
            config.powered_on = true;
        })
        .await;
        // With something to look at in it.
        let target = if profile == "supermicro" { "UsbCd" } else { "Cd" };
        let system = &Profile::by_name(profile).unwrap().redfish.system;
        let boot = json!({"Boot": {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": "Continuous"}});
        let path = format!("/redfish/v1/Systems/{system}");
        if !matches!(profile, "lenovo" | "ami") {
            until_patched(&lab, &path, boot).await;
        }
        let url = &lab.running.server(0).unwrap().url;
        let folder = tempfile::tempdir().unwrap();
        let said = judge(
            "validator_says.py",
            &[url, USER, &schemas, &folder.path().display().to_string()],
        )
        .await;
        assert_eq!(said["unread"], json!([]), "{profile}: every link leads somewhere");
        assert_eq!(said["leaks"], json!([]), "{profile}");
        assert!(
            said["counts"]["PASS"].as_u64().unwrap() > 200,
            "{profile}: {}",
            said["counts"]
        );
        for complaint in said["complaints"].as_array().unwrap() {
            let text = |key: &str| complaint[key].as_str().unwrap_or_default();
            let exempt = EXEMPT.iter().position(|(kind, property, message, profiles, _)| {
                text("kind") == *kind
                    && text("property").ends_with(property)
                    && text("message").starts_with(message)
                    && (profiles.is_empty() || profiles.contains(&profile))
            });
            let exempt = exempt.unwrap_or_else(|| panic!("{profile}: {complaint}"));
            used[exempt] = true;
        }
        lab.running.stop().await;
    }
    for (exempt, used) in EXEMPT.iter().zip(used) {
        assert!(used, "an exemption that nothing needs any more: {exempt:?}");
    }
}

/// Some services refuse a change during POST.
async fn until_patched(lab: &Lab, path: &str, body: Value) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let (status, id) = lab.patch(path, body.clone()).await;
        if status < 300 {
            return;
        }
        assert!(std::time::Instant::now() < end, "{path}: {status} {id}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
