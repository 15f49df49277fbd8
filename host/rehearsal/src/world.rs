//! The world of one case: it answers from the case's script, keeps a clock that nobody waits for, names handles in the order
//! in which they were handed out, and writes down every call.

use std::collections::BTreeMap;
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
use crate::functions::{LOG, SLEEP};
use crate::reply::{Answer, ImageFile, LocationFile, number};
use crate::script::Script;

/// Size of an image of which the script says nothing.
const IMAGE_SIZE: u64 = 1_474_560;
/// Longest text of one call in a report.
const TRACED: usize = 300;

/// Shared by the sessions of one case.
#[derive(Clone)]
pub(crate) struct ScriptedWorld {
    state: Arc<Mutex<State>>,
    out_of_time: Arc<Notify>,
    /// How much of the clock's time the call may take.
    wall: Duration,
    candidates: Arc<Vec<Candidate>>,
}

/// What a case has seen so far.
pub(crate) struct State {
    pub(crate) script: Script,
    /// Each call in one line, with what it was answered.
    pub(crate) trace: Vec<String>,
    /// Calls by function.
    pub(crate) counts: BTreeMap<&'static str, u32>,
    /// The first call that no entry answered, explained; and how many more there were.
    pub(crate) unlisted: Option<(String, usize)>,
    now: SystemTime,
    slept: Duration,
    images: BTreeMap<u32, ImageInfo>,
    locations: BTreeMap<u32, (Location, LocationInfo)>,
    effects: u64,
}

impl ScriptedWorld {
    pub(crate) fn new(script: Script, clock: SystemTime, wall: Duration, candidates: Vec<Candidate>) -> Self {
        let state = State {
            script,
            trace: Vec::new(),
            counts: BTreeMap::new(),
            unlisted: None,
            now: clock,
            slept: Duration::ZERO,
            images: BTreeMap::new(),
            locations: BTreeMap::new(),
            effects: 0,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            out_of_time: Arc::default(),
            wall,
            candidates: Arc::new(candidates),
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
}

impl World for ScriptedWorld {
    fn open(&self, _: &Arc<CallContext>, _: &str) -> Arc<dyn Session> {
        // One table of handles for all calls of a case: a location that is handed down the chain keeps its name.
        Arc::new(self.clone())
    }
}

impl State {
    fn perform(&mut self, call: &HostCall) -> Result<Reply, DriverError> {
        let (function, arguments) = (call.name(), arguments(call));
        *self.counts.entry(function).or_default() += 1;
        let result = match self.script.take(function, &arguments) {
            Some(answer) => answer.and_then(|answer| self.reply(call, answer)),
            None => {
                match &mut self.unlisted {
                    Some((_, more)) => *more += 1,
                    none => *none = Some((self.script.explain(function, &arguments), 0)),
                }
                Err(DriverError::other(
                    "not-in-scenario",
                    format!("the scenario has no answer to {function}"),
                ))
            }
        };
        let answered = match &result {
            Ok(reply) => show_reply(reply),
            Err(error) => format!("error {}", error.cause()),
        };
        let line = format!("{} -> {answered}", show_call(function, &arguments));
        self.trace.push(line.chars().take(TRACED).collect());
        result
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

/// The number that a reply names, or the next one.
fn free<T>(name: Option<&str>, prefix: &str, taken: &BTreeMap<u32, T>) -> Result<u32, DriverError> {
    let next = taken.keys().next_back().map_or(1, |last| last.saturating_add(1));
    let Some(name) = name else { return Ok(next) };
    let number = number(name, prefix).map_err(DriverError::Invalid)?;
    if taken.contains_key(&number) {
        let message = format!("the scenario hands {name} out twice");
        return Err(DriverError::other("not-in-scenario", message));
    }
    Ok(number)
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
impl Session for ScriptedWorld {
    fn now(&self) -> SystemTime {
        self.state().now
    }

    async fn sleep(&self, time: Duration) {
        let is_over = {
            let mut state = self.state();
            *state.counts.entry(SLEEP).or_default() += 1;
            state.slept = state.slept.saturating_add(time);
            state.now = state.now.checked_add(time).unwrap_or(state.now);
            let line = show_call(
                SLEEP,
                &json!({ "ms": u64::try_from(time.as_millis()).unwrap_or(u64::MAX) }),
            );
            state.trace.push(line);
            state.slept >= self.wall
        };
        if is_over {
            self.out_of_time.notify_one();
            // The runner ends the call, as the host would at its deadline.
            std::future::pending::<()>().await;
        }
    }

    async fn perform(&self, call: &HostCall) -> Result<Reply, DriverError> {
        self.state().perform(call)
    }

    async fn place(&self, image: ImageHandle, minimum_lifetime_s: u32) -> Result<Placement, DriverError> {
        let info = self.state().images.get(&image.0).cloned();
        let info = info.ok_or_else(|| DriverError::NotFound(format!("there is no image#{}", image.0)))?;
        Ok(Placement::Choose {
            request: Request {
                kind: info.kind,
                size: info.size,
                lifetime_s: (minimum_lifetime_s > 0).then_some(minimum_lifetime_s),
            },
            candidates: self.candidates.to_vec(),
            replaces: false,
            journal_as: info.kind.to_string(),
        })
    }

    async fn begin(&self, _: &str, _: &str) -> Result<u64, DriverError> {
        let mut state = self.state();
        state.effects += 1;
        Ok(state.effects)
    }

    async fn end(&self, _: u64, _: Result<(), String>) {}

    fn lend(&self, location: LocationHandle) -> Option<Location> {
        self.state()
            .locations
            .get(&location.0)
            .map(|(location, _)| location.clone())
    }

    fn accept(&self, location: Location) -> (LocationHandle, LocationInfo) {
        let mut state = self.state();
        // Handed down from another call of this case: it keeps its name.
        let known = state
            .locations
            .iter()
            .find(|(_, (known, _))| known.url == location.url)
            .map(|(number, (_, info))| (LocationHandle(*number), info.clone()));
        if let Some(known) = known {
            return known;
        }
        let next = state
            .locations
            .keys()
            .next_back()
            .map_or(1, |last| last.saturating_add(1));
        let info = LocationInfo {
            backend: location.backend.clone().unwrap_or_else(|| "external".to_owned()),
            display: location.url.expose().to_owned(),
            digest: None,
            expires_ms: None,
        };
        state.locations.insert(next, (location, info.clone()));
        (LocationHandle(next), info)
    }

    // Dropped handles keep their numbers, so that names do not depend on when a guest lets go.
    fn drop_image(&self, _: ImageHandle) {}

    fn drop_location(&self, _: LocationHandle) {}

    fn log(&self, level: Level, message: &str, _: &[(String, String)]) {
        let mut state = self.state();
        *state.counts.entry(LOG).or_default() += 1;
        let line = format!("{LOG} {level:?}: {}", message.escape_debug());
        state.trace.push(line.chars().take(TRACED).collect());
    }
}
