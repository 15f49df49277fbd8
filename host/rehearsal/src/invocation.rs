//! The plugin's function that a case calls, with its arguments; and what it gave, as scenario files write it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Device, PowerState, Secret};
use runtime::{
    CallContext, CallError, CallReport, Called, Candidate, Choice, InterruptedStep, Observation, ObservedArtefact,
    Parameter, Request, Role, Runtime, Value, VendorMethod, told_step,
};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::nearest::unknown;
use crate::nouns::{Kind, MediaFile, Power, Repeated, Slot, Url};
use crate::reply::typed;

const FUNCTIONS: &[&str] = &[
    "vmedia.prepare-ramdisk",
    "vmedia.clean-up-ramdisk",
    "vmedia.prepare-instance",
    "vmedia.clean-up-instance",
    "vmedia.attach",
    "vmedia.detach",
    "vmedia.boot-into-iso",
    "backend-selection.select",
    "take-over.plan",
    "vendor.methods",
    "vendor.call",
];

/// A call of a plugin.
#[derive(Clone, Debug)]
pub(crate) enum Invocation {
    PrepareRamdisk(Vec<Parameter>),
    CleanUpRamdisk,
    PrepareInstance,
    CleanUpInstance,
    Attach(Device, Secret),
    Detach(Device),
    BootIntoIso(Secret),
    Select(Request, Vec<Candidate>),
    Plan(Box<Observation>),
    Methods,
    Call { method: String, arguments: String },
}

/// What a call gave, and what it cost.
pub(crate) struct Done {
    pub(crate) result: Result<Json, CallError>,
    pub(crate) report: CallReport,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Ramdisk {
    parameters: Vec<ParameterFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParameterFile {
    key: String,
    value: Json,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attach {
    device: Slot,
    url: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Detach {
    device: Slot,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Iso {
    url: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Select {
    request: RequestFile,
    candidates: Vec<CandidateFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RequestFile {
    kind: Kind,
    size: u64,
    lifetime_s: Option<u32>,
}

/// A backend that the world offers, or that a case asks `select` about.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct CandidateFile {
    id: String,
    kind: Option<String>,
    healthy: Option<bool>,
    free_bytes: Option<u64>,
    max_lifetime_s: Option<u32>,
    #[serde(default)]
    traits: BTreeMap<String, String>,
}

impl From<CandidateFile> for Candidate {
    fn from(file: CandidateFile) -> Self {
        Self {
            id: file.id,
            kind: file.kind.unwrap_or_else(|| "embedded".to_owned()),
            healthy: file.healthy.unwrap_or(true),
            free_bytes: file.free_bytes,
            max_lifetime_s: file.max_lifetime_s,
            traits: file.traits.into_iter().collect(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    observation: ObservationFile,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ObservationFile {
    previous_conductor: Option<String>,
    power: Option<Power>,
    cdrom: Option<MediaFile>,
    floppy: Option<MediaFile>,
    #[serde(default)]
    artefacts: Vec<ArtefactFile>,
    agent_seen_s_ago: Option<u32>,
    interrupted: Option<InterruptedFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ArtefactFile {
    kind: Kind,
    backend: Option<String>,
    url: Url,
    in_slot: bool,
    expires_in_s: Option<u32>,
    bytes_read: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterruptedFile {
    name: String,
    repeat: Repeated,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    method: String,
    #[serde(default)]
    arguments: Json,
}

/// The role of a function's name, "vmedia" of "vmedia.attach".
pub(crate) fn role(function: &str) -> Result<Role, String> {
    let known = FUNCTIONS.contains(&function);
    let role = function.split('.').next().and_then(Role::parse);
    role.filter(|_| known)
        .ok_or_else(|| unknown("function of a plugin", function, FUNCTIONS))
}

impl Invocation {
    /// Reads the arguments of a function.
    pub(crate) fn new(function: &str, args: Json) -> Result<Self, String> {
        let args = if args.is_null() { json!({}) } else { args };
        let nothing = |invocation: Self, args| typed::<Nothing>(args).map(|Nothing {}| invocation);
        match function {
            "vmedia.prepare-ramdisk" => {
                let parameters = typed::<Ramdisk>(args)?.parameters;
                let parameters = parameters.into_iter().map(parameter).collect::<Result<_, _>>()?;
                Ok(Self::PrepareRamdisk(parameters))
            }
            "vmedia.clean-up-ramdisk" => nothing(Self::CleanUpRamdisk, args),
            "vmedia.prepare-instance" => nothing(Self::PrepareInstance, args),
            "vmedia.clean-up-instance" => nothing(Self::CleanUpInstance, args),
            "vmedia.attach" => {
                let attach: Attach = typed(args)?;
                Ok(Self::Attach(attach.device.0, Secret::new(attach.url)))
            }
            "vmedia.detach" => Ok(Self::Detach(typed::<Detach>(args)?.device.0)),
            "vmedia.boot-into-iso" => Ok(Self::BootIntoIso(Secret::new(typed::<Iso>(args)?.url))),
            "backend-selection.select" => {
                let Select { request, candidates } = typed(args)?;
                let request = Request {
                    kind: request.kind.0,
                    size: request.size,
                    lifetime_s: request.lifetime_s,
                };
                Ok(Self::Select(
                    request,
                    candidates.into_iter().map(Candidate::from).collect(),
                ))
            }
            "take-over.plan" => Ok(Self::Plan(Box::new(observation(typed::<Plan>(args)?.observation)))),
            "vendor.methods" => nothing(Self::Methods, args),
            "vendor.call" => {
                let call: Call = typed(args)?;
                let arguments = if call.arguments.is_null() {
                    "{}".to_owned()
                } else {
                    call.arguments.to_string()
                };
                Ok(Self::Call {
                    method: call.method,
                    arguments,
                })
            }
            other => Err(unknown("function of a plugin", other, FUNCTIONS)),
        }
    }

    /// Which role's function it is.
    pub(crate) fn role(&self) -> Role {
        match self {
            Self::PrepareRamdisk(_)
            | Self::CleanUpRamdisk
            | Self::PrepareInstance
            | Self::CleanUpInstance
            | Self::Attach(..)
            | Self::Detach(_)
            | Self::BootIntoIso(_) => Role::Vmedia,
            Self::Select(..) => Role::BackendSelection,
            Self::Plan(_) => Role::TakeOver,
            Self::Methods | Self::Call { .. } => Role::Vendor,
        }
    }

    /// Calls the plugin. `None`: there is no plugin of this role for the node.
    pub(crate) async fn call(&self, runtime: &Runtime, context: &Arc<CallContext>) -> Option<Done> {
        Some(match self {
            Self::PrepareRamdisk(parameters) => unit(runtime.prepare_ramdisk(context, parameters).await),
            Self::CleanUpRamdisk => unit(runtime.clean_up_ramdisk(context).await),
            Self::PrepareInstance => unit(runtime.prepare_instance(context).await),
            Self::CleanUpInstance => unit(runtime.clean_up_instance(context).await),
            Self::Attach(device, url) => unit(runtime.attach(context, *device, url).await),
            Self::Detach(device) => unit(runtime.detach(context, *device).await),
            Self::BootIntoIso(url) => unit(runtime.boot_into_iso(context, url).await),
            Self::Select(request, candidates) => {
                done(runtime.select_backend(context, request, candidates).await, choice)
            }
            Self::Plan(observation) => done(runtime.plan_take_over(context, observation).await, |steps| {
                steps.iter().map(told_step).collect()
            }),
            Self::Methods => done(runtime.vendor_methods(context).await?, |methods| {
                methods.iter().map(method).collect()
            }),
            Self::Call { method, arguments } => {
                done(runtime.vendor_call(context, method, arguments).await?, |answer| answer)
            }
        })
    }
}

fn unit(called: Called<()>) -> Done {
    done(called, |()| Json::Null)
}

fn done<T>(called: Called<T>, show: impl FnOnce(T) -> Json) -> Done {
    Done {
        result: called.result.map(show),
        report: called.report,
    }
}

/// A text is plain; `{secret: agent-token}` names a secret.
fn parameter(file: ParameterFile) -> Result<Parameter, String> {
    let value = match file.value {
        Json::String(text) => Value::Plain(text),
        value @ (Json::Bool(_) | Json::Number(_)) => Value::Plain(value.to_string()),
        value => typed(value)?,
    };
    Ok(Parameter { key: file.key, value })
}

fn observation(file: ObservationFile) -> Observation {
    let artefact = |file: ArtefactFile| ObservedArtefact {
        kind: file.kind.0,
        backend: file.backend.unwrap_or_else(|| "embedded".to_owned()),
        url: file.url.0,
        in_slot: file.in_slot,
        expires_in_s: file.expires_in_s,
        bytes_read: file.bytes_read,
    };
    Observation {
        previous_conductor: file.previous_conductor.unwrap_or_else(|| "a".to_owned()),
        power: file.power.map_or(PowerState::On, |power| power.0),
        cdrom: file.cdrom.map(Into::into),
        floppy: file.floppy.map(Into::into),
        artefacts: file.artefacts.into_iter().map(artefact).collect(),
        agent_seen_s_ago: file.agent_seen_s_ago,
        interrupted: file.interrupted.map(|step| InterruptedStep {
            name: step.name,
            repeat: step.repeat.0,
        }),
    }
}

fn choice(choice: Choice) -> Json {
    json!({ "backend": choice.backend, "reason": choice.reason })
}

fn method(method: &VendorMethod) -> Json {
    json!({
        "name": method.name,
        "description": method.description,
        "http-methods": method.http_methods,
        "asynchronous": method.asynchronous,
        "arguments": method.arguments,
    })
}
