//! The shared nouns as scenario files spell them.

use model::{ArtefactKind, BootMode, Device, PowerState};
use runtime::{Media, Renewal, Repeat, UrlState};
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::nearest::unknown;

macro_rules! noun {
    ($name:ident($model:ty), $kind:literal: $($text:literal = $value:expr),* $(,)?) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $name(pub(crate) $model);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                match text.as_str() {
                    $($text => Ok(Self($value)),)*
                    other => Err(D::Error::custom(unknown($kind, other, &[$($text),*]))),
                }
            }
        }
    };
}

noun! { Kind(ArtefactKind), "kind of artefact":
"floppy" = ArtefactKind::Floppy, "boot-iso" = ArtefactKind::BootIso, "config-drive" = ArtefactKind::ConfigDrive }
noun! { Slot(Device), "device": "floppy" = Device::Floppy, "cdrom" = Device::Cdrom }
noun! { Mode(BootMode), "boot mode": "bios" = BootMode::Bios, "uefi" = BootMode::Uefi }
noun! { Power(PowerState), "power state":
"on" = PowerState::On, "off" = PowerState::Off, "unknown" = PowerState::Unknown }
noun! { Renewed(Renewal), "renewal":
"extended" = Renewal::Extended, "url-changed" = Renewal::UrlChanged, "not-possible" = Renewal::NotPossible }
noun! { Url(UrlState), "state of a URL":
"serving" = UrlState::Serving, "dead" = UrlState::Dead, "unknown" = UrlState::Unknown }
noun! { Repeated(Repeat), "kind of repetition":
"repeat" = Repeat::Repeat, "observe-then-continue" = Repeat::ObserveThenContinue, "fail" = Repeat::Fail }

/// What a slot holds; what is not said follows from `inserted`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct MediaFile {
    inserted: bool,
    connected: Option<bool>,
    write_protected: Option<bool>,
    artefact: Option<Kind>,
    url: Option<String>,
}

impl From<MediaFile> for Media {
    fn from(file: MediaFile) -> Self {
        Self {
            inserted: file.inserted,
            connected: file.connected.unwrap_or(file.inserted),
            write_protected: file.write_protected.unwrap_or(true),
            artefact: file.artefact.map(|kind| kind.0),
            url: file.url,
        }
    }
}
