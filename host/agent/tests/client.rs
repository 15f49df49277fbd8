//! The client against a small server that answers as agents do, and as strangers might.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agent::{AgentAddress, AgentClient, AgentError, CallbackPolicy, CommandState, DiskFormat, ImageInfo};
use model::{NodeId, Secret};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

const TOKEN: &str = "0123456789abcdef0123456789abcdef-token";

/// What the server saw: request line and body.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// Answers every request with `reply` (a whole HTTP response); returns its origin.
async fn serve(reply: impl Into<Vec<u8>>) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let seen = Seen::default();
    let (log, reply) = (seen.clone(), reply.into());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, log.clone(), reply.clone()));
        }
    });
    (origin, seen)
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, seen: Seen, reply: Vec<u8>) {
    let mut got = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&got).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |digits| digits.parse().unwrap()) {
                let line = text.lines().next().unwrap_or_default().to_owned();
                seen.lock().unwrap().push((line, body.to_owned()));
                break;
            }
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(count) => got.extend_from_slice(&chunk[..count]),
        }
    }
    let _ = stream.write_all(&reply).await;
    let _ = stream.shutdown().await;
}

fn http(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn ok(body: &Value) -> String {
    http("200 OK", &body.to_string())
}

fn policy() -> CallbackPolicy {
    CallbackPolicy {
        require_tls: false,
        networks: vec!["127.0.0.0/8".parse().unwrap()],
    }
}

fn client(origin: &str) -> AgentClient {
    let address = AgentAddress {
        callback_url: origin.to_owned(),
        certificate: None,
        token: Secret::new(TOKEN),
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    AgentClient::new(&address, &policy()).unwrap()
}

/// Every error that the client can make, as a user or a log would see it, must be free of the token.
fn assert_silent(error: &AgentError) {
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains(TOKEN), "{shown}");
}

#[tokio::test]
async fn an_image_is_handed_over_with_token_and_whole_parameters() {
    let status = json!({"id": "c1", "command_name": "prepare_image", "command_status": "RUNNING"});
    let (origin, seen) = serve(ok(&status)).await;
    let image = ImageInfo {
        id: "tiny".to_owned(),
        urls: vec!["http://10.1.0.1/tiny.raw".to_owned()],
        os_hash: Some(("sha256".to_owned(), "ab".repeat(32))),
        checksum: None,
        format: DiskFormat::Raw,
        node: NodeId::random(),
    };
    let drive = Secret::new("H4sIconfig");
    let status = client(&origin).prepare_image(&image, Some(&drive)).await.unwrap();
    assert_eq!((status.id.as_str(), &status.state), ("c1", &CommandState::Running));

    let (line, body) = seen.lock().unwrap()[0].clone();
    assert_eq!(
        line,
        format!("POST /v1/commands/?wait=false&agent_token={TOKEN} HTTP/1.1")
    );
    let body: Value = serde_json::from_str(&body).unwrap();
    let expected = json!({"name": "standby.prepare_image", "params": {
        "image_info": {"id": "tiny", "urls": ["http://10.1.0.1/tiny.raw"], "os_hash_algo": "sha256",
            "os_hash_value": "ab".repeat(32), "disk_format": "raw", "image_type": "whole-disk-image",
            "stream_raw_images": true, "node_uuid": image.node.to_string()},
        "configdrive": "H4sIconfig"}});
    assert_eq!(body, expected);
}

#[tokio::test]
async fn the_list_of_commands_is_asked_with_the_token_and_below_the_callbacks_path() {
    let list = json!({"commands": [
        {"id": "a", "command_name": "get_deploy_steps", "command_status": "SUCCEEDED", "command_result": {}},
        {"id": "b", "command_name": "sync", "command_status": "FAILED", "command_error": {"error": "no disk"}}]});
    let (origin, seen) = serve(ok(&list)).await;
    let commands = client(&format!("{origin}/base/")).commands().await.unwrap();
    assert_eq!(commands.len(), 2);
    let CommandState::Failed(failure) = &commands[1].state else {
        panic!("{commands:?}")
    };
    assert_eq!(failure.to_string(), "no disk");
    let (line, _) = seen.lock().unwrap()[0].clone();
    assert_eq!(line, format!("GET /base/v1/commands/?agent_token={TOKEN} HTTP/1.1"));
}

#[tokio::test]
async fn steps_are_waited_for_and_sync_reports_the_agents_reason() {
    let steps = json!({"id": "a", "command_name": "get_deploy_steps", "command_status": "SUCCEEDED",
        "command_result": {"deploy_steps": {}, "hardware_manager_version": {"m": "1"}}});
    let (origin, seen) = serve(ok(&steps)).await;
    let list = client(&origin)
        .get_deploy_steps(&json!({"uuid": "u"}), &json!([]))
        .await
        .unwrap();
    assert_eq!((list.steps.len(), list.version), (0, json!({"m": "1"})));
    assert!(seen.lock().unwrap()[0].0.contains("wait=true"));

    let failed = json!({"id": "b", "command_name": "sync", "command_status": "FAILED",
        "command_error": {"type": "CommandExecutionError", "details": "cannot flush"}});
    let (origin, _) = serve(ok(&failed)).await;
    let error = client(&origin).sync(Duration::from_secs(5)).await.unwrap_err();
    assert!(
        error.to_string().contains("cannot flush") && !error.is_transient(),
        "{error}"
    );
}

#[tokio::test]
async fn each_refusal_has_its_own_kind_and_none_shows_the_token() {
    let echo = format!(r#"{{"faultstring": "bad request with {TOKEN}"}}"#);
    let busy =
        r#"{"type":"CommandExecutionError","code":500,"message":"Command execution failed","details":"agent is busy"}"#;
    for (reply, transient, says) in [
        (http("401 Unauthorized", "{}"), false, "refused our token"),
        (http("409 Conflict", "{}"), true, "is busy"),
        (http("500 Internal Server Error", busy), true, "is busy"),
        (http("400 Bad Request", &echo), false, "bad request with ***"),
        (
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".to_owned(),
            false,
            "redirect",
        ),
        (http("200 OK", "<html>"), false, "not JSON"),
        (http("200 OK", "{}"), false, "array `commands`"),
        (http("200 OK", &"[".repeat(100_000)), false, "not JSON"),
        ("garbage\r\n\r\n".to_owned(), true, "could not be reached"),
        (String::new(), true, "could not be reached"),
    ] {
        let (origin, _) = serve(reply.clone()).await;
        let error = client(&origin).commands().await.unwrap_err();
        assert_silent(&error);
        assert!(error.to_string().contains(says), "{reply:.60}: {error}");
        assert_eq!(error.is_transient(), transient, "{error}");
    }
    let error = client("http://127.0.0.1:1").commands().await.unwrap_err();
    assert_silent(&error);
    assert!(error.is_transient());
}

#[tokio::test]
async fn a_reply_is_bounded_except_for_what_it_repeats_of_ours() {
    let params = "x".repeat(1 << 20);
    let list = json!({"commands": [{"id": "a", "command_name": "prepare_image", "command_status": "RUNNING",
        "command_params": {"configdrive": params}}]});
    let (origin, _) = serve(ok(&list)).await;
    let error = client(&origin).commands().await.unwrap_err();
    assert!(error.to_string().contains("more than 1048576 bytes"), "{error}");
    let patient = client(&origin).expecting_echo_of(1 << 20);
    assert_eq!(patient.commands().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_agent_that_hangs_is_given_up_after_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            // Takes the request, sends a head and then nothing more.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n").await;
            held.push(stream);
        }
    });
    let began = Instant::now();
    let error = client(&origin).sync(Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(error, AgentError::Timeout { .. }), "{error}");
    assert_silent(&error);
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_callback_outside_the_policy_gets_no_client() {
    let address = AgentAddress {
        callback_url: "http://10.9.9.9:9999".to_owned(),
        certificate: None,
        token: Secret::new(TOKEN),
    };
    let error = AgentClient::new(&address, &policy()).unwrap_err();
    assert!(matches!(error, AgentError::NotAllowed(_)), "{error}");
}

/// A server with a certificate of its own; returns its origin and the certificate.
async fn serve_tls(reply: String) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    // As ironic-python-agent makes it: self-signed, no authority. The name and the dates are wrong on purpose.
    let mut params = rcgen::CertificateParams::new(vec!["192.0.2.1".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    let certificate = params.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, reply) = (acceptor.clone(), reply.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream, Seen::default(), reply.into_bytes()).await;
                }
            });
        }
    });
    (origin, certificate.pem())
}

#[tokio::test]
async fn only_the_holder_of_the_pinned_certificate_is_talked_to() {
    let (origin, pem) = serve_tls(ok(&json!({"commands": []}))).await;
    let (_, other) = serve_tls(String::new()).await;
    let strict = CallbackPolicy {
        require_tls: true,
        ..policy()
    };
    let client = |certificate: &str| {
        let address = AgentAddress {
            callback_url: origin.clone(),
            certificate: Some(certificate.to_owned()),
            token: Secret::new(TOKEN),
        };
        AgentClient::new(&address, &strict)
    };
    assert!(client(&pem).unwrap().commands().await.unwrap().is_empty());
    let error = client(&other).unwrap().commands().await.unwrap_err();
    assert!(matches!(error, AgentError::Unreachable { .. }), "{error}");
    for broken in [
        "",
        "no PEM",
        "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n",
    ] {
        let error = client(broken).unwrap_err();
        assert!(matches!(error, AgentError::Certificate { .. }), "{broken}: {error}");
    }
}
