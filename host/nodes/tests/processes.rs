//! Several processes on one file: killed, stopped and crowded ones. Each child is this test binary, run again.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use model::NodeId;
use nodes::{Filter, NodeRef, Outcome, SqliteStore, Store, StoreError, Writer};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::json;

mod support;
use support::{LONG, Site, conductor, holding, name, node, open, tenure, until};

const FOLDER: &str = "FARRIER_TEST_STORE";
const LEASE: Duration = Duration::from_secs(4);

/// A child that is killed when the test ends, however it ends.
struct Other {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(test: &str, folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// What the child says next of this kind ("node 5" gives "5"); `None` once it is gone.
    fn hear(&mut self, kind: &str) -> Option<String> {
        let said = |line: String| line.strip_prefix(kind)?.strip_prefix(' ').map(str::to_owned);
        self.lines.by_ref().map_while(Result::ok).find_map(said)
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Returns once none of its threads runs any more.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let pid = Pid::from_child(&self.child);
        waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn store_of_parent() -> SqliteStore {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("run by a test of this file"));
    // Ends the line that the test harness has begun.
    say("");
    // Whatever becomes of the parent, a child does not stay.
    std::thread::spawn(|| {
        std::thread::sleep(LONG);
        std::process::exit(3);
    });
    open(&folder).unwrap()
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

/// Holds a node and writes it and its journal without end; says what was acknowledged.
#[tokio::test]
#[ignore = "a child of the tests below"]
async fn victim() {
    let store = store_of_parent();
    let (id, mine) = holding(&store, "victim", LEASE).await;
    say(&format!("node {id}"));
    let mut record = store.node(&NodeRef::Id(id)).await.unwrap().unwrap();
    for count in 1u64.. {
        let effect = match store.begin_effect(&id, &mine, "test", &count.to_string()).await {
            Ok(effect) => effect,
            Err(StoreError::LeaseLost { .. } | StoreError::StaleTerm { .. }) => {
                say("fenced yes");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        record.node.extra = [("count".to_owned(), json!(count))].into();
        record = match store.update_node(&record, &Writer::Conductor(mine.clone())).await {
            Ok(record) => record,
            Err(StoreError::LeaseLost { .. } | StoreError::StaleTerm { .. }) => {
                say("fenced yes");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        store.end_effect(effect, &Outcome::Done).await.unwrap();
        say(&format!("count {count}"));
        if count % 20 == 0 && store.keep_alive(&mine.conductor).await.is_err() {
            say("fenced yes");
            return;
        }
    }
}

/// Adds nodes without end.
#[tokio::test]
#[ignore = "a child of the tests below"]
async fn crowd() {
    let store = store_of_parent();
    for count in 1.. {
        store.create_node(&node(""), &[]).await.unwrap();
        if count % 10 == 0 {
            say(&format!("count {count}"));
        }
    }
}

fn victim_at_work(site: &Site, writes: u64) -> (Other, NodeId) {
    let mut victim = Other::start("victim", site.folder.path());
    let id = victim.hear("node").unwrap().parse().unwrap();
    while victim.hear("count").unwrap().parse::<u64>().unwrap() < writes {}
    (victim, id)
}

/// What the store holds of the victim's counting, checked to be of one piece.
async fn counted(store: &SqliteStore, id: NodeId) -> u64 {
    let record = store.node(&NodeRef::Id(id)).await.unwrap().unwrap();
    let count = record.node.extra["count"].as_u64().unwrap();
    assert_eq!(record.version, 2 + count);
    let newest = &store.effects(&id, 1).await.unwrap()[0];
    let journalled: u64 = newest.detail.parse().unwrap();
    assert!((count..=count + 1).contains(&journalled));
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_nothing_acknowledged_is_lost_and_the_node_is_taken_over_once_the_lease_is_over() {
    let site = Site::new();
    let store = site.open();
    store.join(&conductor("heir"), LONG).await.unwrap();
    let (mut victim, id) = victim_at_work(&site, 100);
    assert_eq!(store.claim(&id, &name("heir")).await.unwrap(), None);
    victim.signal(Signal::KILL);
    // What it said before counts too: it may not come to say more.
    let mut acknowledged = 100;
    while let Some(count) = victim.hear("count") {
        acknowledged = count.parse().unwrap();
    }
    // Dead, but its lease is not over: a late request of its may still be on the way to a BMC.
    assert_eq!(store.claim(&id, &name("heir")).await.unwrap(), None);
    let count = counted(&store, id).await;
    assert!(
        (acknowledged..=acknowledged + 1).contains(&count),
        "{acknowledged} {count}"
    );

    let mut claim = None;
    until("the lease runs out", async || {
        claim = store.claim(&id, &name("heir")).await.unwrap();
        claim.is_some()
    })
    .await;
    let claim = claim.unwrap();
    assert_eq!((claim.record.term, claim.predecessor), (2, Some(name("victim"))));
    assert_eq!(claim.predecessor_lease_left, Duration::ZERO);
    let effect = store.begin_effect(&id, &tenure("heir", 2), "test", "0").await;
    effect.unwrap();
    let stale = store.begin_effect(&id, &tenure("heir", 1), "test", "0").await;
    assert!(matches!(stale, Err(StoreError::StaleTerm { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conductor_that_was_killed_comes_back_at_once_under_its_name_and_takes_its_nodes_anew() {
    let site = Site::new();
    let store = site.open();
    let (victim, id) = victim_at_work(&site, 20);
    let taken = store.join(&conductor("victim"), LONG).await;
    assert!(matches!(taken, Err(StoreError::NameInUse { .. })));
    victim.signal(Signal::KILL);
    // Until the kernel has carried it out; much less than the lease.
    until("the name is free", async || {
        store.join(&conductor("victim"), LONG).await.is_ok()
    })
    .await;
    let claim = store.claim(&id, &name("victim")).await.unwrap().unwrap();
    assert_eq!((claim.record.term, claim.predecessor), (2, Some(name("victim"))));
    let left = claim.predecessor_lease_left;
    assert!(left > Duration::ZERO && left <= LEASE, "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_slept_past_its_lease_writes_nothing_when_it_wakes() {
    let site = Site::new();
    let store = site.open();
    store.join(&conductor("heir"), LONG).await.unwrap();
    let (mut victim, id) = victim_at_work(&site, 20);
    // Not while it holds the lock, which it would keep: nobody else could write.
    let lock = rusqlite::Connection::open(site.path()).unwrap();
    lock.busy_timeout(LONG).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    victim.stop();
    lock.execute_batch("ROLLBACK").unwrap();
    // A stopped process is alive: its name is not free.
    let taken = store.join(&conductor("victim"), LONG).await;
    assert!(matches!(taken, Err(StoreError::NameInUse { .. })));
    until("the lease runs out", async || {
        store.claim(&id, &name("heir")).await.unwrap().is_some()
    })
    .await;
    let before = store.node(&NodeRef::Id(id)).await.unwrap();
    victim.signal(Signal::CONT);
    assert_eq!(victim.hear("fenced").as_deref(), Some("yes"));
    assert_eq!(store.node(&NodeRef::Id(id)).await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_writers_beside_two_writing_processes_all_get_their_turn() {
    const WRITERS: usize = 200;
    const EACH: usize = 5;
    let site = Site::new();
    let store = Arc::new(site.open());
    let mut others: Vec<_> = (0..2).map(|_| Other::start("crowd", site.folder.path())).collect();
    for other in &mut others {
        other.hear("count").unwrap();
    }
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            let mut record = store.create_node(&node(""), &[]).await.unwrap();
            for _ in 1..EACH {
                record = store.update_node(&record, &Writer::User).await.unwrap();
            }
            record.node.id
        });
    }
    let mine = writers.join_all().await;
    // They still write, so they met no error.
    for other in &mut others {
        other.hear("count").unwrap();
    }
    drop(others);
    let records = store.nodes(&Filter::default()).await.unwrap();
    let written = |record: &&nodes::Record| mine.contains(&record.node.id);
    let mine_now: Vec<_> = records.iter().filter(written).collect();
    assert_eq!(mine_now.len(), WRITERS);
    assert!(mine_now.iter().all(|record| record.version == 5));
    assert_eq!(
        store.change_number().await.unwrap(),
        (records.len() + WRITERS * (EACH - 1)) as u64
    );
}
