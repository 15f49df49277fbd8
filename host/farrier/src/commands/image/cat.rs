//! `farrier image cat`.

use std::io::{self, ErrorKind, IsTerminal as _, Write};

use anyhow::{Context, Result};

use super::opened::ImageArgs;
use crate::output;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Files in it
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let opened = args.image.open()?;
    let volume = args.image.volume(&opened)?;
    let entries = args
        .paths
        .iter()
        .map(|path| volume.find(path))
        .collect::<Result<Vec<_>>>()?;
    let mut out = Out {
        is_terminal: io::stdout().is_terminal(),
        failed: None,
    };
    for entry in entries {
        let copied = volume.copy_to(&entry, &mut out);
        match out.failed.take() {
            // `| head` has had enough.
            Some(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Some(error) => return Err(error).context("could not write to standard output"),
            None => copied.with_context(|| format!("could not read {:?} in {}", entry.path, opened.name))?,
        }
    }
    Ok(())
}

/// Standard output, and what went wrong there: it is told apart from what goes wrong in the image.
struct Out {
    is_terminal: bool,
    failed: Option<io::Error>,
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = io::stdout().lock();
        // A file of an image must not command the terminal.
        let written = match self.is_terminal {
            true => out.write_all(output::harmless(&String::from_utf8_lossy(bytes)).as_bytes()),
            false => out.write_all(bytes),
        };
        match written.and_then(|()| out.flush()) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                let kind = error.kind();
                self.failed = Some(error);
                Err(kind.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
