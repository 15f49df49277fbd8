//! The URL that artefacts' names are appended to.

use model::{ArtefactName, Secret};
use url::Url;

use crate::StorageError;

/// Longest URL that is handed to a BMC; some refuse anything longer.
pub(crate) const MAX_URL: usize = 255;
/// Longest artefact name: 64 characters, a dot, three more.
const MAX_NAME: usize = 68;

/// `http(s)://host[:port][/path]` as BMCs see it. Its path is kept: names are appended to it, never resolved against it.
#[derive(Clone, Debug)]
pub(crate) struct BaseUrl {
    text: String,
    path: String,
}

impl BaseUrl {
    /// Takes a base URL; the error names the backend's `place` and what is wrong with it.
    pub(crate) fn parse(text: &str, place: &str) -> Result<Self, StorageError> {
        let unusable = |reason: &str| StorageError::Unusable {
            place: place.to_owned(),
            reason: reason.to_owned(),
        };
        let url = Url::parse(text).map_err(|error| {
            unusable(&format!(
                "its URL does not parse ({error}); write http://ADDRESS[:PORT][/PATH]"
            ))
        })?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(unusable(
                "its URL must be http:// or https:// with a host, since BMCs fetch from it",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(unusable(
                "its URL must have no `?` and no `#`, since many BMCs refuse them",
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(unusable("its URL must carry no user name and no password"));
        }
        // iLO's RIBCL takes `URL,helper`: what follows a comma is taken for a helper script.
        if url.path().contains(',') {
            return Err(unusable(
                "its URL must have no comma in its path, since an iLO cuts it there",
            ));
        }
        let text = url.as_str().trim_end_matches('/').to_owned();
        if text.len() + 1 + MAX_NAME > MAX_URL {
            return Err(unusable(
                "its URL is too long: with an artefact's name it would exceed 255 characters, which some BMCs refuse",
            ));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        Ok(Self { text, path })
    }

    /// The whole URL of one artefact.
    pub(crate) fn join(&self, name: &ArtefactName) -> Secret {
        Secret::new(format!("{}/{}", self.text, name.expose()))
    }

    /// What of a request path lies below the base path (or below nothing, behind a proxy that strips it).
    pub(crate) fn below<'a>(&self, path: &'a str) -> Option<&'a str> {
        let stripped = path.strip_prefix(&self.path).filter(|_| !self.path.is_empty());
        let below = stripped.unwrap_or(path).strip_prefix('/');
        below.filter(|below| !below.is_empty())
    }

    /// The artefact that a request path names: the base path (or nothing, behind a proxy that strips it), a slash, a name.
    pub(crate) fn name_in(&self, path: &str) -> Option<ArtefactName> {
        let (before, name) = path.rsplit_once('/')?;
        if !before.is_empty() && before != self.path {
            return None;
        }
        ArtefactName::parse(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> ArtefactName {
        ArtefactName::parse(&format!("{}.iso", "a1".repeat(13))).unwrap()
    }

    #[test]
    fn the_path_of_a_base_url_is_kept_with_and_without_a_slash() {
        for base in ["http://10.1.10.30/httpboot", "http://10.1.10.30/httpboot/"] {
            let base = BaseUrl::parse(base, "web root").unwrap();
            let url = base.join(&name());
            let wanted = format!("http://10.1.10.30/httpboot/{}", name().expose());
            assert_eq!(url.expose(), wanted);
        }
        let bare = BaseUrl::parse("http://[fd00::1]:6386", "embedded").unwrap();
        assert!(bare.join(&name()).expose().starts_with("http://[fd00::1]:6386/a1"));
    }

    #[test]
    fn a_base_url_that_a_bmc_would_choke_on_is_refused_with_a_reason() {
        let long = format!("http://h/{}", "x".repeat(200));
        for (bad, word) in [
            ("ftp://h/x", "http://"),
            ("h/httpboot", "http://ADDRESS"),
            ("http://h/x?y=1", "`?`"),
            ("http://u:p@h/x", "password"),
            ("http://h/a,b", "comma"),
            (&long, "255"),
        ] {
            let error = BaseUrl::parse(bad, "web root").unwrap_err().to_string();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }

    #[test]
    fn only_the_base_path_and_a_bare_slash_lead_to_a_name() {
        let base = BaseUrl::parse("http://h/images", "embedded").unwrap();
        let name = name();
        let text = name.expose();
        for (path, found) in [
            (format!("/{text}"), true),
            (format!("/images/{text}"), true),
            (format!("/other/{text}"), false),
            (format!("/images/../{text}"), false),
            (text.to_owned(), false),
            ("/images/".to_owned(), false),
        ] {
            assert_eq!(base.name_in(&path).is_some(), found, "{path}");
        }
    }
}
