//! `farrier image patch`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::ArgGroup;
use image::{IsoPatch, PatchedHow};
use serde_json::json;

use super::inputs::{Inputs, Placed, parameter};
use super::opened::layout_of;
use super::{Build, Built};

#[derive(clap::Args)]
#[command(group(ArgGroup::new("change").args(["params", "append", "files", "embed"]).required(true).multiple(true)))]
pub(crate) struct Args {
    /// The ISO to change, or a recipe of one; it stays as it is
    image: PathBuf,
    /// A parameter to add to every kernel line; may be repeated
    #[arg(long = "param", value_name = "K=V", value_parser = parameter)]
    params: Vec<(String, String)>,
    /// More words for every kernel line, as in "console=ttyS0 quiet"
    #[arg(long, value_name = "WORDS")]
    append: Option<String>,
    /// A file or folder and its path in the ISO, where it replaces what is there; may be repeated
    #[arg(long = "file", value_name = "SRC:DST")]
    files: Vec<Placed>,
    /// A file to put into the place that a file of the ISO keeps for it; may be repeated
    ///
    /// CoreOS images keep images/ignition.img for an Ignition file. The file of the ISO keeps its length.
    #[arg(long, value_name = "SRC:DST")]
    embed: Vec<Placed>,
}

impl Build for Args {
    fn build(&self, inputs: &mut Inputs) -> Result<Built> {
        let base = layout_of(&self.image, inputs)?;
        let patch = IsoPatch {
            files: inputs.placed(&self.files)?,
            embed: inputs.placed(&self.embed)?,
            parameters: self.params.clone(),
            kernel_arguments: self.append.clone().unwrap_or_default(),
        };
        let patched = image::patch_iso(&base, &inputs.sources, &patch)
            .with_context(|| format!("could not change {}", self.image.display()))?;
        let changed = patched.files.iter();
        let changed = changed
            .map(|file| json!({ "path": file.path, "how": told(file.how) }))
            .collect();
        Ok(Built {
            layout: patched.layout,
            changed,
        })
    }
}

fn told(how: PatchedHow) -> &'static str {
    match how {
        PatchedHow::InPlace => "in place",
        PatchedHow::Moved => "at the end",
        PatchedHow::Added => "added",
        PatchedHow::InEsp => "in the EFI system partition",
    }
}
