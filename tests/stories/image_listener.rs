//! The listener that BMCs fetch from: over TLS, and for the node's own BMC alone.

use std::net::{IpAddr, Ipv4Addr};

use reqwest::StatusCode;
use sim::{BootOutcome, Device};

use crate::site::{Site, text};
use crate::wait;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_a_node_is_deployed_and_boots_from_its_iso() {
    let site = Site::new(1).await;
    let mut settings = site.settings("alpha");
    let url = site.images_url("alpha").replacen("http:", "https:", 1);
    let host = url
        .trim_start_matches("https://")
        .split(':')
        .next()
        .expect("a host")
        .to_owned();
    let made = rcgen::generate_simple_self_signed([host]).expect("a certificate");
    let (certificate, key) = (site.path("images.pem"), site.path("images.key"));
    std::fs::write(&certificate, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    settings["images"]["tls-certificate"] = text(&certificate).into();
    settings["images"]["tls-key"] = text(&key).into();
    settings["images"]["external-url"] = url.as_str().into();
    let alpha = site.start_with(&settings).await;
    site.active(&alpha.api, 0, "iscsi_ilo", "alpha").await;
    wait::until("the instance runs", async || {
        (site.booted(0) == Some(BootOutcome::BootedFromCd)).then_some(())
    })
    .await;
    let iso = site.inserted(0, Device::Cd).expect("the boot ISO");
    assert!(iso.starts_with(&url), "{iso}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_to_bmc_lets_the_bmc_fetch_and_nobody_else() {
    let site = Site::new(1).await;
    let mut settings = site.settings("alpha");
    settings["images"]["only-to-bmc"] = true.into();
    let alpha = site.start_with(&settings).await;
    site.active(&alpha.api, 0, "iscsi_ilo", "alpha").await;
    let iso = site.inserted(0, Device::Cd).expect("the boot ISO");
    let status = async |from: [u8; 4]| {
        let client = reqwest::Client::builder()
            .no_proxy()
            .local_address(IpAddr::V4(Ipv4Addr::from(from)))
            .build()
            .expect("a client");
        client.get(&iso).send().await.expect("an answer").status()
    };
    // The simulated BMC lives at 127.0.0.1.
    assert_eq!(status([127, 0, 0, 1]).await, StatusCode::OK);
    assert_eq!(status([127, 9, 9, 9]).await, StatusCode::NOT_FOUND);
    assert!(alpha.log().contains("refused"), "{}", alpha.log());
}
