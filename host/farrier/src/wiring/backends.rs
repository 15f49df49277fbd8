//! The site's backends, opened as its settings say.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use runtime::live::SiteBackend;
use settings::{Backend, BackendKind, Settings};
use sources::openstack::Limits;
use storage::s3::{AccessKey, S3Config, s3};
use storage::swift::{SwiftConfig, swift};
use storage::{Delivery, Embedded, ObjectBackend, Watched, WebRoot};

use super::openstack;

/// Service type of Swift in a catalogue.
const OBJECT_STORE: &str = "object-store";

/// Backends in the order of the site file.
pub(crate) struct Backends {
    /// All of them.
    pub(crate) all: Vec<SiteBackend>,
    /// Those whose artefacts may be read through this process, by their ids.
    pub(crate) stores: BTreeMap<String, ObjectBackend>,
}

impl Backends {
    /// Opens all of them; `embedded` is the one that this process serves, and serves what is relayed.
    pub(crate) fn open(settings: &Settings, embedded: &Embedded, images_url: &str) -> Result<Self> {
        let mut opened = Self {
            all: Vec::new(),
            stores: BTreeMap::new(),
        };
        for backend in &settings.backends {
            opened
                .add(backend, embedded, images_url)
                .with_context(|| format!("backend `{}`", backend.id))?;
        }
        Ok(opened)
    }

    fn add(&mut self, set: &Backend, embedded: &Embedded, images_url: &str) -> Result<()> {
        let (kind, backend, max_lifetime, traits): (_, Arc<dyn storage::Backend>, _, _) = match &set.kind {
            BackendKind::Embedded => {
                let traits = vec![scheme(images_url), fact("delivery", "direct"), fact("shared", "true")];
                ("embedded", Arc::new(embedded.clone()), None, traits)
            }
            BackendKind::WebRoot { root, url, mode } => {
                let opened = WebRoot::open(root, url.as_str(), *mode)?;
                let traits = vec![scheme(url.as_str()), fact("delivery", "direct")];
                ("web-root", Arc::new(opened), None, traits)
            }
            BackendKind::Swift(set_swift) => {
                let store = swift(swift_config(set_swift, embedded)?)?;
                let url = set_swift.access.endpoint.as_ref().unwrap_or(&set_swift.access.auth_url);
                self.stores.insert(set.id.clone(), store.clone());
                let traits = of_store(url.as_str(), set_swift.delivery, images_url);
                ("swift", Arc::new(store.clone()), store.longest(), traits)
            }
            BackendKind::S3(set_s3) => {
                let store = s3(s3_config(set_s3, embedded))?;
                self.stores.insert(set.id.clone(), store.clone());
                let traits = of_store(set_s3.endpoint.as_str(), set_s3.delivery, images_url);
                ("s3", Arc::new(store.clone()), store.longest(), traits)
            }
        };
        let takes = set.clone();
        self.all.push(SiteBackend {
            id: set.id.clone(),
            kind: kind.to_owned(),
            backend: Arc::new(Watched::new(backend)),
            max_lifetime,
            traits,
            takes: Arc::new(move |node| takes.is_for(node.driver.as_str())),
        });
        Ok(())
    }
}

fn fact(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

fn scheme(url: &str) -> (String, String) {
    fact("url-scheme", if url.starts_with("https:") { "https" } else { "http" })
}

/// What a plugin may want to know of an object store's URLs.
fn of_store(store_url: &str, delivery: settings::Delivery, images_url: &str) -> Vec<(String, String)> {
    let (word, url, query) = match delivery {
        settings::Delivery::Direct => ("direct", store_url, "true"),
        settings::Delivery::Relay => ("relay", images_url, "false"),
        // Which it is turns out with the artefact.
        settings::Delivery::Auto => ("auto", store_url, "false"),
    };
    vec![
        scheme(url),
        fact("delivery", word),
        fact("url-has-query", query),
        fact("shared", "true"),
    ]
}

fn delivery(set: settings::Delivery) -> Delivery {
    match set {
        settings::Delivery::Auto => Delivery::Auto,
        settings::Delivery::Direct => Delivery::Direct,
        settings::Delivery::Relay => Delivery::Relay,
    }
}

fn swift_config(set: &settings::Swift, embedded: &Embedded) -> Result<SwiftConfig> {
    let identity = openstack::config(&set.access, OBJECT_STORE, set.attempts)?;
    Ok(SwiftConfig {
        patience: identity.limits.answer,
        identity,
        container: set.container.clone(),
        temp_url_key: set.temp_url_key.clone(),
        segment_size: set.segment_size,
        delivery: delivery(set.delivery),
        relay: embedded.clone(),
        least: set.lifetime,
    })
}

fn s3_config(set: &settings::S3, embedded: &Embedded) -> S3Config {
    S3Config {
        endpoint: set.endpoint.as_str().to_owned(),
        bucket: set.bucket.clone(),
        region: set.region.clone(),
        key: set.access_key.as_ref().map(|key| AccessKey {
            id: key.id.clone(),
            secret: key.secret.clone(),
            session: key.session.clone(),
        }),
        path_style: set.path_style,
        part_size: set.part_size,
        ca: set.ca.clone(),
        limits: Limits {
            attempts: set.attempts,
            ..Limits::default()
        },
        delivery: delivery(set.delivery),
        relay: embedded.clone(),
    }
}
