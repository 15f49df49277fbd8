//! Nodes, ports, artefacts, values and events: what is written is read, and versions decide.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use std::time::{Duration, SystemTime};

use expect_test::{Expect, expect};
use model::{
    ArtefactKind, BootInterface, BootMode, Fault, MacAddress, NodeId, Port, PowerAction, PowerState, ProvisionState,
    Secret, Verb, Wish,
};
use nodes::{Filter, NodeRef, Outcome, Record, Store, StoreError, Writer};
use serde_json::json;

mod support;
use support::{LONG, Site, artefact, conductor, holding, name, node, tenure};

fn refused<T: std::fmt::Debug>(result: Result<T, StoreError>, expected: Expect) {
    expected.assert_eq(&result.unwrap_err().to_string());
}

fn port(node: NodeId, id: &str, address: &str) -> Port {
    Port {
        id: id.into(),
        node,
        address: address.parse().unwrap(),
    }
}

#[tokio::test]
async fn a_node_of_an_older_store_boots_from_virtual_media() {
    let site = Site::new();
    let old = node("n1");
    site.open().create_node(&old, &[]).await.unwrap();
    let db = rusqlite::Connection::open(site.path()).unwrap();
    let sql = "UPDATE node SET document = json_remove(document, '$.\"boot-interface\"')";
    assert_eq!(db.execute(sql, []).unwrap(), 1);
    db.pragma_update(None, "user_version", 1).unwrap();
    drop(db);
    let found = site.open().node(&NodeRef::Id(old.id)).await.unwrap().unwrap();
    assert_eq!(found.node.boot_interface, BootInterface::IloVirtualMedia);
    assert_eq!(found.node, old);
}

#[tokio::test]
async fn a_node_comes_back_exactly_as_it_was_written() {
    let store = Site::new();
    let store = store.open();
    let mut full = node("n1");
    full.boot_interface = BootInterface::IloIpxe;
    full.conductor_group = "rack 7".into();
    full.provision_state = ProvisionState::DeployWait;
    full.target_provision_state = Some(ProvisionState::Active);
    full.power_state = Some(PowerState::On);
    full.target_power_state = Some(PowerState::Off);
    full.boot_mode = Some(BootMode::Uefi);
    full.maintenance = true;
    full.maintenance_reason = Some("fan".into());
    full.fault = Some(Fault::MediaStale);
    full.last_error = Some("é\0\u{1f40e}".into());
    full.driver_info = [("ilo_address".to_owned(), json!("10.0.0.1"))].into();
    full.instance_info = [("root_gb".to_owned(), json!(-1.5e-7))].into();
    full.properties = [("capabilities".to_owned(), json!({"a": [null, true]}))].into();
    full.extra = [(String::new(), json!([]))].into();
    full.facts = [("vendor".to_owned(), "HPE".to_owned())].into();
    full.secrets = [("ilo_password".to_owned(), Secret::new("hunter2"))].into();
    full.agent.callback_url = Some("https://10.0.0.9:9999".into());
    full.agent.version = Some("9.9".into());
    full.agent.certificate = Some("PEM".into());
    full.agent.last_heartbeat = Some(SystemTime::now());
    full.agent.token = Some(Secret::new("token"));
    full.wish = Some(Wish::Provision {
        verb: Verb::Rebuild,
        config_drive: Some(Secret::new("drive")),
    });
    full.step = Some("deploying: write-image".into());
    full.step_percent = Some(42);
    full.agent_command = Some("7".into());
    full.boot_repeated = true;
    full.deadline = Some(SystemTime::UNIX_EPOCH - Duration::new(5, 7));
    let made = store.create_node(&full, &[]).await.unwrap();
    let read = store.node(&NodeRef::Id(full.id)).await.unwrap().unwrap();
    assert_eq!(read, made);
    assert_eq!(read.node, full);
    let by_name = NodeRef::Name("n1".parse().unwrap());
    assert_eq!(store.node(&by_name).await.unwrap().unwrap(), made);

    // Every wish, and a node with nothing in it.
    let power = [
        PowerAction::On,
        PowerAction::Off,
        PowerAction::SoftOff,
        PowerAction::ForceRestart,
        PowerAction::SoftRestart,
    ];
    let mut wishes: Vec<_> = power.map(Wish::Power).into();
    let url = "http://x/y.iso".to_owned();
    wishes.push(Wish::BootIntoIso { url });
    for wish in wishes {
        let mut bare = node("");
        bare.wish = Some(wish);
        store.create_node(&bare, &[]).await.unwrap();
        let read = store.node(&NodeRef::Id(bare.id)).await.unwrap().unwrap();
        assert_eq!(read.node, bare);
    }
    assert_eq!(store.node(&NodeRef::Id(NodeId::random())).await.unwrap(), None);
}

#[tokio::test]
async fn a_write_names_the_version_that_it_saw() {
    let site = Site::new();
    let store = site.open();
    let first = store.create_node(&node("n1"), &[]).await.unwrap();
    let mut mine = first.clone();
    mine.node.maintenance = true;
    let second = store.update_node(&mine, &Writer::User).await.unwrap();
    assert_eq!((first.version, second.version), (1, 2));
    assert_eq!(second.created_at, first.created_at);
    assert!(second.updated_at >= first.updated_at && second.node.maintenance);
    for stale in [0, 1, 3, u64::MAX] {
        let stale = Record {
            version: stale,
            ..second.clone()
        };
        let result = store.update_node(&stale, &Writer::User).await;
        assert!(matches!(result, Err(StoreError::VersionConflict { .. })));
        let result = store.delete_node(&stale).await;
        assert!(matches!(result, Err(StoreError::VersionConflict { .. })));
    }
    let read = store.node(&NodeRef::Id(first.node.id)).await.unwrap();
    assert_eq!(read.as_ref(), Some(&second));
    store.delete_node(&second).await.unwrap();
    let result = store.delete_node(&second).await;
    assert!(matches!(result, Err(StoreError::NotFound { .. })));
    let result = store.update_node(&second, &Writer::User).await;
    assert!(matches!(result, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn a_user_changes_neither_owner_nor_term() {
    let site = Site::new();
    let store = site.open();
    let (id, mine) = holding(&store, "c1", LONG).await;
    let mut forged = store.node(&NodeRef::Id(id)).await.unwrap().unwrap();
    forged.owner = Some(name("c9"));
    forged.term = 99;
    let written = store.update_node(&forged, &Writer::User).await.unwrap();
    assert_eq!((written.owner, written.term), (Some(name("c1")), mine.term));
}

#[tokio::test]
async fn names_ids_and_addresses_are_taken_once() {
    let site = Site::new();
    let store = site.open();
    let mut first = node("n1");
    first.id = "00000000-0000-4000-8000-000000000001".parse().unwrap();
    let address = "aa:bb:cc:00:00:01";
    let record = store
        .create_node(&first, &[port(first.id, "p1", address)])
        .await
        .unwrap();
    refused(
        store.create_node(&first, &[]).await,
        expect!["node UUID `00000000-0000-4000-8000-000000000001` is taken already by node `n1`"],
    );
    refused(
        store.create_node(&node("n1"), &[]).await,
        expect!["node name `n1` is taken already by node 00000000-0000-4000-8000-000000000001"],
    );
    let other = node("n2");
    refused(
        store.create_node(&other, &[port(other.id, "p2", address)]).await,
        expect![
            "MAC address `aa:bb:cc:00:00:01` is taken already by a port of node 00000000-0000-4000-8000-000000000001"
        ],
    );
    // Nothing of the refused node is left.
    assert_eq!(store.node(&NodeRef::Id(other.id)).await.unwrap(), None);
    refused(
        store.create_port(&port(first.id, "p1", "aa:bb:cc:00:00:02")).await,
        expect!["port UUID `p1` is taken already"],
    );
    let mut other = store.create_node(&other, &[]).await.unwrap();
    other.node.name = first.name.clone();
    refused(
        store.update_node(&other, &Writer::User).await,
        expect!["node name `n1` is taken already by node 00000000-0000-4000-8000-000000000001"],
    );
    // Once it is gone, all of it is free again.
    store.delete_node(&record).await.unwrap();
    store
        .create_node(&first, &[port(first.id, "p1", address)])
        .await
        .unwrap();
}

#[tokio::test]
async fn ports_lead_to_their_node_and_go_with_it() {
    let site = Site::new();
    let store = site.open();
    let (a, b) = (node("a"), node("b"));
    let record = store
        .create_node(&a, &[port(a.id, "p1", "aa:bb:cc:00:00:01")])
        .await
        .unwrap();
    store.create_node(&b, &[]).await.unwrap();
    let second = port(b.id, "p2", "aa:bb:cc:00:00:02");
    store.create_port(&second).await.unwrap();
    let macs: [MacAddress; 2] = ["aa:bb:cc:00:00:09", "aa:bb:cc:00:00:02"].map(|m| m.parse().unwrap());
    let found = store.node_by_macs(&macs).await.unwrap().unwrap();
    assert_eq!(found.node.id, b.id);
    assert_eq!(store.node_by_macs(&macs[..1]).await.unwrap(), None);
    assert_eq!(store.ports(None).await.unwrap().len(), 2);
    assert_eq!(store.ports(Some(&b.id)).await.unwrap(), [second]);
    store.delete_node(&record).await.unwrap();
    assert_eq!(store.ports(None).await.unwrap().len(), 1);
    store.delete_port("p2").await.unwrap();
    refused(store.delete_port("p2").await, expect!["there is no port `p2`"]);
    let orphan = store.create_port(&port(a.id, "p3", "aa:bb:cc:00:00:03")).await;
    assert!(matches!(orphan, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn lists_come_in_pages_filters_and_the_order_of_changes() {
    let site = Site::new();
    let store = site.open();
    let mut records = Vec::new();
    for k in 0..20 {
        let mut node = node("");
        node.maintenance = k % 4 == 0;
        if k % 2 == 0 {
            node.provision_state = ProvisionState::Active;
        }
        records.push(store.create_node(&node, &[]).await.unwrap());
    }
    let mut ids: Vec<_> = records.iter().map(|record| record.node.id).collect();
    let changed = store.nodes_changed_after(0, 1000).await.unwrap();
    let in_order: Vec<_> = changed.iter().map(|(_, record)| record.node.id).collect();
    assert_eq!(in_order, ids);
    let last = store.change_number().await.unwrap();
    assert_eq!(changed.last().unwrap().0, last);

    ids.sort();
    let mut paged = Vec::new();
    let mut filter = Filter {
        limit: Some(7),
        ..Filter::default()
    };
    loop {
        let page = store.nodes(&filter).await.unwrap();
        let Some(end) = page.last() else { break };
        filter.after = Some(end.node.id);
        paged.extend(page.into_iter().map(|record| record.node.id));
    }
    assert_eq!(paged, ids);
    let active = Filter {
        provision_state: Some(ProvisionState::Active),
        maintenance: Some(false),
        ..Filter::default()
    };
    assert_eq!(store.nodes(&active).await.unwrap().len(), 5);
    let counts = store.counts().await.unwrap();
    assert_eq!(counts, [("active", 10), ("enroll", 10)].into());

    store.update_node(&records[3], &Writer::User).await.unwrap();
    let changed = store.nodes_changed_after(last, 1000).await.unwrap();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].1.node.id, records[3].node.id);
    store.delete_node(&records[4]).await.unwrap();
    assert_eq!(store.change_number().await.unwrap(), last + 2);
}

#[tokio::test]
async fn giving_many_nodes_back_loses_none_between_two_pages_of_changes() {
    let site = Site::new();
    let store = site.open();
    store.join(&conductor("c1"), LONG).await.unwrap();
    for _ in 0..10 {
        let node = node("");
        store.create_node(&node, &[]).await.unwrap();
        store.claim(&node.id, &name("c1")).await.unwrap().unwrap();
    }
    let mut after = store.change_number().await.unwrap();
    store.leave(&name("c1")).await.unwrap();
    let mut seen = 0;
    loop {
        let page = store.nodes_changed_after(after, 3).await.unwrap();
        let Some((change, _)) = page.last() else {
            break;
        };
        after = *change;
        seen += page.len();
        assert!(page.iter().all(|(_, record)| record.owner.is_none()));
    }
    assert_eq!((seen, after), (10, store.change_number().await.unwrap()));
}

#[tokio::test]
async fn an_artefact_is_found_by_its_name_and_there_is_one_of_a_kind() {
    let site = Site::new();
    let store = site.open();
    let (id, mine) = holding(&store, "c1", LONG).await;
    let first = artefact(id, ArtefactKind::Floppy, "first");
    let mut second = artefact(id, ArtefactKind::Floppy, "second");
    second.expires = Some(SystemTime::now());
    let iso = artefact(id, ArtefactKind::BootIso, "iso");
    for each in [&first, &iso, &second] {
        store.put_artefact(each, &mine).await.unwrap();
    }
    let found = store.artefact_by_name(&second.name).await.unwrap();
    assert_eq!(found.as_ref(), Some(&second));
    assert_eq!(store.artefact_by_name(&first.name).await.unwrap(), None);
    assert_eq!(store.artefacts(&id).await.unwrap(), [iso.clone(), second.clone()]);
    for _ in 0..2 {
        store.remove_artefact(&id, ArtefactKind::Floppy, &mine).await.unwrap();
    }
    assert_eq!(
        store.artefacts(&id).await.unwrap().as_slice(),
        std::slice::from_ref(&iso)
    );
    let (other, theirs) = {
        let node = node("");
        store.create_node(&node, &[]).await.unwrap();
        let claim = store.claim(&node.id, &name("c1")).await.unwrap().unwrap();
        (node.id, tenure("c1", claim.record.term))
    };
    let stolen = artefact(other, ArtefactKind::BootIso, "iso");
    let result = store.put_artefact(&stolen, &theirs).await;
    assert!(matches!(result, Err(StoreError::Duplicate { .. })));
    assert_eq!(store.artefact_by_name(&iso.name).await.unwrap(), Some(iso));
}

#[tokio::test]
async fn a_plugins_value_is_compared_before_it_is_set() {
    let site = Site::new();
    let store = site.open();
    let node = node("");
    store.create_node(&node, &[]).await.unwrap();
    let put = |value: &'static str, expect| store.put_plugin_value(&node.id, "acme", "k", value, expect);
    assert_eq!(put("a", None).await.unwrap(), 1);
    refused(
        put("b", None).await,
        expect!["the value `k` has version 1, not the expected one"],
    );
    assert_eq!(put("b", Some(1)).await.unwrap(), 2);
    refused(
        put("c", Some(1)).await,
        expect!["the value `k` has version 2, not the expected one"],
    );
    let read = store.plugin_value(&node.id, "acme", "k").await.unwrap().unwrap();
    assert_eq!((read.version, read.value.as_str()), (2, "b"));
    assert_eq!(store.plugin_value(&node.id, "other", "k").await.unwrap(), None);
    for _ in 0..2 {
        store.delete_plugin_value(&node.id, "acme", "k").await.unwrap();
    }
    refused(
        put("c", Some(2)).await,
        expect!["the value `k` has version 0, not the expected one"],
    );
    let nobody = store.put_plugin_value(&NodeId::random(), "acme", "k", "", None).await;
    assert!(matches!(nobody, Err(StoreError::NotFound { .. })));
    let huge = "x".repeat(600_000);
    let result = store.put_plugin_value(&node.id, "acme", "h", &huge, None).await;
    refused(
        result,
        expect!["the value `h` is too big for the store: 600000 bytes of 524288 at most"],
    );
}

#[tokio::test]
async fn the_journal_keeps_what_may_have_happened_and_the_first_answer() {
    let site = Site::new();
    let store = site.open();
    let (id, mine) = holding(&store, "c1", LONG).await;
    let open = store.begin_effect(&id, &mine, "bmc.insert", "cdrom").await.unwrap();
    for _ in 0..150 {
        let effect = store.begin_effect(&id, &mine, "power.on", "").await.unwrap();
        store.end_effect(effect, &Outcome::Done).await.unwrap();
    }
    let effects = store.effects(&id, 1000).await.unwrap();
    assert!(effects.is_sorted_by_key(|effect| std::cmp::Reverse(effect.id)));
    let kept = effects.iter().find(|effect| effect.id == open).unwrap();
    assert_eq!((kept.outcome.as_ref(), kept.action.as_str()), (None, "bmc.insert"));
    assert!((100..=102).contains(&effects.len()), "{}", effects.len());
    assert_eq!(store.effects(&id, 5).await.unwrap().len(), 5);

    let failed = Outcome::Failed("hung up".into());
    store.end_effect(open, &failed).await.unwrap();
    store.end_effect(open, &Outcome::Done).await.unwrap();
    let effects = store.effects(&id, 1000).await.unwrap();
    let kept = effects.iter().find(|effect| effect.id == open).unwrap();
    assert_eq!(kept.outcome, Some(failed));
    assert_eq!(kept.tenure, mine);
    refused(
        store.end_effect(u64::MAX, &Outcome::Done).await,
        expect!["there is no effect `18446744073709551615`"],
    );
}

#[tokio::test]
async fn events_are_numbered_outlive_their_node_and_never_grow_long() {
    let site = Site::new();
    let store = site.open();
    let record = store.create_node(&node(""), &[]).await.unwrap();
    let id = record.node.id;
    let first = store
        .append_event(Some(&id), Some(&name("c1")), "provision-state", "to active")
        .await
        .unwrap();
    let second = store
        .append_event(None, None, "plugin-failed", &"é".repeat(10_000))
        .await
        .unwrap();
    assert!(second > first);
    store.delete_node(&record).await.unwrap();
    let of_node = store.events(Some(&id), 0, 10).await.unwrap();
    assert_eq!(of_node.len(), 1);
    assert_eq!(of_node[0].message, "to active");
    assert_eq!(of_node[0].conductor, Some(name("c1")));
    let later = store.events(None, first, 10).await.unwrap();
    assert_eq!(later.len(), 1);
    assert_eq!(later[0].message.chars().count(), 4096);
    assert_eq!(store.events(None, 0, 1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_record_that_could_not_be_read_back_is_not_written() {
    let site = Site::new();
    let store = site.open();
    let nested = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let mut deep = node("");
    deep.id = "00000000-0000-4000-8000-000000000001".parse().unwrap();
    deep.extra = [("x".to_owned(), nested)].into();
    refused(
        store.create_node(&deep, &[]).await,
        expect![
            "the record of node 00000000-0000-4000-8000-000000000001 is too big for the store: its fields are nested deeper than 64 levels"
        ],
    );
    let just = (0..63).fold(json!(1), |inner, _| json!([inner]));
    deep.extra = [("x".to_owned(), just)].into();
    let record = store.create_node(&deep, &[]).await.unwrap();
    assert_eq!(store.node(&NodeRef::Id(deep.id)).await.unwrap(), Some(record));
    let mut big = node("");
    big.extra = [("x".to_owned(), json!("x".repeat(2 << 20)))].into();
    let result = store.create_node(&big, &[]).await;
    let Err(StoreError::TooBig { reason, .. }) = result else {
        panic!("{result:?}");
    };
    assert!(reason.ends_with("bytes of 1048576 at most"), "{reason}");
}
