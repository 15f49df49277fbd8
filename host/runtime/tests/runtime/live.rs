//! The live world over doubles that keep everything in memory: what is published, recorded, journalled and inserted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bmc::{Bmc, BmcError, InsertMedia, RawReply};
use image::{Content, MemorySource, Recipe, SourceFile, SourceMap};
use model::{
    ArtefactKind, ArtefactName, BmcAddress, BootDevice, BootMode, Device, Media, Node, NodeId, PowerAction, PowerState,
    ProvisionState, Secret, ServerIdentity, Sha256, Tenure,
};
use runtime::live::{
    Artefact, Artefacts, BootMaterial, BootParts, BootSources, Journal, Live, LiveWorld, Material, Readers, Servers,
    SiteBackend, State,
};
use runtime::{CallError, DriverError, IsoSource, Runtime, RuntimeConfig, Unobserved, Versioned};
use sha2::Digest as _;
use storage::{Backend, Publication, Published, Reader, Renewal, Stat, StorageError, Watched};

use crate::support::{context, hostile, node, parameters};

#[derive(Clone, Default)]
struct Doubles(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    artefacts: BTreeMap<ArtefactKind, Artefact>,
    served: BTreeMap<String, Vec<u8>>,
    journal: Vec<(String, Option<Result<(), String>>)>,
    slots: BTreeMap<&'static str, String>,
    boot_device: Option<(BootDevice, bool)>,
    full: bool,
    /// Publishing never ends.
    stuck: bool,
    licence: bool,
}

impl Doubles {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap()
    }

    async fn runtime(&self, plugins: Vec<runtime::PluginConfig>) -> Runtime {
        self.runtime_with(plugins, vec![]).await
    }

    /// With more backends than its own, which is the first.
    async fn runtime_with(&self, plugins: Vec<runtime::PluginConfig>, more: Vec<SiteBackend>) -> Runtime {
        self.kept().licence = true;
        let world = LiveWorld {
            journal: Arc::new(self.clone()),
            state: Arc::new(self.clone()),
            servers: Arc::new(self.clone()),
            artefacts: Arc::new(self.clone()),
            boot_sources: Arc::new(self.clone()),
            readers: Arc::new(self.clone()),
            backends: std::iter::once(self.backend("local")).chain(more).collect(),
        };
        let config = RuntimeConfig {
            plugins,
            ..RuntimeConfig::default()
        };
        Runtime::new(
            crate::support::engine(),
            config,
            Arc::new(Live(Arc::new(world))),
            Arc::new(Unobserved),
        )
        .await
        .unwrap()
    }
}

impl Doubles {
    fn backend(&self, id: &str) -> SiteBackend {
        SiteBackend {
            id: id.into(),
            kind: "memory".into(),
            backend: Arc::new(Watched::new(Arc::new(self.clone()))),
            max_lifetime: None,
            traits: vec![],
            takes: Arc::new(|_| true),
        }
    }
}

#[async_trait]
impl Readers for Doubles {
    async fn reader(&self, _: &Node) -> Reader {
        Reader::default()
    }
}

#[async_trait]
impl Journal for Doubles {
    async fn begin(&self, _: &NodeId, tenure: &Tenure, action: &str, detail: &str) -> Result<u64, DriverError> {
        assert_eq!(tenure.term, 1);
        let mut kept = self.kept();
        kept.journal.push((format!("{action} {detail}"), None));
        Ok(kept.journal.len() as u64 - 1)
    }

    async fn end(&self, effect: u64, outcome: Result<(), String>) {
        self.kept().journal[usize::try_from(effect).unwrap()].1 = Some(outcome);
    }
}

#[async_trait]
impl State for Doubles {
    async fn get(&self, _: &NodeId, _: &str, _: &str) -> Result<Option<Versioned>, DriverError> {
        Ok(None)
    }

    async fn put(&self, _: &NodeId, _: &str, _: &str, _: &str, _: Option<u64>) -> Result<u64, DriverError> {
        Ok(1)
    }

    async fn delete(&self, _: &NodeId, _: &str, _: &str) -> Result<(), DriverError> {
        Ok(())
    }
}

#[async_trait]
impl Artefacts for Doubles {
    async fn record(&self, artefact: &Artefact, _: &Tenure) -> Result<(), DriverError> {
        self.kept().artefacts.insert(artefact.kind, artefact.clone());
        Ok(())
    }

    async fn find(&self, _: &NodeId, kind: ArtefactKind) -> Result<Option<Artefact>, DriverError> {
        Ok(self.kept().artefacts.get(&kind).cloned())
    }

    async fn remove(&self, _: &NodeId, kind: ArtefactKind, _: &Tenure) -> Result<(), DriverError> {
        self.kept().artefacts.remove(&kind);
        Ok(())
    }
}

#[async_trait]
impl BootSources for Doubles {
    async fn resolve(&self, _: &Node, source: &IsoSource) -> Result<Material, DriverError> {
        if !matches!(source, IsoSource::Deploy) {
            return Err(DriverError::NotFound("instance_info has no kernel".into()));
        }
        let mut sources = SourceMap::default();
        let mut references = BTreeMap::new();
        let mut add = |name: &str, bytes: Vec<u8>| {
            let sha256 = Sha256(sha2::Sha256::digest(&bytes).into());
            let file = SourceFile {
                sha256,
                len: bytes.len() as u64,
            };
            sources.insert(sha256, Arc::new(MemorySource(bytes.into())));
            references.insert(sha256, format!("https://images.example/{name}"));
            file
        };
        let parts = BootParts {
            kernel: add("kernel", vec![1; 5000]),
            ramdisk: add("ramdisk", vec![2; 9000]),
            isolinux: None,
            ldlinux: None,
            esp: Some(Content::Source(add("esp", vec![3; 4096]))),
            grub_config_path: image::GRUB_CONFIG_PATH.into(),
        };
        Ok(Material {
            boot: BootMaterial::Parts(Box::new(parts)),
            references,
            sources: Arc::new(sources),
        })
    }
}

#[async_trait]
impl Backend for Doubles {
    async fn publish(&self, publication: &Publication, lifetime: Option<Duration>) -> Result<Published, StorageError> {
        if self.kept().stuck {
            self.kept()
                .served
                .insert(publication.name.expose().to_owned(), Vec::new());
            std::future::pending::<()>().await;
        }
        if self.kept().full {
            return Err(StorageError::Full {
                place: "/httpboot".into(),
                remedy: "free some space".into(),
            });
        }
        let mut bytes = vec![0; usize::try_from(publication.layout.size()).unwrap()];
        publication
            .layout
            .read_at(&*publication.sources, 0, &mut bytes)
            .unwrap();
        let name = publication.name.expose().to_owned();
        let url = Secret::new(format!("http://192.0.2.9:6386/i/{name}"));
        self.kept().served.insert(name, bytes);
        Ok(Published {
            url,
            expires: lifetime.map(|lifetime| SystemTime::now() + lifetime),
        })
    }

    async fn withdraw(&self, name: &ArtefactName) -> Result<(), StorageError> {
        self.kept().served.remove(name.expose());
        Ok(())
    }

    async fn stat(&self, name: &ArtefactName) -> Result<Stat, StorageError> {
        Ok(self
            .kept()
            .served
            .get(name.expose())
            .map_or(Stat::Absent, |bytes| Stat::Present(bytes.len() as u64)))
    }

    async fn renew(&self, _: &ArtefactName, _: Duration) -> Result<Renewal, StorageError> {
        Ok(Renewal::Unsupported)
    }

    async fn check(&self) -> Result<(), StorageError> {
        Ok(())
    }
}

#[async_trait]
impl Servers for Doubles {
    async fn bmc(&self, _: &Node, _: &Tenure) -> Result<Arc<dyn Bmc>, DriverError> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl Bmc for Doubles {
    async fn identity(&self) -> Result<ServerIdentity, BmcError> {
        Ok(ServerIdentity::default())
    }

    async fn power_state(&self) -> Result<PowerState, BmcError> {
        Ok(PowerState::Off)
    }

    async fn set_power(&self, _: PowerAction) -> Result<(), BmcError> {
        panic!("power is the conductor's");
    }

    async fn media(&self, device: Device) -> Result<Media, BmcError> {
        let url = self.kept().slots.get(device.as_str()).cloned();
        Ok(Media {
            inserted: url.is_some(),
            connected: url.is_some(),
            write_protected: true,
            url,
        })
    }

    async fn insert_media(&self, device: Device, image: &InsertMedia) -> Result<(), BmcError> {
        let mut kept = self.kept();
        if !kept.licence {
            return Err(BmcError::License {
                address: BmcAddress("https://192.0.2.1".into()),
                action: "insert media",
            });
        }
        kept.slots.insert(device.as_str(), image.url.expose().to_owned());
        Ok(())
    }

    async fn eject_media(&self, device: Device) -> Result<(), BmcError> {
        self.kept().slots.remove(device.as_str());
        Ok(())
    }

    async fn set_boot_device(&self, device: BootDevice, persistent: bool) -> Result<(), BmcError> {
        self.kept().boot_device = Some((device, persistent));
        Ok(())
    }

    async fn boot_mode(&self) -> Result<BootMode, BmcError> {
        Ok(BootMode::Uefi)
    }

    async fn set_boot_mode(&self, _: BootMode) -> Result<(), BmcError> {
        Ok(())
    }

    async fn secure_boot(&self) -> Result<bool, BmcError> {
        Ok(false)
    }

    async fn set_secure_boot(&self, _: bool) -> Result<(), BmcError> {
        Ok(())
    }

    async fn raw_redfish(&self, _: &str, _: &str, _: Option<&str>) -> Result<RawReply, BmcError> {
        let kept = self.kept();
        let body = serde_json::json!({ "Image": kept.slots.get("cdrom") }).to_string();
        let session = ("X-Auth-Token".to_owned(), "s3ssion".to_owned());
        Ok(RawReply {
            status: 200,
            headers: vec![session],
            body: body.replace('/', "\\/"),
        })
    }

    async fn close(&self) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ramdisk_finds_its_parameters_and_its_token_on_the_floppy() {
    let doubles = Doubles::default();
    let runtime = doubles.runtime(vec![]).await;
    let context = context(node(ProvisionState::Deploying));
    runtime.prepare_ramdisk(&context, &parameters()).await.result.unwrap();
    let kept = doubles.kept();
    let floppy = &kept.artefacts[&ArtefactKind::Floppy];
    assert_eq!(kept.slots["floppy"], floppy.url.expose());
    assert_eq!(kept.slots["cdrom"], kept.artefacts[&ArtefactKind::BootIso].url.expose());
    assert_eq!(kept.boot_device, Some((BootDevice::Cdrom, false)));
    let bytes = &kept.served[floppy.name.expose()];
    let text = String::from_utf8_lossy(bytes);
    assert!(text.contains("ipa-api-url=http://192.0.2.9:6387\nipa-agent-token=t0ken\n"));
    // Half an hour of waiting and ten minutes before it.
    let left = floppy.expires.unwrap().duration_since(SystemTime::now()).unwrap();
    assert!(left > Duration::from_secs(2390), "{left:?}");
    assert!(kept.journal.iter().all(|(_, outcome)| *outcome == Some(Ok(()))));
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_journal_nor_records_that_people_see_hold_a_secret() {
    let doubles = Doubles::default();
    let runtime = doubles.runtime(vec![]).await;
    runtime
        .prepare_ramdisk(&context(node(ProvisionState::Deploying)), &parameters())
        .await
        .result
        .unwrap();
    let kept = doubles.kept();
    let shown = format!("{:?} {:?}", kept.journal, kept.artefacts);
    for artefact in kept.artefacts.values() {
        assert!(!shown.contains(artefact.name.expose()), "{shown}");
    }
    assert!(!shown.contains("t0ken") && !shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("storage.publish floppy sha256:"), "{shown}");
    assert!(
        shown.contains("bmc.insert floppy <- http://192.0.2.9:6386/***.img"),
        "{shown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_recipe_makes_the_published_bytes_again() {
    let doubles = Doubles::default();
    let runtime = doubles.runtime(vec![]).await;
    runtime
        .prepare_ramdisk(&context(node(ProvisionState::Deploying)), &parameters())
        .await
        .result
        .unwrap();
    let iso = doubles.kept().artefacts[&ArtefactKind::BootIso].clone();
    let recipe = Recipe::from_json(iso.recipe.expose().as_bytes()).unwrap();
    let layout = recipe.layout().unwrap();
    let sources = doubles
        .resolve(&node(ProvisionState::Deploying), &IsoSource::Deploy)
        .await
        .unwrap()
        .sources;
    let mut bytes = vec![0; usize::try_from(layout.size()).unwrap()];
    layout.read_at(&*sources, 0, &mut bytes).unwrap();
    assert_eq!(bytes, doubles.kept().served[iso.name.expose()]);
    assert_eq!((layout.digest(), layout.size()), (iso.digest, iso.size));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_image_keeps_its_name_and_another_replaces_it() {
    let doubles = Doubles::default();
    let runtime = doubles.runtime(vec![]).await;
    let context = context(node(ProvisionState::Deploying));
    let name = |kind| doubles.kept().artefacts[&kind].name.expose().to_owned();
    runtime.prepare_ramdisk(&context, &parameters()).await.result.unwrap();
    let (floppy, iso) = (name(ArtefactKind::Floppy), name(ArtefactKind::BootIso));
    runtime.prepare_ramdisk(&context, &parameters()).await.result.unwrap();
    assert_eq!(
        (&floppy, &iso),
        (&name(ArtefactKind::Floppy), &name(ArtefactKind::BootIso))
    );

    // The backend has lost it: it comes back under its old name.
    doubles.kept().served.remove(&floppy);
    runtime.prepare_ramdisk(&context, &parameters()).await.result.unwrap();
    assert_eq!(name(ArtefactKind::Floppy), floppy);
    assert!(doubles.kept().served.contains_key(&floppy));

    runtime
        .prepare_ramdisk(&context, &parameters()[..1])
        .await
        .result
        .unwrap();
    assert_ne!(name(ArtefactKind::Floppy), floppy);
    assert_eq!(name(ArtefactKind::BootIso), iso);
    let kept = doubles.kept();
    assert!(
        !kept.served.contains_key(&floppy),
        "the replaced floppy is still served"
    );
    assert_eq!(kept.served.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cleaning_up_leaves_nothing_behind() {
    let doubles = Doubles::default();
    let runtime = doubles.runtime(vec![]).await;
    let context = context(node(ProvisionState::Deploying));
    for _ in 0..2 {
        runtime.prepare_ramdisk(&context, &parameters()).await.result.unwrap();
        for _ in 0..2 {
            runtime.clean_up_ramdisk(&context).await.result.unwrap();
            let kept = doubles.kept();
            assert!(kept.served.is_empty() && kept.artefacts.is_empty() && kept.slots.is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_bmcs_and_backends_reach_the_caller_by_code() {
    let doubles = Doubles::default();
    let runtime = doubles.runtime(vec![]).await;
    let context = context(node(ProvisionState::Deploying));
    doubles.kept().licence = false;
    let code = |result| match result {
        Err(CallError::Answered(DriverError::Other { code, message, .. })) => (code, message),
        other => panic!("{other:?}"),
    };
    let (licence, message) = code(runtime.prepare_ramdisk(&context, &parameters()).await.result);
    assert_eq!(licence, "ilo-license-required");
    assert!(message.contains("iLO Advanced"), "{message}");
    let failed = doubles
        .kept()
        .journal
        .iter()
        .filter(|(_, outcome)| matches!(outcome, Some(Err(_))))
        .count();
    assert_eq!(failed, 1);

    doubles.kept().full = true;
    let (full, message) = code(runtime.prepare_ramdisk(&context, &parameters()[..1]).await.result);
    assert_eq!(full, "storage-full");
    assert!(message.contains("/httpboot"), "{message}");

    let mut iscsi = node(ProvisionState::Deploying);
    iscsi.driver = model::Driver::IscsiIlo;
    let called = runtime.prepare_instance(&crate::support::context(iscsi)).await;
    assert_eq!(
        called.result,
        Err(CallError::Answered(DriverError::NotFound(
            "instance_info has no kernel".into()
        )))
    );
}

fn published(doubles: &Doubles) -> Vec<String> {
    let kept = doubles.kept();
    let of_backend = kept.artefacts.values().map(|artefact| artefact.backend.clone());
    of_backend.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_backend_cannot_take_goes_to_the_next_and_each_attempt_is_journalled() {
    let (doubles, spare) = (Doubles::default(), Doubles::default());
    let runtime = doubles.runtime_with(vec![], vec![spare.backend("spare")]).await;
    doubles.kept().full = true;
    let context = context(node(ProvisionState::Deploying));
    assert_eq!(runtime.prepare_ramdisk(&context, &parameters()).await.result, Ok(()));
    assert_eq!(published(&doubles), ["spare", "spare"]);
    assert!(doubles.kept().served.is_empty());
    assert_eq!(spare.kept().served.len(), 2);
    let publications: Vec<(bool, bool)> = doubles
        .kept()
        .journal
        .iter()
        .filter(|(action, _)| action.starts_with("storage.publish"))
        .map(|(action, outcome)| (action.ends_with(" to local"), matches!(outcome, Some(Ok(())))))
        .collect();
    // The second artefact does not even try what has just failed.
    assert_eq!(publications, [(true, false), (false, true), (false, true)]);
    let all_ended = doubles.kept().journal.iter().all(|(_, outcome)| outcome.is_some());
    assert!(all_ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_backend_can_take_it_the_last_ones_own_reason_is_told() {
    let (doubles, spare) = (Doubles::default(), Doubles::default());
    let runtime = doubles.runtime_with(vec![], vec![spare.backend("spare")]).await;
    doubles.kept().full = true;
    spare.kept().full = true;
    let called = runtime
        .prepare_ramdisk(&context(node(ProvisionState::Deploying)), &parameters())
        .await;
    let Err(CallError::Answered(DriverError::Other { code, message, .. })) = called.result else {
        panic!("{:?}", called.result);
    };
    assert_eq!(code, "storage-full");
    assert!(message.contains("free some space"), "{message}");
    assert!(published(&doubles).is_empty() && spare.kept().served.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publication_that_runs_out_of_time_is_taken_back() {
    let doubles = Doubles::default();
    let mut hurried = hostile("");
    hurried.component = runtime::ComponentSource::Bytes {
        name: "the built-in policy, in a hurry".into(),
        bytes: include_bytes!(concat!(env!("OUT_DIR"), "/vmedia.wasm"))[..].into(),
    };
    hurried.settings = serde_json::json!({});
    hurried.limits.wall = Duration::from_millis(500);
    let runtime = doubles.runtime(vec![hurried]).await;
    doubles.kept().stuck = true;
    let called = runtime
        .prepare_ramdisk(&context(node(ProvisionState::Deploying)), &parameters())
        .await;
    assert!(called.result.is_err(), "{:?}", called.result);
    let start = std::time::Instant::now();
    while !doubles.kept().served.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(30), "it is still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(published(&doubles).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_the_ramdisk_would_misread_is_refused_without_showing_it() {
    let doubles = Doubles::default();
    let runtime = doubles.runtime(vec![]).await;
    let value = runtime::Value::Plain("two words".into());
    let parameters = [runtime::Parameter { key: "k".into(), value }];
    let called = runtime
        .prepare_ramdisk(&context(node(ProvisionState::Deploying)), &parameters)
        .await;
    let Err(CallError::Answered(DriverError::Invalid(text))) = called.result else {
        panic!("{:?}", called.result)
    };
    assert!(text.contains("\"k\"") && !text.contains("two words"), "{text}");
    assert!(doubles.kept().journal.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bmc_password_has_no_name_even_if_a_site_grants_it() {
    let doubles = Doubles::default();
    let grant = crate::support::grants(r#"{"image":{},"secrets":["ilo_password"]}"#);
    let runtime = doubles
        .runtime(vec![runtime::PluginConfig {
            grant,
            ..hostile("steal-secret")
        }])
        .await;
    let called = runtime
        .prepare_ramdisk(&context(node(ProvisionState::Deploying)), &[])
        .await;
    assert!(
        matches!(called.result, Err(CallError::Answered(DriverError::NotFound(_)))),
        "{:?}",
        called.result
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_bmc_shows_raw_is_scrubbed_of_our_urls() {
    let doubles = Doubles::default();
    let probe = crate::vendor::probe(Some(r#"{"bmc-raw":{"methods":["GET"],"paths":["/redfish/v1/**"]}}"#));
    let runtime = doubles.runtime(vec![probe]).await;
    let context = context(node(ProvisionState::Deploying));
    runtime.prepare_ramdisk(&context, &parameters()).await.result.unwrap();
    let shown = runtime
        .vendor_call(&context, "get", "/redfish/v1/Managers/1/VirtualMedia/2")
        .await
        .unwrap();
    assert_eq!(
        shown.result.unwrap(),
        serde_json::json!({ "Image": "http://192.0.2.9:6386/i/***.iso" })
    );
}
