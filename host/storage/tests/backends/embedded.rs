//! The embedded backend: publishing, recalling, forgetting, counting.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use crate::common::{name, publication, without_sources};
use async_trait::async_trait;
use model::ArtefactName;
use proptest::prelude::*;
use storage::{
    Backend, Embedded, EmbeddedConfig, NoRecords, Part, Publication, Recall, RecallError, Recalled, Renewal, Standing,
    Stat, StorageError,
};

/// Records that a test writes, slow to read.
#[derive(Default)]
struct Records {
    rows: Mutex<Vec<Publication>>,
    broken: Mutex<bool>,
    /// Of every row.
    expires: Mutex<Option<SystemTime>>,
    recalls: AtomicUsize,
}

impl Records {
    fn find(&self, name: &ArtefactName) -> Result<Option<Publication>, RecallError> {
        if *self.broken.lock().unwrap() {
            let reason = "the database is away".into();
            return Err(RecallError { reason });
        }
        let rows = self.rows.lock().unwrap();
        Ok(rows.iter().find(|row| row.name == *name).cloned())
    }
}

#[async_trait]
impl Recall for Records {
    async fn recall(&self, name: &ArtefactName) -> Result<Option<Recalled>, RecallError> {
        self.recalls.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(self
            .find(name)?
            .map(|publication| Recalled::of(publication, *self.expires.lock().unwrap())))
    }

    async fn standing(&self, name: &ArtefactName) -> Result<Standing, RecallError> {
        Ok(match self.find(name)? {
            Some(_) => Standing::Recorded(*self.expires.lock().unwrap()),
            None => Standing::Gone,
        })
    }

    async fn part(&self, path: &str) -> Result<Option<Part>, RecallError> {
        let part = |range| {
            Some(Part {
                name: name(1, "img"),
                range,
            })
        };
        Ok(match path {
            "n1/config" => part(700..5700),
            "n1/beyond" => part(700..u64::MAX),
            _ => None,
        })
    }
}

fn backend(recall: Arc<dyn Recall>) -> Embedded {
    let base_url = "http://192.0.2.1:6386/images".into();
    Embedded::new(EmbeddedConfig { base_url, recall }).unwrap()
}

async fn bytes(backend: &Embedded, name: &ArtefactName) -> Option<Vec<u8>> {
    let served = backend.lookup(name).await.unwrap()?;
    let mut bytes = vec![0; usize::try_from(served.size()).unwrap()];
    served.read_at(0, &mut bytes).unwrap();
    Some(bytes)
}

#[tokio::test]
async fn what_is_published_is_found_under_its_url_until_it_is_withdrawn() {
    let backend = backend(Arc::new(NoRecords));
    let (iso, wanted) = publication(name(1, "iso"), 1);
    let published = backend.publish(&iso, None).await.unwrap();
    let url = published.url.expose();
    assert!(url.starts_with("http://192.0.2.1:6386/images/"), "{url}");
    let path = &url["http://192.0.2.1:6386".len()..];
    assert_eq!(backend.name_in(path), Some(iso.name.clone()));
    assert_eq!(bytes(&backend, &iso.name).await.as_ref(), Some(&wanted));
    assert_eq!(
        backend.stat(&iso.name).await.unwrap(),
        Stat::Present(wanted.len() as u64)
    );
    let renewal = backend.renew(&iso.name, Duration::from_secs(9)).await;
    assert!(matches!(renewal.unwrap(), Renewal::Extended(None)));
    for _ in 0..2 {
        backend.withdraw(&iso.name).await.unwrap();
        assert_eq!(bytes(&backend, &iso.name).await, None);
        assert_eq!(backend.stat(&iso.name).await.unwrap(), Stat::Absent);
    }
    let renewal = backend.renew(&iso.name, Duration::from_secs(9)).await;
    assert!(matches!(renewal.unwrap(), Renewal::Unsupported));
}

#[tokio::test]
async fn publishing_again_is_the_same_as_once_and_other_bytes_are_a_conflict() {
    let backend = backend(Arc::new(NoRecords));
    let (iso, wanted) = publication(name(1, "iso"), 1);
    let (other, _) = publication(name(1, "iso"), 2);
    let first = backend.publish(&iso, None).await.unwrap();
    let served = backend.lookup(&iso.name).await.unwrap().unwrap();
    let reader = IpAddr::V4(Ipv4Addr::LOCALHOST);
    served.reads.sent(10, 10, reader, SystemTime::now());
    let second = backend.publish(&iso, None).await.unwrap();
    assert_eq!(first.url, second.url);
    let conflict = backend.publish(&other, None).await.unwrap_err();
    assert!(matches!(conflict, StorageError::Conflict { .. }));
    assert_eq!(bytes(&backend, &iso.name).await, Some(wanted));
    // What was read before still counts.
    assert_eq!(backend.reads(&iso.name).unwrap().bytes, 10);
}

#[tokio::test]
async fn an_artefact_whose_source_is_gone_is_refused_before_any_bmc_asks() {
    let backend = backend(Arc::new(NoRecords));
    let (iso, _) = publication(name(1, "iso"), 1);
    let broken = without_sources(&iso);
    let error = backend.publish(&broken, None).await.unwrap_err();
    assert!(matches!(error, StorageError::Source(_)), "{error}");
    assert_eq!(backend.stat(&iso.name).await.unwrap(), Stat::Absent);
}

#[tokio::test(start_paused = true)]
async fn many_readers_of_a_recorded_artefact_recall_it_once() {
    let records = Arc::new(Records::default());
    let (iso, wanted) = publication(name(1, "iso"), 1);
    records.rows.lock().unwrap().push(iso.clone());
    let backend = backend(records.clone());
    let readers: Vec<_> = (0..50)
        .map(|_| {
            let (backend, name) = (backend.clone(), iso.name.clone());
            tokio::spawn(async move { bytes(&backend, &name).await })
        })
        .collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap().as_ref(), Some(&wanted));
    }
    assert_eq!(records.recalls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_whole_site_that_asks_at_once_after_a_take_over_is_served() {
    let records = Arc::new(Records::default());
    let backend = backend(records.clone());
    let names: Vec<_> = (0..200).map(|seed| name(seed, "iso")).collect();
    let all = names.iter().map(|name| publication(name.clone(), 1).0);
    records.rows.lock().unwrap().extend(all);
    let readers: Vec<_> = names
        .iter()
        .map(|name| {
            let (backend, name) = (backend.clone(), name.clone());
            tokio::spawn(async move { backend.lookup(&name).await.unwrap().is_some() })
        })
        .collect();
    for reader in readers {
        assert!(reader.await.unwrap());
    }
    assert_eq!(records.recalls.load(Ordering::SeqCst), 200);
}

#[tokio::test(start_paused = true)]
async fn a_recall_goes_on_when_its_reader_hangs_up() {
    let records = Arc::new(Records::default());
    let (iso, _) = publication(name(1, "iso"), 1);
    records.rows.lock().unwrap().push(iso.clone());
    let backend = backend(records.clone());
    let impatient = tokio::time::timeout(Duration::from_millis(10), backend.lookup(&iso.name));
    assert!(impatient.await.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let found = tokio::time::timeout(Duration::from_millis(10), backend.lookup(&iso.name)).await;
    assert!(found.unwrap().unwrap().is_some());
    assert_eq!(records.recalls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_name_is_not_asked_for_again_at_once_but_later() {
    let records = Arc::new(Records::default());
    let backend = backend(records.clone());
    let (iso, _) = publication(name(1, "iso"), 1);
    for _ in 0..20 {
        assert!(backend.lookup(&iso.name).await.unwrap().is_none());
    }
    assert_eq!(records.recalls.load(Ordering::SeqCst), 1);
    records.rows.lock().unwrap().push(iso.clone());
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(backend.lookup(&iso.name).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_artefact_withdrawn_while_it_is_recalled_does_not_come_back() {
    let records = Arc::new(Records::default());
    let (iso, _) = publication(name(1, "iso"), 1);
    records.rows.lock().unwrap().push(iso.clone());
    let backend = backend(records.clone());
    let reader = tokio::spawn({
        let (backend, name) = (backend.clone(), iso.name.clone());
        async move { backend.lookup(&name).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    backend.withdraw(&iso.name).await.unwrap();
    assert!(reader.await.unwrap().unwrap().is_none());
    assert!(backend.lookup(&iso.name).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_another_conductor_withdrew_is_served_no_longer_than_a_minute() {
    let records = Arc::new(Records::default());
    let backend = backend(records.clone());
    let (iso, _) = publication(name(1, "iso"), 1);
    let (floppy, _) = publication(name(2, "img"), 2);
    records.rows.lock().unwrap().extend([iso.clone(), floppy.clone()]);
    for artefact in [&iso, &floppy] {
        backend.publish(artefact, None).await.unwrap();
    }
    records.rows.lock().unwrap().retain(|row| row.name != floppy.name);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(backend.lookup(&floppy.name).await.unwrap().is_none());
    assert!(backend.lookup(&iso.name).await.unwrap().is_some());
    // The sweep does the same for what nobody asks for.
    records.rows.lock().unwrap().clear();
    tokio::time::sleep(Duration::from_secs(61)).await;
    backend.sweep().await;
    assert!(backend.all_reads().is_empty());
}

#[tokio::test(start_paused = true)]
async fn while_the_records_are_away_known_artefacts_are_served_and_others_are_an_error() {
    let records = Arc::new(Records::default());
    let backend = backend(records.clone());
    let (iso, _) = publication(name(1, "iso"), 1);
    backend.publish(&iso, None).await.unwrap();
    *records.broken.lock().unwrap() = true;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(backend.lookup(&iso.name).await.unwrap().is_some());
    let error = backend.lookup(&name(9, "iso")).await.err().unwrap();
    assert!(error.to_string().contains("database is away"), "{error}");
    // An error is not remembered as "unknown".
    *records.broken.lock().unwrap() = false;
    let (late, _) = publication(name(9, "iso"), 9);
    records.rows.lock().unwrap().push(late.clone());
    assert!(backend.lookup(&late.name).await.unwrap().is_some());
}

#[tokio::test]
async fn reads_are_counted_by_bytes_requests_reader_and_time() {
    let backend = backend(Arc::new(NoRecords));
    let (iso, _) = publication(name(1, "iso"), 1);
    assert_eq!(backend.reads(&iso.name), None);
    backend.publish(&iso, None).await.unwrap();
    let served = backend.lookup(&iso.name).await.unwrap().unwrap();
    let bmc = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
    let (begin, end) = (SystemTime::UNIX_EPOCH, SystemTime::now());
    served.reads.request(bmc);
    served.reads.sent(100, 100, bmc, begin);
    served.reads.request(bmc);
    served.reads.sent(50, 60, bmc, end);
    let count = backend.reads(&iso.name).unwrap();
    assert_eq!((count.bytes, count.requests, count.furthest), (150, 2, 100));
    assert_eq!((count.first, count.last), (Some(begin), Some(end)));
    assert_eq!(count.by, Some(bmc));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_partition_into_ranges_concatenates_to_the_image(mut cuts in prop::collection::vec(0..260_000usize, 0..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (iso, wanted) = publication(name(1, "iso"), 1);
        let backend = backend(Arc::new(NoRecords));
        let served = runtime.block_on(async {
            backend.publish(&iso, None).await.unwrap();
            backend.lookup(&iso.name).await.unwrap().unwrap()
        });
        cuts.retain(|cut| *cut <= wanted.len());
        cuts.extend([0, wanted.len()]);
        cuts.sort_unstable();
        let mut joined = Vec::new();
        for pair in cuts.windows(2) {
            let mut part = vec![0xAA; pair[1] - pair[0]];
            if !served.try_read_at(pair[0] as u64, &mut part).unwrap() {
                part.fill(0xAA);
                served.read_at(pair[0] as u64, &mut part).unwrap();
            }
            joined.extend_from_slice(&part);
        }
        prop_assert!(joined == wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_is_found_by_its_own_name_as_long_as_the_whole_is_on_record() {
    let records = Arc::new(Records::default());
    let backend = backend(Arc::clone(&records) as _);
    assert!(backend.part("/images/n1/config").await.unwrap().is_none());
    tokio::time::advance(Duration::from_secs(3)).await;
    let (publication, bytes) = publication(name(1, "img"), 7);
    records.rows.lock().unwrap().push(publication);
    for path in ["/images/n1/config", "/n1/config"] {
        let (served, range) = backend.part(path).await.unwrap().unwrap();
        assert_eq!(range, 700..5700);
        let etag = served.part_etag(&range);
        let resource = served.part(&range, &etag);
        assert_eq!((resource.size, resource.etag), (5000, etag.as_str()));
        assert_ne!(etag, served.part_etag(&(0..5000)), "other bytes have another tag");
        let mut buffer = vec![0; 5000];
        served.read_at(range.start, &mut buffer).unwrap();
        assert_eq!(buffer, bytes[700..5700]);
    }
    for path in [
        "/images/n1/beyond",
        "/images/",
        "/images",
        "/images/n1/other",
        "/other/n1/config",
        "",
        "/",
    ] {
        assert!(backend.part(path).await.unwrap().is_none(), "{path}");
    }
    assert_eq!(
        records.recalls.load(Ordering::SeqCst),
        2,
        "one that found nothing, one that did"
    );
    *records.broken.lock().unwrap() = true;
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(
        backend.part("/n1/config").await.unwrap().is_some(),
        "a server that boots needs its bytes now"
    );
}
