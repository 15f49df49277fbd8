//! `farrier image extract`: files of an image into a folder, and nowhere else.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, Permissions, PermissionsExt as _};
use image::{Extent, Layout, SourceMap, Written};
use model::Sha256;
use serde_json::json;

use super::destination::{is_full, told};
use super::opened::{ImageArgs, Opened};
use super::progress::Progress;
use super::volume::{Entry, Kind, Volume};
use crate::output::{self, Format, OutputArgs};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Files and folders in it; default: all of it
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// The folder to put them in, under their paths in the image; made if it is not there
    #[arg(short = 'C', long, value_name = "FOLDER")]
    to: PathBuf,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let began = Instant::now();
    let opened = args.image.open()?;
    let volume = args.image.volume(&opened)?;
    let entries = selected(&volume, &args.paths).with_context(|| format!("could not extract from {}", opened.name))?;
    for entry in &entries {
        check_path(&entry.path)?;
    }
    let mut target = Target::open(&args.to, args.force)?;
    for entry in &entries {
        target.check_free(entry)?;
    }
    let total = entries.iter().map(|entry| entry.len).sum();
    let mut progress = Progress::new(format!("extracting into {}", args.to.display()), total);
    for entry in &entries {
        target.put(&opened, &volume, entry, &mut progress)?;
    }
    drop(progress);
    let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    for (path, reason) in &target.left_out {
        output::note(format_args!("left out: {path:?}: {reason}"));
    }
    match args.output.format {
        Format::Json => {
            let left_out = target.left_out.iter();
            let left_out: Vec<_> = left_out
                .map(|(path, reason)| json!({ "path": path, "reason": reason }))
                .collect();
            output::json(&json!({
                "to": args.to, "files": target.files, "folders": target.folders, "links": target.links, "size": total,
                "cloned": target.done.cloned, "copied": target.done.copied, "written": target.done.written,
                "milliseconds": milliseconds, "left-out": left_out,
            }))
        }
        Format::Table => {
            output::say(format_args!(
                "{}: {} files, {} folders, {} links, {} in {milliseconds} ms{}",
                args.to.display(),
                target.files,
                target.folders,
                target.links,
                output::bytes(total),
                told(target.done)
            ));
            Ok(())
        }
    }
}

/// What the paths name, folders with all below them; each once, folders before what lies in them.
fn selected(volume: &Volume<'_>, paths: &[String]) -> Result<Vec<Entry>> {
    let mut entries = volume.entries()?;
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    if paths.is_empty() {
        return Ok(entries);
    }
    let mut wanted = BTreeSet::new();
    for path in paths {
        let found = volume.find(path)?;
        let below = format!("{}/", found.path);
        wanted.extend(
            entries
                .iter()
                .filter(|entry| entry.path.starts_with(&below))
                .map(|entry| entry.path.clone()),
        );
        wanted.insert(found.path);
    }
    entries.retain(|entry| wanted.contains(&entry.path));
    Ok(entries)
}

/// Refuses a path that would lead out of the folder, whatever the volume's reader let through.
fn check_path(path: &str) -> Result<()> {
    let is_plain = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
    ensure!(
        path.split('/').all(is_plain),
        "the image holds the path {:?}, which leads elsewhere: nothing was extracted",
        output::harmless(path)
    );
    Ok(())
}

/// The folder, and what was put into it. Nothing is reached outside of it: each step is made from its handle, and no link
/// is followed.
struct Target {
    dir: Dir,
    shown: PathBuf,
    force: bool,
    files: u64,
    folders: u64,
    links: u64,
    done: Written,
    left_out: Vec<(String, &'static str)>,
}

impl Target {
    fn open(folder: &Path, force: bool) -> Result<Self> {
        let shown = folder.display();
        match std::fs::create_dir(folder) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("could not make the folder {shown} (--to)")),
        }
        let dir = Dir::open_ambient_dir(folder, ambient_authority())
            .with_context(|| format!("could not open the folder {shown} (--to)"))?;
        Ok(Self {
            dir,
            shown: folder.to_owned(),
            force,
            files: 0,
            folders: 0,
            links: 0,
            done: Written::default(),
            left_out: Vec::new(),
        })
    }

    /// Fails if something is in an entry's way, before anything is written.
    fn check_free(&self, entry: &Entry) -> Result<()> {
        let shown = self.shown.join(&entry.path);
        let Ok(found) = self.dir.symlink_metadata(&entry.path) else {
            return Ok(());
        };
        match (&entry.kind, found.is_dir()) {
            (Kind::Folder, true) => Ok(()),
            (Kind::Folder, false) => bail!("{} is in the way of a folder: remove it first", shown.display()),
            (_, true) => bail!("{} is a folder, in the way of a file: remove it first", shown.display()),
            (_, false) if self.force => Ok(()),
            (_, false) => bail!(
                "{} is there already: extract into another folder (--to), or replace it with --force",
                shown.display()
            ),
        }
    }

    fn put(&mut self, opened: &Opened, volume: &Volume<'_>, entry: &Entry, progress: &mut Progress) -> Result<()> {
        let failed = || format!("could not write {}", self.shown.join(&entry.path).display());
        if entry.kind == Kind::Folder {
            self.make_folders(&entry.path).with_context(failed)?;
            self.folders += 1;
            return Ok(());
        }
        if let Some((parents, _)) = entry.path.rsplit_once('/') {
            self.make_folders(parents).with_context(failed)?;
        }
        match &entry.kind {
            Kind::Folder => {}
            Kind::File => {
                let written = self.put_file(opened, volume, entry, progress)?;
                self.done.cloned += written.cloned;
                self.done.copied += written.copied;
                self.done.written += written.written;
                self.files += 1;
            }
            Kind::Link(target) if stays_inside(&entry.path, target) => {
                self.make_room(&entry.path).with_context(failed)?;
                self.dir.symlink(target, &entry.path).with_context(failed)?;
                self.links += 1;
            }
            Kind::Link(_) => self
                .left_out
                .push((entry.path.clone(), "a link that leads out of the image")),
            Kind::Special => self.left_out.push((entry.path.clone(), "a device, a pipe or a socket")),
        }
        Ok(())
    }

    /// Makes the folders of a path, one after the other: a link in the place of one is not followed.
    fn make_folders(&self, path: &str) -> io::Result<()> {
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            let folder = &path[..end];
            match self.dir.create_dir(folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
            if !self.dir.symlink_metadata(folder)?.is_dir() {
                return Err(io::Error::new(
                    ErrorKind::NotADirectory,
                    format!("{folder:?} is in the way of a folder: remove it first"),
                ));
            }
        }
        Ok(())
    }

    fn make_room(&self, path: &str) -> io::Result<()> {
        match self.force.then(|| self.dir.remove_file(path)) {
            Some(Err(error)) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn put_file(
        &self,
        opened: &Opened,
        volume: &Volume<'_>,
        entry: &Entry,
        progress: &mut Progress,
    ) -> Result<Written> {
        let shown = self.shown.join(&entry.path);
        let failed = || format!("could not write {}", shown.display());
        // The file's place in the image is a layout, so it is shared or copied by the kernel where that goes. The name of
        // the one source is no digest, and nobody else sees it.
        let image = Sha256([0; 32]);
        let sections = volume.sections(entry)?.into_iter();
        let extents = sections.map(|(offset, len)| Extent::Source {
            sha256: image,
            offset,
            len,
        });
        let layout = Layout::from_extents(image::Kind::Other, extents.collect())?;
        let mut sources = SourceMap::default();
        sources.insert(image, Arc::clone(&opened.source));

        self.make_room(&entry.path).with_context(failed)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = self
            .dir
            .open_with(&entry.path, &options)
            .with_context(failed)?
            .into_std();
        let before = self.done.total();
        let written = layout
            .fill(&sources, &file, &mut |done| progress.set(before + done))
            .map_err(|error| {
                // A part of a file would be taken for all of it. It was made here, so it is nobody else's.
                let _ = self.dir.remove_file(&entry.path);
                let what = match &error {
                    image::WriteError::File(source) if is_full(source) => format!(
                        "there is no room for {}: free some, or extract elsewhere (--to)",
                        shown.display()
                    ),
                    _ => format!("could not extract {:?}", entry.path),
                };
                anyhow::Error::new(error).context(what)
            })?;
        let runs = entry.mode.is_some_and(|mode| mode & 0o111 != 0);
        if runs {
            let mode = self
                .dir
                .metadata(&entry.path)
                .with_context(failed)?
                .permissions()
                .mode();
            // Whoever may read it may run it.
            let mode = mode & 0o777 | (mode & 0o444) >> 2;
            self.dir
                .set_permissions(&entry.path, Permissions::from_mode(mode))
                .with_context(failed)?;
        }
        Ok(written)
    }
}

/// Whether a link leads to a place inside the image, however the links that it passes through lead on: it climbs at its
/// beginning only, and no higher than to the root.
fn stays_inside(link: &str, target: &str) -> bool {
    let depth = link.split('/').count() - 1;
    let mut climbed = 0;
    let mut descends = false;
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir if !descends => climbed += 1,
            Component::Normal(_) => descends = true,
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    climbed <= depth && !target.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_that_stay_inside_whatever_lies_on_their_way_are_made() {
        for (link, target) in [
            ("a", "b"),
            ("d/a", "../b"),
            ("d/e/a", "../../x/y"),
            ("a", "./b/c"),
            ("d/a", ".."),
        ] {
            assert!(stays_inside(link, target), "{link} -> {target}");
        }
        for (link, target) in [
            ("a", "/etc/passwd"),
            ("a", ".."),
            ("a", "../b"),
            ("d/a", "../../b"),
            // `d/s` may be a link to the root.
            ("a", "d/s/../../etc"),
            ("a", ""),
        ] {
            assert!(!stays_inside(link, target), "{link} -> {target}");
        }
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused() {
        assert!(check_path("a/b c/..d").is_ok());
        for bad in ["../a", "a/../b", "/a", "a//b", "a/.", "", "a\0"] {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
    }
}
