//! The world of one case: it answers from the case's script or from its model of a world, keeps a clock that nobody waits
//! for, names handles in the order in which they were handed out, and writes down every call and every journalled effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use model::{ArtefactKind, Secret};
use runtime::{
    CallContext, Candidate, DriverError, HostCall, ImageHandle, ImageInfo, Level, Location, LocationHandle,
    LocationInfo, Placement, Reply, Request, Session, World,
};
use serde_json::{Value as Json, json};
use tokio::sync::Notify;

use crate::calls::{arguments, show_call};
use crate::faults::{self, Fault};
use crate::functions::{LOG, SLEEP};
use crate::machine::{self, Handles, Machine, Place};
use crate::reply::{Answer, ImageFile, LocationFile, number};
use crate::script::Script;

/// Size of an image of which the script says nothing.
const IMAGE_SIZE: u64 = 1_474_560;
/// Longest text of one call in a report.
const TRACED: usize = 300;

/// Who answers.
#[derive(Clone, Debug)]
pub(crate) enum Player {
    /// The list under `host`.
    Script(Script),
    /// The model under `world`.
    Machine(Box<Machine>),
}

/// Shared by the sessions of one case.
#[derive(Clone)]
pub(crate) struct CaseWorld {
    state: Arc<Mutex<State>>,
    out_of_time: Arc<Notify>,
    /// How much of the clock's time the call may take.
    wall: Duration,
    candidates: Arc<[Candidate]>,
}

/// A host call that reached the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    pub(crate) function: &'static str,
    /// It changes something: then it can be done and its answer be lost.
    pub(crate) changes: bool,
}

/// What a case has seen so far.
pub(crate) struct State {
    pub(crate) player: Player,
    /// Each call in one line, with what it was answered.
    pub(crate) trace: Vec<String>,
    /// Which lines of the trace make or change something.
    decided: Vec<usize>,
    /// Calls by function.
    pub(crate) counts: BTreeMap<&'static str, u32>,
    /// Calls that reached the world, in order.
    pub(crate) asked: Vec<Asked>,
    /// Functions that were answered with an error, with its cause.
    pub(crate) failed: BTreeSet<(&'static str, &'static str)>,
    /// The first call that no entry answered, explained; and how many more there were.
    pub(crate) unlisted: Option<(String, usize)>,
    /// Effects that were announced: action and detail.
    pub(crate) journal: Vec<(String, String)>,
    faults: Vec<Fault>,
    now: SystemTime,
    slept: Duration,
    images: BTreeMap<u32, ImageInfo>,
    locations: BTreeMap<u32, (Location, LocationInfo)>,
}

impl CaseWorld {
    pub(crate) fn new(
        player: Player,
        faults: Vec<Fault>,
        clock: SystemTime,
        wall: Duration,
        candidates: &Arc<[Candidate]>,
    ) -> Self {
        let state = State {
            player,
            trace: Vec::new(),
            decided: Vec::new(),
            counts: BTreeMap::new(),
            asked: Vec::new(),
            failed: BTreeSet::new(),
            unlisted: None,
            journal: Vec::new(),
            faults,
            now: clock,
            slept: Duration::ZERO,
            images: BTreeMap::new(),
            locations: BTreeMap::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            out_of_time: Arc::default(),
            wall,
            candidates: Arc::clone(candidates),
        }
    }

    /// What the case has seen.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once the plugin has slept for longer than a call may take.
    pub(crate) async fn out_of_time(&self) {
        self.out_of_time.notified().await;
    }

    /// A session for a plugin; all of a case share one table of handles, so a location that is handed down the chain keeps
    /// its name.
    pub(crate) fn session(&self, plugin: &str) -> CaseSession {
        if let Player::Machine(machine) = &mut self.state().player {
            machine.open(plugin);
        }
        CaseSession {
            world: self.clone(),
            plugin: plugin.to_owned(),
        }
    }
}

/// One call's side of the world.
pub(crate) struct CaseSession {
    world: CaseWorld,
    plugin: String,
}

tokio::task_local! {
    /// The world of the case that this task runs.
    pub(crate) static CASE: CaseWorld;
}

/// Opens sessions in the world of the case that the task runs: so cases with the same plugins share one runtime.
pub(crate) struct Stage;

impl World for Stage {
    fn open(&self, _: &Arc<CallContext>, plugin: &str) -> Arc<dyn Session> {
        let world = CASE.try_with(Clone::clone).unwrap_or_else(|_| {
            // A plugin is started once when it is loaded, for no case.
            let nothing = Player::Script(Script::default());
            CaseWorld::new(nothing, vec![], UNIX_EPOCH, Duration::ZERO, &Arc::from([]))
        });
        Arc::new(world.session(plugin))
    }
}

impl State {
    /// Its clock.
    pub(crate) fn now(&self) -> SystemTime {
        self.now
    }

    /// The lines of the trace that make or change something.
    pub(crate) fn decisions(&self) -> impl Iterator<Item = &str> {
        self.decided
            .iter()
            .filter_map(|index| self.trace.get(*index).map(String::as_str))
    }

    fn perform(&mut self, plugin: &str, call: &HostCall) -> Result<Reply, DriverError> {
        let (function, arguments) = (call.name(), arguments(call));
        let at = self.asked.len();
        self.asked.push(Asked {
            function,
            changes: call.is_effect() || is_made(call),
        });
        *self.counts.entry(function).or_default() += 1;
        let fault = self.faults.iter().find(|fault| fault.at == at).cloned();
        let result = match fault {
            None => self.answer(plugin, call, &arguments),
            Some(fault) => {
                if fault.done {
                    // The answer is lost on its way back, whatever it was.
                    let _ = self.answer(plugin, call, &arguments);
                }
                Err(fault.error)
            }
        };
        let answered = match &result {
            Ok(reply) => show_reply(reply),
            Err(error) => {
                if error.cause() != NOT_LISTED {
                    self.failed.insert((function, faults::cause(error)));
                }
                format!("error {}", error.cause())
            }
        };
        let line = format!("{} -> {answered}", show_call(function, &arguments));
        if call.is_effect() || is_made(call) {
            self.decided.push(self.trace.len());
        }
        self.trace.push(line.chars().take(TRACED).collect());
        result
    }

    fn answer(&mut self, plugin: &str, call: &HostCall, arguments: &Json) -> Result<Reply, DriverError> {
        let script = match &mut self.player {
            Player::Machine(machine) => {
                let (image, location) = handles_of(call);
                let handles = Handles {
                    image: image.and_then(|number| self.images.get(&number)),
                    location: location
                        .and_then(|number| self.locations.get(&number))
                        .map(|(location, _)| location),
                };
                let outcome = machine.perform(call, plugin, &handles, self.now)?;
                return Ok(self.keep(outcome));
            }
            Player::Script(script) => script,
        };
        let function = call.name();
        match script.take(function, arguments) {
            Some(answer) => answer.and_then(|answer| self.reply(call, answer)),
            None => {
                match &mut self.unlisted {
                    Some((_, more)) => *more += 1,
                    none => *none = Some((script.explain(function, arguments), 0)),
                }
                let message = format!("the scenario has no answer to {function}");
                Err(DriverError::other(NOT_LISTED, message))
            }
        }
    }

    /// Numbers what is new.
    fn keep(&mut self, outcome: machine::Outcome) -> Reply {
        match outcome {
            machine::Outcome::Reply(reply) => reply,
            machine::Outcome::Image(info) => {
                let number = next(&self.images);
                self.images.insert(number, info.clone());
                Reply::Image(ImageHandle(number), info)
            }
            machine::Outcome::Location(located) => {
                let (handle, info) = self.keep_location(located);
                Reply::Location(handle, info)
            }
            machine::Outcome::MaybeLocation(located) => {
                Reply::MaybeLocation(located.map(|located| self.keep_location(located)))
            }
        }
    }

    fn keep_location(&mut self, located: machine::Located) -> (LocationHandle, LocationInfo) {
        let number = next(&self.locations);
        let info = located.1.clone();
        self.locations.insert(number, located);
        (LocationHandle(number), info)
    }

    fn reply(&mut self, call: &HostCall, answer: Answer) -> Result<Reply, DriverError> {
        Ok(match answer {
            Answer::Reply(reply) => reply,
            Answer::Image(kind, file) => self.image(kind, &file)?,
            Answer::Location(file) => {
                let (handle, info) = self.located(call, file)?;
                Reply::Location(handle, info)
            }
            Answer::Found(file) => Reply::MaybeLocation(Some(self.located(call, file)?)),
        })
    }

    fn image(&mut self, kind: ArtefactKind, file: &ImageFile) -> Result<Reply, DriverError> {
        let number = free(file.name.as_deref(), "image", &self.images)?;
        let info = ImageInfo {
            kind,
            digest: file
                .digest
                .clone()
                .unwrap_or_else(|| format!("digest-of-image#{number}")),
            size: file.size.unwrap_or(IMAGE_SIZE),
        };
        self.images.insert(number, info.clone());
        Ok(Reply::Image(ImageHandle(number), info))
    }

    fn located(&mut self, call: &HostCall, file: LocationFile) -> Result<(LocationHandle, LocationInfo), DriverError> {
        let number = free(file.name.as_deref(), "location", &self.locations)?;
        let image = match call {
            HostCall::Publish { image, .. } => self.images.get(&image.0),
            _ => None,
        };
        let kind = image.map(|image| image.kind).or(file.kind);
        let (backend, url) = match call {
            HostCall::External { url } => (None, url.clone()),
            HostCall::Publish { backend, .. } => (file.backend.or(backend.clone()), format!("rehearsal:{number}")),
            _ => (file.backend.or(Some("local".to_owned())), format!("rehearsal:{number}")),
        };
        let info = LocationInfo {
            display: file.display.unwrap_or_else(|| match (&backend, kind) {
                (Some(backend), Some(kind)) => format!("http://{backend}/***.{}", kind.extension()),
                _ => url.clone(),
            }),
            backend: backend.clone().unwrap_or_else(|| "external".to_owned()),
            digest: file.digest.or_else(|| image.map(|image| image.digest.clone())),
            expires_ms: file.expires_ms,
        };
        let location = Location {
            backend,
            kind,
            url: Secret::new(url),
            digest: None,
            expires: file
                .expires_ms
                .and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms))),
        };
        self.locations.insert(number, (location, info.clone()));
        Ok((LocationHandle(number), info))
    }
}

/// Code of the answer to a call that no entry answers.
const NOT_LISTED: &str = "not-in-scenario";

/// The numbers of the image and of the location that a call is about.
fn handles_of(call: &HostCall) -> (Option<u32>, Option<u32>) {
    match call {
        HostCall::Publish { image, .. } => (Some(image.0), None),
        HostCall::Renew { location, .. } | HostCall::Insert { location, .. } => (None, Some(location.0)),
        _ => (None, None),
    }
}

/// Whether it makes something that stays within the host.
fn is_made(call: &HostCall) -> bool {
    matches!(
        call,
        HostCall::BuildFloppy { .. }
            | HostCall::BuildBootIso { .. }
            | HostCall::External { .. }
            | HostCall::StatePut { .. }
            | HostCall::StateDelete { .. }
    )
}

/// The number that a reply names, or the next one.
fn free<T>(name: Option<&str>, prefix: &str, taken: &BTreeMap<u32, T>) -> Result<u32, DriverError> {
    let Some(name) = name else { return Ok(next(taken)) };
    let number = number(name, prefix).map_err(DriverError::Invalid)?;
    if taken.contains_key(&number) {
        let message = format!("the scenario hands {name} out twice");
        return Err(DriverError::other(NOT_LISTED, message));
    }
    Ok(number)
}

fn next<T>(taken: &BTreeMap<u32, T>) -> u32 {
    taken.keys().next_back().map_or(1, |last| last.saturating_add(1))
}

fn show_reply(reply: &Reply) -> String {
    match reply {
        Reply::Done => "ok".to_owned(),
        Reply::Image(handle, _) => format!("image#{}", handle.0),
        Reply::Location(handle, _) | Reply::MaybeLocation(Some((handle, _))) => format!("location#{}", handle.0),
        other => match serde_json::to_value(other).unwrap_or_default() {
            // The variant's name says nothing that the function does not.
            Json::Object(map) => map.values().next().map_or_else(String::new, crate::calls::show),
            other => crate::calls::show(&other),
        },
    }
}

#[async_trait]
impl Session for CaseSession {
    fn now(&self) -> SystemTime {
        self.world.state().now
    }

    async fn sleep(&self, time: Duration) {
        let is_over = {
            let mut state = self.world.state();
            *state.counts.entry(SLEEP).or_default() += 1;
            state.slept = state.slept.saturating_add(time);
            state.now = state.now.checked_add(time).unwrap_or(state.now);
            let line = show_call(
                SLEEP,
                &json!({ "ms": u64::try_from(time.as_millis()).unwrap_or(u64::MAX) }),
            );
            state.trace.push(line);
            state.slept >= self.world.wall
        };
        if is_over {
            self.world.out_of_time.notify_one();
            // The runner ends the call, as the host would at its deadline.
            std::future::pending::<()>().await;
        }
    }

    async fn perform(&self, call: &HostCall) -> Result<Reply, DriverError> {
        self.world.state().perform(&self.plugin, call)
    }

    async fn place(&self, image: ImageHandle, minimum_lifetime_s: u32) -> Result<Placement, DriverError> {
        let mut state = self.world.state();
        let info = state.images.get(&image.0).cloned();
        let info = info.ok_or_else(|| DriverError::NotFound(format!("there is no image#{}", image.0)))?;
        let now = state.now;
        if let Player::Machine(machine) = &state.player {
            return Ok(match machine.place(&info, minimum_lifetime_s, now) {
                Place::Other(placement) => placement,
                Place::Published(located) => {
                    let (handle, info) = state.keep_location(located);
                    Placement::Published(handle, info)
                }
            });
        }
        Ok(Placement::Choose {
            request: Request {
                kind: info.kind,
                size: info.size,
                lifetime_s: (minimum_lifetime_s > 0).then_some(minimum_lifetime_s),
            },
            candidates: self.world.candidates.to_vec(),
            replaces: false,
            journal_as: info.kind.to_string(),
        })
    }

    async fn begin(&self, action: &str, detail: &str) -> Result<u64, DriverError> {
        let mut state = self.world.state();
        state.journal.push((action.to_owned(), detail.to_owned()));
        Ok(state.journal.len() as u64)
    }

    async fn end(&self, _: u64, _: Result<(), String>) {}

    fn lend(&self, location: LocationHandle) -> Option<Location> {
        self.world
            .state()
            .locations
            .get(&location.0)
            .map(|(location, _)| location.clone())
    }

    fn accept(&self, location: Location) -> (LocationHandle, LocationInfo) {
        let mut state = self.world.state();
        // Handed down from another call of this case: it keeps its name.
        let known = state
            .locations
            .iter()
            .find(|(_, (known, _))| known.url == location.url)
            .map(|(number, (_, info))| (LocationHandle(*number), info.clone()));
        if let Some(known) = known {
            return known;
        }
        let info = LocationInfo {
            backend: location.backend.clone().unwrap_or_else(|| "external".to_owned()),
            display: location.url.expose().to_owned(),
            digest: None,
            expires_ms: None,
        };
        state.keep_location((location, info))
    }

    // Dropped handles keep their numbers, so that names do not depend on when a guest lets go.
    fn drop_image(&self, _: ImageHandle) {}

    fn drop_location(&self, _: LocationHandle) {}

    fn log(&self, level: Level, message: &str, _: &[(String, String)]) {
        let mut state = self.world.state();
        *state.counts.entry(LOG).or_default() += 1;
        let line = format!("{LOG} {level:?}: {}", message.escape_debug());
        state.trace.push(line.chars().take(TRACED).collect());
    }
}
