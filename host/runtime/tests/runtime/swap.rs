//! Another version takes over while calls run, and goes again when it fails.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use model::{Digest, ProvisionState};
use runtime::manifest::{self, Format, Manifest, Scenario};
use runtime::{
    ComponentSource, DriverError, Gate, Grants, LoadError, PluginConfig, Role, RollbackRule, Runtime, RuntimeConfig,
    SeenFiles, SwapError, Trial,
};

use crate::contract::dummy;
use crate::support::{context, engine, guests, hostile, node, world};
use crate::world::TestWorld;

/// The hostile guest with a manifest, so that each version has bytes of its own.
fn version(number: &str, change: impl FnOnce(&mut Manifest)) -> Arc<[u8]> {
    let component = std::fs::read(guests().join("hostile.wasm")).unwrap();
    let mut manifest = Manifest {
        format: Format,
        id: "acme.media".to_owned(),
        version: number.to_owned(),
        role: Role::Vmedia,
        description: None,
        required: Grants::default(),
        optional: Grants::default_of(Role::Vmedia),
        scenarios: vec![],
    };
    change(&mut manifest);
    manifest::write(&component, &manifest).unwrap().into()
}

fn plain(number: &str) -> Arc<[u8]> {
    version(number, |_| {})
}

fn bytes(bytes: &Arc<[u8]>) -> ComponentSource {
    ComponentSource::Bytes {
        name: "test.wasm".to_owned(),
        bytes: Arc::clone(bytes),
    }
}

fn plugin(component: ComponentSource, what: &str) -> PluginConfig {
    PluginConfig {
        component,
        ..hostile(what)
    }
}

async fn runtime(world: &TestWorld, config: RuntimeConfig) -> Result<Runtime, LoadError> {
    Runtime::new(engine(), config, Arc::new(world.clone()), Arc::new(world.clone())).await
}

async fn with(world: &TestWorld, plugin: PluginConfig) -> Runtime {
    let config = RuntimeConfig {
        plugins: vec![plugin],
        ..RuntimeConfig::default()
    };
    runtime(world, config).await.unwrap()
}

fn active(runtime: &Runtime) -> (Digest, String) {
    let info = runtime
        .plugins()
        .into_iter()
        .find(|plugin| plugin.entry == "acme.media")
        .unwrap();
    (info.digest, info.version.unwrap())
}

fn message(error: &SwapError) -> String {
    let first: &dyn std::error::Error = error;
    let causes = std::iter::successors(Some(first), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_swap_under_a_hundred_calls_loses_none_and_mixes_none() {
    let world = world();
    world.model().delays.insert("bmc.eject", Duration::from_millis(150));
    let runtime = with(&world, plugin(bytes(&plain("1.0.0")), "eject-twice")).await;
    let (old, _) = active(&runtime);
    // Manageable: no node keeps a version, so what is seen is the switch itself.
    let call = |runtime: Runtime| {
        tokio::spawn(async move {
            let context = context(node(ProvisionState::Manageable));
            runtime.prepare_ramdisk(&context, &[]).await
        })
    };
    let mut calls: Vec<_> = (0..100).map(|_| call(runtime.clone())).collect();
    let bound = Instant::now() + Duration::from_secs(60);
    while world.model().asked.is_empty() {
        assert!(Instant::now() < bound, "no call began");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let change = runtime
        .swap(None, "acme.media", bytes(&plain("2.0.0")), false)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((change.from.digest, change.automatic), (old, false));
    calls.extend((0..100).map(|_| call(runtime.clone())));
    let mut seen = Vec::new();
    for call in calls {
        let called = call.await.unwrap();
        called.result.unwrap();
        seen.push(called.report.digest);
    }
    assert_eq!(seen.len(), 200, "none is lost");
    let of = |digest| seen.iter().filter(|seen| **seen == digest).count();
    assert!(of(old) > 0, "those under way kept the old one");
    assert!(of(change.to.digest) >= 100, "those that began later have the new one");
    assert_eq!(of(old) + of(change.to.digest), 200);
    assert_eq!(
        world.asked().matches("bmc.eject").count(),
        400,
        "each did all of it, once"
    );
    assert_eq!(active(&runtime), (change.to.digest, "2.0.0".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_keeps_the_version_with_which_it_began_until_it_is_active() {
    let world = world();
    let runtime = with(&world, plugin(bytes(&plain("1.0.0")), "nothing")).await;
    let (old, _) = active(&runtime);
    let call = async |state| {
        let called = runtime.clean_up_ramdisk(&context(node(state))).await;
        called.result.unwrap();
        called.report.digest
    };
    assert_eq!(call(ProvisionState::Deploying).await, old);
    runtime
        .swap(None, "acme.media", bytes(&plain("2.0.0")), false)
        .await
        .unwrap();
    let (new, _) = active(&runtime);
    assert_eq!(call(ProvisionState::DeployWait).await, old);
    let explained = runtime.explain(&node(ProvisionState::DeployWait));
    let decides = explained[1].decides.as_ref().unwrap();
    assert_eq!(
        (decides.digest, decides.pinned, decides.version.as_deref()),
        (old, true, Some("1.0.0"))
    );
    assert_eq!(call(ProvisionState::Active).await, new);
    assert_eq!(call(ProvisionState::Deleting).await, new);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_version_rolls_back_by_itself_and_says_why() {
    let world = world();
    let config = RuntimeConfig {
        plugins: vec![plugin(bytes(&plain("1.0.0")), "nothing")],
        rollback: RollbackRule {
            failures: 3,
            window: Duration::from_secs(600),
        },
        ..RuntimeConfig::default()
    };
    let runtime = runtime(&world, config).await.unwrap();
    let (good, _) = active(&runtime);
    let deploying = context(node(ProvisionState::Deploying));
    runtime.clean_up_ramdisk(&deploying).await.result.unwrap();
    let bad = trapping("2.0.0");
    runtime.swap(None, "acme.media", bytes(&bad), false).await.unwrap();
    let (bad_digest, _) = active(&runtime);
    let other = |number: u8| {
        let mut other = node(ProvisionState::Deploying);
        other.id = format!("00000000-0000-4000-8000-0000000000{number:02}")
            .parse()
            .unwrap();
        context(other)
    };
    for number in 10..13 {
        assert_eq!(active(&runtime).0, bad_digest, "a failure or two are borne");
        let called = runtime.clean_up_ramdisk(&other(number)).await;
        assert!(called.result.is_err());
        assert_eq!(called.report.digest, bad_digest);
    }
    assert_eq!(active(&runtime).0, good);
    let change = world.model().changes.last().cloned().unwrap();
    assert!(change.automatic && change.from.digest == bad_digest && change.to.digest == good);
    for word in ["3 times within 600 s", "clean-up-ramdisk", "it trapped"] {
        assert!(change.why.contains(word), "{}", change.why);
    }
    // A node that began with the bad one has it no more.
    let called = runtime.clean_up_ramdisk(&other(10)).await;
    called.result.unwrap();
    assert_eq!(called.report.digest, good);
    let refused = runtime.swap(None, "acme.media", bytes(&bad), false).await.unwrap_err();
    assert!(matches!(&refused, SwapError::Quarantined { .. }));
    assert!(message(&refused).contains("use --again"), "{refused}");
    assert!(
        runtime
            .swap(None, "acme.media", bytes(&bad), true)
            .await
            .unwrap()
            .is_some()
    );
    let back = runtime
        .roll_back(None, "acme.media", "an operator asked")
        .await
        .unwrap();
    assert_eq!((back.to.digest, back.automatic), (good, false));
    let none = runtime.roll_back(None, "acme.media", "again").await.unwrap_err();
    assert!(matches!(none, SwapError::NoGoodVersion { .. }));
}

/// A version every function of which traps.
fn trapping(number: &str) -> Arc<[u8]> {
    let manifest = manifest::read(&plain(number)).unwrap().unwrap();
    manifest::write(&dummy("vmedia-plugin"), &manifest).unwrap().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn typed_errors_and_waits_on_the_host_are_no_failures() {
    for what in ["answer", "sleep"] {
        let world = world();
        let mut first = plugin(bytes(&plain("1.0.0")), what);
        first.limits.wall = Duration::from_millis(300);
        let runtime = with(&world, first).await;
        runtime
            .swap(None, "acme.media", bytes(&plain("2.0.0")), false)
            .await
            .unwrap();
        let (new, _) = active(&runtime);
        for _ in 0..5 {
            let called = runtime
                .clean_up_ramdisk(&context(node(ProvisionState::Manageable)))
                .await;
            assert!(called.result.is_err());
        }
        assert_eq!(active(&runtime).0, new, "{what}");
    }
}

struct Refuses;

#[async_trait]
impl Gate for Refuses {
    async fn check(&self, trial: &Trial) -> Result<(), String> {
        let scenarios = trial.manifest.as_ref().map_or(0, |manifest| manifest.scenarios.len());
        match scenarios {
            0 => Ok(()),
            _ => Err(format!(
                "{} does not pass",
                trial.manifest.as_ref().unwrap().scenarios[0].name
            )),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_does_not_pass_is_not_swapped_in() {
    let world = world();
    let runtime = with(&world, plugin(bytes(&plain("1.0.0")), "nothing")).await;
    runtime.set_gate(Arc::new(Refuses));
    let before = active(&runtime);
    let failing = version("2.0.0", |manifest| {
        manifest.scenarios = vec![Scenario {
            name: "slots.yaml".to_owned(),
            text: String::new(),
        }];
    });
    let needy = version("2.1.0", |manifest| {
        manifest.required =
            serde_json::from_str(r#"{"secrets":["site-key"],"image":{"sources":["https://images.example/**"]}}"#)
                .unwrap();
    });
    let raw = version("2.1.1", |manifest| {
        manifest.required =
            serde_json::from_str(r#"{"bmc-raw":{"methods":["GET"],"paths":["/redfish/v1/**"]}}"#).unwrap();
    });
    let other = version("2.2.0", |manifest| manifest.id = "acme.other".to_owned());
    let vendor = version("2.3.0", |manifest| manifest.role = Role::Vendor);
    for (component, words) in [
        (&failing, &["scenarios", "slots.yaml does not pass"][..]),
        (&failing, &["quarantined", "slots.yaml"]),
        (
            &needy,
            &["image.sources: https://images.example/**", "secrets: site-key"],
        ),
        (
            &raw,
            &["`bmc-raw.redfish`, which a plugin of the role `vmedia` does not have"],
        ),
        (&other, &["acme.other", "another plugin"]),
        (&vendor, &["for the role `vendor`"]),
        (&Arc::from(&b"nonsense"[..]), &["not a valid component"]),
    ] {
        let error = runtime
            .swap(None, "acme.media", bytes(component), false)
            .await
            .unwrap_err();
        for word in words {
            assert!(message(&error).contains(word), "{word}: {}", message(&error));
        }
        assert_eq!(active(&runtime), before);
    }
    let unknown = runtime.swap(None, "other", bytes(&failing), false).await.unwrap_err();
    assert!(message(&unknown).contains("acme.media"), "{unknown}");
    assert!(
        runtime
            .swap(None, "built-in:vmedia", bytes(&failing), false)
            .await
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_tells_how_what_is_asked_for_changes() {
    let world = world();
    let grants = |json: &str| serde_json::from_str::<Grants>(json).unwrap();
    let old = version("1.0.0", |manifest| {
        manifest.optional = grants(r#"{"bmc":["insert","eject"],"state":["get"]}"#);
    });
    let new = version("1.1.0", |manifest| {
        manifest.optional = grants(r#"{"bmc":["insert","set-boot-mode"],"secrets":["site-key"]}"#);
    });
    let runtime = with(&world, plugin(bytes(&old), "nothing")).await;
    let change = runtime
        .swap(Some(Role::Vmedia), "acme.media", bytes(&new), false)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(change.grants.more, ["bmc.set-boot-mode", "secrets: site-key"]);
    assert_eq!(change.grants.less, ["state.get", "bmc.eject"]);
    assert_eq!(change.grants.denied, ["secrets: site-key"]);
    assert_eq!(change.to.version.as_deref(), Some("1.1.0"));
    let same = runtime.swap(None, "acme.media", bytes(&new), false).await.unwrap();
    assert!(same.is_none(), "the same bytes change nothing");
}

async fn restarted(world: &TestWorld, file: &Path, folder: &Path) -> Result<Runtime, LoadError> {
    let config = RuntimeConfig {
        plugins: vec![plugin(ComponentSource::File(file.to_owned()), "nothing")],
        folder: Some(folder.to_owned()),
        rollback: RollbackRule {
            failures: 1,
            window: Duration::from_secs(600),
        },
        ..RuntimeConfig::default()
    };
    runtime(world, config).await
}

/// Waits until what was chosen stands in the folder.
async fn noted(folder: &Path, words: &[&str]) {
    let bound = Instant::now() + Duration::from_secs(30);
    loop {
        let text = std::fs::read_to_string(folder.join("active.json")).unwrap_or_default();
        if words.iter().all(|word| text.contains(word)) {
            return;
        }
        assert!(Instant::now() < bound, "{words:?} is not in {text}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_is_swapped_in_and_a_restart_remembers_what_failed() {
    let world = world();
    let temp = tempfile::tempdir().unwrap();
    let (file, folder) = (temp.path().join("acme.wasm"), temp.path().join("plugins"));
    std::fs::write(&file, plain("1.0.0")).unwrap();
    let runtime = restarted(&world, &file, &folder).await.unwrap();
    let (good, _) = active(&runtime);
    let mut seen = SeenFiles::default();
    for _ in 0..3 {
        assert!(runtime.look_at_files(&mut seen).await.is_empty(), "nothing has changed");
    }
    let bad = trapping("2.0.0");
    let replace = |bytes: &[u8]| {
        let new = temp.path().join("new");
        std::fs::write(&new, bytes).unwrap();
        std::fs::rename(&new, &file).unwrap();
    };
    replace(&bad);
    let mut done = Vec::new();
    for _ in 0..3 {
        done.extend(runtime.look_at_files(&mut seen).await);
    }
    assert_eq!(done.len(), 1, "it is swapped in once");
    let change = done.remove(0).1.unwrap().unwrap();
    assert_eq!(
        (change.from.digest, change.why.as_str()),
        (good, "its file has changed")
    );
    let bad_digest = change.to.digest;
    noted(&folder, &[&bad_digest.to_string()]).await;
    let manageable = context(node(ProvisionState::Manageable));
    assert!(runtime.clean_up_ramdisk(&manageable).await.result.is_err());
    assert_eq!(active(&runtime).0, good);
    noted(&folder, &["quarantined", "it failed 1 times"]).await;
    drop(runtime);

    // The file still holds the bad one.
    let again = restarted(&world, &file, &folder).await.unwrap();
    assert_eq!(active(&again).0, good);
    again.clean_up_ramdisk(&manageable).await.result.unwrap();
    let info = again
        .plugins()
        .into_iter()
        .find(|plugin| plugin.entry == "acme.media")
        .unwrap();
    assert_eq!(
        info.quarantined.keys().copied().collect::<BTreeSet<_>>(),
        [bad_digest].into()
    );
    // An operator's choice stands over a restart too, until the file is another one.
    let third = plain("3.0.0");
    again.swap(None, "acme.media", bytes(&third), false).await.unwrap();
    let (chosen, _) = active(&again);
    noted(&folder, &[&format!("\"active\": \"{chosen}\"")]).await;
    drop(again);
    let later = restarted(&world, &file, &folder).await.unwrap();
    assert_eq!(active(&later), (chosen, "3.0.0".to_owned()));
    drop(later);
    replace(&plain("4.0.0"));
    let last = restarted(&world, &file, &folder).await.unwrap();
    assert_eq!(active(&last).1, "4.0.0");
    drop(last);

    // With no good version left there is nothing to start with, and the refusal says so.
    std::fs::remove_dir_all(&folder).unwrap();
    replace(&bad);
    let only_bad = restarted(&world, &file, &folder).await.unwrap();
    assert!(only_bad.clean_up_ramdisk(&manageable).await.result.is_err());
    assert_eq!(active(&only_bad).0, bad_digest, "there is nothing to go back to");
    let called = only_bad.clean_up_ramdisk(&manageable).await;
    assert!(!matches!(
        called.result,
        Err(runtime::CallError::Answered(DriverError::Denied(_)))
    ));
}
