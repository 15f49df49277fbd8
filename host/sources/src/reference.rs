//! What a source is named by: an absolute path, a `file:` URL, an `http(s):` URL.

use std::path::PathBuf;

use url::Url;

use crate::SourceError;

/// Longest reference.
const CAP: usize = 4096;

/// A reference, parsed once.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    /// As given. May hold credentials.
    pub(crate) raw: String,
    /// For errors and logs: without credentials and query.
    pub(crate) shown: String,
    pub(crate) place: Place,
}

#[derive(Clone, Debug)]
pub(crate) enum Place {
    File(PathBuf),
    Http(Url),
}

impl Reference {
    pub(crate) fn parse(raw: &str) -> Result<Self, SourceError> {
        let wrong = |reason| {
            // Of what cannot be parsed nobody knows where the secrets are: before an `@`, after a `?`.
            let shown = match raw.split_once("://") {
                Some((scheme, rest)) if rest.contains('@') => format!("{scheme}://***"),
                _ => raw.split(['@', '?']).next().unwrap_or_default().to_owned(),
            };
            let shown: String = shown.chars().take(80).collect();
            SourceError::Reference {
                reference: shown.escape_debug().to_string(),
                reason,
            }
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
        let url = Url::parse(raw).map_err(|_| wrong("it is neither an absolute path nor a URL"))?;
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

    fn new(raw: &str, shown: String, place: Place) -> Self {
        Self {
            raw: raw.to_owned(),
            shown,
            place,
        }
    }
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

    #[test]
    fn paths_and_urls_are_told_apart() {
        for (raw, path) in [
            ("/srv/a b", "/srv/a b"),
            ("file:///srv/a%20b", "/srv/a b"),
            ("file://localhost/srv/x", "/srv/x"),
        ] {
            let reference = Reference::parse(raw).unwrap();
            assert!(
                matches!(reference.place, Place::File(found) if found.as_os_str() == path),
                "{raw}"
            );
        }
        for raw in ["http://h/x", "https://u:p@h:8443/x?y=1"] {
            assert!(matches!(Reference::parse(raw).unwrap().place, Place::Http(_)), "{raw}");
        }
    }

    #[test]
    fn what_is_no_reference_is_refused_without_its_secrets() {
        let long = format!("/{}", "a".repeat(5000));
        for raw in [
            "",
            "relative/path",
            "glance://7f",
            "7f1a4b1e-0000-4000-8000-000000000000",
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
    }
}
