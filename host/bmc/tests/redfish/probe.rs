//! What a BMC speaks is found out by asking, kept, and found out anew when it is gone.

use crate::peer::*;
use bmc::probe::{Presence, Transport, probe};
use bmc::{Bmc, BmcError, ProbedBmc};
use model::PowerState;
use serde_json::{Value, json};

const ROOT: &str = "GET /redfish/v1/";
const RIBCL: &str = "POST /ribcl";

fn documents(payload: &str) -> Answer {
    let one = |inside: &str| {
        format!(
            "<?xml version=\"1.0\"?>\r\n<RIBCL VERSION=\"2.23\"><RESPONSE STATUS=\"0x0000\" MESSAGE='No error'/>{inside}</RIBCL>\r\n"
        )
    };
    Answer::Say(200, vec![], one("").repeat(4) + &one(payload))
}

fn html() -> Answer {
    Answer::Say(
        200,
        vec![("content-type", "text/html".into())],
        "<html>Log in</html>".into(),
    )
}

fn root() -> Answer {
    let link = |path: &str| json!({"@odata.id": path});
    ok(json!({
        "RedfishVersion": "1.6.0", "Oem": {"Hpe": {}},
        "Systems": link("/redfish/v1/Systems"), "Managers": link("/redfish/v1/Managers"),
    }))
}

async fn ilo5() -> Peer {
    let peer = Peer::start().await.into_ilo5();
    peer.on(ROOT, [root()]);
    peer.on(
        "GET /redfish/v1/Systems/1/Bios",
        [ok(json!({"Attributes": {"BootMode": "Uefi"}}))],
    );
    peer.on(
        "GET /redfish/v1/Systems/1/SecureBoot",
        [ok(json!({"SecureBootEnable": true}))],
    );
    peer.on(
        "GET /redfish/v1/Systems/1/EthernetInterfaces",
        [ok(json!({"Members": []}))],
    );
    peer
}

/// The root of RIS and a system that is on.
fn ris(peer: &Peer) {
    let member = |path: &str| json!({"links": {"Member": [{"href": path}]}});
    let on = |path: &str, body: Value| peer.on(&format!("GET {path}"), [ok(body)]);
    on("/rest/v1", json!({"links": {"Systems": {"href": "/rest/v1/Systems"}}}));
    on("/rest/v1/Systems", member("/rest/v1/Systems/1"));
    on("/rest/v1/Systems/1", json!({"Power": "On"}));
}

#[tokio::test]
async fn an_ilo_5_is_found_with_all_that_it_speaks_and_can_do_and_nothing_is_changed() {
    let peer = ilo5().await;
    peer.on(RIBCL, [documents("<GET_FW_VERSION FIRMWARE_VERSION=\"2.72\"/>")]);
    let found = probe(&peer.config()).await.unwrap();
    assert_eq!(found.transport, Transport::Redfish);
    let presence: Vec<(Transport, bool)> = found
        .findings
        .iter()
        .map(|finding| (finding.transport, matches!(finding.presence, Presence::Spoken { .. })))
        .collect();
    assert_eq!(
        presence,
        [
            (Transport::Redfish, true),
            (Transport::Ris, false),
            (Transport::Ribcl, true)
        ]
    );
    let Presence::Spoken { version, oem } = &found.findings[0].presence else {
        unreachable!()
    };
    assert_eq!((version.as_deref(), oem.as_deref()), (Some("1.6.0"), Some("Hpe")));
    assert_eq!(found.identity.bmc_license.as_deref(), Some("iLO Advanced"));
    let can = &found.capabilities;
    assert_eq!(
        (&can.cdrom, &can.floppy, &can.secure_boot),
        (&Ok(()), &Ok(()), &Ok(true))
    );
    assert!(can.boot_once && can.server_certificate);
    let changes: Vec<String> = peer
        .changes()
        .into_iter()
        .filter(|change| !change.starts_with(RIBCL))
        .collect();
    assert_eq!(
        changes,
        ["DELETE /redfish/v1/SessionService/Sessions/t0"],
        "and its session is ended"
    );
}

#[tokio::test]
async fn what_is_wrong_with_ribcl_does_not_speak_against_redfish() {
    let failed =
        "<?xml version=\"1.0\"?><RIBCL VERSION=\"2.23\"><RESPONSE STATUS=\"0x005F\" MESSAGE='Login failed.'/></RIBCL>";
    for answer in [
        status(401),
        status(503),
        Answer::Say(200, vec![], failed.into()),
        Answer::Drop,
    ] {
        let peer = ilo5().await;
        peer.on(RIBCL, [answer]);
        let found = probe(&peer.config()).await.unwrap();
        assert_eq!(found.transport, Transport::Redfish);
        assert!(
            matches!(found.findings[2].presence, Presence::Absent(_)),
            "{:?}",
            found.findings
        );
    }
}

#[tokio::test]
async fn the_root_is_asked_without_credentials() {
    let peer = ilo5().await;
    ProbedBmc::new(peer.config(), None).unwrap().transport().await.unwrap();
    let seen = peer.seen();
    assert_eq!(seen.len(), 1);
    for secret in ["authorization", "x-auth-token"] {
        assert!(!seen[0].headers.contains_key(secret));
    }
}

#[tokio::test]
async fn the_best_of_what_answers_is_taken() {
    for (redfish, has_ris, want) in [
        (vec![root()], true, Transport::Redfish),
        // Guarded, and there; guarded, and not there.
        (vec![status(401), root()], true, Transport::Redfish),
        (vec![status(401), status(404)], true, Transport::Ris),
        (vec![status(404)], true, Transport::Ris),
        (vec![html()], true, Transport::Ris),
        (vec![ok(json!({"hello": 1}))], true, Transport::Ris),
        (vec![status(404)], false, Transport::Ribcl),
        (vec![html()], false, Transport::Ribcl),
    ] {
        let peer = Peer::start().await;
        peer.on(ROOT, redfish);
        peer.on("GET /rest/v1", [html()]);
        peer.on(RIBCL, [documents("<GET_FW_VERSION FIRMWARE_VERSION=\"1.82\"/>")]);
        if has_ris {
            ris(&peer);
        }
        let bmc = ProbedBmc::new(peer.config(), None).unwrap();
        assert_eq!(bmc.transport().await.unwrap(), want);
    }
}

#[tokio::test]
async fn a_root_that_refuses_the_credentials_is_a_login_error_and_nothing_else_is_tried() {
    let peer = Peer::start().await;
    ris(&peer);
    peer.on(ROOT, [status(401)]);
    let error = ProbedBmc::new(peer.config(), None)
        .unwrap()
        .power_state()
        .await
        .unwrap_err();
    assert!(matches!(error, BmcError::Login { .. }), "{error}");
    assert_eq!(peer.lines(), [ROOT, ROOT]);
}

#[tokio::test]
async fn a_machine_that_speaks_nothing_is_told_with_each_reason() {
    let peer = Peer::start().await;
    for error in [
        probe(&peer.config()).await.unwrap_err(),
        ProbedBmc::new(peer.config(), None)
            .unwrap()
            .power_state()
            .await
            .unwrap_err(),
    ] {
        assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
        for part in ["redfish: HTTP 404", "ris: HTTP 404", "/ribcl", "legacy TLS"] {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
    }
}

#[tokio::test]
async fn a_service_that_is_only_starting_is_not_passed_over_for_a_worse_one() {
    let peer = Peer::start().await;
    ris(&peer);
    peer.on(ROOT, [status(503), root()]);
    peer.on(
        "GET /redfish/v1/Systems",
        [ok(json!({"Members": [{"@odata.id": SYSTEM}]}))],
    );
    peer.on("GET /redfish/v1/Systems/1", [ok(system("Off"))]);
    let bmc = ProbedBmc::new(peer.config(), None).unwrap();
    let error = bmc.power_state().await.unwrap_err();
    assert!(matches!(error, BmcError::Busy { .. }), "{error}");
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::Off);
    assert_eq!(bmc.transport().await.unwrap(), Transport::Redfish);
}

#[tokio::test]
async fn what_is_found_out_is_kept() {
    let peer = ilo5().await;
    let bmc = ProbedBmc::new(peer.config(), None).unwrap();
    for _ in 0..3 {
        bmc.power_state().await.unwrap();
    }
    assert!(bmc.session_uri().is_some());
    // Once to find out, once for its links.
    assert_eq!(peer.lines().iter().filter(|line| *line == ROOT).count(), 2);
    bmc.close().await;
    assert_eq!(peer.changes(), ["DELETE /redfish/v1/SessionService/Sessions/t0"]);
}

#[tokio::test]
async fn what_is_gone_is_found_out_anew_and_the_verb_goes_through() {
    let peer = Peer::start().await;
    ris(&peer);
    let bmc = ProbedBmc::new(peer.config(), None).unwrap();
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::On);
    assert_eq!(bmc.transport().await.unwrap(), Transport::Ris);
    // An upgrade of the firmware brings Redfish and takes RIS away.
    for path in ["/rest/v1", "/rest/v1/Systems", "/rest/v1/Systems/1"] {
        peer.on(&format!("GET {path}"), [status(404)]);
    }
    let _peer = peer.into_ilo5();
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::Off);
    assert_eq!(bmc.transport().await.unwrap(), Transport::Redfish);
}

#[tokio::test]
async fn a_resource_that_is_missing_is_no_reason_to_look_for_another_protocol() {
    let peer = ilo5().await;
    let bmc = ProbedBmc::new(peer.config(), None).unwrap();
    peer.on("GET /redfish/v1/Systems/1/SecureBoot", [status(404)]);
    let error = bmc.secure_boot().await.unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    assert!(
        !peer
            .lines()
            .iter()
            .any(|line| line.contains("rest") || line.contains("ribcl"))
    );
}

#[tokio::test]
async fn a_protocol_that_is_named_is_spoken_without_asking() {
    let peer = ilo5().await;
    ris(&peer);
    let bmc = ProbedBmc::new(peer.config(), Some(Transport::Ris)).unwrap();
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::On);
    assert!(
        peer.lines().iter().all(|line| line.contains("/rest/v1")),
        "{:?}",
        peer.lines()
    );
}

#[tokio::test]
async fn ribcl_is_answered_beside_redfish() {
    let peer = ilo5().await;
    peer.on(RIBCL, [documents("<GET_UID_STATUS UID=\"OFF\"/>")]);
    let bmc = ProbedBmc::new(peer.config(), None).unwrap();
    bmc.power_state().await.unwrap();
    assert_eq!(
        bmc.raw_ribcl("GET_UID_STATUS", &[]).await.unwrap(),
        "<GET_UID_STATUS UID=\"OFF\"/>"
    );
    peer.on(RIBCL, [status(404)]);
    let error = bmc.raw_ribcl("GET_UID_STATUS", &[]).await.unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    // That RIBCL is missing does not speak against Redfish.
    assert_eq!(bmc.transport().await.unwrap(), Transport::Redfish);
}
