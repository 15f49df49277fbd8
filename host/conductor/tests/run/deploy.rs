//! The main path, without failures.

use model::{Driver, PowerState, ProvisionState as S, Verb};

use crate::site::Site;

const PREPARE: [&str; 3] = ["prepare-ramdisk", "power-on", "agent deploy.get_deploy_steps"];
const WORK: [&str; 4] = [
    "agent standby.prepare_image",
    "image http://10.1.0.1/a.raw",
    "agent standby.sync",
    "agent standby.power_off",
];
const BOOT: [&str; 3] = ["clean-up-ramdisk", "prepare-instance", "power-on"];

#[tokio::test(flavor = "multi_thread")]
async fn both_drivers_are_deployed_step_by_step() {
    let site = Site::new();
    let mut running = site.start(Site::config("a")).await;
    for driver in Driver::ALL {
        let id = site.node(S::Available, driver).await;
        site.ask(&id, Verb::Active).await;
        let record = site.reach(&id, S::Active).await;

        let node = &record.node;
        assert_eq!(site.world.notes(&id), [&PREPARE[..], &WORK, &BOOT].concat());
        assert_eq!((node.power_state, &node.last_error), (Some(PowerState::On), &None));
        assert_eq!(
            (&node.wish, &node.step, &node.agent_command, node.deadline),
            (&None, &None, &None, None)
        );
        // The ramdisk is gone, and its token with it.
        assert_eq!(node.agent, Default::default());
        site.hear(&id, "provision-state", "deploying → active").await;
        let moves = site.told(&id, "provision-state").await;
        let states: Vec<_> = moves.iter().map(|line| line.split(':').next().unwrap()).collect();
        let expected = [
            "available → deploying",
            "deploying → wait call-back",
            "wait call-back → deploying",
            "deploying → active",
        ];
        assert_eq!(states, expected);
        let token_shown = format!("{:?}", site.events(&id).await);
        let token = site.world.lock(&id).floppy_token.clone().unwrap();
        assert!(!token_shown.contains(token.expose()));
        let iso_kept = site
            .world
            .lock(&id)
            .published
            .get("boot-iso")
            .is_some_and(|iso| iso.in_slot);
        assert_eq!(iso_kept, driver == Driver::IscsiIlo);
    }
    running.drain(std::time::Duration::from_secs(5)).await;
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_goes_round_from_enroll_to_active_and_back_to_available() {
    let site = Site::new();
    let mut config = Site::config("a");
    config.automated_clean = true;
    let _running = site.start(config).await;
    let id = site.node(S::Enroll, Driver::AgentIlo).await;

    site.ask(&id, Verb::Manage).await;
    let record = site.reach(&id, S::Manageable).await;
    assert_eq!(record.node.facts["vendor"], "HPE");
    assert_eq!(record.node.facts["bmc.generation"], "5");

    site.ask(&id, Verb::Provide).await;
    let record = site.reach(&id, S::Available).await;
    assert!(!record.node.maintenance, "{:?}", record.node.last_error);
    let clean = [
        "agent clean.get_clean_steps",
        "agent clean.execute_clean_step",
        "clean step wipe",
    ];
    let notes = site.world.notes(&id);
    assert_eq!(notes[..2], ["prepare-ramdisk", "power-on"]);
    assert_eq!(notes[2..5], clean);
    // Highest priority first, each once, and none of priority 0.
    assert_eq!(site.world.count(&id, "clean step"), 2);
    assert_eq!(
        notes[notes.len() - 3..],
        ["clean step erase", "agent standby.power_off", "clean-up-ramdisk"]
    );

    site.ask(&id, Verb::Active).await;
    site.reach(&id, S::Active).await;
    let before = site.world.notes(&id).len();
    site.ask(&id, Verb::Deleted).await;
    let record = site.reach(&id, S::Available).await;
    let undeploy = ["power-off", "clean-up-ramdisk", "clean-up-instance"];
    assert_eq!(site.world.notes(&id)[before..before + 3], undeploy);
    assert_eq!(site.world.count(&id, "clean step"), 4);
    assert!(record.node.instance_info.is_empty());
    assert_eq!(record.node.target_provision_state, None);
    assert!(site.world.lock(&id).published.keys().all(|kind| *kind != "floppy"));
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_without_an_image_boots_from_its_iso_alone() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::IscsiIlo).await;
    site.edit(&id, |node| {
        node.instance_info.remove("image_source");
    })
    .await;
    site.ask(&id, Verb::Active).await;
    site.reach(&id, S::Active).await;
    assert_eq!(site.world.notes(&id), ["prepare-instance", "power-on"]);
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_writes_the_image_again() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Active, Driver::AgentIlo).await;
    site.ask(&id, Verb::Rebuild).await;
    site.see(&id, "the wish is taken", |node| node.wish.is_none()).await;
    site.reach(&id, S::Active).await;
    assert_eq!(site.world.count(&id, "image"), 1);
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_are_deployed_side_by_side() {
    let site = Site::new();
    let mut config = Site::config("a");
    config.workers = 4;
    let _running = site.start(config).await;
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.push(site.node(S::Available, Driver::AgentIlo).await);
    }
    for id in &ids {
        site.ask(id, Verb::Active).await;
    }
    for id in &ids {
        site.reach(id, S::Active).await;
        assert_eq!(site.world.count(id, "image"), 1);
    }
    site.world.assert_no_violations();
}
