//! Every call that a plugin can make of the host, and what it is answered: one enum each, so that one broker sees them all
//! and a recording is a list of them. Handles are small integers that mean something within one call only.

use model::{ArtefactKind, BootDevice, BootMode, Device, PowerAction, PowerState};
use serde::{Deserialize, Serialize};

use crate::nouns;
pub use crate::parts::{
    BootIsoSpec, FloppySpec, ImageInfo, InsertOptions, IsoSource, Level, LocationInfo, Media, Parameter, RawReply,
    Renewal, SmallFile, Value, Versioned,
};

/// An image of this call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ImageHandle(pub u32);

/// A location of this call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct LocationHandle(pub u32);

/// One call of the host, with all its arguments.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "on", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
#[expect(
    missing_docs,
    reason = "each variant is a function of the contract, which says what it does"
)]
pub enum HostCall {
    #[serde(rename = "log.event")]
    Log {
        level: Level,
        message: String,
        fields: Vec<(String, String)>,
    },
    #[serde(rename = "clock.now-ms")]
    Now,
    #[serde(rename = "clock.sleep-ms")]
    Sleep { ms: u32 },
    #[serde(rename = "config.get")]
    Config { pointer: String },
    #[serde(rename = "node.id")]
    NodeId,
    #[serde(rename = "node.name")]
    NodeName,
    #[serde(rename = "node.provision-state")]
    ProvisionState,
    #[serde(rename = "node.fact")]
    Fact { key: String },
    #[serde(rename = "node.facts-under")]
    FactsUnder { prefix: String },
    #[serde(rename = "node.instance-info")]
    InstanceInfo { key: String },
    #[serde(rename = "node.driver-info")]
    DriverInfo { key: String },
    #[serde(rename = "state.get")]
    StateGet { key: String },
    #[serde(rename = "state.put")]
    StatePut {
        key: String,
        value: String,
        expect: Option<u64>,
    },
    #[serde(rename = "state.delete")]
    StateDelete { key: String },
    #[serde(rename = "image.build-floppy")]
    BuildFloppy { spec: FloppySpec },
    #[serde(rename = "image.build-boot-iso")]
    BuildBootIso { spec: BootIsoSpec },
    #[serde(rename = "storage.publish")]
    Publish {
        image: ImageHandle,
        minimum_lifetime_s: u32,
        backend: Option<String>,
    },
    #[serde(rename = "storage.find")]
    Find {
        #[serde(with = "nouns::artefact_kind")]
        kind: ArtefactKind,
    },
    #[serde(rename = "storage.renew")]
    Renew {
        location: LocationHandle,
        minimum_lifetime_s: u32,
    },
    #[serde(rename = "storage.withdraw")]
    Withdraw {
        #[serde(with = "nouns::artefact_kind")]
        kind: ArtefactKind,
    },
    #[serde(rename = "storage.external")]
    External { url: String },
    #[serde(rename = "bmc.media-state")]
    MediaState {
        #[serde(with = "nouns::device")]
        device: Device,
    },
    #[serde(rename = "bmc.insert")]
    Insert {
        #[serde(with = "nouns::device")]
        device: Device,
        location: LocationHandle,
        options: InsertOptions,
    },
    #[serde(rename = "bmc.eject")]
    Eject {
        #[serde(with = "nouns::device")]
        device: Device,
    },
    #[serde(rename = "bmc.set-boot-device")]
    SetBootDevice {
        #[serde(with = "nouns::boot_device")]
        device: BootDevice,
        persistent: bool,
    },
    #[serde(rename = "bmc.boot-mode-of")]
    BootModeOf,
    #[serde(rename = "bmc.set-boot-mode")]
    SetBootMode {
        #[serde(with = "nouns::boot_mode")]
        mode: BootMode,
    },
    #[serde(rename = "bmc.secure-boot-of")]
    SecureBootOf,
    #[serde(rename = "bmc.set-secure-boot")]
    SetSecureBoot { enabled: bool },
    #[serde(rename = "power.state-of")]
    PowerStateOf,
    #[serde(rename = "power.set")]
    SetPower {
        #[serde(with = "nouns::power_action")]
        action: PowerAction,
        deadline_ms: u32,
    },
    #[serde(rename = "bmc-raw.redfish")]
    Redfish {
        method: String,
        path: String,
        body: Option<String>,
    },
    #[serde(rename = "bmc-raw.ribcl")]
    Ribcl {
        command: String,
        attributes: Vec<(String, String)>,
    },
    #[serde(rename = "vmedia-service.prepare-ramdisk")]
    NextPrepareRamdisk { parameters: Vec<Parameter> },
    #[serde(rename = "vmedia-service.clean-up-ramdisk")]
    NextCleanUpRamdisk,
    #[serde(rename = "vmedia-service.prepare-instance")]
    NextPrepareInstance,
    #[serde(rename = "vmedia-service.clean-up-instance")]
    NextCleanUpInstance,
    #[serde(rename = "vmedia-service.attach")]
    NextAttach {
        #[serde(with = "nouns::device")]
        device: Device,
        location: LocationHandle,
    },
    #[serde(rename = "vmedia-service.detach")]
    NextDetach {
        #[serde(with = "nouns::device")]
        device: Device,
    },
    #[serde(rename = "vmedia-service.boot-into-iso")]
    NextBootIntoIso { location: LocationHandle },
}

/// What a host call is answered, if it did not fail.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each variant is a result type of the contract")]
pub enum Reply {
    Done,
    Number(u64),
    Flag(bool),
    Text(String),
    MaybeText(Option<String>),
    Facts(Vec<(String, String)>),
    Value(Option<Versioned>),
    Image(ImageHandle, ImageInfo),
    Location(LocationHandle, LocationInfo),
    MaybeLocation(Option<(LocationHandle, LocationInfo)>),
    Renewal(Renewal),
    Media(Media),
    BootMode(#[serde(with = "nouns::boot_mode")] BootMode),
    Power(#[serde(with = "nouns::power_state")] PowerState),
    Raw(RawReply),
}

impl HostCall {
    /// Name of the function: "bmc.insert".
    pub fn name(&self) -> &'static str {
        match self {
            Self::Log { .. } => "log.event",
            Self::Now => "clock.now-ms",
            Self::Sleep { .. } => "clock.sleep-ms",
            Self::Config { .. } => "config.get",
            Self::NodeId => "node.id",
            Self::NodeName => "node.name",
            Self::ProvisionState => "node.provision-state",
            Self::Fact { .. } => "node.fact",
            Self::FactsUnder { .. } => "node.facts-under",
            Self::InstanceInfo { .. } => "node.instance-info",
            Self::DriverInfo { .. } => "node.driver-info",
            Self::StateGet { .. } => "state.get",
            Self::StatePut { .. } => "state.put",
            Self::StateDelete { .. } => "state.delete",
            Self::BuildFloppy { .. } => "image.build-floppy",
            Self::BuildBootIso { .. } => "image.build-boot-iso",
            Self::Publish { .. } => "storage.publish",
            Self::Find { .. } => "storage.find",
            Self::Renew { .. } => "storage.renew",
            Self::Withdraw { .. } => "storage.withdraw",
            Self::External { .. } => "storage.external",
            Self::MediaState { .. } => "bmc.media-state",
            Self::Insert { .. } => "bmc.insert",
            Self::Eject { .. } => "bmc.eject",
            Self::SetBootDevice { .. } => "bmc.set-boot-device",
            Self::BootModeOf => "bmc.boot-mode-of",
            Self::SetBootMode { .. } => "bmc.set-boot-mode",
            Self::SecureBootOf => "bmc.secure-boot-of",
            Self::SetSecureBoot { .. } => "bmc.set-secure-boot",
            Self::PowerStateOf => "power.state-of",
            Self::SetPower { .. } => "power.set",
            Self::Redfish { .. } => "bmc-raw.redfish",
            Self::Ribcl { .. } => "bmc-raw.ribcl",
            Self::NextPrepareRamdisk { .. } => "vmedia-service.prepare-ramdisk",
            Self::NextCleanUpRamdisk => "vmedia-service.clean-up-ramdisk",
            Self::NextPrepareInstance => "vmedia-service.prepare-instance",
            Self::NextCleanUpInstance => "vmedia-service.clean-up-instance",
            Self::NextAttach { .. } => "vmedia-service.attach",
            Self::NextDetach { .. } => "vmedia-service.detach",
            Self::NextBootIntoIso { .. } => "vmedia-service.boot-into-iso",
        }
    }

    /// Whether it changes something outside this process: then it is journalled and runs in a task of its own.
    pub fn is_effect(&self) -> bool {
        match self {
            Self::Publish { .. }
            | Self::Renew { .. }
            | Self::Withdraw { .. }
            | Self::Insert { .. }
            | Self::Eject { .. }
            | Self::SetBootDevice { .. }
            | Self::SetBootMode { .. }
            | Self::SetSecureBoot { .. }
            | Self::SetPower { .. } => true,
            Self::Redfish { method, .. } => !matches!(method.as_str(), "GET" | "HEAD"),
            Self::Ribcl { command, .. } => !command.starts_with("GET_"),
            Self::Log { .. }
            | Self::Now
            | Self::Sleep { .. }
            | Self::Config { .. }
            | Self::NodeId
            | Self::NodeName
            | Self::ProvisionState
            | Self::Fact { .. }
            | Self::FactsUnder { .. }
            | Self::InstanceInfo { .. }
            | Self::DriverInfo { .. }
            | Self::StateGet { .. }
            | Self::StatePut { .. }
            | Self::StateDelete { .. }
            | Self::BuildFloppy { .. }
            | Self::BuildBootIso { .. }
            | Self::Find { .. }
            | Self::External { .. }
            | Self::MediaState { .. }
            | Self::BootModeOf
            | Self::SecureBootOf
            | Self::PowerStateOf
            | Self::NextPrepareRamdisk { .. }
            | Self::NextCleanUpRamdisk
            | Self::NextPrepareInstance
            | Self::NextCleanUpInstance
            | Self::NextAttach { .. }
            | Self::NextDetach { .. }
            | Self::NextBootIntoIso { .. } => false,
        }
    }

    /// Bytes that came from the plugin with it.
    pub(crate) fn bytes(&self) -> usize {
        let pairs =
            |pairs: &[(String, String)]| -> usize { pairs.iter().map(|(key, value)| key.len() + value.len()).sum() };
        let parameters = |list: &[Parameter]| -> usize {
            list.iter()
                .map(|parameter| {
                    let (Value::Plain(text) | Value::Secret(text)) = &parameter.value;
                    parameter.key.len() + text.len()
                })
                .sum()
        };
        let files =
            |list: &[SmallFile]| -> usize { list.iter().map(|file| file.path.len() + file.content.len()).sum() };
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match self {
            Self::Log { message, fields, .. } => message.len() + pairs(fields),
            Self::Config { pointer } => pointer.len(),
            Self::Fact { key } | Self::InstanceInfo { key } | Self::DriverInfo { key } => key.len(),
            Self::FactsUnder { prefix } => prefix.len(),
            Self::StateGet { key } | Self::StateDelete { key } => key.len(),
            Self::StatePut { key, value, .. } => key.len() + value.len(),
            Self::BuildFloppy { spec } => text(&spec.label) + parameters(&spec.parameters) + files(&spec.files),
            Self::BuildBootIso { spec } => {
                let reference = if let IsoSource::Iso(reference) = &spec.source {
                    reference.len()
                } else {
                    0
                };
                reference
                    + text(&spec.label)
                    + text(&spec.kernel_arguments)
                    + parameters(&spec.parameters)
                    + files(&spec.files)
            }
            Self::External { url } => url.len(),
            Self::Insert { options, .. } => text(&options.server_certificate),
            Self::Redfish { method, path, body } => method.len() + path.len() + text(body),
            Self::Ribcl { command, attributes } => command.len() + pairs(attributes),
            Self::NextPrepareRamdisk { parameters: list } => parameters(list),
            _ => 0,
        }
    }
}

impl Reply {
    /// Bytes that go to the plugin with it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::MaybeText(Some(text)) => text.len(),
            Self::Facts(facts) => facts.iter().map(|(key, value)| key.len() + value.len()).sum(),
            Self::Value(Some(value)) => value.value.len(),
            Self::Image(_, info) => info.digest.len(),
            Self::Location(_, info) | Self::MaybeLocation(Some((_, info))) => info.display.len(),
            Self::Media(media) => media.url.as_ref().map_or(0, String::len),
            Self::Raw(raw) => {
                raw.body.len()
                    + raw
                        .headers
                        .iter()
                        .map(|(key, value)| key.len() + value.len())
                        .sum::<usize>()
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_reads_back_as_it_was_written_and_carries_its_functions_name() {
        let calls = [
            HostCall::Now,
            HostCall::Insert {
                device: Device::Cdrom,
                location: LocationHandle(3),
                options: InsertOptions::default(),
            },
            HostCall::BuildFloppy {
                spec: FloppySpec {
                    parameters: vec![Parameter {
                        key: "k".into(),
                        value: Value::Secret("agent-token".into()),
                    }],
                    ..FloppySpec::default()
                },
            },
            HostCall::SetPower {
                action: PowerAction::ForceRestart,
                deadline_ms: 1,
            },
        ];
        for call in calls {
            let json = serde_json::to_value(&call).unwrap();
            assert_eq!(json["on"], call.name());
            assert_eq!(serde_json::from_value::<HostCall>(json).unwrap(), call);
        }
    }
}
