//! `farrier image`: images made, read and served without a conductor.

mod cat;
mod config_drive;
mod destination;
mod esp;
mod extract;
mod floppy;
mod inputs;
mod inspect;
mod iso;
mod ls;
mod opened;
mod patch;
mod progress;
mod remote;
mod serve;
mod volume;

use anyhow::Result;
use image::Layout;

use destination::{Destination, OutArgs};
use inputs::Inputs;

/// What to do with an image.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Make a FAT floppy with a parameters.txt
    Floppy(Make<floppy::Args>),
    /// Make a boot ISO from a kernel and a ramdisk
    Iso(Box<Make<iso::Args>>),
    /// Make an EFI system partition from EFI binaries
    Esp(Make<esp::Args>),
    /// Make a config drive, as FAT or as ISO
    ConfigDrive(Make<config_drive::Args>),
    /// Make an ISO of an existing one, with parameters or files added
    Patch(Make<patch::Args>),
    /// Tell what an image is: label, sizes, boot entries, partitions
    Inspect(inspect::Args),
    /// List what lies in an image
    Ls(ls::Args),
    /// Print files of an image
    Cat(cat::Args),
    /// Put files of an image into a folder
    Extract(extract::Args),
    /// Serve one image over HTTP
    Serve(serve::Args),
}

/// What an image is made of, and where it goes.
#[derive(clap::Args)]
pub(crate) struct Make<S: clap::Args> {
    #[command(flatten)]
    spec: S,
    #[command(flatten)]
    out: OutArgs,
}

/// The options that say what an image is made of.
trait Build {
    /// Opens the inputs, and lays the image out.
    fn build(&self, inputs: &mut Inputs) -> Result<Built>;
}

/// An image, laid out.
struct Built {
    layout: Layout,
    /// What of an existing image was changed, to be told.
    changed: Vec<serde_json::Value>,
}

impl From<Layout> for Built {
    fn from(layout: Layout) -> Self {
        Self {
            layout,
            changed: Vec::new(),
        }
    }
}

fn make<S: clap::Args + Build>(args: &Make<S>) -> Result<()> {
    let out = Destination::open(&args.out)?;
    let mut inputs = Inputs::beside(out.replaces());
    let built = args.spec.build(&mut inputs)?;
    out.finish(&built, &inputs)
}

pub(super) async fn run(command: Command) -> Result<()> {
    if let Command::Serve(args) = command {
        return serve::run(args).await;
    }
    // Building, reading and writing images is blocking work from end to end.
    tokio::task::spawn_blocking(move || match command {
        Command::Floppy(args) => make(&args),
        Command::Iso(args) => make(&args),
        Command::Esp(args) => make(&args),
        Command::ConfigDrive(args) => make(&args),
        Command::Patch(args) => make(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Extract(args) => extract::run(&args),
        Command::Serve(_) => Ok(()),
    })
    .await?
}
