//! The same against a real Keystone and a real Swift, which the lab has (`make setup`).

use model::Secret;
use reqwest::{Body, Method};
use sources::openstack::{
    ApplicationCredential, Client, Credential, Identity, IdentityConfig, Member, Named, OpenStackError, read,
};
use sources::{Sources, SourcesConfig};

use crate::peers::Keystone;
use crate::{Site, content, sha256};

fn identity(cloud: &Keystone, credential: Credential) -> Identity {
    let config = IdentityConfig::new(&cloud.auth_url, credential).unwrap();
    Identity::new(config).unwrap()
}

fn named(name: &str) -> Member {
    Member::Name {
        name: name.into(),
        domain: Named::Name("Default".into()),
    }
}

fn user(name: &str, password: &str) -> Credential {
    Credential::Password {
        user: named(name),
        password: Secret::new(password),
        project: named("service"),
    }
}

async fn put(client: &Client, path: &[&str], body: &'static [u8]) {
    let mut request = client.request("object-store", Method::PUT, path).await.unwrap();
    *request.body_mut() = Some(Body::from(body));
    let answer = client.send(request).await.unwrap();
    assert_eq!(answer.status(), 201, "PUT {path:?}");
}

#[tokio::test]
async fn keystone_and_swift_take_what_we_say() {
    let cloud = tokio::task::spawn_blocking(Keystone::start).await.unwrap();
    let (id, secret) = cloud.application_credential();
    let first = identity(&cloud, user("ironic", "ironic-password"))
        .token()
        .await
        .unwrap();
    let project = first.project_id().unwrap().to_owned();

    // A password, with project and domain by name or by identifier, and an application credential.
    let by_id = Credential::Password {
        user: Member::Name {
            name: "ironic".into(),
            domain: Named::Id("default".into()),
        },
        password: Secret::new("ironic-password"),
        project: Member::Id(project.clone()),
    };
    let application = Credential::Application {
        credential: ApplicationCredential::Id(id),
        secret: Secret::new(&secret),
    };
    let application_by_name = Credential::Application {
        credential: ApplicationCredential::Name {
            name: "farrier".into(),
            user: named("ironic"),
        },
        secret: Secret::new(&secret),
    };
    for credential in [
        user("ironic", "ironic-password"),
        by_id,
        application,
        application_by_name,
    ] {
        let client = Client::new(identity(&cloud, credential));
        let token = client.identity().token().await.unwrap();
        assert_eq!(token.project_id(), Some(project.as_str()));
        let endpoint = client.identity().endpoint("object-store").await.unwrap();
        assert!(endpoint.path().ends_with(&format!("/v1/AUTH_{project}")), "{endpoint}");
        let request = client.request("object-store", Method::HEAD, &[]).await.unwrap();
        let status = client.send(request).await.unwrap().status();
        assert!(status.is_success(), "{status}");
    }
    for credential in [
        user("ironic", "wrong"),
        user("stranger", "stranger-password"),
        user("nobody", "x"),
    ] {
        let error = identity(&cloud, credential).token().await.unwrap_err();
        assert!(matches!(error, OpenStackError::Unauthorized { .. }), "{error:?}");
    }

    let client = Client::new(identity(&cloud, user("ironic", "ironic-password")));
    a_revoked_token_is_renewed(&client).await;
    objects_are_sources(&client).await;
}

async fn a_revoked_token_is_renewed(client: &Client) {
    let token = client.identity().token().await.unwrap();
    let mut revoke = client
        .request("identity", Method::DELETE, &["auth", "tokens"])
        .await
        .unwrap();
    let text = token.secret().unwrap().expose();
    revoke.headers_mut().insert("x-subject-token", text.parse().unwrap());
    assert_eq!(client.send(revoke).await.unwrap().status(), 204);
    let request = client
        .request("identity", Method::GET, &["auth", "projects"])
        .await
        .unwrap();
    let answer = client.send(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    let body = read(answer, 1 << 20, std::time::Duration::from_secs(30)).await.unwrap();
    assert!(String::from_utf8_lossy(&body).contains("\"service\""));
    let renewed = client.identity().token().await.unwrap();
    assert_ne!(renewed.secret(), token.secret());
}

async fn objects_are_sources(client: &Client) {
    let site = Site::new();
    put(client, &["images"], b"").await;
    put(client, &["images", "d/disk a.raw"], b"the disk").await;
    let sources = Sources::new(SourcesConfig {
        swift: Some(client.clone()),
        swift_container: "images".into(),
        revalidate_after: std::time::Duration::ZERO,
        ..site.config()
    })
    .unwrap();
    for reference in ["swift://images/d/disk a.raw", "swift:d/disk a.raw"] {
        for _ in 0..2 {
            let fetched = sources.fetch(reference, None).await.unwrap();
            assert_eq!(content(&sources, &fetched.sha256), b"the disk");
        }
    }
    put(client, &["images", "d/disk a.raw"], b"a new disk").await;
    let fetched = sources.fetch("swift:d/disk a.raw", None).await.unwrap();
    assert_eq!(fetched.sha256, sha256(b"a new disk"));
    sources.fetch("swift:missing", None).await.unwrap_err();
    sources.fetch("swift://nowhere/missing", None).await.unwrap_err();
}
