//! What no grant allows on a server that runs somebody's instance.

use model::{ArtefactKind, Device, ProvisionState};
use runtime::{CallError, DriverError};

use crate::support::{by_operator, context, hostile, node, with_plugins, world};
use crate::world::fill;

fn denied() -> Result<(), CallError> {
    Err(CallError::Answered(DriverError::Denied("active node".into())))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_active_server_is_left_alone_unless_an_operator_asked() {
    for what in [
        "eject",
        "eject-service",
        "set-boot-device",
        "set-boot-mode",
        "set-secure-boot",
        "withdraw",
    ] {
        let world = world();
        fill(&world, Device::Cdrom, "http://local/boot-iso");
        world
            .model()
            .artefacts
            .insert(ArtefactKind::BootIso, ("local".into(), "sha256:iso".into()));
        let runtime = with_plugins(&world, vec![hostile(what)]).await.unwrap();
        for state in [ProvisionState::Active, ProvisionState::Adopting] {
            let called = runtime.prepare_ramdisk(&context(node(state)), &[]).await;
            assert_eq!(called.result, denied(), "{what} in {state}");
        }
        assert!(world.model().journal.is_empty(), "{what}");
        assert!(
            world.model().slots.contains_key("cdrom") && !world.model().artefacts.is_empty(),
            "{what}"
        );
        let called = runtime
            .prepare_ramdisk(&by_operator(node(ProvisionState::Active)), &[])
            .await;
        assert_eq!(called.result, Ok(()), "{what} by an operator");
        let called = runtime
            .prepare_ramdisk(&context(node(ProvisionState::Deploying)), &[])
            .await;
        assert_eq!(called.result, Ok(()), "{what} while deploying");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_active_servers_slot_is_filled_only_if_it_is_empty() {
    let world = world();
    let runtime = with_plugins(&world, vec![hostile("insert")]).await.unwrap();
    let mut active = node(ProvisionState::Active);
    active
        .instance_info
        .insert("boot_iso".into(), serde_json::json!("http://192.0.2.9/own.iso"));
    assert_eq!(
        runtime.prepare_ramdisk(&context(active.clone()), &[]).await.result,
        Ok(())
    );
    assert_eq!(runtime.prepare_ramdisk(&context(active), &[]).await.result, denied());
    assert_eq!(world.asked().matches("bmc.insert").count(), 1);
}
