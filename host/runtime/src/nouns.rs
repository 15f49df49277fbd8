//! How the shared nouns look in a serialised host call. `model` itself is not serialisable on purpose.

macro_rules! spelled {
    ($name:ident: $model:ty { $($variant:path = $text:literal,)* }) => {
        pub(crate) mod $name {
            use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

            pub(crate) fn serialize<S: Serializer>(value: &$model, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(match value { $($variant => $text,)* })
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$model, D::Error> {
                match String::deserialize(deserializer)?.as_str() {
                    $($text => Ok($variant),)*
                    _ => Err(D::Error::custom(concat!("expected one of:" $(, " ", $text)*))),
                }
            }
        }
    };
}

spelled! { artefact_kind: model::ArtefactKind {
    model::ArtefactKind::Floppy = "floppy",
    model::ArtefactKind::BootIso = "boot-iso",
    model::ArtefactKind::ConfigDrive = "config-drive",
    model::ArtefactKind::Netboot = "netboot",
    model::ArtefactKind::InstanceImage = "instance-image",
} }

spelled! { device: model::Device {
    model::Device::Floppy = "floppy",
    model::Device::Cdrom = "cdrom",
} }

spelled! { boot_mode: model::BootMode {
    model::BootMode::Bios = "bios",
    model::BootMode::Uefi = "uefi",
} }

spelled! { boot_device: model::BootDevice {
    model::BootDevice::Cdrom = "cdrom",
    model::BootDevice::Floppy = "floppy",
    model::BootDevice::Disk = "disk",
    model::BootDevice::Network = "network",
    model::BootDevice::UefiHttp = "uefi-http",
} }

spelled! { power_action: model::PowerAction {
    model::PowerAction::On = "on",
    model::PowerAction::Off = "off",
    model::PowerAction::SoftOff = "soft-off",
    model::PowerAction::ForceRestart = "force-restart",
    model::PowerAction::SoftRestart = "soft-restart",
} }

spelled! { power_state: model::PowerState {
    model::PowerState::On = "on",
    model::PowerState::Off = "off",
    model::PowerState::Unknown = "unknown",
} }

/// A kind that may be absent.
pub(crate) mod optional_kind {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Spelled(#[serde(with = "super::artefact_kind")] model::ArtefactKind);

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<model::ArtefactKind>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(Spelled).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<model::ArtefactKind>, D::Error> {
        Ok(Option::<Spelled>::deserialize(deserializer)?.map(|spelled| spelled.0))
    }
}
