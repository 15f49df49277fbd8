//! Artefacts that are too big for one object: segments under a manifest, and none left without.

use std::time::Duration;

use reqwest::Method;
use storage::swift::{SwiftConfig, swift};
use storage::{Backend, Delivery, ObjectBackend, Renewal, StorageError};

use crate::common::{CONTAINER, Look, MIB, Place, fetch, name, publication, read_relayed, shared};
use crate::peers::Swift;

const HOUR: Duration = Duration::from_secs(3600);
const SIZE: u64 = 5 * MIB + 12_345;

fn backend(place: &Place, delivery: Delivery) -> ObjectBackend {
    let config = SwiftConfig {
        segment_size: 2 * MIB,
        ..place.config(delivery)
    };
    swift(config).unwrap()
}

/// Publishes in segments, reads back, renews, withdraws; with a lifetime and without.
async fn check(swift: &Swift) {
    let place = Place::at(swift);
    let look = place.look(swift);
    let backend = backend(&place, Delivery::Direct);
    for lifetime in [Some(HOUR), None] {
        let (iso, bytes) = publication(name("iso"), SIZE);
        let published = backend.publish(&iso, lifetime).await.unwrap();
        let url = published.url.expose();
        assert!(fetch(Method::GET, url, None).await.bytes().await.unwrap() == bytes);
        // Across the border between two segments.
        let border = usize::try_from(2 * MIB).unwrap();
        let range = format!("bytes={}-{}", border - 10, border + 9);
        let part = fetch(Method::GET, url, Some(&range)).await.bytes().await.unwrap();
        assert!(part == bytes[border - 10..border + 10]);
        assert_eq!(
            ends(&look).await.iter().filter(|end| end.is_some()).count(),
            match lifetime {
                // The object and its three segments.
                Some(_) => 4,
                None => 0,
            }
        );
        if lifetime.is_some() {
            let before = ends(&look).await;
            let renewal = backend.renew(&iso.name, HOUR * 100).await.unwrap();
            assert!(matches!(renewal, Renewal::UrlChanged(_)), "{renewal:?}");
            for (before, after) in before.iter().zip(ends(&look).await) {
                assert!(after.unwrap() > before.unwrap() + 3600);
            }
            assert!(fetch(Method::GET, url, None).await.bytes().await.unwrap() == bytes);
        }
        // Once more sends nothing again, and finds what is there whole.
        backend.publish(&iso, lifetime).await.unwrap();
        assert_eq!(look.objects().await.len(), 4);
        backend.withdraw(&iso.name).await.unwrap();
        assert_eq!(look.objects().await, Vec::<String>::new());
    }
}

/// When each object there ends.
async fn ends(look: &Look) -> Vec<Option<u64>> {
    let mut ends = Vec::new();
    for object in look.objects().await {
        let path: Vec<&str> = std::iter::once(CONTAINER).chain(object.split('/')).collect();
        ends.push(look.header(&path, "x-delete-at").await.map(|end| end.parse().unwrap()));
    }
    ends
}

#[tokio::test]
async fn static_manifests_are_read_renewed_and_withdrawn_with_their_segments() {
    check(shared()).await;
}

#[tokio::test]
async fn dynamic_manifests_do_where_a_cluster_knows_no_static_ones() {
    let swift = tokio::task::spawn_blocking(|| Swift::start(&["--without", "slo"]))
        .await
        .unwrap();
    check(&swift).await;
}

#[tokio::test]
async fn an_object_that_does_not_become_whole_is_taken_back() {
    let place = Place::shared();
    let look = place.look(shared());
    let proxy = crate::proxy::Proxy::start(shared().port).await;
    let through = Place {
        auth_url: format!("{}/auth/v1.0", proxy.root()),
        ..place
    };
    let (iso, _) = publication(name("iso"), SIZE);
    proxy.rule("HEAD", iso.name.expose(), 99, crate::proxy::Fault::Status(404));
    let error = backend(&through, Delivery::Relay)
        .publish(&iso, None)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("segment-size"), "{error}");
    assert_eq!(look.objects().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_relayed_large_object_is_byte_identical_however_it_is_read() {
    let place = Place::shared();
    let mut config = place.config(Delivery::Relay);
    config.segment_size = 2 * MIB;
    let relay = config.relay.clone();
    let backend = swift(config).unwrap();
    let (iso, bytes) = publication(name("iso"), SIZE);
    backend.publish(&iso, None).await.unwrap();
    for piece in [4096 * 17 + 1, MIB, SIZE] {
        assert!(
            read_relayed(&relay, &iso.name, piece).await.unwrap() == bytes,
            "{piece}"
        );
    }
}

#[tokio::test]
async fn segments_of_a_failed_upload_are_removed_and_what_another_artefact_has_is_left() {
    let place = Place::shared();
    let look = place.look(shared());
    let proxy = crate::proxy::Proxy::start(shared().port).await;
    let other = backend(&place, Delivery::Relay);
    let (kept, _) = publication(name("iso"), SIZE);
    other.publish(&kept, None).await.unwrap();
    let through = Place {
        auth_url: format!("{}/auth/v1.0", proxy.root()),
        ..place
    };
    let backend = backend(&through, Delivery::Relay);
    let (iso, bytes) = publication(name("iso"), SIZE);
    for (path, fault) in [
        ("/00000002", crate::proxy::Fault::Status(507)),
        ("multipart-manifest=put", crate::proxy::Fault::Status(503)),
        ("multipart-manifest=put", crate::proxy::Fault::LostAnswer),
    ] {
        proxy.rule("PUT", path, 99, fault);
        let error = backend.publish(&iso, None).await.unwrap_err();
        assert!(!matches!(error, StorageError::Conflict { .. }), "{error}");
        assert_eq!(look.objects().await.len(), 4, "{fault:?}");
    }
    proxy.clear();
    backend.publish(&iso, None).await.unwrap();
    assert_eq!(look.objects().await.len(), 8);
    drop(bytes);
    backend.withdraw(&iso.name).await.unwrap();
    assert_eq!(look.objects().await.len(), 4);
}

#[tokio::test]
async fn segments_that_a_killed_attempt_left_go_with_the_next_withdrawal() {
    let place = Place::shared();
    let look = place.look(shared());
    let backend = backend(&place, Delivery::Relay);
    let (iso, _) = publication(name("iso"), SIZE);
    backend.publish(&iso, None).await.unwrap();
    for object in [iso.name.expose(), "00000000000000000000000000000009.iso"] {
        let path = [CONTAINER, ".segments", object, "00aa", "00000000"];
        assert!(
            look.with(Method::PUT, &path, &[("content-length", "0")])
                .await
                .is_success()
        );
    }
    // Whoever looks for what was never recorded sees both.
    let names = backend.names().await.unwrap().unwrap();
    let other = model::ArtefactName::parse("00000000000000000000000000000009.iso").unwrap();
    assert_eq!(names.len(), 2);
    assert!(names.contains(&iso.name) && names.contains(&other));
    backend.withdraw(&iso.name).await.unwrap();
    let left = look.objects().await;
    assert_eq!(left, [".segments/00000000000000000000000000000009.iso/00aa/00000000"]);
    backend.withdraw(&other).await.unwrap();
    assert_eq!(look.objects().await, Vec::<String>::new());
    assert_eq!(backend.names().await.unwrap().unwrap(), []);
}
