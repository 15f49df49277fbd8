//! How do I send big images elsewhere than small ones, and let each of my sites have its own places?
//!
//! An artefact of `large-from-mib` MiB or more goes to the backend that the setting `large` names, a smaller one to `small`. A
//! node whose capability `site` is, say, `berlin` goes by `sites.berlin` first, where that names one.

wit_bindgen::generate!({ path: "wit", world: "backend-selection-plugin" });

use exports::farrier::driver::backend_selection::{Candidate, Choice, Guest, Request};
use farrier::driver::config;
use farrier::driver::inventory::Node;
use farrier::driver::types::{Detail, Error};

/// What is large if no setting says so.
const LARGE_FROM_MIB: u64 = 64;

struct Plugin;

impl Guest for Plugin {
    fn select(node: &Node, request: Request, candidates: Vec<Candidate>) -> Result<Choice, Error> {
        let size = if request.size >= large_from()? {
            "large"
        } else {
            "small"
        };
        let site = node.fact("capability.site");
        let of_site = site
            .as_deref()
            .and_then(|site| setting(&format!("/sites/{}/{size}", escaped(site))));
        let Some(wanted) = of_site.or_else(|| setting(&format!("/{size}"))) else {
            return Err(Error::Invalid(format!("the setting `{size}` names no backend")));
        };
        let found = candidates.iter().find(|candidate| candidate.id == wanted);
        let obstacle = match found {
            None => "is not a backend that this plugin may use",
            Some(found) if !found.healthy => "is not usable now",
            Some(found) if found.free_bytes.is_some_and(|free| free < request.size) => "has no room",
            Some(_) => {
                let site = site.map_or_else(|| "no site".to_owned(), |site| format!("the site `{site}`"));
                return Ok(Choice {
                    backend: wanted,
                    reason: format!("for {size} artefacts of {site}"),
                });
            }
        };
        Err(Error::Other(Detail {
            code: "no-backend".to_owned(),
            message: format!("`{wanted}`, which is for {size} artefacts, {obstacle}"),
            retry_after_ms: Some(10_000),
        }))
    }
}

/// In bytes.
fn large_from() -> Result<u64, Error> {
    let mib = match config::get("/large-from-mib") {
        None => LARGE_FROM_MIB,
        Some(text) => {
            let wrong = |_| Error::Invalid("the setting `large-from-mib` is no whole number".to_owned());
            text.parse::<u64>().map_err(wrong)?
        }
    };
    Ok(mib.saturating_mul(1 << 20))
}

/// A setting that is a text. It comes as JSON: "local" has its quotation marks.
fn setting(pointer: &str) -> Option<String> {
    let json = config::get(pointer)?;
    json.strip_prefix('"')?.strip_suffix('"').map(str::to_owned)
}

/// A name as a JSON pointer has it (RFC 6901).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

export!(Plugin);
