//! A world in memory: slots, artefacts, values and a journal, with faults and delays on demand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use model::{ArtefactKind, BootMode, Device, Secret};
use runtime::{
    CallContext, CallReport, Candidate, Change, DriverError, HostCall, ImageHandle, ImageInfo, Level, Location,
    LocationHandle, LocationInfo, Media, Observer, Placement, RawReply, Renewal, Reply, Request, Session, ShadowReport,
    Versioned, World,
};

/// Shared by all sessions and read by tests.
#[derive(Clone, Default)]
pub(crate) struct TestWorld(Arc<Mutex<Model>>);

#[derive(Default)]
pub(crate) struct Model {
    /// What was asked of the world, in order, one line each.
    pub(crate) asked: Vec<String>,
    pub(crate) journal: Vec<(String, Option<String>)>,
    pub(crate) slots: BTreeMap<&'static str, String>,
    pub(crate) artefacts: BTreeMap<ArtefactKind, (String, String)>,
    pub(crate) values: BTreeMap<String, Versioned>,
    pub(crate) boot_mode: Option<BootMode>,
    pub(crate) secure_boot: bool,
    pub(crate) logs: Vec<String>,
    /// By function: fails instead.
    pub(crate) faults: BTreeMap<&'static str, DriverError>,
    /// By function: takes so long.
    pub(crate) delays: BTreeMap<&'static str, Duration>,
    pub(crate) reports: Vec<CallReport>,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) changes: Vec<Change>,
    pub(crate) shadows: Vec<ShadowReport>,
}

impl TestWorld {
    pub(crate) fn model(&self) -> MutexGuard<'_, Model> {
        self.0.lock().unwrap()
    }

    /// What was asked so far, forgotten then.
    pub(crate) fn asked(&self) -> String {
        let mut lines = std::mem::take(&mut self.model().asked).join("\n");
        lines.push('\n');
        lines
    }
}

impl World for TestWorld {
    fn open(&self, _: &Arc<CallContext>, _: &str) -> Arc<dyn Session> {
        Arc::new(TestSession {
            world: self.clone(),
            handles: Mutex::default(),
        })
    }
}

impl Observer for TestWorld {
    fn call_ended(&self, report: &CallReport) {
        self.model().reports.push(report.clone());
    }

    fn plugin_changed(&self, change: &Change) {
        self.model().changes.push(change.clone());
    }

    fn shadow_ended(&self, report: &ShadowReport) {
        self.model().shadows.push(report.clone());
    }
}

struct TestSession {
    world: TestWorld,
    handles: Mutex<Handles>,
}

#[derive(Default)]
struct Handles {
    next: u32,
    images: BTreeMap<ImageHandle, ImageInfo>,
    locations: BTreeMap<LocationHandle, Location>,
}

impl TestSession {
    fn image(&self, kind: ArtefactKind, recipe: &str) -> Reply {
        let mut handles = self.handles.lock().unwrap();
        handles.next += 1;
        let handle = ImageHandle(handles.next);
        let info = ImageInfo {
            kind,
            digest: format!("sha256:{recipe}"),
            size: 1_474_560,
        };
        handles.images.insert(handle, info.clone());
        Reply::Image(handle, info)
    }

    fn location(&self, handle: LocationHandle) -> Result<Location, DriverError> {
        let handles = self.handles.lock().unwrap();
        handles
            .locations
            .get(&handle)
            .cloned()
            .ok_or_else(|| DriverError::NotFound("location".into()))
    }

    fn artefact(&self, kind: ArtefactKind, backend: &str) -> (LocationHandle, LocationInfo) {
        let url = Secret::new(format!("http://{backend}/{kind}"));
        self.accept(Location {
            backend: Some(backend.to_owned()),
            kind: Some(kind),
            url,
            digest: None,
            expires: None,
        })
    }

    fn answer(&self, call: &HostCall) -> Result<Reply, DriverError> {
        let line = self.line(call)?;
        let mut model = self.world.model();
        model.asked.push(line);
        if let Some(error) = model.faults.get(call.name()) {
            return Err(error.clone());
        }
        Ok(match call {
            HostCall::StateGet { key } => Reply::Value(model.values.get(key).cloned()),
            HostCall::StatePut { key, value, expect } => {
                let seen = model.values.get(key).map(|value| value.version);
                if seen != *expect {
                    return Err(DriverError::Conflict("version".into()));
                }
                let version = seen.unwrap_or(0) + 1;
                model.values.insert(
                    key.clone(),
                    Versioned {
                        version,
                        value: value.clone(),
                    },
                );
                Reply::Number(version)
            }
            HostCall::StateDelete { key } => {
                model.values.remove(key);
                Reply::Done
            }
            HostCall::BuildFloppy { .. } => self.image(ArtefactKind::Floppy, "floppy"),
            HostCall::BuildBootIso { .. } => self.image(ArtefactKind::BootIso, "iso"),
            HostCall::Publish { image, backend, .. } => {
                let info = self.handles.lock().unwrap().images[image].clone();
                let backend = backend.clone().expect("the broker has asked for a backend");
                let (handle, location) = self.artefact(info.kind, &backend);
                model.artefacts.insert(info.kind, (backend, info.digest));
                Reply::Location(handle, location)
            }
            HostCall::Find { kind } => {
                let found = model.artefacts.get(kind).cloned();
                Reply::MaybeLocation(found.map(|(backend, _)| self.artefact(*kind, &backend)))
            }
            HostCall::Renew { .. } => Reply::Renewal(Renewal::Extended),
            HostCall::Withdraw { kind } => {
                model.artefacts.remove(kind);
                Reply::Done
            }
            HostCall::External { url } => {
                let url = Secret::new(url.clone());
                let location = Location {
                    backend: None,
                    kind: None,
                    url,
                    digest: None,
                    expires: None,
                };
                let (handle, info) = self.accept(location);
                Reply::Location(handle, info)
            }
            HostCall::MediaState { device } => {
                let url = model.slots.get(device.as_str()).cloned();
                let kind = ArtefactKind::ALL
                    .into_iter()
                    .find(|kind| url.as_ref().is_some_and(|url| url.ends_with(kind.as_str())));
                Reply::Media(Media {
                    inserted: url.is_some(),
                    connected: url.is_some(),
                    write_protected: true,
                    artefact: kind,
                    url,
                })
            }
            HostCall::Insert { device, location, .. } => {
                let url = self.location(*location)?.url;
                model.slots.insert(device.as_str(), url.expose().to_owned());
                Reply::Done
            }
            HostCall::Eject { device } => {
                model.slots.remove(device.as_str());
                Reply::Done
            }
            HostCall::SetBootDevice { .. } | HostCall::SetPower { .. } => Reply::Done,
            HostCall::BootModeOf => Reply::BootMode(model.boot_mode.unwrap_or(BootMode::Uefi)),
            HostCall::SetBootMode { mode } => {
                model.boot_mode = Some(*mode);
                Reply::Done
            }
            HostCall::SecureBootOf => Reply::Flag(model.secure_boot),
            HostCall::SetSecureBoot { enabled } => {
                model.secure_boot = *enabled;
                Reply::Done
            }
            HostCall::Redfish { path, .. } => Reply::Raw(RawReply {
                status: 200,
                headers: vec![],
                body: serde_json::json!({ "asked": path }).to_string(),
            }),
            other => panic!("the broker passed {} on", other.name()),
        })
    }

    /// A call in one line, with names instead of handles.
    fn line(&self, call: &HostCall) -> Result<String, DriverError> {
        let detail = match call {
            HostCall::Insert {
                device,
                location,
                options,
            } => {
                let once = if options.boot_once { " boot-once" } else { "" };
                format!(
                    "{} <- {}{once}",
                    device.as_str(),
                    self.location(*location)?.url.expose()
                )
            }
            HostCall::Publish {
                image,
                minimum_lifetime_s,
                backend,
            } => {
                let kind = self.handles.lock().unwrap().images[image].kind;
                format!(
                    "{kind} for {minimum_lifetime_s} s to {}",
                    backend.as_deref().unwrap_or("?")
                )
            }
            other => {
                let mut json = serde_json::to_value(other).unwrap();
                json.as_object_mut().unwrap().remove("on");
                json.to_string()
            }
        };
        Ok(format!("{} {detail}", call.name()).trim_end_matches(" {}").to_owned())
    }
}

#[async_trait]
impl Session for TestSession {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000)
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn perform(&self, call: &HostCall) -> Result<Reply, DriverError> {
        let delay = self.world.model().delays.get(call.name()).copied();
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        self.answer(call)
    }

    async fn place(&self, image: ImageHandle, minimum_lifetime_s: u32) -> Result<Placement, DriverError> {
        let info = self.handles.lock().unwrap().images[&image].clone();
        let recorded = self.world.model().artefacts.get(&info.kind).cloned();
        if let Some((backend, _)) = recorded.as_ref().filter(|(_, digest)| *digest == info.digest) {
            let (handle, location) = self.artefact(info.kind, backend);
            return Ok(Placement::Published(handle, location));
        }
        Ok(Placement::Choose {
            request: Request {
                kind: info.kind,
                size: info.size,
                lifetime_s: (minimum_lifetime_s > 0).then_some(minimum_lifetime_s),
            },
            candidates: self.world.model().candidates.clone(),
            replaces: recorded.is_some(),
            journal_as: info.kind.to_string(),
        })
    }

    async fn begin(&self, action: &str, detail: &str) -> Result<u64, DriverError> {
        let mut model = self.world.model();
        if let Some(error) = model.faults.get("journal") {
            return Err(error.clone());
        }
        model.journal.push((format!("{action} {detail}"), None));
        Ok(model.journal.len() as u64 - 1)
    }

    async fn end(&self, effect: u64, outcome: Result<(), String>) {
        let index = usize::try_from(effect).unwrap();
        self.world.model().journal[index].1 = Some(outcome.map_or_else(|error| error, |()| "done".to_owned()));
    }

    fn lend(&self, location: LocationHandle) -> Option<Location> {
        self.location(location).ok()
    }

    fn accept(&self, location: Location) -> (LocationHandle, LocationInfo) {
        let mut handles = self.handles.lock().unwrap();
        handles.next += 1;
        let handle = LocationHandle(handles.next);
        let info = LocationInfo {
            backend: location.backend.clone().unwrap_or_else(|| "external".into()),
            display: location.url.expose().to_owned(),
            digest: None,
            expires_ms: None,
        };
        handles.locations.insert(handle, location);
        (handle, info)
    }

    fn drop_image(&self, image: ImageHandle) {
        self.handles.lock().unwrap().images.remove(&image);
    }

    fn drop_location(&self, location: LocationHandle) {
        self.handles.lock().unwrap().locations.remove(&location);
    }

    fn log(&self, level: Level, message: &str, _: &[(String, String)]) {
        self.world.model().logs.push(format!("{level:?} {message}"));
    }
}

/// Device whose slot holds something at the beginning.
pub(crate) fn fill(world: &TestWorld, device: Device, url: &str) {
    world.model().slots.insert(device.as_str(), url.to_owned());
}
