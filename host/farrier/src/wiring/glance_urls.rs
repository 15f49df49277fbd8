//! Where ramdisks fetch images of Glance from the Swift behind it, if the site says so: temporary URLs, as Ironic signs them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result};
use model::Secret;
use settings::{GlanceSwift, Settings};
use storage::StorageError;
use storage::swift::{Foreign, ForeignConfig};
use uuid::Uuid;

use super::openstack;

/// See the module.
pub(super) struct GlanceUrls {
    swift: Foreign,
    settings: GlanceSwift,
    /// What was told, for as long as it works.
    told: Mutex<HashMap<Uuid, (Secret, SystemTime)>>,
}

impl GlanceUrls {
    /// `None`: the site has no Glance. Asks nobody yet.
    pub(super) fn new(settings: &Settings) -> Result<Option<Self>> {
        let Some(glance) = &settings.glance else {
            return Ok(None);
        };
        let swift = glance.swift.clone();
        let mut identity = openstack::config(&glance.access, "image", glance.attempts).context("[glance]")?;
        let endpoint = match &swift.endpoint {
            Some(url) => Some(with_version(url.as_str(), &swift.api_version).context("[glance] swift.endpoint")?),
            None => None,
        };
        // Where nobody authenticates this is the whole catalogue.
        if let Some(url) = &endpoint {
            identity.endpoints.insert("object-store".to_owned(), url.clone());
        }
        Ok(Some(Self {
            swift: Foreign::new(ForeignConfig {
                identity,
                endpoint,
                account: swift.account.clone(),
                account_prefix: swift.account_prefix.clone(),
                key: swift.temp_url_key.clone(),
            }),
            settings: swift,
            told: Mutex::default(),
        }))
    }

    /// The URL of an image's bytes.
    pub(super) async fn url(&self, image: Uuid) -> Result<Secret, StorageError> {
        let now = SystemTime::now();
        if let Some(url) = self.told(image, now) {
            return Ok(url);
        }
        let until = now + self.settings.temp_url_duration;
        let container = container(&self.settings, image);
        let url = self.swift.sign(&container, &image.to_string(), until).await?;
        if self.settings.temp_url_cache {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.retain(|_, (_, until)| *until > now);
            told.insert(image, (url.clone(), until));
        }
        Ok(url)
    }

    /// The one that was told before, if a download may still begin with it.
    fn told(&self, image: Uuid, now: SystemTime) -> Option<Secret> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let (url, until) = told.get(&image)?;
        (*until > now + self.settings.download_start_delay).then(|| url.clone())
    }
}

fn with_version(url: &str, version: &str) -> Result<url::Url> {
    let mut url: url::Url = url.parse()?;
    let parts = url.path_segments_mut();
    parts
        .map_err(|()| anyhow::anyhow!("it has no path"))?
        .pop_if_empty()
        .push(version);
    Ok(url)
}

/// Glance spreads its images over containers by the first characters of their identifiers, if it is told to; dashes are not
/// counted.
fn container(settings: &GlanceSwift, image: Uuid) -> String {
    let seed = usize::try_from(settings.containers_seed).unwrap_or(usize::MAX);
    if seed == 0 {
        return settings.container.clone();
    }
    let image = image.to_string();
    let dashes = image.chars().take(seed).filter(|c| *c == '-').count();
    let ending: String = image.chars().take(seed + dashes).collect();
    format!("{}_{ending}", settings.container)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn settings(more: &str) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("farrier.toml");
        let text = format!(
            "data-dir = {:?}\n[glance]\nauth-type = \"none\"\nendpoint = \"http://192.0.2.1:9\"\n[glance.swift]\n{more}",
            folder.path()
        );
        std::fs::write(&file, text).unwrap();
        let files = settings::Files {
            site: Some(file),
            ironic: Vec::new(),
        };
        Settings::load(&files, &settings::Overrides::default())
            .unwrap()
            .settings
    }

    #[test]
    fn containers_are_named_as_glance_names_them() {
        let image: Uuid = "01234567-89ab-cdef-4000-800000000001".parse().unwrap();
        for (seed, name) in [
            (0, "g"),
            (1, "g_0"),
            (8, "g_01234567"),
            (9, "g_01234567-8"),
            (12, "g_01234567-89ab"),
            (32, "g_01234567-89ab-cdef-4000-800000000001"),
        ] {
            let swift = settings(&format!("container = \"g\"\ncontainers-seed = {seed}"))
                .glance
                .unwrap()
                .swift;
            assert_eq!(container(&swift, image), name, "{seed}");
        }
    }

    #[test]
    fn a_url_is_told_again_only_while_a_download_may_begin_with_it() {
        let swift = "temp-url-duration-s = 100\ntemp-url-cache = true\ndownload-start-delay-s = 30";
        let urls = GlanceUrls::new(&settings(swift)).unwrap().unwrap();
        let (image, now) = (Uuid::new_v4(), SystemTime::now());
        let url = Secret::new("http://192.0.2.1/v1/AUTH_a/glance/x?temp_url_sig=1");
        let until = now + Duration::from_secs(100);
        urls.told.lock().unwrap().insert(image, (url.clone(), until));
        assert_eq!(urls.told(image, now), Some(url));
        assert_eq!(urls.told(image, now + Duration::from_secs(71)), None);
        assert_eq!(urls.told(Uuid::new_v4(), now), None);
    }

    #[tokio::test]
    async fn who_names_no_account_is_told_to() {
        let swift = "endpoint = \"http://192.0.2.1:8080\"\ntemp-url-key = \"k\"";
        let urls = GlanceUrls::new(&settings(swift)).unwrap().unwrap();
        let error = urls.url(Uuid::new_v4()).await.unwrap_err().to_string();
        assert!(error.contains("swift_account"), "{error}");
    }
}
