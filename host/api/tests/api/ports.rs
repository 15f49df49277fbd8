//! Ports, drivers and conductors.

use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use nodes::Conductor;
use serde_json::{Value, json};

use crate::lab::Lab;

#[tokio::test]
async fn ports_are_created_found_changed_and_deleted() {
    let lab = Lab::new();
    let (n1, n2) = (lab.enroll("n1").await, lab.enroll("n2").await);
    let body = json!({"node_uuid": n1, "address": "AA:BB:CC:00:00:01", "pxe_enabled": true, "extra": {}});
    let reply = lab.call("POST", "/v1/ports", body).await;
    assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
    let port = reply.json();
    assert_eq!(port["address"], "aa:bb:cc:00:00:01");
    let id = port["uuid"].as_str().unwrap().to_owned();
    for path in [
        "/v1/ports".to_owned(),
        "/v1/ports/detail".to_owned(),
        format!("/v1/ports?node={n1}"),
        "/v1/ports?node=n1".to_owned(),
        "/v1/ports?address=aa:bb:cc:00:00:01".to_owned(),
        "/v1/nodes/n1/ports".to_owned(),
    ] {
        let found = lab.get(&path).await.json();
        assert_eq!(found["ports"][0]["uuid"], id, "{path}");
    }
    assert_eq!(lab.get("/v1/ports?node=n2").await.json()["ports"], json!([]));
    let taken = lab
        .call(
            "POST",
            "/v1/ports",
            json!({"node_uuid": n2, "address": "aa:bb:cc:00:00:01"}),
        )
        .await;
    assert_eq!(taken.status, StatusCode::CONFLICT);
    assert!(taken.fault().contains("aa:bb:cc:00:00:01"), "{}", taken.fault());
    let path = format!("/v1/ports/{id}");
    let patch = json!([{"op": "replace", "path": "/address", "value": "aa:bb:cc:00:00:02"}]);
    assert_eq!(
        lab.call("PATCH", &path, patch).await.json()["address"],
        "aa:bb:cc:00:00:02"
    );
    let second = json!({"node_uuid": n2, "address": "aa:bb:cc:00:00:03"});
    lab.call("POST", "/v1/ports", second).await;
    let patch = json!([{"op": "replace", "path": "/address", "value": "aa:bb:cc:00:00:03"}]);
    let taken = lab.call("PATCH", &path, patch).await;
    assert_eq!(taken.status, StatusCode::CONFLICT);
    assert_eq!(lab.get(&path).await.json()["address"], "aa:bb:cc:00:00:02");
    assert_eq!(
        lab.call("DELETE", &path, Value::Null).await.status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(lab.get(&path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_port_that_cannot_be_is_refused_with_a_reason() {
    let lab = Lab::new();
    let n1 = lab.enroll("n1").await;
    let nobody = model::NodeId::random().to_string();
    for (body, words) in [
        (json!({"node_uuid": n1}), "`address`"),
        (json!({"address": "aa:bb:cc:00:00:01"}), "`node_uuid`"),
        (json!({"node_uuid": n1, "address": "aa:bb"}), "six pairs"),
        (
            json!({"node_uuid": nobody, "address": "aa:bb:cc:00:00:01"}),
            nobody.as_str(),
        ),
        (
            json!({"node_uuid": n1, "address": "aa:bb:cc:00:00:01", "pxe_enabled": false}),
            "`pxe_enabled`",
        ),
        (
            json!({"node_uuid": n1, "address": "aa:bb:cc:00:00:01", "uuid": "x"}),
            "`uuid`",
        ),
        (json!(7), "no port"),
    ] {
        let reply = lab.call("POST", "/v1/ports", body.clone()).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(reply.fault().contains(words), "{body}: {}", reply.fault());
    }
}

#[tokio::test]
async fn drivers_and_conductors_are_listed() {
    let lab = Lab::new();
    let me = Conductor {
        name: "rack-7".parse().unwrap(),
        group: "g".into(),
        api_url: "http://192.0.2.1:6385".into(),
        images_url: "http://192.0.2.1:6386".into(),
        agent_urls: vec!["http://192.0.2.1:6387".into()],
        alive: true,
        seen_at: SystemTime::now(),
    };
    lab.state.store.join(&me, Duration::from_secs(30)).await.unwrap();
    let drivers = lab.get("/v1/drivers").await.json();
    let names: Vec<_> = drivers["drivers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|driver| driver["name"].clone())
        .collect();
    assert_eq!(names, ["agent_ilo", "iscsi_ilo"]);
    assert_eq!(drivers["drivers"][0]["hosts"], json!(["rack-7"]));
    assert_eq!(
        lab.get("/v1/drivers/agent_ilo").await.json()["default_boot_interface"],
        "ilo-virtual-media"
    );
    let unknown = lab.get("/v1/drivers/ipmi").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert!(unknown.fault().contains("agent_ilo"), "{}", unknown.fault());
    let properties = lab.get("/v1/drivers/agent_ilo/properties").await.json();
    assert!(properties["ilo_address"].as_str().unwrap().contains("Required"));
    let conductors = lab.get("/v1/conductors").await.json();
    assert_eq!(conductors["conductors"][0]["hostname"], "rack-7");
    assert_eq!(conductors["conductors"][0]["alive"], true);
    assert_eq!(lab.get("/v1/conductors/rack-7").await.json()["conductor_group"], "g");
    assert_eq!(lab.get("/v1/conductors/rack-8").await.status, StatusCode::NOT_FOUND);
    let own = lab.get("/farrier/v1/conductors").await.json();
    assert_eq!(own["conductors"][0]["images_url"], "http://192.0.2.1:6386");
}
