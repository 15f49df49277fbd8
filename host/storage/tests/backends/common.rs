//! A small image with all kinds of extents, and its bytes.

use std::sync::Arc;

use bytes::Bytes;
use image::{Extent, FileSource, Kind, Layout, MemorySource, SourceMap};
use model::{ArtefactName, Sha256};
use storage::{Publication, Reader};

/// A name that nothing else in a test has.
pub(crate) fn name(seed: u8, ending: &str) -> ArtefactName {
    ArtefactName::parse(&format!("{seed:032}.{ending}")).expect("a legal name")
}

/// Some bytes that do not repeat soon.
pub(crate) fn pattern(seed: u8, len: usize) -> Vec<u8> {
    let byte = |i: usize| seed.wrapping_add(u8::try_from(i % 251).unwrap_or(0));
    (0..len).map(byte).collect()
}

/// Literal, hole, a source in memory and a source in a file; and the same as plain bytes.
pub(crate) fn publication(name: ArtefactName, seed: u8) -> (Publication, Vec<u8>) {
    let (memory, file) = (Sha256([seed; 32]), Sha256([seed ^ 0xff; 32]));
    let (in_memory, in_file) = (pattern(seed, 5000), pattern(seed ^ 0x55, 300_000));
    let mut on_disk = tempfile::tempfile().expect("a temporary file");
    std::io::Write::write_all(&mut on_disk, &in_file).expect("writing it");
    let mut sources = SourceMap::default();
    sources.insert(memory, Arc::new(MemorySource(in_memory.clone().into())));
    sources.insert(file, Arc::new(FileSource::new(on_disk).expect("its length")));
    let extents = vec![
        Extent::Literal(Bytes::from(pattern(seed, 700))),
        Extent::Zero(5000),
        Extent::Source {
            sha256: memory,
            offset: 100,
            len: 4000,
        },
        Extent::Source {
            sha256: file,
            offset: 1,
            len: 250_000,
        },
        Extent::Zero(3),
    ];
    let mut bytes = pattern(seed, 700);
    bytes.resize(5700, 0);
    bytes.extend_from_slice(&in_memory[100..4100]);
    bytes.extend_from_slice(&in_file[1..250_001]);
    bytes.extend_from_slice(&[0; 3]);
    let layout = Layout::from_extents(Kind::BootIso, extents).expect("a small layout");
    let publication = Publication {
        name,
        layout: Arc::new(layout),
        sources: Arc::new(sources),
        reader: Reader::default(),
    };
    (publication, bytes)
}

/// The same name with a source that is nowhere.
pub(crate) fn without_sources(publication: &Publication) -> Publication {
    Publication {
        sources: Arc::new(image::NoSources),
        ..publication.clone()
    }
}
