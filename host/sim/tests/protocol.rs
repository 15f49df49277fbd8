//! A server without a CPU, from power-on to an image on its disk, against an image server and a conductor.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as its body may")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use sim::{BootMode, BootOutcome, BootTarget, Device, PowerState};
use support::*;

/// Inserts a floppy and a deploy ISO, and boots them once.
async fn boot_agent(lab: &Lab, conductors: &str) -> Http {
    let parameters = format!("ipa-api-url={conductors}\nipa-agent-token={TOKEN}\nboot_method=vmedia");
    let images = Http::images(&[
        ("/d.iso", iso("boot_method=vmedia text")),
        ("/p.img", floppy("IR-VFD-DEV", &parameters)),
    ])
    .await;
    lab.insert(FLOPPY, &images.url("/p.img")).await;
    lab.insert(CD, &images.url("/d.iso")).await;
    lab.boot_once("Cd").await;
    lab.reset("On").await;
    images
}

fn seen_by_guests(http: &Http) -> String {
    format!("http://10.0.2.2:{}", http.address.port())
}

async fn command(url: &str, name: &str, params: Value) -> (u16, Value) {
    command_with(url, name, params, TOKEN, true).await
}

async fn command_with(url: &str, name: &str, params: Value, token: &str, wait: bool) -> (u16, Value) {
    let url = format!("{url}/v1/commands/?wait={wait}&agent_token={token}");
    let body = json!({"name": name, "params": params});
    let reply = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
    (reply.status().as_u16(), reply.json().await.unwrap())
}

#[tokio::test]
async fn a_deploy_goes_from_power_on_to_a_booted_disk() {
    for mode in [BootMode::Uefi, BootMode::LegacyBios] {
        let lab = lab(|config| config.boot_mode = Some(mode)).await;
        let conductor = conductor().await;
        let images = boot_agent(&lab, &seen_by_guests(&conductor)).await;
        let agent = callback(&conductor).await;
        let boot = lab.boot_number(1).await;
        assert_eq!((boot.device, boot.outcome), (Some(BootTarget::Cd), BootOutcome::Agent));
        let seen = conductor.seen();
        let mac = lab.running.server(0).unwrap().mac.replace(':', "%3A");
        assert_eq!(seen[0].target(), "/");
        assert_eq!(seen[1].target(), format!("/v1/lookup?addresses={mac}"));
        let beat: Value = serde_json::from_slice(&seen[2].body).unwrap();
        assert_eq!(seen[2].target(), format!("/v1/heartbeat/{NODE}"));
        assert_eq!(beat["agent_token"], TOKEN);

        // Kernel and initrd are sampled, not swallowed whole.
        let cd = lab.running.media_reads(0, Device::Cd).unwrap().remove(0);
        assert!(cd.bytes > 0 && cd.bytes < cd.size.unwrap(), "{cd:?}");
        assert_eq!(cd.errors, 0);

        let (status, steps) = command(&agent, "clean.get_clean_steps", json!({"node": {}, "ports": []})).await;
        assert_eq!((status, &steps["command_status"]), (200, &json!("SUCCEEDED")));
        let step = steps["command_result"]["clean_steps"]["GenericHardwareManager"][0].clone();
        assert_eq!(step["step"], "erase_devices_metadata");
        let (_, erased) = command(
            &agent,
            "clean.execute_clean_step",
            json!({"step": step, "node": {}, "ports": []}),
        )
        .await;
        assert_eq!(erased["command_result"]["clean_step"], step);

        let mut image = vec![7; 100_000];
        image[510..512].copy_from_slice(&[0x55, 0xaa]);
        let sum: String = Sha256::digest(&image)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let source = Http::images(&[("/disk.raw", image.clone())]).await;
        let url = format!("{}/disk.raw", seen_by_guests(&source));
        let info = |sum: &str| {
            json!({"image_info": {
                "id": "i", "urls": [url], "os_hash_algo": "sha256", "os_hash_value": sum, "disk_format": "raw",
            }})
        };
        let (_, wrong) = command(&agent, "standby.prepare_image", info(&"0".repeat(64))).await;
        assert_eq!(wrong["command_status"], "FAILED");
        assert_eq!(wrong["command_error"]["type"], "ImageChecksumError");
        let (_, written) = command(&agent, "standby.prepare_image", info(&sum)).await;
        assert_eq!(written["command_status"], "SUCCEEDED", "{written}");
        assert_eq!(lab.running.written(0).unwrap(), 100_000);
        let disk = std::fs::read(&lab.running.server(0).unwrap().disk).unwrap();
        assert_eq!(disk[..image.len()], image);

        let (_, ids) = command(&agent, "standby.get_partition_uuids", json!({})).await;
        assert_eq!(ids["command_result"]["disk identifier"], "0x07070707");
        let (_, unknown) = command(&agent, "standby.dance", json!({})).await;
        assert_eq!(unknown["command_status"], "FAILED");
        assert_eq!(unknown["command_error"]["type"], "InvalidCommandError");
        command(&agent, "standby.sync", json!({})).await;
        let (_, logs) = command(&agent, "log.collect_system_logs", json!({})).await;
        assert!(logs["command_result"]["system_logs"].as_str().unwrap().len() > 100);
        command(&agent, "standby.power_off", json!({})).await;
        until(|| (lab.running.power(0).unwrap() == PowerState::Off).then_some(())).await;

        lab.eject(CD).await;
        lab.eject(FLOPPY).await;
        lab.boot_once("Hdd").await;
        lab.reset("On").await;
        let boot = lab.boot_number(2).await;
        assert_eq!(boot.outcome, BootOutcome::BootedFromDisk);
        drop(images);
    }
}

#[tokio::test]
async fn images_are_read_in_an_ilo_s_shape_over_one_connection() {
    let lab = lab(|_| {}).await;
    let conductor = conductor().await;
    let images = boot_agent(&lab, &seen_by_guests(&conductor)).await;
    callback(&conductor).await;
    let seen = images.seen();
    let first =
        "GET /d.iso HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: bytes=00000000000000000000-00000000000000002047\r\n\r\n";
    assert_eq!(seen[0].head, first);
    for request in &seen {
        let lines: Vec<&str> = request.head.split("\r\n").collect();
        assert_eq!(lines.len(), 5, "{}", request.head);
        assert_eq!(lines[1], "Host: 127.0.0.1");
        let range = lines[2].strip_prefix("Range: bytes=").unwrap();
        let (a, b) = range.split_once('-').unwrap();
        assert!(a.len() == 20 && b.len() == 20, "{range}");
    }
    assert_eq!(*images.connections.lock().unwrap(), 2, "one connection a device");
}

#[tokio::test]
async fn a_dead_conductor_is_passed_over() {
    let lab = lab(|_| {}).await;
    let conductor = conductor().await;
    let dead = Http::start(|_| (0, String::new(), Vec::new())).await;
    let list = format!("{},{}", seen_by_guests(&dead), seen_by_guests(&conductor));
    let _images = boot_agent(&lab, &list).await;
    callback(&conductor).await;
    assert!(!dead.seen().is_empty());
}

#[tokio::test]
async fn a_held_agent_is_silent_until_it_is_let_go() {
    let lab = lab(|_| {}).await;
    let conductor = conductor().await;
    lab.running.hold_agent(0, true).unwrap();
    let _images = boot_agent(&lab, &seen_by_guests(&conductor)).await;
    assert_eq!(lab.boot_number(1).await.outcome, BootOutcome::Agent);
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(conductor.seen().is_empty());
    lab.running.hold_agent(0, false).unwrap();
    callback(&conductor).await;
}

// The image server below blocks a thread while it is silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_right_token_commands_an_agent_and_one_command_runs_at_a_time() {
    let lab = lab(|_| {}).await;
    let conductor = conductor().await;
    let _images = boot_agent(&lab, &seen_by_guests(&conductor)).await;
    let agent = callback(&conductor).await;
    let reads = async |query: &str| {
        reqwest::get(format!("{agent}/v1/commands/{query}"))
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    assert_eq!(reads("").await, 200);
    let (status, _) = command_with(&agent, "standby.sync", json!({}), "wrong", true).await;
    assert_eq!(status, 401);
    assert_eq!(reads("").await, 401, "reads need the token once tokens are seen");
    assert_eq!(reads(&format!("?agent_token={TOKEN}")).await, 200);

    // The image server stays silent until it is told to go on, so the first command runs.
    let go = std::sync::Arc::new(AtomicBool::new(false));
    let gate = std::sync::Arc::clone(&go);
    let source = Http::start(move |_| {
        while !gate.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        (404, String::new(), Vec::new())
    })
    .await;
    let info = json!({"image_info": {"id": "i", "urls": [source.url("/x")], "checksum": "0".repeat(64)}});
    let (_, running) = command_with(&agent, "standby.prepare_image", info, TOKEN, false).await;
    assert_eq!(running["command_status"], "RUNNING");
    let (status, busy) = command(&agent, "standby.sync", json!({})).await;
    assert_eq!((status, &busy["faultcode"]), (409, &json!("Client")));
    go.store(true, Ordering::Relaxed);
    let id = running["id"].as_str().unwrap();
    let url = format!("{agent}/v1/commands/{id}?wait=true&agent_token={TOKEN}");
    let done: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
    assert_eq!(done["command_status"], "FAILED");
    assert_eq!(done["command_error"]["type"], "ImageDownloadError");
}

#[tokio::test]
async fn an_iso_without_an_agent_is_an_ordinary_system() {
    let lab = lab(|_| {}).await;
    let images = Http::images(&[("/i.iso", iso("boot_method=vmedia root=/dev/ram0"))]).await;
    lab.insert(CD, &images.url("/i.iso")).await;
    lab.reset("On").await;
    let boot = lab.boot_number(1).await;
    assert_eq!(
        (boot.device, boot.outcome),
        (Some(BootTarget::Cd), BootOutcome::BootedFromCd)
    );
}

#[tokio::test]
async fn media_that_cannot_be_read_boot_nothing() {
    let conductor = conductor().await;
    let parameters = format!("ipa-api-url={}\nipa-agent-token={TOKEN}", seen_by_guests(&conductor));
    let good = floppy("IR-VFD-DEV", &parameters);
    let deploy = iso("boot_method=vmedia");
    for (what, files, want) in [
        ("no CD", vec![("/p.img", good.clone())], "answered 404"),
        ("no floppy", vec![("/d.iso", deploy.clone())], "answered 404"),
        (
            "label",
            vec![("/d.iso", deploy.clone()), ("/p.img", floppy("OTHER", &parameters))],
            "its label is \"OTHER\"",
        ),
        (
            "not FAT",
            vec![("/d.iso", deploy.clone()), ("/p.img", vec![1; 20_000])],
            "cannot be read as FAT",
        ),
        (
            "not ISO",
            vec![("/d.iso", vec![1; 80_000]), ("/p.img", good.clone())],
            "not an ISO 9660 image",
        ),
    ] {
        let lab = lab(|_| {}).await;
        let images = Http::images(&files).await;
        lab.insert(FLOPPY, &images.url("/p.img")).await;
        lab.insert(CD, &images.url("/d.iso")).await;
        lab.reset("On").await;
        let boot = lab.boot_number(1).await;
        let BootOutcome::Failed { reason } = &boot.outcome else {
            panic!("{what}: {boot:?}")
        };
        assert!(reason.contains(want), "{what}: {reason}");
        assert!(conductor.seen().is_empty(), "{what}");
    }
}

#[tokio::test]
async fn without_boot_method_the_floppy_is_not_read() {
    let lab = lab(|_| {}).await;
    let parameters = format!("ipa-api-url=http://127.0.0.1:1\nipa-agent-token={TOKEN}");
    let images = Http::images(&[("/d.iso", iso("text")), ("/p.img", floppy("IR-VFD-DEV", &parameters))]).await;
    lab.insert(FLOPPY, &images.url("/p.img")).await;
    lab.insert(CD, &images.url("/d.iso")).await;
    lab.reset("On").await;
    assert_eq!(lab.boot_number(1).await.outcome, BootOutcome::BootedFromCd);
    assert_eq!(lab.running.media_reads(0, Device::Floppy).unwrap()[0].requests, 0);
}

#[tokio::test]
async fn a_short_token_is_not_taken() {
    let lab = lab(|_| {}).await;
    let conductor = conductor().await;
    let parameters = format!("ipa-api-url={}\nipa-agent-token=short", seen_by_guests(&conductor));
    let images = Http::images(&[
        ("/d.iso", iso("boot_method=vmedia")),
        ("/p.img", floppy("IR-VFD-DEV", &parameters)),
    ])
    .await;
    lab.insert(FLOPPY, &images.url("/p.img")).await;
    lab.insert(CD, &images.url("/d.iso")).await;
    lab.reset("On").await;
    until(|| {
        let boot = lab.running.last_boot(0).unwrap()?;
        matches!(boot.outcome, BootOutcome::Failed { reason } if reason.contains("shorter than 32")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_agent_with_tls_sends_the_certificate_that_it_serves_with() {
    let lab = lab(|config| config.agent_tls = true).await;
    let conductor = conductor().await;
    let _images = boot_agent(&lab, &seen_by_guests(&conductor)).await;
    let agent = callback(&conductor).await;
    assert!(agent.starts_with("https://"), "{agent}");
    let beat: Value = serde_json::from_slice(&conductor.seen()[2].body).unwrap();
    let pem = beat["agent_verify_ca"].as_str().unwrap();
    let client = reqwest::Client::builder()
        .tls_certs_only([reqwest::Certificate::from_pem(pem.as_bytes()).unwrap()])
        .build()
        .unwrap();
    let status = client.get(format!("{agent}/v1/status")).send().await.unwrap();
    assert_eq!(status.status(), 200);
}
