//! Wishes: provision, power, maintenance, boot-into-iso; and validation.

use axum::http::StatusCode;
use model::{PowerAction, ProvisionState, Secret, Verb, Wish};
use serde_json::{Value, json};

use crate::lab::Lab;

const PROVISION: &str = "/v1/nodes/n1/states/provision";

#[tokio::test]
async fn a_verb_becomes_a_wish_and_wakes_the_conductor() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    let wakes = lab.wakes();
    let reply = lab.call("PUT", PROVISION, json!({"target": "manage"})).await;
    assert_eq!((reply.status, reply.text.as_str()), (StatusCode::ACCEPTED, ""));
    assert_eq!(lab.wakes(), wakes + 1);
    let node = lab.record("n1").await.node;
    assert_eq!(
        node.wish,
        Some(Wish::Provision {
            verb: Verb::Manage,
            config_drive: None
        })
    );
    // Handlers move no state.
    assert_eq!(node.provision_state, ProvisionState::Enroll);
    let again = lab.call("PUT", PROVISION, json!({"target": "manage"})).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert!(again.fault().contains("provision manage"), "{}", again.fault());
}

#[tokio::test]
async fn both_spellings_of_ironics_verbs_are_known() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    for (target, from, verb) in [
        ("active", ProvisionState::Available, Verb::Active),
        ("deploy", ProvisionState::Available, Verb::Active),
        ("deleted", ProvisionState::Active, Verb::Deleted),
        ("undeploy", ProvisionState::Active, Verb::Deleted),
        ("rebuild", ProvisionState::Active, Verb::Rebuild),
        ("provide", ProvisionState::Manageable, Verb::Provide),
        ("abort", ProvisionState::DeployWait, Verb::Abort),
    ] {
        lab.write("n1", |node| {
            node.provision_state = from;
            node.wish = None;
        })
        .await;
        let reply = lab.call("PUT", PROVISION, json!({"target": target})).await;
        assert_eq!(reply.status, StatusCode::ACCEPTED, "{target}: {}", reply.text);
        let wish = lab.record("n1").await.node.wish;
        assert_eq!(
            wish,
            Some(Wish::Provision {
                verb,
                config_drive: None
            }),
            "{target}"
        );
    }
}

#[tokio::test]
async fn a_verb_that_the_state_does_not_take_is_400_and_a_busy_node_409() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    let wrong = lab.call("PUT", PROVISION, json!({"target": "active"})).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(wrong.fault().contains("possible are: manage"), "{}", wrong.fault());
    let unknown = lab.call("PUT", PROVISION, json!({"target": "explode"})).await;
    assert_eq!(unknown.status, StatusCode::BAD_REQUEST);
    assert!(unknown.fault().contains("`explode`"), "{}", unknown.fault());
    for body in [json!({}), json!({"target": 7}), json!([]), Value::Null] {
        let reply = lab.call("PUT", PROVISION, body.clone()).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{body}");
    }
    for state in [
        ProvisionState::Deploying,
        ProvisionState::Cleaning,
        ProvisionState::Verifying,
    ] {
        lab.write("n1", |node| node.provision_state = state).await;
        let busy = lab.call("PUT", PROVISION, json!({"target": "active"})).await;
        assert_eq!(busy.status, StatusCode::CONFLICT, "{state}");
        assert!(busy.fault().contains("`abort`"), "{}", busy.fault());
        let power = lab
            .call("PUT", "/v1/nodes/n1/states/power", json!({"target": "power on"}))
            .await;
        assert_eq!(power.status, StatusCode::CONFLICT, "{state}");
    }
    assert_eq!(lab.record("n1").await.node.wish, None);
}

#[tokio::test]
async fn work_under_way_takes_a_request_that_stops_it() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    for (state, target, verb) in [
        (ProvisionState::Deploying, "abort", Verb::Abort),
        (ProvisionState::Deploying, "deleted", Verb::Deleted),
        (ProvisionState::Cleaning, "abort", Verb::Abort),
        (ProvisionState::Verifying, "abort", Verb::Abort),
        (ProvisionState::Deleting, "abort", Verb::Abort),
    ] {
        lab.write("n1", |node| {
            node.provision_state = state;
            node.wish = None;
        })
        .await;
        let reply = lab.call("PUT", PROVISION, json!({"target": target})).await;
        assert_eq!(reply.status, StatusCode::ACCEPTED, "{state}: {}", reply.text);
        let wish = lab.record("n1").await.node.wish;
        let config_drive = None;
        assert_eq!(wish, Some(Wish::Provision { verb, config_drive }));
        let again = lab.call("PUT", PROVISION, json!({"target": target})).await;
        assert_eq!(again.status, StatusCode::CONFLICT);
    }
}

#[tokio::test]
async fn a_config_drive_is_taken_as_a_secret_in_its_forms_and_nonsense_is_refused() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    let available = |node: &mut model::Node| {
        node.provision_state = ProvisionState::Available;
        node.wish = None;
    };
    for drive in ["H4sIAAAAAAAA/w==", "http://192.0.2.1/configdrive.gz"] {
        lab.write("n1", available).await;
        let body = json!({"target": "active", "configdrive": drive});
        let reply = lab.call("PUT", PROVISION, body).await;
        assert_eq!(reply.status, StatusCode::ACCEPTED, "{drive}: {}", reply.text);
        let wish = lab.record("n1").await.node.wish;
        let config_drive = Some(Secret::new(drive));
        assert_eq!(
            wish,
            Some(Wish::Provision {
                verb: Verb::Active,
                config_drive
            })
        );
    }
    lab.write("n1", available).await;
    let body = json!({"target": "active", "configdrive": {"meta_data": {}, "user_data": "#cloud-config"}});
    let reply = lab.call("PUT", PROVISION, body).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text);
    let node = lab.record("n1").await.node;
    let Some(Wish::Provision { config_drive, .. }) = node.wish else {
        panic!("no wish");
    };
    let packed = format!("packedFor{}", node.id.to_string().replace('-', ""));
    assert_eq!(config_drive, Some(Secret::new(packed)));
    lab.write("n1", available).await;
    for (body, words) in [
        (json!({"target": "active", "configdrive": "file:///etc/shadow"}), "http"),
        (json!({"target": "active", "configdrive": "not base64!"}), "base64"),
        (json!({"target": "active", "configdrive": 7}), "configdrive"),
        (json!({"target": "active", "configdrive": {"users": []}}), "`users`"),
        (
            json!({"target": "active", "configdrive": {"user_data": "too much"}}),
            "too big",
        ),
        (
            json!({"target": "active", "configdrive": "{\"meta_data\": {}}"}),
            "the object itself",
        ),
        (json!({"target": "manage", "configdrive": "AAAA"}), "belongs to"),
        (json!({"target": "active", "deploy_steps": [{}]}), "`deploy_steps`"),
        (json!({"target": "active", "rescue_password": "x"}), "`rescue_password`"),
    ] {
        let reply = lab.call("PUT", PROVISION, body.clone()).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(reply.fault().contains(words), "{body}: {}", reply.fault());
    }
    let empty = json!({"target": "active", "configdrive": null, "deploy_steps": [], "clean_steps": null});
    assert_eq!(lab.call("PUT", PROVISION, empty).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn a_node_that_lacks_something_is_not_deployed_and_told_what() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    for key in ["image_os_hash_value", "image_source"] {
        lab.write("n1", |node| {
            node.provision_state = ProvisionState::Available;
            node.instance_info.remove(key);
        })
        .await;
        let reply = lab.call("PUT", PROVISION, json!({"target": "active"})).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
        assert!(reply.fault().contains(key), "{}", reply.fault());
    }
    lab.enroll("n2").await;
    lab.write("n2", |node| {
        node.provision_state = ProvisionState::Available;
        node.boot_mode = Some(model::BootMode::Uefi);
    })
    .await;
    let path = PROVISION.replace("n1", "n2");
    let reply = lab.call("PUT", &path, json!({"target": "active"})).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(reply.fault().contains("[images] esp"), "{}", reply.fault());
    let reply = lab.get("/v1/nodes/n1/validate").await.json();
    assert_eq!(reply["deploy"]["result"], false);
    assert!(reply["deploy"]["reason"].as_str().unwrap().contains("instance_info"));
    assert_eq!(reply["power"], json!({"result": true}));
    assert_eq!(reply["boot"], json!({"result": true}));
    lab.write("n1", |node| node.boot_mode = Some(model::BootMode::Uefi))
        .await;
    let reply = lab.get("/v1/nodes/n1/validate").await.json();
    assert_eq!(
        reply["boot"],
        json!({"result": false, "reason": "node boots UEFI, and [images] esp is not set"})
    );
    lab.write("n1", |node| {
        node.secrets.clear();
        node.driver_info.remove("ilo_address");
    })
    .await;
    let reply = lab.get("/v1/nodes/n1/validate").await.json();
    assert_eq!(reply["power"]["reason"], "driver_info lacks ilo_address, ilo_password");
}

#[tokio::test]
async fn power_requests_become_wishes() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    for (target, action) in [
        ("power on", PowerAction::On),
        ("power off", PowerAction::Off),
        ("rebooting", PowerAction::ForceRestart),
        ("soft power off", PowerAction::SoftOff),
        ("soft rebooting", PowerAction::SoftRestart),
    ] {
        lab.write("n1", |node| {
            node.provision_state = ProvisionState::Active;
            node.wish = None;
        })
        .await;
        let body = json!({"target": target, "timeout": 30});
        let reply = lab.call("PUT", "/v1/nodes/n1/states/power", body).await;
        assert_eq!(reply.status, StatusCode::ACCEPTED, "{target}");
        assert_eq!(lab.record("n1").await.node.wish, Some(Wish::Power(action)));
    }
    lab.write("n1", |node| node.wish = None).await;
    let reply = lab
        .call("PUT", "/v1/nodes/n1/states/power", json!({"target": "on"}))
        .await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(reply.fault().contains("soft rebooting"), "{}", reply.fault());
}

#[tokio::test]
async fn maintenance_is_set_with_a_reason_and_ended_and_stops_deployments() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    let path = "/v1/nodes/n1/maintenance";
    let reply = lab.call("PUT", path, json!({"reason": "fan"})).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED);
    let node = lab.get("/v1/nodes/n1").await.json();
    assert_eq!(
        (&node["maintenance"], &node["maintenance_reason"]),
        (&json!(true), &json!("fan"))
    );
    lab.write("n1", |node| node.provision_state = ProvisionState::Available)
        .await;
    let refused = lab.call("PUT", PROVISION, json!({"target": "active"})).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.fault().contains("maintenance"), "{}", refused.fault());
    assert_eq!(lab.call("DELETE", path, Value::Null).await.status, StatusCode::ACCEPTED);
    let node = lab.get("/v1/nodes/n1").await.json();
    assert_eq!(
        (&node["maintenance"], &node["maintenance_reason"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(lab.call("PUT", path, Value::Null).await.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn boot_into_iso_takes_what_a_bmc_can_fetch() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    let path = "/v1/nodes/n1/vendor_passthru?method=boot_into_iso";
    let url = "http://192.0.2.1/rescue.iso";
    let early = lab.call("POST", path, json!({"boot_iso_href": url})).await;
    assert_eq!(early.status, StatusCode::BAD_REQUEST);
    assert!(early.fault().contains("manageable"), "{}", early.fault());
    lab.write("n1", |node| node.provision_state = ProvisionState::Manageable)
        .await;
    let long = format!("http://192.0.2.1/{}.iso", "x".repeat(300));
    for (body, words) in [
        (json!({}), "boot_iso_href"),
        (json!({"boot_iso_href": "file:///x.iso"}), "http"),
        (json!({"boot_iso_href": "rescue.iso"}), "no URL"),
        (json!({"boot_iso_href": "http://192.0.2.1/a,b.iso"}), "comma"),
        (json!({"boot_iso_href": long}), "255"),
    ] {
        let reply = lab.call("POST", path, body.clone()).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(reply.fault().contains(words), "{body}: {}", reply.fault());
    }
    let reply = lab.call("POST", path, json!({"boot_iso_href": url})).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED, "{}", reply.text);
    let wish = lab.record("n1").await.node.wish;
    assert_eq!(wish, Some(Wish::BootIntoIso { url: url.to_owned() }));
    let methods = lab.get("/v1/nodes/n1/vendor_passthru/methods").await.json();
    assert_eq!(methods["boot_into_iso"]["http_methods"], json!(["POST"]));
    let other = lab
        .call("POST", "/v1/nodes/n1/vendor_passthru?method=x", json!({}))
        .await;
    assert!(other.fault().contains("boot_into_iso"), "{}", other.fault());
}

#[tokio::test]
async fn states_show_where_the_node_stands() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    lab.write("n1", |node| {
        node.provision_state = ProvisionState::DeployWait;
        node.target_provision_state = Some(ProvisionState::Active);
        node.power_state = Some(model::PowerState::On);
        node.last_error = Some("the fan".into());
    })
    .await;
    let states = lab.get("/v1/nodes/n1/states").await.json();
    assert_eq!(states["provision_state"], "wait call-back");
    assert_eq!(states["target_provision_state"], "active");
    assert_eq!(states["power_state"], "power on");
    assert_eq!(states["last_error"], "the fan");
    assert!(states["provision_updated_at"].as_str().unwrap().ends_with("+00:00"));
}
