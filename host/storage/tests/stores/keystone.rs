//! Swift with Keystone: password and application credential, regions, a user who may not, a token that ends.

use std::time::Duration;

use model::Secret;
use reqwest::{Method, StatusCode};
use sources::openstack::{ApplicationCredential, Client, Credential, Identity, IdentityConfig, Member, Named};
use storage::swift::{SwiftConfig, swift};
use storage::{Backend, Delivery, Stat, StorageError};

use crate::common::{Look, config, fetch, limits, name, publication};
use crate::peers::Keystone;
use crate::proxy::{Fault, Proxy};

const HOUR: Duration = Duration::from_secs(3600);

fn in_default(name: &str) -> Member {
    Member::Name {
        name: name.to_owned(),
        domain: Named::Name("Default".to_owned()),
    }
}

fn password(user: &str, password: &str) -> Credential {
    Credential::Password {
        user: in_default(user),
        password: Secret::new(password),
        project: in_default("service"),
    }
}

fn identity(keystone: &Keystone, credential: Credential) -> IdentityConfig {
    IdentityConfig {
        limits: limits(),
        ..IdentityConfig::new(&keystone.auth_url, credential).unwrap()
    }
}

#[tokio::test]
async fn swift_is_found_and_used_through_keystone() {
    let mut keystone = tokio::task::spawn_blocking(Keystone::start).await.unwrap();
    let ironic = || password("ironic", "ironic-password");
    let (id, secret) = keystone.application_credential();
    let application = Credential::Application {
        credential: ApplicationCredential::Id(id),
        secret: Secret::new(secret),
    };
    let look = Look(Client::new(Identity::new(identity(&keystone, ironic())).unwrap()));
    let mut in_region_two = identity(&keystone, ironic());
    in_region_two.region = Some("RegionTwo".to_owned());
    for identity in [
        identity(&keystone, ironic()),
        identity(&keystone, application),
        in_region_two,
    ] {
        let backend = swift(config(identity, Delivery::Direct)).unwrap();
        backend.check().await.unwrap();
        let (floppy, bytes) = publication(name("img"), 100_000);
        let published = backend.publish(&floppy, Some(HOUR)).await.unwrap();
        let whole = fetch(Method::GET, published.url.expose(), None).await;
        assert!(whole.bytes().await.unwrap() == bytes);
        assert_eq!(backend.stat(&floppy.name).await.unwrap(), Stat::Present(100_000));
        backend.withdraw(&floppy.name).await.unwrap();
        assert_eq!(
            fetch(Method::GET, published.url.expose(), None).await.status(),
            StatusCode::NOT_FOUND
        );
        assert_eq!(look.objects().await, Vec::<String>::new());
    }

    // Nobody who may not.
    for (user, secret, words) in [
        ("ironic", "wrong-hunter2", "user, password"),
        ("stranger", "stranger-password", "project"),
    ] {
        let backend = swift(config(identity(&keystone, password(user, secret)), Delivery::Relay)).unwrap();
        let (floppy, _) = publication(name("img"), 2048);
        for error in [
            backend.check().await.unwrap_err(),
            backend.publish(&floppy, Some(HOUR)).await.unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(matches!(error, StorageError::Forbidden { .. }), "{text}");
            assert!(
                text.contains(words) && text.contains(user) && !text.contains("hunter2"),
                "{text}"
            );
        }
    }
    let mut nowhere = identity(&keystone, ironic());
    nowhere.region = Some("Atlantis".to_owned());
    let backend = swift(config(nowhere, Delivery::Relay)).unwrap();
    let text = backend.check().await.unwrap_err().to_string();
    assert!(text.contains("Atlantis") && text.contains("RegionOne"), "{text}");

    // A token that is refused in the middle of an upload is renewed, and the upload sent again.
    let proxy = Proxy::start(keystone.swift.port).await;
    let root = proxy.root();
    let keystone = tokio::task::spawn_blocking(move || {
        keystone.name(&root);
        keystone
    })
    .await
    .unwrap();
    let backend = swift(SwiftConfig {
        segment_size: 1 << 20,
        ..config(identity(&keystone, ironic()), Delivery::Relay)
    })
    .unwrap();
    let (iso, _) = publication(name("iso"), 3 << 20);
    proxy.rule("PUT", "/00000001", 1, Fault::Status(401));
    backend.publish(&iso, None).await.unwrap();
    assert_eq!(proxy.count("PUT", "/00000001"), 2);
    assert_eq!(backend.stat(&iso.name).await.unwrap(), Stat::Present(3 << 20));
}
