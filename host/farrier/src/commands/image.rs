//! `farrier image`: floppies, boot ISOs and ESPs as files, without a conductor.

mod destination;
mod esp;
mod floppy;
mod inputs;
mod iso;

use anyhow::Result;

/// Which image to make.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// A FAT floppy with a parameters.txt
    Floppy(floppy::Args),
    /// A boot ISO from a kernel and a ramdisk
    Iso(iso::Args),
    /// An EFI system partition from EFI binaries
    Esp(esp::Args),
}

pub(super) async fn run(command: Command) -> Result<()> {
    // Building and writing an image is blocking work from end to end.
    tokio::task::spawn_blocking(move || match command {
        Command::Floppy(args) => floppy::run(&args),
        Command::Iso(args) => iso::run(&args),
        Command::Esp(args) => esp::run(&args),
    })
    .await?
}
