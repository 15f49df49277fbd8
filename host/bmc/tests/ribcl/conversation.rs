//! How commands travel: envelope, failures among successes, tries again, deadlines, the fence, the breaker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::peer::*;
use bmc::ribcl::RibclBmc;
use bmc::trace::Form;
use bmc::{Bmc, BmcConfig, BmcError, Deadlines, Fence};
use model::{PowerAction, PowerState};

async fn on() -> Peer {
    let peer = Peer::http().await;
    peer.on("GET_HOST_POWER_STATUS", [power("ON")]);
    peer
}

#[tokio::test]
async fn a_command_is_posted_in_its_envelope_and_the_password_is_escaped() {
    let peer = on().await;
    assert_eq!(peer.client().power_state().await.unwrap(), PowerState::On);
    let letters = peer.letters();
    assert!(letters[0].starts_with("POST /ribcl HTTP/1.1\r\n"), "{letters:?}");
    assert!(
        letters[0].ends_with(
            "\r\n\r\n<?xml version=\"1.0\"?>\r\n<RIBCL VERSION=\"2.0\">\r\n<LOGIN USER_LOGIN=\"admin\" PASSWORD=\"hunter2&amp;&quot;&lt;\">\r\n\
             <SERVER_INFO MODE=\"read\">\r\n<GET_HOST_POWER_STATUS/>\r\n</SERVER_INFO>\r\n</LOGIN>\r\n</RIBCL>\r\n"
        ),
        "{letters:?}"
    );
}

#[tokio::test]
async fn an_answer_means_the_same_however_it_is_cut_into_chunks() {
    let Answer::Say(text) = power("ON") else { unreachable!() };
    let peer = on().await;
    let bmc = peer.client();
    let bytes = text.len();
    for size in [1, 2, 3, 7, 29, 100, bytes] {
        let letters: Vec<char> = text.chars().collect();
        let parts = letters.chunks(size).map(|part| part.iter().collect()).collect();
        peer.on("GET_HOST_POWER_STATUS", [Answer::Chunks(parts)]);
        assert_eq!(bmc.power_state().await.unwrap(), PowerState::On, "chunks of {size}");
    }
}

#[tokio::test]
async fn every_status_is_a_typed_error_after_one_try() {
    type Is = fn(&BmcError) -> bool;
    let table: [(u32, Is); 9] = [
        (0x0001, |e| matches!(e, BmcError::Unsupported { .. })),
        (0x000A, |e| matches!(e, BmcError::Login { .. })),
        (0x0023, |e| matches!(e, BmcError::Login { .. })),
        (0x002E, |e| matches!(e, BmcError::License { .. })),
        (0x0035, |e| matches!(e, BmcError::Refused { .. })),
        (0x003C, |e| matches!(e, BmcError::Unsupported { .. })),
        (0x005F, |e| matches!(e, BmcError::Login { .. })),
        (0x006D, |e| matches!(e, BmcError::Refused { .. })),
        (0x7777, |e| matches!(e, BmcError::Refused { .. })),
    ];
    for (code, is) in table {
        let peer = on().await;
        peer.on("GET_HOST_POWER_STATUS", [fails(code, "so says hunter2&\"<")]);
        let error = peer.client().power_state().await.unwrap_err();
        assert!(is(&error), "{code:#06x}: {error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert_eq!(peer.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_bmc_that_is_busy_is_asked_again() {
    let peer = on().await;
    peer.on(
        "GET_HOST_POWER_STATUS",
        [
            fails(0x0088, "generating a CSR"),
            fails(0x0088, "generating a CSR"),
            power("ON"),
        ],
    );
    assert_eq!(peer.client().power_state().await.unwrap(), PowerState::On);
    assert_eq!(peer.seen().len(), 3);
}

#[tokio::test]
async fn a_command_survives_two_failures_and_not_three() {
    let Answer::Say(text) = power("ON") else { unreachable!() };
    for failure in [
        Answer::Status(500),
        Answer::Status(503),
        Answer::Drop,
        Answer::Cut(text),
    ] {
        let peer = on().await;
        peer.on("GET_HOST_POWER_STATUS", [failure.clone(), failure.clone(), power("ON")]);
        assert_eq!(peer.client().power_state().await.unwrap(), PowerState::On);
        peer.on("GET_HOST_POWER_STATUS", [failure]);
        let before = peer.seen().len();
        peer.client().power_state().await.unwrap_err();
        assert_eq!(peer.seen().len() - before, 3);
    }
}

#[tokio::test]
async fn a_restart_whose_answer_got_lost_is_not_sent_twice() {
    for failure in [Answer::Status(500), Answer::Drop] {
        let peer = on().await;
        peer.on("RESET_SERVER", [failure]);
        peer.client().set_power(PowerAction::ForceRestart).await.unwrap_err();
        assert_eq!(peer.changes(), ["<RESET_SERVER/>"]);
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_are_protocol_errors() {
    for body in [
        "",
        "<html></html>",
        "{}",
        "<RIBCL VERSION=\"2.0\"></RIBCL>",
        &"x".repeat(2 << 20),
    ] {
        let peer = on().await;
        peer.on("GET_HOST_POWER_STATUS", [Answer::Say(body.to_owned())]);
        let error = peer.client().power_state().await.unwrap_err();
        assert!(matches!(error, BmcError::Protocol { .. }), "{error}");
        assert!(error.to_string().len() < 500);
    }
}

#[tokio::test]
async fn ribcl_that_is_switched_off_is_unsupported() {
    let peer = on().await;
    peer.on("GET_HOST_POWER_STATUS", [Answer::Status(404)]);
    let error = peer.client().power_state().await.unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("switched off"), "{error}");
}

fn with(peer: &Peer, change: impl FnOnce(&mut BmcConfig)) -> RibclBmc {
    let mut config = peer.config();
    change(&mut config);
    RibclBmc::new(config, Form::Http).unwrap()
}

#[tokio::test]
async fn a_bmc_that_hangs_is_left_after_the_deadline_and_the_turn_passes_on() {
    let peer = on().await;
    peer.on("GET_HOST_POWER_STATUS", [Answer::Hang, power("ON")]);
    let request = Duration::from_millis(300);
    let bmc = with(&peer, |config| config.deadlines.request = request);
    let start = Instant::now();
    let error = bmc.power_state().await.unwrap_err();
    assert!(matches!(error, BmcError::Timeout { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
    bmc.power_state().await.unwrap();
}

#[tokio::test]
async fn a_caller_that_goes_away_passes_the_turn_on() {
    let peer = on().await;
    peer.on("GET_HOST_POWER_STATUS", [Answer::Hang, power("ON")]);
    let bmc = peer.client();
    let gone = tokio::time::timeout(Duration::from_millis(300), bmc.power_state()).await;
    assert!(gone.is_err());
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::On);
}

#[tokio::test]
async fn one_command_is_under_way_at_a_time() {
    let peer = on().await;
    let bmc = Arc::new(peer.client());
    let verbs: Vec<_> = (0..8)
        .map(|_| {
            let bmc = Arc::clone(&bmc);
            tokio::spawn(async move { bmc.power_state().await })
        })
        .collect();
    for verb in verbs {
        verb.await.unwrap().unwrap();
    }
    assert_eq!(peer.seen().len(), 8);
    // HTTP keeps the connection, and nobody opened a second one beside it.
    assert_eq!(peer.connections(), 1);
}

struct Window(Option<Duration>);

impl Fence for Window {
    fn window(&self) -> Option<Duration> {
        self.0
    }
}

#[tokio::test]
async fn nothing_is_changed_when_the_lease_ends_soon_but_reading_goes_on() {
    for window in [None, Some(Duration::from_millis(49))] {
        let peer = on().await;
        let bmc = with(&peer, |config| config.fence = Arc::new(Window(window)));
        assert_eq!(bmc.power_state().await.unwrap(), PowerState::On);
        let error = bmc.set_power(PowerAction::Off).await.unwrap_err();
        assert!(matches!(error, BmcError::LeaseEnding { .. }), "{error}");
        assert_eq!(peer.changes(), [""; 0]);
    }
}

#[tokio::test]
async fn a_change_does_not_outlive_the_window() {
    let peer = on().await;
    peer.on("HOLD_PWR_BTN", [Answer::Hang]);
    let window = Duration::from_millis(200);
    let bmc = with(&peer, |config| config.fence = Arc::new(Window(Some(window))));
    let error = bmc.set_power(PowerAction::Off).await.unwrap_err();
    assert!(
        matches!(error, BmcError::Timeout { after, .. } if after == window),
        "{error}"
    );
}

#[tokio::test]
async fn a_bmc_that_is_not_there_is_left_alone_after_three_tries() {
    let peer = on().await;
    peer.on("GET_HOST_POWER_STATUS", [Answer::Drop]);
    let bmc = with(&peer, |config| {
        config.deadlines = Deadlines {
            rest: Duration::from_secs(600),
            ..quick()
        }
    });
    for _ in 0..3 {
        bmc.power_state().await.unwrap_err();
    }
    let asked = peer.seen().len();
    let error = bmc.power_state().await.unwrap_err();
    assert!(matches!(error, BmcError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("left alone"), "{error}");
    assert_eq!(peer.seen().len(), asked);
}

#[tokio::test]
async fn a_wrong_password_is_tried_three_times_in_all_and_then_given_a_rest() {
    let peer = on().await;
    peer.on("GET_HOST_POWER_STATUS", [fails(0x005F, "Login failed.")]);
    let bmc = with(&peer, |config| {
        config.deadlines = Deadlines {
            rest: Duration::from_secs(600),
            ..quick()
        }
    });
    for _ in 0..10 {
        bmc.power_state().await.unwrap_err();
    }
    assert_eq!(
        peer.seen().len(),
        3,
        "each try counts towards the lock-out of the account"
    );
}

#[tokio::test]
async fn a_raw_command_gets_its_payload_as_xml() {
    let peer = on().await;
    peer.on("GET_VM_STATUS", [vm(None, "NO_BOOT")]);
    let bmc = peer.client();
    let argument = [("DEVICE".to_owned(), "CDROM".to_owned())];
    let xml = bmc.raw_ribcl("get_vm_status", &argument).await.unwrap();
    assert_eq!(
        xml,
        "<GET_VM_STATUS VM_APPLET=\"DISCONNECTED\" DEVICE=\"CDROM\" BOOT_OPTION=\"NO_BOOT\" WRITE_PROTECT=\"YES\" IMAGE_INSERTED=\"NO\" IMAGE_URL=\"\"/>"
    );
    for (command, arguments) in [
        ("FORMAT_DISK", &[][..]),
        ("GET_VM_STATUS", &[]),
        ("GET_FW_VERSION", &argument),
    ] {
        let error = bmc.raw_ribcl(command, arguments).await.unwrap_err();
        assert!(matches!(error, BmcError::Refused { .. }), "{error}");
    }
    assert_eq!(peer.seen().len(), 1);
}
