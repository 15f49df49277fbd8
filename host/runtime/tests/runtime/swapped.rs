//! The example plugin in place of the built-in policy.

use expect_test::expect;
use model::ProvisionState;
use runtime::{ComponentSource, PluginConfig};

use crate::support::{context, guests, hostile, node, parameters, with_plugins, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_sites_own_plugin_changes_what_a_server_is_asked_and_hands_the_rest_down() {
    let world = world();
    let component = ComponentSource::File(guests().join("vmedia_boot_once.wasm"));
    let matches = [
        ("vendor".to_owned(), "HPE".to_owned()),
        ("bmc.generation".to_owned(), ">=5".to_owned()),
    ]
    .into();
    let plugin = PluginConfig {
        component,
        matches,
        ..hostile("")
    };
    let runtime = with_plugins(&world, vec![plugin]).await.unwrap();
    let node = node(ProvisionState::Deploying);
    runtime
        .prepare_ramdisk(&context(node.clone()), &parameters())
        .await
        .result
        .unwrap();
    expect![[r#"
        image.build-floppy {"spec":{"files":[],"label":null,"parameters":[{"key":"ipa-api-url","value":{"plain":"http://192.0.2.9:6387"}},{"key":"ipa-agent-token","value":{"secret":"agent-token"}}]}}
        image.build-boot-iso {"spec":{"boot_modes":null,"files":[],"kernel_arguments":null,"label":null,"parameters":[],"source":"deploy"}}
        storage.publish boot-iso for 3600 s to local
        storage.publish floppy for 3600 s to local
        bmc.insert cdrom <- http://local/boot-iso boot-once
        bmc.insert floppy <- http://local/floppy
    "#]].assert_eq(&world.asked());

    runtime.clean_up_ramdisk(&context(node.clone())).await.result.unwrap();
    assert!(world.model().slots.is_empty() && world.model().artefacts.is_empty());
    let last: Vec<_> = world
        .model()
        .reports
        .iter()
        .rev()
        .take(2)
        .map(|report| report.plugin.clone())
        .collect();
    assert_eq!(last, ["vmedia_boot_once", "built-in:vmedia"]);

    let mut other = node;
    other.facts.insert("bmc.generation".into(), "4".into());
    assert_eq!(
        runtime.plugin_for(runtime::Role::Vmedia, &other).as_deref(),
        Some("built-in:vmedia")
    );
}
