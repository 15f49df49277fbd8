//! Identity, Glance and Swift by their documented shapes, and services that misbehave in ways that real ones do not on call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use model::Secret;
use reqwest::Method;
use serde_json::{Value, json};
use sources::openstack::{
    ApplicationCredential, Client, Credential, Identity, IdentityConfig, Limits, Member, Named, OpenStackError, read,
};

use crate::server::{Answer, Server, bytes, head, header, ok};

fn named(name: &str) -> Member {
    Member::Name {
        name: name.into(),
        domain: Named::Name("Default".into()),
    }
}

pub(crate) fn password(secret: &str) -> Credential {
    Credential::Password {
        user: named("ironic"),
        password: Secret::new(secret),
        project: named("service"),
    }
}

/// Patience for tests: the third attempt comes within a second.
fn limits() -> Limits {
    Limits {
        connect: Duration::from_secs(5),
        answer: Duration::from_secs(5),
        backoff: Duration::from_millis(20),
        longest_wait: Duration::from_millis(200),
        ..Limits::default()
    }
}

pub(crate) fn identity(url: &str, credential: Credential) -> Identity {
    let config = IdentityConfig {
        limits: limits(),
        ..IdentityConfig::new(url, credential).unwrap()
    };
    Identity::new(config).unwrap()
}

/// Issues tokens `token-1`, `token-2`, … that live so long, to those who say exactly what it expects.
pub(crate) fn keystone(server: &Server, life: &'static str) {
    let issued = AtomicUsize::new(0);
    let url = server.url.clone();
    let answer = Answer::to(move |request| {
        let body = request.split_once("\r\n\r\n").unwrap().1;
        let asked: Value = serde_json::from_str(body).unwrap();
        let identity = &asked["auth"]["identity"];
        let user = json!({"name": "ironic", "domain": {"name": "Default"}, "password": "s3cret"});
        let project = json!({"project": {"name": "service", "domain": {"name": "Default"}}});
        let application = json!({"id": "a1", "secret": "s3cret"});
        let known = (identity["password"]["user"] == user && asked["auth"]["scope"] == project)
            || (identity["application_credential"] == application && asked["auth"].get("scope").is_none());
        if !known {
            let said =
                json!({"error": {"code": 401, "title": "Unauthorized", "message": "No such pair: ironic, s3cret\n."}});
            let said = said.to_string();
            return head(401, &[&format!("content-length: {}", said.len())], said.as_bytes());
        }
        let endpoint = |path: &str, region: &str| json!({"interface": "public", "region_id": region, "url": format!("{url}{path}")});
        let token = json!({"token": {
            "issued_at": "2026-11-30T12:00:00.000000Z",
            "expires_at": life,
            "project": {"id": "p1", "name": "service"},
            "catalog": [
                {"type": "object-store", "name": "swift", "endpoints": [endpoint("/v1/AUTH_p1", "one"), endpoint("/two", "two")]},
                {"type": "image", "name": "glance", "endpoints": [endpoint("/image", "one")]},
            ],
        }});
        let token = token.to_string();
        let name = format!("x-subject-token: token-{}", issued.fetch_add(1, Ordering::Relaxed) + 1);
        head(
            201,
            &[&name, &format!("content-length: {}", token.len())],
            token.as_bytes(),
        )
    });
    server.on("/v3/auth/tokens", [answer]);
}

pub(crate) const HOUR: &str = "2026-11-30T13:00:00.000000Z";
const NOTHING: &str = "2026-11-30T12:00:00.000000Z";

fn logins(server: &Server) -> usize {
    server
        .requests()
        .iter()
        .filter(|request| request.contains("/auth/tokens"))
        .count()
}

async fn get(client: &Client, path: &[&str]) -> Result<u16, OpenStackError> {
    let request = client.request("object-store", Method::GET, path).await?;
    client.send(request).await.map(|answer| answer.status().as_u16())
}

#[tokio::test]
async fn a_token_is_kept_shared_and_renewed_before_it_ends() {
    let server = Server::start().await;
    keystone(&server, HOUR);
    let identity = identity(&server.url, password("s3cret"));
    let tokens = futures_util::future::join_all((0..20).map(|_| identity.token())).await;
    for token in &tokens {
        assert_eq!(token.as_ref().unwrap().secret().unwrap().expose(), "token-1");
    }
    assert_eq!(identity.token().await.unwrap().project_id(), Some("p1"));
    assert_eq!(logins(&server), 1);
    // One that is at its end when it comes serves once.
    keystone(&server, NOTHING);
    let other = self::identity(&server.url, password("s3cret"));
    for number in ["token-1", "token-2"] {
        assert_eq!(other.token().await.unwrap().secret().unwrap().expose(), number);
    }
}

#[tokio::test]
async fn application_credentials_and_version_1_log_in_too() {
    let server = Server::start().await;
    keystone(&server, HOUR);
    let application = Credential::Application {
        credential: ApplicationCredential::Id("a1".into()),
        secret: Secret::new("s3cret"),
    };
    let identity = identity(&format!("{}/v3/", server.url), application);
    let endpoint = identity.endpoint("object-store").await.unwrap();
    assert_eq!(endpoint.as_str(), format!("{}/v1/AUTH_p1", server.url));

    let storage = format!("x-storage-url: {}/v1/AUTH_t", server.url);
    server.on(
        "/auth/v1.0",
        [head(
            200,
            &[
                "x-auth-token: t1",
                "x-auth-token-expires: 3600",
                &storage,
                "content-length: 0",
            ],
            b"",
        )],
    );
    let v1 = Credential::V1 {
        user: "test:tester".into(),
        key: Secret::new("s3cret"),
    };
    let identity = self::identity(&server.url, v1);
    let token = identity.token().await.unwrap();
    assert_eq!(
        (token.secret().unwrap().expose(), token.project_id()),
        ("t1", Some("AUTH_t"))
    );
    let endpoint = identity.endpoint("object-store").await.unwrap();
    assert_eq!(endpoint.as_str(), format!("{}/v1/AUTH_t", server.url));
    let asked = server.requests().pop().unwrap();
    assert_eq!(
        (header(&asked, "x-auth-user"), header(&asked, "x-auth-key")),
        (Some("test:tester"), Some("s3cret"))
    );
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_and_the_request_repeated() {
    let server = Server::start().await;
    keystone(&server, HOUR);
    let client = Client::new(identity(&server.url, password("s3cret")));
    let no = || head(401, &["content-length: 0"], b"");
    server.on("/v1/AUTH_p1/c", [no(), ok(&[], b"")]);
    assert_eq!(get(&client, &["c"]).await.unwrap(), 200);
    let sent: Vec<_> = server
        .requests()
        .iter()
        .filter_map(|it| header(it, "x-auth-token").map(str::to_owned))
        .collect();
    assert_eq!(sent, ["token-1", "token-2"]);
    server.on("/v1/AUTH_p1/d", [no()]);
    let before = server.requests().len();
    let error = get(&client, &["d"]).await.unwrap_err();
    assert!(matches!(error, OpenStackError::Unauthorized { .. }), "{error:?}");
    assert_eq!(server.requests().len() - before, 3, "refused, logged in, refused");
}

#[tokio::test]
async fn a_stream_is_sent_again_only_by_whoever_can_make_it_again() {
    let server = Server::start().await;
    keystone(&server, HOUR);
    let client = Client::new(identity(&server.url, password("s3cret")));
    let no = head(401, &["content-length: 0"], b"");
    let busy = head(503, &["content-length: 0", "retry-after: 0"], b"");
    let url = server.on("/v1/AUTH_p1/o", [no, busy, head(201, &["content-length: 0"], b"")]);
    let request = client.request("object-store", Method::PUT, &["o"]).await.unwrap();
    let made = AtomicUsize::new(0);
    let make = || {
        made.fetch_add(1, Ordering::Relaxed);
        let mut request = request.try_clone().unwrap();
        let pieces = futures_util::stream::iter([Ok::<_, std::io::Error>("ab"), Ok("cd")]);
        *request.body_mut() = Some(reqwest::Body::wrap_stream(pieces));
        request.headers_mut().insert("content-length", 4.into());
        request
    };
    // Alone it is lost with its first answer, but the next one has a new token.
    let error = client.send(make()).await.unwrap_err();
    assert!(matches!(error, OpenStackError::Unauthorized { .. }), "{error:?}");
    assert_eq!(client.send_with(make).await.unwrap().status(), 201);
    assert_eq!(made.into_inner(), 3);
    assert!(
        server
            .requests()
            .iter()
            .filter(|it| it.starts_with("put"))
            .all(|it| it.ends_with("abcd")),
        "{url}"
    );
}

#[tokio::test]
async fn bad_moments_are_waited_out_where_repeating_does_no_harm() {
    let server = Server::start().await;
    keystone(&server, HOUR);
    let client = Client::new(identity(&server.url, password("s3cret")));
    for (path, status) in [("a", 503), ("b", 429), ("c", 500)] {
        let busy = head(status, &["content-length: 0"], b"");
        server.on(
            &format!("/v1/AUTH_p1/{path}"),
            [busy.clone(), Answer::Bytes(vec![]), ok(&[], b"")],
        );
        assert_eq!(get(&client, &[path]).await.unwrap(), 200);
        // Whatever it says at last is the answer.
        server.on(&format!("/v1/AUTH_p1/{path}"), [busy]);
        let before = server.requests().len();
        assert_eq!(get(&client, &[path]).await.unwrap(), status);
        assert_eq!(server.requests().len() - before, 3);
    }
    for method in [Method::POST, Method::PATCH] {
        server.on("/v1/AUTH_p1/e", [head(503, &["content-length: 0"], b"")]);
        let before = server.requests().len();
        let request = client.request("object-store", method, &["e"]).await.unwrap();
        assert_eq!(client.send(request).await.unwrap().status(), 503);
        assert_eq!(server.requests().len() - before, 1);
    }
}

#[tokio::test]
async fn whom_the_identity_service_does_not_know_is_told_once_and_asks_no_more_for_a_while() {
    let server = Server::start().await;
    keystone(&server, HOUR);
    let identity = identity(&server.url, password("wrong-s3cret"));
    for _ in 0..5 {
        let error = identity.token().await.unwrap_err();
        assert!(matches!(error, OpenStackError::Unauthorized { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("user ironic in project service") && text.contains("No such pair"),
            "{text}"
        );
        assert!(
            !text.contains('\n') && !format!("{error:?}").contains("wrong-s3cret"),
            "{text}"
        );
    }
    assert_eq!(logins(&server), 1, "accounts are locked after too many failures");
    assert!(!format!("{identity:?}").contains("s3cret"));
    let right = self::identity(&server.url, password("s3cret"));
    let token = right.token().await.unwrap();
    assert!(!format!("{right:?} {token:?}").contains("s3cret"));
    assert!(!format!("{token:?}").contains("token-1"));
}

#[tokio::test]
async fn a_token_goes_to_the_catalogues_servers_only() {
    let (server, other) = (Server::start().await, Server::start().await);
    keystone(&server, HOUR);
    let client = Client::new(identity(&server.url, password("s3cret")));
    let elsewhere = other.on("/x", [ok(&[], b"")]);
    let request = reqwest::Request::new(Method::GET, elsewhere.parse().unwrap());
    let error = client.send(request).await.unwrap_err();
    assert!(matches!(error, OpenStackError::ForeignOrigin { .. }), "{error:?}");
    // A redirect is an answer like any other.
    server.on(
        "/v1/AUTH_p1/c",
        [head(
            302,
            &["content-length: 0", &format!("location: {elsewhere}")],
            b"",
        )],
    );
    assert_eq!(get(&client, &["c"]).await.unwrap(), 302);
    assert!(other.requests().is_empty());
    for part in ["", ".", ".."] {
        assert!(
            client
                .request("object-store", Method::DELETE, &["c", part])
                .await
                .is_err(),
            "{part:?}"
        );
    }
}

#[tokio::test]
async fn the_endpoint_is_the_regions_or_the_one_that_is_set() {
    let server = Server::start().await;
    keystone(&server, HOUR);
    let config = |region: Option<&str>| IdentityConfig {
        region: region.map(str::to_owned),
        ..IdentityConfig::new(&server.url, password("s3cret")).unwrap()
    };
    let two = Identity::new(config(Some("two"))).unwrap();
    assert!(two.endpoint("object-store").await.unwrap().path().ends_with("/two"));
    let error = two.endpoint("image").await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("`image` in region `two`") && text.contains("public in one"),
        "{text}"
    );
    let error = Identity::new(config(None))
        .unwrap()
        .endpoint("compute")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("image, object-store"), "{error}");
    let set = Identity::new(IdentityConfig {
        endpoints: [("image".to_owned(), "http://set.example/".parse().unwrap())].into(),
        ..IdentityConfig::new("http://nobody.invalid", Credential::None).unwrap()
    })
    .unwrap();
    assert_eq!(set.endpoint("image").await.unwrap().as_str(), "http://set.example/");
    assert!(set.token().await.unwrap().secret().is_none());
}

#[tokio::test]
async fn identity_services_that_answer_nonsense_are_bounded_and_named() {
    let server = Server::start().await;
    type Check = fn(&OpenStackError) -> bool;
    let malformed: Check = |error| matches!(error, OpenStackError::Malformed { .. });
    let token = "x-subject-token: t";
    let huge = format!("{{\"token\": {{\"x\": \"{}\"}}}}", "a".repeat(5 << 20));
    let long = format!("x-subject-token: {}", "t".repeat(17 << 10));
    for (answer, check) in [
        (ok(&[token], b"<html>"), malformed),
        (ok(&[token], b"{\"token\": 7}"), malformed),
        (ok(&[token], huge.as_bytes()), malformed),
        (ok(&[], b"{\"token\": {}}"), malformed),
        (ok(&[&long], b"{\"token\": {}}"), malformed),
        (ok(&["x-subject-token: "], b"{\"token\": {}}"), malformed),
        (head(404, &["content-length: 0"], b""), |error| {
            error.to_string().contains("/v3")
        }),
        (head(300, &["content-length: 0"], b""), |error| {
            matches!(error, OpenStackError::Status { status: 300, .. })
        }),
        (head(503, &["content-length: 0"], b""), OpenStackError::is_transient),
        (Answer::Bytes(vec![]), |error| {
            matches!(error, OpenStackError::Unreachable { .. })
        }),
    ] {
        server.on("/v3/auth/tokens", [answer]);
        let error = identity(&server.url, password("s3cret")).token().await.unwrap_err();
        assert!(check(&error), "{error:?}");
        assert!(error.to_string().contains(&server.url), "{error}");
    }
    let hurry = |url: &str| {
        let mut config = IdentityConfig::new(url, password("s3cret")).unwrap();
        (config.limits.connect, config.limits.answer) = (Duration::from_millis(50), Duration::from_millis(100));
        (config.limits.attempts, config.limits.backoff) = (2, Duration::from_millis(1));
        Identity::new(config).unwrap()
    };
    server.on("/v3/auth/tokens", [Answer::ThenSilence(vec![])]);
    let error = hurry(&server.url).token().await.unwrap_err();
    assert!(matches!(error, OpenStackError::Timeout { .. }), "{error:?}");
    server.on(
        "/v3/auth/tokens",
        [Answer::ThenSilence(bytes(201, &[token, "content-length: 9"], b"{"))],
    );
    let error = hurry(&server.url).token().await.unwrap_err();
    assert!(matches!(error, OpenStackError::Timeout { .. }), "{error:?}");
}

#[tokio::test]
async fn small_answers_are_read_within_bounds() {
    let server = Server::start().await;
    keystone(&server, HOUR);
    let client = Client::new(identity(&server.url, password("s3cret")));
    server.on("/v1/AUTH_p1/c", [ok(&[], b"0123456789")]);
    for (max, whole) in [(10, true), (9, false)] {
        let request = client.request("object-store", Method::GET, &["c"]).await.unwrap();
        let answer = client.send(request).await.unwrap();
        assert_eq!(read(answer, max, Duration::from_secs(5)).await.is_ok(), whole);
    }
}
