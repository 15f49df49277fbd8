//! Real servers that tests talk to, started on free ports of loopback: Swift, Keystone, nginx. A test file includes this one
//! by its path.
//!
//! What they need is installed by `make setup`. Each lives no longer than the value that stands for it, and ends with the
//! test's process however that ends: it watches its standard input.
#![allow(dead_code, reason = "not every test needs every server")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a server may take to come up: a Python program on a busy machine.
const START: Duration = Duration::from_secs(180);
/// How long it may take to go by itself.
const STOP: Duration = Duration::from_secs(10);

/// A path that the set-up names.
pub(crate) fn lab(key: &str) -> PathBuf {
    let default = repository().join(".lab/lab.env");
    let file = std::env::var_os("FARRIER_LAB").map_or(default, PathBuf::from);
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("the lab is not set up: run `make setup` ({}: {error})", file.display()));
    let pairs: BTreeMap<_, _> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let path = PathBuf::from(
        pairs
            .get(key)
            .unwrap_or_else(|| panic!("the lab names no {key}: run `make setup`")),
    );
    assert!(path.exists(), "{} ({key}) is gone: run `make setup`", path.display());
    path
}

/// The top of the repository; tests of every room lie two folders below it.
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("host/ROOM lies two folders down")
}

/// A server process, and what it says on its standard output.
struct Peer {
    what: &'static str,
    child: Child,
    input: Option<ChildStdin>,
    lines: Mutex<Receiver<String>>,
    folder: tempfile::TempDir,
}

impl Peer {
    fn start(what: &'static str, folder: tempfile::TempDir, command: &mut Command) -> Self {
        let errors = std::fs::File::create(folder.path().join("errors.log")).expect("a log");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("{what} cannot be started: {error}"));
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            what,
            input: child.stdin.take(),
            child,
            lines: Mutex::new(lines),
            folder,
        }
    }

    /// The number after `"KEY":` in its next line.
    fn number(&self, key: &str) -> u16 {
        let line = self.line();
        let number = line.split_once(&format!("\"{key}\":")).map(|(_, rest)| rest);
        let digits: String = number
            .unwrap_or_default()
            .chars()
            .filter(char::is_ascii_digit)
            .collect();
        digits.parse().unwrap_or_else(|_| panic!("{} says {line:?}", self.what))
    }

    fn line(&self) -> String {
        let lines = self.lines.lock().expect("nobody panics while reading");
        lines.recv_timeout(START).unwrap_or_else(|_| {
            let errors = std::fs::read_to_string(self.folder.path().join("errors.log")).unwrap_or_default();
            panic!("{} did not come up within {START:?}:\n{errors}", self.what)
        })
    }

    fn tell(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it runs");
        writeln!(input, "{line}")
            .and_then(|()| input.flush())
            .expect("it listens");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.input.take());
        let start = Instant::now();
        while start.elapsed() < STOP {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder for a server, on the disk that the build is on: Swift needs extended attributes, which a RAM disk may lack.
fn folder(what: &str) -> tempfile::TempDir {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut builder = tempfile::Builder::new();
    builder
        .prefix(what)
        .tempdir_in(target)
        .expect("a folder beside the build")
}

fn python(script: &str) -> Command {
    let mut command = Command::new(lab("OPENSTACK_PYTHON"));
    command.arg(repository().join("tests/lab/openstack").join(script));
    command
}

/// A whole Swift.
pub(crate) struct Swift {
    peer: Peer,
    /// Where its proxy server listens.
    pub(crate) port: u16,
}

impl Swift {
    /// With version 1 authentication; `options` as run_swift.py takes them.
    pub(crate) fn start(options: &[&str]) -> Self {
        let folder = folder("swift");
        let data = folder.path().join("data");
        let peer = Peer::start("Swift", folder, python("run_swift.py").arg(&data).args(options));
        let port = peer.number("proxy");
        Self { peer, port }
    }

    /// `http://127.0.0.1:PORT`
    pub(crate) fn root(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where version 1 authentication is asked.
    pub(crate) fn auth_url(&self) -> String {
        format!("{}/auth/v1.0", self.root())
    }

    /// Lines that its servers logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.peer.folder.path().join("data/swift.log")).unwrap_or_default()
    }
}

/// An account that no other test of this process uses: (account, user, password).
pub(crate) fn account() -> (String, String, &'static str) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(number < 80, "run_swift.py knows eighty accounts");
    (format!("AUTH_t{number:02}"), format!("t{number:02}:tester"), "testing")
}

/// A Keystone, and a Swift that asks it.
pub(crate) struct Keystone {
    peer: Peer,
    /// Its Swift.
    pub(crate) swift: Swift,
    /// `http://127.0.0.1:PORT/v3`
    pub(crate) auth_url: String,
}

impl Keystone {
    pub(crate) fn start() -> Self {
        let folder = folder("keystone");
        let data = folder.path().join("data");
        let copied = Command::new("cp").arg("-a").arg(lab("KEYSTONE")).arg(&data).status();
        assert!(copied.expect("cp").success(), "Keystone's folder cannot be copied");
        let mut peer = Peer::start("Keystone", folder, python("run_keystone.py").arg("serve").arg(&data));
        let auth_url = format!("http://127.0.0.1:{}/v3", peer.number("port"));
        let swift = Swift::start(&["--keystone", &auth_url]);
        peer.tell(&swift.root());
        peer.line();
        Self { peer, swift, auth_url }
    }

    /// Lets the catalogue name another root, such as a proxy in front of Swift.
    pub(crate) fn name(&mut self, root: &str) {
        self.peer.tell(root);
        self.peer.line();
    }

    /// Identifier and secret of the application credential.
    pub(crate) fn application_credential(&self) -> (String, String) {
        let text =
            std::fs::read_to_string(lab("KEYSTONE").join("application-credential.json")).expect("it was prepared");
        let field = |key: &str| {
            let rest = text.split_once(&format!("\"{key}\": \"")).expect("a field").1;
            rest.split('"').next().expect("its value").to_owned()
        };
        (field("id"), field("secret"))
    }
}

fn user() -> String {
    let name = Command::new("id").arg("-un").output().expect("id").stdout;
    String::from_utf8_lossy(&name).trim().to_owned()
}

/// nginx, serving a folder under /images/.
pub(crate) struct Nginx {
    peer: Peer,
    /// Where it listens.
    pub(crate) port: u16,
}

impl Nginx {
    /// The process that all of its others descend from.
    pub(crate) fn pid(&self) -> u32 {
        self.peer.child.id()
    }

    pub(crate) fn start(root: &Path) -> Self {
        let template =
            std::fs::read_to_string(repository().join("tests/lab/nginx/nginx.conf")).expect("its configuration");
        let binary = lab("NGINX");
        // A port that is free now may be taken before nginx gets it.
        for _ in 0..20 {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let port = listener.local_addr().expect("its address").port();
            drop(listener);
            let folder = folder("nginx");
            let config = template
                .replace("FOLDER", folder.path().to_str().expect("a plain path"))
                .replace("ROOT", root.to_str().expect("a plain path"))
                .replace("USER", &user())
                .replace("PORT", &port.to_string());
            let file = folder.path().join("nginx.conf");
            std::fs::write(&file, config).expect("its configuration");
            // It does not watch its standard input, so a shell does.
            let script = r#""$0" -c "$1" -p "$2" & nginx=$!; cat > /dev/null; kill $nginx; wait $nginx"#;
            let mut command = Command::new("sh");
            command.args(["-c", script]).arg(&binary).arg(&file).arg(folder.path());
            let peer = Peer::start("nginx", folder, &mut command);
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(10) {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Self { peer, port };
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        panic!("nginx finds no port");
    }
}
