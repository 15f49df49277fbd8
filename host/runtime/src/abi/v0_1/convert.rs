//! Between the contract's types and the host's own.

use model::{ArtefactKind, BootDevice, BootMode, Device, PowerAction, PowerState};

use super::exported::{backend_selection, take_over, vendor};
use super::wit::{bmc, image, log, power, types};
use crate::calls::{self, Level, Value};
use crate::take_over as plan;
use crate::{Candidate, Choice, DriverError, Request, VendorMethod};

pub(super) fn error_out(error: DriverError) -> types::Error {
    match error {
        DriverError::Denied(text) => types::Error::Denied(text),
        DriverError::Invalid(text) => types::Error::Invalid(text),
        DriverError::NotFound(text) => types::Error::NotFound(text),
        DriverError::Conflict(text) => types::Error::Conflict(text),
        DriverError::Unsupported(text) => types::Error::Unsupported(text),
        DriverError::Timeout(text) => types::Error::Timeout(text),
        DriverError::Budget(text) => types::Error::Budget(text),
        DriverError::Unreachable(text) => types::Error::Unreachable(text),
        DriverError::Other {
            code,
            message,
            retry_after_ms,
        } => types::Error::Other(types::Detail {
            code,
            message,
            retry_after_ms,
        }),
    }
}

/// A guest's error is shown to people and stored: it is cut to a sane length.
pub(super) fn error_in(error: types::Error) -> DriverError {
    match error {
        types::Error::Denied(text) => DriverError::Denied(cut(text)),
        types::Error::Invalid(text) => DriverError::Invalid(cut(text)),
        types::Error::NotFound(text) => DriverError::NotFound(cut(text)),
        types::Error::Conflict(text) => DriverError::Conflict(cut(text)),
        types::Error::Unsupported(text) => DriverError::Unsupported(cut(text)),
        types::Error::Timeout(text) => DriverError::Timeout(cut(text)),
        types::Error::Budget(text) => DriverError::Budget(cut(text)),
        types::Error::Unreachable(text) => DriverError::Unreachable(cut(text)),
        types::Error::Other(types::Detail {
            code,
            message,
            retry_after_ms,
        }) => DriverError::Other {
            code: code.chars().take(64).collect(),
            message: cut(message),
            retry_after_ms,
        },
    }
}

fn cut(text: String) -> String {
    const MOST: usize = 4096;
    if text.chars().count() > MOST {
        text.chars().take(MOST).collect()
    } else {
        text
    }
}

pub(super) fn level_in(level: log::Level) -> Level {
    match level {
        log::Level::Trace => Level::Trace,
        log::Level::Debug => Level::Debug,
        log::Level::Info => Level::Info,
        log::Level::Warn => Level::Warn,
        log::Level::Error => Level::Error,
    }
}

pub(super) fn kind_in(kind: types::ArtefactKind) -> ArtefactKind {
    match kind {
        types::ArtefactKind::Floppy => ArtefactKind::Floppy,
        types::ArtefactKind::BootIso => ArtefactKind::BootIso,
        types::ArtefactKind::ConfigDrive => ArtefactKind::ConfigDrive,
    }
}

/// What the contract has no word for is none of a plugin's business: boot files and images for disks are the host's own.
pub(super) fn kind_out(kind: ArtefactKind) -> Option<types::ArtefactKind> {
    match kind {
        ArtefactKind::Floppy => Some(types::ArtefactKind::Floppy),
        ArtefactKind::BootIso => Some(types::ArtefactKind::BootIso),
        ArtefactKind::ConfigDrive => Some(types::ArtefactKind::ConfigDrive),
        ArtefactKind::Netboot | ArtefactKind::InstanceImage => None,
    }
}

pub(super) fn device_in(device: types::Device) -> Device {
    match device {
        types::Device::Floppy => Device::Floppy,
        types::Device::Cdrom => Device::Cdrom,
    }
}

pub(super) fn device_out(device: Device) -> types::Device {
    match device {
        Device::Floppy => types::Device::Floppy,
        Device::Cdrom => types::Device::Cdrom,
    }
}

pub(super) fn boot_device_in(device: bmc::BootDevice) -> BootDevice {
    match device {
        bmc::BootDevice::Cdrom => BootDevice::Cdrom,
        bmc::BootDevice::Floppy => BootDevice::Floppy,
        bmc::BootDevice::Disk => BootDevice::Disk,
        bmc::BootDevice::Network => BootDevice::Network,
        bmc::BootDevice::UefiHttp => BootDevice::UefiHttp,
    }
}

pub(super) fn boot_mode_in(mode: types::BootMode) -> BootMode {
    match mode {
        types::BootMode::Bios => BootMode::Bios,
        types::BootMode::Uefi => BootMode::Uefi,
    }
}

pub(super) fn boot_mode_out(mode: BootMode) -> types::BootMode {
    match mode {
        BootMode::Bios => types::BootMode::Bios,
        BootMode::Uefi => types::BootMode::Uefi,
    }
}

pub(super) fn power_out(power: PowerState) -> types::PowerState {
    match power {
        PowerState::On => types::PowerState::On,
        PowerState::Off => types::PowerState::Off,
        PowerState::Unknown => types::PowerState::Unknown,
    }
}

pub(super) fn action_in(action: power::Action) -> PowerAction {
    match action {
        power::Action::On => PowerAction::On,
        power::Action::Off => PowerAction::Off,
        power::Action::SoftOff => PowerAction::SoftOff,
        power::Action::ForceRestart => PowerAction::ForceRestart,
        power::Action::SoftRestart => PowerAction::SoftRestart,
    }
}

pub(super) fn media_out(media: calls::Media) -> types::Media {
    types::Media {
        inserted: media.inserted,
        connected: media.connected,
        write_protected: media.write_protected,
        artefact: media.artefact.and_then(kind_out),
        url: media.url,
    }
}

pub(super) fn parameter_in(parameter: image::Parameter) -> calls::Parameter {
    let value = match parameter.value {
        image::Value::Plain(text) => Value::Plain(text),
        image::Value::Secret(name) => Value::Secret(name),
    };
    calls::Parameter {
        key: parameter.key,
        value,
    }
}

pub(super) fn parameter_out(parameter: &calls::Parameter) -> image::Parameter {
    let value = match &parameter.value {
        Value::Plain(text) => image::Value::Plain(text.clone()),
        Value::Secret(name) => image::Value::Secret(name.clone()),
    };
    image::Parameter {
        key: parameter.key.clone(),
        value,
    }
}

pub(super) fn parameters_in(parameters: Vec<image::Parameter>) -> Vec<calls::Parameter> {
    parameters.into_iter().map(parameter_in).collect()
}

pub(super) fn files_in(files: Vec<image::File>) -> Vec<calls::SmallFile> {
    files
        .into_iter()
        .map(|file| calls::SmallFile {
            path: file.path,
            content: file.content,
        })
        .collect()
}

pub(super) fn floppy_in(spec: image::FloppySpec) -> calls::FloppySpec {
    calls::FloppySpec {
        label: spec.label,
        parameters: parameters_in(spec.parameters),
        files: files_in(spec.files),
    }
}

pub(super) fn boot_iso_in(spec: image::BootIsoSpec) -> calls::BootIsoSpec {
    calls::BootIsoSpec {
        source: match spec.source {
            image::IsoSource::Deploy => calls::IsoSource::Deploy,
            image::IsoSource::Rescue => calls::IsoSource::Rescue,
            image::IsoSource::Instance => calls::IsoSource::Instance,
            image::IsoSource::Iso(reference) => calls::IsoSource::Iso(reference),
        },
        label: spec.label,
        kernel_arguments: spec.kernel_arguments,
        parameters: parameters_in(spec.parameters),
        files: files_in(spec.files),
        boot_modes: spec.boot_modes,
    }
}

pub(super) fn insert_options_in(options: bmc::InsertOptions) -> calls::InsertOptions {
    calls::InsertOptions {
        write_protected: options.write_protected,
        boot_once: options.boot_once,
        server_certificate: options.server_certificate,
    }
}

pub(super) fn request_out(request: &Request) -> wasmtime::Result<backend_selection::Request> {
    Ok(backend_selection::Request {
        kind: kind_out(request.kind).ok_or_else(|| unknown_kind(request.kind))?,
        size: request.size,
        lifetime_s: request.lifetime_s,
    })
}

/// The host asks plugins about media only.
pub(super) fn unknown_kind(kind: ArtefactKind) -> wasmtime::Error {
    wasmtime::Error::msg(format!("a plugin was asked about a {kind}, for which it has no word"))
}

pub(super) fn candidate_out(candidate: &Candidate) -> backend_selection::Candidate {
    backend_selection::Candidate {
        id: candidate.id.clone(),
        kind: candidate.kind.clone(),
        healthy: candidate.healthy,
        free_bytes: candidate.free_bytes,
        max_lifetime_s: candidate.max_lifetime_s,
        traits: candidate.traits.clone(),
    }
}

pub(super) fn choice_in(choice: backend_selection::Choice) -> Choice {
    Choice {
        backend: choice.backend,
        reason: cut(choice.reason),
    }
}

pub(super) fn observation_out(observation: &plan::Observation) -> take_over::Observation {
    let artefact = |artefact: &plan::ObservedArtefact| {
        Some(take_over::Artefact {
            kind: kind_out(artefact.kind)?,
            backend: artefact.backend.clone(),
            url: match artefact.url {
                plan::UrlState::Serving => take_over::UrlState::Serving,
                plan::UrlState::Dead => take_over::UrlState::Dead,
                plan::UrlState::Unknown => take_over::UrlState::Unknown,
            },
            in_slot: artefact.in_slot,
            expires_in_s: artefact.expires_in_s,
            bytes_read: artefact.bytes_read,
        })
    };
    let interrupted = |step: &plan::InterruptedStep| take_over::InterruptedStep {
        name: step.name.clone(),
        repeat: match step.repeat {
            plan::Repeat::Repeat => take_over::RepeatKind::Repeat,
            plan::Repeat::ObserveThenContinue => take_over::RepeatKind::ObserveThenContinue,
            plan::Repeat::Fail => take_over::RepeatKind::Fail,
        },
    };
    take_over::Observation {
        previous_conductor: observation.previous_conductor.clone(),
        power: power_out(observation.power),
        cdrom: observation.cdrom.clone().map(media_out),
        floppy: observation.floppy.clone().map(media_out),
        artefacts: observation.artefacts.iter().filter_map(artefact).collect(),
        agent_seen_s_ago: observation.agent_seen_s_ago,
        interrupted: observation.interrupted.as_ref().map(interrupted),
    }
}

pub(super) fn step_in(step: take_over::Step) -> plan::Step {
    match step {
        take_over::Step::Regenerate(kind) => plan::Step::Regenerate(kind_in(kind)),
        take_over::Step::Renew(kind) => plan::Step::Renew(kind_in(kind)),
        take_over::Step::Reinsert(kind) => plan::Step::Reinsert(kind_in(kind)),
        take_over::Step::DeferReinsert(kind) => plan::Step::DeferReinsert(kind_in(kind)),
        take_over::Step::ContinueInterruptedStep => plan::Step::ContinueInterruptedStep,
        take_over::Step::WaitForAgent => plan::Step::WaitForAgent,
        take_over::Step::Fail(reason) => plan::Step::Fail(reason),
    }
}

pub(super) fn method_in(method: vendor::Method) -> VendorMethod {
    VendorMethod {
        name: method.name,
        description: cut(method.description),
        http_methods: method.http_methods,
        asynchronous: method.asynchronous,
        arguments: method.arguments,
    }
}
