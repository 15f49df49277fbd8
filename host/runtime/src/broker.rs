//! The one way from a guest to the world. Every host call goes: budget and grants → envelope → journal what is about to
//! exist → do it in a task of its own, with a deadline inside what is left of the call's time → journal its result.
//!
//! Dropping a call never drops an effect: its task goes on and its result is journalled even if nobody waits.

mod budget;
mod publish;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value as Json;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;

use budget::Usage;

use crate::calls::{HostCall, ImageHandle, ImageInfo, Level, LocationHandle, LocationInfo, Reply};
use crate::catalog::Bound;
use crate::catalog::Catalog;
use crate::envelope::{self, Verdict};
use crate::grants::Given;
use crate::run::{Entry, Inner, Nested};
use crate::shadow::{Echo, Recording};
use crate::world::Session;
use crate::{CallContext, CallFailure, DriverError, facts};

/// What a host function gives back if it fails.
#[derive(Debug)]
pub(crate) enum HostError {
    /// The guest gets this error.
    Answer(DriverError),
    /// The guest is stopped.
    Stop(CallFailure),
}

impl From<DriverError> for HostError {
    fn from(error: DriverError) -> Self {
        Self::Answer(error)
    }
}

/// What all calls that one root call leads to share.
pub(crate) struct Root {
    /// Number of the root call, for logs and reports.
    pub(crate) id: u64,
    /// The plugins as they were when it began: a swap changes nothing for it.
    pub(crate) catalog: Arc<Catalog>,
    /// When the root call must have been answered.
    pub(crate) deadline: Instant,
    /// How long that was from its beginning, for messages.
    pub(crate) wall: Duration,
    /// Host calls so far.
    calls: AtomicU32,
    /// Host calls that are allowed.
    limit: u32,
}

impl Root {
    pub(crate) fn new(id: u64, catalog: Arc<Catalog>, limits: &crate::Limits) -> Self {
        Self {
            id,
            catalog,
            deadline: Instant::now() + limits.wall,
            wall: limits.wall,
            calls: AtomicU32::new(0),
            limit: limits.host_calls,
        }
    }
}

/// The host's side of one call of a plugin.
pub(crate) struct Broker {
    pub(crate) context: Arc<CallContext>,
    pub(crate) bound: Arc<Bound>,
    pub(crate) root: Arc<Root>,
    pub(crate) usage: Usage,
    pub(crate) session: Arc<dyn Session>,
    /// Set where a shadow will run along with the call.
    pub(crate) recording: Option<Recording>,
    /// Set in a shadow's own call: it answers instead of the session.
    pub(crate) echo: Option<Echo>,
    runtime: Arc<Inner>,
    /// The plugin's number among those of its role: `vmedia-service` goes on behind it.
    number: usize,
    depth: u8,
    given: Given,
    images: BTreeMap<ImageHandle, ImageInfo>,
    locations: BTreeMap<LocationHandle, LocationInfo>,
}

impl Broker {
    pub(crate) fn new(
        runtime: Arc<Inner>,
        context: Arc<CallContext>,
        bound: Arc<Bound>,
        nested: Nested,
        session: Arc<dyn Session>,
    ) -> Self {
        Self {
            context,
            bound,
            root: nested.root,
            usage: Usage::default(),
            session,
            recording: None,
            echo: None,
            runtime,
            number: nested.number,
            depth: nested.depth,
            given: Given::default(),
            images: BTreeMap::new(),
            locations: BTreeMap::new(),
        }
    }

    /// A call that is answered from memory, by a function that cannot fail: when a budget has run out, the guest is stopped.
    pub(crate) fn read(&mut self, call: HostCall) -> Result<Reply, HostError> {
        if let HostCall::Log { level, message, fields } = &call {
            self.count_call().map_err(|_| self.too_many_calls())?;
            self.log(*level, message, fields);
            return Ok(Reply::Done);
        }
        self.count_call().map_err(|_| self.too_many_calls())?;
        let too_many_bytes = HostError::Stop(CallFailure::HostBytes(self.bound.limits.host_bytes));
        if self.count_bytes(call.bytes()).is_err() {
            return Err(too_many_bytes);
        }
        let reply = self.recall(&call);
        if self.count_bytes(reply.bytes()).is_err() {
            return Err(too_many_bytes);
        }
        Ok(reply)
    }

    /// A call that goes out into the world, by a function that can fail.
    pub(crate) async fn call(&mut self, call: HostCall) -> Result<Reply, HostError> {
        let (node, number) = (&self.context.node.id, self.root.id);
        let span = tracing::debug_span!("host_call", plugin = %self.bound.id, %node, call = number, on = call.name());
        async {
            let result = self.admit_and_run(call).await;
            if let Err(HostError::Answer(error)) = &result {
                tracing::debug!(cause = error.cause(), "{error}");
            }
            result
        }
        .instrument(span)
        .await
    }

    /// Lets time pass, at most to the call's end.
    pub(crate) async fn sleep(&mut self, ms: u32) -> Result<(), HostError> {
        self.count_call().map_err(|_| self.too_many_calls())?;
        let session = Arc::clone(&self.session);
        let time = Duration::from_millis(ms.into());
        // Past the deadline nobody is left to wake; whoever runs the call ends it.
        let _ = timeout_at(self.root.deadline, session.sleep(time)).await;
        Ok(())
    }

    async fn admit_and_run(&mut self, call: HostCall) -> Result<Reply, HostError> {
        self.count_call().map_err(|error| self.overrun(error))?;
        self.check_grants(&call)?;
        self.count_bytes(call.bytes()).map_err(|error| self.overrun(error))?;
        self.check_handles(&call)?;
        let verdict = envelope::verdict(&call, &self.context);
        if let Some(echo) = &mut self.echo {
            // What is there now is what the call has made of it: the slot or the backend is not looked at.
            if verdict == Verdict::Forbidden {
                return Err(envelope::refusal().into());
            }
            let reply = echo.answer(&call).map_err(HostError::Stop)??;
            self.count_bytes(reply.bytes()).map_err(|error| self.overrun(error))?;
            self.keep(&reply);
            return Ok(reply);
        }
        match verdict {
            Verdict::Allowed | Verdict::IfNothingIsReplaced => {}
            Verdict::Forbidden => return Err(envelope::refusal().into()),
            Verdict::IfSlotIsEmpty => self.require_empty_slot(&call).await?,
        }
        let asked = self.recording.is_some().then(|| call.clone());
        let reply = self.carry_out(call, verdict).await;
        if let (Some(recording), Some(asked)) = (&mut self.recording, asked)
            && !matches!(reply, Err(HostError::Stop(_)))
        {
            let reply = match &reply {
                Ok(reply) => Ok(reply.clone()),
                Err(HostError::Answer(error)) => Err(error.clone()),
                Err(HostError::Stop(failure)) => Err(DriverError::other("stopped", failure.to_string())),
            };
            recording.add(asked, reply);
        }
        let reply = reply?;
        self.count_bytes(reply.bytes()).map_err(|error| self.overrun(error))?;
        self.keep(&reply);
        Ok(reply)
    }

    async fn carry_out(&mut self, call: HostCall, verdict: Verdict) -> Result<Reply, HostError> {
        Ok(match call {
            HostCall::Publish {
                image,
                minimum_lifetime_s,
                ..
            } => {
                self.publish(image, minimum_lifetime_s, verdict == Verdict::IfNothingIsReplaced)
                    .await?
            }
            HostCall::NextPrepareRamdisk { parameters } => self.next(Entry::PrepareRamdisk(parameters)).await?,
            HostCall::NextCleanUpRamdisk => self.next(Entry::CleanUpRamdisk).await?,
            HostCall::NextPrepareInstance => self.next(Entry::PrepareInstance).await?,
            HostCall::NextCleanUpInstance => self.next(Entry::CleanUpInstance).await?,
            HostCall::NextAttach { device, location } => self.next(Entry::Attach(device, location)).await?,
            HostCall::NextDetach { device } => self.next(Entry::Detach(device)).await?,
            HostCall::NextBootIntoIso { location } => self.next(Entry::BootIntoIso(location)).await?,
            call if call.is_effect() => {
                let detail = self.describe(&call);
                self.effect(call, detail).await?
            }
            call => self.look(&call).await?,
        })
    }

    /// Something that changes nothing: it may be dropped half done.
    async fn look(&self, call: &HostCall) -> Result<Reply, HostError> {
        let done = timeout_at(self.root.deadline, self.session.perform(call)).await;
        Ok(done.unwrap_or_else(|_| Err(out_of_time(call.name())))?)
    }

    /// Something that changes the world.
    async fn effect(&self, call: HostCall, detail: String) -> Result<Reply, HostError> {
        let session = Arc::clone(&self.session);
        let deadline = self.root.deadline;
        let name = call.name();
        if deadline <= Instant::now() {
            return Err(out_of_time(name).into());
        }
        let task = async move {
            let begun = timeout_at(deadline, session.begin(name, &detail)).await;
            let effect = begun.unwrap_or_else(|_| Err(out_of_time(name)))?;
            let done = timeout_at(deadline, session.perform(&call)).await;
            let done = done.unwrap_or_else(|_| Err(out_of_time(name)));
            let outcome = match &done {
                Ok(_) => Ok(()),
                Err(error) => Err(format!("{}: {error}", error.cause())),
            };
            session.end(effect, outcome).await;
            done
        };
        match tokio::spawn(task.in_current_span()).await {
            Ok(done) => Ok(done?),
            Err(_) => {
                Err(DriverError::other("host-panic", format!("{name} failed inside the host: report this")).into())
            }
        }
    }

    /// Hands a call down the chain. No handle crosses: a location is taken into the next session as what it is.
    async fn next(&mut self, entry: Entry) -> Result<Reply, HostError> {
        let location = match &entry {
            Entry::Attach(_, handle) | Entry::BootIntoIso(handle) => self.session.lend(*handle),
            _ => None,
        };
        let from = if self.bound.role == crate::Role::Vmedia {
            self.number + 1
        } else {
            0
        };
        let runtime = Arc::clone(&self.runtime);
        runtime
            .nested_vmedia(&self.context, from, entry, location, self.nested())
            .await?;
        Ok(Reply::Done)
    }

    fn nested(&self) -> Nested {
        Nested {
            root: Arc::clone(&self.root),
            depth: self.depth + 1,
            number: 0,
        }
    }

    async fn require_empty_slot(&self, call: &HostCall) -> Result<(), HostError> {
        let HostCall::Insert { device, .. } = call else {
            return Ok(());
        };
        match self.look(&HostCall::MediaState { device: *device }).await? {
            Reply::Media(media) if !media.inserted => Ok(()),
            _ => Err(envelope::refusal().into()),
        }
    }

    fn check_grants(&self, call: &HostCall) -> Result<(), DriverError> {
        let users_text = |text: &str| facts::is_users_text(&self.context.node, text);
        let users_own = match call {
            HostCall::External { url } => users_text(url),
            HostCall::BuildBootIso { spec } => {
                matches!(&spec.source, crate::IsoSource::Iso(reference) if users_text(reference))
            }
            _ => false,
        };
        if users_own {
            // A reference that a user wrote into the node is the user's choice, not the plugin's.
            let mut given = self.given.clone();
            if let HostCall::External { url } = call {
                given.urls.insert(url.clone());
            }
            if let HostCall::BuildBootIso { spec } = call
                && let crate::IsoSource::Iso(reference) = &spec.source
            {
                given.urls.insert(reference.clone());
            }
            return self.bound.allowed.check(call, &given);
        }
        self.bound.allowed.check(call, &self.given)
    }

    /// What the broker knows itself.
    fn recall(&self, call: &HostCall) -> Reply {
        let node = &self.context.node;
        let site = &self.runtime.site_facts;
        match call {
            HostCall::Now => {
                let since = self.session.now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Reply::Number(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            }
            HostCall::Config { pointer } => Reply::MaybeText(self.bound.settings.pointer(pointer).map(Json::to_string)),
            HostCall::NodeId => Reply::Text(node.id.to_string()),
            HostCall::NodeName => Reply::MaybeText(node.name.as_ref().map(|name| name.as_str().to_owned())),
            HostCall::ProvisionState => Reply::Text(node.provision_state.as_str().to_owned()),
            HostCall::Fact { key } => Reply::MaybeText(facts::fact(node, site, key)),
            HostCall::FactsUnder { prefix } => Reply::Facts(facts::facts_under(node, site, prefix)),
            HostCall::InstanceInfo { key } => Reply::MaybeText(facts::field(&node.instance_info, key)),
            HostCall::DriverInfo { key } => Reply::MaybeText(facts::field(&node.driver_info, key)),
            _ => Reply::Done,
        }
    }

    fn log(&mut self, level: Level, message: &str, fields: &[(String, String)]) {
        let bytes = message.len() + fields.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        let limit = self.bound.limits.log_bytes;
        let total = self.usage.log_bytes.saturating_add(bytes as u64);
        let (plugin, node, call) = (&self.bound.id, &self.context.node.id, self.root.id);
        if total > limit {
            if !self.usage.log_cut {
                self.usage.log_cut = true;
                tracing::warn!(%plugin, %node, call, "the rest of this call's log is dropped: more than {limit} bytes (limit `log-bytes`)");
            }
            return;
        }
        self.usage.log_bytes = total;
        self.session.log(level, message, fields);
        // A guest's text is data: it is shown escaped, so that it cannot forge lines.
        match level {
            Level::Trace => tracing::trace!(%plugin, %node, call, ?fields, "{}", message.escape_debug()),
            Level::Debug => tracing::debug!(%plugin, %node, call, ?fields, "{}", message.escape_debug()),
            Level::Info => tracing::info!(%plugin, %node, call, ?fields, "{}", message.escape_debug()),
            Level::Warn => tracing::warn!(%plugin, %node, call, ?fields, "{}", message.escape_debug()),
            Level::Error => tracing::error!(%plugin, %node, call, ?fields, "{}", message.escape_debug()),
        }
    }

    /// For the journal: what exactly, without secrets.
    fn describe(&self, call: &HostCall) -> String {
        let location = |handle: &LocationHandle| self.locations.get(handle).map_or("?", |info| info.display.as_str());
        match call {
            HostCall::Insert {
                device,
                location: handle,
                options,
            } => {
                let once = if options.boot_once { ", boot once" } else { "" };
                format!("{} <- {}{once}", device.as_str(), location(handle))
            }
            HostCall::Eject { device } => device.as_str().to_owned(),
            HostCall::Withdraw { kind } => kind.as_str().to_owned(),
            HostCall::Renew {
                location: handle,
                minimum_lifetime_s,
            } => {
                format!("{} for {minimum_lifetime_s} s", location(handle))
            }
            HostCall::SetBootDevice { device, persistent } => {
                format!("{device:?} {}", if *persistent { "from now on" } else { "once" })
            }
            HostCall::SetBootMode { mode } => mode.as_str().to_owned(),
            HostCall::SetSecureBoot { enabled } => enabled.to_string(),
            HostCall::SetPower { action, .. } => format!("{action:?}"),
            HostCall::Redfish { method, path, .. } => format!("{method} {path}"),
            HostCall::Ribcl { command, .. } => command.clone(),
            _ => String::new(),
        }
    }
}

fn out_of_time(name: &str) -> DriverError {
    DriverError::Timeout(format!(
        "{name} did not end within what was left of the call's time; it may have happened"
    ))
}
