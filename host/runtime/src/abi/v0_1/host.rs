//! The imported interfaces: each function makes a host call of its arguments and hands it to the broker.

use wasmtime::component::Resource;

use super::convert::{
    action_in, boot_device_in, boot_iso_in, boot_mode_in, boot_mode_out, device_in, error_out, floppy_in,
    insert_options_in, kind_in, kind_out, level_in, media_out, parameters_in, power_out, unknown_kind,
};
use super::wit::{bmc, bmc_raw, clock, config, image, inventory, log, power, state, storage, types, vmedia_service};
use super::{Image, Location, Node};
use crate::broker::HostError;
use crate::calls::{HostCall, ImageHandle, LocationHandle, Reply};
use crate::run::CallState;
use crate::{DriverError, Renewal};

type Answer<T> = Result<T, HostError>;

fn image_handle(image: &Resource<Image>) -> ImageHandle {
    ImageHandle(image.rep())
}

fn location_handle(location: &Resource<Location>) -> LocationHandle {
    LocationHandle(location.rep())
}

/// The world gave an answer of another type than the call has.
fn mismatch<T>() -> Answer<T> {
    Err(HostError::Answer(DriverError::other(
        "host-error",
        "the host answered something that this call cannot have",
    )))
}

impl CallState {
    async fn done(&mut self, call: HostCall) -> Answer<()> {
        self.broker.call(call).await.map(drop)
    }

    fn text(&mut self, call: HostCall) -> wasmtime::Result<String> {
        match self.broker.read(call)? {
            Reply::Text(text) => Ok(text),
            _ => Ok(String::new()),
        }
    }

    fn maybe_text(&mut self, call: HostCall) -> wasmtime::Result<Option<String>> {
        match self.broker.read(call)? {
            Reply::MaybeText(text) => Ok(text),
            _ => Ok(None),
        }
    }

    async fn image(&mut self, call: HostCall) -> Answer<Resource<Image>> {
        match self.broker.call(call).await? {
            Reply::Image(handle, _) => Ok(Resource::new_own(handle.0)),
            _ => mismatch(),
        }
    }

    async fn location(&mut self, call: HostCall) -> Answer<Resource<Location>> {
        match self.broker.call(call).await? {
            Reply::Location(handle, _) => Ok(Resource::new_own(handle.0)),
            _ => mismatch(),
        }
    }
}

impl types::Host for CallState {
    fn convert_error(&mut self, error: HostError) -> wasmtime::Result<types::Error> {
        match error {
            HostError::Answer(error) => Ok(error_out(error)),
            stop @ HostError::Stop(_) => Err(stop.into()),
        }
    }
}

impl log::Host for CallState {
    fn event(&mut self, level: log::Level, message: String, fields: Vec<(String, String)>) -> wasmtime::Result<()> {
        self.broker.read(HostCall::Log {
            level: level_in(level),
            message,
            fields,
        })?;
        Ok(())
    }
}

impl clock::Host for CallState {
    fn now_ms(&mut self) -> wasmtime::Result<u64> {
        match self.broker.read(HostCall::Now)? {
            Reply::Number(now) => Ok(now),
            _ => Ok(0),
        }
    }

    async fn sleep_ms(&mut self, ms: u32) -> wasmtime::Result<()> {
        self.broker.sleep(ms).await?;
        Ok(())
    }
}

impl config::Host for CallState {
    fn get(&mut self, pointer: String) -> wasmtime::Result<Option<String>> {
        self.maybe_text(HostCall::Config { pointer })
    }
}

impl inventory::Host for CallState {}

impl inventory::HostNode for CallState {
    fn id(&mut self, _: Resource<Node>) -> wasmtime::Result<String> {
        self.text(HostCall::NodeId)
    }

    fn name(&mut self, _: Resource<Node>) -> wasmtime::Result<Option<String>> {
        self.maybe_text(HostCall::NodeName)
    }

    fn provision_state(&mut self, _: Resource<Node>) -> wasmtime::Result<String> {
        self.text(HostCall::ProvisionState)
    }

    fn fact(&mut self, _: Resource<Node>, key: String) -> wasmtime::Result<Option<String>> {
        self.maybe_text(HostCall::Fact { key })
    }

    fn facts_under(&mut self, _: Resource<Node>, prefix: String) -> wasmtime::Result<Vec<(String, String)>> {
        match self.broker.read(HostCall::FactsUnder { prefix })? {
            Reply::Facts(facts) => Ok(facts),
            _ => Ok(vec![]),
        }
    }

    fn instance_info(&mut self, _: Resource<Node>, key: String) -> wasmtime::Result<Option<String>> {
        self.maybe_text(HostCall::InstanceInfo { key })
    }

    fn driver_info(&mut self, _: Resource<Node>, key: String) -> wasmtime::Result<Option<String>> {
        self.maybe_text(HostCall::DriverInfo { key })
    }

    fn drop(&mut self, _: Resource<Node>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl state::Host for CallState {
    async fn get(&mut self, _: Resource<Node>, key: String) -> Answer<Option<state::Versioned>> {
        match self.broker.call(HostCall::StateGet { key }).await? {
            Reply::Value(value) => Ok(value.map(|value| state::Versioned {
                version: value.version,
                value: value.value,
            })),
            _ => mismatch(),
        }
    }

    async fn put(&mut self, _: Resource<Node>, key: String, value: String, expect: Option<u64>) -> Answer<u64> {
        match self.broker.call(HostCall::StatePut { key, value, expect }).await? {
            Reply::Number(version) => Ok(version),
            _ => mismatch(),
        }
    }

    async fn delete(&mut self, _: Resource<Node>, key: String) -> Answer<()> {
        self.done(HostCall::StateDelete { key }).await
    }
}

impl image::Host for CallState {
    async fn build_floppy(&mut self, _: Resource<Node>, spec: image::FloppySpec) -> Answer<Resource<Image>> {
        self.image(HostCall::BuildFloppy { spec: floppy_in(spec) }).await
    }

    async fn build_boot_iso(&mut self, _: Resource<Node>, spec: image::BootIsoSpec) -> Answer<Resource<Image>> {
        self.image(HostCall::BuildBootIso {
            spec: boot_iso_in(spec),
        })
        .await
    }
}

impl image::HostImage for CallState {
    fn kind(&mut self, image: Resource<Image>) -> wasmtime::Result<types::ArtefactKind> {
        let kind = self.broker.image(image_handle(&image))?.kind;
        kind_out(kind).ok_or_else(|| unknown_kind(kind))
    }

    fn digest(&mut self, image: Resource<Image>) -> wasmtime::Result<String> {
        Ok(self.broker.image(image_handle(&image))?.digest.clone())
    }

    fn size(&mut self, image: Resource<Image>) -> wasmtime::Result<u64> {
        Ok(self.broker.image(image_handle(&image))?.size)
    }

    fn drop(&mut self, image: Resource<Image>) -> wasmtime::Result<()> {
        self.broker.drop_image(image_handle(&image));
        Ok(())
    }
}

impl storage::Host for CallState {
    async fn publish(
        &mut self,
        _: Resource<Node>,
        image: Resource<Image>,
        minimum_lifetime_s: u32,
    ) -> Answer<Resource<Location>> {
        let image = image_handle(&image);
        self.location(HostCall::Publish {
            image,
            minimum_lifetime_s,
            backend: None,
        })
        .await
    }

    async fn find(&mut self, _: Resource<Node>, kind: types::ArtefactKind) -> Answer<Option<Resource<Location>>> {
        match self.broker.call(HostCall::Find { kind: kind_in(kind) }).await? {
            Reply::MaybeLocation(found) => Ok(found.map(|(handle, _)| Resource::new_own(handle.0))),
            _ => mismatch(),
        }
    }

    async fn renew(&mut self, location: Resource<Location>, minimum_lifetime_s: u32) -> Answer<storage::Renewal> {
        let location = location_handle(&location);
        match self
            .broker
            .call(HostCall::Renew {
                location,
                minimum_lifetime_s,
            })
            .await?
        {
            Reply::Renewal(Renewal::Extended) => Ok(storage::Renewal::Extended),
            Reply::Renewal(Renewal::UrlChanged) => Ok(storage::Renewal::UrlChanged),
            Reply::Renewal(Renewal::NotPossible) => Ok(storage::Renewal::NotPossible),
            _ => mismatch(),
        }
    }

    async fn withdraw(&mut self, _: Resource<Node>, kind: types::ArtefactKind) -> Answer<()> {
        self.done(HostCall::Withdraw { kind: kind_in(kind) }).await
    }

    async fn external(&mut self, url: String) -> Answer<Resource<Location>> {
        self.location(HostCall::External { url }).await
    }
}

impl storage::HostLocation for CallState {
    fn backend(&mut self, location: Resource<Location>) -> wasmtime::Result<String> {
        Ok(self.broker.location(location_handle(&location))?.backend.clone())
    }

    fn display(&mut self, location: Resource<Location>) -> wasmtime::Result<String> {
        Ok(self.broker.location(location_handle(&location))?.display.clone())
    }

    fn digest(&mut self, location: Resource<Location>) -> wasmtime::Result<Option<String>> {
        Ok(self.broker.location(location_handle(&location))?.digest.clone())
    }

    fn expires_ms(&mut self, location: Resource<Location>) -> wasmtime::Result<Option<u64>> {
        Ok(self.broker.location(location_handle(&location))?.expires_ms)
    }

    fn drop(&mut self, location: Resource<Location>) -> wasmtime::Result<()> {
        self.broker.drop_location(location_handle(&location));
        Ok(())
    }
}

impl bmc::Host for CallState {
    async fn media_state(&mut self, _: Resource<Node>, device: types::Device) -> Answer<types::Media> {
        match self
            .broker
            .call(HostCall::MediaState {
                device: device_in(device),
            })
            .await?
        {
            Reply::Media(media) => Ok(media_out(media)),
            _ => mismatch(),
        }
    }

    async fn insert(
        &mut self,
        _: Resource<Node>,
        device: types::Device,
        location: Resource<Location>,
        options: bmc::InsertOptions,
    ) -> Answer<()> {
        let (device, location) = (device_in(device), location_handle(&location));
        self.done(HostCall::Insert {
            device,
            location,
            options: insert_options_in(options),
        })
        .await
    }

    async fn eject(&mut self, _: Resource<Node>, device: types::Device) -> Answer<()> {
        self.done(HostCall::Eject {
            device: device_in(device),
        })
        .await
    }

    async fn set_boot_device(&mut self, _: Resource<Node>, device: bmc::BootDevice, persistent: bool) -> Answer<()> {
        self.done(HostCall::SetBootDevice {
            device: boot_device_in(device),
            persistent,
        })
        .await
    }

    async fn boot_mode_of(&mut self, _: Resource<Node>) -> Answer<types::BootMode> {
        match self.broker.call(HostCall::BootModeOf).await? {
            Reply::BootMode(mode) => Ok(boot_mode_out(mode)),
            _ => mismatch(),
        }
    }

    async fn set_boot_mode(&mut self, _: Resource<Node>, mode: types::BootMode) -> Answer<()> {
        self.done(HostCall::SetBootMode {
            mode: boot_mode_in(mode),
        })
        .await
    }

    async fn secure_boot_of(&mut self, _: Resource<Node>) -> Answer<bool> {
        match self.broker.call(HostCall::SecureBootOf).await? {
            Reply::Flag(on) => Ok(on),
            _ => mismatch(),
        }
    }

    async fn set_secure_boot(&mut self, _: Resource<Node>, enabled: bool) -> Answer<()> {
        self.done(HostCall::SetSecureBoot { enabled }).await
    }
}

impl power::Host for CallState {
    async fn state_of(&mut self, _: Resource<Node>) -> Answer<types::PowerState> {
        match self.broker.call(HostCall::PowerStateOf).await? {
            Reply::Power(state) => Ok(power_out(state)),
            _ => mismatch(),
        }
    }

    async fn set(&mut self, _: Resource<Node>, action: power::Action, deadline_ms: u32) -> Answer<()> {
        self.done(HostCall::SetPower {
            action: action_in(action),
            deadline_ms,
        })
        .await
    }
}

impl bmc_raw::Host for CallState {
    async fn redfish(
        &mut self,
        _: Resource<Node>,
        method: String,
        path: String,
        body: Option<String>,
    ) -> Answer<bmc_raw::Reply> {
        match self.broker.call(HostCall::Redfish { method, path, body }).await? {
            Reply::Raw(raw) => Ok(bmc_raw::Reply {
                status: raw.status,
                headers: raw.headers,
                body: raw.body,
            }),
            _ => mismatch(),
        }
    }

    async fn ribcl(&mut self, _: Resource<Node>, command: String, attributes: Vec<(String, String)>) -> Answer<String> {
        match self.broker.call(HostCall::Ribcl { command, attributes }).await? {
            Reply::Text(text) => Ok(text),
            _ => mismatch(),
        }
    }
}

impl vmedia_service::Host for CallState {
    async fn prepare_ramdisk(&mut self, _: Resource<Node>, parameters: Vec<image::Parameter>) -> Answer<()> {
        self.done(HostCall::NextPrepareRamdisk {
            parameters: parameters_in(parameters),
        })
        .await
    }

    async fn clean_up_ramdisk(&mut self, _: Resource<Node>) -> Answer<()> {
        self.done(HostCall::NextCleanUpRamdisk).await
    }

    async fn prepare_instance(&mut self, _: Resource<Node>) -> Answer<()> {
        self.done(HostCall::NextPrepareInstance).await
    }

    async fn clean_up_instance(&mut self, _: Resource<Node>) -> Answer<()> {
        self.done(HostCall::NextCleanUpInstance).await
    }

    async fn attach(&mut self, _: Resource<Node>, device: types::Device, location: Resource<Location>) -> Answer<()> {
        let (device, location) = (device_in(device), location_handle(&location));
        self.done(HostCall::NextAttach { device, location }).await
    }

    async fn detach(&mut self, _: Resource<Node>, device: types::Device) -> Answer<()> {
        self.done(HostCall::NextDetach {
            device: device_in(device),
        })
        .await
    }

    async fn boot_into_iso(&mut self, _: Resource<Node>, iso: Resource<Location>) -> Answer<()> {
        self.done(HostCall::NextBootIntoIso {
            location: location_handle(&iso),
        })
        .await
    }
}
