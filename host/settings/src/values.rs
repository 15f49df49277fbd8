//! Typed values: addresses, URLs, networks, sizes, paths, digests.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use model::{ConductorName, Digest, Network, Secret};
use url::Url;

use crate::tree::{Item, Origin, Raw};

/// Why a value is none of its type; `reason` goes on after the setting's name.
pub(crate) struct Wrong {
    pub(crate) reason: String,
    /// Where, if not where the setting is (an entry of a list).
    pub(crate) origin: Option<Origin>,
}

fn wrong(reason: String) -> Wrong {
    Wrong { reason, origin: None }
}

/// A value that can be taken from a file.
pub(crate) trait FromItem: Sized {
    fn from_item(item: &Item) -> Result<Self, Wrong>;
}

/// A value for a message; texts are cut, tables and lists only named.
pub(crate) fn shown(raw: &Raw) -> String {
    match raw {
        Raw::Text(text) => {
            let cut: String = text.chars().take(80).collect();
            format!("= {cut:?}")
        }
        Raw::Integer(number) => format!("= {number}"),
        Raw::Float(number) => format!("= {number}"),
        Raw::Boolean(truth) => format!("= {truth}"),
        Raw::Moment(text) => format!("= {text}"),
        Raw::Secret(_) | Raw::List(_) | Raw::Table(_) => format!("is {}, but", raw.kind()),
    }
}

fn text<'a>(item: &'a Item, like: &str) -> Result<&'a str, Wrong> {
    match &item.raw {
        Raw::Text(text) => Ok(text),
        other => Err(wrong(format!("{} must be a text like {like}", shown(other)))),
    }
}

impl FromItem for String {
    fn from_item(item: &Item) -> Result<Self, Wrong> {
        text(item, "\"abc\"").map(str::to_owned)
    }
}

/// Never shown, right or wrong.
impl FromItem for Secret {
    fn from_item(item: &Item) -> Result<Self, Wrong> {
        let given = match &item.raw {
            Raw::Text(text) => text.as_str(),
            Raw::Secret(secret) => secret.expose(),
            other => return Err(wrong(format!("is {}, but must be a text", other.kind()))),
        };
        if given.is_empty() {
            return Err(wrong("is empty".into()));
        }
        Ok(Self::new(given))
    }
}

impl FromItem for bool {
    fn from_item(item: &Item) -> Result<Self, Wrong> {
        match &item.raw {
            Raw::Boolean(truth) => Ok(*truth),
            other => Err(wrong(format!(
                "{} must be true or false (without quotes)",
                shown(other)
            ))),
        }
    }
}

impl<T: FromItem> FromItem for Vec<T> {
    fn from_item(item: &Item) -> Result<Self, Wrong> {
        let Raw::List(items) = &item.raw else {
            return Err(wrong(format!("{} must be a list: [\"…\", \"…\"]", shown(&item.raw))));
        };
        let entry = |(place, entry): (usize, &Item)| {
            T::from_item(entry).map_err(|wrong| Wrong {
                reason: format!("entry {} {}", place + 1, wrong.reason),
                origin: Some(wrong.origin.unwrap_or_else(|| entry.origin.clone())),
            })
        };
        items.iter().enumerate().map(entry).collect()
    }
}

impl FromItem for SocketAddr {
    fn from_item(item: &Item) -> Result<Self, Wrong> {
        let like = "\"127.0.0.1:6385\" or \"[::1]:6385\"";
        let given = text(item, like)?;
        given.parse().map_err(|_| {
            let remedy = format!("must be an IP address and a port like {like}");
            wrong(format!("{} {remedy}", shown(&item.raw)))
        })
    }
}

impl FromItem for ConductorName {
    fn from_item(item: &Item) -> Result<Self, Wrong> {
        let given = text(item, "\"rack-7\"")?;
        given.parse().map_err(|_| {
            let rule = "must be 1 to 255 of A-Z a-z 0-9 - . _";
            wrong(format!("{} {rule}", shown(&item.raw)))
        })
    }
}

impl FromItem for Digest {
    fn from_item(item: &Item) -> Result<Self, Wrong> {
        let given = text(item, "\"sha256:…\"")?;
        let digits = given.starts_with("sha256:").then(|| given.parse().ok());
        digits.flatten().ok_or_else(|| {
            let rule = "must be `sha256:` and 64 hexadecimal digits; `sha256sum FILE` prints them";
            wrong(format!("{} {rule}", shown(&item.raw)))
        })
    }
}

/// A path is taken from the folder of the file that names it; on the command line, from the working folder.
impl FromItem for PathBuf {
    fn from_item(item: &Item) -> Result<Self, Wrong> {
        let given = text(item, "\"/var/lib/farrier\"")?;
        if given.is_empty() || given.contains('\0') {
            return Err(wrong(format!("{} must be a path", shown(&item.raw))));
        }
        Ok(from_folder_of(&item.origin, given))
    }
}

fn from_folder_of(origin: &Origin, path: &str) -> PathBuf {
    let folder = match origin {
        Origin::File { file, .. } | Origin::Option { file, .. } => file.parent(),
        Origin::CommandLine(_) | Origin::Default => None,
    };
    folder.unwrap_or(Path::new("")).join(path)
}

/// An http or https URL without credentials, as it is written into parameters and compared between conductors: no `/` at
/// its end.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HttpUrl(String);

impl HttpUrl {
    /// The URL as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(given: &str) -> Result<Self, &'static str> {
        let url = Url::parse(given).map_err(|_| "is no URL; write it like \"http://10.0.0.1:6386\"")?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("must begin with http:// or https://");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "must not hold a user or password, which end up in logs; there are settings of their own for them",
            );
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("must not hold `?` or `#`");
        }
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromItem for HttpUrl {
    fn from_item(item: &Item) -> Result<Self, Wrong> {
        let given = text(item, "\"http://10.0.0.1:6386\"")?;
        // Not shown: it may hold a password.
        Self::parse(given).map_err(|reason| wrong(reason.to_owned()))
    }
}

/// A kernel, a ramdisk or another input, wherever it is. Prints as a URL (`https://…`, `file:///…`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reference {
    /// Fetched.
    Url(String),
    /// Read from this machine.
    File(PathBuf),
    /// An image of Glance, by its identifier.
    Glance(String),
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(url),
            Self::File(path) => match Url::from_file_path(path) {
                Ok(url) => f.write_str(url.as_str()),
                // A relative one, which only a relative --config gives.
                Err(()) => write!(f, "{}", path.display()),
            },
            Self::Glance(id) => write!(f, "glance://{id}"),
        }
    }
}

impl FromItem for Reference {
    fn from_item(item: &Item) -> Result<Self, Wrong> {
        let like = "\"https://images.example/ipa.kernel\", or a path";
        let given = text(item, like)?;
        match Url::parse(given) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => {
                if !url.username().is_empty() || url.password().is_some() {
                    let remedy = "must not hold a user or password, which end up in logs";
                    return Err(wrong(remedy.to_owned()));
                }
                Ok(Self::Url(url.into()))
            }
            Ok(url) if url.scheme() == "file" => match url.to_file_path() {
                Ok(path) => Ok(Self::File(path)),
                Err(()) => Err(wrong(format!(
                    "{} names no file of this machine; write file:///absolute/path",
                    shown(&item.raw)
                ))),
            },
            Ok(url) if url.scheme() == "glance" => match given.split_once("://") {
                Some((_, id)) if is_image_id(id) => Ok(Self::Glance(id.to_ascii_lowercase())),
                _ => Err(wrong(format!(
                    "{} names no image; write glance:// and the image's identifier",
                    shown(&item.raw)
                ))),
            },
            Ok(url) => Err(wrong(format!("must be {like}; `{}:` is not supported", url.scheme()))),
            Err(_) => PathBuf::from_item(item).map(Self::File),
        }
    }
}

/// A UUID, as Glance names images by.
pub(crate) fn is_image_id(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    lengths == [8, 4, 4, 4, 12] && groups.iter().all(|group| group.bytes().all(|b| b.is_ascii_hexdigit()))
}

impl FromItem for Network {
    fn from_item(item: &Item) -> Result<Self, Wrong> {
        let like = "\"10.1.0.0/16\" or \"2001:db8::/32\"";
        let given = text(item, like)?;
        given.parse().map_err(|_| {
            let rule = format!("must be a network like {like}, with no bits set behind its prefix");
            wrong(format!("{} {rule}", shown(&item.raw)))
        })
    }
}

/// A number of bytes: `"20GiB"`, `"1500MB"`, or a whole number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size(pub(crate) u64);

impl Size {
    fn parse(given: &str) -> Option<u64> {
        let digits = given.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = given.split_at(digits);
        let factor: u64 = match unit.trim() {
            "" | "B" => 1,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(factor)
    }
}

impl FromItem for Size {
    fn from_item(item: &Item) -> Result<Self, Wrong> {
        let size = match &item.raw {
            Raw::Text(text) => Self::parse(text),
            Raw::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        };
        size.map(Self).ok_or_else(|| {
            wrong(format!(
                "{} must be a size like \"20GiB\" or \"64KiB\" (B, KiB, MiB, GiB, TiB, kB, MB, GB, TB)",
                shown(&item.raw)
            ))
        })
    }
}

/// Permissions of a file, as `chmod` takes them: `"0644"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileMode(pub(crate) u32);

impl FromItem for FileMode {
    fn from_item(item: &Item) -> Result<Self, Wrong> {
        let mode = match &item.raw {
            Raw::Text(text) if text.bytes().all(|digit| digit.is_ascii_digit()) => u32::from_str_radix(text, 8).ok(),
            _ => None,
        };
        // The owner, who is us, must be able to write it and read it again.
        mode.filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600)
            .map(Self)
            .ok_or_else(|| {
                wrong(format!(
                    "{} must be permissions like \"0644\", with at least 0600 for the owner",
                    shown(&item.raw)
                ))
            })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_have_units_and_never_overflow() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("64KiB", Some(65_536)),
            ("64 KiB", Some(65_536)),
            ("20GiB", Some(21_474_836_480)),
            ("1kB", Some(1000)),
            ("16777215TiB", Some(18_446_742_974_197_923_840)),
            ("16777216TiB", None),
            ("GiB", None),
            ("-1", None),
            ("1.5GiB", None),
            ("1gib", None),
            ("99999999999999999999", None),
            ("", None),
        ] {
            assert_eq!(Size::parse(text), bytes, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parsers(text in ".*") {
            let _ = (text.parse::<Network>(), Size::parse(&text), HttpUrl::parse(&text));
        }
    }

    #[test]
    fn a_url_is_http_bare_and_without_a_slash_at_its_end() {
        let parse = |text| HttpUrl::parse(text).map(|url| url.as_str().to_owned());
        assert_eq!(parse("http://10.0.0.1:80/"), Ok("http://10.0.0.1".into()));
        assert_eq!(parse("https://x/a/b//"), Ok("https://x/a/b".into()));
        assert_eq!(
            parse("http://[2001:db8::1]:6386"),
            Ok("http://[2001:db8::1]:6386".into())
        );
        for bad in [
            "x",
            "ftp://x",
            "file:///x",
            "http://u:p@x/",
            "http://u@x",
            "http://x/?a",
            "http://x/#a",
            "http://",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
