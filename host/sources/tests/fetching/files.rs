//! Files: from where they may be taken, and that they are taken whole.

use sources::{SourceError, Sources, SourcesConfig};

use crate::{Site, content, sha256, text};

#[tokio::test]
async fn a_file_is_taken_in_and_later_changes_do_not_reach_the_cache() {
    let site = Site::new();
    let sources = site.sources();
    let big = vec![7; 3 << 20];
    let path = site.file("ramdisk", &big);
    let first = sources.fetch(&path, None).await.unwrap();
    assert_eq!((first.sha256, first.len), (sha256(&big), 3 << 20));
    assert_eq!(first.origin().reference, path);
    std::fs::write(&path, b"other").unwrap();
    assert!(content(&sources, &first.sha256) == big);
    let url = format!("file://{path}");
    for reference in [&path, &url] {
        let second = sources.fetch(reference, None).await.unwrap();
        assert_eq!(second.sha256, sha256(b"other"));
    }
    assert_eq!(site.under_way(), 0);
}

#[tokio::test]
async fn an_empty_file_is_a_source() {
    let site = Site::new();
    let fetched = site.sources().fetch(&site.file("empty", b""), None).await.unwrap();
    assert_eq!((fetched.sha256, fetched.len), (sha256(b""), 0));
}

#[tokio::test]
async fn a_rewrite_of_the_same_length_is_noticed_at_once() {
    let site = Site::new();
    let sources = site.sources();
    for round in 0..20u8 {
        let path = site.file("kernel", &[round; 16]);
        assert_eq!(sources.fetch(&path, None).await.unwrap().sha256, sha256(&[round; 16]));
    }
}

#[tokio::test]
async fn files_outside_the_allowed_folders_are_refused_whatever_links_say() {
    let site = Site::new();
    let sources = site.sources();
    let secret = site.folder.path().join("secret");
    std::fs::write(&secret, "s").unwrap();
    let link = site.files().join("link");
    std::os::unix::fs::symlink(&secret, &link).unwrap();
    let up = site.files().join("up");
    std::os::unix::fs::symlink("..", &up).unwrap();
    let prefix = site.folder.path().join("files-of-others");
    std::fs::write(&prefix, "s").unwrap();
    for path in [
        text(&secret),
        text(&link),
        text(&up.join("secret")),
        text(&prefix),
        format!("{}/../secret", text(&site.files())),
        format!("{}/../missing", text(&site.files())),
        format!("file://{}/%2e%2e/secret", text(&site.files())),
        "/etc/shadow".into(),
        "/etc/no-such-file".into(),
        "/proc/self/environ".into(),
    ] {
        let error = sources.fetch(&path, None).await.unwrap_err();
        assert!(matches!(error, SourceError::NotAllowed { .. }), "{path}: {error}");
        assert!(error.to_string().contains("file-url-allowed-paths"), "{error}");
    }
    assert!(sources.entries().unwrap().is_empty());
}

#[tokio::test]
async fn links_within_the_allowed_folders_are_followed() {
    let site = Site::new();
    let path = site.file("v2", b"content");
    let link = site.files().join("latest");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let fetched = site.sources().fetch(&text(&link), None).await.unwrap();
    assert_eq!(fetched.sha256, sha256(b"content"));
}

#[tokio::test]
async fn a_file_can_be_allowed_by_itself_and_its_neighbours_are_not() {
    let site = Site::new();
    let (one, other) = (site.file("one", b"1"), site.file("other", b"2"));
    let allowed_file_paths = vec![one.clone().into()];
    let sources = Sources::new(SourcesConfig {
        allowed_file_paths,
        ..site.config()
    })
    .unwrap();
    assert_eq!(sources.fetch(&one, None).await.unwrap().sha256, sha256(b"1"));
    let error = sources.fetch(&other, None).await.unwrap_err();
    assert!(matches!(error, SourceError::NotAllowed { .. }), "{error}");
}

#[tokio::test]
async fn no_files_are_read_unless_a_folder_is_allowed() {
    let site = Site::new();
    let path = site.file("kernel", b"x");
    let sources = Sources::new(SourcesConfig::new(site.cache())).unwrap();
    let error = sources.fetch(&path, None).await.unwrap_err();
    assert!(error.to_string().contains("(none)"), "{error}");
}

#[tokio::test]
async fn what_is_no_file_is_an_error_and_no_hang() {
    let site = Site::new();
    let sources = site.sources();
    let pipe = site.files().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from(0o600),
        0,
    )
    .unwrap();
    for path in [text(&pipe), text(&site.files())] {
        let error = sources.fetch(&path, None).await.unwrap_err();
        assert!(matches!(error, SourceError::Read { .. }), "{path}: {error}");
    }
    let missing = text(&site.files().join("missing"));
    let error = sources.fetch(&missing, None).await.unwrap_err();
    assert!(matches!(error, SourceError::NotFound { .. }), "{error}");
    assert!(error.to_string().contains(&missing), "{error}");
}

#[tokio::test]
async fn a_wrong_checksum_keeps_nothing() {
    let site = Site::new();
    let sources = site.sources();
    let path = site.file("kernel", b"real");
    let error = sources.fetch(&path, Some(sha256(b"wanted"))).await.unwrap_err();
    let SourceError::Checksum { expected, actual, .. } = error else {
        panic!("{error}");
    };
    let hex = |content: &[u8]| sha256(content).to_string();
    assert_eq!((expected, actual), (hex(b"wanted"), hex(b"real")));
    assert!(sources.entries().unwrap().is_empty());
    assert_eq!(site.under_way(), 0);
    sources.fetch(&path, Some(sha256(b"real"))).await.unwrap();
}

#[tokio::test]
async fn content_that_is_there_is_had_by_its_checksum_when_the_file_is_gone() {
    let site = Site::new();
    let sources = site.sources();
    let path = site.file("kernel", b"x");
    sources.fetch(&path, None).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    sources.fetch(&path, None).await.unwrap_err();
    assert_eq!(sources.fetch(&path, Some(sha256(b"x"))).await.unwrap().len, 1);
}

#[tokio::test]
async fn a_file_bigger_than_allowed_is_refused() {
    let site = Site::new();
    let config = SourcesConfig {
        max_source_bytes: 4,
        ..site.config()
    };
    let sources = Sources::new(config).unwrap();
    sources.fetch(&site.file("four", b"1234"), None).await.unwrap();
    let error = sources.fetch(&site.file("five", b"12345"), None).await.unwrap_err();
    assert!(matches!(error, SourceError::TooBig { max: 4, .. }), "{error}");
    assert_eq!(site.under_way(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_changes_its_mind_while_it_is_opened_never_leads_outside() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let site = Site::new();
    let sources = site.sources();
    let outside = site.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("image"), "secret").unwrap();
    let inside = site.files().join("inside");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("image"), "harmless").unwrap();
    // A folder of the way, exchanged for a link to another folder and back, as fast as that goes.
    let (way, link) = (site.files().join("way"), site.files().join("link"));
    std::fs::rename(&inside, &way).unwrap();
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let swapping = std::thread::spawn({
        let (way, link, stop) = (way.clone(), link.clone(), std::sync::Arc::clone(&stop));
        move || {
            let mut swaps = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &way, rustix::fs::CWD, &link, exchange).unwrap();
                swaps += 1;
            }
            swaps
        }
    });
    let path = text(&way.join("image"));
    let (mut harmless, mut refused) = (0, 0);
    let begun = std::time::Instant::now();
    while harmless + refused < 3000 || harmless == 0 || refused == 0 {
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(60),
            "{harmless} and {refused}"
        );
        match sources.fetch(&path, None).await {
            Ok(fetched) => {
                assert_eq!(fetched.sha256, sha256(b"harmless"));
                harmless += 1;
            }
            Err(SourceError::NotAllowed { .. } | SourceError::Read { .. } | SourceError::NotFound { .. }) => {
                refused += 1
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapping.join().unwrap() > 0);
    assert!(
        sources
            .entries()
            .unwrap()
            .iter()
            .all(|entry| entry.sha256 != sha256(b"secret"))
    );
}
