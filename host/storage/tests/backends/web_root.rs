//! The web-root backend on real directories, among them full and read-only ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::{name, publication, without_sources};
use storage::{Backend, Stat, StorageError, WebRoot};

const URL: &str = "http://192.0.2.1/httpboot";

fn listing(root: &Path) -> Vec<String> {
    let names = fs::read_dir(root).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_file_appears_whole_readable_for_all_and_under_a_url_that_keeps_its_path() {
    let root = tempfile::tempdir().unwrap();
    let backend = WebRoot::new(root.path(), URL).unwrap();
    let (iso, wanted) = publication(name(1, "iso"), 1);
    let published = backend.publish(&iso, None).await.unwrap();
    assert_eq!(published.url.expose(), format!("{URL}/{}", iso.name.expose()));
    let file = root.path().join(iso.name.expose());
    assert!(fs::read(&file).unwrap() == wanted);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
    assert_eq!(listing(root.path()), [iso.name.expose()]);
    assert_eq!(
        backend.stat(&iso.name).await.unwrap(),
        Stat::Present(wanted.len() as u64)
    );
    for _ in 0..2 {
        backend.withdraw(&iso.name).await.unwrap();
        assert_eq!(backend.stat(&iso.name).await.unwrap(), Stat::Absent);
    }
    assert!(listing(root.path()).is_empty());
    backend.check().await.unwrap();
    assert!(listing(root.path()).is_empty());
}

#[tokio::test]
async fn publishing_again_is_the_same_as_once_and_other_bytes_are_a_conflict() {
    let root = tempfile::tempdir().unwrap();
    let backend = WebRoot::new(root.path(), URL).unwrap();
    let (iso, wanted) = publication(name(1, "iso"), 1);
    let (other, _) = publication(name(1, "iso"), 2);
    backend.publish(&iso, None).await.unwrap();
    backend.publish(&iso, None).await.unwrap();
    let conflict = backend.publish(&other, None).await.unwrap_err();
    assert!(matches!(conflict, StorageError::Conflict { .. }));
    let file = root.path().join(iso.name.expose());
    assert!(fs::read(&file).unwrap() == wanted);
}

#[tokio::test]
async fn a_link_in_the_place_of_an_artefact_is_never_followed() {
    let outside = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let precious = outside.path().join("precious");
    fs::write(&precious, "keep").unwrap();
    let (iso, _) = publication(name(1, "iso"), 1);
    let link = root.path().join(iso.name.expose());
    std::os::unix::fs::symlink(&precious, &link).unwrap();
    let backend = WebRoot::new(root.path(), URL).unwrap();
    let conflict = backend.publish(&iso, None).await.unwrap_err();
    assert!(matches!(conflict, StorageError::Conflict { .. }));
    backend.withdraw(&iso.name).await.unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "keep");
}

#[tokio::test]
async fn a_start_removes_what_a_crash_left_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let left = root.path().join(".farrier-0123456789abcdef.part");
    let busy = root.path().join(".farrier-00000000000000aa.part");
    for name in [
        "index.html",
        ".farrier-notes.part",
        ".farrier-0123456789abcdef.part",
        ".farrier-00000000000000aa.part",
    ] {
        fs::write(root.path().join(name), "x").unwrap();
    }
    let (iso, _) = publication(name(1, "iso"), 1);
    fs::write(root.path().join(iso.name.expose()), "published").unwrap();
    // Another conductor on the same directory is writing this one.
    let held = fs::File::open(&busy).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    WebRoot::new(root.path(), URL).unwrap();
    assert!(!left.exists());
    assert_eq!(listing(root.path()).len(), 4);
    drop(held);
    WebRoot::new(root.path(), URL).unwrap();
    assert!(!busy.exists());
}

#[tokio::test]
async fn a_lost_source_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let backend = WebRoot::new(root.path(), URL).unwrap();
    let (iso, _) = publication(name(1, "iso"), 1);
    let broken = without_sources(&iso);
    let error = backend.publish(&broken, None).await.unwrap_err();
    assert!(matches!(error, StorageError::Source(_)), "{error}");
    assert!(listing(root.path()).is_empty());
}

#[test]
fn a_directory_that_is_missing_or_none_is_refused_with_the_remedy() {
    let root = tempfile::tempdir().unwrap();
    let missing = root.path().join("httpboot");
    let error = WebRoot::new(&missing, URL).err().unwrap().to_string();
    assert!(error.contains("httpboot") && error.contains("create it"), "{error}");
    fs::write(&missing, "x").unwrap();
    let error = WebRoot::new(&missing, URL).err().unwrap().to_string();
    assert!(error.contains("not a directory"), "{error}");
}

/// A tmpfs of its own, so that it can be full or read-only whoever runs the tests. Needs the right to mount.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        Self::run(
            Command::new("mount")
                .args(["-t", "tmpfs", "-o", &options, "farrier-test"])
                .arg(dir.path()),
        );
        Self(dir)
    }

    fn read_only(&self) {
        Self::run(Command::new("mount").args(["-o", "remount,ro"]).arg(self.0.path()));
    }

    fn run(command: &mut Command) {
        let done = command.status();
        assert!(
            done.is_ok_and(|done| done.success()),
            "{command:?} failed: this test mounts a small tmpfs, so run it as root"
        );
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_is_said_to_be_full_and_nothing_is_half_written() {
    let disk = Tmpfs::mount("128k");
    let backend = WebRoot::new(disk.0.path(), URL).unwrap();
    let (iso, _) = publication(name(1, "iso"), 1);
    let error = backend.publish(&iso, None).await.unwrap_err();
    assert!(matches!(error, StorageError::Full { .. }), "{error:?}");
    assert!(error.to_string().contains("free some space"), "{error}");
    assert!(listing(disk.0.path()).is_empty());
    assert_eq!(backend.stat(&iso.name).await.unwrap(), Stat::Absent);
    disk.read_only();
    for error in [
        backend.publish(&iso, None).await.unwrap_err(),
        backend.check().await.unwrap_err(),
    ] {
        assert!(matches!(error, StorageError::Forbidden { .. }), "{error:?}");
    }
}

const CHILD: &str = "FARRIER_TEST_WEB_ROOT";

/// In a process of its own that nothing of this test outlives: publishes and withdraws, over and over, until it is killed.
fn publish_until_killed(root: &Path) -> ! {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        std::thread::spawn(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            std::process::exit(0);
        });
        let backend = WebRoot::new(root, URL).unwrap();
        println!("\nready");
        loop {
            for seed in 1..=4 {
                let (iso, _) = publication(name(seed, "iso"), seed);
                backend.publish(&iso, None).await.unwrap();
            }
            for seed in 1..=4 {
                backend.withdraw(&name(seed, "iso")).await.unwrap();
            }
        }
    })
}

#[test]
fn killed_at_any_moment_of_a_publication_no_half_of_it_is_served_and_the_next_attempt_works() {
    use std::io::BufRead as _;

    if let Some(root) = std::env::var_os(CHILD) {
        publish_until_killed(Path::new(&root));
    }
    let root = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let test = "web_root::killed_at_any_moment_of_a_publication_no_half_of_it_is_served_and_the_next_attempt_works";
    for round in 0..12u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(CHILD, root.path())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "ready"), "it begins to publish");
        // At a moment that nobody has chosen, and another one each time.
        std::thread::sleep(std::time::Duration::from_micros(
            3000 * round + rand::random_range(0..3000),
        ));
        child.kill().unwrap();
        child.wait().unwrap();
        for seed in 1..=4 {
            let (iso, wanted) = publication(name(seed, "iso"), seed);
            let file = root.path().join(iso.name.expose());
            assert!(
                !file.exists() || fs::read(&file).unwrap() == wanted,
                "round {round}: half of an artefact is served"
            );
        }
        // What was unfinished goes at the next start.
        let backend = WebRoot::new(root.path(), URL).unwrap();
        runtime.block_on(async {
            for seed in 1..=4 {
                let (iso, wanted) = publication(name(seed, "iso"), seed);
                backend.publish(&iso, None).await.unwrap();
                assert!(fs::read(root.path().join(iso.name.expose())).unwrap() == wanted);
                backend.withdraw(&iso.name).await.unwrap();
            }
        });
        assert_eq!(listing(root.path()), [""; 0], "round {round}");
    }
}
