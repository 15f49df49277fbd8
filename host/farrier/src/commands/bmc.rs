//! `farrier bmc`: one BMC by hand, without a conductor: what it speaks, what it shows, what it is told.
//!
//! The password comes from a file, from `FARRIER_BMC_PASSWORD` or from a prompt, never from the command line, which every user of
//! the machine can read.

mod connect;
mod probe;
mod raw;
mod record;
mod verbs;

use anyhow::Result;

use crate::output::OutputArgs;
use connect::Target;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    command: Command,
}

/// What to do with a BMC.
#[derive(clap::Subcommand)]
enum Command {
    /// Find out what it speaks, who it is and what it can do; changes nothing
    Probe(probe::Args),
    /// Show power, media, boot settings and firmware modes
    Status(verbs::StatusArgs),
    /// Show, insert or eject virtual media
    #[command(subcommand)]
    Media(verbs::MediaCommand),
    /// Show what it boots from, or set it
    BootDevice(verbs::BootDeviceArgs),
    /// Show the firmware mode of the next boot, or set it
    BootMode(verbs::BootModeArgs),
    /// Show its power, or change it
    Power(verbs::PowerArgs),
    /// Send one request or RIBCL command as given
    Raw(raw::Args),
    /// Write a scrubbed trace of what it says, for a report or for `farrier sim --replay`; changes nothing unless told to
    Record(record::Args),
}

pub(super) async fn run(args: Args) -> Result<()> {
    let format = args.output.format;
    match args.command {
        Command::Probe(args) => probe::run(args, format).await,
        Command::Status(args) => verbs::status(args, format).await,
        Command::Media(command) => verbs::media(command, format).await,
        Command::BootDevice(args) => verbs::boot_device(args, format).await,
        Command::BootMode(args) => verbs::boot_mode(args, format).await,
        Command::Power(args) => verbs::power(args, format).await,
        Command::Raw(args) => raw::run(args, format).await,
        Command::Record(args) => record::run(args, format).await,
    }
}

#[cfg(test)]
mod tests;
