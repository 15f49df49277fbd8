//! Creating, showing, listing, patching and deleting nodes.

use axum::http::StatusCode;
use model::{BootInterface, ProvisionState, Secret, Wish};
use serde_json::{Value, json};

use crate::lab::Lab;

#[tokio::test]
async fn a_node_comes_back_as_it_was_created_with_its_password_masked_and_kept() {
    let lab = Lab::new();
    let id = lab.enroll("n1").await;
    assert_eq!(lab.wakes(), 1);
    for path in ["/v1/nodes/n1".to_owned(), format!("/v1/nodes/{id}")] {
        let reply = lab.get(&path).await;
        let node = reply.json();
        assert_eq!(node["uuid"], id);
        assert_eq!(node["name"], "n1");
        assert_eq!(node["driver"], "agent_ilo");
        assert_eq!(node["provision_state"], "enroll");
        assert_eq!(node["power_state"], Value::Null);
        assert_eq!(node["driver_info"]["ilo_address"], "https://192.0.2.10");
        assert_eq!(node["driver_info"]["ilo_password"], "******");
        assert_eq!(node["boot_interface"], "ilo-virtual-media");
        assert_eq!(
            node["links"][0]["href"],
            format!("http://farrier.test:6385/v1/nodes/{id}")
        );
        assert!(!reply.text.contains("hunter2"));
    }
    let node = lab.record("n1").await.node;
    assert_eq!(node.secrets["ilo_password"], Secret::new("hunter2"));
    assert!(!node.driver_info.contains_key("ilo_password"));
}

#[tokio::test]
async fn what_cannot_be_created_says_what_is_wrong() {
    let lab = Lab::new();
    for (body, words) in [
        (json!([]), "no node"),
        (json!({}), "`driver` is missing"),
        (json!({"driver": "ipmi"}), "agent_ilo, iscsi_ilo"),
        (json!({"driver": "agent_ilo", "name": "a/b"}), "`a/b`"),
        (json!({"driver": "agent_ilo", "name": 7}), "`/name` must be a text"),
        (json!({"driver": "agent_ilo", "uuid": "x"}), "`uuid`"),
        (
            json!({"driver": "agent_ilo", "driver_info": []}),
            "`/driver_info` must be an object",
        ),
        (
            json!({"driver": "agent_ilo", "driver_info": {"ilo_password": 7}}),
            "/driver_info/ilo_password",
        ),
        (
            json!({"driver": "agent_ilo", "provision_state": "active"}),
            "`provision_state` cannot be written",
        ),
        (json!({"driver": "agent_ilo", "owner": "me"}), "`owner` is not kept"),
        (
            json!({"driver": "agent_ilo", "boot_interface": "pxe"}),
            "these are: ilo-virtual-media, ilo-ipxe",
        ),
        (json!({"driver": "agent_ilo", "nonsense": 1}), "`nonsense`"),
    ] {
        let reply = lab.call("POST", "/v1/nodes", body.clone()).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(reply.fault().contains(words), "{body}: {}", reply.fault());
    }
    let same =
        json!({"driver": "agent_ilo", "boot_interface": "ilo-virtual-media", "owner": null, "resource_class": ""});
    assert_eq!(lab.call("POST", "/v1/nodes", same).await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_boot_interface_is_chosen_among_those_offered_and_changed_while_nothing_depends_on_it() {
    let mut lab = Lab::new();
    let patch = |value: &str| json!([{"op": "replace", "path": "/boot_interface", "value": value}]);
    for driver in ["agent_ilo", "iscsi_ilo"] {
        let made = lab
            .call(
                "POST",
                "/v1/nodes",
                json!({"driver": driver, "name": driver, "boot_interface": "ilo-ipxe"}),
            )
            .await;
        assert_eq!(made.json()["boot_interface"], "ilo-ipxe", "{}", made.text);
    }
    let refused = lab.call("PATCH", "/v1/nodes/agent_ilo", patch("ilo-pxe")).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let offered = "`ilo-pxe` is not offered here; these are: ilo-virtual-media, ilo-ipxe";
    assert!(refused.fault().contains(offered), "{}", refused.fault());
    for (state, taken) in [
        (ProvisionState::Manageable, StatusCode::OK),
        (ProvisionState::Available, StatusCode::OK),
        (ProvisionState::Active, StatusCode::CONFLICT),
        (ProvisionState::DeployWait, StatusCode::CONFLICT),
        (ProvisionState::DeployFailed, StatusCode::CONFLICT),
    ] {
        lab.write("agent_ilo", |node| node.provision_state = state).await;
        let reply = lab
            .call("PATCH", "/v1/nodes/agent_ilo", patch("ilo-virtual-media"))
            .await;
        assert_eq!(reply.status, taken, "{state}: {}", reply.text);
        lab.write("agent_ilo", |node| node.boot_interface = BootInterface::IloIpxe)
            .await;
        let same = lab.call("PATCH", "/v1/nodes/agent_ilo", patch("ilo-ipxe")).await;
        assert_eq!(same.status, StatusCode::OK, "what does not change is always taken");
    }

    lab.state.site.boot_interfaces = vec![BootInterface::IloIpxe];
    lab.state.site.default_boot_interface = BootInterface::IloIpxe;
    let id = lab.enroll("n1").await;
    assert_eq!(
        lab.get(&format!("/v1/nodes/{id}")).await.json()["boot_interface"],
        "ilo-ipxe"
    );
    let refused = lab.call("PATCH", "/v1/nodes/n1", patch("ilo-virtual-media")).await;
    assert!(refused.fault().ends_with("these are: ilo-ipxe"), "{}", refused.fault());
    let driver = lab.get("/v1/drivers/agent_ilo").await.json();
    assert_eq!(driver["default_boot_interface"], "ilo-ipxe");
    assert_eq!(driver["enabled_boot_interfaces"], json!(["ilo-ipxe"]));
}

#[tokio::test]
async fn a_taken_name_or_uuid_is_a_conflict_that_names_it() {
    let lab = Lab::new();
    let id = lab.enroll("n1").await;
    let name = lab
        .call("POST", "/v1/nodes", json!({"driver": "agent_ilo", "name": "n1"}))
        .await;
    assert_eq!(name.status, StatusCode::CONFLICT);
    assert!(name.fault().contains("`n1`"), "{}", name.fault());
    let uuid = lab
        .call("POST", "/v1/nodes", json!({"driver": "agent_ilo", "uuid": id}))
        .await;
    assert_eq!(uuid.status, StatusCode::CONFLICT);
    assert!(uuid.fault().contains(&id), "{}", uuid.fault());
    lab.enroll("n2").await;
    let patch = json!([{"op": "replace", "path": "/name", "value": "n1"}]);
    let renamed = lab.call("PATCH", "/v1/nodes/n2", patch).await;
    assert_eq!(renamed.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_patch_changes_what_users_own() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    let patch = json!([
        {"op": "replace", "path": "/name", "value": "n2"},
        {"op": "add", "path": "/driver_info/deploy_iso", "value": "http://192.0.2.1/ipa.iso"},
        {"op": "replace", "path": "/driver_info/ilo_password", "value": "changed"},
        {"op": "add", "path": "/properties/capabilities", "value": "boot_mode:uefi"},
        {"op": "remove", "path": "/properties/cpu_arch"},
        {"op": "add", "path": "/instance_info", "value": {"root_gb": 10}},
        {"op": "add", "path": "/extra/list", "value": [1]},
        {"op": "add", "path": "/extra/list/-", "value": 2},
        {"op": "replace", "path": "/driver", "value": "iscsi_ilo"},
        {"op": "remove", "path": "/instance_uuid"},
    ]);
    let reply = lab.call("PATCH", "/v1/nodes/n1", patch).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let node = reply.json();
    assert_eq!(node["name"], "n2");
    assert_eq!(node["driver"], "iscsi_ilo");
    assert_eq!(node["driver_info"]["deploy_iso"], "http://192.0.2.1/ipa.iso");
    assert_eq!(node["driver_info"]["ilo_password"], "******");
    assert_eq!(node["properties"], json!({"capabilities": "boot_mode:uefi"}));
    assert_eq!(node["instance_info"], json!({"root_gb": 10}));
    assert_eq!(node["extra"], json!({"list": [1, 2]}));
    let secrets = lab.record("n2").await.node.secrets;
    assert_eq!(secrets["ilo_password"], Secret::new("changed"));
}

#[tokio::test]
async fn a_mask_that_comes_back_keeps_the_secret_and_a_removed_one_forgets_it() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    lab.write("n1", |node| {
        node.secrets.insert("configdrive".into(), Secret::new("H4sI"));
    })
    .await;
    let shown = lab.get("/v1/nodes/n1").await.json()["driver_info"].clone();
    assert_eq!(
        shown.get("configdrive"),
        None,
        "the conductor's own is nobody's driver_info"
    );
    let patch = json!([{"op": "add", "path": "/driver_info", "value": shown}]);
    let reply = lab.call("PATCH", "/v1/nodes/n1", patch).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let secrets = lab.record("n1").await.node.secrets;
    assert_eq!(secrets["ilo_password"], Secret::new("hunter2"));
    assert_eq!(secrets["configdrive"], Secret::new("H4sI"));
    let patch = json!([{"op": "remove", "path": "/driver_info/ilo_password"}]);
    assert_eq!(lab.call("PATCH", "/v1/nodes/n1", patch).await.status, StatusCode::OK);
    assert!(!lab.record("n1").await.node.secrets.contains_key("ilo_password"));
    let patch = json!([{"op": "add", "path": "/driver_info/ilo_password", "value": "******"}]);
    let reply = lab.call("PATCH", "/v1/nodes/n1", patch).await;
    assert!(reply.fault().contains("no secret to keep"), "{}", reply.fault());
}

#[tokio::test]
async fn secrets_of_instance_info_are_kept_apart_and_shown_in_their_place() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    let patch = json!([
        {"op": "add", "path": "/instance_info/image_auth_token", "value": "t0p"},
        {"op": "add", "path": "/extra/nested", "value": {"db_password": "x"}},
    ]);
    let reply = lab.call("PATCH", "/v1/nodes/n1", patch).await;
    assert_eq!(reply.json()["instance_info"]["image_auth_token"], "******");
    assert_eq!(reply.json()["driver_info"].get("image_auth_token"), None);
    assert_eq!(reply.json()["extra"]["nested"]["db_password"], "******");
    let again = lab
        .call(
            "PATCH",
            "/v1/nodes/n1",
            json!([{"op": "add", "path": "/extra/a", "value": 1}]),
        )
        .await;
    assert_eq!(again.status, StatusCode::OK, "{}", again.text);
    let node = lab.record("n1").await.node;
    assert_eq!(node.secrets["image_auth_token"], Secret::new("t0p"));
    assert_eq!(node.secrets["ilo_password"], Secret::new("hunter2"));
    // Not a secret to Farrier, but nothing is lost by the mask that clients see.
    assert_eq!(node.extra["nested"]["db_password"], "x");
}

#[tokio::test]
async fn a_patch_that_is_refused_changes_nothing_and_names_the_pointer() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    let before = lab.record("n1").await;
    for (bad, words) in [
        (
            json!({"op": "replace", "path": "/provision_state", "value": "active"}),
            "/provision_state",
        ),
        (json!({"op": "replace", "path": "/uuid", "value": "x"}), "/uuid"),
        (json!({"op": "remove", "path": "/driver"}), "/driver"),
        (
            json!({"op": "replace", "path": "/driver_info/nothing", "value": 1}),
            "/driver_info/nothing",
        ),
        (json!({"op": "remove", "path": "/extra/nothing"}), "/extra/nothing"),
        (
            json!({"op": "replace", "path": "/resource_class", "value": "gold"}),
            "/resource_class",
        ),
        (
            json!({"op": "replace", "path": "/maintenance", "value": "maybe"}),
            "/maintenance",
        ),
        (json!({"op": "test", "path": "/name", "value": "n1"}), "`test`"),
    ] {
        let patch = json!([{"op": "add", "path": "/extra/a", "value": 1}, bad]);
        let reply = lab.call("PATCH", "/v1/nodes/n1", patch).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{bad}");
        assert!(reply.fault().contains(words), "{bad}: {}", reply.fault());
    }
    assert_eq!(lab.record("n1").await, before);
}

#[tokio::test]
async fn lists_have_brief_rows_chosen_fields_details_filters_and_pages() {
    let lab = Lab::new();
    let mut ids = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        ids.push(lab.enroll(name).await);
    }
    ids.sort();
    let brief = lab.get("/v1/nodes").await.json();
    assert_eq!(brief["nodes"].as_array().unwrap().len(), 5);
    assert_eq!(brief["nodes"][0]["uuid"], ids[0]);
    assert_eq!(brief["nodes"][0].get("driver_info"), None);
    assert_eq!(brief.get("next"), None);
    let fields = lab.get("/v1/nodes?fields=name,driver").await.json();
    let keys: Vec<_> = fields["nodes"][0].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["driver", "links", "name"]);
    for detail in ["/v1/nodes/detail", "/v1/nodes?detail=True"] {
        let detail = lab.get(detail).await.json();
        assert_eq!(detail["nodes"][0]["driver_info"]["ilo_password"], "******");
    }
    lab.write("c", |node| node.provision_state = ProvisionState::Active)
        .await;
    lab.write("d", |node| node.maintenance = true).await;
    for (query, count) in [
        ("provision_state=active", 1),
        ("provision_state=enroll", 4),
        ("maintenance=True", 1),
        ("driver=agent_ilo", 5),
        ("driver=iscsi_ilo", 0),
        ("associated=True", 0),
        ("conductor_group=rack", 0),
    ] {
        let found = lab.get(&format!("/v1/nodes?{query}")).await.json();
        assert_eq!(found["nodes"].as_array().unwrap().len(), count, "{query}");
    }
    // Pages, followed by their own links as clients do.
    let mut seen = Vec::new();
    let mut next = Some("/v1/nodes?driver=agent_ilo&limit=2".to_owned());
    while let Some(path) = next {
        let page = lab.get(&path).await.json();
        let rows = page["nodes"].as_array().unwrap().clone();
        assert!(rows.len() <= 2);
        seen.extend(rows.iter().map(|row| row["uuid"].as_str().unwrap().to_owned()));
        let link = page["next"].as_str().map(str::to_owned);
        next = link.map(|link| link.replace("http://farrier.test:6385", ""));
    }
    assert_eq!(seen, ids);
    for (query, words) in [
        ("fields=nonsense", "`nonsense`"),
        ("fields=name&detail=True", "exclude"),
        ("owner=me", "`owner`"),
        ("limit=many", "`limit`"),
        ("marker=n1", "`marker`"),
        ("provision_state=asleep", "`asleep`"),
        ("maintenance=perhaps", "`perhaps`"),
        ("sort_key=name", "order"),
    ] {
        let reply = lab.get(&format!("/v1/nodes?{query}")).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{query}");
        assert!(reply.fault().contains(words), "{query}: {}", reply.fault());
    }
}

#[tokio::test]
async fn only_nodes_that_nobody_uses_or_works_on_are_deleted() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    for state in [
        ProvisionState::Active,
        ProvisionState::DeployWait,
        ProvisionState::Deploying,
    ] {
        lab.write("n1", |node| node.provision_state = state).await;
        let reply = lab.call("DELETE", "/v1/nodes/n1", Value::Null).await;
        assert_eq!(reply.status, StatusCode::CONFLICT, "{state}");
        assert!(reply.fault().contains(state.as_str()), "{}", reply.fault());
    }
    lab.write("n1", |node| {
        node.provision_state = ProvisionState::Available;
        node.wish = Some(Wish::Power(model::PowerAction::On));
    })
    .await;
    assert_eq!(
        lab.call("DELETE", "/v1/nodes/n1", Value::Null).await.status,
        StatusCode::CONFLICT
    );
    lab.write("n1", |node| node.wish = None).await;
    assert_eq!(
        lab.call("DELETE", "/v1/nodes/n1", Value::Null).await.status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        lab.call("DELETE", "/v1/nodes/n1", Value::Null).await.status,
        StatusCode::NOT_FOUND
    );
    lab.enroll("n2").await;
    lab.write("n2", |node| {
        node.provision_state = ProvisionState::Active;
        node.maintenance = true;
    })
    .await;
    assert_eq!(
        lab.call("DELETE", "/v1/nodes/n2", Value::Null).await.status,
        StatusCode::NO_CONTENT
    );
}

#[tokio::test]
async fn writers_who_meet_all_get_their_change_in() {
    let lab = std::sync::Arc::new(Lab::new());
    lab.enroll("n1").await;
    let mut writers = Vec::new();
    for number in 0..4 {
        let lab = lab.clone();
        writers.push(tokio::spawn(async move {
            let path = format!("/extra/k{number}");
            let patch = json!([{"op": "add", "path": path, "value": number}]);
            lab.call("PATCH", "/v1/nodes/n1", patch).await.status
        }));
    }
    for writer in writers {
        assert_eq!(writer.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(lab.record("n1").await.node.extra.len(), 4);
}
