//! A recording of a simulated iLO 5 holds its whole dialogue and nothing that tells whose it is.

use std::sync::Arc;

use crate::peer::quick;
use bmc::record::Recorder;
use bmc::trace::Trace;
use bmc::{Bmc, BmcConfig, Ca, InsertMedia, ProbedBmc, Tls};
use model::{BmcAddress, Device, Secret};
use serde_json::Value;

#[tokio::test]
async fn a_recording_holds_every_exchange_and_no_secret() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let folder = tempfile::tempdir().unwrap();
    let running = sim::start(sim::SimConfig::new(folder.path(), "operator-7", "Hunter2/\"&<x>"))
        .await
        .unwrap();
    let recorder = Arc::new(Recorder::default());
    let config = BmcConfig {
        trace: Some(Arc::clone(&recorder) as Arc<dyn Trace>),
        tls: Tls::Verify {
            ca: Some(Ca::File(running.ca_pem().to_owned())),
        },
        deadlines: quick(),
        ..BmcConfig::new(
            BmcAddress(running.server(0).unwrap().url.clone()),
            "operator-7",
            Secret::new("Hunter2/\"&<x>"),
        )
    };
    let bmc = ProbedBmc::new(config.clone(), None).unwrap();
    let identity = bmc.identity().await.unwrap();
    let system = bmc.raw_redfish("GET", "/redfish/v1/Systems/1/", None).await.unwrap();
    let image = InsertMedia {
        url: Secret::new("http://10.77.0.1:8080/v/t0k3n/boot.iso"),
        boot_once: false,
        server_certificate: None,
    };
    // Whether its server answers does not matter: the URL is said.
    let _ = bmc.insert_media(Device::Cdrom, &image).await;
    let _ = bmc.eject_media(Device::Cdrom).await;
    bmc.close().await;
    running.stop().await;

    let lines = recorder.lines(&config).unwrap();
    let values: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values[0], serde_json::json!({"farrier-bmc-trace": 1}));
    let requests: Vec<String> = values[1..]
        .iter()
        .map(|line| {
            format!(
                "{} {}",
                line["request"]["method"].as_str().unwrap(),
                line["request"]["path"].as_str().unwrap()
            )
        })
        .collect();
    for wanted in ["GET /redfish/v1/", "POST /redfish/v1/SessionService/Sessions"] {
        assert!(
            requests.iter().any(|request| request == wanted),
            "{wanted}: {requests:?}"
        );
    }
    assert!(
        requests
            .iter()
            .any(|request| request.ends_with("VirtualMedia.InsertMedia")
                || request.ends_with("VirtualMedia.InsertMedia/")),
        "{requests:?}"
    );
    assert!(requests.last().unwrap().starts_with("DELETE "), "{requests:?}");
    assert!(
        values[1..]
            .iter()
            .all(|line| line["reply"]["status"].is_number() || line["failure"].is_string())
    );

    let text = lines.join("\n");
    let system: Value = serde_json::from_str(&system.body).unwrap();
    let mut secrets = vec![
        "Hunter2".to_owned(),
        config.user.clone(),
        "t0k3n".into(),
        "10.77.0.1".into(),
    ];
    secrets.extend(identity.serial);
    secrets.extend(identity.macs.iter().map(ToString::to_string));
    secrets.extend(
        ["SerialNumber", "UUID"]
            .iter()
            .filter_map(|key| system[key].as_str().map(str::to_owned)),
    );
    assert!(secrets.len() >= 6, "{secrets:?}");
    for secret in secrets {
        assert!(
            !text.to_lowercase().contains(&secret.to_lowercase()),
            "`{secret}` is still there"
        );
    }
    // A token that stands for a session stands for it wherever it is used.
    let token = |line: &Value, part: &str| {
        let headers = line[part]["headers"].as_array().cloned().unwrap_or_default();
        headers
            .iter()
            .find(|pair| {
                pair[0]
                    .as_str()
                    .is_some_and(|name| name.eq_ignore_ascii_case("x-auth-token"))
            })
            .map(|pair| pair[1].as_str().unwrap().to_owned())
    };
    let given = values.iter().find_map(|line| token(line, "reply")).unwrap();
    assert!(given.starts_with("token-"), "{given}");
    assert!(
        values
            .iter()
            .filter_map(|line| token(line, "request"))
            .all(|used| used == given)
    );
}
