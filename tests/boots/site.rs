//! A site with real machines: QEMU behind simulated BMCs, `farrier serve` processes on one store, and a web server with the
//! disk image.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Once;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use model::{ConductorName, NodeId};
use serde_json::{Value, json};
use sim::{BootKind, BootMode, BootOutcome, Device, Running, SimConfig};
use tokio::process::{Child, Command};

use crate::firmware::console;
use crate::lab::{Lab, Machines};
use crate::tool::{Folder, esp};

/// A boot under emulation, a deployment with two of them, on a machine that does other things too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const BMC_USER: &str = "admin";
const BMC_PASSWORD: &str = "boots-password";
const NAMES: [&str; 2] = ["alpha", "beta"];
/// Longer than the two MiB of the disk image.
const DISK_BYTES: u64 = 16 << 20;

/// Firmware that a site's machines have at the start, and that its nodes ask for.
#[derive(Clone, Copy)]
pub(crate) struct Modes {
    pub(crate) factory: BootMode,
    pub(crate) asked: &'static str,
}

/// How a site's nodes boot.
#[derive(Clone, Default)]
pub(crate) enum Boot {
    /// From virtual media.
    #[default]
    Media,
    /// By iPXE, which fetches from the conductor alpha.
    Conductor,
    /// By iPXE, which fetches the entry script from this URL; how it gets there is in this `ironic.conf`.
    IronicConf { bootfile: String, text: String },
}

pub(crate) struct Site {
    pub(crate) sim: Running,
    boot: Boot,
    lab: Lab,
    folder: Folder,
    esp: PathBuf,
    disk: Vec<u8>,
    disk_url: String,
    ports: [Ports; 2],
    modes: Modes,
}

#[derive(Clone, Copy)]
struct Ports {
    api: u16,
    agent: u16,
    images: u16,
}

impl Ports {
    fn free() -> Self {
        Self {
            api: free_port(),
            agent: free_port(),
            images: free_port(),
        }
    }
}

impl Site {
    pub(crate) async fn new(servers: usize, modes: Modes) -> Self {
        Self::booting(servers, modes, Boot::Media).await
    }

    pub(crate) async fn booting(servers: usize, modes: Modes, boot: Boot) -> Self {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let (lab, folder) = (Lab::new(), Folder::new());
        let mut config = SimConfig::new(folder.path().join("sim"), BMC_USER, BMC_PASSWORD);
        config.servers = servers;
        config.boot = vec![BootKind::Qemu(lab.qemu())];
        config.boot_mode = Some(modes.factory);
        config.disk_bytes = DISK_BYTES;
        let ports = [Ports::free(), Ports::free()];
        config.bootfile = match &boot {
            Boot::Media => None,
            Boot::Conductor => Some(format!("http://10.0.2.2:{}/boot.ipxe", ports[0].images)),
            Boot::IronicConf { bootfile, .. } => Some(bootfile.clone()),
        };
        let disk = std::fs::read(lab.file("DISK_IMAGE")).unwrap();
        Self {
            sim: sim::start(config).await.unwrap(),
            esp: esp(&lab, &folder),
            disk_url: serve(disk.clone()).await,
            disk,
            lab,
            folder,
            ports,
            modes,
            boot,
        }
    }

    /// Starts `farrier serve` and waits until it answers.
    pub(crate) async fn conductor(&self, name: &str, automated_clean: bool) -> Conductor {
        let place = NAMES.iter().position(|other| *other == name).unwrap();
        let ports = self.ports[place];
        let listen = |port| format!("127.0.0.1:{port}");
        // A guest sees this host at 10.0.2.2.
        let agent_urls: Vec<String> = self
            .ports
            .iter()
            .map(|ports| format!("http://10.0.2.2:{}", ports.agent))
            .collect();
        let (kernel, ramdisk) = Machines::asked().deploy_pair();
        let (kernel, ramdisk) = (self.lab.file(kernel), self.lab.file(ramdisk));
        let lab = kernel.ancestors().nth(3).unwrap();
        // Who boots by iPXE fetches by itself; otherwise the BMC does, which is on this host.
        let host = match self.boot {
            Boot::Media => "127.0.0.1",
            Boot::Conductor | Boot::IronicConf { .. } => "10.0.2.2",
        };
        let settings = json!({
            "data-dir": self.folder.path().join("data"),
            "secret-key-file": self.folder.path().join("secret.key"),
            "file-url-allowed-paths": [lab],
            "api": { "listen": listen(ports.api) },
            "agent": {
                "listen": listen(ports.agent),
                "urls": agent_urls,
                "callback-networks": ["127.0.0.0/8"],
                "require-tls": false,
            },
            "conductor": { "name": name, "lease-s": 4, "automated-clean": automated_clean },
            "images": {
                "listen": listen(ports.images),
                "external-url": format!("http://{host}:{}", ports.images),
                "deploy-kernel": kernel,
                "deploy-ramdisk": ramdisk,
                "isolinux": self.lab.file("ISOLINUX"),
                "esp": self.esp,
                "kernel-append-params": "console=ttyS0,115200",
            },
            "security": { "allow-local-addresses": true },
        });
        let config = self
            .folder
            .write(&format!("{name}.toml"), toml::to_string(&settings).unwrap());
        let log = self.folder.path().join(format!("{name}.log"));
        let output = std::fs::File::create(&log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_farrier"));
        command.args(["serve", "--config", &config]);
        if let Boot::IronicConf { text, .. } = &self.boot {
            command.args(["--ironic-conf", &self.folder.write("ironic.conf", text)]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut conductor = Conductor {
            name: name.to_owned(),
            api: format!("http://127.0.0.1:{}", ports.api),
            http: reqwest::Client::builder()
                .no_proxy()
                .timeout(Duration::from_secs(30))
                .build()
                .unwrap(),
            child,
            log,
        };
        conductor.becomes_ready().await;
        conductor
    }

    /// Enrols server `index` and brings it to `available`; `instance` is its `instance_info`.
    pub(crate) async fn available(&self, conductor: &Conductor, index: usize, driver: &str, instance: Value) -> String {
        let server = self.sim.server(index).unwrap();
        let name = format!("n{index}");
        let interface = match self.boot {
            Boot::Media => "ilo-virtual-media",
            Boot::Conductor | Boot::IronicConf { .. } => "ilo-ipxe",
        };
        let node = json!({
            "uuid": uuid_at_home_with("alpha"),
            "name": name,
            "driver": driver,
            "boot_interface": interface,
            "driver_info": {
                "ilo_address": server.url, "ilo_username": BMC_USER, "ilo_password": BMC_PASSWORD,
                "ilo_verify_ca": self.sim.ca_pem(),
            },
            "instance_info": instance,
            "properties": { "capabilities": format!("boot_mode:{}", self.modes.asked) },
        });
        let made = conductor.post("/v1/nodes", &node).await;
        let port = json!({ "node_uuid": made["uuid"], "address": server.mac });
        conductor.post("/v1/ports", &port).await;
        conductor.bring(&name, "manage", "manageable").await;
        conductor.bring(&name, "provide", "available").await;
        name
    }

    /// `instance_info` of an instance that is written to disk.
    pub(crate) fn disk_image(&self) -> Value {
        json!({
            "image_source": self.disk_url,
            "image_disk_format": "raw",
            "image_os_hash_algo": "sha256",
            "image_os_hash_value": self.lab.value("DISK_IMAGE_SHA256"),
        })
    }

    /// `instance_info` of an instance that runs from its boot ISO.
    pub(crate) fn boot_iso_alone(&self) -> Value {
        let url = |key| url::Url::from_file_path(self.lab.file(key)).unwrap().to_string();
        json!({ "kernel": url("INSTANCE_KERNEL"), "ramdisk": url("INSTANCE_RAMDISK") })
    }

    /// The disk of server `index` starts with the image.
    pub(crate) fn assert_deployed(&self, index: usize) {
        let disk = std::fs::read(&self.sim.server(index).unwrap().disk).unwrap();
        assert!(disk.starts_with(&self.disk), "the disk does not hold the image");
    }

    pub(crate) fn console(&self, index: usize) -> String {
        console(&self.sim.server(index).unwrap().serial_log)
    }

    /// Waits until server `index` has said this on its serial port.
    pub(crate) async fn says(&self, index: usize, text: &str) {
        self.says_times(index, text, 1).await;
    }

    /// The same for the second time.
    pub(crate) async fn says_again(&self, index: usize, text: &str) {
        self.says_times(index, text, 2).await;
    }

    async fn says_times(&self, index: usize, text: &str, times: usize) {
        let what = format!("server {index} says `{text}` {times} times");
        wait(
            &what,
            || self.console(index),
            async || {
                let boot = self.sim.last_boot(index).unwrap();
                let outcome = boot.map(|boot| boot.outcome);
                assert!(!matches!(outcome, Some(BootOutcome::Failed { .. })), "{outcome:?}");
                (self.console(index).matches(text).count() >= times).then_some(())
            },
        )
        .await;
    }

    pub(crate) fn inserted(&self, index: usize, device: Device) -> Option<String> {
        self.sim.inserted(index, device).unwrap()
    }
}

/// A running `farrier serve`; dropping it kills it.
pub(crate) struct Conductor {
    name: String,
    api: String,
    http: reqwest::Client,
    child: Child,
    log: PathBuf,
}

impl Conductor {
    async fn becomes_ready(&mut self) {
        let began = Instant::now();
        while self.try_get("/v1/nodes").await.is_none() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("conductor {} ended ({status}):\n{}", self.name, self.log());
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{} is not ready:\n{}",
                self.name,
                self.log()
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// SIGKILL: it has no chance to say good-bye.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    async fn try_get(&self, path: &str) -> Option<Value> {
        let reply = self.request(reqwest::Method::GET, path).send().await.ok()?;
        reply.status().is_success().then_some(())?;
        reply.json().await.ok()
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.try_get(path).await;
        answer.unwrap_or_else(|| panic!("no answer to GET {path}:\n{}", self.log()))
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let text = self.send(reqwest::Method::POST, path, body).await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("POST {path}: {error}: {text}"))
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) {
        self.send(reqwest::Method::PUT, path, body).await;
    }

    async fn send(&self, method: reqwest::Method, path: &str, body: &Value) -> String {
        let reply = self.request(method.clone(), path).json(body).send().await.unwrap();
        let status = reply.status();
        let text = reply.text().await.unwrap();
        assert!(status.is_success(), "{method} {path}: {status}: {text}\n{}", self.log());
        text
    }

    fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.api));
        request.header("X-OpenStack-Ironic-API-Version", "latest")
    }

    /// Asks for a provision verb and waits until the node is where it leads.
    pub(crate) async fn bring(&self, node: &str, verb: &str, state: &str) {
        let path = format!("/v1/nodes/{node}/states/provision");
        self.put(&path, &json!({ "target": verb })).await;
        self.reaches(node, state).await;
    }

    /// Waits until a node is in this state; a failure ends the wait at once.
    pub(crate) async fn reaches(&self, node: &str, state: &str) {
        let path = format!("/v1/nodes/{node}/states");
        wait(
            &format!("{node} is `{state}`"),
            || self.log(),
            async || {
                let now = self.get(&path).await;
                let (current, error) = (now["provision_state"].as_str().unwrap(), &now["last_error"]);
                let failed =
                    current.ends_with("failed") || current == "error" || (current == "enroll" && !error.is_null());
                assert!(!failed, "{node} is `{current}`: {error}\n{}", self.log());
                (current == state).then_some(())
            },
        )
        .await;
    }

    /// Resets a server by way of its node.
    pub(crate) async fn reboot(&self, node: &str) {
        let path = format!("/v1/nodes/{node}/states/power");
        self.put(&path, &json!({ "target": "rebooting" })).await;
    }

    /// Switches a server off by way of its node.
    pub(crate) async fn power_off(&self, node: &str) {
        let path = format!("/v1/nodes/{node}/states/power");
        self.put(&path, &json!({ "target": "power off" })).await;
        let path = format!("/v1/nodes/{node}/states");
        wait(
            &format!("{node} is off"),
            || self.log(),
            async || (self.get(&path).await["power_state"] == "power off").then_some(()),
        )
        .await;
    }
}

/// Looks until there is something; panics with `context` when [`PATIENCE`] is over.
pub(crate) async fn wait<T>(what: &str, context: impl Fn() -> String, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}\n{}",
            context()
        );
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// All bytes under a URL.
pub(crate) async fn fetch(url: &str) -> Vec<u8> {
    let reply = reqwest::Client::builder()
        .no_proxy()
        .build()
        .unwrap()
        .get(url)
        .send()
        .await;
    let reply = reply.unwrap_or_else(|error| panic!("{url}: {error}"));
    assert!(reply.status().is_success(), "{url}: {}", reply.status());
    reply.bytes().await.unwrap().to_vec()
}

/// Serves the disk image to guests, until the test's runtime ends.
async fn serve(disk: Vec<u8>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let app = Router::new().route("/disk.img", get(async move || disk.clone()));
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://10.0.2.2:{port}/disk.img")
}

/// A free port outside the range that the kernel hands out by itself, so that it stays free until it is used.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 9000).unwrap();
    loop {
        let port = 20_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 9000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A UUID whose node belongs to this conductor while both live.
fn uuid_at_home_with(owner: &str) -> String {
    let names: Vec<ConductorName> = NAMES.iter().map(|name| name.parse().unwrap()).collect();
    loop {
        let id = NodeId::random();
        if conductor::home(&id, &names).is_some_and(|name| name.as_str() == owner) {
            return id.to_string();
        }
    }
}
