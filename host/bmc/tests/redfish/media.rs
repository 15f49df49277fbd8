//! Virtual media: what is sent, in which order, and what is believed.

use crate::peer::*;
use bmc::{Bmc, BmcError, InsertMedia};
use model::{Device, Media, Secret};
use serde_json::{Value, json};

const URL: &str = "http://10.0.0.1:8080/v/t0k3n/boot.iso";
const BODY: &str = r#"{"Image":"http://10.0.0.1:8080/v/t0k3n/boot.iso"}"#;
const GET_CD: &str = "GET /redfish/v1/Managers/1/VirtualMedia/2";
const PATCH_CD: &str = "PATCH /redfish/v1/Managers/1/VirtualMedia/2";

fn image() -> InsertMedia {
    InsertMedia {
        url: Secret::new(URL),
        boot_once: false,
        server_certificate: None,
    }
}

fn empty() -> Answer {
    ok(slot(CD, None))
}

fn holds(url: &str) -> Answer {
    ok(slot(CD, Some(url)))
}

/// An empty slot in which an insert succeeds: found, looked at, read back.
async fn ready() -> Peer {
    let peer = Peer::start().await.into_ilo5();
    peer.on(GET_CD, [empty(), empty(), holds(URL)]);
    peer.on(INSERT, [status(200)]);
    peer
}

fn without_actions(mut slot: Value) -> Value {
    let object = slot.as_object_mut().unwrap();
    object.remove("Actions");
    object.remove("Oem");
    slot
}

#[tokio::test]
async fn an_empty_slot_gets_the_image_and_nothing_else_is_touched() {
    let peer = ready().await;
    peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
    assert_eq!(peer.changes(), [format!("{INSERT} {BODY}")]);
}

#[tokio::test]
async fn what_is_there_is_ejected_first_even_if_it_is_the_same_image() {
    for before in ["http://elsewhere/x.iso", URL] {
        let peer = ready().await;
        // It goes on saying Inserted after the eject.
        peer.on(
            GET_CD,
            [
                empty(),
                holds(before),
                holds(before),
                holds(before),
                empty(),
                holds(URL),
            ],
        );
        peer.on(EJECT, [status(200)]);
        peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
        assert_eq!(peer.changes(), [format!("{EJECT} {{}}"), format!("{INSERT} {BODY}")]);
        let lines = peer.lines();
        let eject = lines.iter().position(|line| line == EJECT).unwrap();
        let insert = lines.iter().position(|line| line == INSERT).unwrap();
        assert_eq!(
            insert - eject,
            1 + 3,
            "the insert waits until the slot reads empty: {lines:?}"
        );
    }
}

#[tokio::test]
async fn media_that_never_leave_are_an_error_and_nothing_is_inserted_over_them() {
    let peer = ready().await;
    peer.on(GET_CD, [holds(URL)]);
    peer.on(EJECT, [status(200)]);
    let error = peer.client().insert_media(Device::Cdrom, &image()).await.unwrap_err();
    assert!(matches!(error, BmcError::Busy { .. }), "{error}");
    assert_eq!(peer.changes(), [format!("{EJECT} {{}}")]);
}

#[tokio::test]
async fn a_yes_without_media_is_an_error_that_says_what_to_check() {
    for after in [empty(), holds("http://elsewhere/x.iso")] {
        let peer = ready().await;
        peer.on(GET_CD, [empty(), empty(), after]);
        let error = peer.client().insert_media(Device::Cdrom, &image()).await.unwrap_err();
        assert!(matches!(error, BmcError::Refused { .. }), "{error}");
        assert!(error.to_string().contains("can reach the image server"), "{error}");
        assert!(!error.to_string().contains("t0k3n"), "{error}");
    }
}

#[tokio::test]
async fn two_failures_then_a_yes_are_exactly_three_calls() {
    for failure in [status(500), status(503), Answer::Drop] {
        let peer = ready().await;
        peer.on(INSERT, [failure.clone(), failure.clone(), status(200)]);
        peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
        assert_eq!(peer.changes(), vec![format!("{INSERT} {BODY}"); 3]);
        // And no more than three.
        let peer = ready().await;
        peer.on(GET_CD, [empty()]);
        peer.on(INSERT, [failure]);
        peer.client().insert_media(Device::Cdrom, &image()).await.unwrap_err();
        assert_eq!(peer.changes().len(), 3);
    }
}

#[tokio::test]
async fn an_insert_whose_answer_got_lost_counts_if_it_reads_back() {
    let peer = ready().await;
    let occupied = says_no(400, "iLO.2.14.MaxVirtualMediaConnectionEstablished", &[]);
    peer.on(INSERT, [Answer::Drop, occupied]);
    peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
    assert_eq!(peer.changes().len(), 2);
}

#[tokio::test]
async fn a_server_in_post_is_waited_for() {
    for id in [
        "iLO.2.14.UnableToModifyDuringSystemPOST",
        "iLO.2.14.InvalidOperationForSystemState",
    ] {
        let peer = ready().await;
        let busy = says_no(400, id, &[]);
        peer.on(INSERT, [busy.clone(), busy.clone(), busy.clone(), busy, status(200)]);
        peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
        assert_eq!(peer.changes().len(), 5);
    }
}

#[tokio::test]
async fn each_complaint_adds_one_rung_of_the_ladder() {
    let peer = ready().await;
    let missing = |name| says_no(400, "Base.1.5.ActionParameterMissing", &["InsertMedia", name]);
    peer.on(
        INSERT,
        [
            missing("TransferProtocolType"),
            missing("TransferMethod"),
            missing("UserName"),
            status(204),
        ],
    );
    peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
    let bodies: Vec<Value> = peer
        .changes()
        .iter()
        .map(|line| serde_json::from_str(line.strip_prefix(INSERT).unwrap()).unwrap())
        .collect();
    assert_eq!(
        bodies,
        [
            json!({"Image": URL}),
            json!({"Image": URL, "TransferProtocolType": "HTTP"}),
            json!({"Image": URL, "TransferProtocolType": "HTTP", "TransferMethod": "Stream"}),
            json!({"Image": URL, "TransferProtocolType": "HTTP", "TransferMethod": "Stream", "UserName": "none", "Password": "none"}),
        ]
    );
}

#[tokio::test]
async fn hpes_own_action_is_tried_when_the_standard_one_will_not() {
    for refusal in [
        status(404),
        status(405),
        says_no(400, "Base.1.4.ActionNotSupported", &[]),
        status(400),
    ] {
        let peer = ready().await;
        peer.on(INSERT, [refusal]);
        peer.on(OEM_INSERT, [status(200)]);
        peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
        assert_eq!(
            peer.changes(),
            [format!("{INSERT} {BODY}"), format!("{OEM_INSERT} {BODY}")]
        );
    }
}

#[tokio::test]
async fn a_certificate_reaches_the_bmc_through_hpes_own_action() {
    let peer = ready().await;
    let url = "https://10.0.0.1/v/t0k3n/boot.iso";
    peer.on(GET_CD, [empty(), empty(), holds(url)]);
    peer.on(OEM_INSERT, [status(200)]);
    let image = InsertMedia {
        url: Secret::new(url),
        server_certificate: Some("PEM".into()),
        ..image()
    };
    peer.client().insert_media(Device::Cdrom, &image).await.unwrap();
    assert_eq!(
        peer.changes(),
        [format!("{OEM_INSERT} {}", json!({"Certificate": "PEM", "Image": url}))]
    );
}

#[tokio::test]
async fn a_slot_without_actions_is_patched_with_its_etag() {
    let peer = Peer::start().await.into_ilo5();
    let (none, some) = (without_actions(slot(CD, None)), without_actions(slot(CD, Some(URL))));
    let Answer::Say(code, _, body) = ok(none) else {
        unreachable!()
    };
    let tagged = Answer::Say(code, vec![("etag", "\"7\"".into())], body);
    peer.on(GET_CD, [tagged.clone(), tagged.clone(), tagged, ok(some)]);
    peer.on(
        PATCH_CD,
        [
            status(428),
            says_no(400, "Base.1.0.PropertyUnknown", &["Inserted"]),
            status(200),
        ],
    );
    peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
    let patches: Vec<_> = peer.seen().into_iter().filter(|seen| seen.line == PATCH_CD).collect();
    let tags: Vec<_> = patches
        .iter()
        .map(|patch| patch.headers.get("if-match").map(String::as_str))
        .collect();
    assert_eq!(tags[1], Some("\"7\""));
    let bodies: Vec<Value> = patches
        .iter()
        .map(|patch| serde_json::from_str(&patch.body).unwrap())
        .collect();
    assert_eq!(
        bodies,
        [
            json!({"Image": URL, "Inserted": true, "WriteProtected": true}),
            json!({"Image": URL, "Inserted": true, "WriteProtected": true}),
            json!({"Image": URL, "WriteProtected": true}),
        ]
    );
}

#[tokio::test]
async fn a_slot_without_actions_is_emptied_by_a_patch() {
    let peer = Peer::start().await.into_ilo5();
    let (none, some) = (without_actions(slot(CD, None)), without_actions(slot(CD, Some(URL))));
    peer.on(GET_CD, [ok(none.clone()), ok(some), ok(none)]);
    peer.on(PATCH_CD, [status(200)]);
    peer.client().eject_media(Device::Cdrom).await.unwrap();
    assert_eq!(
        peer.changes(),
        [format!("{PATCH_CD} {}", json!({"Image": null, "Inserted": false}))]
    );
}

#[tokio::test]
async fn the_next_slot_is_tried_when_one_will_not() {
    let peer = Peer::start().await.into_ilo5();
    let second = "/redfish/v1/Managers/1/VirtualMedia/3";
    let as_second = |image| {
        let text = slot(CD, image).to_string().replace("VirtualMedia/2", "VirtualMedia/3");
        Answer::Say(200, vec![], text)
    };
    let link = |path: &str| json!({"@odata.id": path});
    peer.on(
        "GET /redfish/v1/Managers/1/VirtualMedia",
        [ok(json!({"Members": [link(FLOPPY), link(CD), link(second)]}))],
    );
    peer.on(
        &format!("GET {second}"),
        [as_second(None), as_second(None), as_second(Some(URL))],
    );
    let insert_second = format!("POST {second}/Actions/VirtualMedia.InsertMedia");
    peer.on(INSERT, [status(405)]);
    peer.on(OEM_INSERT, [status(405)]);
    peer.on(&insert_second, [status(204)]);
    peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
    assert_eq!(peer.changes().last().unwrap(), &format!("{insert_second} {BODY}"));
}

#[tokio::test]
async fn a_missing_licence_is_named_at_once() {
    let peer = ready().await;
    peer.on(INSERT, [says_no(400, "iLO.2.14.LicenseKeyRequired", &[])]);
    peer.on(GET_CD, [empty()]);
    let error = peer.client().insert_media(Device::Cdrom, &image()).await.unwrap_err();
    assert!(matches!(error, BmcError::License { .. }), "{error}");
    assert_eq!(peer.changes().len(), 1);
}

#[tokio::test]
async fn disabled_media_are_refused_with_the_remedy_and_without_the_url() {
    let peer = ready().await;
    let body = json!({"error": {"@Message.ExtendedInfo": [{
        "MessageId": "iLO.2.14.VirtualMediaIsDisabled",
        "Message": format!("Virtual Media is disabled, cannot mount {URL} (/v/t0k3n/boot.iso)."),
    }]}});
    peer.on(GET_CD, [empty()]);
    for request in [INSERT, OEM_INSERT] {
        peer.on(request, [Answer::Say(400, vec![], body.to_string())]);
    }
    let error = peer.client().insert_media(Device::Cdrom, &image()).await.unwrap_err();
    assert!(matches!(error, BmcError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("enable virtual media"), "{error}");
    assert!(!error.to_string().contains("t0k3n"), "{error}");
}

#[tokio::test]
async fn boot_once_is_set_after_the_image_is_in() {
    let peer = ready().await;
    peer.on(PATCH_CD, [status(200)]);
    let image = InsertMedia {
        boot_once: true,
        ..image()
    };
    peer.client().insert_media(Device::Cdrom, &image).await.unwrap();
    assert_eq!(
        peer.changes(),
        [
            format!("{INSERT} {BODY}"),
            format!(
                "{PATCH_CD} {}",
                json!({"Oem": {"Hpe": {"BootOnNextServerReset": true}}})
            )
        ]
    );
}

#[tokio::test]
async fn boot_once_elsewhere_than_on_hpe_is_refused_before_anything_is_inserted() {
    let peer = ready().await;
    peer.on(GET_CD, [ok(without_actions(slot(CD, None)))]);
    let image = InsertMedia {
        boot_once: true,
        ..image()
    };
    let error = peer.client().insert_media(Device::Cdrom, &image).await.unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    assert_eq!(peer.changes(), [""; 0]);
}

#[tokio::test]
async fn a_url_that_no_bmc_can_fetch_is_refused_before_the_bmc_sees_it() {
    let peer = ready().await;
    for url in [
        "file:///srv/t0k3n.iso",
        "/srv/t0k3n.iso",
        &format!("http://h/{}.iso", "t0k3n".repeat(60)),
    ] {
        let image = InsertMedia {
            url: Secret::new(url),
            ..image()
        };
        let error = peer.client().insert_media(Device::Cdrom, &image).await.unwrap_err();
        assert!(matches!(error, BmcError::Refused { .. }), "{error}");
        assert!(!error.to_string().contains("t0k3n"), "{error}");
    }
    assert_eq!(peer.lines(), [""; 0]);
}

#[tokio::test]
async fn ejecting_an_empty_slot_asks_for_nothing() {
    let peer = Peer::start().await.into_ilo5();
    peer.client().eject_media(Device::Cdrom).await.unwrap();
    assert_eq!(peer.changes(), [""; 0]);
}

#[tokio::test]
async fn ejecting_sends_an_empty_object_and_waits_until_it_is_gone() {
    let peer = Peer::start().await.into_ilo5();
    peer.on(GET_CD, [empty(), holds(URL), holds(URL), empty()]);
    peer.on(EJECT, [status(500), status(500), status(200)]);
    let bmc = peer.client();
    bmc.eject_media(Device::Cdrom).await.unwrap();
    assert_eq!(peer.changes(), vec![format!("{EJECT} {{}}"); 3]);
    bmc.eject_media(Device::Cdrom).await.unwrap();
    assert_eq!(peer.changes().len(), 3);
}

#[tokio::test]
async fn a_refused_eject_counts_if_the_slot_is_empty_after_all() {
    let peer = Peer::start().await.into_ilo5();
    peer.on(GET_CD, [empty(), holds(URL), empty()]);
    peer.on(EJECT, [says_no(400, "iLO.2.14.NoVirtualMediaConnectionAvailable", &[])]);
    peer.client().eject_media(Device::Cdrom).await.unwrap();
}

#[tokio::test]
async fn media_are_read_as_the_bmc_shows_them() {
    let peer = Peer::start().await.into_ilo5();
    peer.on(GET_CD, [holds(URL)]);
    let bmc = peer.client();
    let cd = bmc.media(Device::Cdrom).await.unwrap();
    assert_eq!(
        cd,
        Media {
            inserted: true,
            connected: true,
            write_protected: true,
            url: Some(URL.into())
        }
    );
    let floppy = bmc.media(Device::Floppy).await.unwrap();
    assert_eq!(
        floppy,
        Media {
            write_protected: true,
            ..Media::default()
        }
    );
}

#[tokio::test]
async fn media_under_the_system_are_found_too() {
    let peer = Peer::start().await.into_ilo5();
    let mut system = system("Off");
    system["VirtualMedia"] = json!({"@odata.id": "/redfish/v1/Managers/1/VirtualMedia"});
    peer.on("GET /redfish/v1/Managers/1", [ok(json!({}))]);
    peer.on("GET /redfish/v1/Systems/1", [ok(system)]);
    peer.client().eject_media(Device::Cdrom).await.unwrap();
}

#[tokio::test]
async fn a_bmc_without_a_floppy_says_so() {
    let peer = Peer::start().await.into_ilo5();
    peer.on(
        "GET /redfish/v1/Managers/1/VirtualMedia",
        [ok(json!({"Members": [{"@odata.id": CD}]}))],
    );
    let error = peer.client().media(Device::Floppy).await.unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("floppy"), "{error}");
}
