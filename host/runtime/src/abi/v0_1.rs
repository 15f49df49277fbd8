//! `farrier:driver@0.1`: what a component of each role imports and exports.

mod convert;
mod host;

use wasmtime::component::{Component, ComponentExportIndex, HasSelf, Instance, Lift, Linker, Lower, Resource};
use wasmtime::component::{ComponentNamedList, TypedFunc};
use wasmtime::{Engine, Store};

use crate::broker::HostError;
use crate::run::{Answer, CallState, Entry};
use crate::{DriverError, Role};

use bindings::exports::farrier::driver as exported;
use bindings::farrier::driver as wit;
use wit::types::Error;

/// The version in the names of interfaces.
pub(crate) const VERSION: &str = "0.1.0";
/// What this host tells people that it offers.
pub(crate) const OFFERS: &str = "0.1";

mod handles {
    #![expect(unreachable_pub, reason = "the generated bindings re-export them")]

    /// The node of a call; there is one, so its number says nothing.
    pub enum Node {}
    /// An image; its number is the session's handle.
    pub enum Image {}
    /// A location; its number is the session's handle.
    pub enum Location {}
}

use handles::{Image, Location, Node};

pub(crate) mod bindings {
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "
            package farrier:host;
            world host {
                import farrier:driver/log@0.1.0;
                import farrier:driver/clock@0.1.0;
                import farrier:driver/config@0.1.0;
                import farrier:driver/inventory@0.1.0;
                import farrier:driver/state@0.1.0;
                import farrier:driver/image@0.1.0;
                import farrier:driver/storage@0.1.0;
                import farrier:driver/bmc@0.1.0;
                import farrier:driver/power@0.1.0;
                import farrier:driver/bmc-raw@0.1.0;
                import farrier:driver/vmedia-service@0.1.0;
                export farrier:driver/backend-selection@0.1.0;
                export farrier:driver/vmedia@0.1.0;
                export farrier:driver/take-over@0.1.0;
                export farrier:driver/vendor@0.1.0;
            }
        ",
        // What the broker answers from memory needs no fiber switch.
        imports: {
            "farrier:driver/log": trappable,
            "farrier:driver/clock.now-ms": trappable,
            "farrier:driver/config": trappable,
            "farrier:driver/inventory": trappable,
            "farrier:driver/image.[method]image.kind": trappable,
            "farrier:driver/image.[method]image.digest": trappable,
            "farrier:driver/image.[method]image.size": trappable,
            "farrier:driver/storage.[method]location.backend": trappable,
            "farrier:driver/storage.[method]location.display": trappable,
            "farrier:driver/storage.[method]location.digest": trappable,
            "farrier:driver/storage.[method]location.expires-ms": trappable,
            "farrier:driver/image.[drop]image": trappable,
            "farrier:driver/storage.[drop]location": trappable,
            default: async | trappable,
        },
        exports: { default: async },
        with: {
            "farrier:driver/inventory.node": super::handles::Node,
            "farrier:driver/image.image": super::handles::Image,
            "farrier:driver/storage.location": super::handles::Location,
        },
        trappable_error_type: { "farrier:driver/types.error" => crate::broker::HostError },
    });
}

/// What a component of this role may import.
pub(crate) fn interfaces(role: Role) -> &'static [&'static str] {
    match role {
        Role::BackendSelection | Role::TakeOver => &["types", "log", "config", "inventory"],
        Role::Vmedia => &[
            "types",
            "log",
            "clock",
            "config",
            "inventory",
            "state",
            "image",
            "storage",
            "bmc",
            "vmedia-service",
        ],
        Role::Vendor => &[
            "types",
            "log",
            "clock",
            "config",
            "inventory",
            "state",
            "image",
            "storage",
            "bmc",
            "power",
            "bmc-raw",
            "vmedia-service",
        ],
    }
}

/// The interfaces of a role, and no others.
pub(crate) fn linker(engine: &Engine, role: Role) -> wasmtime::Result<Linker<CallState>> {
    type This = HasSelf<CallState>;
    let mut linker = Linker::new(engine);
    for interface in interfaces(role) {
        match *interface {
            "types" => wit::types::add_to_linker::<_, This>(&mut linker, |state| state)?,
            "log" => wit::log::add_to_linker::<_, This>(&mut linker, |state| state)?,
            "clock" => wit::clock::add_to_linker::<_, This>(&mut linker, |state| state)?,
            "config" => wit::config::add_to_linker::<_, This>(&mut linker, |state| state)?,
            "inventory" => wit::inventory::add_to_linker::<_, This>(&mut linker, |state| state)?,
            "state" => wit::state::add_to_linker::<_, This>(&mut linker, |state| state)?,
            "image" => wit::image::add_to_linker::<_, This>(&mut linker, |state| state)?,
            "storage" => wit::storage::add_to_linker::<_, This>(&mut linker, |state| state)?,
            "bmc" => wit::bmc::add_to_linker::<_, This>(&mut linker, |state| state)?,
            "power" => wit::power::add_to_linker::<_, This>(&mut linker, |state| state)?,
            "bmc-raw" => wit::bmc_raw::add_to_linker::<_, This>(&mut linker, |state| state)?,
            _ => wit::vmedia_service::add_to_linker::<_, This>(&mut linker, |state| state)?,
        }
    }
    Ok(linker)
}

/// Where a component's exported functions are, looked up once.
pub(crate) struct Exports(Vec<(&'static str, ComponentExportIndex)>);

impl Exports {
    /// Looks up what the role must export; the error is the name of what is missing.
    pub(crate) fn find(component: &Component, role: Role) -> Result<Self, String> {
        let interface = format!("farrier:driver/{role}@{VERSION}");
        let instance = component
            .get_export_index(None, &interface)
            .ok_or_else(|| interface.clone())?;
        let find = |name: &&'static str| {
            let index = component.get_export_index(Some(&instance), *name);
            index
                .map(|index| (*name, index))
                .ok_or_else(|| format!("{interface}.{name}"))
        };
        functions(role).iter().map(find).collect::<Result<_, _>>().map(Self)
    }

    fn get<P, R>(
        &self,
        store: &mut Store<CallState>,
        instance: &Instance,
        name: &str,
    ) -> wasmtime::Result<TypedFunc<P, (R,)>>
    where
        P: ComponentNamedList + Lower,
        (R,): ComponentNamedList + Lift,
    {
        let index = self.0.iter().find(|(known, _)| *known == name);
        let (_, index) = index.ok_or_else(|| wasmtime::Error::msg(format!("no export `{name}`")))?;
        instance.get_typed_func(store, index)
    }

    /// Checks the type of each export.
    pub(crate) fn check(&self, store: &mut Store<CallState>, instance: &Instance, role: Role) -> wasmtime::Result<()> {
        for name in functions(role) {
            match (role, *name) {
                (Role::BackendSelection, _) => self.get::<Select<'_>, Choose>(store, instance, name).map(drop)?,
                (Role::TakeOver, _) => self.get::<Plan<'_>, Steps>(store, instance, name).map(drop)?,
                (Role::Vendor, "methods") => self.get::<(), Methods>(store, instance, name).map(drop)?,
                (Role::Vendor, _) => self
                    .get::<VendorCall<'_>, Result<String, Error>>(store, instance, name)
                    .map(drop)?,
                (Role::Vmedia, "prepare-ramdisk") => self.get::<Ramdisk<'_>, Unit>(store, instance, name).map(drop)?,
                (Role::Vmedia, "attach") => self.get::<Attach, Unit>(store, instance, name).map(drop)?,
                (Role::Vmedia, "detach") => self.get::<Detach, Unit>(store, instance, name).map(drop)?,
                (Role::Vmedia, "boot-into-iso") => self.get::<BootInto, Unit>(store, instance, name).map(drop)?,
                (Role::Vmedia, _) => self.get::<OnlyNode, Unit>(store, instance, name).map(drop)?,
            }
        }
        Ok(())
    }
}

type Unit = Result<(), Error>;
type OnlyNode = (Resource<Node>,);
type Ramdisk<'a> = (Resource<Node>, &'a [wit::image::Parameter]);
type Attach = (Resource<Node>, wit::types::Device, Resource<Location>);
type Detach = (Resource<Node>, wit::types::Device);
type BootInto = (Resource<Node>, Resource<Location>);
type Select<'a> = (
    Resource<Node>,
    exported::backend_selection::Request,
    &'a [exported::backend_selection::Candidate],
);
type Choose = Result<exported::backend_selection::Choice, Error>;
type Plan<'a> = (Resource<Node>, &'a exported::take_over::Observation);
type Steps = Result<Vec<exported::take_over::Step>, Error>;
type Methods = Vec<exported::vendor::Method>;
type VendorCall<'a> = (Resource<Node>, &'a str, &'a str);

fn functions(role: Role) -> &'static [&'static str] {
    match role {
        Role::BackendSelection => &["select"],
        Role::TakeOver => &["plan"],
        Role::Vendor => &["methods", "call"],
        Role::Vmedia => &[
            "prepare-ramdisk",
            "clean-up-ramdisk",
            "prepare-instance",
            "clean-up-instance",
            "attach",
            "detach",
            "boot-into-iso",
        ],
    }
}

/// Calls the exported function.
pub(crate) async fn enter(
    store: &mut Store<CallState>,
    instance: &Instance,
    exports: &Exports,
    entry: &Entry,
) -> wasmtime::Result<Result<Answer, DriverError>> {
    let node = || Resource::<Node>::new_borrow(0);
    let name = entry.function();
    let unit = |answer: Unit| answer.map(|()| Answer::Done);
    let answer = match entry {
        Entry::PrepareRamdisk(parameters) => {
            let parameters: Vec<_> = parameters.iter().map(convert::parameter_out).collect();
            let function = exports.get::<Ramdisk<'_>, Unit>(store, instance, name)?;
            unit(function.call_async(store, (node(), &parameters)).await?.0)
        }
        Entry::CleanUpRamdisk | Entry::PrepareInstance | Entry::CleanUpInstance => {
            let function = exports.get::<OnlyNode, Unit>(store, instance, name)?;
            unit(function.call_async(store, (node(),)).await?.0)
        }
        Entry::Attach(device, location) => {
            let function = exports.get::<Attach, Unit>(store, instance, name)?;
            let location = Resource::new_borrow(location.0);
            unit(
                function
                    .call_async(store, (node(), convert::device_out(*device), location))
                    .await?
                    .0,
            )
        }
        Entry::Detach(device) => {
            let function = exports.get::<Detach, Unit>(store, instance, name)?;
            unit(
                function
                    .call_async(store, (node(), convert::device_out(*device)))
                    .await?
                    .0,
            )
        }
        Entry::BootIntoIso(location) => {
            let function = exports.get::<BootInto, Unit>(store, instance, name)?;
            unit(
                function
                    .call_async(store, (node(), Resource::new_borrow(location.0)))
                    .await?
                    .0,
            )
        }
        Entry::Select(request, candidates) => {
            let candidates: Vec<_> = candidates.iter().map(convert::candidate_out).collect();
            let function = exports.get::<Select<'_>, Choose>(store, instance, name)?;
            let request = convert::request_out(request)?;
            let (choice,) = function.call_async(store, (node(), request, &candidates)).await?;
            choice.map(|choice| Answer::Choice(convert::choice_in(choice)))
        }
        Entry::Methods => {
            let function = exports.get::<(), Methods>(store, instance, name)?;
            let (methods,) = function.call_async(store, ()).await?;
            Ok(Answer::Methods(methods.into_iter().map(convert::method_in).collect()))
        }
        Entry::Vendor { method, arguments } => {
            let function = exports.get::<VendorCall<'_>, Result<String, Error>>(store, instance, name)?;
            let (answer,) = function
                .call_async(store, (node(), method.as_str(), arguments.as_str()))
                .await?;
            answer.map(Answer::Text)
        }
        Entry::Plan(observation) => {
            let observation = convert::observation_out(observation);
            let function = exports.get::<Plan<'_>, Steps>(store, instance, name)?;
            let (steps,) = function.call_async(store, (node(), &observation)).await?;
            steps.map(|steps| Answer::Steps(steps.into_iter().map(convert::step_in).collect()))
        }
    };
    Ok(answer.map_err(convert::error_in))
}

impl From<HostError> for wasmtime::Error {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Stop(failure) => crate::engine::Stopped(failure).into(),
            // Only a function that cannot fail gets here with an answer; the broker never gives it one.
            HostError::Answer(error) => Self::msg(error.to_string()),
        }
    }
}
