//! Servers that boot over the network.

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
