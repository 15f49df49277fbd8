//! What the tests share: a node, a context, a runtime over the world in memory, and the guests.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use model::{Driver, Node, NodeId, ProvisionState, Secret, Tenure};
use runtime::{
    CallContext, Candidate, ComponentSource, Engine, Grants, Limits, LoadError, Parameter, PluginConfig, Role, Runtime,
    RuntimeConfig, Value,
};
use serde_json::json;

use crate::world::TestWorld;

pub(crate) fn node(state: ProvisionState) -> Node {
    let id = "00000000-0000-4000-8000-000000000001".parse::<NodeId>().unwrap();
    Node {
        name: Some("n1".parse().unwrap()),
        provision_state: state,
        driver_info: [("ilo_address".to_owned(), json!("192.0.2.1"))].into(),
        facts: [
            ("vendor".to_owned(), "HPE".to_owned()),
            ("bmc.generation".to_owned(), "5".to_owned()),
        ]
        .into(),
        secrets: [("ilo_password".to_owned(), Secret::new("hunter2"))].into(),
        agent: model::AgentContact {
            token: Some(Secret::new("t0ken")),
            ..Default::default()
        },
        ..Node::new(id, Driver::AgentIlo, UNIX_EPOCH)
    }
}

pub(crate) fn context(node: Node) -> Arc<CallContext> {
    let tenure = Tenure {
        conductor: "a".parse().unwrap(),
        term: 1,
    };
    Arc::new(CallContext {
        node,
        tenure,
        by_operator: false,
    })
}

pub(crate) fn by_operator(node: Node) -> Arc<CallContext> {
    Arc::new(CallContext {
        by_operator: true,
        ..Arc::unwrap_or_clone(context(node))
    })
}

pub(crate) fn candidate(id: &str) -> Candidate {
    Candidate {
        id: id.to_owned(),
        kind: "web-root".to_owned(),
        healthy: true,
        free_bytes: None,
        max_lifetime_s: None,
        traits: vec![],
    }
}

pub(crate) fn parameters() -> Vec<Parameter> {
    let plain = |key: &str, value: &str| Parameter {
        key: key.to_owned(),
        value: Value::Plain(value.to_owned()),
    };
    vec![
        plain("ipa-api-url", "http://192.0.2.9:6387"),
        Parameter {
            key: "ipa-agent-token".to_owned(),
            value: Value::Secret("agent-token".to_owned()),
        },
    ]
}

/// A world with one backend, `local`.
pub(crate) fn world() -> TestWorld {
    let world = TestWorld::default();
    world.model().candidates = vec![candidate("local")];
    world
}

pub(crate) async fn built_in(world: &TestWorld) -> Runtime {
    with_plugins(world, vec![]).await.unwrap()
}

pub(crate) async fn with_plugins(world: &TestWorld, plugins: Vec<PluginConfig>) -> Result<Runtime, LoadError> {
    let config = RuntimeConfig {
        plugins,
        site_facts: [("callback-timeout-s".to_owned(), "1800".to_owned())].into(),
        ..RuntimeConfig::default()
    };
    Runtime::new(engine(), config, Arc::new(world.clone()), Arc::new(world.clone())).await
}

/// One for all tests: each component is compiled once.
pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(32).unwrap())
}

/// The hostile guest, told what to do.
pub(crate) fn hostile(what: &str) -> PluginConfig {
    PluginConfig {
        role: Role::Vmedia,
        component: ComponentSource::File(guests().join("hostile.wasm")),
        digest: None,
        matches: [].into(),
        grant: None,
        limits: Limits::default(),
        settings: json!({ "do": what }),
    }
}

pub(crate) fn grants(json: &str) -> Option<Grants> {
    Some(serde_json::from_str(json).unwrap())
}

/// Builds the guests that are no part of the host, by the command that a plugin's author uses, once.
pub(crate) fn guests() -> PathBuf {
    static GUESTS: OnceLock<PathBuf> = OnceLock::new();
    GUESTS
        .get_or_init(|| {
            let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
                .join("../..")
                .canonicalize()
                .unwrap();
            let mut build = Command::new("cargo");
            build
                .current_dir(&workspace)
                .args([
                    "build",
                    "--quiet",
                    "-p",
                    "hostile",
                    "-p",
                    "vendor-probe",
                    "-p",
                    "vmedia-boot-once",
                ])
                .args(["--profile", "guest", "--target", "wasm32-unknown-unknown"])
                .env("RUSTFLAGS", "-C linker=wasm-component-ld");
            for name in ["CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
                build.env_remove(name);
            }
            // Beside the built-in guests, so that nothing waits for the lock of the outer build.
            let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../guests");
            build.arg("--target-dir").arg(&target);
            assert!(
                build.status().expect("cargo is on the path").success(),
                "the guests do not compile"
            );
            target.join("wasm32-unknown-unknown/guest")
        })
        .clone()
}
