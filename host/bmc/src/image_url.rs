//! The rules that an image URL must keep whatever the BMC would say to it, and what of it must not be repeated.

use url::Url;

use crate::InsertMedia;

/// Longest URL that every BMC takes.
const CAP: usize = 255;

/// Words of an image URL that must not appear in errors.
pub(crate) fn secrets(image: &InsertMedia) -> Vec<String> {
    words(image.url.expose())
}

/// The same for a bare URL.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = vec![text.to_owned()];
    if let Ok(url) = Url::parse(text) {
        let path = url.path().trim_matches('/');
        words.extend([url.as_str(), path, url.password().unwrap_or_default()].map(str::to_owned));
        words.extend(url.query().map(str::to_owned));
    }
    words.retain(|word| word.len() > 1);
    words
}

/// The error is the rule that is broken, without the URL.
pub(crate) fn check(text: &str) -> Result<(), String> {
    if text.len() > CAP {
        return Err(format!(
            "the image URL is {} characters long and BMCs take at most {CAP}: give the image server a shorter base URL",
            text.len()
        ));
    }
    if text
        .chars()
        .any(|c| c.is_whitespace() || c.is_control() || !c.is_ascii())
    {
        return Err("the image URL holds a space, a control or a non-ASCII character: percent-encode it".into());
    }
    let Ok(url) = Url::parse(text) else {
        return Err("the image URL is not a URL: give http://HOST/PATH or https://HOST/PATH".into());
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!(
            "the image URL starts with `{}:`: a BMC fetches http and https only",
            url.scheme()
        ));
    }
    if url.fragment().is_some() {
        return Err("the image URL holds a `#`, which is never sent to a server".into());
    }
    Ok(())
}

/// Whether a BMC that shows one URL holds the other. Credentials are not shown by every BMC, and some show the file's name alone.
pub(crate) fn is_same(shown: &str, wanted: &str) -> bool {
    let (Some(shown_url), wanted_url) = (bare(shown), bare(wanted)) else {
        let name = wanted.rsplit('/').next().unwrap_or_default();
        return shown == wanted || (!name.is_empty() && !shown.contains('/') && shown == name);
    };
    Some(shown_url) == wanted_url
}

fn bare(url: &str) -> Option<Url> {
    let mut url = Url::parse(url).ok()?;
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some(url)
}

#[cfg(test)]
mod tests {
    use model::Secret;

    use super::*;

    #[test]
    fn an_image_url_is_checked_before_the_bmc_sees_it() {
        assert_eq!(check("http://10.0.0.1:8080/v/abc/boot.iso"), Ok(()));
        assert_eq!(check("https://[fd00::1]/x.img?sig=1"), Ok(()));
        let long = format!("http://h/{}.iso", "a".repeat(250));
        for (url, rule) in [
            ("file:///srv/s3cret.iso", "http and https only"),
            ("nfs://h/s3cret", "http and https only"),
            ("/srv/s3cret.iso", "not a URL"),
            ("http://h/s3cret iso", "percent-encode"),
            ("http://h/s3cret\n", "percent-encode"),
            ("http://h/s3cret#x", "`#`"),
            ("http://", "not a URL"),
            (long.as_str(), "at most 255"),
        ] {
            let error = check(url).unwrap_err();
            assert!(error.contains(rule) && !error.contains("s3cret"), "{url}: {error}");
        }
    }

    #[test]
    fn a_shown_image_is_the_same_without_its_credentials_or_by_its_name() {
        let wanted = "http://u:p@h/v/a.iso";
        for (shown, same) in [
            (wanted, true),
            ("http://h/v/a.iso", true),
            ("http://h/v/b.iso", false),
            ("http://g/v/a.iso", false),
            ("a.iso", true),
            ("b.iso", false),
            ("v/a.iso", false),
            ("", false),
        ] {
            assert_eq!(is_same(shown, wanted), same, "{shown}");
        }
    }

    #[test]
    fn the_secret_words_of_an_image_cover_path_query_and_password() {
        let image = InsertMedia {
            url: Secret::new("http://u:pw@h/tok/a.iso?s=1"),
            boot_once: false,
            server_certificate: None,
        };
        let words = secrets(&image);
        for word in ["tok/a.iso", "s=1", "pw"] {
            assert!(words.iter().any(|hidden| hidden == word), "{word}");
        }
    }
}
