//! Compiled components, kept on disk: compiling takes a tenth of a second, reading back a fraction of a millisecond.
//!
//! A file is machine code, so it is read only if this user alone could have written it: the folder and the file belong to
//! the user of this process and nobody else may write to them. A checksum at its end finds damage, and its name carries the
//! digest of the component and what the compiler is and was set to. Whatever is wrong with a file, the component is compiled.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use model::Digest;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Behind the code: these bytes and its CRC-32.
const MARK: &[u8; 8] = b"farrier1";
const TAIL: usize = 12;
/// Largest file that is read back: the code of a component of the largest size has less.
const MOST: u64 = 512 << 20;

/// A component, read back from the folder or compiled and kept there.
pub(crate) fn component(
    engine: &Engine,
    folder: Option<&Path>,
    digest: Digest,
    bytes: &[u8],
) -> wasmtime::Result<Component> {
    let Some(folder) = folder else {
        return Component::from_binary(engine, bytes);
    };
    let path = path(engine, folder, digest);
    match read(&path) {
        Ok(code) => match deserialize(engine, &code) {
            Ok(component) => return Ok(component),
            Err(error) => tracing::debug!(path = %path.display(), "a compiled plugin is of no use: {error:#}"),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!("the plugin is compiled again: {}: {error}", path.display()),
    }
    let component = Component::from_binary(engine, bytes)?;
    if let Err(error) = component
        .serialize()
        .map_err(|error| io::Error::other(format!("{error:#}")))
        .and_then(|code| write(&path, &code))
    {
        // The next start compiles it again, no more.
        tracing::warn!("a compiled plugin could not be kept at {}: {error}", path.display());
    }
    Ok(component)
}

/// Makes a folder that only this user can write to. One that is there must be so.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    own(&fs::metadata(folder)?)
}

fn path(engine: &Engine, folder: &Path, digest: Digest) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    folder.join(format!("{}.{:016x}.cwasm", digest.0, hasher.finish()))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if let Some(folder) = path.parent() {
        own(&fs::metadata(folder)?)?;
    }
    let file = OpenOptions::new().read(true).custom_flags(no_follow()).open(path)?;
    let about = file.metadata()?;
    own(&about)?;
    if !about.is_file() || about.len() > MOST {
        return Err(io::Error::other("it is no file, or far too large"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(about.len()).unwrap_or_default());
    file.take(MOST).read_to_end(&mut bytes)?;
    let damaged = || io::Error::other("it is damaged");
    let end = bytes.len().checked_sub(TAIL).ok_or_else(damaged)?;
    let (mark, sum) = bytes[end..].split_at(MARK.len());
    if mark != MARK || sum != crc32fast::hash(&bytes[..end]).to_le_bytes() {
        return Err(damaged());
    }
    bytes.truncate(end);
    Ok(bytes)
}

fn write(path: &Path, code: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{:08x}.new", rand::random::<u32>()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    let written = write_whole(&mut file, code).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_whole(file: &mut File, code: &[u8]) -> io::Result<()> {
    file.write_all(code)?;
    file.write_all(MARK)?;
    file.write_all(&crc32fast::hash(code).to_le_bytes())
}

fn own(about: &fs::Metadata) -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    if about.uid() != user || about.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "others than this user can write to it: chown it to this user and chmod go-w",
        ));
    }
    Ok(())
}

fn no_follow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default()
}

#[expect(
    unsafe_code,
    reason = "machine code is trusted as what it is; `read` has seen that it is our own"
)]
fn deserialize(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes came from `Component::serialize` of a process of this user: nobody else can write to the file or its
    // folder, and the checksum shows that they are whole. Wasmtime checks version, target and settings itself.
    unsafe { Component::deserialize(engine, code) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("compiled");
        private_folder(&folder).unwrap();
        (temp, folder)
    }

    fn example() -> (Digest, Vec<u8>) {
        (Digest(model::Sha256([7; 32])), wat::parse_str("(component)").unwrap())
    }

    #[test]
    fn what_was_compiled_is_read_back_until_it_is_damaged() {
        let (_temp, folder) = folder();
        let engine = Engine::default();
        let (digest, bytes) = example();
        component(&engine, Some(&folder), digest, &bytes).unwrap();
        let file = path(&engine, &folder, digest);
        let whole = fs::read(&file).unwrap();
        // Not even looked at: the bytes are of no component.
        component(&engine, Some(&folder), digest, b"nonsense").unwrap();
        for (at, flip) in [
            (0, 1),
            (whole.len() / 2, 0x80),
            (whole.len() - 1, 1),
            (whole.len() - 6, 1),
        ] {
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            fs::write(&file, &damaged).unwrap();
            assert!(read(&file).is_err(), "byte {at}");
            component(&engine, Some(&folder), digest, &bytes).unwrap();
            assert_eq!(fs::read(&file).unwrap(), whole, "it was compiled and kept again");
        }
        fs::write(&file, b"short").unwrap();
        assert!(component(&engine, Some(&folder), digest, b"nonsense").is_err());
        let left: Vec<_> = fs::read_dir(&folder).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file is left");
    }

    #[test]
    fn what_others_could_have_written_is_not_run() {
        let (_temp, folder) = folder();
        let engine = Engine::default();
        let (digest, bytes) = example();
        component(&engine, Some(&folder), digest, &bytes).unwrap();
        let file = path(&engine, &folder, digest);
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(&file, 0o620);
        assert!(component(&engine, Some(&folder), digest, b"nonsense").is_err());
        mode(&file, 0o600);
        mode(&folder, 0o770);
        assert!(component(&engine, Some(&folder), digest, b"nonsense").is_err());
        assert!(private_folder(&folder).unwrap_err().to_string().contains("chmod"));
        mode(&folder, 0o700);
        let elsewhere = folder.join("elsewhere");
        fs::rename(&file, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        assert!(
            component(&engine, Some(&folder), digest, b"nonsense").is_err(),
            "links are not followed"
        );
    }

    #[test]
    fn another_compiler_setting_is_another_file() {
        let (_temp, folder) = folder();
        let (digest, _) = example();
        let mut config = wasmtime::Config::new();
        config.epoch_interruption(true);
        let other = Engine::new(&config).unwrap();
        assert_ne!(path(&Engine::default(), &folder, digest), path(&other, &folder, digest));
    }
}
