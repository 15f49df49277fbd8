//! System use fields (SUSP 1.12) and those of them that are Rock Ridge (RRIP 1.12).

use super::walk::Listing;
use super::{IsoReadError, IsoVolume, SECTOR, le32};

/// Continuations of one record that are followed.
const MAX_HOPS: usize = 32;
/// Longest name and longest link target.
const MAX_NAME: usize = 4096;

/// What the fields of one record say.
#[derive(Default)]
pub(in crate::iso9660) struct SystemUse {
    pub(in crate::iso9660) is_rock_ridge: bool,
    pub(in crate::iso9660) name: Option<Vec<u8>>,
    pub(in crate::iso9660) mode: Option<u32>,
    pub(in crate::iso9660) link: Option<String>,
    /// The block of the directory that belongs here and was put elsewhere.
    pub(in crate::iso9660) child: Option<u32>,
    /// Whether it is a directory that belongs elsewhere.
    pub(in crate::iso9660) is_moved: bool,
    pub(in crate::iso9660) is_compressed: bool,
}

/// A symbolic link that is being put together.
#[derive(Default)]
struct Link {
    target: String,
    /// The next component goes on with the last one.
    goes_on: bool,
    is_empty: bool,
}

impl SystemUse {
    /// Reads an area and its continuations.
    pub(in crate::iso9660) fn read(
        volume: &IsoVolume<'_>,
        area: &[u8],
        listing: &mut Listing,
        path: &str,
    ) -> Result<Self, IsoReadError> {
        let mut out = Self::default();
        let mut link: Option<Link> = None;
        let mut next = out.fields(area, &mut link);
        for _ in 0..MAX_HOPS {
            let Some((block, offset, len)) = next else {
                out.link = link.map(|link| link.target);
                return Ok(out);
            };
            let at = u64::from(block) * volume.block() + u64::from(offset);
            let len = u64::from(len);
            if len > SECTOR || at + len > volume.image().len() {
                return Err(damaged(
                    path,
                    "the continuation of a directory record lies outside the image",
                ));
            }
            listing.count_continuation(path)?;
            let mut area = vec![0; usize::try_from(len).expect("at most a sector")];
            volume.image().read_at(at, &mut area).map_err(IsoReadError::Io)?;
            next = out.fields(&area, &mut link);
        }
        Err(damaged(path, "a directory record has too many continuations"))
    }

    /// Takes the fields of one area and returns where they go on.
    fn fields(&mut self, area: &[u8], link: &mut Option<Link>) -> Option<(u32, u32, u32)> {
        let mut next = None;
        let mut rest = area;
        while let [first, second, len, _version, ..] = *rest {
            let len = usize::from(len);
            if len < 4 || len > rest.len() {
                break;
            }
            let (field, after) = rest.split_at(len);
            let data = &field[4..];
            match &[first, second] {
                b"CE" if data.len() >= 24 => next = Some((le32(data, 0), le32(data, 8), le32(data, 16))),
                b"ST" => break,
                b"RR" => self.is_rock_ridge = true,
                b"PX" if data.len() >= 8 => {
                    self.is_rock_ridge = true;
                    self.mode = Some(le32(data, 0));
                }
                b"NM" if !data.is_empty() => {
                    self.is_rock_ridge = true;
                    let name = self.name.get_or_insert_default();
                    // Flags 2 and 4 stand for `.` and `..`, whose identifiers say the same.
                    if data[0] & 6 == 0 && name.len() + data.len() <= MAX_NAME {
                        name.extend_from_slice(&data[1..]);
                    }
                }
                b"SL" if !data.is_empty() => link.get_or_insert_default().add(&data[1..]),
                b"CL" if data.len() >= 8 => self.child = Some(le32(data, 0)),
                b"RE" => self.is_moved = true,
                b"ZF" => self.is_compressed = true,
                _ => {}
            }
            rest = after;
        }
        next
    }
}

impl Link {
    /// The components of one field (RRIP 1.12, 4.1.3.1).
    fn add(&mut self, mut components: &[u8]) {
        while let [flags, len, ref rest @ ..] = *components {
            let len = usize::from(len);
            let Some(text) = rest.get(..len).filter(|text| self.target.len() + text.len() < MAX_NAME) else {
                return;
            };
            let is_first = self.target.is_empty() && !self.is_empty;
            if !self.goes_on && !is_first && !self.target.ends_with('/') {
                self.target.push('/');
            }
            match flags & 0x0E {
                2 => self.target.push('.'),
                4 => self.target.push_str(".."),
                8 => self.target.push('/'),
                _ => self.target.push_str(&String::from_utf8_lossy(text)),
            }
            self.is_empty = true;
            self.goes_on = flags & 1 != 0;
            components = &rest[len..];
        }
    }
}

fn damaged(path: &str, reason: &'static str) -> IsoReadError {
    IsoReadError::Damaged {
        path: path.to_owned(),
        reason,
    }
}
