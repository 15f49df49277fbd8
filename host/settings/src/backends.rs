//! `[[backend]]`: the named places that artefacts are published to.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::section::Section;
use crate::values::HttpUrl;

/// One backend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backend {
    /// Its name in grants, records and plugins.
    pub id: String,
    /// What it is.
    pub kind: BackendKind,
    /// Which one it is in the file, from 1.
    pub(crate) place: usize,
}

/// What a backend is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BackendKind {
    /// Served by the conductors themselves, at `[images] external-url`.
    Embedded,
    /// Files for a web server.
    WebRoot {
        /// The folder that it serves.
        root: PathBuf,
        /// The folder's URL.
        url: HttpUrl,
    },
    /// OpenStack Swift.
    Swift(Swift),
    /// S3.
    S3(S3),
}

/// An OpenStack Swift backend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Swift {
    /// Keystone v3, or a tempauth URL.
    pub auth_url: HttpUrl,
    /// Who.
    pub username: String,
    /// Holds the password, and nothing else.
    pub password_file: PathBuf,
    /// In which project.
    pub project: String,
    /// Domain of the user.
    pub user_domain: String,
    /// Domain of the project.
    pub project_domain: String,
    /// Region of the catalogue; `None` = the first.
    pub region: Option<String>,
    /// What signed the servers' certificates; `None` = the system's authorities.
    pub ca: Option<PathBuf>,
    /// Made if it is not there.
    pub container: String,
    /// How BMCs get at it.
    pub delivery: Delivery,
}

/// An S3 backend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct S3 {
    /// Of the service.
    pub endpoint: HttpUrl,
    /// Must exist.
    pub bucket: String,
    /// Signed into URLs.
    pub region: String,
    /// Holds `ID:SECRET`; `None` = no key (a bucket that everybody may write, in a laboratory).
    pub access_key_file: Option<PathBuf>,
    /// How BMCs get at it.
    pub delivery: Delivery,
}

/// How a BMC gets what is in an object store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// By a signed URL of the store.
    Direct,
    /// Through a conductor, under a short URL that does not run out.
    Relay,
}

const DELIVERY: &[(&str, Delivery)] = &[("direct", Delivery::Direct), ("relay", Delivery::Relay)];

#[derive(Clone, Copy)]
enum Kind {
    Embedded,
    WebRoot,
    Swift,
    S3,
}

const KINDS: &[(&str, Kind)] = &[
    ("embedded", Kind::Embedded),
    ("web-root", Kind::WebRoot),
    ("swift", Kind::Swift),
    ("s3", Kind::S3),
];

/// All backends; `embedded` if none is listed.
pub(crate) fn take(sections: Vec<Section<'_>>) -> Vec<Backend> {
    if sections.is_empty() {
        return vec![Backend {
            id: "embedded".into(),
            kind: BackendKind::Embedded,
            place: 0,
        }];
    }
    let mut ids = BTreeSet::new();
    let mut has_embedded = false;
    let mut backends = Vec::new();
    for (place, mut section) in (1..).zip(sections) {
        let id: Option<String> = section.required("id", "give it a name, which grants and plugins use");
        if let Some(id) = &id {
            if !is_id(id) {
                let rule = format!("= {id:?} must be 1 to 64 of a-z 0-9 - _");
                section.problem("id", &rule);
            } else if !ids.insert(id.clone()) {
                let reason = format!("= {id:?} is taken by a backend before; ids must differ");
                section.problem("id", &reason);
            }
        }
        let kind = kind(&mut section);
        if matches!(kind, Some(BackendKind::Embedded)) {
            if has_embedded {
                let reason = "= \"embedded\" is listed twice; one serves every artefact";
                section.problem("kind", reason);
            }
            has_embedded = true;
        }
        section.end();
        if let (Some(id), Some(kind)) = (id, kind) {
            backends.push(Backend { id, kind, place });
        }
    }
    backends
}

fn is_id(text: &str) -> bool {
    let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(legal)
}

fn kind(section: &mut Section<'_>) -> Option<BackendKind> {
    if section.is_absent("kind") {
        let words: Vec<_> = KINDS.iter().map(|(word, _)| *word).collect();
        let remedy = format!("set it to one of: {}", words.join(", "));
        section.required::<String>("kind", &remedy)?;
    }
    let Some(kind) = section.choice("kind", KINDS) else {
        // What belongs in it cannot be told.
        section.rest();
        return None;
    };
    match kind {
        Kind::Embedded => Some(BackendKind::Embedded),
        Kind::WebRoot => {
            let root = section.required("root", "name the folder that the web server serves");
            let url = section.required("url", "give the URL of that folder, as BMCs see it");
            Some(BackendKind::WebRoot { root: root?, url: url? })
        }
        Kind::Swift => {
            let auth_url = section.required("auth-url", "give the URL of Keystone (…/v3)");
            let username = section.required("username", "name the user that owns the container");
            let password_file = section.required("password-file", "name a file that holds the password");
            let project = section.required("project", "name the user's project");
            let domain = |given: Option<String>| given.unwrap_or("Default".into());
            let user_domain = domain(section.value("user-domain"));
            let project_domain = domain(section.value("project-domain"));
            let region = section.value("region");
            let ca = section.value("ca");
            let container = section.value::<String>("container");
            let delivery = section.choice("delivery", DELIVERY);
            Some(BackendKind::Swift(Swift {
                auth_url: auth_url?,
                username: username?,
                password_file: password_file?,
                project: project?,
                user_domain,
                project_domain,
                region,
                ca,
                container: container.unwrap_or("ironic_ilo_container".into()),
                delivery: delivery.unwrap_or(Delivery::Relay),
            }))
        }
        Kind::S3 => {
            let endpoint = section.required("endpoint", "give the URL of the service");
            let bucket = section.required("bucket", "name a bucket that exists");
            let region = section.value::<String>("region");
            let access_key_file = section.value("access-key-file");
            let delivery = section.choice("delivery", DELIVERY);
            Some(BackendKind::S3(S3 {
                endpoint: endpoint?,
                bucket: bucket?,
                region: region.unwrap_or("us-east-1".into()),
                access_key_file,
                delivery: delivery.unwrap_or(Delivery::Relay),
            }))
        }
    }
}
