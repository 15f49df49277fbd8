//! Lookup and heartbeat, as ironic-python-agent calls them and as a stranger on its network might.

use axum::http::StatusCode;
use model::{ProvisionState, Secret};
use serde_json::{Value, json};

use crate::lab::Lab;

const TOKEN: &str = "a-token-of-more-than-thirty-two-characters";
const MAC: &str = "aa:bb:cc:00:00:01";

async fn waiting(lab: &Lab, token: Option<&'static str>) -> String {
    let id = lab.enroll("n1").await;
    let port = json!({"node_uuid": id, "address": MAC});
    assert_eq!(lab.call("POST", "/v1/ports", port).await.status, StatusCode::CREATED);
    lab.write("n1", |node| {
        node.provision_state = ProvisionState::DeployWait;
        node.agent.token = token.map(Secret::new);
    })
    .await;
    id
}

fn beat(token: &str) -> Value {
    json!({
        "callback_url": "https://192.0.2.77:9999", "agent_version": "13.0", "agent_token": token,
        "agent_verify_ca": "-----BEGIN CERTIFICATE-----\n…", "agent_status": "start",
    })
}

#[tokio::test]
async fn a_ramdisk_finds_its_node_by_mac_or_uuid_and_never_sees_a_token_that_it_has() {
    let lab = Lab::new();
    let id = waiting(&lab, Some(TOKEN)).await;
    for query in [
        format!("addresses={MAC}"),
        format!("addresses=00:00:00:00:00:00,{MAC},not-ethernet"),
        format!("addresses={MAC}&node_uuid={id}"),
        format!("node_uuid={id}"),
    ] {
        let reply = lab.agent("GET", &format!("/v1/lookup?{query}"), Value::Null).await;
        assert_eq!(reply.status, StatusCode::OK, "{query}: {}", reply.text);
        let found = reply.json();
        assert_eq!(found["node"]["uuid"], id);
        assert_eq!(found["config"]["agent_token"], "******");
        assert_eq!(found["config"]["agent_token_required"], true);
        assert_eq!(found["config"]["heartbeat_timeout"], 300);
        assert_eq!(found["node"]["properties"]["cpu_arch"], "x86_64");
        assert!(
            !reply.text.contains(TOKEN) && !reply.text.contains("hunter2"),
            "{}",
            reply.text
        );
    }
}

#[tokio::test]
async fn every_lookup_that_leads_nowhere_gets_the_same_answer() {
    let lab = Lab::new();
    let id = waiting(&lab, Some(TOKEN)).await;
    let stranger = lab
        .agent("GET", "/v1/lookup?addresses=02:00:00:00:00:99", Value::Null)
        .await;
    assert_eq!(stranger.status, StatusCode::NOT_FOUND);
    let nobody = model::NodeId::random();
    let unknown = lab
        .agent("GET", &format!("/v1/lookup?node_uuid={nobody}"), Value::Null)
        .await;
    for state in [
        ProvisionState::Active,
        ProvisionState::Available,
        ProvisionState::Manageable,
    ] {
        lab.write("n1", |node| node.provision_state = state).await;
        for query in [format!("addresses={MAC}"), format!("node_uuid={id}")] {
            let idle = lab.agent("GET", &format!("/v1/lookup?{query}"), Value::Null).await;
            assert_eq!((idle.status, &idle.text), (stranger.status, &stranger.text), "{state}");
        }
    }
    assert_eq!((unknown.status, &unknown.text), (stranger.status, &stranger.text));
    for query in ["", "addresses=", "addresses=nonsense"] {
        let reply = lab.agent("GET", &format!("/v1/lookup?{query}"), Value::Null).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{query}");
    }
}

#[tokio::test]
async fn a_node_without_a_token_gives_one_once() {
    let lab = Lab::new();
    waiting(&lab, None).await;
    let path = format!("/v1/lookup?addresses={MAC}");
    let first = lab.agent("GET", &path, Value::Null).await.json();
    let token = first["config"]["agent_token"].as_str().unwrap().to_owned();
    assert!(token.len() >= 32 && token != "******", "{token}");
    let second = lab.agent("GET", &path, Value::Null).await.json();
    assert_eq!(second["config"]["agent_token"], "******");
    let id = first["node"]["uuid"].as_str().unwrap();
    let reply = lab.agent("POST", &format!("/v1/heartbeat/{id}"), beat(&token)).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text);
}

#[tokio::test]
async fn a_heartbeat_with_the_token_is_taken_and_wakes_the_conductor() {
    let lab = Lab::new();
    let id = waiting(&lab, Some(TOKEN)).await;
    let wakes = lab.wakes();
    let reply = lab.agent("POST", &format!("/v1/heartbeat/{id}"), beat(TOKEN)).await;
    assert_eq!((reply.status, reply.text.as_str()), (StatusCode::ACCEPTED, ""));
    assert_eq!(lab.wakes(), wakes + 1);
    let agent = lab.record("n1").await.node.agent;
    assert_eq!(agent.callback_url.as_deref(), Some("https://192.0.2.77:9999"));
    assert_eq!(agent.version.as_deref(), Some("13.0"));
    assert!(agent.certificate.is_some() && agent.last_heartbeat.is_some());
    let shown = lab.get("/v1/nodes/n1").await;
    assert_eq!(
        shown.json()["driver_internal_info"]["agent_url"],
        "https://192.0.2.77:9999"
    );
    assert!(!shown.text.contains(TOKEN));
}

#[tokio::test]
async fn heartbeats_that_are_not_believed_leave_no_trace() {
    let lab = Lab::new();
    let id = waiting(&lab, Some(TOKEN)).await;
    let path = format!("/v1/heartbeat/{id}");
    let change = |key: &str, value: Value| {
        let mut beat = beat(TOKEN);
        beat[key] = value;
        beat
    };
    let before = lab.record("n1").await;
    for (body, words) in [
        (change("agent_token", json!("wrong")), "token"),
        (change("agent_token", Value::Null), "token"),
        (change("callback_url", json!("http://192.0.2.77:9999")), "http"),
        (
            change("callback_url", json!("https://198.51.100.7:9999")),
            "callback-networks",
        ),
        (change("callback_url", Value::Null), "callback_url"),
        (json!({}), "callback_url"),
        (json!([]), "heartbeat"),
    ] {
        let reply = lab.agent("POST", &path, body.clone()).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(reply.fault().contains(words), "{body}: {}", reply.fault());
        assert!(!reply.text.contains(TOKEN));
    }
    assert_eq!(lab.record("n1").await, before);
    assert_eq!(lab.agent("POST", &path, beat(TOKEN)).await.status, StatusCode::ACCEPTED);
    for (key, value) in [
        ("callback_url", json!("https://192.0.2.78:9999")),
        ("agent_verify_ca", json!("other")),
    ] {
        let moved = lab.agent("POST", &path, change(key, value)).await;
        assert_eq!(moved.status, StatusCode::BAD_REQUEST, "{key}");
    }
}

#[tokio::test]
async fn a_heartbeat_for_nobody_and_for_a_node_without_a_ramdisk_are_answered_alike() {
    let lab = Lab::new();
    let id = waiting(&lab, None).await;
    let nobody = model::NodeId::random();
    let unknown = lab.agent("POST", &format!("/v1/heartbeat/{nobody}"), beat(TOKEN)).await;
    let unexpected = lab.agent("POST", &format!("/v1/heartbeat/{id}"), beat(TOKEN)).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert_eq!((unexpected.status, &unexpected.text), (unknown.status, &unknown.text));
}
