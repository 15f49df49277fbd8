//! `farrier image config-drive`.

use std::path::PathBuf;

use anyhow::Result;
use image::{ConfigDriveSpec, ConfigDriveVolume, Content};

use super::inputs::{Inputs, Placed};
use super::{Build, Built};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// meta_data.json: an object with a "uuid"
    #[arg(long, value_name = "FILE")]
    meta_data: PathBuf,
    /// user_data: cloud-config, a script, an Ignition file
    #[arg(long, value_name = "FILE")]
    user_data: Option<PathBuf>,
    /// network_data.json
    #[arg(long, value_name = "FILE")]
    network_data: Option<PathBuf>,
    /// vendor_data.json
    #[arg(long, value_name = "FILE")]
    vendor_data: Option<PathBuf>,
    /// Another file or folder and its path in the drive; may be repeated
    #[arg(long = "file", value_name = "SRC:DST")]
    files: Vec<Placed>,
    /// Make an ISO, and no FAT volume
    #[arg(long)]
    iso: bool,
    /// Size of the FAT volume; default: the smallest that takes the files, from 1 MiB on
    #[arg(long, value_name = "BYTES", conflicts_with = "iso")]
    size: Option<u64>,
}

impl Build for Args {
    fn build(&self, inputs: &mut Inputs) -> Result<Built> {
        let mut optional = |option, path: &Option<PathBuf>| -> Result<Option<Content>> {
            let path = path.as_deref();
            path.map(|path| Ok(inputs.small_file(option, path)?.into())).transpose()
        };
        let user_data = optional("--user-data", &self.user_data)?;
        let network_data = optional("--network-data", &self.network_data)?;
        let vendor_data = optional("--vendor-data", &self.vendor_data)?;
        let drive = image::config_drive(&ConfigDriveSpec {
            meta_data: inputs.small_file("--meta-data", &self.meta_data)?.into(),
            user_data,
            network_data,
            vendor_data,
            files: inputs.placed(&self.files)?,
            volume: match self.iso {
                true => ConfigDriveVolume::Iso,
                false => ConfigDriveVolume::Fat { size: self.size },
            },
        })?;
        Ok(drive.into())
    }
}
