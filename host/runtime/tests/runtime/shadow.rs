//! A shadow runs along with calls, tells what it would have done otherwise, and does nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Device, ProvisionState};
use runtime::{Candidate, ComponentSource, PluginConfig, Request, Role, Runtime, RuntimeConfig, ShadowReport, Verdict};
use serde_json::json;

use crate::support::{candidate, context, engine, guests, hostile, node, parameters, world};
use crate::world::{TestWorld, fill};

async fn runtime(world: &TestWorld, plugins: Vec<PluginConfig>, shadow: PluginConfig) -> Runtime {
    let config = RuntimeConfig {
        plugins,
        shadows: vec![shadow],
        site_facts: [("callback-timeout-s".to_owned(), "1800".to_owned())].into(),
        ..RuntimeConfig::default()
    };
    Runtime::new(engine(), config, Arc::new(world.clone()), Arc::new(world.clone()))
        .await
        .unwrap()
}

/// The reports of this many runs.
async fn reports(world: &TestWorld, count: usize) -> Vec<ShadowReport> {
    let bound = Instant::now() + Duration::from_secs(60);
    loop {
        let seen = world.model().shadows.clone();
        if seen.len() >= count {
            return seen;
        }
        assert!(Instant::now() < bound, "{} of {count} shadows ended", seen.len());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn example() -> PluginConfig {
    PluginConfig {
        component: ComponentSource::File(guests().join("vmedia_boot_once.wasm")),
        settings: json!({}),
        ..hostile("")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_version_does_the_same_and_nothing_is_done_twice() {
    let world = world();
    let alone = TestWorld::default();
    alone.model().candidates = vec![candidate("local")];
    let without = crate::support::with_plugins(&alone, vec![example()]).await.unwrap();
    let context = context(node(ProvisionState::Deploying));
    without.prepare_ramdisk(&context, &parameters()).await.result.unwrap();

    let runtime = runtime(&world, vec![example()], example()).await;
    let called = runtime.prepare_ramdisk(&context, &parameters()).await;
    called.result.unwrap();
    let seen = reports(&world, 1).await;
    assert_eq!(seen[0].verdict, Verdict::Same);
    assert_eq!(
        (seen[0].call, seen[0].function),
        (called.report.call, "prepare-ramdisk")
    );
    assert_eq!(
        (seen[0].active.as_str(), seen[0].shadow.as_str()),
        ("vmedia_boot_once", "shadow:vmedia_boot_once")
    );
    assert_eq!(world.asked(), alone.asked(), "the world was asked as without a shadow");
    assert_eq!(world.model().journal, alone.model().journal);
    assert_eq!(world.model().slots, alone.model().slots);
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_the_seeded_differences_are_reported_and_nothing_is_written() {
    let world = world();
    fill(&world, Device::Cdrom, "http://local/boot-iso");
    // It ejects the CD; the shadow the floppy after that, and answers the same.
    let runtime = runtime(&world, vec![hostile("eject")], hostile("eject-twice")).await;
    let context = context(node(ProvisionState::Deploying));
    runtime.clean_up_ramdisk(&context).await.result.unwrap();
    let seen = reports(&world, 1).await;
    assert_eq!(seen[0].verdict, Verdict::Differs(vec!["+ bmc.eject floppy".to_owned()]));
    assert_eq!(world.asked(), "bmc.eject {\"device\":\"cdrom\"}\n");
    assert_eq!(world.model().journal.len(), 1);

    for (active, shadow, expected) in [
        (
            "eject-twice",
            "eject",
            Verdict::Differs(vec!["- bmc.eject floppy".to_owned()]),
        ),
        (
            "nothing",
            "set-boot-mode",
            Verdict::Differs(vec!["+ bmc.set-boot-mode bios".to_owned()]),
        ),
        (
            "nothing",
            "answer",
            Verdict::Differs(vec![
                "- answer done".to_owned(),
                "+ answer error as a policy may say".to_owned(),
            ]),
        ),
        ("nothing", "look", Verdict::Diverged("bmc.media-state".to_owned())),
        ("eject", "eject-and-look", Verdict::Same),
        ("nothing", "put-twice", Verdict::Diverged("state.get".to_owned())),
        ("put", "put-twice", Verdict::Differs(vec!["+ state.put k".to_owned()])),
    ] {
        let world = crate::support::world();
        let runtime = self::runtime(&world, vec![hostile(active)], hostile(shadow)).await;
        runtime.clean_up_ramdisk(&context).await.result.unwrap();
        let seen = reports(&world, 1).await;
        assert_eq!(seen[0].verdict, expected, "{active} beside {shadow}");
        let shadows_deeds = ["floppy", "set-boot-mode"];
        let asked = world.asked();
        if active == "nothing" {
            assert_eq!(asked, "\n", "{shadow}");
        }
        assert!(
            active == "eject-twice" || shadows_deeds.iter().all(|deed| !asked.contains(deed)),
            "{asked}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_that_misbehaves_harms_no_call() {
    for (what, words) in [("panic", "trapped"), ("spin", "CPU"), ("allocate", "memory")] {
        let world = world();
        let runtime = runtime(&world, vec![hostile("eject")], hostile(what)).await;
        let context = context(node(ProvisionState::Deploying));
        runtime.clean_up_ramdisk(&context).await.result.unwrap();
        let seen = reports(&world, 1).await;
        match &seen[0].verdict {
            Verdict::Failed(why) => assert!(why.contains(words), "{what}: {why}"),
            other => panic!("{what}: {other:?}"),
        }
        assert!(
            world.model().changes.is_empty(),
            "its failures are no failures of the one that decides"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pure_policy_is_watched_where_another_plugin_leads_to_it() {
    let world = world();
    let shadow = PluginConfig {
        role: Role::BackendSelection,
        component: ComponentSource::Bytes {
            name: "selection".to_owned(),
            bytes: crate::contract::dummy("backend-selection-plugin").into(),
        },
        ..hostile("")
    };
    let runtime = runtime(&world, vec![], shadow).await;
    let context = context(node(ProvisionState::Deploying));
    let request = Request {
        kind: model::ArtefactKind::Floppy,
        size: 1,
        lifetime_s: None,
    };
    let candidates: Vec<Candidate> = vec![candidate("local"), candidate("other")];
    let called = runtime.select_backend(&context, &request, &candidates).await;
    called.result.unwrap();
    assert!(matches!(reports(&world, 1).await[0].verdict, Verdict::Failed(_)));
    // Publishing asks it too, once for each artefact.
    runtime.prepare_ramdisk(&context, &parameters()).await.result.unwrap();
    let seen = reports(&world, 3).await;
    assert!(seen.iter().all(|report| report.function == "select"), "{seen:?}");
}
