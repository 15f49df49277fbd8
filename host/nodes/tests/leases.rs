//! Who may write: versions, terms and leases, in tables and against a model.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use expect_test::expect;
use model::{ArtefactKind, NodeId, Tenure};
use nodes::{NodeRef, Record, SqliteStore, Store, StoreError, Writer};
use proptest::prelude::*;

mod support;
use support::{LONG, Site, artefact, conductor, holding, name, node, tenure, until};

/// As if the lease had run out.
fn lapse(site: &Site, who: &str) {
    let db = rusqlite::Connection::open(site.path()).unwrap();
    db.busy_timeout(LONG).unwrap();
    let sql = "UPDATE conductor SET lease_end = 1 WHERE name = ?1";
    assert_eq!(db.execute(sql, [who]).unwrap(), 1);
}

#[tokio::test]
async fn a_live_conductors_name_is_refused_to_others_and_free_once_its_lease_ran_out() {
    let site = Site::new();
    let (first, second) = (site.open(), site.open());
    first.join(&conductor("c1"), LONG).await.unwrap();
    let refusal = second.join(&conductor("c1"), LONG).await.unwrap_err();
    expect!["a conductor named `c1` is alive already; give this one another [conductor] name or stop the other"]
        .assert_eq(&refusal.to_string());
    // Joining again through the same object is one's own affair.
    first.join(&conductor("c1"), LONG).await.unwrap();
    lapse(&site, "c1");
    second.join(&conductor("c1"), LONG).await.unwrap();
    let lost = first.keep_alive(&name("c1")).await;
    assert!(matches!(lost, Err(StoreError::LeaseLost { .. })));
    second.keep_alive(&name("c1")).await.unwrap();
    second.leave(&name("c1")).await.unwrap();
    first.join(&conductor("c1"), LONG).await.unwrap();
}

#[tokio::test]
async fn a_lease_lasts_as_long_as_it_is_kept_alive_and_no_longer() {
    let site = Site::new();
    let store = site.open();
    let lease = Duration::from_millis(600);
    store.join(&conductor("c1"), lease).await.unwrap();
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let left = store.keep_alive(&name("c1")).await.unwrap();
        assert!(left <= lease && left > Duration::ZERO);
    }
    assert!(store.conductors().await.unwrap()[0].alive);
    until("the lease runs out", async || {
        !store.conductors().await.unwrap()[0].alive
    })
    .await;
    let refusal = store.keep_alive(&name("c1")).await.unwrap_err();
    expect!["the lease of conductor c1 ran out"].assert_eq(&refusal.to_string());
}

#[tokio::test]
async fn a_keep_alive_counts_from_before_it_had_to_wait() {
    let site = Site::new();
    let store = site.open();
    store.join(&conductor("c1"), LONG).await.unwrap();
    let blocker = rusqlite::Connection::open(site.path()).unwrap();
    blocker.busy_timeout(LONG).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = Instant::now();
    let waiting = tokio::spawn(async move { store.keep_alive(&name("c1")).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    blocker.execute_batch("COMMIT").unwrap();
    let left = waiting.await.unwrap().unwrap();
    assert!(left <= LONG - Duration::from_millis(300), "{left:?}");
    assert!(left + began.elapsed() >= LONG - Duration::from_millis(100));
}

#[tokio::test]
async fn conductors_that_live_agree_on_the_agents_urls() {
    let site = Site::new();
    let store = site.open();
    store.join(&conductor("c1"), LONG).await.unwrap();
    let mut other = conductor("c2");
    other.agent_urls = vec!["http://10.0.0.9:6387".into()];
    let refusal = store.join(&other, LONG).await.unwrap_err();
    expect![[r#"[agent] urls differ: this conductor has ["http://10.0.0.9:6387"], the site has ["http://127.0.0.1:6387"]; make them equal"#]]
        .assert_eq(&refusal.to_string());
    store.join(&conductor("c3"), LONG).await.unwrap();
    store.leave(&name("c1")).await.unwrap();
    store.leave(&name("c3")).await.unwrap();
    store.join(&other, LONG).await.unwrap();
    let alive: Vec<_> = store.conductors().await.unwrap();
    let alive: Vec<_> = alive.iter().map(|c| (c.name.as_str(), c.alive)).collect();
    assert_eq!(alive, [("c1", false), ("c2", true), ("c3", false)]);
}

#[tokio::test]
async fn a_node_is_claimed_from_nobody_or_from_the_dead_and_its_term_rises() {
    let site = Site::new();
    let store = site.open();
    let (id, first) = holding(&store, "c1", LONG).await;
    store.join(&conductor("c2"), LONG).await.unwrap();
    assert_eq!(first.term, 1);
    // Somebody alive holds it.
    assert_eq!(store.claim(&id, &name("c2")).await.unwrap(), None);
    // Its holder may ask again.
    let again = store.claim(&id, &name("c1")).await.unwrap().unwrap();
    assert_eq!((again.record.term, again.predecessor), (1, None));
    // Given back: no predecessor.
    store.release(&id, &first).await.unwrap();
    let claim = store.claim(&id, &name("c2")).await.unwrap().unwrap();
    assert_eq!((claim.record.term, claim.predecessor), (2, None));
    assert_eq!(claim.record.owner, Some(name("c2")));
    // Left behind by the dead.
    lapse(&site, "c2");
    let claim = store.claim(&id, &name("c1")).await.unwrap().unwrap();
    assert_eq!((claim.record.term, claim.predecessor), (3, Some(name("c2"))));
    assert_eq!(claim.predecessor_lease_left, Duration::ZERO);
    // Left in order: no predecessor.
    store.leave(&name("c1")).await.unwrap();
    store.join(&conductor("c3"), LONG).await.unwrap();
    let claim = store.claim(&id, &name("c3")).await.unwrap().unwrap();
    assert_eq!((claim.record.term, claim.predecessor), (4, None));
    // The dead claim nothing, and nothing is claimed that is not there.
    let dead = store.claim(&id, &name("c2")).await;
    assert!(matches!(dead, Err(StoreError::LeaseLost { .. })));
    let nothing = store.claim(&NodeId::random(), &name("c3")).await;
    assert!(matches!(nothing, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn who_comes_back_after_its_lease_ran_out_has_to_take_its_nodes_anew() {
    let site = Site::new();
    let store = site.open();
    let (id, old) = holding(&store, "c1", LONG).await;
    lapse(&site, "c1");
    store.join(&conductor("c1"), LONG).await.unwrap();
    let late = store.begin_effect(&id, &old, "power.on", "").await;
    assert!(matches!(late, Err(StoreError::StaleTerm { .. })));
    let claim = store.claim(&id, &name("c1")).await.unwrap().unwrap();
    assert_eq!((claim.record.term, claim.predecessor), (2, Some(name("c1"))));
    let late = store.begin_effect(&id, &old, "power.on", "").await;
    assert!(matches!(late, Err(StoreError::StaleTerm { .. })));
    let new = tenure("c1", 2);
    store.begin_effect(&id, &new, "power.on", "").await.unwrap();
}

/// Every write that a conductor can do.
async fn every_write(store: &SqliteStore, id: NodeId, by: &Tenure) -> Vec<(&'static str, bool, String)> {
    let record = store.node(&NodeRef::Id(id)).await.unwrap().unwrap();
    let floppy = artefact(id, ArtefactKind::Floppy, "f");
    let results = [
        (
            "update",
            store
                .update_node(&record, &Writer::Conductor(by.clone()))
                .await
                .map(drop),
        ),
        ("begin", store.begin_effect(&id, by, "a", "d").await.map(drop)),
        ("put", store.put_artefact(&floppy, by).await),
        ("remove", store.remove_artefact(&id, ArtefactKind::Floppy, by).await),
        ("release", store.release(&id, by).await),
    ];
    let told = |result: Result<(), StoreError>| match result {
        Ok(()) => (true, String::new()),
        Err(error) => (false, error.to_string()),
    };
    results
        .into_iter()
        .map(|(what, result)| {
            let (ok, text) = told(result);
            (what, ok, text)
        })
        .collect()
}

#[tokio::test]
async fn no_conductor_writes_without_owner_term_and_lease() {
    let site = Site::new();
    let (store, elsewhere) = (site.open(), site.open());
    let (id, mine) = holding(&store, "c1", LONG).await;
    store.join(&conductor("c2"), LONG).await.unwrap();
    let none_works = async |store: &SqliteStore, by: Tenure, because: &str| {
        for (what, ok, text) in every_write(store, id, &by).await {
            assert!(!ok && text.contains(because), "{what} by {by:?}: {text}");
        }
    };
    none_works(&store, tenure("c1", mine.term + 1), "no longer holds").await;
    none_works(&store, tenure("c1", 0), "no longer holds").await;
    none_works(&store, tenure("c1", u64::MAX), "no longer holds").await;
    none_works(&store, tenure("c2", mine.term), "no longer holds").await;
    none_works(&store, tenure("c9", mine.term), "ran out").await;
    // Right name and term, but it is not the process that joined.
    none_works(&elsewhere, mine.clone(), "ran out").await;
    lapse(&site, "c1");
    none_works(&store, mine.clone(), "ran out").await;
    let record = store.node(&NodeRef::Id(id)).await.unwrap().unwrap();
    assert_eq!((record.version, record.owner), (2, Some(name("c1"))));
    assert!(store.effects(&id, 9).await.unwrap().is_empty());

    let claim = store.claim(&id, &name("c2")).await.unwrap().unwrap();
    let theirs = tenure("c2", claim.record.term);
    for (what, ok, text) in every_write(&store, id, &theirs).await {
        assert!(ok, "{what}: {text}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Join(usize),
    Leave(usize),
    Lapse(usize),
    Claim(usize),
    Release(usize),
    /// With the record and the tenure that it saw last.
    Write(usize),
    UserWrite,
    Read(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let who = 0..3usize;
    prop_oneof![
        who.clone().prop_map(Op::Join),
        who.clone().prop_map(Op::Leave),
        who.clone().prop_map(Op::Lapse),
        who.clone().prop_map(Op::Claim),
        who.clone().prop_map(Op::Claim),
        who.clone().prop_map(Op::Release),
        who.clone().prop_map(Op::Write),
        who.clone().prop_map(Op::Write),
        Just(Op::UserWrite),
        who.prop_map(Op::Read),
    ]
}

/// What must be true, told as simply as it goes.
#[derive(Default)]
struct Model {
    version: u64,
    term: u64,
    /// Conductor and its run.
    owner: Option<(usize, u64)>,
    /// Run of each live conductor.
    alive: BTreeMap<usize, u64>,
    runs: u64,
    /// Record and term of its last claim or read.
    seen: BTreeMap<usize, Record>,
    tenure: BTreeMap<usize, u64>,
}

impl Model {
    fn holds(&self, who: usize) -> bool {
        let run = self.alive.get(&who);
        run.is_some_and(|run| self.owner == Some((who, *run))) && self.tenure.get(&who) == Some(&self.term)
    }
}

async fn replay(ops: &[Op]) {
    let site = Site::new();
    let store = site.open();
    let node = node("");
    let id = node.id;
    store.create_node(&node, &[]).await.unwrap();
    let mut model = Model {
        version: 1,
        ..Model::default()
    };
    let names = ["c0", "c1", "c2"];
    for op in ops {
        match *op {
            Op::Join(who) => {
                store.join(&conductor(names[who]), LONG).await.unwrap();
                model.runs += 1;
                model.alive.insert(who, model.runs);
            }
            Op::Leave(who) => {
                store.leave(&name(names[who])).await.unwrap();
                if let Some(run) = model.alive.remove(&who)
                    && model.owner == Some((who, run))
                {
                    model.owner = None;
                    model.version += 1;
                }
            }
            Op::Lapse(who) => {
                if model.alive.remove(&who).is_some() {
                    lapse(&site, names[who]);
                }
            }
            Op::Claim(who) => {
                let result = store.claim(&id, &name(names[who])).await;
                let Some(run) = model.alive.get(&who).copied() else {
                    assert!(matches!(result, Err(StoreError::LeaseLost { .. })));
                    continue;
                };
                let claim = result.unwrap();
                let holder_lives = |(holder, run): (usize, u64)| model.alive.get(&holder) == Some(&run);
                let expected = match model.owner {
                    Some(owner) if owner == (who, run) => Some(None),
                    Some(owner) if holder_lives(owner) => None,
                    Some((dead, _)) => Some(Some(name(names[dead]))),
                    None => Some(None),
                };
                assert_eq!(claim.as_ref().map(|claim| claim.predecessor.clone()), expected);
                if let Some(claim) = claim {
                    if model.owner != Some((who, run)) {
                        model.owner = Some((who, run));
                        model.term += 1;
                        model.version += 1;
                    }
                    model.tenure.insert(who, claim.record.term);
                    model.seen.insert(who, claim.record);
                }
            }
            Op::Release(who) => {
                let term = model.tenure.get(&who).copied().unwrap_or(0);
                let result = store.release(&id, &tenure(names[who], term)).await;
                assert_eq!(result.is_ok(), model.holds(who), "{result:?}");
                if result.is_ok() {
                    model.owner = None;
                    model.version += 1;
                }
            }
            Op::Write(who) => {
                let Some(seen) = model.seen.get(&who).cloned() else {
                    continue;
                };
                let term = model.tenure.get(&who).copied().unwrap_or(0);
                let writer = Writer::Conductor(tenure(names[who], term));
                let result = store.update_node(&seen, &writer).await;
                let allowed = model.holds(who) && seen.version == model.version;
                assert_eq!(result.is_ok(), allowed, "{result:?}");
                if let Ok(record) = result {
                    model.version += 1;
                    model.seen.insert(who, record);
                }
            }
            Op::UserWrite => {
                let record = store.node(&NodeRef::Id(id)).await.unwrap().unwrap();
                store.update_node(&record, &Writer::User).await.unwrap();
                model.version += 1;
            }
            Op::Read(who) => {
                let record = store.node(&NodeRef::Id(id)).await.unwrap().unwrap();
                model.seen.insert(who, record);
            }
        }
        let record = store.node(&NodeRef::Id(id)).await.unwrap().unwrap();
        assert_eq!((record.version, record.term), (model.version, model.term));
        let owner = model.owner.map(|(who, _)| name(names[who]));
        assert_eq!(record.owner, owner);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_course_of_joins_lapses_claims_and_writes_goes_as_the_rules_say(
        ops in proptest::collection::vec(op(), 1..60)
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(replay(&ops));
    }
}
