//! The source cache as the site sets it, and what its records pin in it.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use image::Recipe;
use model::Sha256;
use nodes::{Filter, Store};
use settings::{BackendKind, Reference, Settings};
use sources::openstack::Client;
use sources::{Login, Sources, SourcesConfig};
use url::{Host, Url};

use super::openstack;

/// Which artefacts need a source, in words.
pub(crate) type Pins = BTreeMap<Sha256, Vec<String>>;

/// Opens the cache. Without a store nothing is pinned.
pub(crate) fn open(settings: &Settings, store: Option<Arc<dyn Store>>) -> Result<Sources> {
    let images = &settings.images;
    let servers = &images.servers;
    let handle = tokio::runtime::Handle::current();
    let (glance, swift) = (glance(settings)?, swift(settings)?);
    let default = SourcesConfig::new(&images.cache.folder);
    let swift_container = swift
        .as_ref()
        .map_or_else(|| default.swift_container.clone(), |(_, container)| container.clone());
    Ok(Sources::new(SourcesConfig {
        max_bytes: images.cache.max_bytes,
        max_age: Some(images.cache.max_age),
        allowed_file_paths: allowed_paths(settings),
        allow_local_addresses: settings.security.allow_local_addresses,
        allowed_local: own_servers(settings),
        ca: servers.ca.clone(),
        logins: servers
            .account
            .iter()
            .map(|account| Login {
                origin: None,
                user: account.user.clone(),
                password: account.password.clone(),
            })
            .collect(),
        proxy: servers.proxy.clone(),
        stall: servers.timeout,
        glance,
        swift: swift.map(|(client, _)| client),
        swift_container,
        pins: Arc::new(move || match &store {
            Some(store) => handle
                .block_on(pins(&**store))
                .ok()
                .map(|pins| pins.into_keys().collect()),
            None => Some(HashSet::new()),
        }),
        ..default
    })?)
}

/// What recorded recipes name. Fails if it cannot be told now.
pub(crate) async fn pins(store: &dyn Store) -> Result<Pins> {
    const PAGE: u32 = 500;
    let mut pins = Pins::new();
    let mut filter = Filter {
        limit: Some(PAGE),
        ..Filter::default()
    };
    loop {
        let page = store.nodes(&filter).await?;
        let Some(last) = page.last() else {
            return Ok(pins);
        };
        filter.after = Some(last.node.id);
        for record in &page {
            let node = match &record.node.name {
                Some(name) => name.to_string(),
                None => record.node.id.to_string(),
            };
            for artefact in store.artefacts(&record.node.id).await? {
                let recipe = Recipe::from_json(artefact.recipe.expose().as_bytes())
                    .with_context(|| format!("the recipe of the {} of node {node}", artefact.kind))?;
                for (sha256, _) in recipe.sources() {
                    pins.entry(sha256)
                        .or_default()
                        .push(format!("{} of {node}", artefact.kind));
                }
            }
        }
    }
}

/// What the site file itself names may be read wherever it is. Folders that are allowed may be made later than this.
fn allowed_paths(settings: &Settings) -> Vec<PathBuf> {
    let images = &settings.images;
    let named = images.references().into_iter();
    let mut own: Vec<PathBuf> = named
        .filter_map(|(_, reference)| match reference {
            Reference::File(path) => Some(path.clone()),
            Reference::Url(_) | Reference::Glance(_) => None,
        })
        .collect();
    own.push(images.isolinux.clone());
    own.extend(images.ldlinux_candidates());
    own.retain(|path| path.exists());
    let mut allowed = settings.file_url_allowed_paths.clone();
    allowed.extend(own);
    allowed
}

/// The site's own web servers, which may well be on this machine.
fn own_servers(settings: &Settings) -> Vec<SocketAddr> {
    let mut urls: Vec<&str> = Vec::new();
    for backend in &settings.backends {
        if let BackendKind::WebRoot { url, .. } = &backend.kind {
            urls.push(url.as_str());
        }
    }
    for (_, reference) in settings.images.references() {
        if let Reference::Url(url) = reference {
            urls.push(url.as_str());
        }
    }
    urls.into_iter().filter_map(address_of).collect()
}

fn address_of(url: &str) -> Option<SocketAddr> {
    let url = Url::parse(url).ok()?;
    let port = url.port_or_known_default()?;
    match url.host()? {
        Host::Ipv4(v4) => Some((v4, port).into()),
        Host::Ipv6(v6) => Some((v6, port).into()),
        Host::Domain(_) => None,
    }
}

fn glance(settings: &Settings) -> Result<Option<Client>> {
    let Some(glance) = &settings.glance else {
        return Ok(None);
    };
    let client = openstack::client(&glance.access, "image", glance.attempts).context("[glance]")?;
    Ok(Some(client))
}

/// Objects are looked for where the first Swift backend keeps its own.
fn swift(settings: &Settings) -> Result<Option<(Client, String)>> {
    let mut backends = settings.backends.iter();
    let found = backends.find_map(|backend| match &backend.kind {
        BackendKind::Swift(swift) => Some((&backend.id, swift)),
        _ => None,
    });
    let Some((id, swift)) = found else {
        return Ok(None);
    };
    let client = openstack::client(&swift.access, "object-store", swift.attempts);
    let client = client.with_context(|| format!("backend `{id}`"))?;
    Ok(Some((client, swift.container.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_web_server_is_known_by_address_and_port() {
        for (url, address) in [
            ("http://10.1.10.30/httpboot", Some("10.1.10.30:80")),
            ("https://[fd00::1]:8443/", Some("[fd00::1]:8443")),
            ("http://images.example/", None),
            ("nonsense", None),
        ] {
            assert_eq!(address_of(url), address.map(|text| text.parse().unwrap()), "{url}");
        }
    }

    #[test]
    fn a_folder_that_is_allowed_may_be_made_after_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let overrides = settings::Overrides {
            data_dir: Some(folder.path().join("data")),
            ..settings::Overrides::default()
        };
        let loaded = Settings::load(&settings::Files::default(), &overrides).unwrap();
        let allowed = allowed_paths(&loaded.settings);
        assert_eq!(allowed.first(), Some(&folder.path().join("data/images")));
    }
}
