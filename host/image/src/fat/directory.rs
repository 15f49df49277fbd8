//! Directories and files of a volume in the order in which they are laid down, and the bytes of directory entries.

use std::collections::BTreeSet;

use super::names::{self, checksum};
use super::{FatError, MAX_FILE};
use crate::content::Content;
use crate::path::{Dir, Node};

/// Bytes of one directory entry.
pub(super) const ENTRY: usize = 32;
/// FAT allows 65,536 entries in a directory.
const MAX_ENTRIES: usize = 65_536;
/// 2000-01-01 as FAT counts days: every image is as old as every other one.
const DATE: u16 = (2000 - 1980) << 9 | 1 << 5 | 1;

const ATTRIBUTE_LABEL: u8 = 0x08;
const ATTRIBUTE_DIRECTORY: u8 = 0x10;
const ATTRIBUTE_ARCHIVE: u8 = 0x20;
const ATTRIBUTE_LONG: u8 = 0x0F;

/// Everything that has to be given a place. Directory 0 is the root.
pub(super) struct Plan<'a> {
    pub(super) dirs: Vec<Directory>,
    pub(super) files: Vec<File<'a>>,
}

pub(super) struct Directory {
    pub(super) parent: usize,
    pub(super) children: Vec<Child>,
    /// Entries of 32 bytes, long names, `.`, `..` and label included.
    pub(super) entries: usize,
}

pub(super) struct Child {
    name: String,
    short: [u8; 11],
    has_long: bool,
    pub(super) target: Target,
}

#[derive(Clone, Copy)]
pub(super) enum Target {
    Dir(usize),
    File(usize),
}

pub(super) struct File<'a> {
    pub(super) path: String,
    pub(super) content: &'a Content,
}

/// Gives every name its short name and counts entries.
pub(super) fn plan<'a>(root: &Dir<'a>, has_label: bool) -> Result<Plan<'a>, FatError> {
    let mut plan = Plan {
        dirs: Vec::new(),
        files: Vec::new(),
    };
    let own = usize::from(has_label);
    add(&mut plan, root, 0, "", own)?;
    Ok(plan)
}

fn add<'a>(plan: &mut Plan<'a>, dir: &Dir<'a>, parent: usize, path: &str, own: usize) -> Result<usize, FatError> {
    let index = plan.dirs.len();
    plan.dirs.push(Directory {
        parent,
        children: Vec::new(),
        entries: own,
    });
    let mut folded = BTreeSet::new();
    let mut children = Vec::with_capacity(dir.0.len());
    let mut entries = own;
    let shorts = names::short(dir.0.keys().map(String::as_str));
    for ((name, node), (short, has_long)) in dir.0.iter().zip(shorts) {
        let path = format!("{path}/{name}");
        if let Some(reason) = names::bad(name) {
            return Err(FatError::Name { path, reason });
        }
        if !folded.insert(name.to_uppercase()) {
            let reason = "another one differs from it only in upper and lower case";
            return Err(FatError::Name { path, reason });
        }
        entries += 1 + if has_long { long_entries(name) } else { 0 };
        let target = match node {
            Node::Dir(dir) => Target::Dir(add(plan, dir, index, &path, 2)?),
            Node::File(content) if content.len() > MAX_FILE => {
                return Err(FatError::FileTooLarge {
                    path,
                    len: content.len(),
                });
            }
            Node::File(content) => {
                plan.files.push(File { path, content });
                Target::File(plan.files.len() - 1)
            }
        };
        children.push(Child {
            name: name.clone(),
            short,
            has_long,
            target,
        });
    }
    if entries > MAX_ENTRIES {
        return Err(FatError::DirectoryFull {
            path: format!("{path}/"),
        });
    }
    plan.dirs[index].children = children;
    plan.dirs[index].entries = entries;
    Ok(index)
}

fn long_entries(name: &str) -> usize {
    name.encode_utf16().count().div_ceil(13)
}

/// The bytes of a directory. `place` tells first cluster and length of what an entry names.
pub(super) fn bytes(
    plan: &Plan<'_>,
    index: usize,
    label: Option<[u8; 11]>,
    place: impl Fn(Target) -> (u32, u32),
) -> Vec<u8> {
    let dir = &plan.dirs[index];
    let mut out = Vec::with_capacity(dir.entries * ENTRY);
    match label {
        Some(label) if index == 0 => push(&mut out, &label, ATTRIBUTE_LABEL, (0, 0)),
        _ => {}
    }
    if index != 0 {
        // The root is cluster 0 to a `..`, even on FAT32 where it has a number.
        let parent = match dir.parent {
            0 => (0, 0),
            parent => place(Target::Dir(parent)),
        };
        push(&mut out, b".          ", ATTRIBUTE_DIRECTORY, place(Target::Dir(index)));
        push(&mut out, b"..         ", ATTRIBUTE_DIRECTORY, parent);
    }
    for child in &dir.children {
        if child.has_long {
            push_long(&mut out, &child.name, checksum(&child.short));
        }
        let attribute = match child.target {
            Target::Dir(_) => ATTRIBUTE_DIRECTORY,
            Target::File(_) => ATTRIBUTE_ARCHIVE,
        };
        push(&mut out, &child.short, attribute, place(child.target));
    }
    out
}

fn push(out: &mut Vec<u8>, name: &[u8; 11], attribute: u8, (cluster, len): (u32, u32)) {
    let [low0, low1, high0, high1] = cluster.to_le_bytes();
    let mut entry = [0; ENTRY];
    entry[..11].copy_from_slice(name);
    entry[11] = attribute;
    for date in [16, 18, 24] {
        entry[date..date + 2].copy_from_slice(&DATE.to_le_bytes());
    }
    entry[20..22].copy_from_slice(&[high0, high1]);
    entry[26..28].copy_from_slice(&[low0, low1]);
    entry[28..].copy_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&entry);
}

/// Long-name entries, last part first: 13 UTF-16 units each, ended by a zero unit and filled with 0xFFFF.
fn push_long(out: &mut Vec<u8>, name: &str, checksum: u8) {
    let units: Vec<u16> = name.encode_utf16().collect();
    let count = units.len().div_ceil(13);
    for (index, part) in units.chunks(13).enumerate().rev() {
        let mut padded = [0xFFFF_u16; 13];
        padded[..part.len()].copy_from_slice(part);
        if let Some(end) = padded.get_mut(part.len()) {
            *end = 0;
        }
        let mut entry = [0; ENTRY];
        let order = u8::try_from(index + 1).expect("a long name has at most 20 parts");
        entry[0] = if index + 1 == count { order | 0x40 } else { order };
        entry[11] = ATTRIBUTE_LONG;
        entry[13] = checksum;
        let places = (1..11).step_by(2).chain((14..26).step_by(2)).chain([28, 30]);
        for (place, unit) in places.zip(padded) {
            entry[place..place + 2].copy_from_slice(&unit.to_le_bytes());
        }
        out.extend_from_slice(&entry);
    }
}
