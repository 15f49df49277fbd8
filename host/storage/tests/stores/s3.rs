//! S3 as Swift's `s3api` speaks it, which checks signatures.

use std::time::{Duration, SystemTime};

use model::Secret;
use reqwest::{Method, StatusCode};
use storage::s3::{AccessKey, S3Config, s3};
use storage::{Backend, Delivery, ObjectBackend, Renewal, Stat, StorageError};

use crate::common::{Look, MIB, Place, embedded, fetch, limits, name, publication, read_relayed, shared};
use crate::proxy::{Fault, Proxy};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const BUCKET: &str = "farrier";

/// A bucket of its own.
struct Bucket {
    place: Place,
    look: Look,
}

impl Bucket {
    async fn new() -> Self {
        let place = Place::shared();
        let look = place.look(shared());
        assert!(look.with(Method::PUT, &[BUCKET], &[]).await.is_success());
        Self { place, look }
    }

    fn config(&self, root: String, delivery: Delivery) -> S3Config {
        S3Config {
            endpoint: root,
            bucket: BUCKET.to_owned(),
            region: "us-east-1".to_owned(),
            key: Some(AccessKey {
                id: self.place.user.clone(),
                secret: Secret::new(&*self.place.password),
                session: None,
            }),
            path_style: true,
            part_size: 1 << 30,
            ca: None,
            limits: limits(),
            delivery,
            relay: embedded(),
        }
    }

    fn backend(&self, delivery: Delivery) -> ObjectBackend {
        s3(self.config(shared().root(), delivery)).unwrap()
    }

    /// Names in the bucket, and of unfinished uploads beside it.
    async fn objects(&self) -> Vec<String> {
        let mut all = Vec::new();
        for container in [BUCKET, "farrier+segments"] {
            let listing = self.look.ask(Method::GET, &[container], None).await;
            if listing.status().is_success() {
                all.extend(listing.text().await.unwrap().lines().map(str::to_owned));
            }
        }
        all
    }
}

#[tokio::test]
async fn an_artefact_is_fetched_by_its_presigned_url_and_gone_once_withdrawn() {
    let bucket = Bucket::new().await;
    let backend = bucket.backend(Delivery::Direct);
    backend.check().await.unwrap();
    let (iso, bytes) = publication(name("iso"), 300_000);
    let published = backend.publish(&iso, Some(HOUR)).await.unwrap();
    let url = published.url.expose();
    assert!(published.expires.unwrap() > SystemTime::now() + HOUR / 2);
    assert!(fetch(Method::GET, url, None).await.bytes().await.unwrap() == bytes);
    let part = fetch(Method::GET, url, Some("bytes=512-1023")).await;
    assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
    assert!(part.bytes().await.unwrap() == bytes[512..1024]);
    // The signature is checked.
    let (forged, _) = url.split_once("X-Amz-Signature=").unwrap();
    let forged = format!("{forged}X-Amz-Signature={}", "0".repeat(64));
    assert_eq!(fetch(Method::GET, &forged, None).await.status(), StatusCode::FORBIDDEN);
    assert_eq!(backend.stat(&iso.name).await.unwrap(), Stat::Present(300_000));
    let renewal = backend.renew(&iso.name, DAY).await.unwrap();
    let Renewal::UrlChanged(renewed) = renewal else {
        panic!("{renewal:?}");
    };
    assert!(
        fetch(Method::GET, renewed.url.expose(), None)
            .await
            .bytes()
            .await
            .unwrap()
            == bytes
    );
    for _ in 0..2 {
        backend.withdraw(&iso.name).await.unwrap();
        assert_eq!(backend.stat(&iso.name).await.unwrap(), Stat::Absent);
    }
    assert_eq!(fetch(Method::GET, url, None).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(bucket.objects().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_presigned_url_promises_seven_days_at_most_and_says_when_it_ends() {
    let bucket = Bucket::new().await;
    let backend = bucket.backend(Delivery::Direct);
    let longest = backend.longest().unwrap();
    assert!(longest <= DAY * 7 && longest > DAY * 6, "{longest:?}");
    for lifetime in [None, Some(DAY * 30)] {
        let (iso, _) = publication(name("iso"), 2048);
        let published = backend.publish(&iso, lifetime).await.unwrap();
        let lives = published.expires.unwrap().duration_since(SystemTime::now()).unwrap();
        assert!(lives <= DAY * 7 && lives > DAY * 6, "{lives:?}");
    }
    // Who is not bound to it goes through us, for as long as it takes.
    let config = bucket.config(shared().root(), Delivery::Auto);
    let relay = config.relay.clone();
    let backend = s3(config).unwrap();
    assert_eq!(backend.longest(), None);
    for lifetime in [None, Some(DAY * 30), Some(HOUR)] {
        let (iso, bytes) = publication(name("iso"), 100_000);
        let published = backend.publish(&iso, lifetime).await.unwrap();
        assert_eq!(published.url, relay.url(&iso.name), "{lifetime:?}");
        assert_eq!(published.expires.is_some(), lifetime.is_some());
        assert!(read_relayed(&relay, &iso.name, 4096).await.unwrap() == bytes);
    }
}

#[tokio::test]
async fn what_is_big_goes_in_parts_and_is_one_object() {
    let bucket = Bucket::new().await;
    let mut config = bucket.config(shared().root(), Delivery::Direct);
    config.part_size = 2 * MIB;
    let backend = s3(config).unwrap();
    let size = 5 * MIB + 12_345;
    let (iso, bytes) = publication(name("iso"), size);
    let published = backend.publish(&iso, None).await.unwrap();
    let whole = fetch(Method::GET, published.url.expose(), None)
        .await
        .bytes()
        .await
        .unwrap();
    assert!(whole == bytes);
    assert_eq!(backend.stat(&iso.name).await.unwrap(), Stat::Present(size));
    // It is recognised as what it is.
    backend.publish(&iso, None).await.unwrap();
    let (other, _) = publication(iso.name.clone(), size + 1);
    let conflict = backend.publish(&other, None).await.unwrap_err();
    assert!(matches!(conflict, StorageError::Conflict { .. }), "{conflict}");
    backend.withdraw(&iso.name).await.unwrap();
    assert_eq!(bucket.objects().await, Vec::<String>::new());
}

#[tokio::test]
async fn refusals_and_breaks_leave_neither_object_nor_unfinished_upload() {
    let bucket = Bucket::new().await;
    let proxy = Proxy::start(shared().port).await;
    let mut config = bucket.config(proxy.root(), Delivery::Relay);
    config.part_size = 2 * MIB;
    config.limits.answer = Duration::from_secs(5);
    let backend = s3(config).unwrap();
    let (iso, _) = publication(name("iso"), 5 * MIB);
    for (method, path, fault) in [
        ("PUT", "partNumber=2", Fault::Status(503)),
        ("PUT", "partNumber=3", Fault::CutRequest(1000)),
        ("PUT", "partNumber=2", Fault::OtherTag),
        ("PUT", "partNumber=1", Fault::Hang),
        ("POST", "uploadId=", Fault::Status(500)),
        ("POST", "uploads", Fault::Status(403)),
    ] {
        proxy.rule(method, path, 99, fault);
        let error = backend.publish(&iso, None).await.unwrap_err();
        proxy.clear();
        assert_eq!(bucket.objects().await, Vec::<String>::new(), "{fault:?}: {error}");
    }
    backend.publish(&iso, None).await.unwrap();
    assert_eq!(backend.stat(&iso.name).await.unwrap(), Stat::Present(5 * MIB));
    backend.withdraw(&iso.name).await.unwrap();
    // An upload that nobody could abort at the time goes with the next withdrawal.
    proxy.rule("PUT", "partNumber=2", 99, Fault::Status(503));
    proxy.also("DELETE", "uploadId=", 99, Fault::Status(503));
    backend.publish(&iso, None).await.unwrap_err();
    proxy.clear();
    assert_eq!(backend.names().await.unwrap().unwrap(), std::slice::from_ref(&iso.name));
    backend.withdraw(&iso.name).await.unwrap();
    let start = std::time::Instant::now();
    while !bucket.objects().await.is_empty() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{:?}",
            bucket.objects().await
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_wrong_key_a_missing_bucket_and_a_closed_door_are_told_apart() {
    let bucket = Bucket::new().await;
    let root = shared().root();
    let mut wrong_secret = bucket.config(root.clone(), Delivery::Relay);
    wrong_secret.key.as_mut().unwrap().secret = Secret::new("hunter2");
    let mut no_bucket = bucket.config(root, Delivery::Relay);
    no_bucket.bucket = "nowhere".to_owned();
    let mut closed = bucket.config("http://127.0.0.1:1".to_owned(), Delivery::Relay);
    closed.limits.attempts = 1;
    for (config, forbidden, word) in [
        (wrong_secret, true, "access-key"),
        (no_bucket, false, "bucket"),
        (closed, false, "reached"),
    ] {
        let backend = s3(config).unwrap();
        let (iso, _) = publication(name("iso"), 2048);
        for error in [
            backend.check().await.unwrap_err(),
            backend.publish(&iso, None).await.unwrap_err(),
        ] {
            let text = error.to_string();
            assert_eq!(matches!(error, StorageError::Forbidden { .. }), forbidden, "{text}");
            assert!(text.contains(word), "{text}");
            assert!(!text.contains("hunter2") && !text.contains("Signature="), "{text}");
        }
    }
}
