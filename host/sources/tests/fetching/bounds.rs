//! What stays in the cache, and what a crash leaves.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use image::SourceSet;
use model::Sha256;
use sources::{SourceError, Sources, SourcesConfig};

use crate::{Site, sha256};

/// Keeps 10 bytes, and nothing for being recent.
fn tight(site: &Site, pins: Option<HashSet<Sha256>>) -> Sources {
    Sources::new(SourcesConfig {
        max_bytes: 10,
        max_age: None,
        keep_recent: Duration::ZERO,
        pins: Arc::new(move || pins.clone()),
        ..site.config()
    })
    .unwrap()
}

/// Makes content look as if it was last used so long ago.
fn age(site: &Site, content: &[u8], ago: Duration) {
    let name = sha256(content).to_string();
    let file = std::fs::File::open(site.cache().join(&name[..2]).join(&name)).unwrap();
    let times = std::fs::FileTimes::new().set_accessed(SystemTime::now() - ago);
    file.set_times(times).unwrap();
}

fn kept(sources: &Sources) -> HashSet<Sha256> {
    sources.entries().unwrap().iter().map(|entry| entry.sha256).collect()
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn the_least_recently_used_goes_first() {
    let site = Site::new();
    let sources = tight(&site, Some(HashSet::new()));
    let (old, older) = (site.file("old", b"1111"), site.file("older", b"2222"));
    sources.fetch(&old, None).await.unwrap();
    sources.fetch(&older, None).await.unwrap();
    age(&site, b"1111", 2 * HOUR);
    age(&site, b"2222", HOUR);
    // Using it makes it recent again.
    sources.open(&sha256(b"1111")).unwrap();
    let new = sources.fetch(&site.file("new", b"3333"), None).await.unwrap();
    assert_eq!(kept(&sources), HashSet::from([sha256(b"1111"), new.sha256]));
    assert!(
        sources
            .open(&sha256(b"2222"))
            .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    );
}

#[tokio::test]
async fn what_is_pinned_held_or_recent_stays_whatever_the_bounds() {
    let site = Site::new();
    let pinned = sha256(b"pinned pinned");
    let sources = tight(&site, Some(HashSet::from([pinned])));
    sources.fetch(&site.file("a", b"pinned pinned"), None).await.unwrap();
    let held = sources.fetch(&site.file("b", b"held held held"), None).await.unwrap();
    sources
        .fetch(&site.file("c", b"loose loose loose"), None)
        .await
        .unwrap();
    for content in [&b"pinned pinned"[..], b"held held held", b"loose loose loose"] {
        age(&site, content, HOUR);
    }
    let pruned = sources.prune().unwrap();
    assert_eq!((pruned.files, pruned.bytes), (1, 17));
    assert_eq!(kept(&sources), HashSet::from([pinned, held.sha256]));
    drop(held);
    assert_eq!(sources.prune().unwrap().files, 1);
    assert_eq!(kept(&sources), HashSet::from([pinned]));
    let patient = Sources::new(SourcesConfig {
        max_bytes: 0,
        keep_recent: HOUR,
        ..site.config()
    })
    .unwrap();
    patient.fetch(&site.file("d", b"young"), None).await.unwrap();
    assert!(kept(&patient).contains(&sha256(b"young")));
}

#[tokio::test]
async fn nothing_is_removed_while_the_pins_cannot_be_told() {
    let site = Site::new();
    let sources = tight(&site, None);
    sources
        .fetch(&site.file("a", b"more than ten bytes"), None)
        .await
        .unwrap();
    age(&site, b"more than ten bytes", HOUR);
    assert_eq!(sources.prune().unwrap().files, 0);
}

#[tokio::test]
async fn what_was_not_used_for_long_goes() {
    let site = Site::new();
    let sources = Sources::new(SourcesConfig {
        max_age: Some(HOUR),
        ..site.config()
    })
    .unwrap();
    for content in [&b"old"[..], b"new"] {
        sources.fetch(&site.file("x", content), None).await.unwrap();
    }
    age(&site, b"old", 2 * HOUR);
    assert_eq!(sources.prune().unwrap().files, 1);
    assert_eq!(kept(&sources), HashSet::from([sha256(b"new")]));
}

#[tokio::test]
async fn a_start_keeps_what_is_whole_or_being_fetched_and_removes_what_a_crash_left() {
    let site = Site::new();
    let sources = site.sources();
    sources.fetch(&site.file("a", b"whole"), None).await.unwrap();
    let at_work = site.cache().join("tmp").join("fetch-at-work");
    let locked = std::fs::File::create(&at_work).unwrap();
    rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let left = ["tmp/fetch-left", "turns/left"].map(|name| site.cache().join(name));
    for left in &left {
        std::fs::write(left, "half").unwrap();
    }
    let second = site.sources();
    assert!(at_work.exists());
    assert!(!left.iter().any(|left| left.exists()));
    assert_eq!(kept(&second), HashSet::from([sha256(b"whole")]));
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_named() {
    let site = Site::new();
    let file = site.file("file", b"x");
    let error = Sources::new(SourcesConfig::new(&file)).unwrap_err();
    assert!(matches!(error, SourceError::Cache { .. }), "{error}");
    assert!(error.to_string().contains(&file), "{error}");
    let ca = Some(site.files().join("no-ca.pem"));
    let error = Sources::new(SourcesConfig { ca, ..site.config() }).unwrap_err();
    assert!(error.to_string().contains("no-ca.pem"), "{error}");
}

#[tokio::test]
async fn contents_are_readable_by_nobody_else_and_writable_by_nobody() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    let fetched = site.sources().fetch(&site.file("a", b"x"), None).await.unwrap();
    let name = fetched.sha256.to_string();
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(site.cache().join(&name[..2]).join(&name)), 0o400);
    assert_eq!(mode(site.cache()), 0o700);
}

#[tokio::test]
async fn content_that_somebody_wrote_to_is_noticed_when_it_is_opened_and_fetched_again() {
    let site = Site::new();
    let sources = site.sources();
    let path = site.file("a", b"content");
    let fetched = sources.fetch(&path, None).await.unwrap();
    let name = fetched.sha256.to_string();
    let object = site.cache().join(&name[..2]).join(&name);
    drop(fetched);
    type Damage = fn(&std::path::Path);
    let damages: [(&str, Damage); 4] = [
        ("other bytes of the same length", |object| {
            writable(object);
            std::fs::write(object, "CONTENT").unwrap();
        }),
        ("cut short", |object| {
            writable(object);
            std::fs::File::options()
                .write(true)
                .open(object)
                .unwrap()
                .set_len(3)
                .unwrap();
        }),
        ("another file in its place", |object| {
            std::fs::remove_file(object).unwrap();
            std::fs::write(object, "content").unwrap();
        }),
        ("a link in its place", |object| {
            let other = object.with_extension("other");
            std::fs::rename(object, &other).unwrap();
            std::os::unix::fs::symlink(&other, object).unwrap();
        }),
    ];
    for (what, damage) in damages {
        damage(&object);
        let opened = sources.open(&sha256(b"content"));
        assert!(opened.is_err(), "{what}");
        sources.fetch(&path, Some(sha256(b"content"))).await.unwrap();
        assert_eq!(crate::content(&sources, &sha256(b"content")), b"content", "{what}");
        assert!(sources.verify(&sha256(b"content")).unwrap());
    }
}

fn writable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn a_disk_that_forgets_is_found_by_verifying() {
    let site = Site::new();
    let sources = site.sources();
    let fetched = sources.fetch(&site.file("a", b"content"), None).await.unwrap();
    let name = fetched.sha256.to_string();
    let object = site.cache().join(&name[..2]).join(&name);
    let before = std::fs::metadata(&object).unwrap();
    writable(&object);
    std::fs::write(&object, "cOntent").unwrap();
    let times = std::fs::FileTimes::new().set_modified(before.modified().unwrap());
    std::fs::File::options()
        .write(true)
        .open(&object)
        .unwrap()
        .set_times(times)
        .unwrap();
    assert!(!sources.verify(&fetched.sha256).unwrap());
    assert!(!sources.remove(&fetched.sha256).unwrap(), "it is in use");
    let sha256 = fetched.sha256;
    drop(fetched);
    assert!(sources.remove(&sha256).unwrap());
    assert!(sources.entries().unwrap().is_empty());
}

#[tokio::test]
async fn where_content_came_from_is_told_without_secrets() {
    let site = Site::new();
    let sources = site.sources();
    let server = crate::server::Server::start().await;
    server.on("/a?sig=s3cret", [crate::server::ok(&[], b"content")]);
    let url = format!("{}/a?sig=s3cret", server.url.replace("http://", "http://u:s3cret@"));
    let path = site.file("a", b"content");
    // A file is noted once its times can tell a change.
    tokio::time::sleep(Duration::from_millis(100)).await;
    for reference in [&url, &path, &url] {
        sources.fetch(reference, None).await.unwrap();
    }
    let origins = sources.origins();
    assert_eq!(origins[&sha256(b"content")], [path, format!("{}/a", server.url)]);
}
