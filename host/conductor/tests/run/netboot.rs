//! Servers that boot over the network.

use std::time::Duration;

use model::{ArtefactKind, BootInterface, Driver, NodeId, PowerState, ProvisionState as S, Verb};

use crate::site::Site;
use crate::world::Published;

async fn node(site: &Site, state: S, driver: Driver) -> NodeId {
    let id = site.node(state, driver).await;
    site.edit(&id, |node| node.boot_interface = BootInterface::IloIpxe)
        .await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ramdisk_from_the_network_has_no_token_until_it_looks_its_node_up_and_a_successor_serves_it_again() {
    let site = Site::new();
    let a = site.start(Site::config("a")).await;
    let id = node(&site, S::Available, Driver::AgentIlo).await;
    site.ask(&id, Verb::Active).await;
    let waiting = site.reach(&id, S::DeployWait).await;
    assert_eq!(waiting.node.agent.token, None);
    let done = site.world.notes(&id);
    assert_eq!(done, ["prepare-ramdisk", "power-on"]);
    site.kill("a", a);

    let _b = site.start(Site::config("b")).await;
    let told = site.hear(&id, "take-over", "b took over from a").await;
    assert!(told.contains("regenerate netboot, wait for the agent"), "{told}");
    let after = site.world.notes(&id).split_off(done.len());
    assert_eq!(
        after,
        ["regenerate", "regenerated netboot"],
        "served again, and nothing else"
    );
    let record = site.record(&id).await;
    assert_eq!(
        (record.node.provision_state, record.node.last_error),
        (S::DeployWait, None)
    );
    let served = site.world.lock(&id).published["netboot"].clone();
    assert!(!served.dead && served.by == "b");
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_active_server_boots_over_the_network_is_served_again_without_asking_a_plugin() {
    let site = Site::new();
    let a = site.start(Site::config("a")).await;
    let id = node(&site, S::Active, Driver::IscsiIlo).await;
    {
        let mut server = site.world.lock(&id);
        server.power = PowerState::On;
        let by = "a".to_owned();
        let published = Published {
            by,
            in_slot: false,
            dead: false,
        };
        server.published.insert(ArtefactKind::Netboot.as_str(), published);
    }
    crate::world::until("a has it", || async { site.record(&id).await.owner }).await;
    site.kill("a", a);
    let _b = site.start(Site::config("b")).await;
    site.hear(&id, "take-over", "b took over from a: regenerate netboot")
        .await;
    assert_eq!(site.world.notes(&id), ["regenerate", "regenerated netboot"]);
    let record = site.record(&id).await;
    assert_eq!((record.node.provision_state, record.node.last_error), (S::Active, None));
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_of_which_no_file_was_read_is_repeated_where_one_conductor_serves_all_of_them() {
    for (names, boots) in [(&["a"][..], 2), (&["a", "b"], 1)] {
        let site = Site::new();
        let mut running = Vec::new();
        for name in names {
            let mut config = Site::config(name);
            config.images_url = format!("http://{name}.example");
            config.timeouts.fetch_alarm = Some(Duration::from_millis(100));
            config.timeouts.callback = Duration::from_secs(2);
            running.push(site.start(config).await);
        }
        let id = node(&site, S::Available, Driver::AgentIlo).await;
        site.ask(&id, Verb::Active).await;
        let failed = site.reach(&id, S::DeployFailed).await;
        let error = failed.node.last_error.unwrap();
        assert!(error.contains("booted from the network by iPXE"), "{error}");
        assert_eq!(site.world.count(&id, "power-on"), boots, "{names:?}");
        let told = site.told(&id, "media-unread").await;
        let alarmed = told
            .iter()
            .filter(|told| told.contains("nothing of its boot files was read"))
            .count();
        assert_eq!(alarmed, boots - 1, "{told:?}");
        site.world.assert_no_violations();
    }
}
