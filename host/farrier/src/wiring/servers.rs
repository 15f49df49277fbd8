//! A BMC client for each node: made from its `driver_info`, kept while that stays the same, fenced by this conductor's lease.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bmc::probe::Transport;
use bmc::{Bmc, BmcConfig, BmcError, Ca, Deadlines, Fence, ProbedBmc, Protocols, Tls};
use model::{BmcAddress, Node, NodeId, Secret, Tenure};
use nodes::Store;
use serde_json::Value;
use settings::BmcTrust;

use super::owned_bmc::OwnedBmc;

/// All BMC clients of this conductor.
pub(super) struct Servers {
    fence: Arc<dyn Fence>,
    store: Arc<dyn Store>,
    /// For nodes that say nothing.
    defaults: settings::Bmc,
    clients: Mutex<HashMap<NodeId, Kept>>,
}

struct Kept {
    access: Access,
    /// Of the tenure that it was made in.
    term: u64,
    bmc: Arc<OwnedBmc>,
}

/// Everything in a node's record that decides how its BMC is reached.
#[derive(Clone, PartialEq)]
struct Access {
    address: String,
    user: String,
    password: Secret,
    ca: Trust,
    protocols: Protocols,
    /// What the BMC is spoken to by, where that is not to be found out.
    transport: Option<Transport>,
    timeout: Option<Duration>,
}

#[derive(Clone, PartialEq)]
enum Trust {
    System,
    File(String),
    Nobody,
}

impl Servers {
    pub(super) fn new(fence: Arc<dyn Fence>, store: Arc<dyn Store>) -> Self {
        Self {
            fence,
            store,
            defaults: settings::Bmc {
                port: None,
                timeout: None,
                trust: BmcTrust::System,
            },
            clients: Mutex::default(),
        }
    }

    /// The same, with what the site says of BMCs whose nodes say nothing.
    pub(super) fn with_defaults(self, defaults: settings::Bmc) -> Self {
        Self { defaults, ..self }
    }

    /// The client of a node. A changed password or address makes a new one, and so does each new tenure: while somebody else
    /// held the node, the session on record became theirs, and only a new client ends it.
    pub(super) fn of(&self, node: &Node, tenure: &Tenure) -> Result<Arc<dyn Bmc>, BmcError> {
        let access = Access::of(node, &self.defaults)?;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = clients.get(&node.id)
            && kept.access == access
            && kept.term >= tenure.term
        {
            return Ok(Arc::clone(&kept.bmc) as Arc<dyn Bmc>);
        }
        let client = ProbedBmc::new(access.config(Arc::clone(&self.fence)), access.transport)?;
        let bmc = Arc::new(OwnedBmc::new(
            node.id,
            access.address.clone(),
            client,
            Arc::clone(&self.store),
        ));
        // A BMC has few sessions. Who used this one before is gone: an earlier client of this node, or the client of a node
        // that was deleted and is enrolled again.
        let before = clients.extract_if(|id, kept| *id == node.id || kept.access.address == access.address);
        for (_, kept) in before {
            tokio::spawn(async move { kept.bmc.end_session().await });
        }
        clients.insert(
            node.id,
            Kept {
                access,
                term: tenure.term,
                bmc: Arc::clone(&bmc),
            },
        );
        Ok(bmc)
    }

    /// Ends every session.
    pub(super) async fn close(&self) {
        let clients: Vec<Kept> = {
            let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            clients.drain().map(|(_, kept)| kept).collect()
        };
        for kept in clients {
            kept.bmc.close().await;
        }
    }
}

impl Access {
    fn of(node: &Node, defaults: &settings::Bmc) -> Result<Self, BmcError> {
        let text = |key: &str| match node.driver_info.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let wrong = |reason: &str| BmcError::Settings {
            address: BmcAddress(text("ilo_address").unwrap_or_else(|| "(none)".to_owned())),
            reason: reason.to_owned(),
        };
        let missing = |key: &str| wrong(&format!("driver_info/{key} is missing: set it on the node"));
        let address = text("ilo_address").ok_or_else(|| missing("ilo_address"))?;
        let port = text("client_port").or_else(|| defaults.port.map(|port| port.to_string()));
        let address = match port {
            _ if address.contains("://") => address,
            Some(port) => format!("https://{}:{port}", bracketed(&address)),
            None => format!("https://{}", bracketed(&address)),
        };
        let ca = match node
            .driver_info
            .get("ilo_verify_ca")
            .or_else(|| node.driver_info.get("ca_file"))
        {
            None => match &defaults.trust {
                BmcTrust::System => Trust::System,
                BmcTrust::File(file) => Trust::File(file.to_string_lossy().into_owned()),
                BmcTrust::Anything => Trust::Nobody,
            },
            Some(Value::Bool(true)) => Trust::System,
            Some(Value::Bool(false)) => Trust::Nobody,
            Some(Value::String(word)) => match word.to_ascii_lowercase().as_str() {
                "true" | "yes" | "1" => Trust::System,
                "false" | "no" | "0" => Trust::Nobody,
                _ => Trust::File(word.clone()),
            },
            Some(_) => {
                return Err(wrong(
                    "driver_info/ilo_verify_ca is true, false or a file of PEM certificates",
                ));
            }
        };
        let protocols = match text("bmc_tls").as_deref() {
            None | Some("modern") => Protocols::Modern,
            Some("legacy") => Protocols::Legacy,
            Some(_) => {
                return Err(wrong(
                    "driver_info/bmc_tls is modern or legacy (iLO 2, iLO 3, early iLO 4)",
                ));
            }
        };
        let transport = match text("bmc_transport").as_deref() {
            None | Some("auto") => None,
            Some(name) => Some(
                Transport::by_name(name)
                    .ok_or_else(|| wrong("driver_info/bmc_transport is auto, redfish, ris, ribcl or ribcl-raw"))?,
            ),
        };
        let timeout = match text("client_timeout") {
            None => defaults.timeout,
            Some(text) => match text.parse() {
                Ok(seconds) if seconds > 0 => Some(Duration::from_secs(seconds)),
                _ => return Err(wrong("driver_info/client_timeout is a number of seconds above 0")),
            },
        };
        Ok(Self {
            address,
            user: text("ilo_username").ok_or_else(|| missing("ilo_username"))?,
            password: node
                .secrets
                .get("ilo_password")
                .cloned()
                .ok_or_else(|| missing("ilo_password"))?,
            ca,
            protocols,
            transport,
            timeout,
        })
    }

    fn config(&self, fence: Arc<dyn Fence>) -> BmcConfig {
        let mut config = BmcConfig::new(
            BmcAddress(self.address.clone()),
            self.user.clone(),
            self.password.clone(),
        );
        config.fence = fence;
        config.protocols = self.protocols;
        config.tls = match &self.ca {
            Trust::System => Tls::Verify { ca: None },
            Trust::File(path) => Tls::Verify {
                ca: Some(Ca::File(path.into())),
            },
            Trust::Nobody => Tls::Insecure,
        };
        if let Some(request) = self.timeout {
            config.deadlines = Deadlines {
                request,
                ..Deadlines::default()
            };
        }
        config
    }
}

/// An IPv6 literal in brackets; anything else as it is.
fn bracketed(host: &str) -> String {
    match host.parse::<std::net::Ipv6Addr>() {
        Ok(address) => format!("[{address}]"),
        Err(_) => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use bmc::Unfenced;
    use model::{Driver, PowerState};
    use nodes::{Sealer, SqliteStore};

    use super::*;

    const USER: &str = "admin";
    const PASSWORD: &str = "password";

    struct Lab {
        sim: sim::Running,
        store: Arc<dyn Store>,
        _folder: tempfile::TempDir,
    }

    impl Lab {
        async fn new() -> Self {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let folder = tempfile::tempdir().unwrap();
            let mut config = sim::SimConfig::new(folder.path().join("sim"), USER, PASSWORD);
            config.servers = 2;
            let sealer = Sealer::from_file(&folder.path().join("key")).unwrap();
            Self {
                sim: sim::start(config).await.unwrap(),
                store: Arc::new(SqliteStore::open(&folder.path().join("store.db"), sealer).unwrap()),
                _folder: folder,
            }
        }

        fn conductor(&self) -> Servers {
            Servers::new(Arc::new(Unfenced), Arc::clone(&self.store))
        }

        async fn node(&self) -> Node {
            let mut node = Node::new(NodeId::random(), Driver::AgentIlo, SystemTime::now());
            let address = self.sim.server(0).unwrap().url.as_str();
            let ca = self.sim.ca_pem().to_str().unwrap();
            for (key, value) in [("ilo_address", address), ("ilo_username", USER), ("ilo_verify_ca", ca)] {
                node.driver_info.insert(key.to_owned(), value.into());
            }
            node.secrets.insert("ilo_password".to_owned(), Secret::new(PASSWORD));
            self.store.create_node(&node, &[]).await.unwrap();
            node
        }

        /// The conductor looks at the server.
        async fn look(&self, conductor: &Servers, node: &Node, term: u64) {
            let tenure = Tenure {
                conductor: "alpha".parse().unwrap(),
                term,
            };
            let power = conductor.of(node, &tenure).unwrap().power_state().await;
            assert_eq!(power.unwrap(), PowerState::Off);
        }

        async fn sessions_become(&self, wanted: usize) {
            let start = std::time::Instant::now();
            loop {
                let open = self.sim.sessions(0).unwrap();
                if open == wanted {
                    return;
                }
                let patient = start.elapsed() < Duration::from_secs(10);
                assert!(patient, "{open} sessions are open, not {wanted}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    #[tokio::test]
    async fn each_change_of_hands_ends_the_session_of_whoever_had_the_node_however_often() {
        let lab = Lab::new().await;
        let node = lab.node().await;
        let (alpha, beta) = (lab.conductor(), lab.conductor());
        for term in 1..=6 {
            let holder = if term % 2 == 0 { &beta } else { &alpha };
            lab.look(holder, &node, term).await;
            lab.look(holder, &node, term).await;
            lab.sessions_become(1).await;
        }
        // A straggler of an earlier tenure does not bring it back.
        lab.look(&beta, &node, 4).await;
        lab.sessions_become(1).await;
        beta.close().await;
        lab.sessions_become(0).await;
    }

    #[tokio::test]
    async fn a_session_on_record_is_ended_where_it_was_opened_and_nowhere_else() {
        let lab = Lab::new().await;
        let mut node = lab.node().await;
        lab.look(&lab.conductor(), &node, 1).await;
        let moved = lab.sim.server(1).unwrap().url.clone();
        node.driver_info.insert("ilo_address".to_owned(), moved.into());
        lab.look(&lab.conductor(), &node, 2).await;
        let asked = lab.sim.trace(1).unwrap();
        let deleted = asked.iter().filter(|exchange| exchange.method == "DELETE");
        assert_eq!(deleted.count(), 0, "{asked:?}");
        // Whoever comes next ends what is open there now.
        lab.look(&lab.conductor(), &node, 3).await;
        let asked = lab.sim.trace(1).unwrap();
        assert!(asked.iter().any(|exchange| exchange.method == "DELETE"), "{asked:?}");
    }

    #[test]
    fn a_node_may_say_how_old_its_bmcs_tls_is_and_what_it_speaks() {
        let node = |key: &str, value: &str| {
            let mut node = Node::new(NodeId::random(), Driver::AgentIlo, SystemTime::now());
            for (key, value) in [("ilo_address", "10.0.0.1"), ("ilo_username", USER), (key, value)] {
                node.driver_info.insert(key.to_owned(), value.into());
            }
            node.secrets.insert("ilo_password".to_owned(), Secret::new(PASSWORD));
            let defaults = settings::Bmc {
                port: None,
                timeout: None,
                trust: BmcTrust::System,
            };
            Access::of(&node, &defaults)
        };
        let plain = node("unrelated", "x").unwrap();
        assert_eq!((plain.protocols, plain.transport), (Protocols::Modern, None));
        assert_eq!(node("bmc_tls", "legacy").unwrap().protocols, Protocols::Legacy);
        assert_eq!(
            node("bmc_transport", "ribcl-raw").unwrap().transport,
            Some(Transport::RibclRaw)
        );
        assert_eq!(node("bmc_transport", "auto").unwrap().transport, None);
        for key in ["bmc_tls", "bmc_transport"] {
            let error = node(key, "ssl3").err().unwrap();
            assert!(error.to_string().contains(key), "{error}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_enrolled_again_and_again_holds_one_session() {
        let lab = Lab::new().await;
        let alpha = lab.conductor();
        for _ in 0..4 {
            let node = lab.node().await;
            lab.look(&alpha, &node, 1).await;
            lab.sessions_become(1).await;
        }
    }
}
