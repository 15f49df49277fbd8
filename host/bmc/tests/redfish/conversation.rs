//! How requests travel: sessions, redirects, the fence, deadlines, and answers that are not what they should be.

use std::time::{Duration, Instant};

use crate::peer::*;
use bmc::redfish::RedfishBmc;
use bmc::{Bmc, BmcConfig, BmcError, Deadlines, Fence};
use model::{PowerAction, PowerState, Secret};
use serde_json::json;

const LOGIN: &str = "POST /redfish/v1/SessionService/Sessions";
const GET_SYSTEM: &str = "GET /redfish/v1/Systems/1";

#[tokio::test]
async fn one_session_serves_many_verbs_and_is_deleted_at_the_end() {
    let peer = Peer::start().await.into_ilo5();
    peer.on("DELETE /redfish/v1/SessionService/Sessions/t0", [status(200)]);
    let bmc = peer.client();
    assert_eq!(bmc.session_uri(), None);
    bmc.power_state().await.unwrap();
    bmc.power_state().await.unwrap();
    assert_eq!(bmc.session_uri().unwrap(), "/redfish/v1/SessionService/Sessions/t0");
    bmc.close().await;
    assert_eq!(bmc.session_uri(), None);
    assert_eq!(
        peer.lines(),
        [
            LOGIN,
            "GET /redfish/v1/",
            "GET /redfish/v1/Systems",
            GET_SYSTEM,
            GET_SYSTEM,
            GET_SYSTEM,
            "DELETE /redfish/v1/SessionService/Sessions/t0",
        ]
    );
    let seen = peer.seen();
    assert_eq!(
        seen[0].body,
        json!({"UserName": "admin", "Password": "hunter2"}).to_string()
    );
    assert!(!seen[0].headers.contains_key("x-auth-token"));
    for later in &seen[1..] {
        assert_eq!(later.headers["x-auth-token"], "token-t0");
        assert!(!later.headers.contains_key("authorization"));
    }
}

#[tokio::test]
async fn a_session_told_under_another_origin_is_deleted_on_ours() {
    let peer = Peer::start().await.into_ilo5();
    let uri = "/redfish/v1/SessionService/Sessions/t0";
    let location = format!("https://ilo.internal.example{uri}/");
    let headers = vec![("x-auth-token", "token-t0".to_owned()), ("location", location)];
    peer.on(LOGIN, [Answer::Say(201, headers, "{}".into())]);
    let bmc = peer.client();
    bmc.power_state().await.unwrap();
    bmc.close().await;
    assert_eq!(peer.changes(), [format!("DELETE {uri}/")]);
}

#[tokio::test]
async fn an_ended_session_is_renewed_once() {
    let peer = Peer::start().await.into_ilo5();
    peer.on(LOGIN, [session("t0"), session("t1")]);
    peer.on(
        GET_SYSTEM,
        [says_no(401, "Base.1.4.NoValidSession", &[]), ok(system("On"))],
    );
    let bmc = peer.client();
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::On);
    assert_eq!(bmc.session_uri().unwrap(), "/redfish/v1/SessionService/Sessions/t1");
    assert_eq!(peer.lines().iter().filter(|line| *line == LOGIN).count(), 2);
}

#[tokio::test]
async fn a_change_turned_away_with_401_is_sent_again_under_the_new_session() {
    let peer = Peer::start().await.into_ilo5();
    peer.on(LOGIN, [session("t0"), session("t1")]);
    peer.on(RESET, [status(401), status(200)]);
    peer.client().set_power(PowerAction::On).await.unwrap();
    assert_eq!(peer.changes().len(), 2);
    assert_eq!(peer.seen().last().unwrap().headers["x-auth-token"], "token-t1");
}

#[tokio::test]
async fn a_session_that_is_never_good_enough_is_a_login_error_and_no_loop() {
    let peer = Peer::start().await.into_ilo5();
    peer.on("GET /redfish/v1/", [status(401)]);
    let error = peer.client().power_state().await.unwrap_err();
    assert!(matches!(error, BmcError::Login { .. }), "{error}");
    assert_eq!(peer.lines(), [LOGIN, "GET /redfish/v1/", LOGIN, "GET /redfish/v1/"]);
}

#[tokio::test]
async fn a_wrong_password_is_a_login_error_after_one_try_and_is_not_repeated() {
    for answer in [
        status(401),
        status(403),
        says_no(400, "iLO.2.14.UnauthorizedLoginAttempt", &[]),
        Answer::Say(401, vec![], "hunter2".into()),
    ] {
        let peer = Peer::start().await.into_ilo5();
        peer.on(LOGIN, [answer]);
        let error = peer.client().power_state().await.unwrap_err();
        assert!(matches!(error, BmcError::Login { .. }), "{error}");
        assert!(!error.to_string().contains("hunter2"));
        assert_eq!(peer.lines(), [LOGIN]);
    }
}

#[tokio::test]
async fn a_delayed_login_says_when_to_come_back() {
    let peer = Peer::start().await.into_ilo5();
    let Answer::Say(code, _, body) = says_no(400, "iLO.2.14.LoginAttemptDelayed", &[]) else {
        unreachable!()
    };
    peer.on(LOGIN, [Answer::Say(code, vec![("retry-after", "20".into())], body)]);
    let error = peer.client().power_state().await.unwrap_err();
    assert!(
        matches!(error, BmcError::Busy { retry_after: Some(after), .. } if after == Duration::from_secs(20)),
        "{error}"
    );
}

#[tokio::test]
async fn a_full_session_table_or_none_at_all_falls_back_to_basic_authentication() {
    for refusal in [
        says_no(400, "Base.1.4.CreateLimitReachedForResource", &[]),
        says_no(503, "Base.1.8.SessionLimitExceeded", &[]),
        says_no(400, "IDRAC.2.4.RAC0218", &[]),
        status(500),
        status(404),
        status(405),
        // Says yes and hands out no token.
        status(200),
    ] {
        let peer = Peer::start().await.into_ilo5();
        peer.on(LOGIN, [refusal]);
        let bmc = peer.client();
        bmc.power_state().await.unwrap();
        bmc.power_state().await.unwrap();
        let seen = peer.seen();
        assert_eq!(seen[1].headers["authorization"], "Basic YWRtaW46aHVudGVyMg==");
        assert_eq!(peer.lines().iter().filter(|line| *line == LOGIN).count(), 1);
        assert_eq!(bmc.session_uri(), None);
    }
}

#[tokio::test]
async fn a_full_table_without_basic_authentication_is_busy_and_no_login_error() {
    let peer = Peer::start().await.into_ilo5();
    peer.on(LOGIN, [says_no(503, "Base.1.8.SessionLimitExceeded", &[])]);
    peer.on("GET /redfish/v1/", [status(401)]);
    let error = peer.client().power_state().await.unwrap_err();
    assert!(matches!(error, BmcError::Busy { .. }), "{error}");
    assert!(error.to_string().contains("SessionLimitExceeded"), "{error}");
}

#[tokio::test]
async fn sessions_can_be_switched_off() {
    let peer = Peer::start().await.into_ilo5();
    let bmc = RedfishBmc::new(BmcConfig {
        session: false,
        ..peer.config()
    })
    .unwrap();
    bmc.power_state().await.unwrap();
    bmc.close().await;
    assert!(peer.seen().iter().all(|seen| seen.line.starts_with("GET ")));
}

#[tokio::test]
async fn a_predecessors_session_is_deleted_by_its_recorded_path() {
    let old = "/redfish/v1/SessionService/Sessions/old";
    let peer = Peer::start().await.into_ilo5();
    peer.on(&format!("DELETE {old}"), [status(204), status(404)]);
    let bmc = peer.client();
    bmc.delete_session(old).await.unwrap();
    bmc.delete_session(old).await.unwrap();
    assert_eq!(peer.changes(), [format!("DELETE {old}"), format!("DELETE {old}")]);
    for bad in [
        "/redfish/v1/Systems/1",
        "http://elsewhere/redfish/v1/SessionService/Sessions/1",
        "",
    ] {
        bmc.delete_session(bad).await.unwrap_err();
    }
    assert_eq!(peer.changes().len(), 2);
}

#[tokio::test]
async fn redirects_keep_method_and_body_and_stay_on_the_origin() {
    for code in [307, 308] {
        let peer = Peer::start().await.into_ilo5();
        let slash = format!("{RESET}/");
        peer.on(
            RESET,
            [moved(code, "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset/")],
        );
        peer.on(&slash, [status(200)]);
        peer.client().set_power(PowerAction::On).await.unwrap();
        let body = r#"{"ResetType":"On"}"#;
        assert_eq!(peer.changes(), [format!("{RESET} {body}"), format!("{slash} {body}")]);
        assert_eq!(peer.seen().last().unwrap().headers["x-auth-token"], "token-t0");
    }
}

#[tokio::test]
async fn a_redirect_elsewhere_is_refused_and_nothing_is_sent_there() {
    let other = Peer::start().await;
    let peer = Peer::start().await.into_ilo5();
    for target in [
        format!("{}/redfish/v1/", other.address),
        peer.address.0.replace("http:", "https:"),
        "//elsewhere.example/redfish/v1/".into(),
        "file:///etc/passwd".into(),
    ] {
        for code in [301, 302, 307, 308] {
            peer.on("GET /redfish/v1/", [moved(code, &target)]);
            let error = peer.client().power_state().await.unwrap_err();
            assert!(matches!(error, BmcError::Protocol { .. }), "{target}: {error}");
            assert!(error.to_string().contains("another origin"), "{error}");
        }
    }
    assert_eq!(other.lines(), [""; 0]);
}

#[tokio::test]
async fn a_redirect_loop_ends_after_five() {
    let peer = Peer::start().await;
    peer.on("GET /redfish/v1/", [moved(308, "/redfish/v1/")]);
    let error = peer.client().power_state().await.unwrap_err();
    assert!(matches!(error, BmcError::Protocol { .. }), "{error}");
    assert_eq!(peer.lines().len(), 1 + 6);
}

#[tokio::test]
async fn links_that_lead_off_the_bmc_are_not_followed() {
    let other = Peer::start().await;
    let peer = Peer::start().await;
    let elsewhere = format!("{}/redfish/v1/Systems", other.address);
    for link in [
        elsewhere.as_str(),
        "//elsewhere.example/x",
        "http://admin:pw@127.0.0.1:1/",
        &"/x".repeat(2000),
    ] {
        peer.on("GET /redfish/v1/", [ok(json!({"Systems": {"@odata.id": link}}))]);
        let error = peer.client().power_state().await.unwrap_err();
        assert!(matches!(error, BmcError::Protocol { .. }), "{error}");
        assert!(!error.to_string().contains("pw"), "{error}");
    }
    assert_eq!(other.lines(), [""; 0]);
}

#[tokio::test]
async fn a_bmc_that_hangs_is_left_after_the_deadline() {
    let peer = Peer::start().await.into_ilo5();
    peer.on(GET_SYSTEM, [Answer::Hang]);
    let deadlines = Deadlines {
        request: Duration::from_millis(200),
        ..quick()
    };
    let bmc = RedfishBmc::new(BmcConfig {
        deadlines,
        ..peer.config()
    })
    .unwrap();
    let start = Instant::now();
    let error = bmc.power_state().await.unwrap_err();
    assert!(
        matches!(error, BmcError::Timeout { after, .. } if after <= Duration::from_millis(200)),
        "{error}"
    );
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(peer.lines().iter().filter(|line| *line == GET_SYSTEM).count(), 1);
}

#[tokio::test]
async fn a_verb_ends_in_time_however_many_requests_it_needs() {
    let peer = Peer::start().await.into_ilo5();
    peer.on(RESET, [says_no(400, "iLO.2.14.UnableToModifyDuringSystemPOST", &[])]);
    let deadlines = Deadlines {
        verb: Duration::from_millis(500),
        pause: Duration::from_millis(100),
        ..quick()
    };
    let bmc = RedfishBmc::new(BmcConfig {
        deadlines,
        ..peer.config()
    })
    .unwrap();
    let start = Instant::now();
    let error = bmc.set_power(PowerAction::ForceRestart).await.unwrap_err();
    assert!(
        matches!(error, BmcError::Busy { .. } | BmcError::Timeout { .. }),
        "{error}"
    );
    assert!(start.elapsed() < Duration::from_secs(3));
    assert!(peer.changes().len() > 1, "{:?}", peer.changes());
}

#[tokio::test]
async fn verbs_take_turns_and_a_late_one_says_so() {
    let peer = Peer::start().await.into_ilo5();
    peer.on(GET_SYSTEM, [Answer::Hang]);
    let deadlines = Deadlines {
        request: Duration::from_millis(700),
        verb: Duration::from_millis(300),
        ..quick()
    };
    let slow = RedfishBmc::new(BmcConfig {
        deadlines,
        ..peer.config()
    })
    .unwrap();
    let (first, second) = tokio::join!(slow.power_state(), slow.power_state());
    assert!(matches!(first, Err(BmcError::Timeout { .. })), "{first:?}");
    assert!(
        matches!(second, Err(BmcError::Busy { .. } | BmcError::Timeout { .. })),
        "{second:?}"
    );
    assert!(peer.lines().iter().filter(|line| *line == GET_SYSTEM).count() <= 2);
}

#[tokio::test]
async fn answers_that_make_no_sense_are_protocol_errors() {
    let huge = format!("{{\"x\":\"{}\"}}", "a".repeat(2 << 20));
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    for body in [
        "",
        "<html>",
        "{",
        "[]",
        "7",
        "null",
        "\u{0}\u{1}",
        huge.as_str(),
        deep.as_str(),
    ] {
        let peer = Peer::start().await.into_ilo5();
        peer.on(GET_SYSTEM, [Answer::Say(200, vec![], body.to_owned())]);
        let error = peer.client().power_state().await.unwrap_err();
        let shown: String = body.chars().take(10).collect();
        assert!(matches!(error, BmcError::Protocol { .. }), "{shown}: {error}");
        assert!(error.to_string().len() < 500);
    }
}

#[tokio::test]
async fn a_service_without_systems_is_a_clear_error() {
    let peer = Peer::start().await;
    let error = peer.client().power_state().await.unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("no service of this kind answers at /redfish/v1/"),
        "{error}"
    );
    peer.on("GET /redfish/v1/", [ok(json!({}))]);
    let error = peer.client().power_state().await.unwrap_err();
    assert!(error.to_string().contains("no Systems"), "{error}");
}

#[tokio::test]
async fn a_read_survives_two_failures_and_not_three() {
    for failure in [status(500), status(503), Answer::Drop] {
        let peer = Peer::start().await.into_ilo5();
        peer.on(GET_SYSTEM, [failure.clone(), failure.clone(), ok(system("On"))]);
        assert_eq!(peer.client().power_state().await.unwrap(), PowerState::On);
        peer.on(GET_SYSTEM, [failure]);
        peer.forget();
        peer.client().power_state().await.unwrap_err();
        assert_eq!(peer.lines().iter().filter(|line| *line == GET_SYSTEM).count(), 3);
    }
}

#[tokio::test]
async fn a_restart_whose_answer_got_lost_is_not_sent_twice() {
    for failure in [status(500), Answer::Drop] {
        let peer = Peer::start().await.into_ilo5();
        peer.on(GET_SYSTEM, [ok(system("On"))]);
        peer.on(RESET, [failure]);
        peer.client().set_power(PowerAction::ForceRestart).await.unwrap_err();
        assert_eq!(peer.changes().len(), 1);
    }
}

#[tokio::test]
async fn cached_paths_that_are_gone_are_found_anew() {
    let peer = Peer::start().await.into_ilo5();
    let bmc = peer.client();
    bmc.power_state().await.unwrap();
    peer.on(GET_SYSTEM, [status(404)]);
    peer.on(
        "GET /redfish/v1/Systems",
        [ok(json!({"Members": [{"@odata.id": "/redfish/v1/Systems/2"}]}))],
    );
    peer.on("GET /redfish/v1/Systems/2", [ok(system("On"))]);
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::On);
}

struct Window(Option<Duration>);

impl Fence for Window {
    fn window(&self) -> Option<Duration> {
        self.0
    }
}

#[tokio::test]
async fn nothing_is_changed_when_the_lease_ends_soon_but_reading_goes_on() {
    for window in [None, Some(Duration::ZERO), Some(Duration::from_millis(49))] {
        let peer = Peer::start().await.into_ilo5();
        let fence = std::sync::Arc::new(Window(window));
        let bmc = RedfishBmc::new(BmcConfig { fence, ..peer.config() }).unwrap();
        assert_eq!(bmc.power_state().await.unwrap(), PowerState::Off);
        let error = bmc.set_power(PowerAction::On).await.unwrap_err();
        assert!(matches!(error, BmcError::LeaseEnding { .. }), "{error}");
        let error = bmc
            .raw_redfish("PATCH", "/redfish/v1/Systems/1", Some("{}"))
            .await
            .unwrap_err();
        assert!(matches!(error, BmcError::LeaseEnding { .. }), "{error}");
        assert_eq!(peer.changes(), [""; 0]);
    }
}

#[tokio::test]
async fn a_change_does_not_outlive_the_window() {
    let peer = Peer::start().await.into_ilo5();
    peer.on(RESET, [Answer::Hang]);
    let fence = std::sync::Arc::new(Window(Some(Duration::from_millis(200))));
    let bmc = RedfishBmc::new(BmcConfig { fence, ..peer.config() }).unwrap();
    let start = Instant::now();
    let error = bmc.set_power(PowerAction::On).await.unwrap_err();
    assert!(
        matches!(error, BmcError::Timeout { after, .. } if after == Duration::from_millis(200)),
        "{error}"
    );
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn nobody_at_the_address_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    drop(listener);
    let config = BmcConfig {
        deadlines: quick(),
        ..BmcConfig::new(model::BmcAddress(address), "admin", Secret::new("x"))
    };
    let error = RedfishBmc::new(config).unwrap().identity().await.unwrap_err();
    assert!(matches!(error, BmcError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn raw_requests_stay_under_redfish_v1() {
    let peer = Peer::start().await.into_ilo5();
    peer.on(
        "PATCH /redfish/v1/Systems/1",
        [Answer::Say(
            200,
            vec![("x-auth-token", "t".into()), ("etag", "W/\"1\"".into())],
            "{}".into(),
        )],
    );
    let bmc = peer.client();
    let reply = bmc
        .raw_redfish("PATCH", "/redfish/v1/Chassis/../Systems/1", Some(r#"{ "A": 1 }"#))
        .await
        .unwrap();
    assert_eq!((reply.status, reply.body.as_str()), (200, "{}"));
    assert!(reply.headers.iter().any(|(name, _)| name == "etag"));
    assert!(!reply.headers.iter().any(|(name, _)| name == "x-auth-token"));
    assert_eq!(peer.changes(), [r#"PATCH /redfish/v1/Systems/1 {"A":1}"#]);
    for path in [
        "/rest/v1",
        "redfish/v1",
        "/redfish/v1/../../xml",
        "/redfish/v1/%2e%2e/%2e%2e/xml",
        "/redfish/v1/a%2f..%2fb",
        "/redfish/v1\\..",
        "//elsewhere.example/redfish/v1",
        "https://elsewhere.example/redfish/v1",
        "/redfish/v1/x#y",
        "/redfish/v1x",
    ] {
        let error = bmc.raw_redfish("GET", path, None).await.unwrap_err();
        assert!(matches!(error, BmcError::Refused { .. }), "{path}: {error}");
    }
    for (method, body) in [("TRACE", None), ("get", None), ("POST", Some("not json"))] {
        bmc.raw_redfish(method, "/redfish/v1/x", body).await.unwrap_err();
    }
    assert_eq!(peer.changes().len(), 1);
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_before_anything_is_sent() {
    let config = |address: &str| BmcConfig::new(model::BmcAddress(address.into()), "a", Secret::new("b"));
    for address in ["", "10.0.0.1", "ftp://h", "https://h/redfish/v1", "https://u:p@h"] {
        let error = RedfishBmc::new(config(address)).unwrap_err();
        assert!(matches!(error, BmcError::Settings { .. }), "{error}");
    }
}
