//! What needs a look inside: a full disk, records that lie.

use std::fs::File;

use tempfile::{NamedTempFile, TempDir, TempPath};
use url::Url;

use super::*;
use crate::cache::Record;
use crate::file::CopyError;
use crate::http::{Asked, FetchError, Terms};

fn sources(folder: &TempDir) -> Sources {
    Sources::new(SourcesConfig {
        allowed_file_paths: vec![folder.path().into()],
        allow_local_addresses: true,
        ..SourcesConfig::new(folder.path().join("cache"))
    })
    .unwrap()
}

/// A temporary file on a disk that is full.
fn full(folder: &TempDir) -> NamedTempFile {
    let file = File::options().read(true).write(true).open("/dev/full").unwrap();
    let path = TempPath::try_from_path(folder.path().join("never-made")).unwrap();
    NamedTempFile::from_parts(file, path)
}

#[test]
fn a_full_disk_is_named_with_the_remedy() {
    let folder = TempDir::new().unwrap();
    let sources = sources(&folder);
    let path = folder.path().join("kernel");
    std::fs::write(&path, "x").unwrap();
    let reference = Reference::parse(path.to_str().unwrap()).unwrap();
    let allowed = file::open(&path, &sources.inner.config.allowed_file_paths).unwrap();
    let Err(CopyError::Cache(error)) = allowed.copy(&mut full(&folder), 10, false) else {
        panic!("a full disk must be the cache's fault");
    };
    let error = sources.inner.write_error(&reference.shown, Some(1), error);
    assert!(matches!(error, SourceError::DiskFull { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("max-bytes") && text.contains("needs 1 bytes"), "{text}");
}

#[tokio::test]
async fn a_disk_that_fills_during_a_download_is_the_caches_fault() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/x", listener.local_addr().unwrap())).unwrap();
    let server = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let _read = stream.read(&mut request).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc")
            .await
            .unwrap();
    });
    let folder = TempDir::new().unwrap();
    let sources = sources(&folder);
    let shown = url.to_string();
    let terms = Terms {
        known: None,
        sha512: false,
        resume: true,
        room: Arc::new(|_| Ok(())),
    };
    let asked = Asked::Web { url, shown };
    let Err(FetchError::Cache(error)) = sources.inner.http.fetch(&asked, full(&folder), terms).await else {
        panic!("a full disk must be the cache's fault");
    };
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    server.await.unwrap();
}

#[tokio::test]
async fn a_file_that_has_not_changed_is_not_hashed_again() {
    let folder = TempDir::new().unwrap();
    let sources = sources(&folder);
    let (path, other) = (folder.path().join("ramdisk"), folder.path().join("other"));
    std::fs::write(&path, "aaaa").unwrap();
    std::fs::write(&other, "bbbb").unwrap();
    // Until a change is sure to show in the file's times.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let name = path.to_str().unwrap();
    let first = sources.fetch(name, None).await.unwrap();
    let planted = sources.fetch(other.to_str().unwrap(), None).await.unwrap();
    // A record that lies about the digest is believed for as long as the file is the same.
    let (record, ..) = sources.inner.cache.record(name).unwrap();
    let lie = Record::new(planted.sha256, 4, name, record.proof);
    sources.inner.cache.note(name, &lie);
    assert_eq!(sources.fetch(name, None).await.unwrap().sha256, planted.sha256);
    std::fs::write(&path, "aaaa").unwrap();
    assert_eq!(sources.fetch(name, None).await.unwrap().sha256, first.sha256);
}

#[tokio::test]
async fn a_damaged_record_or_a_content_of_another_length_is_fetched_again() {
    let folder = TempDir::new().unwrap();
    let sources = sources(&folder);
    let path = folder.path().join("ramdisk");
    std::fs::write(&path, "aaaa").unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let name = path.to_str().unwrap();
    let sha256 = sources.fetch(name, None).await.unwrap().sha256;
    let object = sources.inner.cache.object(&sha256);
    std::fs::remove_file(&object).unwrap();
    std::fs::write(&object, "aa").unwrap();
    assert_eq!(sources.fetch(name, None).await.unwrap().sha256, sha256);
    assert_eq!(std::fs::read(&object).unwrap(), b"aaaa");
    for record in std::fs::read_dir(folder.path().join("cache/references")).unwrap() {
        std::fs::write(record.unwrap().path(), "{\"sha256\":7").unwrap();
    }
    assert_eq!(sources.fetch(name, None).await.unwrap().sha256, sha256);
}
