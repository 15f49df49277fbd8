//! Farrier's own addresses: progress, artefacts, events, effects, health, metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::StreamExt;
use image::{Kind, Layout, NoSources};
use model::{ArtefactKind, ArtefactName, Secret, Tenure};
use nodes::{ArtefactRecord, Conductor, Outcome};
use serde_json::json;
use storage::{Backend, Embedded, EmbeddedConfig, NoRecords, Publication, Reader};
use tower::ServiceExt;

use crate::lab::Lab;

async fn tenure(lab: &Lab, node: &str) -> Tenure {
    let name: model::ConductorName = "rack-7".parse().unwrap();
    let me = Conductor {
        name: name.clone(),
        group: String::new(),
        api_url: String::new(),
        images_url: String::new(),
        agent_urls: Vec::new(),
        alive: true,
        seen_at: SystemTime::now(),
    };
    lab.state.store.join(&me, Duration::from_secs(60)).await.unwrap();
    let id = lab.record(node).await.node.id;
    let claim = lab.state.store.claim(&id, &name).await.unwrap().unwrap();
    Tenure {
        conductor: name,
        term: claim.record.term,
    }
}

/// A floppy that is published on the embedded backend and on record.
async fn publish(lab: &mut Lab, node: &str) -> ArtefactName {
    let base_url = "http://192.0.2.1:6386".into();
    let embedded = Embedded::new(EmbeddedConfig {
        base_url,
        recall: Arc::new(NoRecords),
    })
    .unwrap();
    let extents = vec![image::Extent::Zero(4096)];
    let layout = Arc::new(Layout::from_extents(Kind::Floppy, extents).unwrap());
    let name = ArtefactName::parse(&format!("{:032}.img", 7)).unwrap();
    let publication = Publication {
        name: name.clone(),
        layout: layout.clone(),
        sources: Arc::new(NoSources),
        reader: Reader::default(),
    };
    let published = embedded.publish(&publication, None).await.unwrap();
    let tenure = tenure(lab, node).await;
    let record = ArtefactRecord {
        node: lab.record(node).await.node.id,
        kind: ArtefactKind::Floppy,
        backend: "local".into(),
        name: name.clone(),
        url: published.url,
        digest: layout.digest(),
        size: layout.size(),
        recipe: Secret::new("{}"),
        published_by: tenure.conductor.clone(),
        published_at: SystemTime::now(),
        expires: None,
    };
    lab.state.store.put_artefact(&record, &tenure).await.unwrap();
    lab.state.embedded = Some(embedded);
    name
}

#[tokio::test]
async fn progress_tells_step_wish_and_bytes_that_were_read_but_never_the_url() {
    let mut lab = Lab::new();
    lab.enroll("n1").await;
    let name = publish(&mut lab, "n1").await;
    lab.write("n1", |node| {
        node.step = Some("write-image".into());
        node.step_percent = Some(40);
        node.wish = Some(model::Wish::Power(model::PowerAction::Off));
    })
    .await;
    let served = lab
        .state
        .embedded
        .as_ref()
        .unwrap()
        .lookup(&name)
        .await
        .unwrap()
        .unwrap();
    served.reads.request([192, 0, 2, 10].into());
    served.reads.sent(1024, 1024, [192, 0, 2, 10].into(), SystemTime::now());
    let reply = lab.get("/farrier/v1/nodes/n1/progress").await;
    let progress = reply.json();
    assert_eq!(progress["step"], "write-image");
    assert_eq!(progress["percent"], 40);
    assert_eq!(progress["wish"], "power off");
    assert_eq!(progress["bytes_read"], 1024);
    let floppy = &progress["artefacts"][0];
    assert_eq!((&floppy["kind"], &floppy["size"]), (&json!("floppy"), &json!(4096)));
    assert_eq!((&floppy["bytes_read"], &floppy["reads"]), (&json!(1024), &json!(1)));
    assert_eq!(floppy["read_percent"], 25);
    assert_eq!(floppy["last_read_by"], "192.0.2.10");
    assert!(!reply.text.contains(name.expose()));
    for path in ["/farrier/v1/artefacts", "/farrier/v1/artefacts?node=n1"] {
        let listed = lab.get(path).await;
        assert_eq!(listed.json()["artefacts"][0], *floppy, "{path}");
        assert!(!listed.text.contains(name.expose()));
    }
    // What is published would be orphaned by a deletion.
    lab.write("n1", |node| node.wish = None).await;
    let kept = lab.call("DELETE", "/v1/nodes/n1", serde_json::Value::Null).await;
    assert_eq!(kept.status, StatusCode::CONFLICT);
    assert!(kept.fault().contains("floppy"), "{}", kept.fault());
}

#[tokio::test]
async fn events_are_listed_from_a_number_on_by_node_and_newest_first() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    lab.enroll("n2").await;
    let (n1, n2) = (lab.record("n1").await.node.id, lab.record("n2").await.node.id);
    let before = lab.get("/farrier/v1/events?newest=true&limit=1").await.json();
    let start = before["events"][0]["seq"].as_u64().unwrap_or(0);
    for number in 0..5 {
        for node in [n1, n2] {
            let text = format!("event {number}");
            lab.state
                .store
                .append_event(Some(&node), None, "test", &text)
                .await
                .unwrap();
        }
    }
    let messages = |reply: serde_json::Value| -> Vec<String> {
        let events = reply["events"].as_array().unwrap().clone();
        events
            .iter()
            .map(|event| event["message"].as_str().unwrap().to_owned())
            .collect()
    };
    let path = format!("/farrier/v1/events?after={start}&node=n1&limit=3");
    assert_eq!(messages(lab.get(&path).await.json()), ["event 0", "event 1", "event 2"]);
    let path = "/farrier/v1/events?node=n1&newest=true&limit=2";
    assert_eq!(messages(lab.get(path).await.json()), ["event 4", "event 3"]);
    assert_eq!(
        lab.get("/farrier/v1/events?node=nobody").await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_stream_of_events_brings_old_ones_and_then_each_as_it_happens() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    let store = lab.state.store.clone();
    store.append_event(None, None, "first", "one").await.unwrap();
    let request = Request::get("/farrier/v1/events?after=0").header("accept", "text/event-stream");
    let request = request.body(Body::empty()).unwrap();
    let response = api::router(lab.state.clone()).oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut stream = response.into_body().into_data_stream();
    let mut text = String::new();
    let mut told = false;
    let read = async {
        while !text.contains("event: second") {
            let chunk = stream.next().await.unwrap().unwrap();
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            if text.contains("event: first") && !told {
                told = true;
                store.append_event(None, None, "second", "two").await.unwrap();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), read).await.unwrap();
    assert!(text.contains("\"message\":\"one\"") && text.contains("id: "), "{text}");
}

#[tokio::test]
async fn the_journal_is_shown_with_what_is_not_known() {
    let lab = Lab::new();
    lab.enroll("n1").await;
    let tenure = tenure(&lab, "n1").await;
    let id = lab.record("n1").await.node.id;
    let store = &lab.state.store;
    let first = store.begin_effect(&id, &tenure, "bmc.insert", "cdrom").await.unwrap();
    store
        .end_effect(first, &Outcome::Failed("no licence".into()))
        .await
        .unwrap();
    store.begin_effect(&id, &tenure, "power.on", "").await.unwrap();
    let effects = lab.get("/farrier/v1/nodes/n1/effects").await.json();
    assert_eq!(effects["effects"][0]["action"], "power.on");
    assert_eq!(effects["effects"][0]["outcome"], "unknown");
    assert_eq!(effects["effects"][1]["error"], "no licence");
}

#[tokio::test]
async fn a_conductor_is_ready_only_while_it_takes_part_and_alive_always() {
    let lab = Lab::new();
    assert_eq!(lab.get("/readyz").await.status, StatusCode::OK);
    lab.state.ready.store(false, Ordering::SeqCst);
    assert_eq!(lab.get("/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(lab.get("/healthz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn metrics_count_nodes_by_state() {
    let mut lab = Lab::new();
    lab.enroll("n1").await;
    lab.enroll("n2").await;
    publish(&mut lab, "n2").await;
    let text = lab.get("/metrics").await.text;
    for line in [
        "farrier_nodes{provision_state=\"enroll\"} 2",
        "farrier_nodes{provision_state=\"wait call-back\"} 0",
        "farrier_conductor_alive{conductor=\"rack-7\"} 1",
        "farrier_artefacts_unread 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

struct Runtime;

#[async_trait]
impl api::Plugins for Runtime {
    async fn plugins(&self) -> Vec<wire::farrier::Plugin> {
        vec![wire::farrier::Plugin {
            id: "vmedia".into(),
            ..Default::default()
        }]
    }

    async fn calls(&self, limit: usize) -> Vec<wire::farrier::PluginCall> {
        vec![wire::farrier::PluginCall {
            wall_us: limit as u64,
            ..Default::default()
        }]
    }
}

#[tokio::test]
async fn plugins_and_their_calls_are_shown_where_there_is_a_runtime() {
    let mut lab = Lab::new();
    assert_eq!(lab.get("/farrier/v1/plugins").await.status, StatusCode::NOT_FOUND);
    lab.state.plugins = Some(Arc::new(Runtime));
    assert_eq!(
        lab.get("/farrier/v1/plugins").await.json()["plugins"][0]["id"],
        "vmedia"
    );
    let calls = lab.get("/farrier/v1/plugins/calls?limit=3").await.json();
    assert_eq!(calls["calls"][0]["wall_us"], 3);
}
