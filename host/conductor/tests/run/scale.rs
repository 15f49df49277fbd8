//! Many nodes at once.

use std::time::{Duration, Instant};

use model::{Driver, PowerState, ProvisionState as S};

use crate::site::Site;
use crate::world::{Published, until};

const NODES: usize = 300;

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_active_nodes_are_served_again_soon_after_the_leases_end() {
    let site = Site::new();
    let a = site.start(Site::config("a")).await;
    let mut ids = Vec::new();
    for _ in 0..NODES {
        let id = site.node(S::Active, Driver::IscsiIlo).await;
        let mut server = site.world.lock(&id);
        server.power = PowerState::On;
        let by = "a".to_owned();
        server.published.insert(
            "boot-iso",
            Published {
                by,
                in_slot: true,
                dead: false,
            },
        );
        drop(server);
        ids.push(id);
    }
    for id in &ids {
        until("each has an owner", || async { site.record(id).await.owner }).await;
    }
    site.kill("a", a);
    let began = Instant::now();
    let config = Site::config("b");
    // A thousand have fifteen seconds, ten of which are the lease.
    let limit = config.lease + Duration::from_secs(5);
    let _b = site.start(config).await;
    for id in &ids {
        let served = || async { (!site.world.lock(id).published["boot-iso"].dead).then_some(()) };
        until("each is served again", served).await;
    }
    let took = began.elapsed();
    assert!(took < limit, "{NODES} nodes took {took:?}");
    site.world.assert_no_violations();
}
