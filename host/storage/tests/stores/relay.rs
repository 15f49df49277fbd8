//! Artefacts that BMCs read through us: byte for byte, over breaks, and never of another object.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use proptest::prelude::*;
use reqwest::Method;
use storage::{Backend, Delivery, Embedded};

use crate::common::{CONTAINER, Look, MIB, Place, name, publication, read_relayed, shared};
use crate::proxy::{Fault, Proxy};

const SIZE: u64 = 9 * MIB + 77;

struct Relayed {
    proxy: Proxy,
    relay: Embedded,
    look: Look,
    iso: storage::Publication,
    bytes: Vec<u8>,
}

impl Relayed {
    async fn new(size: u64) -> Self {
        let place = Place::shared();
        let look = place.look(shared());
        let proxy = Proxy::start(shared().port).await;
        let through = Place {
            auth_url: format!("{}/auth/v1.0", proxy.root()),
            ..place
        };
        let config = through.config(Delivery::Relay);
        let relay = config.relay.clone();
        let (iso, bytes) = publication(name("iso"), size);
        storage::swift::swift(config)
            .unwrap()
            .publish(&iso, None)
            .await
            .unwrap();
        Self {
            proxy,
            relay,
            look,
            iso,
            bytes,
        }
    }

    async fn read(&self, range: std::ops::Range<u64>) -> std::io::Result<Vec<u8>> {
        let served = self.relay.lookup(&self.iso.name).await.unwrap().unwrap();
        let storage::Content::Remote(remote) = &served.content else {
            panic!("it is made here");
        };
        let pieces: Vec<bytes::Bytes> = remote.read(range).await?.try_collect().await?;
        Ok(pieces.concat())
    }
}

#[test]
fn any_range_of_a_relayed_artefact_is_that_range_of_the_image() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let relayed = runtime.block_on(Relayed::new(SIZE));
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(60)
    };
    proptest!(config, |(a in 0..SIZE, b in 0..=SIZE)| {
        let range = a.min(b)..a.max(b);
        let read = runtime.block_on(relayed.read(range.clone())).unwrap();
        let place = |at: u64| usize::try_from(at).unwrap();
        prop_assert!(read == relayed.bytes[place(range.start)..place(range.end)]);
    });
    assert!(runtime.block_on(relayed.read(SIZE - 1..SIZE + 1)).is_err());
}

#[tokio::test]
async fn small_reads_that_come_back_ask_the_store_once() {
    let relayed = Relayed::new(MIB).await;
    let before = relayed.proxy.count("GET", relayed.iso.name.expose());
    for _ in 0..3 {
        for at in (0..256 * 1024).step_by(4096) {
            let at = u64::try_from(at).unwrap();
            relayed.read(at..at + 2048).await.unwrap();
        }
    }
    assert_eq!(relayed.proxy.count("GET", relayed.iso.name.expose()) - before, 1);
}

#[tokio::test]
async fn a_stream_that_breaks_is_taken_up_where_it_broke() {
    let relayed = Relayed::new(SIZE).await;
    relayed
        .proxy
        .rule("GET", relayed.iso.name.expose(), 2, Fault::CutAnswer(3 * MIB));
    assert!(read_relayed(&relayed.relay, &relayed.iso.name, SIZE).await.unwrap() == relayed.bytes);
    relayed
        .proxy
        .rule("GET", relayed.iso.name.expose(), 2, Fault::Status(503));
    assert!(read_relayed(&relayed.relay, &relayed.iso.name, MIB).await.unwrap() == relayed.bytes);
}

#[tokio::test]
async fn a_store_that_goes_on_breaking_is_an_error_that_names_it() {
    let relayed = Relayed::new(SIZE).await;
    relayed
        .proxy
        .rule("GET", relayed.iso.name.expose(), 99, Fault::CutAnswer(0));
    let error = relayed.read(0..SIZE).await.unwrap_err().to_string();
    assert!(error.contains(CONTAINER), "{error}");
    assert!(!error.contains(relayed.iso.name.expose()), "{error}");
    relayed.proxy.clear();
    assert!(relayed.read(0..SIZE).await.unwrap() == relayed.bytes);
}

#[tokio::test]
async fn an_object_that_somebody_replaced_is_never_passed_off_as_the_artefact() {
    let relayed = Relayed::new(SIZE).await;
    relayed.read(0..1000).await.unwrap();
    let path = [CONTAINER, relayed.iso.name.expose()];
    assert!(
        relayed
            .look
            .with(Method::PUT, &path, &[("content-length", "0")])
            .await
            .is_success()
    );
    let error = relayed.read(MIB..MIB + 1000).await.unwrap_err().to_string();
    assert!(error.contains("replaced"), "{error}");
    // What is still in memory is of the right object.
    assert!(relayed.read(0..1000).await.unwrap() == relayed.bytes[..1000]);
}

#[tokio::test]
async fn readers_of_one_place_at_the_same_time_ask_the_store_once() {
    let relayed = std::sync::Arc::new(Relayed::new(MIB).await);
    let before = relayed.proxy.count("GET", relayed.iso.name.expose());
    let readers: Vec<_> = (0..50)
        .map(|_| {
            let relayed = std::sync::Arc::clone(&relayed);
            tokio::spawn(async move { relayed.read(1000..5000).await.unwrap() })
        })
        .collect();
    for reader in readers {
        let read = tokio::time::timeout(Duration::from_secs(60), reader)
            .await
            .unwrap()
            .unwrap();
        assert!(read == relayed.bytes[1000..5000]);
    }
    assert_eq!(relayed.proxy.count("GET", relayed.iso.name.expose()) - before, 1);
}
