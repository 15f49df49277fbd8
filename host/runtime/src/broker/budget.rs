//! What a call has used and which handles it has. A function that can fail answers `budget` when a limit has run out; a
//! guest that does not listen is stopped.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::{Broker, HostError};
use crate::calls::{HostCall, ImageHandle, ImageInfo, LocationHandle, LocationInfo, Parameter, Reply, Value};
use crate::grants::Given;
use crate::{CallFailure, DriverError};

/// A guest that goes on after being told so often that a budget ran out is stopped.
const PATIENCE: u32 = 64;

/// What one call has used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) host_calls: u32,
    pub(crate) host_bytes: u64,
    pub(super) log_bytes: u64,
    pub(super) log_cut: bool,
    overruns: u32,
}

/// Budgets.
impl Broker {
    pub(super) fn count_call(&mut self) -> Result<(), DriverError> {
        self.usage.host_calls = self.usage.host_calls.saturating_add(1);
        let all = self.root.calls.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let own = self.bound.limits.host_calls;
        if self.usage.host_calls > own || all > self.root.limit {
            return Err(DriverError::Budget("host-calls".to_owned()));
        }
        Ok(())
    }

    pub(super) fn count_bytes(&mut self, bytes: usize) -> Result<(), DriverError> {
        self.usage.host_bytes = self.usage.host_bytes.saturating_add(bytes as u64);
        if self.usage.host_bytes > self.bound.limits.host_bytes {
            return Err(DriverError::Budget("host-bytes".to_owned()));
        }
        Ok(())
    }

    pub(super) fn check_handles(&mut self, call: &HostCall) -> Result<(), HostError> {
        let makes_one = matches!(
            call,
            HostCall::BuildFloppy { .. }
                | HostCall::BuildBootIso { .. }
                | HostCall::Publish { .. }
                | HostCall::Find { .. }
                | HostCall::External { .. }
        );
        let live = self.images.len() + self.locations.len();
        if makes_one && live >= usize::try_from(self.bound.limits.handles).unwrap_or(usize::MAX) {
            let error = DriverError::Budget("handles".to_owned());
            return Err(self.overrun(error));
        }
        Ok(())
    }

    /// The guest is told; one that does not listen is stopped.
    pub(super) fn overrun(&mut self, error: DriverError) -> HostError {
        self.usage.overruns += 1;
        if self.usage.overruns > PATIENCE {
            self.too_many_calls()
        } else {
            error.into()
        }
    }

    pub(super) fn too_many_calls(&self) -> HostError {
        HostError::Stop(CallFailure::HostCalls(self.bound.limits.host_calls))
    }
}

/// Handles.
impl Broker {
    pub(crate) fn image(&mut self, handle: ImageHandle) -> Result<&ImageInfo, HostError> {
        self.count_call().map_err(|_| self.too_many_calls())?;
        self.images.get(&handle).ok_or_else(unknown_handle)
    }

    pub(crate) fn location(&mut self, handle: LocationHandle) -> Result<&LocationInfo, HostError> {
        self.count_call().map_err(|_| self.too_many_calls())?;
        self.locations.get(&handle).ok_or_else(unknown_handle)
    }

    /// Takes a location in that the caller hands to the guest.
    pub(crate) fn accept(&mut self, location: crate::Location) -> LocationHandle {
        if location.backend.is_none() {
            self.given.urls.insert(location.url.expose().to_owned());
        }
        let (handle, info) = self.session.accept(location);
        if let Some(recording) = &mut self.recording {
            recording.give(handle, &info);
        }
        self.locations.insert(handle, info);
        handle
    }

    /// Takes over what the call that a shadow runs along with was given.
    pub(crate) fn take_given(&mut self, given: Given, locations: &BTreeMap<LocationHandle, LocationInfo>) {
        self.given = given;
        self.locations
            .extend(locations.iter().map(|(handle, info)| (*handle, info.clone())));
    }

    pub(crate) fn given(&self) -> &Given {
        &self.given
    }

    /// The names of secrets that came with the call: the guest may hand them on without a grant.
    pub(crate) fn give_secrets(&mut self, parameters: &[Parameter]) {
        self.given
            .secrets
            .extend(parameters.iter().filter_map(|parameter| match &parameter.value {
                Value::Secret(name) => Some(name.clone()),
                Value::Plain(_) => None,
            }));
    }

    pub(crate) fn drop_image(&mut self, handle: ImageHandle) {
        self.images.remove(&handle);
        self.session.drop_image(handle);
    }

    pub(crate) fn drop_location(&mut self, handle: LocationHandle) {
        self.locations.remove(&handle);
        self.session.drop_location(handle);
    }

    pub(super) fn keep(&mut self, reply: &Reply) {
        match reply {
            Reply::Image(handle, info) => {
                self.images.insert(*handle, info.clone());
            }
            Reply::Location(handle, info) | Reply::MaybeLocation(Some((handle, info))) => {
                self.locations.insert(*handle, info.clone());
            }
            _ => {}
        }
    }
}

fn unknown_handle() -> HostError {
    HostError::Stop(CallFailure::Trapped(
        "it used a handle that it does not have".to_owned(),
    ))
}
