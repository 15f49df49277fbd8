//! The conductor's `Policies` over the plugin runtime.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use conductor::{BootImage, CallError, Errand, ErrorClass, Observation, Parameter, ParameterValue, Policies};
use model::take_over::PlanStep;
use model::{BootInterface, BootMode, Secret};
use runtime::{CallContext, CallFailure, Called, DriverError, LEASE_ENDING, Runtime, Value};
use settings::Images;

use super::boot_check::{self, Purpose};
use super::errors::fail;
use super::netboot::NetbootWiring;

/// See [`Policies`]. How a node boots decides who carries it out: the site's `vmedia` plugin, or the host itself where it boots
/// over the network.
pub(super) struct PolicyWiring {
    pub(super) runtime: Runtime,
    pub(super) netboot: Arc<NetbootWiring>,
    /// Which boot loaders the site has.
    pub(super) images: Images,
}

fn context(errand: &Errand) -> Arc<CallContext> {
    Arc::new(CallContext {
        node: errand.node.clone(),
        tenure: errand.tenure.clone(),
        by_operator: errand.by_operator,
    })
}

fn answer<T>(called: Called<T>) -> Result<T, CallError> {
    let plugin = called.report.plugin;
    called.result.map_err(|error| {
        let class = match &error {
            runtime::CallError::Answered(cause) => of_answer(cause),
            runtime::CallError::Failed {
                failure: CallFailure::Busy { .. },
                ..
            } => ErrorClass::Retry(None),
            // A plugin that was stopped is stopped again; repeating it would only hide that.
            runtime::CallError::Failed { .. } => ErrorClass::Fail,
        };
        let message = match &error {
            runtime::CallError::Answered(DriverError::Denied(what)) => {
                format!("plugin `{plugin}` was denied `{what}`: see what its `grant` in farrier.toml allows")
            }
            other => other.to_string(),
        };
        CallError { class, message }
    })
}

pub(super) fn of_answer(cause: &DriverError) -> ErrorClass {
    match cause {
        DriverError::Other { code, .. } if code == LEASE_ENDING => ErrorClass::LeaseEnding,
        DriverError::Other {
            retry_after_ms: Some(ms),
            ..
        } => ErrorClass::Retry(Some(Duration::from_millis(u64::from(*ms)))),
        DriverError::Conflict(_) | DriverError::Timeout(_) | DriverError::Unreachable(_) => ErrorClass::Retry(None),
        _ => ErrorClass::Fail,
    }
}

#[async_trait]
impl Policies for PolicyWiring {
    async fn check_boot(&self, errand: &Errand, image: BootImage, says: Option<BootMode>) -> Result<(), CallError> {
        if by_network(errand) {
            return self.netboot.check_boot(errand).await;
        }
        let purpose = match image {
            BootImage::Ramdisk => Purpose::Ramdisk,
            BootImage::Instance => Purpose::Instance,
        };
        boot_check::check(&self.images, &errand.node, purpose, says).map_err(fail)
    }

    async fn prepare_ramdisk(&self, errand: &Errand, parameters: &[Parameter]) -> Result<(), CallError> {
        if by_network(errand) {
            return self.netboot.prepare_ramdisk(errand, parameters).await;
        }
        let parameters: Vec<runtime::Parameter> = parameters
            .iter()
            .map(|parameter| runtime::Parameter {
                key: parameter.key.clone(),
                value: match &parameter.value {
                    ParameterValue::Plain(text) => Value::Plain(text.clone()),
                    ParameterValue::Secret(name) => Value::Secret(name.clone()),
                },
            })
            .collect();
        answer(self.runtime.prepare_ramdisk(&context(errand), &parameters).await)
    }

    async fn clean_up_ramdisk(&self, errand: &Errand) -> Result<(), CallError> {
        if by_network(errand) {
            return self.netboot.clean_up_ramdisk(errand).await;
        }
        answer(self.runtime.clean_up_ramdisk(&context(errand)).await)
    }

    async fn prepare_instance(&self, errand: &Errand) -> Result<(), CallError> {
        if by_network(errand) {
            return self.netboot.prepare_instance(errand).await;
        }
        answer(self.runtime.prepare_instance(&context(errand)).await)
    }

    async fn clean_up_instance(&self, errand: &Errand) -> Result<(), CallError> {
        if by_network(errand) {
            return self.netboot.clean_up_instance(errand).await;
        }
        answer(self.runtime.clean_up_instance(&context(errand)).await)
    }

    async fn boot_into_iso(&self, errand: &Errand, url: &str) -> Result<(), CallError> {
        answer(self.runtime.boot_into_iso(&context(errand), &Secret::new(url)).await)
    }

    async fn plan_take_over(&self, errand: &Errand, observation: &Observation) -> Result<Vec<PlanStep>, CallError> {
        answer(
            self.runtime
                .plan_take_over(&context(errand), &observed(observation))
                .await,
        )
    }
}

fn by_network(errand: &Errand) -> bool {
    errand.node.boot_interface == BootInterface::IloIpxe
}

fn observed(seen: &Observation) -> runtime::Observation {
    let now = SystemTime::now();
    let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    let artefact = |artefact: &conductor::ObservedArtefact| runtime::ObservedArtefact {
        kind: artefact.kind,
        backend: artefact.backend.clone(),
        url: artefact.url,
        in_slot: artefact.in_slot,
        expires_in_s: artefact
            .expires
            .map(|end| seconds(end.duration_since(now).unwrap_or_default())),
        bytes_read: artefact.bytes_read,
    };
    runtime::Observation {
        previous_conductor: seen.previous_conductor.clone(),
        power: seen.power,
        cdrom: seen.cdrom.as_ref().map(|media| slot(media, seen, model::Device::Cdrom)),
        floppy: seen
            .floppy
            .as_ref()
            .map(|media| slot(media, seen, model::Device::Floppy)),
        artefacts: seen.artefacts.iter().map(artefact).collect(),
        agent_seen_s_ago: seen.agent_seen_ago.map(seconds),
        interrupted: seen.interrupted.clone(),
    }
}

/// A slot as a plugin sees it: which artefact it holds, never a URL of ours.
fn slot(media: &model::Media, seen: &Observation, device: model::Device) -> runtime::Media {
    let ours = |artefact: &&conductor::ObservedArtefact| artefact.in_slot && artefact.kind.device() == Some(device);
    runtime::Media {
        inserted: media.inserted,
        connected: media.connected,
        write_protected: media.write_protected,
        artefact: seen.artefacts.iter().find(ours).map(|artefact| artefact.kind),
        url: None,
    }
}
