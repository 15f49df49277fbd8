//! Versions, errors, links, and addresses that are not there.

use api::agent_router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};

use crate::lab::Lab;

const IRONIC: &str = "x-openstack-ironic-api-version";

#[tokio::test]
async fn the_root_names_the_version_as_the_deploy_agent_and_openstacksdk_read_it() {
    let lab = Lab::new();
    let root = lab.get("/").await;
    assert_eq!(root.status, StatusCode::OK);
    let version = root.json()["default_version"].clone();
    assert_eq!(version["id"], "v1");
    assert_eq!(version["version"], "1.94");
    assert_eq!(version["min_version"], "1.11");
    assert_eq!(version["links"][0]["href"], "http://farrier.test:6385/v1/");
    for path in ["/v1", "/v1/"] {
        let v1 = lab.get(path).await.json();
        assert_eq!(v1["id"], "v1", "{path}");
        assert_eq!(v1["version"]["version"], "1.94");
        assert_eq!(v1["nodes"][0]["href"], "http://farrier.test:6385/v1/nodes/");
    }
}

#[tokio::test]
async fn a_version_that_is_too_new_gets_406_with_the_range_that_ironicclient_then_negotiates() {
    let lab = Lab::new();
    let asked = |name: &'static str, version: &str| {
        let request = Request::get("/v1/nodes").header(name, version);
        let request = request.body(Body::empty()).unwrap();
        Lab::send(api::router(lab.state.clone()), request)
    };
    let refused = asked(IRONIC, "1.115").await;
    assert_eq!(refused.status, StatusCode::NOT_ACCEPTABLE);
    assert_eq!(refused.headers["x-openstack-ironic-api-minimum-version"], "1.11");
    assert_eq!(refused.headers["x-openstack-ironic-api-maximum-version"], "1.94");
    assert!(refused.fault().contains("1.115"), "{}", refused.text);
    let taken = asked(IRONIC, "1.94").await;
    assert_eq!(taken.status, StatusCode::OK);
    assert_eq!(taken.headers[IRONIC], "1.94");
    let standard = asked("openstack-api-version", "baremetal 1.68").await;
    assert_eq!(standard.status, StatusCode::OK);
    assert_eq!(standard.headers["openstack-api-version"], "baremetal 1.68");
}

#[tokio::test]
async fn every_answer_has_a_request_id_and_unknown_addresses_a_fault() {
    let lab = Lab::new();
    for (method, path, status) in [
        ("GET", "/v1/allocations", StatusCode::NOT_FOUND),
        ("GET", "/nonsense", StatusCode::NOT_FOUND),
        ("GET", "/v1/nodes/nobody", StatusCode::NOT_FOUND),
        ("GET", "/v1/nodes/..%2f..%2fetc", StatusCode::NOT_FOUND),
        ("GET", "/v1/nodes/%ff", StatusCode::BAD_REQUEST),
        ("DELETE", "/v1/ports/%ff", StatusCode::BAD_REQUEST),
        ("GET", "/farrier/v1/nodes/%ff/progress", StatusCode::BAD_REQUEST),
        ("PUT", "/v1/nodes", StatusCode::METHOD_NOT_ALLOWED),
        ("DELETE", "/healthz", StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let reply = lab.call(method, path, Value::Null).await;
        assert_eq!(reply.status, status, "{method} {path}");
        assert!(!reply.fault().is_empty());
        let id = reply.headers["x-openstack-request-id"].to_str().unwrap();
        assert!(id.starts_with("req-"), "{id}");
    }
}

#[tokio::test]
async fn a_body_that_is_no_json_or_too_long_is_refused_with_where_and_why() {
    let lab = Lab::new();
    let post = |body: String| {
        let request = Request::post("/v1/nodes").body(Body::from(body)).unwrap();
        Lab::send(api::router(lab.state.clone()), request)
    };
    let torn = post("{\n \"driver\": ".into()).await;
    assert_eq!(torn.status, StatusCode::BAD_REQUEST);
    assert!(torn.fault().contains("line 2"), "{}", torn.text);
    let long = post(format!("{{\"name\": \"{}\"}}", "x".repeat(2 << 20))).await;
    assert_eq!(long.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(long.fault().contains("1048576"), "{}", long.text);
    let deep = post(format!("{}1{}", "[".repeat(5000), "]".repeat(5000))).await;
    assert_eq!(deep.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn the_agents_listener_has_discovery_lookup_and_heartbeat_and_nothing_else() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    for (method, path) in [
        ("GET", "/v1/nodes"),
        ("GET", "/v1/nodes/n1"),
        ("PUT", "/v1/nodes/n1/states/power"),
        ("GET", "/v1/ports"),
        ("GET", "/farrier/v1/artefacts"),
        ("GET", "/metrics"),
    ] {
        let reply = lab.agent(method, path, json!({"target": "power off"})).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{method} {path}");
    }
    for path in ["/", "/v1", "/v1/"] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let reply = Lab::send(agent_router(lab.state.clone()), request).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}");
    }
}
