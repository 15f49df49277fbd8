//! What the web root writes, as nginx serves it.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use storage::{Backend, WebRoot};

use crate::common::{MIB, fetch, name, publication};
use crate::peers::Nginx;

#[tokio::test]
async fn what_the_web_root_wrote_is_served_byte_for_byte_and_not_at_all_once_withdrawn() {
    let root = tempfile::tempdir().unwrap();
    // nginx may be another user than us; a folder that tests make is private.
    let nginx = Nginx::start(root.path());
    let backend = WebRoot::new(root.path(), &format!("http://127.0.0.1:{}/images/", nginx.port)).unwrap();
    for (ending, size) in [("img", 1_474_560), ("iso", 3 * MIB + 77)] {
        let (artefact, bytes) = publication(name(ending), size);
        let published = backend.publish(&artefact, Some(Duration::from_secs(60))).await.unwrap();
        let url = published.url.expose();
        assert!(url.contains("/images/"), "its path is kept");
        let head = fetch(Method::HEAD, url, None).await;
        assert_eq!(head.status(), StatusCode::OK);
        assert_eq!(head.headers()["content-length"], size.to_string());
        assert_eq!(head.headers()["accept-ranges"], "bytes");
        assert!(fetch(Method::GET, url, None).await.bytes().await.unwrap() == bytes);
        for (first, last) in [(0, 0), (2048, 4095), (bytes.len() - 100, bytes.len() - 1)] {
            let part = fetch(Method::GET, url, Some(&format!("bytes={first:020}-{last:020}"))).await;
            assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
            assert!(part.bytes().await.unwrap() == bytes[first..=last]);
        }
        let past = fetch(Method::GET, url, Some(&format!("bytes={size}-"))).await;
        assert_eq!(past.status(), StatusCode::RANGE_NOT_SATISFIABLE);
        backend.withdraw(&artefact.name).await.unwrap();
        assert_eq!(fetch(Method::GET, url, None).await.status(), StatusCode::NOT_FOUND);
    }
}
