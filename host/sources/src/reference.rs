//! What a source is named by: an absolute path, a `file:` URL, an `http(s):` URL, an image of Glance, an object of Swift.

use std::fmt;
use std::path::PathBuf;

use model::Secret;
use url::Url;
use uuid::Uuid;

use crate::SourceError;

/// Longest reference.
const CAP: usize = 4096;

/// A reference, parsed once. `Debug` shows no credentials.
#[derive(Clone)]
pub(crate) struct Reference {
    /// As given. May hold credentials.
    pub(crate) raw: Secret,
    /// For errors and logs: without credentials and query.
    pub(crate) shown: String,
    pub(crate) place: Place,
}

#[derive(Clone)]
pub(crate) enum Place {
    File(PathBuf),
    Http(Url),
    /// An image's identifier.
    Glance(Uuid),
    Swift {
        /// `None`: the site's.
        container: Option<String>,
        object: String,
    },
}

impl Reference {
    pub(crate) fn parse(raw: &str) -> Result<Self, SourceError> {
        let wrong = |reason| SourceError::Reference {
            reference: cut(raw),
            reason,
        };
        if raw.len() > CAP {
            return Err(wrong("it is longer than 4096 bytes"));
        }
        if raw.chars().any(char::is_control) {
            return Err(wrong("it holds a control character"));
        }
        if raw.starts_with('/') {
            return Ok(Self::new(raw, raw.to_owned(), Place::File(PathBuf::from(raw))));
        }
        let glance = raw.strip_prefix("glance://");
        if let Ok(id) = Uuid::try_parse(glance.unwrap_or(raw)) {
            return Ok(Self::new(raw, format!("glance://{id}"), Place::Glance(id)));
        }
        if glance.is_some() {
            return Err(wrong("what follows glance:// is no image's UUID"));
        }
        if let Some(name) = raw.strip_prefix("swift:") {
            let place = swift(name).map_err(wrong)?;
            return Ok(Self::new(raw, raw.to_owned(), place));
        }
        let url = Url::parse(raw).map_err(|_| wrong("it is neither an absolute path, an image's UUID nor a URL"))?;
        match url.scheme() {
            "file" => {
                if url.query().is_some() || url.fragment().is_some() {
                    return Err(wrong("a file: URL has no query and no fragment"));
                }
                let path = url.to_file_path().map_err(|()| wrong("it names another host's file"))?;
                if path.as_os_str().as_encoded_bytes().contains(&0) {
                    return Err(wrong("it holds a zero byte"));
                }
                Ok(Self::new(raw, path.display().to_string(), Place::File(path)))
            }
            "http" | "https" => {
                if url.fragment().is_some() {
                    return Err(wrong("it holds a `#`, which is never sent to a server"));
                }
                Ok(Self::new(raw, shown(&url), Place::Http(url)))
            }
            _ => Err(wrong("its scheme is none that is fetched")),
        }
    }

    /// The last part of its name, as a checksum file lists it.
    pub(crate) fn file_name(&self) -> Option<String> {
        match &self.place {
            Place::File(path) => Some(path.file_name()?.to_str()?.to_owned()),
            Place::Http(url) => {
                let last = url.path_segments()?.next_back()?;
                let name: Vec<u8> = percent_decode(last);
                String::from_utf8(name).ok().filter(|name| !name.is_empty())
            }
            Place::Swift { object, .. } => object.rsplit('/').next().map(str::to_owned),
            Place::Glance(_) => None,
        }
    }

    fn new(raw: &str, shown: String, place: Place) -> Self {
        Self {
            raw: Secret::new(raw),
            shown,
            place,
        }
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reference({})", self.shown)
    }
}

/// `//CONTAINER/OBJECT`, or `OBJECT` in the site's own container.
fn swift(name: &str) -> Result<Place, &'static str> {
    let (container, object) = match name.strip_prefix("//") {
        Some(both) => {
            let (container, object) = both.split_once('/').ok_or("swift:// is followed by CONTAINER/OBJECT")?;
            (Some(container.to_owned()), object)
        }
        None => (None, name),
    };
    let dotted = |part: &str| matches!(part, "" | "." | "..");
    if container.as_deref().is_some_and(dotted) || object.split('/').any(dotted) {
        return Err("it names no object: swift://CONTAINER/OBJECT, or swift:OBJECT");
    }
    Ok(Place::Swift {
        container,
        object: object.to_owned(),
    })
}

/// Of what cannot be parsed nobody knows where the secrets are: before an `@`, after a `?`.
fn cut(raw: &str) -> String {
    let shown = match raw.split_once("://") {
        Some((scheme, rest)) if rest.contains('@') => format!("{scheme}://***"),
        _ => raw.split(['@', '?']).next().unwrap_or_default().to_owned(),
    };
    let shown: String = shown.chars().take(80).collect();
    shown.escape_debug().to_string()
}

fn percent_decode(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().iter();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(&byte) = bytes.next() {
        let pair = bytes.as_slice().get(..2).filter(|_| byte == b'%');
        let value = pair.and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        match value {
            Some(value) => {
                decoded.push(value);
                bytes.nth(1);
            }
            None => decoded.push(byte),
        }
    }
    decoded
}

/// A URL without credentials and query.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Fails for URLs without a host only, and then there is nothing to hide.
    let _hidden = (url.set_username(""), url.set_password(None));
    url.set_query(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "7f1a4b1e-0000-4000-8000-000000000000";

    #[test]
    fn paths_and_urls_are_told_apart() {
        for (raw, path) in [
            ("/srv/a b", "/srv/a b"),
            ("file:///srv/a%20b", "/srv/a b"),
            ("file://localhost/srv/x", "/srv/x"),
        ] {
            let reference = Reference::parse(raw).unwrap();
            assert!(
                matches!(&reference.place, Place::File(found) if found.as_os_str() == path),
                "{raw}"
            );
        }
        for raw in ["http://h/x", "https://u:p@h:8443/x?y=1"] {
            assert!(matches!(Reference::parse(raw).unwrap().place, Place::Http(_)), "{raw}");
        }
    }

    #[test]
    fn images_and_objects_of_openstack_are_references() {
        for raw in [ID.to_owned(), format!("glance://{ID}"), ID.to_uppercase()] {
            let reference = Reference::parse(&raw).unwrap();
            assert!(
                matches!(reference.place, Place::Glance(id) if id.to_string() == ID),
                "{raw}"
            );
            assert_eq!(reference.shown, format!("glance://{ID}"));
        }
        for (raw, in_container, named) in [
            ("swift:boot-7f1a", None, "boot-7f1a"),
            ("swift://images/a/b.iso", Some("images"), "a/b.iso"),
        ] {
            let place = Reference::parse(raw).unwrap().place;
            let Place::Swift { container, object } = place else {
                panic!("{raw} is an object");
            };
            assert_eq!((container.as_deref(), object.as_str()), (in_container, named));
        }
    }

    #[test]
    fn the_name_that_a_checksum_file_lists_is_the_last_part() {
        for (raw, name) in [
            ("/srv/a.raw", Some("a.raw")),
            ("https://h/d/a%20b.raw?sig=x", Some("a b.raw")),
            ("https://h/d/a%zz", Some("a%zz")),
            ("https://h/", None),
            ("swift://c/d/a.raw", Some("a.raw")),
            (ID, None),
        ] {
            assert_eq!(Reference::parse(raw).unwrap().file_name().as_deref(), name, "{raw}");
        }
    }

    #[test]
    fn what_is_no_reference_is_refused_without_its_secrets() {
        let long = format!("/{}", "a".repeat(5000));
        for raw in [
            "",
            "relative/path",
            "glance://7f",
            "glance://",
            "swift:",
            "swift://container",
            "swift://container/",
            "swift:///object",
            "swift:a/../b",
            "swift://../x",
            "file://otherhost/x",
            "file:///x?y=s3cret",
            "file:///x%00y",
            "http://",
            "http://u:s3cret@h/x#y",
            "nfs://u:s3cret@h/x",
            "/a\nb",
            long.as_str(),
        ] {
            let error = Reference::parse(raw).unwrap_err();
            assert!(matches!(error, SourceError::Reference { .. }), "{raw}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
            assert!(error.to_string().len() < 300, "{error}");
        }
        let reference = Reference::parse("https://u:s3cret@h/x?sig=s3cret").unwrap();
        assert_eq!(reference.shown, "https://h/x");
        assert!(!format!("{reference:?}").contains("s3cret"));
    }
}
