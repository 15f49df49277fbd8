//! All files that one server boots, as one image layout: an index, then the files one after the other.
//!
//! So a server's boot files are recorded, replayed, pinned, served by range and counted like any other artefact, and no
//! kernel or ramdisk is copied to be served.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use image::{Extent, Kind, Layout, LayoutError, SourceFile};
use model::{MacAddress, NodeId};
use serde::{Deserialize, Serialize};

use crate::line::KernelLine;
use crate::path::{NetbootPath, NodeFile};
use crate::script::{self, BaseUrlError};

/// The index's format.
const VERSION: u32 = 1;
/// Network cards of one server, at most.
const MAX_CARDS: usize = 256;
/// Longest index that is read back.
const MAX_INDEX: usize = 256 << 10;

/// Why there is nothing to boot, or a record that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// Scripts are found by MAC address.
    #[error(
        "the node has no port, and servers find their boot script by MAC address: add a port with the address of the card \
         that it boots from"
    )]
    NoCard,
    /// More than a server has.
    #[error("the node has {0} ports, and boot scripts are written for {MAX_CARDS} at most")]
    TooManyCards(usize),
    /// Nothing boots from an empty file.
    #[error("the {0} is empty")]
    Empty(&'static str),
    /// The site's URL.
    #[error(transparent)]
    BaseUrl(#[from] BaseUrlError),
    /// Too large to be an image.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Not written by this version, or damaged.
    #[error("this is no record of boot files: {0}")]
    Malformed(&'static str),
}

/// What a server is to boot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Boot {
    /// The deploy or clean ramdisk.
    Ramdisk(Pair),
    /// An instance from kernel and ramdisk.
    Instance(Pair),
    /// What is on its disk.
    Disk,
}

/// A kernel with its ramdisk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The kernel.
    pub kernel: SourceFile,
    /// The ramdisk.
    pub ramdisk: SourceFile,
    /// What the kernel is told.
    pub line: KernelLine,
    /// How long iPXE tries one of the two; `None` = as long as it thinks fit. Counted in milliseconds.
    pub timeout: Option<Duration>,
}

/// The files, and where each is in the layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pack {
    layout: Layout,
    files: Vec<PackedFile>,
}

/// One file of a [`Pack`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackedFile {
    /// Its name under the HTTP root.
    pub path: NetbootPath,
    /// Its bytes in the layout.
    pub range: Range<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    netboot: u32,
    files: Vec<Entry>,
}

/// `at` counts from the end of the index.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: String,
    at: u64,
    len: u64,
}

impl Pack {
    /// The boot files of a node, found by each of these cards. In the order in which they have to appear: no script before
    /// what it names, and the scripts that machines look for last.
    pub fn new(node: NodeId, cards: &[MacAddress], boot: &Boot) -> Result<Self, PackError> {
        let cards: BTreeSet<MacAddress> = cards.iter().copied().collect();
        if cards.is_empty() {
            return Err(PackError::NoCard);
        }
        if cards.len() > MAX_CARDS {
            return Err(PackError::TooManyCards(cards.len()));
        }
        let mut writer = Writer::default();
        let mut pair = |pair: &Pair, kernel: NodeFile, ramdisk: NodeFile| {
            for (file, source) in [(kernel, &pair.kernel), (ramdisk, &pair.ramdisk)] {
                if source.len == 0 {
                    return Err(PackError::Empty(if file == kernel { "kernel" } else { "ramdisk" }));
                }
                let bytes = Extent::Source {
                    sha256: source.sha256,
                    offset: 0,
                    len: source.len,
                };
                writer.put(&[NetbootPath::Node(node, file)], bytes);
            }
            Ok(script::kernel(&node, kernel, ramdisk, pair))
        };
        let script = match boot {
            Boot::Ramdisk(files) => pair(files, NodeFile::DeployKernel, NodeFile::DeployRamdisk)?,
            Boot::Instance(files) => pair(files, NodeFile::Kernel, NodeFile::Ramdisk)?,
            Boot::Disk => script::disk(&node),
        };
        let mut names = vec![NetbootPath::Node(node, NodeFile::Config)];
        names.extend(cards.into_iter().map(NetbootPath::Card));
        writer.put(&names, Extent::Literal(script.into()));
        writer.finish()
    }

    /// The site's entry script, the same for every server.
    pub fn entry(base_url: &str) -> Result<Self, PackError> {
        let mut writer = Writer::default();
        let script = script::entry(base_url)?;
        writer.put(&[NetbootPath::Entry], Extent::Literal(script.into()));
        writer.finish()
    }

    /// Reads a pack back from its recorded layout.
    pub fn read(layout: Layout) -> Result<Self, PackError> {
        let Some(Extent::Literal(index)) = layout.extents().first() else {
            return Err(PackError::Malformed("it has no index"));
        };
        if index.len() > MAX_INDEX {
            return Err(PackError::Malformed("its index is too long"));
        }
        let start = index.len() as u64;
        let index: Index = serde_json::from_slice(index).map_err(|_| PackError::Malformed("its index is damaged"))?;
        if index.netboot != VERSION {
            return Err(PackError::Malformed("another version of Farrier wrote it"));
        }
        let file = |entry: Entry| {
            let path = entry.path.parse().ok()?;
            let from = start.checked_add(entry.at)?;
            let to = from.checked_add(entry.len).filter(|to| *to <= layout.size())?;
            let range = from..to;
            Some(PackedFile { path, range })
        };
        let files: Option<Vec<_>> = index.files.into_iter().map(file).collect();
        let files = files.ok_or(PackError::Malformed("its index names what is not in it"))?;
        Ok(Self { layout, files })
    }

    /// The whole.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Every file, in the order in which they have to appear.
    pub fn files(&self) -> &[PackedFile] {
        &self.files
    }

    /// Where a file is in the layout.
    pub fn range(&self, path: &NetbootPath) -> Option<Range<u64>> {
        let found = self.files.iter().find(|file| file.path == *path);
        found.map(|file| file.range.clone())
    }

    /// One file as a layout of its own, for a place that keeps files.
    pub fn part(&self, range: Range<u64>) -> Result<Layout, PackError> {
        Ok(Layout::from_extents(Kind::Other, self.layout.pieces(range).collect())?)
    }
}

#[derive(Default)]
struct Writer {
    files: Vec<Entry>,
    extents: Vec<Extent>,
    len: u64,
}

impl Writer {
    fn put(&mut self, names: &[NetbootPath], bytes: Extent) {
        let len = bytes.len();
        self.files.extend(names.iter().map(|path| Entry {
            path: path.to_string(),
            at: self.len,
            len,
        }));
        self.extents.push(bytes);
        self.len = self.len.saturating_add(len);
    }

    fn finish(self) -> Result<Pack, PackError> {
        let index = Index {
            netboot: VERSION,
            files: self.files,
        };
        let index = serde_json::to_vec(&index).map_err(|_| PackError::Malformed("its index cannot be written"))?;
        let mut extents = vec![Extent::Literal(Bytes::from(index))];
        extents.extend(self.extents);
        Pack::read(Layout::from_extents(Kind::Other, extents)?)
    }
}

#[cfg(test)]
mod tests {
    use model::Sha256;
    use proptest::prelude::*;

    use super::*;

    fn node() -> NodeId {
        "1be26c0b-03f2-4d2e-ae87-c02d7f33c123".parse().unwrap()
    }

    fn source(byte: u8, len: u64) -> SourceFile {
        SourceFile {
            sha256: Sha256([byte; 32]),
            len,
        }
    }

    fn pair(arguments: &str) -> Pair {
        Pair {
            kernel: source(1, 1000),
            ramdisk: source(2, 5000),
            line: KernelLine::new(&[], arguments).unwrap(),
            timeout: None,
        }
    }

    fn mac(last: u8) -> MacAddress {
        MacAddress::from([0x52, 0x54, 0, 0, 0, last])
    }

    fn names(pack: &Pack) -> Vec<String> {
        pack.files().iter().map(|file| file.path.to_string()).collect()
    }

    #[test]
    fn files_come_before_the_scripts_that_name_them() {
        let pack = Pack::new(node(), &[mac(2), mac(1), mac(2)], &Boot::Ramdisk(pair("nofb"))).unwrap();
        let node = node();
        assert_eq!(
            names(&pack),
            [
                format!("{node}/deploy_kernel"),
                format!("{node}/deploy_ramdisk"),
                format!("{node}/config"),
                "pxelinux.cfg/52-54-00-00-00-01".to_owned(),
                "pxelinux.cfg/52-54-00-00-00-02".to_owned(),
            ]
        );
        let script = pack.range(&NetbootPath::Card(mac(1))).unwrap();
        assert_eq!(
            pack.range(&NetbootPath::Node(node, NodeFile::Config)),
            Some(script.clone())
        );
        assert_eq!(pack.range(&NetbootPath::Entry), None);
        let text = pack.part(script).unwrap();
        let [Extent::Literal(text)] = text.extents() else {
            panic!("{text:?}");
        };
        assert!(text.starts_with(b"#!ipxe\n"));
        let kernel = pack.range(&NetbootPath::Node(node, NodeFile::DeployKernel)).unwrap();
        let kernel = pack.part(kernel).unwrap();
        let whole = Extent::Source {
            sha256: Sha256([1; 32]),
            offset: 0,
            len: 1000,
        };
        assert_eq!(kernel.extents(), [whole]);
    }

    #[test]
    fn each_boot_has_its_own_files() {
        let instance = Pack::new(node(), &[mac(1)], &Boot::Instance(pair("root=UUID=ab"))).unwrap();
        let node = node();
        let wanted = ["kernel", "ramdisk", "config"].map(|name| format!("{node}/{name}"));
        assert_eq!(names(&instance)[..3], wanted);
        let disk = Pack::new(node, &[mac(1)], &Boot::Disk).unwrap();
        assert_eq!(names(&disk).len(), 2);
        assert!(disk.layout().sources().is_empty());
        let entry = Pack::entry("http://10.1.10.30/httpboot").unwrap();
        assert_eq!(names(&entry), ["boot.ipxe"]);
    }

    #[test]
    fn what_nobody_could_boot_is_refused() {
        let refused = |macs: &[MacAddress], boot: &Boot| Pack::new(node(), macs, boot).unwrap_err().to_string();
        assert!(refused(&[], &Boot::Disk).contains("add a port"));
        let many: Vec<_> = (0..=255).map(mac).collect();
        assert!(Pack::new(node(), &many, &Boot::Disk).is_ok());
        let mut pair = pair("");
        pair.ramdisk.len = 0;
        assert_eq!(refused(&[mac(1)], &Boot::Instance(pair)), "the ramdisk is empty");
    }

    #[test]
    fn a_record_of_something_else_is_no_pack() {
        let literal = |text: &str| Extent::Literal(Bytes::copy_from_slice(text.as_bytes()));
        for extents in [
            vec![],
            vec![Extent::Zero(5)],
            vec![literal("{}")],
            vec![literal(r#"{"netboot":2,"files":[]}"#)],
            vec![literal(
                r#"{"netboot":1,"files":[{"path":"boot.ipxe","at":0,"len":1}]}"#,
            )],
            vec![literal(
                r#"{"netboot":1,"files":[{"path":"boot.ipxe","at":18446744073709551615,"len":1}]}"#,
            )],
            vec![literal(r#"{"netboot":1,"files":[{"path":"../x","at":0,"len":0}]}"#)],
        ] {
            let layout = Layout::from_extents(Kind::Other, extents).unwrap();
            assert!(matches!(Pack::read(layout), Err(PackError::Malformed(_))));
        }
    }

    proptest! {
        #[test]
        fn the_same_inputs_give_the_same_bytes_and_a_record_gives_the_same_pack(
            arguments in prop_oneof![
                "[a-z=,./ ]{0,40}",
                prop::collection::vec(
                    prop::sample::select(vec!["||", "&&", ";", "#x", "a=b", "\"a", "b\"", "${x}", "--", "x\\", "|", ":a"]),
                    0..6,
                )
                .prop_map(|words| words.join(" ")),
            ],
            seconds in prop::option::of(1..100u64),
            macs in prop::collection::vec(any::<[u8; 6]>(), 1..9),
            lens in (1..1u64 << 40, 1..1u64 << 40),
        ) {
            let Ok(line) = KernelLine::new(&[], &arguments) else { return Ok(()) };
            let pair = Pair { kernel: source(1, lens.0), ramdisk: source(2, lens.1), line, timeout: seconds.map(Duration::from_secs) };
            let boot = Boot::Ramdisk(pair);
            let macs: Vec<_> = macs.into_iter().map(MacAddress::from).collect();
            let pack = Pack::new(node(), &macs, &boot).unwrap();
            let backwards: Vec<_> = macs.iter().rev().copied().collect();
            prop_assert_eq!(&Pack::new(node(), &backwards, &boot).unwrap(), &pack);
            prop_assert_eq!(&Pack::read(pack.layout().clone()).unwrap(), &pack);
            let covered: u64 = pack.files().iter().map(|file| file.range.end - file.range.start).take(3).sum();
            let Some(Extent::Literal(index)) = pack.layout().extents().first() else { unreachable!() };
            prop_assert_eq!(index.len() as u64 + covered, pack.layout().size());
            for mac in macs {
                prop_assert!(pack.range(&NetbootPath::Card(mac)).is_some());
            }
            let script = pack.part(pack.range(&NetbootPath::Node(node(), NodeFile::Config)).unwrap()).unwrap();
            let [Extent::Literal(script)] = script.extents() else { unreachable!() };
            crate::script::grammar::assert_legal(std::str::from_utf8(script).unwrap());
        }
    }
}
