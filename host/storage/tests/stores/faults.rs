//! A sick Swift, a sick network, a full container: each is a clear error, nothing half-published, and the next attempt works.

use std::time::{Duration, Instant};

use reqwest::Method;
use storage::{Backend, Delivery, ObjectBackend, Stat, StorageError};

use crate::common::{CONTAINER, Look, MIB, Place, name, publication, shared};
use crate::proxy::{Fault, Proxy};

const HOUR: Duration = Duration::from_secs(3600);

struct Sick {
    proxy: Proxy,
    backend: ObjectBackend,
    look: Look,
}

impl Sick {
    /// Impatient, and in segments if asked for.
    async fn new(segment_size: u64) -> Self {
        let place = Place::shared();
        let look = place.look(shared());
        let proxy = Proxy::start(shared().port).await;
        let mut through = Place {
            auth_url: format!("{}/auth/v1.0", proxy.root()),
            ..place
        };
        through.limits.answer = Duration::from_secs(20);
        let mut config = through.config(Delivery::Relay);
        config.segment_size = segment_size;
        config.patience = Duration::from_secs(2);
        let backend = storage::swift::swift(config).unwrap();
        // Everything is known and made before anything goes wrong.
        backend.check().await.unwrap();
        let (first, _) = publication(name("img"), 2048);
        backend.publish(&first, Some(HOUR)).await.unwrap();
        backend.withdraw(&first.name).await.unwrap();
        Self { proxy, backend, look }
    }

    /// Publishes while uploads suffer from the fault; gives the error. Then publishes without.
    async fn publish_sick(&self, path: &str, fault: Fault, size: u64) -> StorageError {
        let (iso, _) = publication(name("iso"), size);
        self.proxy.rule("PUT", path, 99, fault);
        let start = Instant::now();
        let error = self.backend.publish(&iso, Some(HOUR)).await.unwrap_err();
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{fault:?}: {:?}",
            start.elapsed()
        );
        self.proxy.clear();
        assert_eq!(self.look.objects().await, Vec::<String>::new(), "{fault:?}: {error}");
        assert_eq!(self.backend.stat(&iso.name).await.unwrap(), Stat::Absent);
        self.backend.publish(&iso, Some(HOUR)).await.unwrap();
        assert_eq!(self.backend.stat(&iso.name).await.unwrap(), Stat::Present(size));
        self.backend.withdraw(&iso.name).await.unwrap();
        assert_eq!(self.look.objects().await, Vec::<String>::new());
        error
    }
}

/// What a variant is called.
fn kind(error: &StorageError) -> &'static str {
    match error {
        StorageError::Full { .. } => "full",
        StorageError::Forbidden { .. } => "forbidden",
        StorageError::Unusable { .. } => "unusable",
        StorageError::Timeout { .. } => "timeout",
        StorageError::Source(_) => "source",
        StorageError::Io { .. } => "io",
        StorageError::Conflict { .. } => "conflict",
    }
}

#[tokio::test]
async fn every_refusal_and_every_break_of_an_upload_is_told_and_leaves_nothing() {
    let sick = Sick::new(1 << 30).await;
    for (fault, expected, word) in [
        (Fault::Status(401), "forbidden", "401"),
        (Fault::Status(403), "forbidden", "role"),
        (Fault::Status(404), "unusable", "404"),
        (Fault::Status(413), "full", "quota"),
        (Fault::Status(422), "unusable", "422"),
        (Fault::Status(500), "unusable", "500"),
        (Fault::Status(503), "unusable", "503"),
        (Fault::Status(507), "full", "make room"),
        (Fault::CutRequest(300_000), "unusable", "reached"),
        (Fault::CutRequest(0), "unusable", "reached"),
        (Fault::OtherTag, "unusable", "checksum"),
        (Fault::Hang, "timeout", "an upload"),
    ] {
        let error = sick.publish_sick(CONTAINER, fault, MIB).await;
        let text = error.to_string();
        assert_eq!(kind(&error), expected, "{fault:?}: {text}");
        assert!(text.contains(word) && text.contains(CONTAINER), "{fault:?}: {text}");
    }
}

#[tokio::test]
async fn a_refusal_before_the_body_was_read_is_an_error_too_and_leaves_nothing() {
    let sick = Sick::new(1 << 30).await;
    // The connection may break before the answer is seen: then it is one that cannot be reached.
    for status in [413, 503] {
        let error = sick.publish_sick(CONTAINER, Fault::EarlyStatus(status), 8 * MIB).await;
        assert!(matches!(kind(&error), "full" | "unusable"), "{error}");
    }
}

#[tokio::test]
async fn segments_of_an_upload_that_breaks_off_are_removed() {
    let sick = Sick::new(MIB).await;
    for fault in [
        Fault::Status(413),
        Fault::Status(500),
        Fault::CutRequest(1000),
        Fault::OtherTag,
        Fault::Hang,
    ] {
        sick.publish_sick("/00000002", fault, 4 * MIB).await;
    }
}

#[tokio::test]
async fn what_passes_is_waited_for_and_an_upload_is_sent_again_from_its_start() {
    let sick = Sick::new(1 << 30).await;
    for fault in [
        Fault::Status(401),
        Fault::Status(500),
        Fault::Status(503),
        Fault::Status(404),
        Fault::CutRequest(300_000),
        Fault::LostAnswer,
    ] {
        let (iso, bytes) = publication(name("iso"), MIB);
        sick.proxy.rule("PUT", iso.name.expose(), 1, fault);
        sick.backend.publish(&iso, Some(HOUR)).await.unwrap();
        assert_eq!(sick.proxy.count("PUT", iso.name.expose()), 2, "{fault:?}");
        let stored = sick.look.ask(Method::GET, &[CONTAINER, iso.name.expose()], None).await;
        assert!(stored.bytes().await.unwrap() == bytes, "{fault:?}");
        sick.backend.withdraw(&iso.name).await.unwrap();
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_asked_is_an_error_of_every_verb() {
    let sick = Sick::new(1 << 30).await;
    let (iso, _) = publication(name("iso"), 2048);
    sick.backend.publish(&iso, Some(HOUR)).await.unwrap();
    for fault in [Fault::Status(500), Fault::Status(503), Fault::CutRequest(0)] {
        sick.proxy.rule("HEAD", CONTAINER, 99, fault);
        for error in [
            sick.backend.check().await.unwrap_err(),
            sick.backend.stat(&iso.name).await.unwrap_err(),
            sick.backend.renew(&iso.name, HOUR).await.unwrap_err(),
            sick.backend.withdraw(&iso.name).await.unwrap_err(),
        ] {
            assert_eq!(kind(&error), "unusable", "{fault:?}: {error}");
        }
    }
    sick.proxy.rule("DELETE", CONTAINER, 99, Fault::Status(503));
    sick.backend.withdraw(&iso.name).await.unwrap_err();
    sick.proxy.clear();
    sick.backend.withdraw(&iso.name).await.unwrap();
    assert_eq!(sick.look.objects().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_container_that_is_full_says_so_and_takes_what_fits() {
    let place = Place::shared();
    let look = place.look(shared());
    let backend = place.backend(Delivery::Relay);
    backend.check().await.unwrap();
    let quota = [("x-container-meta-quota-bytes", "100000")];
    assert!(look.with(Method::POST, &[CONTAINER], &quota).await.is_success());
    let (small, _) = publication(name("img"), 50_000);
    // The bigger one is refused while it is still being sent.
    for size in [150_000, 30 * MIB] {
        let (big, _) = publication(name("iso"), size);
        let error = backend.publish(&big, None).await.unwrap_err();
        assert_eq!(kind(&error), "full", "{error}");
        assert!(error.to_string().contains("quota"), "{error}");
    }
    backend.publish(&small, Some(HOUR)).await.unwrap();
    assert_eq!(look.objects().await, [small.name.expose()]);
}

#[tokio::test]
async fn a_source_that_cannot_be_read_is_the_images_fault_and_not_the_stores() {
    let place = Place::shared();
    let backend = place.backend(Delivery::Relay);
    let (iso, _) = publication(name("iso"), 3 * MIB);
    let broken = storage::Publication {
        sources: std::sync::Arc::new(image::NoSources),
        ..iso
    };
    let error = backend.publish(&broken, Some(HOUR)).await.unwrap_err();
    assert_eq!(kind(&error), "source", "{error}");
    assert_eq!(place.look(shared()).objects().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_publication_that_is_given_up_half_way_leaves_no_segment() {
    let sick = Sick::new(MIB).await;
    let (iso, _) = publication(name("iso"), 6 * MIB);
    sick.proxy.rule("PUT", "/00000003", 99, Fault::Hang);
    let given_up = tokio::time::timeout(Duration::from_millis(1500), sick.backend.publish(&iso, None)).await;
    assert!(given_up.is_err(), "{given_up:?}");
    let start = Instant::now();
    while !sick.look.objects().await.is_empty() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{:?}",
            sick.look.objects().await
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
