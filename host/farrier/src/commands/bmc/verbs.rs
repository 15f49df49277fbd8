//! Status, media, boot device, boot mode and power.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use bmc::{Bmc, BmcError, BootSettings, InsertMedia};
use model::{BootDevice, BootMode, Device, Media, PowerAction, PowerState, Secret};
use serde_json::{Value, json};

use super::Target;
use super::probe::{identity_json, identity_rows};
use crate::output::{self, Format};

#[derive(clap::Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    target: Target,
}

/// Virtual media of a BMC.
#[derive(clap::Subcommand)]
pub(super) enum MediaCommand {
    /// Show what the virtual CD and the virtual floppy hold
    Status(StatusArgs),
    /// Put an image in: what is there is ejected, the image is connected write-protected, and read back
    Insert(InsertArgs),
    /// Take out what is in
    Eject(EjectArgs),
}

#[derive(clap::Args)]
pub(super) struct InsertArgs {
    #[command(flatten)]
    target: Target,
    /// http or https URL that the BMC fetches
    url: String,
    /// Which device
    #[arg(long, value_enum, default_value = "cdrom")]
    device: Slot,
    /// Boot it at the next reset and eject it at the one after (HPE)
    #[arg(long)]
    boot_once: bool,
    /// PEM certificate of the https server, for a BMC that takes one (HPE)
    #[arg(long, value_name = "FILE")]
    server_certificate: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(super) struct EjectArgs {
    #[command(flatten)]
    target: Target,
    /// Which device
    #[arg(long, value_enum, default_value = "cdrom")]
    device: Slot,
}

#[derive(clap::Args)]
pub(super) struct BootDeviceArgs {
    #[command(flatten)]
    target: Target,
    /// What to boot from; without it, what is set is shown
    #[arg(value_enum)]
    device: Option<Source>,
    /// From now on, and not at the next boot alone
    #[arg(long, requires = "device")]
    persistent: bool,
    /// Where UEFI HTTP boot fetches from
    #[arg(long, value_name = "URL", requires = "device")]
    url: Option<String>,
}

#[derive(clap::Args)]
pub(super) struct BootModeArgs {
    #[command(flatten)]
    target: Target,
    /// The mode to set; without it, the mode of the next boot is shown
    #[arg(value_enum)]
    mode: Option<Mode>,
}

#[derive(clap::Args)]
pub(super) struct PowerArgs {
    #[command(flatten)]
    target: Target,
    /// What to do; without it, the state is shown
    #[arg(value_enum)]
    action: Option<Action>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Slot {
    Cdrom,
    Floppy,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Source {
    Cdrom,
    Floppy,
    Disk,
    Network,
    UefiHttp,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Mode {
    Bios,
    Uefi,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Action {
    /// Already on is a success
    On,
    /// At once; already off is a success
    Off,
    /// Ask the operating system to shut down
    SoftOff,
    /// Reset at once
    ForceRestart,
    /// Ask the operating system to restart
    SoftRestart,
}

impl Slot {
    fn device(self) -> Device {
        match self {
            Self::Cdrom => Device::Cdrom,
            Self::Floppy => Device::Floppy,
        }
    }
}

pub(super) async fn status(args: StatusArgs, format: Format) -> Result<()> {
    let shown = args.target.with(|bmc| async move {
        let identity = bmc.identity().await?;
        // What a BMC does not have is part of its status; that it is gone is not.
        let transport = bmc.transport().await?;
        let power = bmc.power_state().await?;
        let cdrom = told(bmc.media(Device::Cdrom).await)?;
        let floppy = told(bmc.media(Device::Floppy).await)?;
        let settings = told(bmc.boot_settings().await)?;
        let mode = told(bmc.boot_mode().await)?;
        let secure = told(bmc.secure_boot().await)?;
        Ok((identity, transport, power, cdrom, floppy, settings, mode, secure))
    });
    let (identity, transport, power, cdrom, floppy, settings, mode, secure) = shown.await?;
    let secure_text = |on: &bool| if *on { "on" } else { "off" }.to_owned();
    match format {
        Format::Json => output::json(&json!({
            "transport": transport.as_str(),
            "identity": identity_json(&identity),
            "power": power_name(power),
            "media": {"cdrom": of(&cdrom, media_json), "floppy": of(&floppy, media_json)},
            "boot": of(&settings, settings_json),
            "boot_mode": of(&mode, |mode| json!(mode_name(*mode))),
            "secure_boot": of(&secure, |on| json!(on)),
        })),
        Format::Table => {
            let mut rows = identity_rows(&identity);
            rows.extend([
                ["spoken to by".to_owned(), transport.to_string()],
                ["power".to_owned(), power_name(power).to_owned()],
                ["virtual CD".to_owned(), text(&cdrom, media_text)],
                ["virtual floppy".to_owned(), text(&floppy, media_text)],
                ["boots from".to_owned(), text(&settings, settings_text)],
                ["boot mode".to_owned(), text(&mode, |mode| mode_name(*mode).to_owned())],
                ["secure boot".to_owned(), text(&secure, secure_text)],
            ]);
            output::table(["what", "value"], rows);
            Ok(())
        }
    }
}

pub(super) async fn media(command: MediaCommand, format: Format) -> Result<()> {
    let (target, device) = match &command {
        MediaCommand::Status(args) => (&args.target, None),
        MediaCommand::Insert(args) => (&args.target, Some(args.device.device())),
        MediaCommand::Eject(args) => (&args.target, Some(args.device.device())),
    };
    let image = match &command {
        MediaCommand::Insert(args) => Some(image(args)?),
        MediaCommand::Status(_) | MediaCommand::Eject(_) => None,
    };
    let shown = target.with(|bmc| async move {
        match (device, &image) {
            (Some(device), Some(image)) => bmc.insert_media(device, image).await?,
            (Some(device), None) => bmc.eject_media(device).await?,
            (None, _) => {}
        }
        let mut shown = Vec::new();
        for device in [Device::Cdrom, Device::Floppy] {
            shown.push((device, told(bmc.media(device).await)?));
        }
        Ok(shown)
    });
    let shown = shown.await?;
    match format {
        Format::Json => {
            let slots = shown.iter();
            let slots: serde_json::Map<String, Value> = slots
                .map(|(device, media)| (device.as_str().to_owned(), of(media, media_json)))
                .collect();
            output::json(&slots)
        }
        Format::Table => {
            let rows = shown.iter().map(|(device, media)| match media {
                Ok(media) => [
                    device.as_str().to_owned(),
                    yes(media.inserted),
                    yes(media.connected),
                    yes(media.write_protected),
                    media.url.clone().unwrap_or_default(),
                ],
                Err(why) => [
                    device.as_str().to_owned(),
                    format!("none: {why}"),
                    String::new(),
                    String::new(),
                    String::new(),
                ],
            });
            output::table(["device", "inserted", "connected", "write-protected", "image"], rows);
            Ok(())
        }
    }
}

fn image(args: &InsertArgs) -> Result<InsertMedia> {
    let server_certificate = match &args.server_certificate {
        None => None,
        Some(path) => {
            let shown = path.display();
            let pem =
                std::fs::read_to_string(path).with_context(|| format!("could not read the certificate {shown}"))?;
            Some(pem)
        }
    };
    Ok(InsertMedia {
        url: Secret::new(&args.url),
        boot_once: args.boot_once,
        server_certificate,
    })
}

pub(super) async fn boot_device(args: BootDeviceArgs, format: Format) -> Result<()> {
    if args.url.is_some() && args.device != Some(Source::UefiHttp) {
        bail!("--url is where UEFI HTTP boot fetches from: give it with the device uefi-http");
    }
    let (device, persistent, url) = (args.device, args.persistent, args.url.as_deref().map(Secret::new));
    let settings = args.target.with(|bmc| async move {
        if let Some(url) = &url {
            bmc.set_http_boot_url(url).await?;
        }
        if let Some(device) = device {
            let device = match device {
                Source::Cdrom => BootDevice::Cdrom,
                Source::Floppy => BootDevice::Floppy,
                Source::Disk => BootDevice::Disk,
                Source::Network => BootDevice::Network,
                Source::UefiHttp => BootDevice::UefiHttp,
            };
            bmc.set_boot_device(device, persistent).await?;
            // What it shows afterwards is beside the point.
            return told(bmc.boot_settings().await);
        }
        Ok(Ok(bmc.boot_settings().await?))
    });
    let settings = settings.await?;
    show(
        format,
        "boot",
        of(&settings, settings_json),
        text(&settings, settings_text),
    )
}

pub(super) async fn boot_mode(args: BootModeArgs, format: Format) -> Result<()> {
    let wanted = args.mode.map(|mode| match mode {
        Mode::Bios => BootMode::Bios,
        Mode::Uefi => BootMode::Uefi,
    });
    let mode = args.target.with(|bmc| async move {
        if let Some(wanted) = wanted {
            bmc.set_boot_mode(wanted).await?;
        }
        Ok(bmc.boot_mode().await?)
    });
    let name = mode_name(mode.await?);
    show(format, "boot_mode", json!(name), name.to_owned())
}

pub(super) async fn power(args: PowerArgs, format: Format) -> Result<()> {
    let action = args.action.map(|action| match action {
        Action::On => PowerAction::On,
        Action::Off => PowerAction::Off,
        Action::SoftOff => PowerAction::SoftOff,
        Action::ForceRestart => PowerAction::ForceRestart,
        Action::SoftRestart => PowerAction::SoftRestart,
    });
    let state = args.target.with(|bmc| async move {
        if let Some(action) = action {
            bmc.set_power(action).await?;
        }
        Ok(bmc.power_state().await?)
    });
    let name = power_name(state.await?);
    show(format, "power", json!(name), name.to_owned())
}

fn show(format: Format, name: &str, value: Value, text: String) -> Result<()> {
    match format {
        Format::Json => output::json(&json!({ name: value })),
        Format::Table => {
            output::say(text);
            Ok(())
        }
    }
}

/// A no is something to show; an answer that did not come is not.
fn told<T>(result: Result<T, BmcError>) -> Result<Result<T, String>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error @ (BmcError::Unsupported { .. } | BmcError::License { .. } | BmcError::Refused { .. })) => {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

fn of<T>(result: &Result<T, String>, value: impl Fn(&T) -> Value) -> Value {
    match result {
        Ok(told) => value(told),
        Err(why) => json!({"error": why}),
    }
}

fn text<T>(result: &Result<T, String>, value: impl Fn(&T) -> String) -> String {
    match result {
        Ok(told) => value(told),
        Err(why) => format!("not told: {why}"),
    }
}

fn yes(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

fn media_json(media: &Media) -> Value {
    json!({
        "inserted": media.inserted, "connected": media.connected,
        "write_protected": media.write_protected, "image": media.url,
    })
}

fn media_text(media: &Media) -> String {
    match (media.inserted, &media.url) {
        (false, _) => "empty".to_owned(),
        (true, Some(url)) if media.connected => url.clone(),
        (true, Some(url)) => format!("{url} (not connected)"),
        (true, None) => "an image that it does not name".to_owned(),
    }
}

pub(super) fn settings_json(settings: &BootSettings) -> Value {
    json!({"once": settings.once, "order": settings.order})
}

pub(super) fn settings_text(settings: &BootSettings) -> String {
    let order = if settings.order.is_empty() {
        "its own order".to_owned()
    } else {
        settings.order.join(", ")
    };
    match &settings.once {
        Some(once) => format!("{once} at the next boot, then {order}"),
        None => order,
    }
}

pub(super) fn mode_name(mode: BootMode) -> &'static str {
    mode.as_str()
}

fn power_name(state: PowerState) -> &'static str {
    match state {
        PowerState::On => "on",
        PowerState::Off => "off",
        PowerState::Unknown => "unknown",
    }
}
