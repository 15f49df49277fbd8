//! Logins, TLS, and stopping.

use std::sync::Arc;
use std::time::Duration;

use api::listen::Limits;
use api::{Auth, Users, UsersError, router};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::lab::{Lab, Reply};

fn users(text: &str) -> Result<Users, UsersError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("htpasswd");
    std::fs::write(&path, text).unwrap();
    Users::load(&path)
}

async fn login(lab: &Lab, path: &str, pair: &str) -> Reply {
    let value = format!("Basic {}", STANDARD.encode(pair));
    let request = Request::get(path).header("authorization", value);
    Lab::send(router(lab.state.clone()), request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn with_logins_only_discovery_agents_and_health_go_without() {
    let hash = bcrypt::hash("s3cret", 4).unwrap();
    let users = users(&format!("# people\n\noperator:{hash}\n")).unwrap();
    let lab = Lab::with(Auth::Basic(Arc::new(users)));
    for (path, status) in [
        ("/", StatusCode::OK),
        ("/v1", StatusCode::OK),
        ("/v1/lookup?addresses=02:00:00:00:00:01", StatusCode::NOT_FOUND),
        ("/healthz", StatusCode::OK),
        ("/v1/nodes", StatusCode::UNAUTHORIZED),
        ("/v1/nodes/", StatusCode::UNAUTHORIZED),
        ("/v1/drivers", StatusCode::UNAUTHORIZED),
        ("/farrier/v1/events", StatusCode::UNAUTHORIZED),
        ("/metrics", StatusCode::UNAUTHORIZED),
        ("/nonsense", StatusCode::UNAUTHORIZED),
    ] {
        assert_eq!(lab.get(path).await.status, status, "{path}");
    }
    let refused = lab.get("/v1/nodes").await;
    assert_eq!(refused.headers["www-authenticate"], "Basic realm=\"Baremetal API\"");
    assert!(refused.fault().contains("password"));
    for (pair, status) in [
        ("operator:s3cret", StatusCode::OK),
        ("operator:s3cret", StatusCode::OK),
        ("operator:wrong", StatusCode::UNAUTHORIZED),
        ("operator:", StatusCode::UNAUTHORIZED),
        ("nobody:s3cret", StatusCode::UNAUTHORIZED),
        ("operator", StatusCode::UNAUTHORIZED),
    ] {
        assert_eq!(login(&lab, "/v1/nodes", pair).await.status, status, "{pair}");
    }
    let refused = lab.call("PUT", "/v1/nodes/n1/states/power", Value::Null).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn pages_of_other_sites_change_nothing_with_an_operators_access() {
    let users = users(&format!("operator:{}\n", bcrypt::hash("s3cret", 4).unwrap())).unwrap();
    let open = Lab::new();
    let closed = Lab::with(Auth::Basic(Arc::new(users)));
    let own = "http://farrier.test:6385";
    for (lab, host, origin, status) in [
        (&open, "127.0.0.1:6385", None, StatusCode::CREATED),
        (
            &open,
            "127.0.0.1:6385",
            Some("http://127.0.0.1:6385"),
            StatusCode::CREATED,
        ),
        (&open, "[::1]:6385", Some("http://[::1]:6385"), StatusCode::CREATED),
        (
            &open,
            "127.0.0.1:6385",
            Some("https://evil.test"),
            StatusCode::FORBIDDEN,
        ),
        (
            &open,
            "127.0.0.1:6385",
            Some("http://127.0.0.1:8000"),
            StatusCode::FORBIDDEN,
        ),
        (&open, "127.0.0.1:6385", Some("null"), StatusCode::FORBIDDEN),
        // A name that was made to lead here.
        (&open, "farrier.test:6385", Some(own), StatusCode::FORBIDDEN),
        (&closed, "farrier.test:6385", Some(own), StatusCode::CREATED),
        (
            &closed,
            "farrier.test:6385",
            Some("https://evil.test"),
            StatusCode::FORBIDDEN,
        ),
    ] {
        // As a page may send it without asking first.
        let mut request = Request::post("/v1/nodes")
            .header("host", host)
            .header("content-type", "text/plain")
            .header("authorization", format!("Basic {}", STANDARD.encode("operator:s3cret")));
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let body = Body::from(r#"{"driver": "agent_ilo"}"#);
        let reply = Lab::send(router(lab.state.clone()), request.body(body).unwrap()).await;
        assert_eq!(reply.status, status, "{host} {origin:?}: {}", reply.text);
    }
}

#[test]
fn an_htpasswd_file_without_bcrypt_hashes_is_refused_with_line_and_remedy() {
    let error = users("\noperator:plain\n").err().unwrap().to_string();
    assert!(error.contains("line 2") && error.contains("htpasswd -nbB"), "{error}");
    assert!(!error.contains("plain"));
    let error = users("# nobody\n").err().unwrap().to_string();
    assert!(error.contains("names no user"), "{error}");
    let missing = Users::load(std::path::Path::new("/nowhere/htpasswd")).err().unwrap();
    assert!(missing.to_string().contains("/nowhere/htpasswd"));
}

async fn get(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin) -> String {
    let request = "GET /v1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(Duration::from_secs(10), read)
        .await
        .unwrap()
        .unwrap();
    answer
}

#[tokio::test]
async fn the_api_speaks_tls_with_its_certificate_and_stops_when_told() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = api::tls::load(&certificate, &key).unwrap();
    let swapped = api::tls::load(&key, &certificate).err().unwrap().to_string();
    assert!(swapped.contains("key.pem"), "{swapped}");

    let lab = Lab::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let server = tokio::spawn(api::serve(
        listener,
        Limits::api(Some(tls)),
        router(lab.state.clone()),
        stop.clone(),
    ));

    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = connector
        .connect("localhost".try_into().unwrap(), stream)
        .await
        .unwrap();
    assert!(get(stream).await.starts_with("HTTP/1.1 200"));

    // An idle connection does not keep the server from stopping.
    let _idle = TcpStream::connect(address).await.unwrap();
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(15), server)
        .await
        .unwrap()
        .unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
