//! What the conductor works through: the site's policies, the server's power, what is published.
//!
//! The binary wires these traits to the plugin runtime, the BMC client and the backends. Every call that changes something is
//! fenced by the lease and journalled by its implementation.

use std::time::{Duration, SystemTime};

use agent::ImageInfo;
use async_trait::async_trait;
use model::take_over::{InterruptedStep, PlanStep, Sight, UrlState};
use model::{
    ArtefactKind, BootMode, Device, Media, Node, PowerAction, PowerState, ProvisionState, ServerIdentity, Tenure,
};

use crate::wanted::WantedImage;

/// What a policy, the power wiring or a backend failed with, reduced to what the conductor decides on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What to do about it.
    pub class: ErrorClass,
    /// For `last_error`: what was tried, where, and the remedy. Holds no secret.
    pub message: String,
}

/// What the conductor does about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Worth another try within the state's deadline (busy, conflict, time-out, unreachable).
    Retry(Option<Duration>),
    /// Fails the state.
    Fail,
    /// This conductor's lease ends: leave the node alone, a successor goes on.
    LeaseEnding,
}

/// On whose behalf a call runs; goes into the journal and decides what the envelope allows.
#[derive(Debug, Clone)]
pub struct Errand {
    /// The node as it was when the call began, with its secrets.
    pub node: Node,
    /// This conductor's hold on it.
    pub tenure: Tenure,
    /// An operator's request started the call (allows eject, power and boot mode on an active node).
    pub by_operator: bool,
}

/// A parameter for the ramdisk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// `ipa-api-url`, …
    pub key: String,
    /// Plain text, or the name of a secret of the node ("agent-token") that the host puts in.
    pub value: ParameterValue,
}

/// See [`Parameter`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterValue {
    /// As it stands.
    Plain(String),
    /// By name.
    Secret(String),
}

/// What a server boots on our behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootImage {
    /// The deploy or clean ramdisk.
    Ramdisk,
    /// The instance's own boot ISO (`iscsi_ilo`).
    Instance,
}

/// What gets a node's server to boot what it should, and plans take-overs: the site's `vmedia` and `take-over` plugins, or the
/// host itself for a node that boots over the network. The implementation looks at the node's boot interface.
#[async_trait]
pub trait Policies: Send + Sync {
    /// Whether an image can be made that the server's firmware boots, asked before anything is touched. `says`: the boot mode
    /// that its BMC has just answered with. Touches neither server nor backend.
    async fn check_boot(&self, errand: &Errand, image: BootImage, says: Option<BootMode>) -> Result<(), CallError>;
    /// Media in and boot device set for the deploy, clean or rescue ramdisk.
    async fn prepare_ramdisk(&self, errand: &Errand, parameters: &[Parameter]) -> Result<(), CallError>;
    /// Media out, floppy withdrawn.
    async fn clean_up_ramdisk(&self, errand: &Errand) -> Result<(), CallError>;
    /// Makes the deployed instance boot: from disk, or from its boot ISO.
    async fn prepare_instance(&self, errand: &Errand) -> Result<(), CallError>;
    /// Undoes that.
    async fn clean_up_instance(&self, errand: &Errand) -> Result<(), CallError>;
    /// Boots an ISO of the operator's own, once. Power is the caller's.
    async fn boot_into_iso(&self, errand: &Errand, url: &str) -> Result<(), CallError>;
    /// What a successor should do about this node. Pure.
    async fn plan_take_over(&self, errand: &Errand, observation: &Observation) -> Result<Vec<PlanStep>, CallError>;
}

/// The server's power and state as the BMC shows them. Setting is fenced by the lease and journalled by the implementation.
#[async_trait]
pub trait Power: Send + Sync {
    /// Who answers, with these credentials.
    async fn identity(&self, errand: &Errand) -> Result<ServerIdentity, CallError>;
    /// Power now.
    async fn power_state(&self, errand: &Errand) -> Result<PowerState, CallError>;
    /// Asks for a change; returns once the BMC took it. Reaching it is observed by `power_state`.
    async fn set_power(&self, errand: &Errand, action: PowerAction) -> Result<(), CallError>;
    /// Boot mode of the next boot.
    async fn boot_mode(&self, errand: &Errand) -> Result<BootMode, CallError>;
    /// What a device holds.
    async fn media(&self, errand: &Errand, device: Device) -> Result<Media, CallError>;
}

/// What is published for a node, and publishing it again from its recipe.
#[async_trait]
pub trait Publications: Send + Sync {
    /// All artefacts of the node, each as it is now. Reads only.
    async fn observe(&self, errand: &Errand) -> Result<Vec<ObservedArtefact>, CallError>;
    /// Publishes the recorded recipe again under the recorded name; same bytes. Tells whether the URL changed.
    async fn regenerate(&self, errand: &Errand, kind: ArtefactKind) -> Result<bool, CallError>;
    /// Makes it live longer.
    async fn renew(&self, errand: &Errand, kind: ArtefactKind) -> Result<(), CallError>;
    /// Puts it into its device again. Never called for an active node unless its slot is empty or the site chose so.
    async fn reinsert(&self, errand: &Errand, kind: ArtefactKind) -> Result<(), CallError>;
    /// Takes it out of the backend and forgets it; absent is a success.
    async fn withdraw(&self, errand: &Errand, kind: ArtefactKind) -> Result<(), CallError>;
    /// Takes out of the backends what earlier tenures published and, cut short, never recorded; nobody else would. Tells what
    /// it took out.
    async fn withdraw_unrecorded(&self, errand: &Errand) -> Result<Vec<String>, CallError>;
    /// Makes sure that the image for the node's disk is what the node says, and says where the ramdisk fetches it; asked again,
    /// it says the same. An image that the ramdisk cannot fetch where it lies, or not as it is, is fetched and served.
    async fn instance_image(&self, errand: &Errand, wanted: &WantedImage) -> Result<ImageInfo, CallError> {
        let _ = errand;
        wanted.direct().ok_or_else(|| CallError {
            class: ErrorClass::Fail,
            message: "instance_info/image_source is nothing that the ramdisk can fetch by itself".to_owned(),
        })
    }
    /// The ramdisk is done with it, or will never be. Absent is a success; what cannot be taken away now goes with the node's
    /// other artefacts.
    async fn release_instance_image(&self, errand: &Errand) {
        let _ = errand;
    }
    /// Bytes that the BMC has read of it through a backend that counts, and its size.
    async fn read_progress(&self, node: &Node, kind: ArtefactKind) -> Option<(u64, u64)>;
}

/// What a successor saw before it touched anything.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Who had the node.
    pub previous_conductor: String,
    /// Power now.
    pub power: PowerState,
    /// Virtual CD, if the BMC answers.
    pub cdrom: Option<Media>,
    /// Virtual floppy.
    pub floppy: Option<Media>,
    /// What is recorded as published.
    pub artefacts: Vec<ObservedArtefact>,
    /// When the agent called last.
    pub agent_seen_ago: Option<Duration>,
    /// What the predecessor was in the middle of.
    pub interrupted: Option<InterruptedStep>,
}

impl Observation {
    /// What of it a plan is judged by; `published`: see [`Observation::published`].
    pub(crate) fn sight<'a>(&'a self, state: ProvisionState, published: &'a [ArtefactKind]) -> Sight<'a> {
        let holds = |slot: &Option<Media>| slot.as_ref().map(|media| media.inserted);
        Sight {
            state,
            power: self.power,
            cdrom: holds(&self.cdrom),
            floppy: holds(&self.floppy),
            published,
            agent_seen: self.agent_seen_ago.is_some(),
            interrupted: self.interrupted.as_ref(),
        }
    }

    /// What is recorded as published.
    pub(crate) fn published(&self) -> Vec<ArtefactKind> {
        self.artefacts.iter().map(|artefact| artefact.kind).collect()
    }
}

/// An artefact as a successor sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedArtefact {
    /// What it is.
    pub kind: ArtefactKind,
    /// Where it was published.
    pub backend: String,
    /// Whether its recorded URL answers with it.
    pub url: UrlState,
    /// The device holds exactly this URL.
    pub in_slot: bool,
    /// When its URL expires.
    pub expires: Option<SystemTime>,
    /// Bytes that were read of it, where known.
    pub bytes_read: Option<u64>,
}
