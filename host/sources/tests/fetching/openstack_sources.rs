//! Images of Glance and objects of Swift as sources, by their documented shapes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sources::openstack::Client;
use sources::{SourceError, Sources, SourcesConfig};

use crate::openstack::{HOUR, identity, keystone, password};
use crate::server::{Server, head, header, ok};
use crate::{Site, content, sha256};

const ID: &str = "7f1a4b1e-0000-4000-8000-000000000001";

/// Sources of a site with OpenStack.
fn with_openstack(site: &Site, server: &Server) -> Sources {
    let client = Client::new(identity(&server.url, password("s3cret")));
    Sources::new(SourcesConfig {
        glance: Some(client.clone()),
        swift: Some(client),
        swift_container: "ours".into(),
        revalidate_after: Duration::ZERO,
        // The site named these servers, not a user.
        allow_local_addresses: false,
        ..site.config()
    })
    .unwrap()
}

fn image(status: &str, content: &[u8]) -> String {
    use sha2::Digest;
    let digest: String = sha2::Sha512::digest(content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    json!({
        "id": ID, "status": status, "size": content.len(), "disk_format": "qcow2", "checksum": "0".repeat(32),
        "os_hash_algo": "sha512", "os_hash_value": digest, "kernel_id": "k", "ramdisk_id": null,
    })
    .to_string()
}

#[tokio::test]
async fn an_image_of_glance_is_fetched_with_the_digest_that_it_tells() {
    let (site, server) = (Site::new(), Server::start().await);
    keystone(&server, HOUR);
    let sources = with_openstack(&site, &server);
    let described = format!("/image/v2/images/{ID}");
    server.on(&described, [ok(&[], image("active", b"content").as_bytes())]);
    server.on(&format!("{described}/file"), [ok(&[], b"content")]);
    for reference in [format!("glance://{ID}"), ID.to_owned(), ID.to_uppercase()] {
        let fetched = sources.fetch(&reference, None).await.unwrap();
        assert_eq!(content(&sources, &fetched.sha256), b"content");
    }
    let files = server
        .requests()
        .iter()
        .filter(|request| request.contains("/file "))
        .count();
    assert_eq!(files, 1, "what is there with that digest is not fetched again");
    let told = sources.glance_image(ID.parse().unwrap()).await.unwrap();
    assert_eq!(
        (told.len, told.disk_format.as_deref(), told.kernel.as_deref()),
        (Some(7), Some("qcow2"), Some("k"))
    );
    let error = sources.fetch(ID, Some(sha256(b"other"))).await.unwrap_err();
    assert!(
        matches!(
            error,
            SourceError::Checksum {
                algorithm: "sha256",
                ..
            }
        ),
        "{error:?}"
    );
    assert!(
        server
            .requests()
            .iter()
            .all(|request| { request.contains("/auth/tokens") || header(request, "x-auth-token") == Some("token-1") })
    );
}

#[tokio::test]
async fn images_that_glance_does_not_have_or_gives_otherwise_are_refused() {
    let (site, server) = (Site::new(), Server::start().await);
    keystone(&server, HOUR);
    let sources = with_openstack(&site, &server);
    let described = format!("/image/v2/images/{ID}");
    let error = sources.fetch(ID, None).await.unwrap_err();
    assert!(matches!(error, SourceError::NotFound { .. }), "{error:?}");
    for status in ["queued", "deactivated"] {
        server.on(&described, [ok(&[], image(status, b"content").as_bytes())]);
        let error = sources.fetch(ID, None).await.unwrap_err();
        assert!(matches!(error, SourceError::OpenStack { .. }), "{error:?}");
    }
    server.on(&described, [ok(&[], image("active", b"content").as_bytes())]);
    server.on(&format!("{described}/file"), [ok(&[], b"forgery")]);
    let error = sources.fetch(ID, None).await.unwrap_err();
    assert!(
        matches!(
            error,
            SourceError::Checksum {
                algorithm: "sha512",
                ..
            }
        ),
        "{error:?}"
    );
    server.on(&format!("{described}/file"), [head(403, &["content-length: 0"], b"")]);
    let error = sources.fetch(ID, None).await.unwrap_err();
    assert!(error.to_string().contains("OpenStack user"), "{error}");
    assert!(sources.entries().unwrap().is_empty());
    let error = site.sources().fetch(ID, None).await.unwrap_err();
    assert!(matches!(error, SourceError::NoOpenStack { .. }), "{error:?}");
}

#[tokio::test]
async fn an_object_of_swift_is_fetched_resumed_and_asked_about() {
    let (site, server) = (Site::new(), Server::start().await);
    keystone(&server, HOUR);
    let sources = with_openstack(&site, &server);
    let tag = "etag: \"t1\"";
    let cut = head(200, &["content-length: 7", tag], b"con");
    let rest = head(206, &["content-length: 4", "content-range: bytes 3-6/7", tag], b"tent");
    server.on(
        "/v1/AUTH_p1/ours/boot-1",
        [cut, rest, head(304, &[], b""), ok(&[], b"newer")],
    );
    for want in [b"content".as_slice(), b"content", b"newer"] {
        let fetched = sources.fetch("swift:boot-1", None).await.unwrap();
        assert_eq!(content(&sources, &fetched.sha256), want);
    }
    server.on("/v1/AUTH_p1/images/a/b%20c.raw", [ok(&[], b"other")]);
    assert_eq!(
        sources.fetch("swift://images/a/b c.raw", None).await.unwrap().sha256,
        sha256(b"other")
    );
    let error = sources.fetch("swift://images/missing", None).await.unwrap_err();
    assert!(matches!(error, SourceError::NotFound { .. }), "{error:?}");
    assert!(error.to_string().contains("swift://images/missing"), "{error}");
}

#[tokio::test]
async fn when_the_identity_service_is_away_the_cache_still_answers_by_digest() {
    let (site, server) = (Site::new(), Arc::new(Server::start().await));
    keystone(&server, HOUR);
    server.on("/v1/AUTH_p1/ours/o", [ok(&[], b"content")]);
    let sources = with_openstack(&site, &server);
    sources.fetch("swift:o", None).await.unwrap();
    drop(server);
    let error = sources.fetch("swift:o", None).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    sources.fetch("swift:o", Some(sha256(b"content"))).await.unwrap();
}
