//! The default choice of a backend: the site's preference where it can take the artefact, else the first healthy one that can.
//!
//! Settings: `prefer` is a backend's id or a list of them; `prefer-for.<kind>` (`floppy`, `boot-iso`, `config-drive`) goes
//! before it. With `fall-back = false` no other than the first stands in for it. Nothing here has effects.
//!
//! The host asks again when publishing has failed, with that backend marked as unwell: so what is chosen here is what it
//! falls back to.

mod bindings;
mod choose;

use bindings::exports::farrier::driver::backend_selection::{Candidate, Choice, Guest, Request};
use bindings::farrier::driver::config;
use bindings::farrier::driver::inventory::Node;
use bindings::farrier::driver::types::{ArtefactKind, Error};

struct Plugin;

impl Guest for Plugin {
    fn select(_: &Node, request: Request, candidates: Vec<Candidate>) -> Result<Choice, Error> {
        let kind = match request.kind {
            ArtefactKind::Floppy => "floppy",
            ArtefactKind::BootIso => "boot-iso",
            ArtefactKind::ConfigDrive => "config-drive",
        };
        let mut preferred = Vec::new();
        for pointer in [format!("/prefer-for/{kind}"), "/prefer".to_owned()] {
            if let Some(setting) = config::get(&pointer) {
                preferred.extend(choose::preference(&pointer, &setting)?);
            }
        }
        let fall_back = choose::may_fall_back(config::get("/fall-back").as_deref())?;
        choose::choose(&request, &candidates, &preferred, fall_back)
    }
}

#[expect(unsafe_code, reason = "generated: exported functions cross the component boundary")]
mod exports {
    use crate::Plugin;
    crate::bindings::export!(Plugin with_types_in crate::bindings);
}
