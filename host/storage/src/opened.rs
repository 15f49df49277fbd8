//! Sources kept open between reads, so that a range costs no `open`.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use image::{Source, SourceSet};
use model::Sha256;

/// Sources open at once; few, since nodes share kernels, ramdisks and boot loaders.
const MAX_OPEN: usize = 128;

/// Open sources by content, shared by every artefact of a backend.
#[derive(Default)]
pub(crate) struct Opened(Mutex<HashMap<Sha256, Arc<dyn Source>>>);

impl Opened {
    fn source(&self, set: &dyn SourceSet, sha256: &Sha256) -> io::Result<Arc<dyn Source>> {
        if let Some(source) = self.lock().get(sha256) {
            return Ok(Arc::clone(source));
        }
        // Opening may block, so not under the lock; two that open the same content both get the same bytes.
        let source = set.open(sha256)?;
        let mut open = self.lock();
        if open.len() >= MAX_OPEN {
            // Files that a connection reads stay open through its own handle; the rest is opened again when asked for.
            open.clear();
        }
        open.insert(*sha256, Arc::clone(&source));
        Ok(source)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Sha256, Arc<dyn Source>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One artefact's sources, opened through the shared table.
pub(crate) struct Remembering {
    pub(crate) opened: Arc<Opened>,
    pub(crate) set: Arc<dyn SourceSet>,
}

impl SourceSet for Remembering {
    fn open(&self, sha256: &Sha256) -> io::Result<Arc<dyn Source>> {
        self.opened.source(&*self.set, sha256)
    }
}
