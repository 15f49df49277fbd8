//! The header of a qcow2 (QEMU's docs/interop/qcow2): whether it stands alone.

use super::ImageError;

/// Bytes of a version 2 header; version 3 says its length itself.
const V2_LEN: usize = 72;
const V3_LEN: usize = 104;
/// Most entries of a level 1 table that QEMU loads.
const L1_MAX: u64 = (32 << 20) / 8;

/// What a reader has to understand (incompatible features).
const DIRTY: u64 = 1 << 0;
const CORRUPT: u64 = 1 << 1;
const DATA_FILE: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;

/// Header extensions.
const END: u32 = 0;
const BACKING_FORMAT: u32 = 0xe279_2aca;
const DATA_FILE_NAME: u32 = 0x4441_5441;
const ENCRYPTION: u32 = 0x0537_be77;

/// Size of the disk in it, if it refers to nothing outside and its tables lie in its `len` bytes, where that is known.
pub(super) fn virtual_size(head: &[u8], len: Option<u64>) -> Result<u64, ImageError> {
    let cut = || ImageError::Header("it is cut short");
    let u32_at = |offset: usize| {
        let bytes = head.get(offset..offset.checked_add(4)?)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let u64_at = |offset: usize| {
        let bytes = head.get(offset..offset.checked_add(8)?)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    };
    let version = u32_at(4).ok_or_else(cut)?;
    let header_len = match version {
        2 => V2_LEN,
        3 => usize::try_from(u32_at(100).ok_or_else(cut)?).unwrap_or(usize::MAX),
        _ => return Err(ImageError::Header("it is neither of version 2 nor 3")),
    };
    if version == 3 && (header_len < V3_LEN || header_len % 8 != 0) || header_len > head.len() {
        return Err(ImageError::Header("it has an impossible length"));
    }
    if u64_at(8).ok_or_else(cut)? != 0 || u32_at(16).ok_or_else(cut)? != 0 {
        return Err(ImageError::Refers("a backing file"));
    }
    if version == 3 {
        check_features(u64_at(72).ok_or_else(cut)?)?;
    }
    if u32_at(32).ok_or_else(cut)? != 0 {
        return Err(ImageError::Header("it is encrypted"));
    }
    let cluster_bits = u32_at(20).ok_or_else(cut)?;
    if !(9..=21).contains(&cluster_bits) {
        return Err(ImageError::Header("its clusters have an impossible size"));
    }
    check_extensions(head, header_len, 1 << cluster_bits)?;
    let size = u64_at(24).ok_or_else(cut)?;
    let l1_entries = u64::from(u32_at(36).ok_or_else(cut)?);
    let l1_offset = u64_at(40).ok_or_else(cut)?;
    let l1_end = l1_offset.checked_add(l1_entries * 8);
    if size == 0 || size > i64::MAX.unsigned_abs() {
        return Err(ImageError::Header("its disk has an impossible size"));
    }
    if l1_entries > L1_MAX
        || l1_offset % (1 << cluster_bits) != 0
        || l1_end.is_none_or(|end| len.is_some_and(|len| end > len))
    {
        return Err(ImageError::Header("its tables lie outside the file"));
    }
    Ok(size)
}

fn check_features(features: u64) -> Result<(), ImageError> {
    if features & DATA_FILE != 0 {
        return Err(ImageError::Refers("an external data file"));
    }
    if features & CORRUPT != 0 {
        return Err(ImageError::Header("it is marked as corrupt"));
    }
    // A dirty one is whole but for its reference counts, which readers do not need.
    if features & !(DIRTY | COMPRESSION | EXTENDED_L2) != 0 {
        return Err(ImageError::Header("it needs features that are not known"));
    }
    Ok(())
}

/// Extensions end within the first cluster; a list that cannot be followed to its end hides something.
fn check_extensions(head: &[u8], start: usize, cluster: usize) -> Result<(), ImageError> {
    let endless = || ImageError::Header("its extensions have no end");
    let head = &head[..head.len().min(cluster)];
    let mut rest = head.get(start..).ok_or_else(endless)?;
    loop {
        let (kind, after) = rest.split_first_chunk::<4>().ok_or_else(endless)?;
        let (len, data) = after.split_first_chunk::<4>().ok_or_else(endless)?;
        let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
        match u32::from_be_bytes(*kind) {
            END => return Ok(()),
            DATA_FILE_NAME => return Err(ImageError::Refers("an external data file")),
            BACKING_FORMAT => return Err(ImageError::Refers("a backing file's format")),
            ENCRYPTION => return Err(ImageError::Header("it is encrypted")),
            _ => {}
        }
        let padded = len.checked_next_multiple_of(8).ok_or_else(endless)?;
        rest = data.get(padded..).ok_or_else(endless)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version 3 header of a 10 GiB disk with clusters of 64 KiB, as QEMU writes it.
    fn header() -> Vec<u8> {
        let mut head = vec![0; 512];
        head[..4].copy_from_slice(b"QFI\xfb");
        put32(&mut head, 4, 3);
        put32(&mut head, 20, 16);
        put64(&mut head, 24, 10 << 30);
        put32(&mut head, 36, 20);
        put64(&mut head, 40, 3 << 16);
        put32(&mut head, 96, 4);
        put32(&mut head, 100, 112);
        head
    }

    fn put32(head: &mut [u8], at: usize, value: u32) {
        head[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    fn put64(head: &mut [u8], at: usize, value: u64) {
        head[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }

    const LEN: Option<u64> = Some(1 << 20);

    #[test]
    fn one_that_stands_alone_tells_its_size() {
        assert_eq!(virtual_size(&header(), LEN), Ok(10 << 30));
        let mut old = header();
        put32(&mut old, 4, 2);
        // In version 2 the extensions begin where version 3 has its features.
        old[72..].fill(0);
        assert_eq!(virtual_size(&old, LEN), Ok(10 << 30));
        let mut named = header();
        put32(&mut named, 112, 0x6803_f857);
        put32(&mut named, 116, 48);
        assert_eq!(virtual_size(&named, LEN), Ok(10 << 30));
    }

    #[test]
    fn whatever_leads_outside_or_makes_no_sense_is_refused() {
        type Change = fn(&mut Vec<u8>);
        let changes: [(&str, Change); 18] = [
            ("backing", |head| put64(head, 8, 512)),
            ("backing", |head| put32(head, 16, 8)),
            ("backing", |head| put32(head, 112, BACKING_FORMAT)),
            ("data file", |head| put64(head, 72, DATA_FILE)),
            ("data file", |head| put32(head, 112, DATA_FILE_NAME)),
            ("corrupt", |head| put64(head, 72, CORRUPT)),
            ("features", |head| put64(head, 72, 1 << 40)),
            ("encrypted", |head| put32(head, 32, 2)),
            ("version", |head| put32(head, 4, 1)),
            ("length", |head| put32(head, 100, 72)),
            ("length", |head| put32(head, 100, u32::MAX)),
            ("clusters", |head| put32(head, 20, 63)),
            ("size", |head| put64(head, 24, 0)),
            ("size", |head| put64(head, 24, u64::MAX)),
            ("tables", |head| put32(head, 36, u32::MAX)),
            ("tables", |head| put64(head, 40, u64::MAX << 16)),
            ("no end", |head| {
                put32(head, 112, 0x6803_f857);
                put32(head, 116, u32::MAX);
            }),
            ("cut short", |head| head.truncate(6)),
        ];
        for (said, change) in changes {
            let mut head = header();
            change(&mut head);
            let error = virtual_size(&head, LEN).unwrap_err();
            assert!(error.to_string().contains(said), "{said}: {error}");
        }
    }
}
