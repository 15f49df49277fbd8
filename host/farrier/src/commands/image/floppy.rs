//! `farrier image floppy`.

use anyhow::Result;
use image::{FLOPPY_LABEL, FloppySpec};

use super::inputs::{Inputs, Placed, parameter};
use super::{Build, Built};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A line of parameters.txt; may be repeated
    #[arg(long = "param", value_name = "K=V", value_parser = parameter)]
    params: Vec<(String, String)>,
    /// Another file or folder and its path on the floppy; may be repeated
    #[arg(long = "file", value_name = "SRC:DST")]
    files: Vec<Placed>,
    /// Volume label, at most 11 characters
    #[arg(long, default_value = FLOPPY_LABEL)]
    label: String,
    /// Size of the floppy; default: 1474560 (1.44 MB), or more if the files need it
    #[arg(long, value_name = "BYTES")]
    size: Option<u64>,
}

impl Build for Args {
    fn build(&self, inputs: &mut Inputs) -> Result<Built> {
        let floppy = image::floppy(&FloppySpec {
            label: self.label.clone(),
            parameters: self.params.clone(),
            files: inputs.placed(&self.files)?,
            size: self.size,
        })?;
        Ok(floppy.into())
    }
}
