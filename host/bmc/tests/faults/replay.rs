//! What was recorded of a simulated BMC plays back: the same client gets the same answers.

use std::sync::Arc;

use bmc::record::Recorder;
use bmc::trace::Trace;
use bmc::{Bmc, BmcConfig, BmcError, Ca, ProbedBmc, Tls};
use model::{BmcAddress, BootDevice, Device, PowerAction};
use sim::{Recording, ReplayConfig};

use crate::support::*;

/// What a dialogue comes to, verb by verb; numbers and addresses that a recording replaces are left out.
async fn dialogue(bmc: &ProbedBmc) -> Vec<String> {
    let mut told = Vec::new();
    let identity = bmc.identity().await.unwrap();
    told.push(format!(
        "{:?} {:?} {:?} {:?}",
        identity.vendor, identity.model, identity.bmc_generation, identity.bmc_license
    ));
    told.push(format!("{:?}", bmc.power_state().await));
    told.push(format!("{:?}", bmc.media(Device::Cdrom).await.unwrap().inserted));
    for _ in 0..2 {
        bmc.insert_media(Device::Cdrom, &image(URL)).await.unwrap();
        told.push(format!("{:?}", bmc.media(Device::Cdrom).await.unwrap().inserted));
    }
    bmc.set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    told.push(format!("{:?}", bmc.boot_settings().await.unwrap()));
    told.push(format!("{:?}", bmc.set_power(PowerAction::On).await.is_ok()));
    bmc.eject_media(Device::Cdrom).await.unwrap();
    told.push(format!("{:?}", bmc.media(Device::Cdrom).await.unwrap().inserted));
    told.push(format!("{:?}", bmc.secure_boot().await.map_err(|error| kind(&error))));
    bmc.close().await;
    told
}

fn kind(error: &BmcError) -> String {
    let text = format!("{error:?}");
    text.split([' ', '{']).next().unwrap_or_default().to_owned()
}

/// Records the dialogue with a simulated server.
async fn recorded(profile: &str, rules: &str) -> (Vec<String>, String) {
    let lab = faulty(profile, rules).await;
    let recorder = Arc::new(Recorder::default());
    let config = BmcConfig {
        trace: Some(Arc::clone(&recorder) as Arc<dyn Trace>),
        ..lab.config(0)
    };
    let told = dialogue(&ProbedBmc::new(config.clone(), None).unwrap()).await;
    let lines = recorder.lines(&config).unwrap();
    lab.running.stop().await;
    (told, lines.join("\n"))
}

async fn play(text: &str) -> (sim::Replaying, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let config = ReplayConfig {
        recording: Recording::parse("recorded.jsonl", text).unwrap(),
        servers: 1,
        listen: "127.0.0.1:0".parse().unwrap(),
        trace: Some(folder.path().join("trace.jsonl")),
        data: folder.path().to_owned(),
    };
    (sim::replay(config).await.unwrap(), folder)
}

fn client(playing: &sim::Replaying, legacy: bool) -> ProbedBmc {
    let config = BmcConfig {
        tls: Tls::Verify {
            ca: Some(Ca::File(playing.ca_pem().to_owned())),
        },
        protocols: if legacy {
            bmc::Protocols::Legacy
        } else {
            bmc::Protocols::Modern
        },
        deadlines: quick(),
        ..BmcConfig::new(
            BmcAddress(playing.urls()[0].clone()),
            "anybody",
            model::Secret::new("anything"),
        )
    };
    ProbedBmc::new(config, None).unwrap()
}

async fn check(profile: &str, rules: &str) {
    let (told, text) = recorded(profile, rules).await;
    assert!(!text.contains("Hunter2") && !text.contains("t0k3n"), "{profile}");
    let (playing, _folder) = play(&text).await;
    let legacy = matches!(profile, "ilo2" | "ilo3");
    // Twice: a login starts the recording again, and RIBCL has none.
    let times = if matches!(profile, "ilo2" | "ilo3" | "ilo4-ris") {
        1
    } else {
        2
    };
    for _ in 0..times {
        assert_eq!(dialogue(&client(&playing, legacy)).await, told, "{profile}");
    }
    let unanswered: Vec<_> = playing
        .trace(0)
        .unwrap()
        .into_iter()
        .filter(|one| one.status == Some(501))
        .collect();
    assert!(unanswered.is_empty(), "{profile}: {unanswered:?}");
    playing.stop().await;
}

#[tokio::test]
async fn a_recorded_ilo_5_plays_back() {
    check("ilo5", "").await;
}

#[tokio::test]
async fn a_recorded_quirk_plays_back() {
    let rules = "[[rule]]\npath = '*.EjectMedia'\nstale-inserted-ms = 100\n\
                 [[rule]]\npath = '*.InsertMedia'\ntimes = 2\nstatus = 503\n\
                 [[rule]]\npath = '/redfish/v1/Systems/1*'\nmethod = 'GET'\nskip = 1\ntimes = 1\ndrop = true";
    check("ilo5", rules).await;
}

#[tokio::test]
async fn recorded_ribcl_plays_back_by_https_and_raw() {
    check("ilo3", "").await;
    check("ilo2", "").await;
}

#[tokio::test]
async fn recorded_ris_and_other_vendors_play_back() {
    for profile in ["ilo4-ris", "ilo4", "supermicro", "lenovo", "generic"] {
        check(profile, "").await;
    }
}

#[tokio::test]
async fn what_was_not_recorded_is_told_and_traced() {
    let (_, text) = recorded("ilo5", "").await;
    let (playing, folder) = play(&text).await;
    let bmc = client(&playing, false);
    let error = bmc.raw_redfish("GET", "/redfish/v1/Fabrics/", None).await;
    let said = match error {
        Ok(reply) => {
            assert_eq!(reply.status, 501);
            reply.body
        }
        Err(error) => error.to_string(),
    };
    assert!(
        said.contains("the recording has no (further) answer to GET /redfish/v1/Fabrics/"),
        "{said}"
    );
    bmc.close().await;
    playing.stop().await;
    let trace = std::fs::read_to_string(folder.path().join("trace.jsonl")).unwrap();
    let line = trace.lines().find(|line| line.contains("Fabrics")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        (line["kind"].as_str(), line["status"].as_u64()),
        (Some("replay"), Some(501))
    );
}
