//! Virtual media by RIBCL. An insert notes the URL and fetches nothing, over whatever was there. What connects it is the boot
//! option: `CONNECT` at once, and sets `BOOT_ALWAYS` without saying so; `BOOT_ONCE` and `BOOT_ALWAYS` at the next boot.

use std::sync::Arc;
use std::time::Instant;

use super::Run;
use super::read::Element;
use super::write::{INVALID_OPTION, NO_IMAGE, escaped, text_of};
use crate::faults::Effect;
use crate::media::{ImageUrl, Medium, ReadRules};
use crate::profile::Device;
use crate::server::{BootOnReset, Inserted, Server, Slot, State};
use crate::trace::reads::ReadWatch;

type Done = Result<(), String>;

/// What RIBCL alone knows of a server.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// Whether the light that marks the server is on.
    pub(super) uid: bool,
    /// Answers given over HTTP.
    pub(super) answers: u64,
    cd: Drive,
    floppy: Drive,
}

/// A drive's settings, which outlive what is in it.
#[derive(Debug, Default)]
struct Drive {
    option: BootOption,
    /// Set by a script; if not, drives come as they do.
    write_protect: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum BootOption {
    #[default]
    None,
    Once,
    Always,
}

impl Settings {
    /// What was to boot once has booted, and is gone.
    pub(crate) fn spent(&mut self, device: Device) {
        self.drive(device).option = BootOption::None;
    }

    fn drive(&mut self, device: Device) -> &mut Drive {
        match device {
            Device::Cd => &mut self.cd,
            Device::Floppy => &mut self.floppy,
        }
    }
}

/// The device that a command names, and its slot.
fn slot(run: &mut Run<'_>, element: &Element) -> Result<Option<(Device, usize)>, String> {
    let name = element.attribute("DEVICE").ok_or_else(|| element.name.clone())?;
    let device = match name.to_ascii_uppercase().as_str() {
        "CDROM" => Some(Device::Cd),
        "FLOPPY" => Some(Device::Floppy),
        _ => None,
    };
    let found = device.and_then(|device| Some((device, run.server.config.profile.slot_for(device)?)));
    if found.is_none() {
        run.answer.fail(INVALID_OPTION, text_of(INVALID_OPTION));
    }
    Ok(found)
}

pub(super) fn status(run: &mut Run<'_>, element: &Element, _: &[Element]) -> Done {
    let Some((device, index)) = slot(run, element)? else {
        return Ok(());
    };
    let name = match device {
        Device::Cd => "CDROM",
        Device::Floppy => "FLOPPY",
    };
    let mut state = run.server.state();
    let option = shown_option(&mut state, device, index);
    let slot = &mut state.slots[index];
    if slot.stale.as_ref().is_some_and(|(_, until)| Instant::now() >= *until) {
        slot.stale = None;
    }
    let stale = slot.stale.as_ref().map(|(image, _)| image.clone());
    let held = slot.inserted.as_ref();
    let image = held.map(|inserted| inserted.image.clone()).or(stale);
    let protected = held.map(|inserted| inserted.write_protected);
    // As drives come: recorded, CD-ROMs are protected and floppies are not.
    let set = state.ribcl.drive(device).write_protect;
    let protected = protected.or(set).unwrap_or(device == Device::Cd);
    drop(state);
    let yes = |is: bool| if is { "YES" } else { "NO" };
    // The applet is a remote console's; media by URL never show there.
    run.answer.payload(&format!(
        "<GET_VM_STATUS\n    VM_APPLET=\"DISCONNECTED\"\n    DEVICE=\"{name}\"\n    BOOT_OPTION=\"{option}\"\n    \
         WRITE_PROTECT=\"{}\"\n    IMAGE_INSERTED=\"{}\"\n    IMAGE_URL=\"{}\"\n    />\n",
        yes(protected),
        yes(image.is_some()),
        escaped(&image.unwrap_or_default()),
    ));
    Ok(())
}

/// What is inserted tells it where something is, since other protocols and boots change it there.
fn shown_option(state: &mut State, device: Device, index: usize) -> &'static str {
    let option = match state.slots[index]
        .inserted
        .as_ref()
        .map(|inserted| inserted.boot_on_reset)
    {
        Some(BootOnReset::No) => BootOption::None,
        Some(BootOnReset::Next | BootOnReset::EjectAtNext) => BootOption::Once,
        Some(BootOnReset::Always) => BootOption::Always,
        None => state.ribcl.drive(device).option,
    };
    match option {
        BootOption::None => "NO_BOOT",
        BootOption::Once => "BOOT_ONCE",
        BootOption::Always => "BOOT_ALWAYS",
    }
}

pub(super) fn insert(run: &mut Run<'_>, element: &Element, _: &[Element]) -> Done {
    let url = element.attribute("IMAGE_URL").ok_or_else(|| element.name.clone())?;
    let Some((device, index)) = slot(run, element)? else {
        return Ok(());
    };
    // Behind a comma stands a helper script for writable floppies.
    let image = url.split(',').next().unwrap_or_default();
    let server = run.server;
    let Some(medium) = open(server, device, image) else {
        run.answer.fail(INVALID_OPTION, text_of(INVALID_OPTION));
        return Ok(());
    };
    let mut state = server.state();
    let drive = state.ribcl.drive(device);
    let (option, protect) = (drive.option, drive.write_protect);
    state.remember_reads(Arc::clone(medium.record()));
    let slot = &mut state.slots[index];
    *slot = Slot::default();
    slot.inserted = Some(Inserted {
        device,
        image: crate::trace::without_credentials(image).unwrap_or_else(|| image.to_owned()),
        write_protected: protect.unwrap_or(device == Device::Cd),
        boot_on_reset: reset_of(option),
        medium: None,
        waiting: (*run.fault != Effect::NotMounted).then(|| Arc::new(medium)),
    });
    drop(state);
    server.media_changed.notify_one();
    run.answer.fine();
    Ok(())
}

/// The image, if this one takes such a URL. Nothing is fetched.
fn open(server: &Server, device: Device, image: &str) -> Option<Medium> {
    let profile = server.config.profile;
    let rules = &profile.url;
    let scheme = image.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let fits = image.chars().count() <= rules.longest && rules.schemes.contains(&scheme);
    let url = ImageUrl::parse(image).ok().filter(|_| fits)?;
    let strict = server.config.verify_media_tls || profile.media_client.verify;
    let tls = if strict {
        &server.media_tls_strict
    } else {
        &server.media_tls
    };
    let rules = ReadRules {
        device,
        shape: &profile.media_client,
        deadline: server.config.timing.media_read,
        tls: Arc::clone(tls),
        watch: Some(ReadWatch::new(server, device)),
    };
    Some(Medium::new(image, url, rules))
}

fn reset_of(option: BootOption) -> BootOnReset {
    match option {
        BootOption::None => BootOnReset::No,
        BootOption::Once => BootOnReset::Next,
        BootOption::Always => BootOnReset::Always,
    }
}

pub(super) fn eject(run: &mut Run<'_>, element: &Element, _: &[Element]) -> Done {
    let Some((device, index)) = slot(run, element)? else {
        return Ok(());
    };
    let mut state = run.server.state();
    let Some(inserted) = state.slots[index].inserted.take() else {
        drop(state);
        run.answer.fail(NO_IMAGE, text_of(NO_IMAGE));
        return Ok(());
    };
    if let Effect::StaleInserted(time) = run.fault {
        state.slots[index].stale = Some((inserted.image, Instant::now() + *time));
    }
    state.ribcl.drive(device).option = BootOption::None;
    drop(state);
    run.server.media_changed.notify_one();
    run.answer.fine();
    Ok(())
}

/// `SET_VM_STATUS` is answered tag by tag: the command itself, then each setting in it.
pub(super) fn set_status(run: &mut Run<'_>, element: &Element, children: &[Element]) -> Done {
    for child in children {
        if !matches!(child.name.as_str(), "VM_BOOT_OPTION" | "VM_WRITE_PROTECT") {
            return Err(child.name.clone());
        }
    }
    let Some((device, index)) = slot(run, element)? else {
        return Ok(());
    };
    run.answer.fine();
    for child in children {
        let value = child.attribute("VALUE").unwrap_or_default().to_ascii_uppercase();
        if child.name == "VM_BOOT_OPTION" {
            set_option(run, device, index, &value);
        } else {
            set_protection(run, device, index, &value);
        }
    }
    Ok(())
}

fn set_protection(run: &mut Run<'_>, device: Device, index: usize, value: &str) {
    let protect = match value {
        "YES" | "Y" => true,
        "NO" | "N" => false,
        _ => return run.answer.fail(INVALID_OPTION, text_of(INVALID_OPTION)),
    };
    let mut state = run.server.state();
    state.ribcl.drive(device).write_protect = Some(protect);
    if let Some(inserted) = &mut state.slots[index].inserted {
        inserted.write_protected = protect;
    }
    drop(state);
    run.answer.fine();
}

fn set_option(run: &mut Run<'_>, device: Device, index: usize, value: &str) {
    let server = run.server;
    let mut state = server.state();
    let option = match value {
        "BOOT_ONCE" => BootOption::Once,
        "BOOT_ALWAYS" | "CONNECT" => BootOption::Always,
        "NO_BOOT" | "DISCONNECT" => BootOption::None,
        _ => {
            drop(state);
            return run.answer.fail(INVALID_OPTION, text_of(INVALID_OPTION));
        }
    };
    let inserted = state.slots[index].inserted.as_mut();
    match (value, inserted) {
        ("CONNECT" | "DISCONNECT", None) => {
            drop(state);
            return run.answer.fail(NO_IMAGE, text_of(NO_IMAGE));
        }
        (_, None) => {}
        (_, Some(inserted)) => {
            inserted.boot_on_reset = reset_of(option);
            match value {
                "CONNECT" => inserted.connect(),
                "DISCONNECT" => inserted.disconnect(),
                _ => {}
            }
            if value == "CONNECT"
                && let Some(medium) = inserted.medium.clone()
            {
                fetch(server, medium);
            }
        }
    }
    state.ribcl.drive(device).option = option;
    drop(state);
    server.media_changed.notify_one();
    run.answer.fine();
}

/// The first look at an image that was connected. What comes of it, its record tells.
fn fetch(server: &Arc<Server>, medium: Arc<Medium>) {
    let stop = server.stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            size = medium.size() => drop(size),
        }
    });
}
