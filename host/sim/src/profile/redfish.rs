//! What differs between Redfish services, as data. The defaults are a plain service that keeps to the schema.

use std::collections::BTreeMap;

use serde::Deserialize;

/// How a BMC speaks Redfish.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RedfishFacts {
    /// `RedfishVersion`.
    pub version: String,
    /// `Server` header.
    pub server_header: String,
    /// Namespace of HPE's own parts.
    pub oem: Option<Oem>,
    /// Id of the one ComputerSystem.
    pub system: String,
    /// Id of the one Manager.
    pub manager: String,
    /// Id of the one Chassis.
    pub chassis: String,
    /// Prefix of the generic messages.
    pub base_registry: String,
    /// Prefix of the vendor's messages.
    pub vendor_registry: String,
    /// `code` of an error document; empty: the message's own id.
    pub error_code: String,
    /// Whether a message is also told in words.
    pub message_text: bool,
    /// Messages that this one words otherwise.
    pub messages: BTreeMap<Meaning, Wording>,
    /// How it says that a change was made.
    pub success: Success,
    /// What a path without its trailing slash gets.
    pub slash: Slash,
    /// Paths, in lower case, that answer 406 to a client which takes nothing but `identity`.
    pub identity_refused: Vec<String>,
    /// Which tags it hands out.
    pub etag: EtagKind,
    /// What `If-Match` means to it.
    pub if_match: IfMatch,
    /// Where its virtual media are listed.
    pub media_under: Vec<MediaPlace>,
    /// How images go in and out.
    pub insert: InsertFacts,
    /// The boot override.
    pub boot: BootFacts,
    /// Firmware settings.
    pub bios: BiosFacts,
    /// Whether a power verb that asks for what is already so is refused.
    pub refuses_same_power: bool,
    /// Whether virtual media survive a reset of the BMC.
    pub bmc_reset_keeps_media: bool,
}

impl Default for RedfishFacts {
    fn default() -> Self {
        Self {
            version: "1.6.0".into(),
            server_header: "Redfish".into(),
            oem: None,
            system: "1".into(),
            manager: "1".into(),
            chassis: "1".into(),
            base_registry: "Base.1.8".into(),
            vendor_registry: "Base.1.8".into(),
            error_code: String::new(),
            message_text: true,
            messages: BTreeMap::new(),
            success: Success::Empty,
            slash: Slash::Either,
            identity_refused: Vec::new(),
            etag: EtagKind::Strong,
            if_match: IfMatch::Checked,
            media_under: vec![MediaPlace::Managers],
            insert: InsertFacts::default(),
            boot: BootFacts::default(),
            bios: BiosFacts::default(),
            refuses_same_power: false,
            bmc_reset_keeps_media: false,
        }
    }
}

/// HPE's namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Oem {
    /// iLO 5 and newer.
    Hpe,
    /// iLO 4.
    Hp,
}

impl Oem {
    /// The key under `Oem`.
    pub fn key(self) -> &'static str {
        match self {
            Self::Hpe => "Hpe",
            Self::Hp => "Hp",
        }
    }

    /// How its schemas begin: `HpeiLO`, `HpiLO`.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Hpe => "HpeiLO",
            Self::Hp => "HpiLO",
        }
    }
}

/// How a change that was made is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Success {
    /// 200 and the message `Success`.
    Message,
    /// 204 and nothing.
    Empty,
}

/// What a path without its trailing slash gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Slash {
    /// The same as with it.
    Either,
    /// 308 to the path with it.
    Redirect,
}

/// Which `ETag` a resource bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EtagKind {
    /// `"x"`.
    Strong,
    /// `W/"x"`, which matches by the letter all the same.
    Weak,
    /// `W/"x"`, which never matches (RFC 9110 clause 13.1.1); without its mark it does.
    WeakByTheBook,
    /// A header without a value.
    Empty,
    /// No header.
    Missing,
}

/// What `If-Match` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IfMatch {
    /// Nothing.
    Ignored,
    /// Another tag is refused with 412; none is fine.
    Checked,
    /// None is refused with 428, too.
    Required,
    /// None is complained about with 412, after the change was made.
    RequiredLate,
}

/// Whose virtual media they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MediaPlace {
    /// The manager's.
    Managers,
    /// The system's.
    Systems,
}

/// A way to put an image in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InsertWay {
    /// `VirtualMedia.InsertMedia` and `.EjectMedia`.
    Action,
    /// HPE's own actions.
    Oem,
    /// Writing the properties.
    Patch,
}

/// How images go in and out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct InsertFacts {
    /// The ways that work.
    pub ways: Vec<InsertWay>,
    /// Parameters beside `Image` that an insert takes.
    pub takes: Vec<String>,
    /// Those of them that it must have, in the groups in which it complains of them.
    pub needs: Vec<Vec<String>>,
    /// Whether an eject must carry `{}`.
    pub eject_needs_body: bool,
    /// Whether an empty slot lists no eject.
    pub hides_idle_actions: bool,
    /// Whether a slot that holds something refuses another image; otherwise it replaces what it holds.
    pub refuses_occupied: bool,
    /// Whether ejecting an empty slot is refused.
    pub refuses_idle_eject: bool,
    /// Whether an image may be inserted for writing.
    pub writable: bool,
    /// Whether it answers 202 and makes a task.
    pub task: bool,
    /// How often a task that was just made is missing when it is looked for.
    pub task_missing: u32,
    /// Whether the image's URL stays readable after an eject.
    pub leaves_image: bool,
    /// How long a slot goes on claiming `Inserted` after an eject, in milliseconds.
    pub lingers_ms: u64,
    /// Whether the image's name alone is shown, and not its URL.
    pub shows_name_only: bool,
}

impl Default for InsertFacts {
    fn default() -> Self {
        let all = [
            "Inserted",
            "WriteProtected",
            "TransferProtocolType",
            "TransferMethod",
            "UserName",
            "Password",
        ];
        Self {
            ways: vec![InsertWay::Action],
            takes: all.map(str::to_owned).to_vec(),
            needs: Vec::new(),
            eject_needs_body: false,
            hides_idle_actions: false,
            refuses_occupied: false,
            refuses_idle_eject: false,
            writable: true,
            task: false,
            task_missing: 0,
            leaves_image: false,
            lingers_ms: 0,
            shows_name_only: false,
        }
    }
}

/// Where the boot override is written and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootPlace {
    /// At the system.
    System,
    /// At the settings resource; the system shows it too and refuses a write.
    SettingsShown,
    /// At the settings resource; the system shows it too, and says yes to a write which changes nothing.
    SettingsIgnored,
    /// At the settings resource, and only there.
    SettingsOnly,
}

/// The boot override.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct BootFacts {
    /// Where it is.
    pub place: BootPlace,
    /// Last part of the settings resource's path under the system.
    pub settings: String,
    /// Whether `BootSourceOverrideMode` may be written at all.
    pub takes_mode: bool,
    /// Values of `BootSourceOverrideEnabled`.
    pub enabled: Vec<String>,
    /// Whether `Boot.HttpBootUri` is there.
    pub http_uri: bool,
    /// Whether changes are refused during POST.
    pub refused_in_post: bool,
    /// Attributes of the manager that choose the first boot device.
    pub first_device: Option<FirstBootDevice>,
}

impl Default for BootFacts {
    fn default() -> Self {
        Self {
            place: BootPlace::System,
            settings: "Settings".into(),
            takes_mode: true,
            enabled: ["Disabled", "Once", "Continuous"].map(str::to_owned).to_vec(),
            http_uri: false,
            refused_in_post: false,
            first_device: None,
        }
    }
}

/// Dell's `ServerBoot.1.FirstBootDevice` and `.BootOnce` among the manager's attributes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FirstBootDevice {
    /// Its value for the virtual CD.
    pub cd: String,
    /// Its value for the virtual floppy.
    pub floppy: String,
    /// Its other values.
    pub others: Vec<String>,
}

/// Firmware settings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct BiosFacts {
    /// Attribute of the boot mode; empty: there is none, and the mode cannot be changed.
    pub boot_mode: String,
    /// Its value for UEFI.
    pub uefi: String,
    /// Its value for legacy BIOS.
    pub legacy: String,
    /// Whether the attributes stand at the top of the resource instead of under `Attributes`, and are linked under `Oem`.
    pub flat: bool,
    /// Last part of the settings resource's path.
    pub settings: String,
    /// Further attributes with the values that they take, the first being the factory's; none: any text.
    pub attributes: BTreeMap<String, Vec<String>>,
    /// Whether there is a SecureBoot resource.
    pub secure_boot: bool,
}

impl Default for BiosFacts {
    fn default() -> Self {
        Self {
            boot_mode: "BootMode".into(),
            uefi: "Uefi".into(),
            legacy: "LegacyBios".into(),
            flat: false,
            settings: "Settings".into(),
            attributes: BTreeMap::new(),
            secure_boot: true,
        }
    }
}

/// How one BMC words a message.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Wording {
    /// HTTP status.
    pub status: Option<u16>,
    /// Message id; without a registry, the vendor's is put before it.
    pub id: Option<String>,
    /// In words; `%1`, `%2` and so on stand for the arguments.
    pub text: Option<String>,
    /// Whether the arguments are kept to itself.
    pub no_args: bool,
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// It was done.
    Success,
    /// It was stored and waits for a reset.
    ResetRequired,
    /// The BMC or the server is resetting.
    ResetInProgress,
    /// It cannot be done just now.
    Busy,
    /// The body is no JSON object.
    MalformedBody,
    /// The body is not declared as JSON.
    MediaType,
    /// The body is too long.
    BodyTooLarge,
    /// Nobody is logged in.
    NoSession,
    /// User or password are wrong.
    WrongLogin,
    /// Too many wrong logins.
    LoginDelayed,
    /// The session table is full.
    SessionsFull,
    /// There is nothing at that path.
    Missing,
    /// The path is there and the method is not.
    NotAllowed,
    /// Another tag.
    Precondition,
    /// No tag.
    PreconditionNeeded,
    /// Not in this encoding.
    NotAcceptable,
    /// A property that is not there, or not writable.
    PropertyNotWritable,
    /// A property that is not there.
    PropertyUnknown,
    /// A property that must be there.
    PropertyMissing,
    /// A property of another type.
    PropertyType,
    /// A value that a property does not take.
    PropertyValue,
    /// A parameter that is not there.
    ParameterUnknown,
    /// A parameter that must be there.
    ParameterMissing,
    /// A parameter of another type.
    ParameterType,
    /// A value that a parameter does not take.
    ParameterValue,
    /// An image URL that is not taken.
    ImageRefused,
    /// An image that may not be written to was to be.
    NotWritable,
    /// A certificate that is none.
    Certificate,
    /// The slot holds something.
    Occupied,
    /// The slot holds nothing.
    Idle,
    /// The slot takes no image by URL.
    ConsoleOnly,
    /// The licence is missing.
    Licence,
    /// The server is in POST.
    InPost,
    /// Not in this state of power.
    WrongState,
    /// Not in this boot mode.
    LegacyMode,
}
