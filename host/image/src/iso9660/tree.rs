//! Directories and files of an ISO as flat lists, with the names that each of its two hierarchies gives them.

use super::{IsoError, names};
use crate::content::Content;
use crate::path::{Dir, Node};
use crate::unique::Taken;

/// Longest section of a file: a length has 32 bits, and all sections but the last consist of whole sectors.
pub(super) const MAX_SECTION: u64 = u32::MAX as u64 - 2047;
/// Longest file: Linux follows a file through 100 sections.
pub(super) const MAX_FILE: u64 = 100 * MAX_SECTION;

/// Directory 0 is the root. Files come in the order of their paths.
pub(super) struct Tree<'a> {
    pub(super) dirs: Vec<Directory>,
    pub(super) files: Vec<File<'a>>,
}

pub(super) struct Directory {
    pub(super) parent: usize,
    pub(super) names: Names,
    pub(super) children: Vec<Child>,
    pub(super) subdirectories: u32,
}

pub(super) struct File<'a> {
    pub(super) path: String,
    pub(super) names: Names,
    pub(super) content: &'a Content,
}

#[derive(Clone, Copy)]
pub(super) enum Child {
    Dir(usize),
    File(usize),
}

/// What one file or directory is called.
#[derive(Default)]
pub(super) struct Names {
    pub(super) real: String,
    pub(super) iso: Vec<u8>,
    pub(super) joliet: Vec<u16>,
}

/// One of the two hierarchies over the same files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// ISO 9660 with Rock Ridge.
    Iso,
    /// Joliet.
    Joliet,
}

impl Tree<'_> {
    fn names(&self, child: Child) -> &Names {
        match child {
            Child::Dir(index) => &self.dirs[index].names,
            Child::File(index) => &self.files[index].names,
        }
    }

    pub(super) fn real_name(&self, child: Child) -> &str {
        &self.names(child).real
    }

    /// The bytes of an identifier in a directory record.
    pub(super) fn identifier(&self, view: View, child: Child) -> Vec<u8> {
        let names = self.names(child);
        match view {
            View::Iso => names.iso.clone(),
            View::Joliet => {
                let version: &[u16] = match child {
                    Child::Dir(_) => &[],
                    Child::File(_) => &[0x3B, 0x31],
                };
                names
                    .joliet
                    .iter()
                    .chain(version)
                    .flat_map(|unit| unit.to_be_bytes())
                    .collect()
            }
        }
    }

    /// Children in the order that the view's records have (ECMA-119 §9.3: name, then extension; Joliet: by unit).
    pub(super) fn children(&self, view: View, dir: usize) -> Vec<Child> {
        let mut children = self.dirs[dir].children.clone();
        children.sort_by_cached_key(|child| match view {
            View::Iso => {
                let identifier = &self.names(*child).iso;
                // The parts compare as if filled with spaces, which stand before every legal character.
                let mut parts = identifier.splitn(2, |byte| *byte == b'.');
                (parts.next().map(<[u8]>::to_vec), parts.next().map(<[u8]>::to_vec))
            }
            View::Joliet => (Some(self.identifier(view, *child)), None),
        });
        children
    }

    /// Directories level by level, each level in the order of its parents, then names: path tables and their numbers
    /// (ECMA-119 §9.4, from 1) follow it.
    pub(super) fn by_level(&self, view: View) -> Vec<usize> {
        let mut order = vec![0];
        let mut next = 0;
        while let Some(dir) = order.get(next).copied() {
            let children = self.children(view, dir);
            order.extend(children.into_iter().filter_map(|child| match child {
                Child::Dir(index) => Some(index),
                Child::File(_) => None,
            }));
            next += 1;
        }
        order
    }
}

pub(super) fn flatten<'a>(root: &Dir<'a>) -> Result<Tree<'a>, IsoError> {
    let mut tree = Tree {
        dirs: Vec::new(),
        files: Vec::new(),
    };
    add(&mut tree, root, 0, Names::default(), "")?;
    if tree.dirs.len() > usize::from(u16::MAX) {
        return Err(IsoError::TooLarge);
    }
    Ok(tree)
}

fn add<'a>(tree: &mut Tree<'a>, dir: &Dir<'a>, parent: usize, own: Names, path: &str) -> Result<usize, IsoError> {
    let index = tree.dirs.len();
    tree.dirs.push(Directory {
        parent,
        names: own,
        children: Vec::new(),
        subdirectories: 0,
    });
    let mut iso = Taken::default();
    let mut joliet = Taken::default();
    for (name, node) in &dir.0 {
        let path = format!("{path}/{name}");
        let names = Names {
            real: name.clone(),
            iso: names::iso(name, matches!(node, Node::Dir(_)), &mut iso),
            joliet: names::joliet(name, &mut joliet),
        };
        let child = match node {
            Node::Dir(dir) => {
                tree.dirs[index].subdirectories += 1;
                Child::Dir(add(tree, dir, index, names, &path)?)
            }
            Node::File(content) if content.len() > MAX_FILE => {
                return Err(IsoError::FileTooLarge {
                    path,
                    len: content.len(),
                });
            }
            Node::File(content) => {
                tree.files.push(File { path, names, content });
                Child::File(tree.files.len() - 1)
            }
        };
        tree.dirs[index].children.push(child);
    }
    Ok(index)
}
