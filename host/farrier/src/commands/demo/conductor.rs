//! A `farrier serve` of the demo: its settings, its process, its end.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};
use url::Url;

use crate::client::Client;

/// Boot files as the site's settings name them.
pub(super) struct BootFiles {
    pub(super) kernel: PathBuf,
    pub(super) ramdisk: PathBuf,
    pub(super) isolinux: PathBuf,
    pub(super) esp: Option<PathBuf>,
}

/// Ports of one conductor on loopback.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    api: u16,
    agent: u16,
    images: u16,
}

impl Ports {
    /// Three that are free now.
    pub(super) fn free() -> Result<Self> {
        // Held together until all three are known, so that they differ.
        let held: Vec<TcpListener> = (0..3)
            .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port"))
            .collect::<Result<_>>()?;
        let port = |index: usize| held[index].local_addr().map(|address| address.port());
        Ok(Self {
            api: port(0)?,
            agent: port(1)?,
            images: port(2)?,
        })
    }
}

/// One running conductor.
pub(super) struct Conductor {
    pub(super) name: String,
    pub(super) client: Arc<Client>,
    child: Child,
    log: PathBuf,
}

impl Conductor {
    /// Writes its settings, starts it and waits until it is ready.
    pub(super) async fn start(name: &str, ports: Ports, site: &[Ports], data: &Path, boot: &BootFiles) -> Result<Self> {
        let config = data.join(format!("{name}.toml"));
        std::fs::write(&config, settings(name, ports, site, data, boot))
            .with_context(|| format!("could not write {}", config.display()))?;
        let log = data.join(format!("{name}.log"));
        let output = std::fs::File::create(&log)?;
        let program = std::env::current_exe().context("could not find this program's own file")?;
        let child = Command::new(program)
            .args(["serve", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .context("could not start a conductor")?;
        let client = Arc::new(Client::local(Url::parse(&format!("http://127.0.0.1:{}", ports.api))?)?);
        let mut conductor = Self {
            name: name.to_owned(),
            client,
            child,
            log,
        };
        conductor.wait_until_ready().await?;
        Ok(conductor)
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        while self.client.get("/v1/conductors").await.is_err() {
            if let Some(status) = self.child.try_wait()? {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                bail!("conductor {} ended ({status}) before it was ready:\n{log}", self.name);
            }
            if start.elapsed() > Duration::from_secs(30) {
                bail!(
                    "conductor {} is not ready after 30 s; see {}",
                    self.name,
                    self.log.display()
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// SIGKILL: it has no chance to say good-bye.
    pub(super) async fn kill(&mut self) -> Result<()> {
        self.child
            .kill()
            .await
            .with_context(|| format!("could not kill conductor {}", self.name))
    }
}

/// The settings file. Both conductors share the data folder and so the store; they differ in name and ports.
fn settings(name: &str, ports: Ports, site: &[Ports], data: &Path, boot: &BootFiles) -> String {
    let quoted = |text: &str| toml_string(text);
    let path = |path: &Path| toml_string(&path.to_string_lossy());
    // A simulated server sees this host at 10.0.2.2, as under QEMU's user network.
    let agent_urls: Vec<String> = site
        .iter()
        .map(|ports| quoted(&format!("http://10.0.2.2:{}", ports.agent)))
        .collect();
    let esp = boot
        .esp
        .as_deref()
        .map_or_else(String::new, |esp| format!("esp = {}\n", path(esp)));
    let folders: std::collections::BTreeSet<&Path> = [&boot.kernel, &boot.ramdisk]
        .iter()
        .filter_map(|file| file.parent())
        .collect();
    let folders: Vec<String> = folders.into_iter().map(path).collect();
    format!(
        r#"data-dir = {data}
secret-key-file = {key}
file-url-allowed-paths = [{folders}]

[api]
listen = "127.0.0.1:{api}"

[agent]
listen = "127.0.0.1:{agent}"
urls = [{urls}]
callback-networks = ["127.0.0.0/8"]
require-tls = false

[conductor]
name = {name}
lease-s = 4

[images]
listen = "127.0.0.1:{images}"
external-url = "http://127.0.0.1:{images}"
deploy-kernel = {kernel}
deploy-ramdisk = {ramdisk}
isolinux = {isolinux}
{esp}kernel-append-params = "console=ttyS0,115200"

[security]
allow-local-addresses = true
"#,
        data = path(data),
        key = path(&data.join("secret.key")),
        folders = folders.join(", "),
        api = ports.api,
        agent = ports.agent,
        urls = agent_urls.join(", "),
        name = quoted(name),
        images = ports.images,
        kernel = path(&boot.kernel),
        ramdisk = path(&boot.ramdisk),
        isolinux = path(&boot.isolinux),
    )
}

/// A TOML basic string (TOML 1.0, "String").
fn toml_string(text: &str) -> String {
    toml::Value::from(text).to_string()
}
