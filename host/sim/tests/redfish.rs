//! The BMC as its clients meet it: what it accepts, what it refuses, and in which words.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as its body may")]

mod support;

use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sim::{BootMode, Device, Faults, Profile};
use support::*;

#[tokio::test]
async fn only_the_service_root_answers_a_stranger() {
    let lab = lab(|_| {}).await;
    let root = lab.client.get(lab.url("/redfish/v1/")).send().await.unwrap();
    assert_eq!(root.status(), StatusCode::OK);
    assert!(root.headers().contains_key("etag"));
    let root: Value = root.json().await.unwrap();
    assert_eq!(root["Vendor"], "HPE");
    assert!(root["Oem"]["Hpe"].is_object());

    let system = lab.client.get(lab.url(SYSTEM)).send().await.unwrap();
    is(&outcome(system).await, 401, "Base.1.4.NoValidSession");
    let wrong = lab.client.get(lab.url(SYSTEM)).basic_auth(USER, Some("wrong"));
    let wrong = outcome(wrong.send().await.unwrap()).await;
    is(&wrong, 401, "iLO.2.14.UnauthorizedLoginAttempt");

    let missing = lab.request(Method::GET, "/redfish/v1/Systems/2").send().await.unwrap();
    is(&outcome(missing).await, 404, "Base.1.4.ResourceMissingAtURI");
    let not_allowed = lab.request(Method::DELETE, SYSTEM).send().await.unwrap();
    assert_eq!(not_allowed.headers()["allow"], "GET, HEAD, PATCH");
    is(&outcome(not_allowed).await, 405, "iLO.2.14.UnsupportedOperation");
    assert_eq!(lab.post(SYSTEM, json!({})).await.0, 405);
    let action = lab.request(Method::GET, RESET).send().await.unwrap();
    assert_eq!(
        (action.status().as_u16(), &action.headers()["allow"]),
        (405, &"POST".parse().unwrap())
    );
}

#[tokio::test]
async fn the_third_wrong_password_delays_even_the_right_one() {
    let lab = lab(|config| config.timing.login_delay = Duration::from_millis(300)).await;
    let login = async |password: &str| {
        let body = json!({"UserName": USER, "Password": password});
        let sessions = lab.url("/redfish/v1/SessionService/Sessions");
        outcome(lab.client.post(sessions).json(&body).send().await.unwrap()).await
    };
    for _ in 0..3 {
        is(&login("wrong").await, 401, "iLO.2.14.UnauthorizedLoginAttempt");
    }
    is(&login(PASSWORD).await, 401, "iLO.2.14.LoginAttemptDelayed");
    tokio::time::sleep(Duration::from_millis(320)).await;
    assert_eq!(login(PASSWORD).await.0, 201);
}

#[tokio::test]
async fn a_seventeenth_session_is_refused_until_one_is_deleted() {
    let lab = lab(|_| {}).await;
    let sessions = lab.url("/redfish/v1/SessionService/Sessions");
    let create = async || {
        let body = json!({"UserName": USER, "Password": PASSWORD});
        lab.client.post(&sessions).json(&body).send().await.unwrap()
    };
    let first = create().await;
    assert_eq!(first.status(), StatusCode::CREATED);
    let token = first.headers()["x-auth-token"].to_str().unwrap().to_owned();
    let location = first.headers()["location"].to_str().unwrap().to_owned();
    assert!(location.starts_with(&sessions), "{location}");
    for _ in 1..16 {
        assert_eq!(create().await.status(), StatusCode::CREATED);
    }
    is(
        &outcome(create().await).await,
        400,
        "Base.1.4.CreateLimitReachedForResource",
    );

    let with_token = |method, url: &str| lab.client.request(method, url).header("X-Auth-Token", &token);
    let system = with_token(Method::GET, &lab.url(SYSTEM)).send().await.unwrap();
    assert_eq!(system.status(), StatusCode::OK);
    let deleted = with_token(Method::DELETE, &location).send().await.unwrap();
    assert_eq!(deleted.status(), StatusCode::OK);
    let after = with_token(Method::GET, &lab.url(SYSTEM)).send().await.unwrap();
    is(&outcome(after).await, 401, "Base.1.4.NoValidSession");
    assert_eq!(create().await.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn an_idle_session_ends() {
    let lab = lab(|config| config.timing.session_expiry = Duration::from_millis(100)).await;
    let body = json!({"UserName": USER, "Password": PASSWORD});
    let sessions = lab.url("/redfish/v1/SessionService/Sessions");
    let reply = lab.client.post(sessions).json(&body).send().await.unwrap();
    let token = reply.headers()["x-auth-token"].clone();
    tokio::time::sleep(Duration::from_millis(150)).await;
    let system = lab.client.get(lab.url(SYSTEM)).header("X-Auth-Token", token);
    assert_eq!(system.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn an_occupied_slot_refuses_and_an_eject_needs_a_body() {
    let lab = lab(|_| {}).await;
    let insert = format!("{CD}/Actions/VirtualMedia.InsertMedia");
    let oem_insert = format!("{CD}/Actions/Oem/Hpe/HpeiLOVirtualMedia.InsertVirtualMedia");
    let eject = format!("{CD}/Actions/VirtualMedia.EjectMedia");
    let image = json!({"Image": "http://127.0.0.1:1/a.iso"});

    ok(lab.post(&insert, image.clone()).await);
    let shown = lab.get(CD).await;
    assert_eq!(shown["Inserted"], true);
    assert_eq!(shown["Image"], "http://127.0.0.1:1/a.iso");
    for again in [&insert, &oem_insert] {
        let refused = lab.post(again, image.clone()).await;
        is(&refused, 400, "iLO.2.14.MaxVirtualMediaConnectionEstablished");
    }
    let bare = lab.request(Method::POST, &eject).send().await.unwrap();
    is(&outcome(bare).await, 400, "Base.1.4.MalformedJSON");
    ok(lab.post(&eject, json!({})).await);
    assert_eq!(lab.get(CD).await["Inserted"], false);
    let again = lab.post(&eject, json!({})).await;
    is(&again, 400, "iLO.2.14.NoVirtualMediaConnectionAvailable");
    ok(lab.post(&format!("{oem_insert}/"), image).await);
    let reads = lab.running.media_reads(0, Device::Cd).unwrap();
    assert_eq!(
        reads.iter().map(|reads| reads.requests).sum::<u64>(),
        0,
        "an insert reads nothing"
    );
}

#[tokio::test]
async fn images_that_the_slot_cannot_take_are_refused() {
    let lab = lab(|_| {}).await;
    let long = format!("http://h/{}.iso", "x".repeat(250));
    for (slot, url) in [
        (CD, "http://h/a.img"),
        (FLOPPY, "http://h/a.iso"),
        (CD, "file:///srv/a.iso"),
        (CD, "http://h/a.iso?sig=1"),
        (CD, "nfs://h/a.iso"),
        (CD, "a.iso"),
        (CD, &long),
    ] {
        let action = format!("{slot}/Actions/VirtualMedia.InsertMedia");
        let refused = lab.post(&action, json!({"Image": url})).await;
        is(&refused, 400, "Base.1.4.ActionParameterValueFormatError");
    }
    let action = format!("{CD}/Actions/VirtualMedia.InsertMedia");
    let credentials = json!({"Image": "http://h/a.iso", "UserName": "u", "Password": "p"});
    let refused = lab.post(&action, credentials).await;
    is(&refused, 400, "Base.1.4.ActionParameterUnknown");
    let refused = lab.post(&action, json!({})).await;
    is(&refused, 400, "Base.1.4.ActionParameterMissing");
    let refused = lab.patch(CD, json!({"Image": "http://h/a.iso"})).await;
    is(&refused, 400, "Base.1.4.PropertyNotWritableOrUnknown");
    assert_eq!(lab.get(CD).await["Inserted"], false);
}

#[tokio::test]
async fn a_boot_override_is_taken_without_a_mode_only() {
    let lab = lab(|_| {}).await;
    let boot = json!({"BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Once"});
    let mut with_mode = boot.clone();
    with_mode["BootSourceOverrideMode"] = "UEFI".into();
    let refused = lab.patch(SYSTEM, json!({"Boot": with_mode})).await;
    is(&refused, 400, "Base.1.4.PropertyNotWritableOrUnknown");
    assert_eq!(lab.get(SYSTEM).await["Boot"]["BootSourceOverrideEnabled"], "Disabled");
    ok(lab.patch(SYSTEM, json!({"Boot": boot})).await);
    let shown = lab.get(SYSTEM).await;
    assert_eq!(shown["Boot"]["BootSourceOverrideTarget"], "Cd");
    assert_eq!(shown["Boot"]["BootSourceOverrideEnabled"], "Once");
    let refused = lab
        .patch(SYSTEM, json!({"Boot": {"BootSourceOverrideTarget": "Floppy"}}))
        .await;
    is(&refused, 400, "Base.1.4.PropertyValueNotInList");

    lab.reset("On").await;
    lab.boot_number(1).await;
    let shown = lab.get(SYSTEM).await;
    assert_eq!(shown["Boot"]["BootSourceOverrideEnabled"], "Disabled", "once is once");
}

#[tokio::test]
async fn a_machine_that_takes_the_mode_takes_it_too() {
    let lab = lab(|config| {
        config.profile = Profile::parse("like = 'ilo5'\n[redfish.boot]\ntakes-mode = true").unwrap();
        config.boot_mode = Some(BootMode::LegacyBios);
    })
    .await;
    let boot = |mode: &str| json!({"Boot": {"BootSourceOverrideTarget": "Hdd", "BootSourceOverrideMode": mode}});
    ok(lab.patch(SYSTEM, boot("Legacy")).await);
    let refused = lab.patch(SYSTEM, boot("UEFI")).await;
    is(&refused, 400, "iLO.2.14.UnsupportedOperationInLegacyBootMode");
}

#[tokio::test]
async fn boot_settings_are_refused_during_post() {
    let lab = lab(|config| config.timing.post = Duration::from_secs(1)).await;
    lab.reset("On").await;
    until(|| (lab.running.power(0).unwrap() == sim::PowerState::On).then_some(())).await;
    let boot = json!({"Boot": {"BootSourceOverrideTarget": "Cd"}});
    let refused = lab.patch(SYSTEM, boot.clone()).await;
    is(&refused, 400, "iLO.2.14.UnableToModifyDuringSystemPOST");
    assert_eq!(lab.get(SYSTEM).await["Oem"]["Hpe"]["PostState"], "InPost");
    lab.boot_number(1).await;
    assert_eq!(lab.get(SYSTEM).await["Oem"]["Hpe"]["PostState"], "FinishedPost");
    ok(lab.patch(SYSTEM, boot).await);
}

#[tokio::test]
async fn reset_verbs_need_the_state_that_they_change() {
    let lab = lab(|_| {}).await;
    let state = "iLO.2.14.InvalidOperationForSystemState";
    for kind in ["ForceOff", "GracefulShutdown", "ForceRestart", "GracefulRestart", "Nmi"] {
        is(&lab.post(RESET, json!({"ResetType": kind})).await, 400, state);
    }
    let refused = lab.post(RESET, json!({"ResetType": "PowerCycle"})).await;
    is(&refused, 400, "Base.1.4.ActionParameterValueNotInList");
    is(
        &lab.post(RESET, json!({})).await,
        400,
        "Base.1.4.ActionParameterMissing",
    );

    lab.reset("On").await;
    lab.boot_number(1).await;
    assert_eq!(lab.power().await, "On");
    is(&lab.post(RESET, json!({"ResetType": "On"})).await, 400, state);
    ok(lab.post(RESET, json!({"ResetType": "Nmi"})).await);
    // Nothing booted, so nothing listens to the power button.
    lab.reset("GracefulShutdown").await;
    lab.reset("ForceRestart").await;
    lab.boot_number(2).await;
    assert_eq!(lab.power().await, "On");
    lab.reset("ForceOff").await;
    until(|| (lab.running.power(0).unwrap() == sim::PowerState::Off).then_some(())).await;
    assert_eq!(lab.get(SYSTEM).await["Oem"]["Hpe"]["PostState"], "PowerOff");
}

#[tokio::test]
async fn a_disk_with_a_boot_sector_boots_and_shuts_down() {
    let lab = lab(|_| {}).await;
    let mut sector = vec![0; 512];
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(&lab.running.server(0).unwrap().disk, sector).unwrap();
    lab.reset("PushPowerButton").await;
    let boot = lab.boot_number(1).await;
    assert_eq!(boot.outcome, sim::BootOutcome::BootedFromDisk);
    lab.reset("GracefulRestart").await;
    lab.boot_number(2).await;
    lab.reset("GracefulShutdown").await;
    until(|| (lab.running.power(0).unwrap() == sim::PowerState::Off).then_some(())).await;
}

#[tokio::test]
async fn a_boot_mode_waits_for_the_next_reset() {
    let lab = lab(|_| {}).await;
    let settings = "/redfish/v1/Systems/1/Bios/Settings";
    let bios = "/redfish/v1/Systems/1/Bios";
    let changed = lab
        .patch(settings, json!({"Attributes": {"BootMode": "LegacyBios"}}))
        .await;
    is(&changed, 200, "iLO.2.14.SystemResetRequired");
    assert_eq!(lab.get(bios).await["Attributes"]["BootMode"], "Uefi");
    assert_eq!(lab.get(settings).await["Attributes"]["BootMode"], "LegacyBios");
    lab.reset("On").await;
    lab.boot_number(1).await;
    assert_eq!(lab.get(bios).await["Attributes"]["BootMode"], "LegacyBios");
    let refused = lab.patch(settings, json!({"Attributes": {"BootMode": "uefi"}})).await;
    is(&refused, 400, "Base.1.4.PropertyValueNotInList");
    let refused = lab.patch(settings, json!({"BootMode": "Uefi"})).await;
    is(&refused, 400, "Base.1.4.PropertyUnknown");
    let secure = lab
        .patch("/redfish/v1/Systems/1/SecureBoot", json!({"SecureBootEnable": true}))
        .await;
    is(&secure, 400, "iLO.2.14.UnsupportedOperationInLegacyBootMode");
}

#[tokio::test]
async fn a_stale_etag_is_refused_and_a_fresh_one_taken() {
    let lab = lab(|_| {}).await;
    let etag = lab.get(SYSTEM).await["@odata.etag"].as_str().unwrap().to_owned();
    let patch = async |tag: &str| {
        let body = json!({"Boot": {"BootSourceOverrideTarget": "Cd"}});
        let request = lab.request(Method::PATCH, SYSTEM).header("If-Match", tag);
        request.json(&body).send().await.unwrap().status().as_u16()
    };
    assert_eq!(patch(&etag).await, 200);
    assert_eq!(patch(&etag).await, 412);
    assert_eq!(patch("*").await, 200);
}

#[tokio::test]
async fn media_for_one_boot_are_gone_after_the_second_reset() {
    let lab = lab(|_| {}).await;
    lab.insert(CD, "http://127.0.0.1:1/a.iso").await;
    let mark = json!({"Oem": {"Hpe": {"BootOnNextServerReset": true}}});
    ok(lab.patch(CD, mark.clone()).await);
    assert_eq!(lab.get(CD).await["Oem"]["Hpe"]["BootOnNextServerReset"], true);
    lab.reset("On").await;
    lab.boot_number(1).await;
    let shown = lab.get(CD).await;
    assert_eq!(shown["Inserted"], true);
    assert_eq!(shown["Oem"]["Hpe"]["BootOnNextServerReset"], false);
    lab.reset("ForceRestart").await;
    lab.boot_number(2).await;
    assert_eq!(lab.get(CD).await["Inserted"], false);
    is(
        &lab.patch(CD, mark).await,
        400,
        "iLO.2.14.NoVirtualMediaConnectionAvailable",
    );
}

#[tokio::test]
async fn a_bmc_reset_drops_sessions_and_media_and_leaves_the_server_on() {
    let lab = lab(|config| {
        config.powered_on = true;
        config.timing.bmc_reset = Duration::from_millis(200);
    })
    .await;
    lab.boot_number(1).await;
    lab.insert(CD, "http://127.0.0.1:1/a.iso").await;
    let reset = lab
        .post("/redfish/v1/Managers/1/Actions/Manager.Reset", json!({}))
        .await;
    assert_eq!(reset.0, 200);
    let deaf = lab.request(Method::GET, SYSTEM).send().await;
    assert!(deaf.is_err(), "the BMC answered while it restarted");
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(lab.power().await, "On");
    assert_eq!(lab.get(CD).await["Inserted"], false);
}

#[tokio::test]
async fn faults_do_what_they_say_and_are_counted() {
    let rules = r#"
        [[rule]]
        name = "two errors"
        method = "POST"
        path = "/redfish/v1/Managers/1/VirtualMedia/*/Actions/VirtualMedia.EjectMedia"
        times = 2
        status = 500
        message = "iLO.2.14.InternalErrorWithParam"
        [[rule]]
        name = "lingers"
        path = "*/VirtualMedia.EjectMedia"
        times = 1
        stale-inserted-ms = 400
        [[rule]]
        name = "dropped"
        path = "/redfish/v1/Chassis"
        times = 1
        drop = true
        [[rule]]
        name = "cut"
        path = "/redfish/v1/Chassis"
        times = 1
        truncate = 10
        [[rule]]
        name = "hangs"
        path = "/redfish/v1/Managers"
        hang = true
        [[rule]]
        name = "slow"
        path = "/redfish/v1/Systems"
        delay-ms = 200
        [[rule]]
        name = "full"
        path = "/redfish/v1/SessionService/Sessions"
        times = 1
        session-table-full = true
        [[rule]]
        name = "elsewhere"
        server = 1
        status = 500
    "#;
    let lab = lab(|config| config.faults = Faults::parse(rules).unwrap()).await;
    lab.insert(CD, "http://127.0.0.1:1/a.iso").await;
    let eject = format!("{CD}/Actions/VirtualMedia.EjectMedia");
    for _ in 0..2 {
        let failed = lab.post(&eject, json!({})).await;
        is(&failed, 500, "iLO.2.14.InternalErrorWithParam");
    }
    assert!(lab.running.inserted(0, Device::Cd).unwrap().is_some());
    ok(lab.post(&eject, json!({})).await);
    assert!(lab.running.inserted(0, Device::Cd).unwrap().is_none());
    assert_eq!(lab.get(CD).await["Inserted"], true, "the slot still claims its image");
    tokio::time::sleep(Duration::from_millis(420)).await;
    assert_eq!(lab.get(CD).await["Inserted"], false);

    let chassis = || lab.request(Method::GET, "/redfish/v1/Chassis").send();
    assert!(chassis().await.is_err(), "dropped");
    assert!(chassis().await.unwrap().bytes().await.is_err(), "cut");
    assert_eq!(chassis().await.unwrap().status(), StatusCode::OK);
    let hung = lab
        .request(Method::GET, "/redfish/v1/Managers")
        .timeout(Duration::from_millis(200));
    assert!(hung.send().await.unwrap_err().is_timeout());
    let start = Instant::now();
    lab.get("/redfish/v1/Systems").await;
    assert!(start.elapsed() >= Duration::from_millis(200));
    let body = json!({"UserName": USER, "Password": PASSWORD});
    let full = lab.post("/redfish/v1/SessionService/Sessions", body).await;
    is(&full, 400, "Base.1.4.CreateLimitReachedForResource");

    let counts: Vec<u64> = lab.running.faults().applied().iter().map(|(_, count)| *count).collect();
    assert_eq!(counts, [2, 1, 1, 1, 1, 1, 1, 0]);
    let trace = lab.running.trace(0).unwrap();
    let named = |name: &str| {
        trace
            .iter()
            .filter(|entry| entry.fault.as_deref() == Some(name))
            .count()
    };
    assert_eq!((named("two errors"), named("dropped"), named("hangs")), (2, 1, 1));
}

#[tokio::test]
async fn an_insert_may_lie() {
    let rules = "[[rule]]\npath = '*/VirtualMedia.InsertMedia'\nnot-mounted = true";
    let lab = lab(|config| config.faults = Faults::parse(rules).unwrap()).await;
    lab.insert(CD, "http://127.0.0.1:1/a.iso").await;
    assert_eq!(lab.get(CD).await["Inserted"], true);
    assert!(lab.running.media_reads(0, Device::Cd).unwrap().is_empty());
    lab.reset("On").await;
    let boot = lab.boot_number(1).await;
    let sim::BootOutcome::Failed { reason } = boot.outcome else {
        panic!("{boot:?}")
    };
    assert!(reason.contains("cd: no medium"), "{reason}");
}

#[tokio::test]
async fn the_trace_holds_every_request_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.jsonl");
    let lab = lab(|config| config.trace = Some(file.clone())).await;
    let body = json!({"UserName": USER, "Password": PASSWORD});
    lab.client
        .post(lab.url("/redfish/v1/SessionService/Sessions"))
        .json(&body)
        .send()
        .await
        .unwrap();
    lab.insert(CD, &format!("http://u:{PASSWORD}@127.0.0.1:1/a.iso")).await;
    let trace = lab.running.trace(0).unwrap();
    let told: Vec<_> = trace
        .iter()
        .map(|entry| {
            (
                entry.method.as_str(),
                entry.path.rsplit('/').next().unwrap(),
                entry.status,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("POST", "Sessions", Some(201)),
            ("POST", "VirtualMedia.InsertMedia", Some(200)),
        ]
    );
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert!(!text.contains(PASSWORD), "{text}");
    assert!(text.contains("http://127.0.0.1:1/a.iso"), "{text}");
    let shown = lab.get(CD).await.to_string();
    assert!(!shown.contains(PASSWORD), "{shown}");
}

#[tokio::test]
async fn bodies_that_are_too_long_or_not_json_are_refused() {
    let lab = lab(|_| {}).await;
    let post = async |body: String, kind: &str| {
        let request = lab.request(Method::POST, RESET).header("Content-Type", kind);
        outcome(request.body(body).send().await.unwrap()).await
    };
    let long = format!("{{\"ResetType\":\"{}\"}}", "x".repeat(70_000));
    assert_eq!(post(long, "application/json").await.0, 413);
    for body in ["{", "[]", "null", "\u{0}"] {
        is(
            &post(body.into(), "application/json").await,
            400,
            "Base.1.4.MalformedJSON",
        );
    }
    is(
        &post("{}".into(), "text/plain").await,
        415,
        "iLO.2.14.UnsupportedMediaType",
    );
}

#[tokio::test]
async fn servers_are_apart() {
    let lab = lab(|config| config.servers = 3).await;
    let servers = lab.running.servers();
    let macs: std::collections::HashSet<_> = servers.iter().map(|server| &server.mac).collect();
    assert_eq!(macs.len(), 3);
    let url = format!("{}/redfish/v1/Systems/1/EthernetInterfaces/1", servers[2].url);
    let reply = lab
        .client
        .get(url)
        .basic_auth(USER, Some(PASSWORD))
        .send()
        .await
        .unwrap();
    assert_eq!(
        reply.json::<Value>().await.unwrap()["MACAddress"],
        servers[2].mac.as_str()
    );
    lab.insert(CD, "http://127.0.0.1:1/a.iso").await;
    assert!(lab.running.inserted(1, Device::Cd).unwrap().is_none());
    assert!(lab.running.server(3).is_err());
}
