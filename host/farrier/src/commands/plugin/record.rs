//! `farrier plugin record`: a conductor that writes down what its plugins ask and are answered.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::commands::serve;

#[derive(clap::Args)]
pub(crate) struct RecordArgs {
    /// Folder for the scenario files, one for each call; it is made if it is not there
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    #[command(flatten)]
    serve: serve::Args,
}

pub(super) async fn record(args: RecordArgs) -> Result<()> {
    let folder = args.to;
    // What servers are called and where they are stands in the files.
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .with_context(|| format!("could not make the folder {}", folder.display()))?;
    serve::run_recorded(args.serve, Some(&folder)).await
}
