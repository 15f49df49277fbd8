//! A site of a story's own: a folder, simulated servers, files to boot and to deploy, and the settings of its conductors.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use model::{ConductorName, NodeId};
use reqwest::Certificate;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sim::{BootMode, BootOutcome, Device, Exchange, PowerState, Running, SimConfig, Timing};
use tempfile::TempDir;

use crate::client::Api;
use crate::conductor::{Conductor, Ended};
use crate::image_server::ImageServer;
use crate::wait;

/// The account of the simulated BMCs.
pub(crate) const BMC_USER: &str = "admin";
/// Its password, which must turn up nowhere.
pub(crate) const BMC_PASSWORD: &str = "swordfish-9Zq";
/// Conductors that a site may have.
const NAMES: [&str; 2] = ["alpha", "beta"];
/// Seconds. A take-over takes one and a half times that.
const LEASE_S: u64 = 3;

pub(crate) struct Site {
    pub(crate) sim: Running,
    pub(crate) images: ImageServer,
    /// The disk image that is deployed.
    pub(crate) disk: Vec<u8>,
    folder: TempDir,
    addresses: [Ipv4Addr; 2],
}

/// What listens where.
pub(crate) struct Places<'a> {
    /// URLs of the image listeners of alpha and beta.
    pub(crate) conductors: [String; 2],
    pub(crate) images: &'a ImageServer,
}

impl Site {
    /// With so many simulated servers, switched off.
    pub(crate) async fn new(servers: usize) -> Self {
        Self::with(servers, |_| ()).await
    }

    /// The same with a simulator of the story's own.
    pub(crate) async fn with(servers: usize, edit: impl FnOnce(&mut SimConfig)) -> Self {
        Self::booting(servers, |config, _| edit(config)).await
    }

    /// The same where the simulator has to know what will listen where: the image listeners of the conductors, and the server
    /// of images.
    pub(crate) async fn booting(servers: usize, edit: impl FnOnce(&mut SimConfig, &Places<'_>)) -> Self {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let folder = tempfile::Builder::new()
            .prefix("farrier-story-")
            .tempdir()
            .expect("a folder");
        let mut config = SimConfig::new(folder.path().join("sim"), BMC_USER, BMC_PASSWORD);
        config.servers = servers;
        config.trace = Some(folder.path().join("bmc-trace.jsonl"));
        config.boot_mode = Some(BootMode::LegacyBios);
        config.disk_bytes = 1 << 20;
        config.timing = Timing {
            post: Duration::from_millis(100),
            shutdown: Duration::from_millis(20),
            heartbeat_cap: Duration::from_millis(500),
            ..Timing::default()
        };
        let addresses = [own_address(), own_address()];
        let images = ImageServer::start().await;
        let places = Places {
            conductors: addresses.map(images_url),
            images: &images,
        };
        edit(&mut config, &places);
        let sim = sim::start(config).await.expect("the simulator starts");
        let mut disk = b"the disk image of a story ".repeat(2521);
        disk.truncate(65_536);
        disk[510..512].copy_from_slice(&[0x55, 0xAA]);
        images.put("disk.img", &disk);
        let site = Self {
            sim,
            images,
            disk,
            folder,
            addresses,
        };
        std::fs::create_dir(site.path("files")).expect("a folder");
        std::fs::create_dir(site.path("data")).expect("a folder");
        // Only the simulator reads them, and it runs none of them.
        for (name, len) in [
            ("vmlinuz", 200_000),
            ("initrd", 300_000),
            ("isolinux.bin", 40_960),
            ("instance-vmlinuz", 100_000),
            ("instance-initrd", 150_000),
        ] {
            let mut content = name.as_bytes().repeat(len / name.len() + 1);
            content.truncate(len);
            std::fs::write(site.path("files").join(name), content).expect("a file");
        }
        site
    }

    /// A path inside the site's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The path of one of the files that servers boot, as text.
    pub(crate) fn file(&self, name: &str) -> String {
        text(&self.path("files").join(name))
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    fn address(&self, conductor: &str) -> Ipv4Addr {
        let place = NAMES.iter().position(|name| *name == conductor);
        self.addresses[place.expect("alpha or beta")]
    }

    pub(crate) fn api_url(&self, conductor: &str) -> String {
        format!("http://{}:6385", self.address(conductor))
    }

    pub(crate) fn images_url(&self, conductor: &str) -> String {
        images_url(self.address(conductor))
    }

    pub(crate) fn agent_url(&self, conductor: &str) -> String {
        format!("http://{}:6387", self.address(conductor))
    }

    /// The site file of a conductor. All share the data folder and so the store.
    pub(crate) fn settings(&self, name: &str) -> Value {
        let address = self.address(name);
        json!({
            "data-dir": text(&self.data()),
            "secret-key-file": text(&self.path("secret.key")),
            "file-url-allowed-paths": [text(&self.path("files"))],
            "api": { "listen": format!("{address}:6385") },
            "agent": {
                "listen": format!("{address}:6387"),
                "urls": NAMES.map(|name| self.agent_url(name)),
                "callback-networks": ["127.0.0.0/8"],
                "require-tls": false,
            },
            "conductor": {
                "name": name,
                "lease-s": LEASE_S,
                "automated-clean": false,
                "power-sync-interval-s": 1,
            },
            "images": {
                "listen": format!("{address}:6386"),
                "external-url": self.images_url(name),
                "deploy-kernel": self.file("vmlinuz"),
                "deploy-ramdisk": self.file("initrd"),
                "isolinux": self.file("isolinux.bin"),
            },
            "security": { "allow-local-addresses": true },
        })
    }

    /// Starts a conductor with the usual settings.
    pub(crate) async fn start(&self, name: &str) -> Conductor {
        self.start_with(&self.settings(name)).await
    }

    /// Starts a conductor with these settings.
    pub(crate) async fn start_with(&self, settings: &Value) -> Conductor {
        match self.try_start(settings).await {
            Ok(conductor) => conductor,
            Err(ended) => panic!("the conductor ended ({}):\n{}", ended.status, ended.log),
        }
    }

    /// A conductor with these settings ends at once; returns what it says.
    pub(crate) async fn refuses_to_start(&self, settings: &Value) -> String {
        match self.try_start(settings).await {
            Ok(_) => panic!("it started"),
            Err(Ended { status, log }) => {
                assert_eq!(status.code(), Some(1), "it ended with {status}: {log}");
                log
            }
        }
    }

    pub(crate) async fn try_start(&self, settings: &Value) -> Result<Conductor, Ended> {
        let listen = settings["api"]["listen"].as_str().unwrap_or_default();
        let home = |name: &&str| self.api_url(name).ends_with(listen);
        let name = NAMES
            .into_iter()
            .find(home)
            .expect("it listens where alpha or beta does");
        let toml = toml::to_string(settings).expect("TOML");
        self.try_start_toml(name, &toml, &[]).await
    }

    /// Starts a conductor at the addresses of alpha or beta with a site file as it is.
    pub(crate) async fn try_start_toml(
        &self,
        name: &str,
        toml: &str,
        environment: &[(&str, &str)],
    ) -> Result<Conductor, Ended> {
        self.launch(name, toml, environment, None).await
    }

    /// The same in a mount namespace of its own; `wrapper` is a shell script that sets it up and starts `"$0" "$@"`.
    pub(crate) async fn try_start_in_namespace(
        &self,
        name: &str,
        toml: &str,
        wrapper: &str,
    ) -> Result<Conductor, Ended> {
        self.launch(name, toml, &[], Some(wrapper)).await
    }

    async fn launch(
        &self,
        name: &str,
        toml: &str,
        environment: &[(&str, &str)],
        wrapper: Option<&str>,
    ) -> Result<Conductor, Ended> {
        let config = self.path(&format!("{name}.toml"));
        std::fs::write(&config, toml).expect("the site file");
        // A log each start: what an earlier run said is not what this one says.
        let run = (1..).map(|run| self.path(&format!("{name}.{run}.log")));
        let log = run.into_iter().find(|log| !log.exists()).expect("a free name");
        Conductor::start(name, self.api_url(name), &config, log, environment, wrapper).await
    }

    /// What is to be sent to make a node of server `index`.
    pub(crate) fn node(&self, index: usize, driver: &str, owner: &str) -> Value {
        let server = self.sim.server(index).expect("such a server");
        let mut instance = json!({
            "image_source": self.images.url("disk.img"),
            "image_disk_format": "raw",
            "image_os_hash_algo": "sha256",
            "image_os_hash_value": sha256(&self.disk),
        });
        if driver == "iscsi_ilo" {
            instance["kernel"] = self.file("instance-vmlinuz").into();
            instance["ramdisk"] = self.file("instance-initrd").into();
        }
        json!({
            "uuid": uuid_at_home_with(owner),
            "name": format!("n{index}"),
            "driver": driver,
            "driver_info": {
                "ilo_address": server.url,
                "ilo_username": BMC_USER,
                "ilo_password": BMC_PASSWORD,
                "ilo_verify_ca": text(self.sim.ca_pem()),
            },
            "instance_info": instance,
            "properties": { "capabilities": "boot_mode:bios" },
        })
    }

    /// Makes a node and its port; returns the node's name.
    pub(crate) async fn enrol(&self, api: &Api, index: usize, node: &Value) -> String {
        let made = api.post("/v1/nodes", node).await.expect("a node");
        let mac = &self.sim.server(index).expect("such a server").mac;
        let port = json!({ "node_uuid": made["uuid"], "address": mac });
        api.post("/v1/ports", &port).await.expect("a port");
        made["name"].as_str().expect("a name").to_owned()
    }

    /// Makes a node and brings it to `available`.
    pub(crate) async fn available(&self, api: &Api, index: usize, driver: &str, owner: &str) -> String {
        let node = self.enrol(api, index, &self.node(index, driver, owner)).await;
        api.bring(&node, "manage", "manageable").await;
        api.bring(&node, "provide", "available").await;
        node
    }

    /// Makes a node and brings it to `active`.
    pub(crate) async fn active(&self, api: &Api, index: usize, driver: &str, owner: &str) -> String {
        let node = self.available(api, index, driver, owner).await;
        api.bring(&node, "active", "active").await;
        node
    }

    /// Makes a node and brings it to `wait call-back`, where its ramdisk runs and does not call in.
    pub(crate) async fn waiting(&self, api: &Api, index: usize, owner: &str) -> String {
        let node = self.available(api, index, "agent_ilo", owner).await;
        self.sim.hold_agent(index, true).expect("such a server");
        api.bring(&node, "active", "wait call-back").await;
        self.ramdisk_runs(index).await;
        node
    }

    /// Waits until a server's ramdisk runs; it has read its floppy then.
    pub(crate) async fn ramdisk_runs(&self, index: usize) {
        wait::until("the ramdisk runs", async || {
            (self.booted(index) == Some(BootOutcome::Agent)).then_some(())
        })
        .await;
    }

    /// What was done to a server so far, in an operator's words; reads and sessions are left out.
    pub(crate) fn done_to(&self, index: usize) -> Vec<String> {
        let trace = self.trace(index);
        trace.iter().filter_map(change).collect()
    }

    pub(crate) fn trace(&self, index: usize) -> Vec<Exchange> {
        self.sim.trace(index).expect("such a server")
    }

    pub(crate) fn inserted(&self, index: usize, device: Device) -> Option<String> {
        self.sim.inserted(index, device).expect("such a server")
    }

    pub(crate) fn is_on(&self, index: usize) -> bool {
        self.sim.power(index).expect("such a server") == PowerState::On
    }

    pub(crate) fn booted(&self, index: usize) -> Option<BootOutcome> {
        let boot = self.sim.last_boot(index).expect("such a server");
        boot.map(|boot| boot.outcome)
    }

    /// The server's disk starts with the image.
    #[track_caller]
    pub(crate) fn assert_deployed(&self, index: usize) {
        assert!(
            self.is_deployed(index),
            "the disk of server {index} does not hold the image"
        );
    }

    pub(crate) fn is_deployed(&self, index: usize) -> bool {
        let server = self.sim.server(index).expect("such a server");
        std::fs::read(&server.disk).expect("its disk").starts_with(&self.disk)
    }

    /// Sessions that are open at a server's BMC.
    pub(crate) async fn sessions(&self, index: usize) -> usize {
        let server = self.sim.server(index).expect("such a server");
        let ca = std::fs::read(&server.ca_pem).expect("the CA");
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([Certificate::from_pem(&ca).expect("a certificate")])
            .build()
            .expect("an HTTP client");
        let url = format!("{}/redfish/v1/SessionService/Sessions", server.url);
        let reply = http.get(url).basic_auth(BMC_USER, Some(BMC_PASSWORD)).send().await;
        let reply: Value = reply.expect("an answer").json().await.expect("JSON");
        reply["Members"].as_array().expect("a collection").len()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.disable_cleanup(true);
            eprintln!("---- the story's folder is kept: {}", self.folder.path().display());
        }
    }
}

fn images_url(address: Ipv4Addr) -> String {
    format!("http://{address}:6386")
}

/// A loopback address that no other story and no other run of the stories has, so that the usual ports are free there.
fn own_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high, low, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A UUID whose node belongs to this conductor while both live.
pub(crate) fn uuid_at_home_with(owner: &str) -> String {
    let names: Vec<ConductorName> = NAMES.iter().filter_map(|name| name.parse().ok()).collect();
    loop {
        let id = NodeId::random();
        if conductor::home(&id, &names).is_some_and(|name| name.as_str() == owner) {
            return id.to_string();
        }
    }
}

/// What a request changed on a server, if anything. A request that was refused is marked.
fn change(exchange: &Exchange) -> Option<String> {
    if exchange.method == "GET" || exchange.path.contains("/SessionService/") {
        return None;
    }
    let body = exchange.body.as_ref().unwrap_or(&Value::Null);
    let slot = |path: &str| {
        if path.contains("/VirtualMedia/1") {
            "floppy"
        } else {
            "cd"
        }
    };
    let value = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let path = exchange.path.as_str();
    let mut said = if path.ends_with("InsertMedia") {
        format!("insert {}", slot(path))
    } else if path.ends_with("EjectMedia") {
        format!("eject {}", slot(path))
    } else if path.ends_with("ComputerSystem.Reset") {
        format!("power {}", value(&body["ResetType"]))
    } else if body.pointer("/Oem/Hpe/BootOnNextServerReset") == Some(&Value::Bool(true)) {
        format!("boot {} at next reset", slot(path))
    } else if let Some(boot) = body.get("Boot") {
        let (target, enabled) = (&boot["BootSourceOverrideTarget"], &boot["BootSourceOverrideEnabled"]);
        format!("boot {} {}", value(target), value(enabled))
    } else {
        format!("{} {path} {body}", exchange.method)
    };
    if exchange.status.is_none_or(|status| status >= 300) {
        said += " (refused)";
    }
    Some(said)
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// The bytes under a URL, all of them.
pub(crate) async fn fetch(url: &str) -> Vec<u8> {
    let reply = reqwest::get(url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    assert!(reply.status().is_success(), "{url}: {}", reply.status());
    reply.bytes().await.expect("the whole body").to_vec()
}

/// The last part of a URL: an artefact's name.
pub(crate) fn last_part(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

/// The agent's token inside a floppy.
pub(crate) fn token_in(floppy: &[u8]) -> String {
    let key = b"ipa-agent-token=";
    let at = floppy.windows(key.len()).position(|window| window == key);
    let rest = &floppy[at.expect("a floppy with a token") + key.len()..];
    let end = rest
        .iter()
        .position(|byte| *byte == b'\n')
        .expect("the end of the line");
    String::from_utf8(rest[..end].to_vec()).expect("a token in ASCII")
}
