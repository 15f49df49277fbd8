//! Simulated servers and clients of them.

use std::time::{Duration, Instant};

use bmc::{BmcConfig, Ca, Deadlines, InsertMedia, ProbedBmc, Protocols, Tls};
use model::{BmcAddress, Secret};
use sim::{Exchange, Faults, Profile, Running, SimConfig};
use tempfile::TempDir;

pub(crate) const USER: &str = "operator-7";
/// With all that XML and JSON would have escaped.
pub(crate) const PASSWORD: &str = "Hunter2-\"&<'x>";
pub(crate) const URL: &str = "http://127.0.0.1:9/v/t0k3n-of-the-image/x.iso";

/// Longer than any wait that a test means.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Lab {
    pub(crate) running: Running,
    pub(crate) folder: TempDir,
    profile: &'static Profile,
}

pub(crate) async fn lab(profile: &str, change: impl FnOnce(&mut SimConfig)) -> Lab {
    // The simulator fetches media with the process's TLS provider.
    drop(rustls::crypto::ring::default_provider().install_default());
    let folder = TempDir::new().unwrap();
    let mut config = SimConfig::new(folder.path(), USER, PASSWORD);
    config.profile = Profile::by_name(profile).unwrap();
    config.disk_bytes = 4096;
    config.timing.post = Duration::from_millis(50);
    config.timing.bmc_reset = Duration::from_millis(50);
    config.trace = Some(folder.path().join("trace.jsonl"));
    change(&mut config);
    let profile = config.profile;
    Lab {
        running: sim::start(config).await.unwrap(),
        folder,
        profile,
    }
}

/// One server with these fault rules.
pub(crate) async fn faulty(profile: &str, rules: &str) -> Lab {
    let faults = Faults::parse(rules).unwrap();
    lab(profile, |config| config.faults = faults).await
}

impl Lab {
    pub(crate) fn config(&self, server: usize) -> BmcConfig {
        let address = BmcAddress(self.running.server(server).unwrap().url.clone());
        BmcConfig {
            tls: Tls::Verify {
                ca: Some(Ca::File(self.running.ca_pem().to_owned())),
            },
            protocols: match self.profile.name.as_str() {
                "ilo2" | "ilo3" => Protocols::Legacy,
                _ => Protocols::Modern,
            },
            deadlines: quick(),
            ..BmcConfig::new(address, USER, Secret::new(PASSWORD))
        }
    }

    pub(crate) fn client(&self) -> ProbedBmc {
        ProbedBmc::new(self.config(0), None).unwrap()
    }

    pub(crate) fn trace(&self) -> Vec<Exchange> {
        self.running.trace(0).unwrap()
    }

    /// What was asked of the BMC that changes something, but for logins: `METHOD last-part-of-the-path`, or RIBCL's commands.
    pub(crate) fn changes(&self) -> Vec<String> {
        let changes = self.trace().into_iter().filter_map(|exchange| change(&exchange));
        changes.collect()
    }

    /// Waits until no session is open.
    pub(crate) async fn no_session(&self, server: usize, case: &str) {
        let start = Instant::now();
        while self.running.sessions(server).unwrap() > 0 {
            assert!(
                start.elapsed() < PATIENCE,
                "{case}: a session of server {server} is left open"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn change(exchange: &Exchange) -> Option<String> {
    if exchange.path.starts_with("/ribcl") {
        let command = exchange.body.as_ref()?.as_str()?;
        return (!command.starts_with("<GET_") && command.starts_with('<')).then(|| command.to_owned());
    }
    if exchange.method == "GET" || exchange.path.contains("/Sessions") {
        return None;
    }
    let part = exchange.path.trim_end_matches('/').rsplit('/').next()?;
    Some(format!("{} {part}", exchange.method))
}

/// Short enough for a test, long enough for a busy machine.
pub(crate) fn quick() -> Deadlines {
    Deadlines {
        connect: Duration::from_secs(10),
        request: Duration::from_secs(20),
        verb: Duration::from_secs(50),
        settle: Duration::from_secs(5),
        poll: Duration::from_millis(10),
        pause: Duration::from_millis(10),
        quiet: Duration::from_millis(300),
        rest: Duration::ZERO,
        least_window: Duration::from_millis(50),
    }
}

pub(crate) fn image(url: &str) -> InsertMedia {
    InsertMedia {
        url: Secret::new(url),
        boot_once: false,
        server_certificate: None,
    }
}
