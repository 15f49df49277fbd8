//! Web servers: asked no more than needed, believed no more than deserved.

use std::time::Duration;

use sources::{SourceError, Sources, SourcesConfig};

use crate::server::{Answer, Server, bytes, head, ok};
use crate::{Site, content, sha256};

fn asking_each_time(site: &Site) -> Sources {
    Sources::new(SourcesConfig {
        revalidate_after: Duration::ZERO,
        ..site.config()
    })
    .unwrap()
}

#[tokio::test]
async fn a_source_is_fetched_once_and_believed_for_a_while() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let url = server.on("/kernel", [ok(&[], b"kernel"), ok(&[], b"newer")]);
    for _ in 0..3 {
        let fetched = sources.fetch(&url, None).await.unwrap();
        assert_eq!((fetched.sha256, fetched.len), (sha256(b"kernel"), 6));
    }
    assert_eq!(content(&sources, &sha256(b"kernel")), b"kernel");
    assert_eq!(server.requests().len(), 1);
    assert!(server.requests()[0].contains("accept-encoding: identity"));
    assert_eq!(site.under_way(), 0);
}

#[tokio::test]
async fn an_unchanged_source_is_not_sent_again() {
    for (validator, question) in [
        ("etag: \"v1\"", "if-none-match: \"v1\""),
        (
            "last-modified: mon, 30 nov 2026 00:00:00 gmt",
            "if-modified-since: mon, 30 nov 2026 00:00:00 gmt",
        ),
    ] {
        let (site, server) = (Site::new(), Server::start().await);
        let sources = asking_each_time(&site);
        let url = server.on(
            "/kernel",
            [
                ok(&[validator], b"kernel"),
                head(304, &[], b""),
                ok(&["etag: \"v2\""], b"newer"),
            ],
        );
        for want in [&b"kernel"[..], b"kernel", b"newer"] {
            assert_eq!(sources.fetch(&url, None).await.unwrap().sha256, sha256(want));
        }
        let requests = server.requests();
        assert!(!requests[0].contains("\r\nif-"), "{}", requests[0]);
        assert!(requests[1].contains(question), "{}", requests[1]);
        assert!(requests[2].contains(question), "{}", requests[2]);
    }
}

#[tokio::test]
async fn without_validators_it_is_fetched_anew() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = asking_each_time(&site);
    let url = server.on("/kernel", [ok(&[], b"old"), ok(&[], b"new")]);
    for want in [b"old", b"new"] {
        assert_eq!(sources.fetch(&url, None).await.unwrap().sha256, sha256(want));
    }
}

#[tokio::test]
async fn an_unchanged_answer_to_an_unconditional_question_is_refused() {
    let (site, server) = (Site::new(), Server::start().await);
    let url = server.on("/kernel", [head(304, &[], b"")]);
    let error = site.sources().fetch(&url, None).await.unwrap_err();
    assert!(matches!(error, SourceError::Refused { .. }), "{error}");
}

#[tokio::test]
async fn content_that_was_pruned_is_fetched_whole_although_a_validator_is_known() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = asking_each_time(&site);
    let url = server.on("/kernel", [ok(&["etag: \"v1\""], b"kernel")]);
    sources.fetch(&url, None).await.unwrap();
    let name = sha256(b"kernel").to_string();
    std::fs::remove_file(site.cache().join(&name[..2]).join(&name)).unwrap();
    sources.fetch(&url, None).await.unwrap();
    assert!(!server.requests()[1].contains("if-none-match"));
    assert_eq!(content(&sources, &sha256(b"kernel")), b"kernel");
}

#[tokio::test]
async fn a_checksum_spares_the_question_and_catches_the_wrong_content() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let url = server.on("/kernel", [ok(&[], b"kernel"), ok(&[], b"forged")]);
    for _ in 0..2 {
        sources.fetch(&url, Some(sha256(b"kernel"))).await.unwrap();
    }
    assert_eq!(server.requests().len(), 1);
    let error = sources.fetch(&url, Some(sha256(b"other"))).await.unwrap_err();
    assert!(matches!(error, SourceError::Checksum { .. }), "{error}");
    assert_eq!(
        server.requests().len(),
        2,
        "a fresh answer with another checksum is asked for again"
    );
    assert_eq!(sources.entries().unwrap().len(), 1);
}

#[tokio::test]
async fn many_who_want_the_same_share_one_fetch() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let answer = Answer::Later(Duration::from_millis(100), bytes(200, &["content-length: 1"], b"x"));
    let url = server.on("/kernel", [answer]);
    let fetches = (0..20).map(|_| sources.fetch(&url, None));
    for fetched in futures_util::future::join_all(fetches).await {
        assert_eq!(fetched.unwrap().sha256, sha256(b"x"));
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_shared_failure_reaches_all_and_the_next_one_tries_again() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let failure = Answer::Later(Duration::from_millis(100), bytes(503, &["content-length: 0"], b""));
    let url = server.on("/kernel", [failure, ok(&[], b"x")]);
    let fetches = (0..5).map(|_| sources.fetch(&url, None));
    for result in futures_util::future::join_all(fetches).await {
        let error = result.unwrap_err();
        assert!(matches!(error, SourceError::Unreachable { .. }), "{error}");
    }
    sources.fetch(&url, None).await.unwrap();
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn one_who_gives_up_does_not_end_the_fetch_of_the_others_and_the_last_leaves_nothing() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let answer = Answer::Later(Duration::from_millis(200), bytes(200, &["content-length: 1"], b"x"));
    let url = server.on("/kernel", [answer]);
    let impatient = tokio::time::timeout(Duration::from_millis(50), sources.fetch(&url, None));
    let (impatient, patient) = tokio::join!(impatient, sources.fetch(&url, None));
    assert!(impatient.is_err());
    patient.unwrap();
    let url = server.on(
        "/other",
        [Answer::ThenSilence(bytes(200, &["content-length: 9"], b"x"))],
    );
    let alone = tokio::time::timeout(Duration::from_millis(50), sources.fetch(&url, None)).await;
    assert!(alone.is_err());
    for _ in 0..200 {
        if site.under_way() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the abandoned fetch left its file behind");
}

#[tokio::test]
async fn answers_that_are_no_content_are_typed_errors_and_keep_nothing() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    type Check = fn(&SourceError) -> bool;
    let cases: [(&str, Answer, Check); 10] = [
        ("/404", head(404, &["content-length: 0"], b""), |e| {
            matches!(e, SourceError::NotFound { .. })
        }),
        ("/401", head(401, &["content-length: 0"], b""), |e| {
            matches!(e, SourceError::Refused { .. })
        }),
        ("/500", head(500, &["content-length: 0"], b""), |e| {
            matches!(e, SourceError::Unreachable { .. })
        }),
        ("/206", head(206, &["content-length: 1"], b"x"), |e| {
            matches!(e, SourceError::Refused { .. })
        }),
        ("/gzip", ok(&["content-encoding: gzip"], b"x"), |e| {
            matches!(e, SourceError::Refused { .. })
        }),
        ("/short", head(200, &["content-length: 10"], b"12345"), |e| {
            matches!(
                e,
                SourceError::Truncated {
                    got: 5,
                    expected: 10,
                    ..
                }
            )
        }),
        ("/chunk", head(200, &["transfer-encoding: chunked"], b"5\r\n123"), |e| {
            matches!(e, SourceError::Unreachable { .. })
        }),
        (
            "/silent",
            Answer::ThenSilence(bytes(200, &["content-length: 9"], b"x")),
            |e| matches!(e, SourceError::Timeout { .. }),
        ),
        ("/nothing", Answer::Bytes(vec![]), |e| {
            matches!(e, SourceError::Unreachable { .. })
        }),
        ("/nonsense", Answer::Bytes(b"SSH-2.0-x\r\n".to_vec()), |e| {
            matches!(e, SourceError::Unreachable { .. })
        }),
    ];
    for (path, answer, check) in cases {
        let url = server.on(path, [answer]);
        let error = sources.fetch(&url, None).await.unwrap_err();
        assert!(check(&error), "{path}: {error:?}");
        assert!(error.to_string().contains(&url), "{error}");
    }
    assert!(sources.entries().unwrap().is_empty());
    assert_eq!(site.under_way(), 0);
}

#[tokio::test]
async fn a_server_that_never_answers_or_drips_is_left_in_time() {
    let (site, server) = (Site::new(), Server::start().await);
    let config = SourcesConfig {
        deadline: Duration::from_millis(200),
        ..site.config()
    };
    let url = server.on("/kernel", [Answer::ThenSilence(vec![])]);
    let error = Sources::new(config).unwrap().fetch(&url, None).await.unwrap_err();
    assert!(matches!(error, SourceError::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn a_source_bigger_than_allowed_is_refused_announced_or_not() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = Sources::new(SourcesConfig {
        max_source_bytes: 4,
        ..site.config()
    })
    .unwrap();
    for (path, answer) in [("/a", ok(&[], b"12345")), ("/b", head(200, &[], b"12345"))] {
        let error = sources.fetch(&server.on(path, [answer]), None).await.unwrap_err();
        assert!(matches!(error, SourceError::TooBig { max: 4, .. }), "{error}");
    }
    sources.fetch(&server.on("/c", [ok(&[], b"1234")]), None).await.unwrap();
    assert_eq!(site.under_way(), 0);
}

#[tokio::test]
async fn redirects_are_followed_on_the_web_only_and_not_for_ever() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let to = |location: &str| head(302, &["content-length: 0", &format!("location: {location}")], b"");
    server.on("/end", [ok(&[], b"x")]);
    for location in ["/end", "end", &format!("{}/end", server.url)] {
        let url = server.on("/start", [to(location)]);
        assert_eq!(sources.fetch(&url, None).await.unwrap().len, 1);
    }
    for location in ["file:///etc/passwd", "/loop", "http://"] {
        let url = server.on("/loop", [to(location)]);
        let error = sources.fetch(&url, None).await.unwrap_err();
        assert!(matches!(error, SourceError::Refused { .. }), "{location}: {error}");
    }
}

#[tokio::test]
async fn this_machine_is_no_source_unless_allowed() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = Sources::new(SourcesConfig {
        allow_local_addresses: false,
        ..site.config()
    })
    .unwrap();
    server.on("/kernel", [ok(&[], b"x")]);
    let port = server.url.rsplit(':').next().unwrap().to_owned();
    for host in [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "169.254.169.254",
    ] {
        let error = sources
            .fetch(&format!("http://{host}:{port}/kernel"), None)
            .await
            .unwrap_err();
        assert!(matches!(error, SourceError::LocalAddress { .. }), "{host}: {error}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn credentials_are_sent_and_never_told() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    server.on("/kernel?sig=s3cret", [head(403, &["content-length: 0"], b"")]);
    let url = server.url.replace("http://", "http://user:s3cret@") + "/kernel?sig=s3cret";
    let error = sources.fetch(&url, None).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    assert!(
        server.requests()[0].contains("authorization: basic"),
        "{:?}",
        server.requests()
    );
    server.on("/kernel?sig=s3cret", [ok(&[], b"x")]);
    let fetched = sources.fetch(&url, None).await.unwrap();
    assert!(!format!("{fetched:?}").contains("s3cret"));
    for file in std::fs::read_dir(site.cache().join("references")).unwrap() {
        let file = file.unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(!text.contains("s3cret") && !file.file_name().to_str().unwrap().contains("s3cret"));
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_unreachable() {
    let site = Site::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = site
        .sources()
        .fetch(&format!("http://{address}/x"), None)
        .await
        .unwrap_err();
    assert!(matches!(error, SourceError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}
