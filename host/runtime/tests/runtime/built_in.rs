//! What the built-in policies ask of the world.

use expect_test::{Expect, expect};
use model::{ArtefactKind, Device, Driver, ProvisionState, Secret};
use runtime::{
    CallError, DriverError, InterruptedStep, Media, Observation, ObservedArtefact, Outcome, Repeat, Request, Step,
    UrlState,
};
use serde_json::json;

use crate::support::{built_in, candidate, context, node, parameters, world};
use crate::world::{TestWorld, fill};

fn check(world: &TestWorld, expected: &Expect) {
    expected.assert_eq(&world.asked());
}

#[tokio::test(flavor = "multi_thread")]
async fn preparing_a_ramdisk_inserts_the_floppy_before_the_cd_and_boots_the_cd_once() {
    let world = world();
    fill(&world, Device::Cdrom, "http://old/leftover.iso");
    let called = built_in(&world)
        .await
        .prepare_ramdisk(&context(node(ProvisionState::Deploying)), &parameters())
        .await;
    called.result.unwrap();
    check(
        &world,
        &expect![[r#"
        image.build-floppy {"spec":{"files":[],"label":null,"parameters":[{"key":"ipa-api-url","value":{"plain":"http://192.0.2.9:6387"}},{"key":"ipa-agent-token","value":{"secret":"agent-token"}}]}}
        image.build-boot-iso {"spec":{"boot_modes":null,"files":[],"kernel_arguments":null,"label":null,"parameters":[],"source":"deploy"}}
        storage.publish floppy for 2400 s to local
        storage.publish boot-iso for 2400 s to local
        bmc.eject {"device":"floppy"}
        bmc.eject {"device":"cdrom"}
        bmc.insert floppy <- http://local/floppy
        bmc.media-state {"device":"floppy"}
        bmc.insert cdrom <- http://local/boot-iso
        bmc.media-state {"device":"cdrom"}
        bmc.set-boot-device {"device":"cdrom","persistent":false}
    "#]],
    );
    let model = world.model();
    assert_eq!(model.slots["floppy"], "http://local/floppy");
    assert_eq!(model.slots["cdrom"], "http://local/boot-iso");
    assert!(
        model
            .journal
            .iter()
            .all(|(_, outcome)| outcome.as_deref() == Some("done")),
        "{:?}",
        model.journal
    );
    // Two nested calls asked where the images go.
    let outcomes: Vec<_> = model
        .reports
        .iter()
        .map(|report| (report.function, report.depth, &report.outcome))
        .collect();
    assert_eq!(
        outcomes,
        [
            ("select", 1, &Outcome::Ok),
            ("select", 1, &Outcome::Ok),
            ("prepare-ramdisk", 0, &Outcome::Ok)
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_asks_for_another_boot_mode_gets_it_before_its_media() {
    let world = world();
    let mut node = node(ProvisionState::Deploying);
    node.properties = [("capabilities".to_owned(), json!("boot_mode:bios"))].into();
    built_in(&world)
        .await
        .prepare_ramdisk(&context(node), &[])
        .await
        .result
        .unwrap();
    let asked = world.asked();
    let place = |text: &str| asked.find(text).unwrap_or_else(|| panic!("no {text} in {asked}"));
    assert!(place("bmc.boot-mode-of") < place(r#"bmc.set-boot-mode {"mode":"bios"}"#));
    assert!(place("bmc.set-boot-mode") < place("bmc.insert"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_leaves_nothing_inserted_and_is_the_bmcs_own() {
    for fault in [
        "bmc.set-boot-device",
        "bmc.insert",
        "bmc.media-state",
        "storage.publish",
        "image.build-boot-iso",
    ] {
        let world = world();
        world
            .model()
            .faults
            .insert(fault, DriverError::Unreachable("no route to 192.0.2.1".into()));
        let runtime = built_in(&world).await;
        let called = runtime
            .prepare_ramdisk(&context(node(ProvisionState::Deploying)), &parameters())
            .await;
        assert_eq!(
            called.result,
            Err(CallError::Answered(DriverError::Unreachable(
                "no route to 192.0.2.1".into()
            ))),
            "{fault}"
        );
        assert_eq!(called.report.outcome, Outcome::Error("unreachable".into()));
        assert!(world.model().slots.is_empty(), "{fault}: {:?}", world.model().slots);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn preparing_twice_publishes_once() {
    let world = world();
    let runtime = built_in(&world).await;
    let context = context(node(ProvisionState::Deploying));
    for _ in 0..2 {
        runtime.prepare_ramdisk(&context, &parameters()).await.result.unwrap();
    }
    assert_eq!(world.asked().matches("storage.publish").count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cleaning_up_a_ramdisk_tries_everything_and_reports_the_first_error() {
    let world = world();
    let runtime = built_in(&world).await;
    let context = context(node(ProvisionState::Cleaning));
    runtime.prepare_ramdisk(&context, &parameters()).await.result.unwrap();
    world.asked();
    world
        .model()
        .faults
        .insert("bmc.eject", DriverError::Conflict("the BMC is in POST".into()));
    let called = runtime.clean_up_ramdisk(&context).await;
    assert_eq!(
        called.result,
        Err(CallError::Answered(DriverError::Conflict("the BMC is in POST".into())))
    );
    check(
        &world,
        &expect![[r#"
        bmc.eject {"device":"cdrom"}
        bmc.eject {"device":"floppy"}
        storage.withdraw {"kind":"floppy"}
        storage.withdraw {"kind":"boot-iso"}
    "#]],
    );
    assert!(world.model().artefacts.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_ilo_instance_boots_from_disk() {
    let world = world();
    built_in(&world)
        .await
        .prepare_instance(&context(node(ProvisionState::Deploying)))
        .await
        .result
        .unwrap();
    check(
        &world,
        &expect![[r#"
        bmc.eject {"device":"cdrom"}
        bmc.eject {"device":"floppy"}
        storage.withdraw {"kind":"floppy"}
        storage.withdraw {"kind":"boot-iso"}
        bmc.set-boot-device {"device":"disk","persistent":true}
    "#]],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_iscsi_ilo_instance_boots_from_an_iso_of_its_own_that_never_expires() {
    let world = world();
    let mut node = node(ProvisionState::Deploying);
    node.driver = Driver::IscsiIlo;
    node.instance_info = [("root_uuid_or_disk_id".to_owned(), json!("0a1b-2c3d"))].into();
    let runtime = built_in(&world).await;
    runtime.prepare_instance(&context(node)).await.result.unwrap();
    check(
        &world,
        &expect![[r#"
        bmc.eject {"device":"cdrom"}
        bmc.eject {"device":"floppy"}
        storage.withdraw {"kind":"floppy"}
        storage.withdraw {"kind":"boot-iso"}
        image.build-boot-iso {"spec":{"boot_modes":null,"files":[],"kernel_arguments":"root=UUID=0a1b-2c3d","label":null,"parameters":[],"source":"instance"}}
        storage.publish boot-iso for 0 s to local
        bmc.insert cdrom <- http://local/boot-iso
        bmc.media-state {"device":"cdrom"}
        bmc.set-boot-device {"device":"cdrom","persistent":true}
    "#]],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_iscsi_ilo_instance_may_name_a_ready_iso() {
    let world = world();
    let mut node = node(ProvisionState::Deploying);
    node.driver = Driver::IscsiIlo;
    node.instance_info = [("boot_iso".to_owned(), json!("http://images.example/ready.iso"))].into();
    built_in(&world)
        .await
        .prepare_instance(&context(node))
        .await
        .result
        .unwrap();
    let asked = world.asked();
    assert!(
        asked.contains("bmc.insert cdrom <- http://images.example/ready.iso\n"),
        "{asked}"
    );
    assert!(!asked.contains("build-boot-iso"), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_goes_away_takes_its_media_along() {
    let world = world();
    let runtime = built_in(&world).await;
    let mut node = node(ProvisionState::Deploying);
    node.driver = Driver::IscsiIlo;
    runtime.prepare_instance(&context(node.clone())).await.result.unwrap();
    node.provision_state = ProvisionState::Deleting;
    runtime.clean_up_instance(&context(node)).await.result.unwrap();
    assert!(world.model().slots.is_empty() && world.model().artefacts.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operators_iso_is_inserted_and_booted_once() {
    let world = world();
    let runtime = built_in(&world).await;
    let url = Secret::new("http://images.example/rescue.iso");
    runtime
        .boot_into_iso(&context(node(ProvisionState::Manageable)), &url)
        .await
        .result
        .unwrap();
    check(
        &world,
        &expect![[r#"
        bmc.insert cdrom <- http://images.example/rescue.iso
        bmc.media-state {"device":"cdrom"}
        bmc.set-boot-device {"device":"cdrom","persistent":false}
    "#]],
    );
    runtime
        .detach(&context(node(ProvisionState::Manageable)), Device::Cdrom)
        .await
        .result
        .unwrap();
    assert!(world.model().slots.is_empty());
    runtime
        .attach(&context(node(ProvisionState::Manageable)), Device::Floppy, &url)
        .await
        .result
        .unwrap();
    assert_eq!(world.model().slots["floppy"], url.expose());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_is_not_well_is_passed_over() {
    let world = world();
    let ill = runtime::Candidate {
        healthy: false,
        ..candidate("ill")
    };
    let runtime = built_in(&world).await;
    let request = Request {
        kind: ArtefactKind::Floppy,
        size: 1,
        lifetime_s: Some(60),
    };
    let context = context(node(ProvisionState::Deploying));
    let choice = runtime
        .select_backend(&context, &request, &[ill.clone(), candidate("well")])
        .await
        .result
        .unwrap();
    assert_eq!(choice.backend, "well");
    let none = runtime
        .select_backend(&context, &request, &[ill])
        .await
        .result
        .unwrap_err();
    assert!(
        matches!(&none, CallError::Answered(DriverError::Other { code, retry_after_ms: Some(_), .. }) if code == "no-backend"),
        "{none:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_serves_an_active_node_again_and_leaves_the_server_alone() {
    let world = world();
    let runtime = built_in(&world).await;
    let media = Media {
        inserted: true,
        connected: true,
        ..Media::default()
    };
    let observation = Observation {
        previous_conductor: "a".into(),
        power: model::PowerState::On,
        cdrom: Some(media),
        floppy: None,
        artefacts: vec![ObservedArtefact {
            kind: ArtefactKind::BootIso,
            backend: "local".into(),
            url: UrlState::Dead,
            in_slot: true,
            expires_in_s: None,
            bytes_read: None,
        }],
        agent_seen_s_ago: None,
        interrupted: None,
    };
    let plan = runtime
        .plan_take_over(&context(node(ProvisionState::Active)), &observation)
        .await
        .result
        .unwrap();
    assert_eq!(
        plan,
        [
            Step::Regenerate(ArtefactKind::BootIso),
            Step::DeferReinsert(ArtefactKind::BootIso)
        ]
    );
    let waiting = runtime
        .plan_take_over(&context(node(ProvisionState::DeployWait)), &observation)
        .await
        .result
        .unwrap();
    assert_eq!(
        waiting,
        [
            Step::Regenerate(ArtefactKind::BootIso),
            Step::Reinsert(ArtefactKind::BootIso),
            Step::WaitForAgent
        ]
    );
    let interrupted = Some(InterruptedStep {
        name: "write-image".into(),
        repeat: Repeat::ObserveThenContinue,
    });
    let observation = Observation {
        artefacts: vec![],
        interrupted,
        ..observation
    };
    let plan = runtime
        .plan_take_over(&context(node(ProvisionState::Deploying)), &observation)
        .await
        .result
        .unwrap();
    assert_eq!(plan, [Step::ContinueInterruptedStep]);
    assert_eq!(world.asked(), "\n", "planning asks nothing of the world");
}
