//! One API over a store in a temporary folder, and a client that takes every answer apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use agent::CallbackPolicy;
use api::{AgentPolicy, ApiState, Auth, Site, agent_router, router};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use model::Node;
use nodes::{NodeRef, Record, Sealer, SqliteStore, Writer};
use serde_json::{Value, json};
use tower::ServiceExt;

pub(crate) struct Lab {
    pub(crate) state: ApiState,
    pub(crate) wakes: Arc<AtomicUsize>,
    _folder: tempfile::TempDir,
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// The fault's text, taken out as python-ironicclient does it.
    pub(crate) fn fault(&self) -> String {
        let outer = self.json();
        let inner = outer["error_message"].as_str().expect("text inside JSON");
        let inner: Value = serde_json::from_str(inner).unwrap();
        inner["faultstring"].as_str().unwrap().to_owned()
    }
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(Auth::None)
    }

    pub(crate) fn with(auth: Auth) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sealer = Sealer::from_file(&folder.path().join("key")).unwrap();
        let store = SqliteStore::open(&folder.path().join("store.db"), sealer).unwrap();
        let policy = CallbackPolicy {
            require_tls: true,
            networks: vec!["192.0.2.0/24".parse().unwrap()],
        };
        let wakes = Arc::new(AtomicUsize::new(0));
        let counter = wakes.clone();
        let state = ApiState {
            store: Arc::new(store),
            wake: Arc::new(move |_| {
                counter.fetch_add(1, Ordering::SeqCst);
            }),
            embedded: None,
            plugins: None,
            auth,
            agent: AgentPolicy {
                accept: Arc::new(move |node, beat, now| conductor::heartbeat::accept(node, beat, &policy, now)),
                heartbeat_timeout: Duration::from_secs(300),
            },
            site: Site {
                has_deploy_ramdisk: true,
                ..Site::default()
            },
            pack_config_drive: Arc::new(|node, parts| match parts.user_data.as_deref() {
                Some("too much") => Err("it is too big".to_owned()),
                _ => Ok(model::Secret::new(format!(
                    "packedFor{}",
                    node.id.to_string().replace('-', "")
                ))),
            }),
            check_boot: Arc::new(|node| match node.boot_mode {
                Some(model::BootMode::Uefi) => Err("node boots UEFI, and [images] esp is not set".to_owned()),
                _ => Ok(()),
            }),
            ready: Arc::new(AtomicBool::new(true)),
        };
        Self {
            state,
            wakes,
            _folder: folder,
        }
    }

    pub(crate) async fn send(router: Router, request: Request<Body>) -> Reply {
        let response = router.oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 16 << 20).await.unwrap();
        Reply {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: Value) -> Reply {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "farrier.test:6385")
            .header("content-type", "application/json");
        let body = match body {
            Value::Null => Body::empty(),
            body => Body::from(body.to_string()),
        };
        Self::send(router(self.state.clone()), request.body(body).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, Value::Null).await
    }

    /// The same from the agents' listener.
    pub(crate) async fn agent(&self, method: &str, path: &str, body: Value) -> Reply {
        let request = Request::builder().method(method).uri(path);
        let body = Body::from(body.to_string());
        Self::send(agent_router(self.state.clone()), request.body(body).unwrap()).await
    }

    /// A node that could be deployed, by the calls that `openstack baremetal node create` and `port create` make.
    pub(crate) async fn enroll(&self, name: &str) -> String {
        let body = json!({
            "name": name,
            "driver": "agent_ilo",
            "driver_info": {
                "ilo_address": "https://192.0.2.10", "ilo_username": "admin", "ilo_password": "hunter2",
            },
            "instance_info": {
                "image_source": "http://192.0.2.1/disk.raw",
                "image_os_hash_algo": "sha256", "image_os_hash_value": "ab".repeat(32),
            },
            "properties": { "cpu_arch": "x86_64" },
        });
        let reply = self.call("POST", "/v1/nodes", body).await;
        assert_eq!(reply.status, StatusCode::CREATED, "{}", reply.text);
        reply.json()["uuid"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn record(&self, name: &str) -> Record {
        let node = NodeRef::Name(name.parse().unwrap());
        self.state.store.node(&node).await.unwrap().unwrap()
    }

    /// What a conductor would write.
    pub(crate) async fn write(&self, name: &str, change: impl Fn(&mut Node)) {
        let mut record = self.record(name).await;
        change(&mut record.node);
        self.state.store.update_node(&record, &Writer::User).await.unwrap();
    }

    pub(crate) fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }
}
