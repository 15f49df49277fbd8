//! Servers that mean harm: slow, endless, leading elsewhere.

use std::time::{Duration, Instant};

use model::Secret;
use sources::{Login, SourceError, Sources, SourcesConfig};

use crate::server::{Answer, Server, bytes, head, header, ok};
use crate::{Site, sha256};

#[tokio::test]
async fn a_server_that_drips_is_left_long_before_the_deadline() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let drip = Answer::Drip(
        bytes(200, &["content-length: 100000", "etag: \"v1\""], b""),
        Duration::from_millis(20),
    );
    let begun = Instant::now();
    let error = sources.fetch(&server.on("/image", [drip]), None).await.unwrap_err();
    assert!(matches!(error, SourceError::Timeout { .. }), "{error:?}");
    assert!(error.to_string().contains("too slowly"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(site.under_way(), 0);
}

#[tokio::test]
async fn a_slow_server_above_the_floor_is_waited_for() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = Sources::new(SourcesConfig {
        slowest: 10,
        stall: Duration::from_secs(2),
        ..site.config()
    })
    .unwrap();
    // Long enough to be measured.
    let mut pieces = vec![bytes(200, &["content-length: 200"], b"")];
    pieces.extend(std::iter::repeat_n(b"0123456789".to_vec(), 20));
    let url = server.on("/image", [Answer::Pieces(pieces, Duration::from_millis(150))]);
    assert_eq!(sources.fetch(&url, None).await.unwrap().len, 200);
}

#[tokio::test]
async fn an_endless_answer_ends_at_the_limit() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = Sources::new(SourcesConfig {
        max_source_bytes: 100_000,
        ..site.config()
    })
    .unwrap();
    let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
    let mut pieces = vec![bytes(200, &["transfer-encoding: chunked"], b"")];
    pieces.extend(std::iter::repeat_n(chunk, 64));
    let url = server.on("/image", [Answer::Pieces(pieces, Duration::ZERO)]);
    let error = sources.fetch(&url, None).await.unwrap_err();
    assert!(matches!(error, SourceError::TooBig { max: 100_000, .. }), "{error:?}");
    assert_eq!(site.under_way(), 0);
}

#[tokio::test]
async fn what_a_server_says_beyond_its_length_is_not_content() {
    let (site, server) = (Site::new(), Server::start().await);
    let url = server.on("/image", [head(200, &["content-length: 4"], b"12345678")]);
    assert_eq!(site.sources().fetch(&url, None).await.unwrap().sha256, sha256(b"1234"));
}

#[tokio::test]
async fn endless_headers_and_lengths_that_are_none_are_refused() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let long = format!("x-long: {}", "a".repeat(8 << 20));
    for (path, answer) in [
        ("/headers", head(200, &["content-length: 1", &long], b"x")),
        ("/length", head(200, &["content-length: -1"], b"x")),
        (
            "/lengths",
            head(200, &["content-length: 1", "content-length: 2"], b"xx"),
        ),
        ("/huge", head(200, &["content-length: 18446744073709551615"], b"x")),
    ] {
        let error = sources.fetch(&server.on(path, [answer]), None).await.unwrap_err();
        let typed = matches!(error, SourceError::Unreachable { .. } | SourceError::TooBig { .. });
        assert!(typed, "{path}: {error:?}");
    }
}

fn to(location: &str) -> Answer {
    head(302, &["content-length: 0", &format!("location: {location}")], b"")
}

#[tokio::test]
async fn no_redirect_leads_to_this_machine_or_its_link() {
    let site = Site::new();
    // The first server may be asked; what it leads to may not.
    let (first, inside) = (Server::start_at("127.0.0.2").await, Server::start().await);
    let port = inside.url.rsplit(':').next().unwrap().to_owned();
    inside.on("/secret", [ok(&[], b"secret")]);
    let sources = Sources::new(SourcesConfig {
        allow_local_addresses: false,
        allowed_local: vec![first.url["http://".len()..].parse().unwrap()],
        ..site.config()
    })
    .unwrap();
    let allowed = first.on("/allowed", [ok(&[], b"x")]);
    assert_eq!(sources.fetch(&allowed, None).await.unwrap().len, 1);
    let other_port = Server::start_at("127.0.0.2").await;
    let beside = other_port.on("/secret", [ok(&[], b"secret")]);
    let error = sources.fetch(&beside, None).await.unwrap_err();
    assert!(
        matches!(error, SourceError::LocalAddress { .. }),
        "another port is another server: {error:?}"
    );
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "2130706433",
        "169.254.169.254",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "100.100.100.200",
    ] {
        let target = format!("http://{host}:{port}/secret");
        // At once, and after a hop that is allowed.
        first.on("/hop", [to(&target)]);
        for location in [target.as_str(), "/hop"] {
            let url = first.on("/start", [to(location)]);
            let error = sources.fetch(&url, None).await.unwrap_err();
            assert!(matches!(error, SourceError::LocalAddress { .. }), "{host}: {error:?}");
            assert!(error.to_string().contains(&url), "{error}");
        }
    }
    assert!(inside.requests().is_empty());
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let (site, server) = (Site::new(), Server::start().await);
    server.on("/b", [to("/a")]);
    let url = server.on("/a", [to("/b")]);
    let error = site.sources().fetch(&url, None).await.unwrap_err();
    assert!(error.to_string().contains("more than 5 times"), "{error}");
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn credentials_reach_the_server_that_they_are_for_and_no_other() {
    let (site, server, other) = (Site::new(), Server::start().await, Server::start().await);
    let authorization = |server: &Server| {
        let requests = server.requests();
        requests
            .iter()
            .map(|request| header(request, "authorization").map(str::to_owned))
            .collect::<Vec<_>>()
    };
    let elsewhere = other.on("/image", [ok(&[], b"x")]);
    server.on("/here", [to(&elsewhere)]);
    server.on("/start", [to("/here")]);
    let url = format!("{}/start", server.url).replace("http://", "http://user:s3cret@");
    site.sources().fetch(&url, None).await.unwrap();
    // user:s3cret, in both requests of the same server.
    let basic = Some("basic dxnlcjpzm2nyzxq=".to_owned());
    assert_eq!(authorization(&server), [basic.clone(), basic.clone()]);
    assert_eq!(authorization(&other), [None]);

    // The same for what the site logs in with, whether it is for one server or for all that references name.
    for origin in [Some(server.url.parse().unwrap()), None] {
        let (site, server, other) = (Site::new(), Server::start().await, Server::start().await);
        let elsewhere = other.on("/image", [ok(&[], b"x")]);
        let url = server.on("/start", [to(&elsewhere)]);
        let sources = Sources::new(SourcesConfig {
            logins: vec![Login {
                origin: origin.as_ref().map(|_: &url::Url| server.url.parse().unwrap()),
                user: "user".into(),
                password: Secret::new("s3cret"),
            }],
            ..site.config()
        })
        .unwrap();
        sources.fetch(&url, None).await.unwrap();
        assert_eq!(authorization(&server), std::slice::from_ref(&basic));
        assert_eq!(authorization(&other), [None]);
        // Another server is logged in to only if the login is for all.
        sources.fetch(&other.on("/own", [ok(&[], b"y")]), None).await.unwrap();
        let expected = if origin.is_some() { None } else { basic.clone() };
        assert_eq!(authorization(&other)[1], expected);
    }
}

#[tokio::test]
async fn a_proxy_is_asked_only_if_it_is_set() {
    let (site, proxy, server) = (Site::new(), Server::start().await, Server::start().await);
    let url = server.on("/image", [ok(&[], b"direct")]);
    proxy.on(&url, [ok(&[], b"through the proxy")]);
    let sources = Sources::new(SourcesConfig {
        proxy: Some(Secret::new(proxy.url.replace("http://", "http://p:s3cret@"))),
        revalidate_after: Duration::ZERO,
        ..site.config()
    })
    .unwrap();
    assert_eq!(
        sources.fetch(&url, None).await.unwrap().sha256,
        sha256(b"through the proxy")
    );
    assert_eq!(
        header(&proxy.requests()[0], "proxy-authorization"),
        Some("basic cdpzm2nyzxq=")
    );
    // It is no way round to this machine.
    let site = Site::new();
    let strict = Sources::new(SourcesConfig {
        proxy: Some(Secret::new(&proxy.url)),
        allow_local_addresses: false,
        ..site.config()
    })
    .unwrap();
    for url in [url.clone(), url.replace("127.0.0.1", "localhost")] {
        let error = strict.fetch(&url, None).await.unwrap_err();
        assert!(matches!(error, SourceError::LocalAddress { .. }), "{error:?}");
    }
    assert_eq!(proxy.requests().len(), 1);
}
