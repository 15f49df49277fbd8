//! Which conductor a node belongs to: rendezvous hashing over the live conductors of its group. Pure.
//!
//! Every conductor of a site computes the same answer, and one that comes or goes moves only its own share of the nodes.

use model::{ConductorName, NodeId};

/// Which of these conductors, all alive and of the node's conductor group, should have the node; `None` = there are none.
pub fn home<'a>(node: &NodeId, live: impl IntoIterator<Item = &'a ConductorName>) -> Option<&'a ConductorName> {
    live.into_iter().max_by_key(|name| (score(name, node), *name))
}

/// FNV-1a over both names, finished as SplitMix64 is, so that near names land far apart. Part of what conductors of one site
/// agree on: never change it.
fn score(conductor: &ConductorName, node: &NodeId) -> u64 {
    let separator = [0];
    let bytes = conductor
        .as_str()
        .bytes()
        .chain(separator)
        .chain(node.as_bytes().iter().copied());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn names(names: &[&str]) -> Vec<ConductorName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn nodes_spread_evenly_and_only_the_share_of_a_dead_conductor_moves() {
        let all = names(&["a", "b", "c", "d"]);
        let left = names(&["a", "c", "d"]);
        let ids: Vec<_> = (0..4000).map(|_| NodeId::random()).collect();
        let mut shares = BTreeMap::new();
        for id in &ids {
            let old = home(id, &all).unwrap();
            let new = home(id, &left).unwrap();
            assert!(new == old || old.as_str() == "b", "{id} moved from {old} to {new}");
            *shares.entry(old).or_insert(0) += 1;
        }
        assert!(shares.values().all(|share| (800..1200).contains(share)), "{shares:?}");
        assert_eq!(home(&ids[0], &[]), None);
    }

    #[test]
    fn the_order_of_the_conductors_does_not_matter_and_the_answer_never_changes() {
        let homes = |order: &[&str]| -> String {
            let order = names(order);
            let id = |last: u32| format!("6f1f0f3e-8f52-4a35-b1a5-3c1a1c1e{last:04x}").parse().unwrap();
            (0..32)
                .map(|last| home(&id(last), &order).unwrap().to_string())
                .collect()
        };
        let found = homes(&["alpha", "beta", "gamma"]);
        assert_eq!(found, homes(&["gamma", "alpha", "beta"]));
        let first: String = homes(&["a", "b"]);
        assert_eq!(first, "aaaaabbbbbaabbaaaaabbbabbbbbaaaa");
    }
}
