//! Recording: what a plugin asked of the real world, and what it was answered, as a scenario file that can be run again.
//!
//! A [`Recorder`] stands between the runtime and the world of a conductor. It writes one file for each call that the host
//! made of a plugin. Nothing secret goes into a file: the names of secrets stand for them, URLs lose their query and their
//! user, fields and parameters that are called like a password are left out.

mod scrub;
mod tape;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use runtime::{
    CallContext, CallError, DriverError, HostCall, ImageHandle, Level, Location, LocationHandle, LocationInfo,
    Placement, Reply, Session, SiteFacts, World,
};
use serde_json::Value as Json;

use tape::Tape;

/// What a recording says of a plugin besides its calls.
#[derive(Clone, Debug)]
pub struct RecordedPlugin {
    /// Its id.
    pub id: String,
    /// What stands under `plugin` of a scenario file: a path, or `{"built-in": "vmedia"}`.
    pub plugin: Json,
    /// Its settings, a JSON object.
    pub settings: Json,
    /// What the site grants it, if that is not the role's default.
    pub grants: Option<Json>,
}

/// A world that writes down what is asked of another one.
pub struct Recorder(Arc<Inner>);

struct Inner {
    world: Arc<dyn World>,
    folder: PathBuf,
    plugins: Vec<RecordedPlugin>,
    site: SiteFacts,
    files: AtomicU64,
    /// Calls under way, by the address of their context: a call that another one leads to belongs to the same tape.
    tapes: Mutex<BTreeMap<usize, Weak<Mutex<Tape>>>>,
}

impl Recorder {
    /// Records into a folder, which is there.
    pub fn new(world: Arc<dyn World>, folder: &Path, plugins: Vec<RecordedPlugin>, site: SiteFacts) -> Self {
        Self(Arc::new(Inner {
            world,
            folder: folder.to_owned(),
            plugins,
            site,
            files: AtomicU64::new(1),
            tapes: Mutex::default(),
        }))
    }
}

impl World for Recorder {
    fn open(&self, context: &Arc<CallContext>, plugin: &str) -> Arc<dyn Session> {
        let inner = self.0.world.open(context, plugin);
        let key = Arc::as_ptr(context).addr();
        let mut tapes = self.0.tapes.lock().unwrap_or_else(PoisonError::into_inner);
        tapes.retain(|_, tape| tape.strong_count() > 0);
        let known = tapes.get(&key).and_then(Weak::upgrade);
        let tape = known.unwrap_or_else(|| {
            let tape = Arc::new(Mutex::new(Tape::new(context, plugin, inner.now())));
            tapes.insert(key, Arc::downgrade(&tape));
            tape
        });
        Arc::new(Recorded {
            recorder: Arc::clone(&self.0),
            inner,
            tape,
            names: Mutex::default(),
        })
    }
}

/// A session whose calls are written down.
struct Recorded {
    recorder: Arc<Inner>,
    inner: Arc<dyn Session>,
    tape: Arc<Mutex<Tape>>,
    names: Mutex<Names>,
}

/// How this session's handles are called on the tape.
#[derive(Default)]
struct Names {
    images: BTreeMap<u32, u32>,
    locations: BTreeMap<u32, u32>,
}

impl Recorded {
    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call with the tape's handles.
    fn renamed(&self, call: &HostCall) -> HostCall {
        let names = self.names();
        let mut call = call.clone();
        match &mut call {
            HostCall::Publish { image, .. } => image.0 = names.images.get(&image.0).copied().unwrap_or_default(),
            HostCall::Renew { location, .. } | HostCall::Insert { location, .. } => {
                location.0 = names.locations.get(&location.0).copied().unwrap_or_default();
            }
            _ => {}
        }
        call
    }

    /// Gives what is new a name on the tape.
    fn name(&self, reply: &Reply) -> Reply {
        let (mut tape, mut names) = (self.tape(), self.names());
        let mut reply = reply.clone();
        match &mut reply {
            Reply::Image(handle, _) => {
                let name = tape.next_image();
                names.images.insert(handle.0, name);
                handle.0 = name;
            }
            Reply::Location(handle, _) | Reply::MaybeLocation(Some((handle, _))) => {
                let name = tape.next_location();
                names.locations.insert(handle.0, name);
                handle.0 = name;
            }
            _ => {}
        }
        reply
    }
}

#[async_trait]
impl Session for Recorded {
    fn now(&self) -> SystemTime {
        self.inner.now()
    }

    async fn sleep(&self, time: Duration) {
        self.inner.sleep(time).await;
    }

    async fn perform(&self, call: &HostCall) -> Result<Reply, DriverError> {
        let result = self.inner.perform(call).await;
        let renamed = self.renamed(call);
        let named = match &result {
            Ok(reply) => Ok(self.name(reply)),
            Err(error) => Err(error.clone()),
        };
        self.tape().add(&renamed, &named);
        result
    }

    async fn place(&self, image: ImageHandle, minimum_lifetime_s: u32) -> Result<Placement, DriverError> {
        let placed = self.inner.place(image, minimum_lifetime_s).await;
        match &placed {
            Ok(Placement::Choose { candidates, .. }) => self.tape().offer(candidates),
            Ok(Placement::Published(handle, info)) => {
                // Nothing is asked of the world then; a rehearsal's world is asked, and says the same.
                let call = HostCall::Publish {
                    image,
                    minimum_lifetime_s,
                    backend: None,
                };
                let renamed = self.renamed(&call);
                let named = self.name(&Reply::Location(*handle, info.clone()));
                self.tape().add(&renamed, &Ok(named));
            }
            _ => {}
        }
        placed
    }

    async fn begin(&self, action: &str, detail: &str) -> Result<u64, DriverError> {
        self.inner.begin(action, detail).await
    }

    async fn end(&self, effect: u64, outcome: Result<(), String>) {
        self.inner.end(effect, outcome).await;
    }

    fn lend(&self, location: LocationHandle) -> Option<Location> {
        let lent = self.inner.lend(location);
        let name = self.names().locations.get(&location.0).copied();
        if let (Some(lent), Some(name)) = (&lent, name) {
            self.tape().known(&lent.url, name);
        }
        lent
    }

    fn accept(&self, location: Location) -> (LocationHandle, LocationInfo) {
        let url = location.url.clone();
        let (handle, info) = self.inner.accept(location);
        let name = self.tape().accepted(&url);
        self.names().locations.insert(handle.0, name);
        (handle, info)
    }

    fn drop_image(&self, image: ImageHandle) {
        self.inner.drop_image(image);
    }

    fn drop_location(&self, location: LocationHandle) {
        self.inner.drop_location(location);
    }

    fn log(&self, level: Level, message: &str, fields: &[(String, String)]) {
        self.inner.log(level, message, fields);
    }

    fn records(&self) -> bool {
        true
    }

    fn entered(&self, function: &str, arguments: Json) {
        let locations = self.names().locations.clone();
        self.tape().enter(function, arguments, &locations);
    }

    fn left(&self, result: Result<Json, &CallError>) {
        let recorder = &self.recorder;
        let number = recorder.files.fetch_add(1, Ordering::Relaxed);
        let (file, text) = {
            let tape = self.tape();
            let plugin = recorder.plugins.iter().find(|plugin| plugin.id == tape.plugin());
            (tape.file_name(number), tape.scenario(plugin, &recorder.site, result))
        };
        let path = recorder.folder.join(file);
        tokio::task::spawn_blocking(move || match std::fs::write(&path, text) {
            Ok(()) => tracing::info!(path = %path.display(), "recorded a call"),
            Err(error) => tracing::warn!(path = %path.display(), %error, "a recording could not be written"),
        });
    }
}

#[cfg(test)]
mod tests {
    use model::{ArtefactKind, ConductorName, Device, Driver, NodeId, PowerState, ProvisionState, Tenure};
    use runtime::{
        Candidate, Engine, InterruptedStep, Media, Observation, ObservedArtefact, Parameter, Repeat, Request, Runtime,
        RuntimeConfig, Unobserved, UrlState, Value,
    };

    use super::*;
    use crate::Suite;
    use crate::machine::Machine;
    use crate::world::{CASE, CaseWorld, Player, Stage};

    const SECRET: &str = "do-not-tell";

    fn context() -> Arc<CallContext> {
        let id: NodeId = "00000000-0000-4000-8000-000000000009".parse().unwrap();
        let mut node = model::Node::new(id, Driver::AgentIlo, SystemTime::UNIX_EPOCH);
        node.provision_state = ProvisionState::Deploying;
        node.driver_info.insert("ilo_password".to_owned(), SECRET.into());
        node.facts.insert("vendor".to_owned(), "HPE".to_owned());
        let conductor: ConductorName = "a".parse().unwrap();
        Arc::new(CallContext {
            node,
            tenure: Tenure { conductor, term: 1 },
            by_operator: true,
        })
    }

    fn observation() -> Observation {
        Observation {
            previous_conductor: "b".to_owned(),
            power: PowerState::On,
            cdrom: Some(Media {
                inserted: true,
                connected: true,
                write_protected: true,
                artefact: Some(ArtefactKind::BootIso),
                url: Some("http://local.example/***.iso".to_owned()),
            }),
            floppy: None,
            artefacts: vec![ObservedArtefact {
                kind: ArtefactKind::BootIso,
                backend: "local".to_owned(),
                url: UrlState::Dead,
                in_slot: true,
                expires_in_s: Some(30),
                bytes_read: Some(7),
            }],
            agent_seen_s_ago: Some(5),
            interrupted: Some(InterruptedStep {
                name: "write-image".to_owned(),
                repeat: Repeat::ObserveThenContinue,
            }),
        }
    }

    #[tokio::test]
    async fn what_is_recorded_passes_when_it_is_run_again_and_holds_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let site = SiteFacts::from([("callback-timeout-s".to_owned(), "1800".to_owned())]);
        let engine = Engine::new(2).unwrap();
        let recorder = Recorder::new(Arc::new(Stage), folder.path(), vec![], site.clone());
        let config = RuntimeConfig {
            site_facts: site,
            ..RuntimeConfig::default()
        };
        let runtime = Runtime::new(&engine, config, Arc::new(recorder), Arc::new(Unobserved))
            .await
            .unwrap();
        let backends = vec![Candidate {
            id: "local".to_owned(),
            kind: "embedded".to_owned(),
            healthy: true,
            free_bytes: None,
            max_lifetime_s: None,
            traits: vec![],
        }];
        let offered = backends.clone();
        let clock = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let machine = Machine::new(7, clock, backends.clone());
        let world = CaseWorld::new(
            Player::Machine(Box::new(machine)),
            vec![],
            clock,
            Duration::from_secs(900),
            &backends.into(),
        );
        let parameters = [
            Parameter {
                key: "ipa-api-url".to_owned(),
                value: Value::Plain("http://192.0.2.9:6387".to_owned()),
            },
            Parameter {
                key: "ipa-agent-token".to_owned(),
                value: Value::Secret("agent-token".to_owned()),
            },
            Parameter {
                key: "x-password".to_owned(),
                value: Value::Plain(SECRET.to_owned()),
            },
        ];
        CASE.scope(world, async {
            runtime.prepare_ramdisk(&context(), &parameters).await.result.unwrap();
            // Again: what is published stays, and is found.
            runtime.prepare_ramdisk(&context(), &parameters).await.result.unwrap();
            let url = model::Secret::new(format!("https://images.example/rescue.iso?sig={SECRET}"));
            runtime.boot_into_iso(&context(), &url).await.result.unwrap();
            runtime.attach(&context(), Device::Floppy, &url).await.result.unwrap();
            runtime.detach(&context(), Device::Cdrom).await.result.unwrap();
            runtime.clean_up_ramdisk(&context()).await.result.unwrap();
            let request = Request {
                kind: ArtefactKind::BootIso,
                size: 100,
                lifetime_s: Some(60),
            };
            let choice = runtime.select_backend(&context(), &request, &offered).await;
            choice.result.unwrap();
            let plan = runtime.plan_take_over(&context(), &observation()).await;
            assert_eq!(plan.result.unwrap().len(), 3);
        })
        .await;
        let mut files = Vec::new();
        // The files are written by tasks of their own.
        for _ in 0..2000 {
            files = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| std::fs::metadata(path).unwrap().len() > 0)
                .collect();
            if files.len() == 8 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(files.len(), 8, "{files:?}");
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(!text.contains(SECRET), "{text}");
            let suite = Suite::read(&file).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let report = crate::run(&engine, &suite).await.unwrap();
            assert_eq!(report.failed(), 0, "{text}\n{:?}", report.cases[0].failures);
        }
    }
}
