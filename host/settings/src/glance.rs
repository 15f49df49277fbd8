//! `[glance]`: references to images of OpenStack's image service.

use std::time::Duration;

use model::Secret;

use crate::entries::Out;
use crate::openstack::OpenStack;
use crate::section::Section;
use crate::values::HttpUrl;

/// `[glance]`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Glance {
    /// How to come to it.
    pub access: OpenStack,
    /// Attempts of a request, the first one included.
    pub attempts: u32,
    /// Where Glance keeps its images, for agents that fetch them there.
    pub swift: GlanceSwift,
}

/// `[glance.swift]`: the Swift behind Glance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GlanceSwift {
    /// Signs temporary URLs; `None` = the account's own key.
    pub temp_url_key: Option<Secret>,
    /// How long a temporary URL works.
    pub temp_url_duration: Duration,
    /// The same URL is told again while it works, so that a cache between ramdisks and Swift is of use.
    pub temp_url_cache: bool,
    /// How long after a URL was told its download may begin: one that ends before that is not told again.
    pub download_start_delay: Duration,
    /// `None` = from the catalogue.
    pub endpoint: Option<HttpUrl>,
    /// `v1`.
    pub api_version: String,
    /// Glance's account; `None` = that of the user who asks.
    pub account: Option<String>,
    /// Before a project's identifier in an account's name.
    pub account_prefix: String,
    /// The container with the images.
    pub container: String,
    /// How many characters of an image's identifier its container's name ends in; 0 = one container.
    pub containers_seed: u32,
}

impl Glance {
    pub(crate) fn take(mut section: Section<'_>) -> Option<Self> {
        if section.is_empty() {
            return None;
        }
        let swift = GlanceSwift::take(section.section("swift"));
        let attempts = section.number("attempts", 1..=100);
        let access = OpenStack::take(&mut section);
        section.end();
        Some(Self {
            access: access?,
            attempts: attempts.and_then(|n| u32::try_from(n).ok()).unwrap_or(3),
            swift,
        })
    }
}

impl GlanceSwift {
    fn take(mut section: Section<'_>) -> Self {
        let text = |given: Option<String>, default: &str| given.unwrap_or_else(|| default.to_owned());
        let swift = Self {
            temp_url_key: section.secret_if_set("temp-url-key", "temp-url-key-file"),
            temp_url_duration: section.seconds("temp-url-duration-s", 1..=31_622_400, 1200),
            temp_url_cache: section.value("temp-url-cache").unwrap_or(false),
            download_start_delay: section.seconds("download-start-delay-s", 0..=31_622_400, 0),
            endpoint: section.value("endpoint"),
            api_version: text(section.value("api-version"), "v1"),
            account: section.value("account"),
            account_prefix: text(section.value("account-prefix"), "AUTH"),
            container: text(section.value("container"), "glance"),
            containers_seed: section
                .number("containers-seed", 0..=32)
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(0),
        };
        if swift.download_start_delay >= swift.temp_url_duration {
            section.problem(
                "download-start-delay-s",
                "must be less than temp-url-duration-s: no URL would live until its download begins",
            );
        }
        section.end();
        swift
    }
}

impl Glance {
    pub(crate) fn write(&self, out: &mut Out) {
        let Self {
            access,
            attempts,
            swift,
        } = self;
        access.write(out);
        out.put("attempts", *attempts);
        out.section("swift", |out| swift.write(out));
    }
}

impl GlanceSwift {
    fn write(&self, out: &mut Out) {
        let Self {
            temp_url_key,
            temp_url_duration,
            temp_url_cache,
            download_start_delay,
            endpoint,
            api_version,
            account,
            account_prefix,
            container,
            containers_seed,
        } = self;
        out.put("temp-url-key", temp_url_key.as_ref());
        out.put("temp-url-duration-s", *temp_url_duration);
        out.put("temp-url-cache", *temp_url_cache);
        out.put("download-start-delay-s", *download_start_delay);
        out.put("endpoint", endpoint.as_ref());
        out.put("api-version", api_version);
        out.put("account", account.as_ref());
        out.put("account-prefix", account_prefix);
        out.put("container", container);
        out.put("containers-seed", *containers_seed);
    }
}
