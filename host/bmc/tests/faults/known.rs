//! Faults that other software of this kind was reported to have, each provoked at a simulated BMC, and the right outcome asserted
//! on what the BMC was asked. Those that are not a matter of a BMC's dialogue are told elsewhere: the order of power-off and
//! eject, proof of fetch and take-over in the stories (`tests/stories`), URLs and tokens in `host/storage`.

use std::time::Duration;

use bmc::{Bmc, BmcConfig, BmcError, Deadlines, InsertMedia, ProbedBmc};
use model::{BootDevice, Device, PowerState};
use serde_json::{Value, json};

use crate::support::*;

/// Bodies of the requests to this last part of a path, in order.
fn bodies(lab: &Lab, method: &str, part: &str) -> Vec<Value> {
    let trace = lab.trace().into_iter();
    trace
        .filter(|one| one.method == method && one.path.trim_end_matches('/').ends_with(part))
        .map(|one| one.body.unwrap_or_default())
        .collect()
}

fn count(lab: &Lab, method: &str, part: &str) -> usize {
    bodies(lab, method, part).len()
}

#[tokio::test]
async fn a_bmc_that_says_inserted_for_seconds_after_an_eject_gets_the_same_url_anew() {
    let lab = faulty("ilo5", "[[rule]]\npath = '*.EjectMedia'\nstale-inserted-ms = 3000").await;
    let bmc = lab.client();
    bmc.insert_media(Device::Cdrom, &image(URL)).await.unwrap();
    bmc.insert_media(Device::Cdrom, &image(URL)).await.unwrap();
    let wanted = [
        "POST VirtualMedia.InsertMedia",
        "POST VirtualMedia.EjectMedia",
        "POST VirtualMedia.InsertMedia",
    ];
    assert_eq!(lab.changes(), wanted);
    assert_eq!(lab.running.inserted(0, sim::Device::Cd).unwrap().as_deref(), Some(URL));
    // Between the eject and the insert it was looked at until it was empty, and after the insert it was read back.
    let last = lab
        .trace()
        .into_iter()
        .rfind(|one| !one.path.contains("Sessions"))
        .unwrap();
    assert_eq!(last.method, "GET");
    bmc.close().await;
    lab.no_session(0, "").await;
}

#[tokio::test]
async fn two_500s_while_an_eject_is_finishing_are_exactly_three_calls() {
    let lab = faulty("ilo5", "[[rule]]\npath = '*.EjectMedia'\ntimes = 2\nstatus = 500").await;
    let bmc = lab.client();
    bmc.insert_media(Device::Cdrom, &image(URL)).await.unwrap();
    bmc.eject_media(Device::Cdrom).await.unwrap();
    assert_eq!(count(&lab, "POST", "VirtualMedia.EjectMedia"), 3);
    assert_eq!(lab.running.inserted(0, sim::Device::Cd).unwrap(), None);
}

#[tokio::test]
async fn a_url_of_300_characters_is_a_clear_refusal_and_a_short_one_works() {
    let lab = faulty("ilo5", "").await;
    let bmc = lab.client();
    let long = format!("http://127.0.0.1:9/{}.iso", "x".repeat(277));
    assert_eq!(long.len(), 300);
    let error = bmc.insert_media(Device::Cdrom, &image(&long)).await.unwrap_err();
    assert!(matches!(error, BmcError::Refused { .. }), "{error}");
    assert!(!error.to_string().contains("xxxx"), "{error}");
    assert_eq!(lab.running.inserted(0, sim::Device::Cd).unwrap(), None);
    bmc.insert_media(Device::Cdrom, &image(URL)).await.unwrap();
}

#[tokio::test]
async fn a_clean_path_with_the_right_ending_suits_bmcs_that_reject_queries_and_those_that_insist_on_endings() {
    for (profile, bad) in [
        ("supermicro", "http://127.0.0.1:9/x.iso?a=b"),
        ("supermicro", "http://127.0.0.1:9/a=b/x.iso"),
        ("ilo5", "http://127.0.0.1:9/x"),
    ] {
        let lab = faulty(profile, "").await;
        let bmc = lab.client();
        let error = bmc.insert_media(Device::Cdrom, &image(bad)).await.unwrap_err();
        assert!(
            matches!(
                error,
                BmcError::Refused { .. } | BmcError::Settings { .. } | BmcError::Unsupported { .. }
            ),
            "{profile} {bad}: {error}"
        );
        assert_eq!(
            lab.running.inserted(0, sim::Device::Cd).unwrap(),
            None,
            "{profile} {bad}"
        );
        bmc.insert_media(Device::Cdrom, &image(URL)).await.unwrap();
        assert_eq!(lab.running.inserted(0, sim::Device::Cd).unwrap().as_deref(), Some(URL));
    }
}

#[tokio::test]
async fn a_bmc_that_answers_property_unknown_gets_the_smallest_body_first() {
    for (profile, part) in [
        ("ilo4", "HpiLOVirtualMedia.InsertVirtualMedia"),
        ("supermicro", "VirtualMedia.InsertMedia"),
        ("ilo5", "VirtualMedia.InsertMedia"),
    ] {
        let lab = faulty(profile, "").await;
        lab.client().insert_media(Device::Cdrom, &image(URL)).await.unwrap();
        assert_eq!(bodies(&lab, "POST", part), [json!({"Image": URL})], "{profile}");
    }
}

#[tokio::test]
async fn an_unchanged_boot_source_override_mode_is_not_written() {
    let lab = faulty("ilo5", "").await;
    lab.client().set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    let patches = bodies(&lab, "PATCH", "/Systems/1");
    let boot = json!({"BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Once"});
    assert_eq!(patches, [json!({ "Boot": boot })]);
}

#[tokio::test]
async fn a_bmc_without_actions_is_patched_with_if_match() {
    // Its profile answers 428 to a change without a precondition.
    let lab = faulty("lenovo", "").await;
    let bmc = lab.client();
    bmc.insert_media(Device::Cdrom, &image(URL)).await.unwrap();
    assert_eq!(lab.running.inserted(0, sim::Device::Cd).unwrap().as_deref(), Some(URL));
    bmc.eject_media(Device::Cdrom).await.unwrap();
    assert_eq!(lab.running.inserted(0, sim::Device::Cd).unwrap(), None);
    assert!(
        lab.changes().iter().all(|change| change.starts_with("PATCH EXT")),
        "{:?}",
        lab.changes()
    );
    let inserts = bodies(&lab, "PATCH", "/EXT1");
    assert_eq!(inserts[0]["Image"], URL);
}

#[tokio::test]
async fn what_an_insert_demands_is_added_one_step_per_complaint() {
    let lab = faulty("ami", "").await;
    lab.client().insert_media(Device::Cdrom, &image(URL)).await.unwrap();
    let bodies = bodies(&lab, "POST", "VirtualMedia.InsertMedia");
    assert_eq!(bodies[0], json!({"Image": URL}));
    let names = |body: &Value| body.as_object().unwrap().len();
    assert!(
        bodies.windows(2).all(|pair| names(&pair[0]) < names(&pair[1])),
        "{bodies:?}"
    );
    let last = bodies.last().unwrap();
    for name in ["TransferProtocolType", "TransferMethod", "UserName", "Password"] {
        assert!(last.get(name).is_some(), "{name}: {last}");
    }
    assert_eq!(lab.running.inserted(0, sim::Device::Cd).unwrap().as_deref(), Some(URL));
}

#[tokio::test]
async fn a_204_that_mounted_nothing_is_found_out_by_reading_back() {
    for (profile, part) in [("ilo5", "*.Insert*"), ("dell", "*.InsertMedia")] {
        let rules = format!("[[rule]]\npath = '{part}'\nstatus = 204");
        let lab = faulty(profile, &rules).await;
        let error = lab.client().insert_media(Device::Cdrom, &image(URL)).await.unwrap_err();
        assert!(
            matches!(error, BmcError::Refused { .. } | BmcError::Busy { .. }),
            "{profile}: {error}"
        );
        assert!(!error.to_string().contains("t0k3n"), "{error}");
        let last = lab
            .trace()
            .into_iter()
            .rfind(|one| !one.path.contains("Sessions"))
            .unwrap();
        assert_eq!(last.method, "GET", "{profile}: it was looked at");
    }
}

#[tokio::test]
async fn leaked_sessions_of_others_do_not_lock_us_out_and_ours_is_one_and_is_deleted() {
    // Its table holds 8.
    let lab = faulty("dell", "").await;
    let mut others = Vec::new();
    for _ in 0..8 {
        let other = ProbedBmc::new(lab.config(0), None).unwrap();
        other.power_state().await.unwrap();
        others.push(other);
    }
    assert_eq!(lab.running.sessions(0).unwrap(), 8);
    let bmc = lab.client();
    for _ in 0..3 {
        bmc.power_state().await.unwrap();
    }
    bmc.close().await;
    assert_eq!(
        lab.running.sessions(0).unwrap(),
        8,
        "none was taken from anybody, and none is left by us"
    );
    for other in &others {
        other.close().await;
    }
    lab.no_session(0, "").await;
    let logins = count(&lab, "POST", "/Sessions");
    assert!((9..=11).contains(&logins), "{logins} logins of nine clients");
}

#[tokio::test]
async fn a_bmc_that_verifies_https_is_given_our_certificate() {
    let lab = lab("ilo5", |config| config.verify_media_tls = true).await;
    let image = InsertMedia {
        server_certificate: Some(std::fs::read_to_string(lab.running.ca_pem()).unwrap()),
        ..image("https://127.0.0.1:9/x.iso")
    };
    lab.client().insert_media(Device::Cdrom, &image).await.unwrap();
    let inserts = bodies(&lab, "POST", "HpeiLOVirtualMedia.InsertVirtualMedia");
    assert_eq!(inserts.len(), 1);
    assert!(inserts[0].get("Certificate").is_some(), "{inserts:?}");
}

#[tokio::test]
async fn a_bmc_that_takes_no_certificate_is_told_from_one_that_does() {
    let lab = faulty("supermicro", "").await;
    let image = InsertMedia {
        server_certificate: Some(std::fs::read_to_string(lab.running.ca_pem()).unwrap()),
        ..image("https://127.0.0.1:9/x.iso")
    };
    // It either refuses clearly or inserts without one, as its documentation has it; nothing is made up.
    match lab.client().insert_media(Device::Cdrom, &image).await {
        Ok(()) => assert!(
            bodies(&lab, "POST", ".InsertMedia")
                .iter()
                .all(|body| body.get("Certificate").is_none())
        ),
        Err(error) => assert!(error.to_string().contains("certificate"), "{error}"),
    }
}

#[tokio::test]
async fn a_file_url_is_refused_before_the_bmc_sees_it() {
    for profile in ["ilo5", "generic", "ilo3", "ilo4-ris"] {
        let lab = faulty(profile, "").await;
        for url in ["file:///etc/passwd", "/x.iso", "nfs://h/x.iso"] {
            let error = lab.client().insert_media(Device::Cdrom, &image(url)).await.unwrap_err();
            assert!(
                matches!(error, BmcError::Refused { .. } | BmcError::Settings { .. }),
                "{profile} {url}: {error}"
            );
        }
        assert_eq!(lab.changes(), Vec::<String>::new(), "{profile}");
    }
}

#[tokio::test]
async fn an_error_that_successes_follow_in_one_ribcl_answer_fails_the_call() {
    for profile in ["ilo3", "ilo2"] {
        let lab = faulty(
            profile,
            "[[rule]]\npath = '/ribcl/GET_FW_VERSION'\nskip = 3\nstatus = 200\nmessage = '0x0023'",
        )
        .await;
        let bmc = lab.client();
        let mut outcomes = Vec::new();
        for _ in 0..8 {
            outcomes.push(bmc.raw_ribcl("GET_FW_VERSION", &[]).await);
        }
        let error = outcomes.into_iter().find_map(Result::err).unwrap();
        assert!(
            matches!(error, BmcError::Login { .. } | BmcError::Refused { .. }),
            "{profile}: {error}"
        );
        let failed = lab.trace().into_iter().find(|one| one.fault.is_some()).unwrap();
        assert!(failed.message.unwrap().contains("0x0023"));
    }
}

#[tokio::test]
async fn ribcl_answers_that_are_no_xml_are_protocol_errors_and_odd_chunks_do_not_matter() {
    for profile in ["ilo3", "ilo2"] {
        for content in ["garbage", "html", "empty", "unfinished"] {
            let rules = format!("[[rule]]\npath = '/ribcl/GET_HOST_POWER_STATUS'\ncontent = '{content}'");
            let lab = faulty(profile, &rules).await;
            let deadlines = Deadlines {
                request: Duration::from_secs(2),
                verb: Duration::from_secs(4),
                ..quick()
            };
            let config = BmcConfig {
                deadlines,
                ..lab.config(0)
            };
            let bmc = ProbedBmc::new(config, None).unwrap();
            // Cut short behind what was asked for, it says that it does not know.
            match bmc.power_state().await {
                Ok(state) => assert_eq!(state, PowerState::Unknown, "{profile} {content}"),
                Err(error) => {
                    let typed = matches!(
                        error,
                        BmcError::Protocol { .. }
                            | BmcError::Busy { .. }
                            | BmcError::Unreachable { .. }
                            | BmcError::Timeout { .. }
                    );
                    assert!(typed, "{profile} {content}: {error}");
                }
            }
        }
        for split in [1, 2, 7] {
            let lab = faulty(profile, &format!("[[rule]]\npath = '/ribcl*'\nsplit = {split}")).await;
            lab.client().power_state().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_missing_licence_is_a_typed_error_that_names_the_remedy() {
    for profile in ["ilo5", "ilo4", "ilo4-ris", "ilo3", "ilo2"] {
        let lab = lab(profile, |config| config.unlicensed = true).await;
        let error = lab.client().insert_media(Device::Cdrom, &image(URL)).await.unwrap_err();
        assert!(matches!(error, BmcError::License { .. }), "{profile}: {error}");
        assert!(error.to_string().contains("iLO Advanced"), "{error}");
        assert_eq!(lab.running.inserted(0, sim::Device::Cd).unwrap(), None, "{profile}");
    }
}

#[tokio::test]
async fn a_boot_device_that_is_refused_during_post_is_set_when_post_is_over() {
    let rules = "[[rule]]\nmethod = 'PATCH'\npath = '/redfish/v1/Systems/1'\ntimes = 2\nstatus = 400\n\
                 message = 'iLO.2.14.UnableToModifyDuringSystemPOST'";
    let lab = faulty("ilo5", rules).await;
    lab.client().set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    assert_eq!(count(&lab, "PATCH", "/Systems/1"), 3);
}
