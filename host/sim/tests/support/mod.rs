//! What the tests stand up around a simulator: an image server, a conductor and media made by other people's tools.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test binary is a crate that uses its own part of this module"
)]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::{Certificate, Client, Method, StatusCode};
use serde_json::{Value, json};
use sim::{Running, SimConfig};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub const USER: &str = "admin";
pub const PASSWORD: &str = "hunter2-hunter2";
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A started simulator and a client that trusts it.
pub struct Lab {
    pub running: Running,
    pub client: Client,
    pub folder: TempDir,
}

pub async fn lab(change: impl FnOnce(&mut SimConfig)) -> Lab {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let mut config = SimConfig::new(folder.path(), USER, PASSWORD);
    config.disk_bytes = 1 << 20;
    config.timing.post = Duration::from_millis(100);
    config.timing.heartbeat_cap = Duration::from_millis(50);
    change(&mut config);
    let running = sim::start(config).await.unwrap();
    let pem = std::fs::read(running.ca_pem()).unwrap();
    let client = Client::builder()
        .tls_certs_only([Certificate::from_pem(&pem).unwrap()])
        .no_proxy()
        .timeout(Duration::from_secs(20))
        .build()
        .unwrap();
    Lab {
        running,
        client,
        folder,
    }
}

pub const SYSTEM: &str = "/redfish/v1/Systems/1";
pub const RESET: &str = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";
pub const FLOPPY: &str = "/redfish/v1/Managers/1/VirtualMedia/1";
pub const CD: &str = "/redfish/v1/Managers/1/VirtualMedia/2";

impl Lab {
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.running.server(0).unwrap().url)
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client
            .request(method, self.url(path))
            .basic_auth(USER, Some(PASSWORD))
    }

    /// Sends JSON and returns the status and the message id of the reply.
    pub async fn send(&self, method: Method, path: &str, body: Value) -> (u16, String) {
        let reply = self.request(method, path).json(&body).send().await.unwrap();
        outcome(reply).await
    }

    pub async fn post(&self, path: &str, body: Value) -> (u16, String) {
        self.send(Method::POST, path, body).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> (u16, String) {
        self.send(Method::PATCH, path, body).await
    }

    pub async fn get(&self, path: &str) -> Value {
        let reply = self.request(Method::GET, path).send().await.unwrap();
        assert_eq!(reply.status(), StatusCode::OK, "{path}");
        reply.json().await.unwrap()
    }

    pub async fn insert(&self, slot: &str, url: &str) {
        let action = format!("{slot}/Actions/VirtualMedia.InsertMedia");
        ok(self.post(&action, json!({"Image": url})).await);
    }

    pub async fn eject(&self, slot: &str) {
        let action = format!("{slot}/Actions/VirtualMedia.EjectMedia");
        ok(self.post(&action, json!({})).await);
    }

    pub async fn boot_once(&self, target: &str) {
        let boot = json!({"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": "Once"});
        ok(self.patch(SYSTEM, json!({"Boot": boot})).await);
    }

    pub async fn reset(&self, kind: &str) {
        ok(self.post(RESET, json!({"ResetType": kind})).await);
    }

    pub async fn power(&self) -> String {
        self.get(SYSTEM).await["PowerState"].as_str().unwrap().to_owned()
    }

    pub async fn boot_number(&self, number: u64) -> sim::LastBoot {
        until(|| {
            let boot = self.running.last_boot(0).unwrap()?;
            (boot.number == number).then_some(boot)
        })
        .await
    }
}

pub async fn outcome(reply: reqwest::Response) -> (u16, String) {
    let status = reply.status().as_u16();
    let body: Value = reply.json().await.unwrap_or(Value::Null);
    let id = body["error"]["@Message.ExtendedInfo"][0]["MessageId"]
        .as_str()
        .unwrap_or_default();
    (status, id.to_owned())
}

pub fn ok((status, id): (u16, String)) {
    assert_eq!((status, id.as_str()), (200, "Base.1.4.Success"));
}

pub fn is(got: &(u16, String), status: u16, id: &str) {
    assert_eq!((got.0, got.1.as_str()), (status, id));
}

/// Waits on a condition, at most 20 seconds.
pub async fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "nothing happened in 20 seconds");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// One request as it came over the wire.
#[derive(Clone, Debug)]
pub struct Seen {
    pub head: String,
    pub body: Vec<u8>,
}

impl Seen {
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }
}

type Answer = dyn Fn(&Seen) -> (u16, String, Vec<u8>) + Send + Sync;

/// A small HTTP/1.1 server that remembers what it was sent.
pub struct Http {
    pub address: SocketAddr,
    pub seen: Arc<Mutex<Vec<Seen>>>,
    /// Connections accepted.
    pub connections: Arc<Mutex<u32>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Http {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Http {
    pub async fn start(answer: impl Fn(&Seen) -> (u16, String, Vec<u8>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let answer: Arc<Answer> = Arc::new(answer);
        let (log, count) = (Arc::clone(&seen), Arc::clone(&connections));
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                *count.lock().unwrap() += 1;
                open.spawn(connection(stream, Arc::clone(&answer), Arc::clone(&log)));
            }
        });
        Self {
            address,
            seen,
            connections,
            task,
        }
    }

    /// An image server that answers ranged reads only.
    pub async fn images(files: &[(&str, Vec<u8>)]) -> Self {
        let files: HashMap<String, Vec<u8>> = files
            .iter()
            .map(|(path, bytes)| ((*path).to_owned(), bytes.clone()))
            .collect();
        Self::start(move |seen| range_answer(&files, seen)).await
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn connection(mut stream: TcpStream, answer: Arc<Answer>, log: Arc<Mutex<Vec<Seen>>>) -> Option<()> {
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            let mut chunk = [0; 4096];
            let got = stream.read(&mut chunk).await.ok()?;
            if got == 0 {
                return None;
            }
            buffer.extend_from_slice(&chunk[..got]);
        };
        let rest = buffer.split_off(end);
        let head = String::from_utf8(std::mem::replace(&mut buffer, rest)).unwrap();
        let length = header(&head, "content-length").map_or(0, |text| text.parse().unwrap());
        while buffer.len() < length {
            let mut chunk = [0; 4096];
            let got = stream.read(&mut chunk).await.ok()?;
            if got == 0 {
                return None;
            }
            buffer.extend_from_slice(&chunk[..got]);
        }
        let rest = buffer.split_off(length);
        let seen = Seen {
            head,
            body: std::mem::replace(&mut buffer, rest),
        };
        let (status, headers, body) = answer(&seen);
        let head_only = seen.head.starts_with("HEAD ");
        log.lock().unwrap().push(seen);
        if status == 0 {
            return None;
        }
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
        // One write: two small ones would wait for each other's acknowledgement.
        let body: &[u8] = if head_only { &[] } else { &body };
        let reply = [head.as_bytes(), body].concat();
        stream.write_all(&reply).await.ok()?;
    }
}

pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

pub fn range_answer(files: &HashMap<String, Vec<u8>>, seen: &Seen) -> (u16, String, Vec<u8>) {
    let Some(bytes) = files.get(seen.target()) else {
        return (404, String::new(), Vec::new());
    };
    let Some(range) = header(&seen.head, "range") else {
        return (200, String::new(), bytes.clone());
    };
    let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
    if first >= bytes.len() {
        return (416, String::new(), Vec::new());
    }
    let last = last.min(bytes.len() - 1);
    let headers = format!("Content-Range: bytes {first}-{last}/{}\r\n", bytes.len());
    (206, headers, bytes[first..=last].to_vec())
}

pub const NODE: &str = "7b1a4b9e-3f0f-4a55-9a3e-0f5d3c1d2e4f";

/// A conductor that knows one node and takes its heartbeats.
pub async fn conductor() -> Http {
    Http::start(|seen| {
        let target = seen.target();
        if target.starts_with("/v1/lookup?") {
            let body = json!({
                "node": {"uuid": NODE, "properties": {}},
                "config": {"heartbeat_timeout": 300, "agent_token": "******"},
            });
            (200, String::new(), body.to_string().into_bytes())
        } else if target.starts_with("/v1/heartbeat/") {
            (202, String::new(), Vec::new())
        } else {
            (200, String::new(), b"{}".to_vec())
        }
    })
    .await
}

/// The call-back address of the first heartbeat.
pub async fn callback(conductor: &Http) -> String {
    until(|| {
        let seen = conductor.seen();
        let beat = seen.iter().find(|seen| seen.target().starts_with("/v1/heartbeat/"))?;
        let body: Value = serde_json::from_slice(&beat.body).unwrap();
        Some(body["callback_url"].as_str().unwrap().to_owned())
    })
    .await
}

/// A FAT floppy with one `parameters.txt`.
pub fn floppy(label: &str, parameters: &str) -> Vec<u8> {
    use std::io::{Cursor, Write};
    let mut image = vec![0; 1_474_560];
    let mut volume_label = [b' '; 11];
    volume_label[..label.len()].copy_from_slice(label.as_bytes());
    let options = fatfs::FormatVolumeOptions::new().volume_label(volume_label);
    fatfs::format_volume(Cursor::new(&mut image[..]), options).unwrap();
    let volume = fatfs::FileSystem::new(Cursor::new(&mut image[..]), fatfs::FsOptions::new()).unwrap();
    let mut file = volume.root_dir().create_file("parameters.txt").unwrap();
    file.write_all(parameters.as_bytes()).unwrap();
    drop(file);
    drop(volume);
    image
}

/// A boot ISO for BIOS and UEFI, made by xorriso. Its boot code is not code: nothing here runs it.
pub fn iso(append: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    std::fs::create_dir_all(tree.join("isolinux")).unwrap();
    std::fs::create_dir_all(tree.join("boot/grub")).unwrap();
    let config = format!("default boot\nlabel boot\n kernel /boot/vmlinuz\n append initrd=/boot/initrd {append}\n");
    let grub = format!("menuentry x {{\n linux /boot/vmlinuz {append}\n initrd /boot/initrd\n}}\n");
    for (name, bytes) in [
        ("isolinux/isolinux.bin", vec![0xeb; 4096]),
        ("isolinux/isolinux.cfg", config.into_bytes()),
        ("boot/grub/grub.cfg", grub.into_bytes()),
        ("boot/efi.img", floppy("ESP", "")),
        ("boot/vmlinuz", vec![b'k'; 200_000]),
        ("boot/initrd", vec![b'i'; 3_000_000]),
    ] {
        std::fs::write(tree.join(name), bytes).unwrap();
    }
    let out = folder.path().join("out.iso");
    make_iso(&tree, &out);
    std::fs::read(out).unwrap()
}

fn make_iso(tree: &Path, out: &Path) {
    let output = Command::new("xorriso")
        .args(["-as", "mkisofs", "-quiet", "-r", "-V", "BOOT", "-o"])
        .arg(out)
        .args([
            "-b",
            "isolinux/isolinux.bin",
            "-c",
            "isolinux/boot.cat",
            "-no-emul-boot",
        ])
        .args(["-boot-load-size", "4", "-boot-info-table", "-eltorito-alt-boot"])
        .args(["-e", "boot/efi.img", "-no-emul-boot"])
        .arg(tree)
        .output()
        .expect("the tool `xorriso` is needed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}
