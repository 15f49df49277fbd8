//! Compressed images, unpacked into the cache: as a stream, with a bound on what comes out and on the decoder's memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use model::Sha256;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sha2::Digest as _;
use tempfile::NamedTempFile;

/// Most memory of a decoder: what the strongest ordinary setting of each packer asks for.
const MEMORY: u64 = 128 << 20;
/// Bytes at once.
const CHUNK: usize = 1 << 20;

/// How an image is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// gzip (RFC 1952).
    Gzip,
    /// xz.
    Xz,
    /// Zstandard (RFC 8878).
    Zstd,
}

impl Compression {
    /// Told by the first bytes, as Ironic does it, not by a name.
    pub fn of(head: &[u8]) -> Option<Self> {
        let skippable = |head: &[u8]| head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == [0x2a, 0x4d, 0x18];
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            head if skippable(head) => Some(Self::Zstd),
            _ => None,
        }
    }

    /// `gzip`, `xz`, `zstd`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        }
    }
}

/// What came out.
pub(crate) struct Unpacked {
    pub(crate) file: NamedTempFile,
    pub(crate) sha256: Sha256,
    pub(crate) len: u64,
}

#[derive(Debug)]
pub(crate) enum UnpackError {
    /// What is packed is no such stream, or asks for too much memory.
    Packed(io::Error),
    /// More comes out than may.
    TooBig,
    /// Reading or writing the cache.
    Cache(io::Error),
}

/// Unpacks all of `packed`. Blocks.
pub(crate) fn unpack(
    packed: &File,
    how: Compression,
    mut into: NamedTempFile,
    max: u64,
) -> Result<Unpacked, UnpackError> {
    let reader = BufReader::with_capacity(
        CHUNK,
        At {
            file: packed,
            offset: 0,
        },
    );
    let mut out: Box<dyn Read + '_> = match how {
        Compression::Gzip => Box::new(MultiGzDecoder::new(reader)),
        Compression::Xz => {
            let limit = u32::try_from(MEMORY >> 10).unwrap_or(u32::MAX);
            Box::new(XzReader::new_mem_limit(reader, true, limit))
        }
        Compression::Zstd => Box::new(Frames::new(reader)),
    };
    let mut hash = sha2::Sha256::new();
    let mut len: u64 = 0;
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = match out.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(UnpackError::Packed(error)),
        };
        len = len.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        if len > max {
            return Err(UnpackError::TooBig);
        }
        hash.update(&chunk[..count]);
        into.write_all(&chunk[..count]).map_err(UnpackError::Cache)?;
    }
    Ok(Unpacked {
        file: into,
        sha256: Sha256(hash.finalize().into()),
        len,
    })
}

/// A file from its beginning, whatever others do with the same open file.
struct At<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += u64::try_from(count).unwrap_or(0);
        Ok(count)
    }
}

/// All frames of a Zstandard file; the decoder knows of one at a time.
struct Frames<R> {
    packed: R,
    decoder: FrameDecoder,
    /// In the middle of a frame.
    open: bool,
}

impl<R: BufRead> Frames<R> {
    fn new(packed: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MEMORY);
        Self {
            packed,
            decoder,
            open: false,
        }
    }

    /// Begins the next frame, past frames that hold no content; false at the end.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            if self.packed.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.init(&mut self.packed) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let length = u64::from(length);
                    let skipped = io::copy(&mut self.packed.by_ref().take(length), &mut io::sink())?;
                    if skipped < length {
                        return Err(damaged("it is cut short"));
                    }
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.open {
                if !self.begin()? {
                    return Ok(0);
                }
                self.open = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.packed, one);
                decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            }
            match self.decoder.read(buffer)? {
                0 => {}
                count => return Ok(count),
            }
            self.open = false;
            let given = self.decoder.get_checksum_from_data();
            if given.is_some() && given != self.decoder.get_calculated_checksum() {
                return Err(damaged("its checksum is wrong"));
            }
        }
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
