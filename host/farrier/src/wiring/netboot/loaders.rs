//! Boot loaders that firmware fetches by name, beside the entry script: iPXE for machines whose ROM is another.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use image::{Extent, Kind, Layout, LayoutError};
use settings::Netboot;

/// Largest loader: its bytes are held in memory.
const CAP: u64 = 16 << 20;

/// See the module. Read once, at the start.
#[derive(Clone, Debug, Default)]
pub(in crate::wiring) struct Loaders(Vec<Loader>);

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Loader {
    /// What firmware asks for.
    pub(super) name: String,
    pub(super) layout: Layout,
    /// The site says which file it is; else it was looked for where distributions put it.
    pub(super) is_set: bool,
}

impl Loaders {
    /// Those whose files are there; a site whose servers all have iPXE in their ROM needs none. Blocks.
    pub(in crate::wiring) fn read(settings: &Netboot) -> Self {
        let mut loaders = Vec::new();
        for (name, places) in settings.loader_candidates() {
            let found = places.iter().find_map(|place| match read(place) {
                Ok(layout) => Some(layout),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => {
                    tracing::warn!(file = %place.display(), %error, "a boot loader cannot be served");
                    None
                }
            });
            match found {
                Some(layout) => loaders.push(Loader {
                    name: name.to_owned(),
                    layout,
                    is_set: settings.loaders.iter().any(|loader| loader.name == name),
                }),
                None => tracing::debug!(name, "this boot loader is not on this machine, so it is not served"),
            }
        }
        Self(loaders)
    }

    /// As if distributions had put them there.
    #[cfg(test)]
    pub(super) fn forget_settings(&mut self) {
        for loader in &mut self.0 {
            loader.is_set = false;
        }
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Loader> {
        self.0.iter()
    }
}

fn read(path: &Path) -> io::Result<Layout> {
    let mut bytes = Vec::new();
    File::open(path)?.take(CAP + 1).read_to_end(&mut bytes)?;
    if bytes.is_empty() || bytes.len() as u64 > CAP {
        return Err(io::Error::other(format!(
            "it has no byte, or more than {CAP}: that is no boot loader"
        )));
    }
    let whole: Result<Layout, LayoutError> =
        Layout::from_extents(Kind::Other, vec![Extent::Literal(Bytes::from(bytes))]);
    whole.map_err(io::Error::other)
}
