//! Sealing of secrets at rest: XChaCha20-Poly1305 under a key file that only Farrier may read.
//!
//! Each sealed value is bound to its place ("node … secrets"), so that it opens nowhere else. Names that must be looked up
//! but not be stored in clear are indexed by a keyed hash (HMAC-SHA-256, RFC 2104). Both keys are derived from the file's.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};

use crate::StoreError;

/// First byte of a sealed value: the form that the rest has.
const FORM: u8 = 1;
const NONCE_BYTES: usize = 24;
const KEY_BYTES: usize = 32;

/// Seals and opens what is secret in a store. `Debug` shows nothing of the key.
#[derive(Clone)]
pub struct Sealer {
    cipher: XChaCha20Poly1305,
    index_key: [u8; 32],
    path: String,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({})", self.path)
    }
}

impl Sealer {
    /// Like [`Sealer::from_file`] for the store at `store`. A key is made only together with a store: a store whose key is
    /// gone needs that very key, and one in its place would only hide what is missing.
    pub fn for_store(path: &Path, store: &Path) -> Result<Self, StoreError> {
        // In this order: whoever else starts now makes the key before the store.
        let used = std::fs::metadata(store).is_ok_and(|found| found.len() > 0);
        if used && std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Err(StoreError::Key {
                path: path.display().to_string(),
                reason: format!(
                    "it is not there, and the store {} was sealed with it; put the key file back that belongs to this store (secret-key-file)",
                    store.display()
                ),
            });
        }
        Self::from_file(path)
    }

    /// Takes the key from a file of 32 bytes that nobody but its owner may read; makes one, mode 0600, if there is none.
    /// Several processes may start at once: they end up with the same key.
    pub fn from_file(path: &Path) -> Result<Self, StoreError> {
        let refuse = |reason: String| StoreError::Key {
            path: path.display().to_string(),
            reason,
        };
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                make_key(path).map_err(|error| {
                    refuse(format!(
                        "it is not there and cannot be made: {error}; make its folder writable, or set secret-key-file to a place that is"
                    ))
                })?;
                File::open(path)
            }
            other => other,
        };
        let file =
            file.map_err(|error| refuse(format!("{error}; it must be readable by the user that Farrier runs as")))?;
        let found = file.metadata().map_err(|error| refuse(error.to_string()))?;
        if !found.is_file() {
            return Err(refuse("it is not a regular file".into()));
        }
        if found.mode() & 0o077 != 0 {
            let mode = found.mode() & 0o7777;
            return Err(refuse(format!(
                "others than its owner may use it (mode {mode:04o}); run `chmod 600` on it, and take a new key if somebody may have read it"
            )));
        }
        let mut key = Vec::with_capacity(KEY_BYTES + 1);
        file.take(KEY_BYTES as u64 + 1)
            .read_to_end(&mut key)
            .map_err(|error| refuse(error.to_string()))?;
        let key: [u8; KEY_BYTES] = key.try_into().map_err(|_| {
            refuse(format!(
                "it must hold exactly {KEY_BYTES} bytes; restore it from a backup (for a new store: remove it, and a new one is made)"
            ))
        })?;
        Ok(Self::from_key(&key, path))
    }

    fn from_key(key: &[u8; KEY_BYTES], path: &Path) -> Self {
        Self {
            cipher: XChaCha20Poly1305::new(&hmac(key, b"farrier: sealing, form 1").into()),
            index_key: hmac(key, b"farrier: index of names, form 1"),
            path: path.display().to_string(),
        }
    }

    /// Where the key is, for messages.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Seals `text` for `place`.
    pub(crate) fn seal(&self, place: &str, text: &[u8]) -> Vec<u8> {
        let mut nonce = [0; NONCE_BYTES];
        rand::fill(&mut nonce);
        let payload = Payload {
            msg: text,
            aad: place.as_bytes(),
        };
        let sealed = self
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .expect("only a text of 256 GiB or more cannot be sealed");
        let mut value = Vec::with_capacity(1 + NONCE_BYTES + sealed.len());
        value.push(FORM);
        value.extend_from_slice(&nonce);
        value.extend_from_slice(&sealed);
        value
    }

    /// Opens what was sealed for `place`; `None` = another key, another place, or changed bytes.
    pub(crate) fn open(&self, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (form, rest) = sealed.split_first()?;
        let (nonce, text) = rest.split_first_chunk::<NONCE_BYTES>()?;
        if *form != FORM {
            return None;
        }
        let payload = Payload {
            msg: text,
            aad: place.as_bytes(),
        };
        self.cipher.decrypt(&XNonce::from(*nonce), payload).ok()
    }

    /// What a secret name is looked up by.
    pub(crate) fn index(&self, name: &str) -> [u8; 32] {
        hmac(&self.index_key, name.as_bytes())
    }
}

/// Writes a fresh key beside `path` and links it there, so that no process ever sees half a key; whoever comes second keeps
/// the first one's.
fn make_key(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut tag = [0; 8];
    rand::fill(&mut tag);
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{:016x}.new", u64::from_le_bytes(tag)));
    let draft = Path::new(&draft);
    let mut key = [0; KEY_BYTES];
    rand::fill(&mut key);

    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(draft)?;
    let written = file.write_all(&key).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| std::fs::hard_link(draft, path));
    std::fs::remove_file(draft)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(folder)?.sync_all()
}

/// HMAC-SHA-256 with a key that is no longer than a block.
fn hmac(key: &[u8; 32], text: &[u8]) -> [u8; 32] {
    let pad = |with: u8| {
        let mut block = [with; 64];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new()
        .chain_update(pad(0x5c))
        .chain_update(inner)
        .finalize()
        .into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn sealer(byte: u8) -> Sealer {
        Sealer::from_key(&[byte; 32], Path::new("key"))
    }

    #[test]
    fn a_sealed_value_opens_in_its_own_place_under_its_own_key_and_unchanged_only() {
        let sealed = sealer(1).seal("node a secrets", b"hunter2");
        assert_eq!(sealer(1).open("node a secrets", &sealed).unwrap(), b"hunter2");
        assert_eq!(sealer(1).open("node b secrets", &sealed), None);
        assert_eq!(sealer(2).open("node a secrets", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(sealer(1).open("node a secrets", &changed), None, "{at}");
            assert_eq!(sealer(1).open("node a secrets", &sealed[..at]), None);
        }
        assert_ne!(sealed, sealer(1).seal("node a secrets", b"hunter2"));
    }

    #[test]
    fn the_keyed_hash_is_hmac_sha_256() {
        // RFC 4231 §4.2, its 20-byte key padded with zeros, which HMAC does anyway.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let hex: String = hmac(&key, b"Hi There")
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    }

    #[test]
    fn processes_that_start_at_once_share_one_key_that_nobody_else_may_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/secret.key");
        let indexes: Vec<_> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| Sealer::from_file(&path).unwrap().index("x")))
                .collect();
            starts.into_iter().map(|s| s.join().unwrap()).collect()
        });
        assert!(indexes.iter().all(|index| *index == indexes[0]));
        let mode = std::fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o600);
        // No draft is left behind.
        assert_eq!(std::fs::read_dir(folder.path().join("new")).unwrap().count(), 1);
    }

    #[test]
    fn a_store_whose_key_is_gone_gets_no_other_key_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let (key, store) = (folder.path().join("secret.key"), folder.path().join("store.db"));
        // A start that was interrupted may leave an empty store behind.
        std::fs::write(&store, "").unwrap();
        Sealer::for_store(&key, &store).unwrap();
        std::fs::write(&store, "sealed").unwrap();
        Sealer::for_store(&key, &store).unwrap();
        std::fs::remove_file(&key).unwrap();
        let refusal = Sealer::for_store(&key, &store).unwrap_err().to_string();
        assert!(refusal.contains("put the key file back"), "{refusal}");
        assert!(!key.exists());
    }

    #[test]
    fn a_key_that_others_may_read_or_of_the_wrong_size_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.key");
        std::fs::write(&path, [7; 32]).unwrap();
        let check = |mode: u32, bytes: usize, expected: &str| {
            std::fs::write(&path, vec![7; bytes]).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let refusal = Sealer::from_file(&path).unwrap_err().to_string();
            assert!(refusal.contains(expected), "{refusal}");
        };
        check(0o640, 32, "chmod 600");
        check(0o604, 32, "chmod 600");
        check(0o600, 31, "exactly 32 bytes");
        check(0o600, 33, "exactly 32 bytes");
        let nowhere = Path::new("/proc/farrier/secret.key");
        let refusal = Sealer::from_file(nowhere).unwrap_err().to_string();
        assert!(refusal.contains("secret-key-file"), "{refusal}");
        let refusal = Sealer::from_file(folder.path()).unwrap_err().to_string();
        assert!(refusal.contains("not a regular file"), "{refusal}");
    }
}
