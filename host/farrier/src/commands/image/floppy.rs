//! `farrier image floppy`.

use std::path::PathBuf;

use anyhow::Result;
use image::{FLOPPY_LABEL, FloppySpec};

use super::destination::Destination;
use super::inputs::{Inputs, Placed, parameter};
use crate::output::FormatArgs;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A line of parameters.txt; may be repeated
    #[arg(long = "param", value_name = "K=V", value_parser = parameter)]
    params: Vec<(String, String)>,
    /// Another file and its path on the floppy; may be repeated
    #[arg(long = "file", value_name = "SRC:DST")]
    files: Vec<Placed>,
    /// Volume label, at most 11 characters
    #[arg(long, default_value = FLOPPY_LABEL)]
    label: String,
    /// Size of the floppy; default: 1474560 (1.44 MB), or more if the files need it
    #[arg(long, value_name = "BYTES")]
    size: Option<u64>,
    /// The image to write, or `-` for standard output
    #[arg(short = 'o', long = "out", value_name = "OUT")]
    out: PathBuf,
    #[command(flatten)]
    output: FormatArgs,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let out = Destination::open(&args.out)?;
    let mut inputs = Inputs::of(&out);
    let spec = FloppySpec {
        label: args.label.clone(),
        parameters: args.params.clone(),
        files: inputs.placed(&args.files)?,
        size: args.size,
    };
    out.finish(&image::floppy(&spec)?, &inputs.sources, args.output.format)
}
