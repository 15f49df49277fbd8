//! Downloads that are cut: they go on where they were cut, and two contents are never joined.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use sources::SourceError;

use crate::server::{Answer, Server, bytes, head, header, ok};
use crate::{Site, content, sha256};

const TAG: &str = "etag: \"v1\"";

fn body(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

/// Serves `content` as a good server does, but breaks off each answer after so many bytes of it; then serves it whole.
fn cutting(content: &[u8], validators: &'static [&'static str], cuts: impl IntoIterator<Item = usize>) -> Answer {
    let content = content.to_vec();
    let cuts: Mutex<VecDeque<usize>> = Mutex::new(cuts.into_iter().collect());
    Answer::to(move |request| {
        let strong = validators
            .iter()
            .find_map(|line| line.strip_prefix("etag: "))
            .filter(|tag| tag.starts_with('"'));
        let from = header(request, "range")
            .filter(|_| strong.is_some() && header(request, "if-range") == strong)
            .map_or(0, |range| {
                range["bytes=".len()..range.len() - 1].parse::<usize>().unwrap()
            });
        let rest = &content[from..];
        let sent = cuts.lock().unwrap().pop_front().unwrap_or(rest.len()).min(rest.len());
        let length = format!("content-length: {}", rest.len());
        let range = format!("content-range: bytes {from}-{}/{}", content.len() - 1, content.len());
        let mut headers = vec![length.as_str()];
        headers.extend(validators);
        if from > 0 {
            headers.push(&range);
        }
        head(if from > 0 { 206 } else { 200 }, &headers, &rest[..sent])
    })
}

#[tokio::test]
async fn a_cut_download_goes_on_where_it_was_cut() {
    let (site, server) = (Site::new(), Server::start().await);
    let body = body(100_000);
    let url = server.on("/image", [cutting(&body, &[TAG], [60_000, 30_000])]);
    let fetched = site.sources().fetch(&url, None).await.unwrap();
    assert_eq!((fetched.sha256, fetched.len), (sha256(&body), 100_000));
    let requests = server.requests();
    let asked: Vec<_> = requests.iter().map(|request| header(request, "range")).collect();
    assert_eq!(asked, [None, Some("bytes=60000-"), Some("bytes=90000-")]);
    assert_eq!(header(&requests[1], "if-range"), Some("\"v1\""));
    assert!(
        requests
            .iter()
            .all(|request| header(request, "if-none-match").is_none())
    );
    assert_eq!(site.under_way(), 0);
}

#[tokio::test]
async fn a_server_that_falls_silent_is_asked_for_the_rest() {
    let (site, server) = (Site::new(), Server::start().await);
    let rest = head(206, &["content-length: 4", "content-range: bytes 6-9/10", TAG], b"6789");
    let silent = Answer::ThenSilence(bytes(200, &["content-length: 10", TAG], b"012345"));
    let url = server.on("/image", [silent, rest]);
    let fetched = site.sources().fetch(&url, None).await.unwrap();
    assert_eq!(fetched.sha256, sha256(b"0123456789"));
}

#[tokio::test]
async fn content_that_changed_meanwhile_is_fetched_whole() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let cut = || head(200, &["content-length: 10", TAG], b"old-old");
    let new = ok(&["etag: \"v2\""], b"new-new-new");
    // Both ways that a server has to say so: If-Range fails, or what is asked for is past the end.
    let beyond = head(416, &["content-length: 0"], b"");
    for (path, answers) in [("/a", vec![cut(), new.clone()]), ("/b", vec![cut(), beyond, new])] {
        let fetched = sources.fetch(&server.on(path, answers), None).await.unwrap();
        assert_eq!(fetched.sha256, sha256(b"new-new-new"), "{path}");
    }
}

#[tokio::test]
async fn parts_that_do_not_fit_are_never_joined() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let cut = || head(200, &["content-length: 10", TAG], b"01234");
    let part = |range: &str, tag: &str, body: &[u8]| {
        let length = format!("content-length: {}", body.len());
        head(206, &[&length, &format!("content-range: {range}"), tag], body)
    };
    for (path, wrong) in [
        ("/start", part("bytes 4-9/10", TAG, b"456789")),
        ("/first", part("bytes 0-9/10", TAG, b"0123456789")),
        ("/total", part("bytes 5-10/11", TAG, b"56789X")),
        ("/tag", part("bytes 5-9/10", "etag: \"v2\"", b"XXXXX")),
        ("/weaker", part("bytes 5-9/10", "etag: W/\"v1\"", b"XXXXX")),
        ("/nonsense", part("bytes five to nine", TAG, b"XXXXX")),
        ("/none", head(206, &["content-length: 5", TAG], b"XXXXX")),
        ("/beyond", part("bytes 5-99/10", TAG, b"XXXXX")),
    ] {
        // Asked again for all of it, such a server may still do right.
        let url = server.on(path, [cut(), wrong.clone(), ok(&[TAG], b"0123456789")]);
        let fetched = sources.fetch(&url, None).await.unwrap();
        assert_eq!(content(&sources, &fetched.sha256), b"0123456789", "{path}");
        // Or it never does.
        let url = server.on(&format!("{path}-always"), [cut(), wrong]);
        let error = sources.fetch(&url, None).await.unwrap_err();
        assert!(matches!(error, SourceError::Refused { .. }), "{path}: {error:?}");
    }
    assert_eq!(site.under_way(), 0);
}

#[tokio::test]
async fn without_a_validator_that_vouches_for_bytes_it_is_fetched_whole() {
    let body = body(1000);
    for validators in [
        &[][..],
        &["etag: W/\"v1\""],
        &["last-modified: mon, 30 nov 2026 00:00:00 gmt"],
    ] {
        let (site, server) = (Site::new(), Server::start().await);
        let url = server.on("/image", [cutting(&body, validators, [600, 999])]);
        let fetched = site.sources().fetch(&url, None).await.unwrap();
        assert_eq!(fetched.sha256, sha256(&body));
        let requests = server.requests();
        assert_eq!(requests.len(), 3, "{validators:?}");
        assert!(
            requests.iter().all(|request| header(request, "range").is_none()),
            "{validators:?}"
        );
    }
}

#[tokio::test]
async fn pieces_that_a_server_joins_wrongly_are_caught_by_the_checksum_and_fetched_whole() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let lie = head(
        206,
        &["content-length: 5", "content-range: bytes 5-9/10", TAG],
        b"XXXXX",
    );
    let cut = head(200, &["content-length: 10", TAG], b"01234");
    let url = server.on("/image", [cut, lie, ok(&[TAG], b"0123456789")]);
    let fetched = sources.fetch(&url, Some(sha256(b"0123456789"))).await.unwrap();
    assert_eq!(content(&sources, &fetched.sha256), b"0123456789");
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_server_that_cuts_for_ever_is_given_up() {
    let (site, server) = (Site::new(), Server::start().await);
    let sources = site.sources();
    let fruitless = head(200, &["content-length: 10", TAG], b"");
    let error = sources.fetch(&server.on("/none", [fruitless]), None).await.unwrap_err();
    assert!(
        matches!(
            error,
            SourceError::Truncated {
                got: 0,
                expected: 10,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(server.requests().len(), 3);
    let body = body(1 << 20);
    let url = server.on("/little", [cutting(&body, &[TAG], std::iter::repeat_n(1, 1000))]);
    let error = sources.fetch(&url, None).await.unwrap_err();
    assert!(matches!(error, SourceError::Truncated { .. }), "{error:?}");
    assert!(server.requests().len() < 50);
    assert_eq!(site.under_way(), 0);
}

#[tokio::test]
async fn a_moment_of_trouble_after_a_cut_is_waited_out() {
    let (site, server) = (Site::new(), Server::start().await);
    let cut = head(200, &["content-length: 10", TAG], b"01234");
    let busy = head(503, &["content-length: 0"], b"");
    let gone = Answer::Bytes(vec![]);
    let rest = head(
        206,
        &["content-length: 5", "content-range: bytes 5-9/10", TAG],
        b"56789",
    );
    let url = server.on("/image", [cut, busy, gone, rest]);
    assert_eq!(
        site.sources().fetch(&url, None).await.unwrap().sha256,
        sha256(b"0123456789")
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn wherever_it_is_cut_the_content_is_whole(len in 1usize..40_000, cuts in prop::collection::vec(1usize..9_000, 0..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let (site, server) = (Site::new(), Server::start().await);
            let body = Arc::new(body(len));
            let url = server.on("/image", [cutting(&body, &[TAG], cuts)]);
            let fetched = site.sources().fetch(&url, Some(sha256(&body))).await.unwrap();
            assert_eq!(fetched.len, body.len() as u64);
        });
    }
}
