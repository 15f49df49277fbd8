//! Putting media into a server's slots and making sure that they are there.

use crate::bindings::farrier::driver::bmc::{self, InsertOptions};
use crate::bindings::farrier::driver::inventory::Node;
use crate::bindings::farrier::driver::log::{self, Level};
use crate::bindings::farrier::driver::storage::Location;
use crate::bindings::farrier::driver::types::{ArtefactKind, Detail, Device, Error, Media};

/// Inserts (the host takes out first what is there) and reads back. `artefact`: what of ours the device must hold then.
pub(crate) fn put(
    node: &Node,
    device: Device,
    location: &Location,
    artefact: Option<ArtefactKind>,
) -> Result<(), Error> {
    let options = InsertOptions {
        write_protected: true,
        boot_once: false,
        server_certificate: None,
    };
    let inserted = bmc::insert(node, device, location, &options)
        .and_then(|()| bmc::media_state(node, device))
        .and_then(|media| holds(device, &media, artefact));
    undo_on_error(node, &[device], inserted)
}

/// Hands the result on; if it is an error, the devices are emptied first, so that nothing stays that was not there before.
pub(crate) fn undo_on_error<T>(node: &Node, devices: &[Device], result: Result<T, Error>) -> Result<T, Error> {
    if result.is_err() {
        for device in devices {
            if let Err(error) = bmc::eject(node, *device) {
                let fields = [("error".to_owned(), format!("{error:?}"))];
                let message = format!("{} could not be emptied after a failure", name(*device));
                log::event(Level::Warn, &message, &fields);
            }
        }
    }
    result
}

/// Whether a slot holds what was just put into it.
fn holds(device: Device, media: &Media, artefact: Option<ArtefactKind>) -> Result<(), Error> {
    let device = name(device);
    let message = if !media.inserted {
        format!("the BMC took the request to insert into {device}, yet the slot is empty")
    } else if artefact.is_some() && media.url.is_some() && media.artefact != artefact {
        // A BMC that shows no URL cannot be asked which medium it holds.
        format!("{device} holds another medium than the one that was just inserted")
    } else {
        return Ok(());
    };
    let code = "media-not-inserted".to_owned();
    Err(Error::Other(Detail {
        code,
        message,
        retry_after_ms: Some(5000),
    }))
}

fn name(device: Device) -> &'static str {
    match device {
        Device::Floppy => "the virtual floppy",
        Device::Cdrom => "the virtual CD",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_believed_only_if_it_shows_what_was_inserted() {
        let media = |inserted, artefact, url: Option<&str>| Media {
            inserted,
            connected: inserted,
            write_protected: true,
            artefact,
            url: url.map(str::to_owned),
        };
        let iso = Some(ArtefactKind::BootIso);
        for (media, wanted, good) in [
            (media(true, iso, Some("u")), iso, true),
            (media(true, None, None), iso, true),
            (media(true, None, Some("u")), None, true),
            (media(true, None, Some("u")), iso, false),
            (media(true, Some(ArtefactKind::Floppy), Some("u")), iso, false),
            (media(false, iso, Some("u")), iso, false),
        ] {
            assert_eq!(holds(Device::Cdrom, &media, wanted).is_ok(), good, "{media:?}");
        }
    }
}
