//! `farrier config`: what the settings files say, and what is wrong with them.

use std::path::PathBuf;

use settings::Files;

/// Which settings files.
#[derive(clap::Args)]
pub(crate) struct FileArgs {
    /// Site file; without one, every setting has its default
    #[arg(long, env = "FARRIER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Ironic's settings, a file (and the folder FILE.d beside it) or a folder of `*.conf`; the site file beats it, later ones
    /// beat earlier ones
    #[arg(long, value_name = "FILE")]
    ironic_conf: Vec<PathBuf>,
}

impl FileArgs {
    /// Paths in the files are relative to their folders, and end up in records: they must not depend on where we started.
    pub(crate) fn files(&self) -> std::io::Result<Files> {
        let absolute = |path: &PathBuf| std::path::absolute(path);
        Ok(Files {
            site: self.config.as_ref().map(absolute).transpose()?,
            ironic: self.ironic_conf.iter().map(absolute).collect::<Result<_, _>>()?,
        })
    }
}
