//! What host calls and their replies are made of.

use model::ArtefactKind;
use serde::{Deserialize, Serialize};

use crate::nouns;

/// How much a log line matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the usual five")]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// A parameter for a ramdisk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parameter {
    /// `ipa-api-url`, …
    pub key: String,
    /// Its value.
    pub value: Value,
}

/// Value of a [`Parameter`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// As it stands.
    Plain(String),
    /// The name of a secret of the node ("agent-token"); the host puts in the text.
    Secret(String),
}

/// A small file that a plugin made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SmallFile {
    /// Path in the image.
    pub path: String,
    /// What it holds.
    pub content: Vec<u8>,
}

/// A floppy to build.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FloppySpec {
    /// Volume label; `None` = the one that ramdisks look for.
    pub label: Option<String>,
    /// Lines of its parameters file.
    pub parameters: Vec<Parameter>,
    /// Other files.
    pub files: Vec<SmallFile>,
}

/// Where a boot ISO comes from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IsoSource {
    /// The node's deploy kernel and ramdisk.
    Deploy,
    /// The node's rescue kernel and ramdisk.
    Rescue,
    /// The instance's kernel and ramdisk.
    Instance,
    /// A ready ISO by reference.
    Iso(String),
}

/// A boot ISO to build.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BootIsoSpec {
    /// What it boots.
    pub source: IsoSource,
    /// Volume label; `None` = the usual one.
    pub label: Option<String>,
    /// More words for the kernel line.
    pub kernel_arguments: Option<String>,
    /// Parameters for the kernel line.
    pub parameters: Vec<Parameter>,
    /// Other files.
    pub files: Vec<SmallFile>,
    /// `bios`, `uefi`; `None` = both where the sources allow it.
    pub boot_modes: Option<Vec<String>>,
}

/// What a plugin may know of an image.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ImageInfo {
    /// What it is for.
    #[serde(with = "nouns::artefact_kind")]
    pub kind: ArtefactKind,
    /// Identity of its content.
    pub digest: String,
    /// Bytes.
    pub size: u64,
}

/// What a plugin may know of a location.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocationInfo {
    /// Backend's id; "external" for a URL that a user gave.
    pub backend: String,
    /// URL with its secret part replaced.
    pub display: String,
    /// Identity of the content, if it is ours.
    pub digest: Option<String>,
    /// When it stops working, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
}

/// A value that a plugin keeps for a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Versioned {
    /// Rises with each write.
    pub version: u64,
    /// The value.
    pub value: String,
}

/// What became of a wish to live longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Renewal {
    /// Same URL.
    Extended,
    /// Another URL from now on: insert again.
    UrlChanged,
    /// Publish again.
    NotPossible,
}

/// How a medium is inserted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InsertOptions {
    /// Media are always write-protected; `false` is refused.
    pub write_protected: bool,
    /// Boot it at the next reset by the BMC's own flag.
    pub boot_once: bool,
    /// PEM certificate of an https server that the BMC should trust.
    pub server_certificate: Option<String>,
}

/// What a virtual device holds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Media {
    /// Something is in the slot.
    pub inserted: bool,
    /// The server sees it.
    pub connected: bool,
    /// The server cannot write to it.
    pub write_protected: bool,
    /// Set if it is an artefact of this node.
    #[serde(with = "nouns::optional_kind")]
    pub artefact: Option<ArtefactKind>,
    /// URL with its secret part replaced.
    pub url: Option<String>,
}

/// A BMC's reply to a raw request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RawReply {
    /// HTTP status.
    pub status: u16,
    /// Headers that are no secret.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: String,
}
