//! What the answers of stores have in common.

use std::ops::Range;

use futures_util::StreamExt as _;
use reqwest::Response;
use reqwest::header::{CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue};
use sources::openstack::OpenStackError;

use super::Bodies;
use crate::StorageError;

/// Longest explanation that is taken from an answer's body.
const REASON: usize = 200;
/// How long that may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Nothing was answered, or nobody lets us in.
pub(crate) fn unusable(place: &str, error: OpenStackError) -> StorageError {
    let place = place.to_owned();
    match error {
        OpenStackError::Timeout { after, .. } => StorageError::Timeout {
            place,
            action: "an answer",
            after,
        },
        // The path of an object is a secret: who knows it may read the object where a URL is all it takes.
        OpenStackError::Unauthorized { url, reason, who } => StorageError::Forbidden {
            place,
            remedy: format!(
                "{} does not let us in ({reason}); check user, password and project of {who}",
                origin(&url)
            ),
        },
        OpenStackError::Unreachable { url, reason } => StorageError::Unusable {
            place,
            reason: format!("{} could not be reached: {reason}", origin(&url)),
        },
        OpenStackError::Malformed { url, reason } => StorageError::Unusable {
            place,
            reason: format!("{} answers nonsense: {reason}", origin(&url)),
        },
        _ => StorageError::Unusable {
            place,
            reason: error.to_string(),
        },
    }
}

fn origin(url: &str) -> String {
    url::Url::parse(url).map_or_else(|_| "it".to_owned(), |url| url.origin().ascii_serialization())
}

/// ": what it said", in one line of plain text; or nothing.
pub(crate) async fn explanation(answer: Response) -> String {
    let body = sources::openstack::read(answer, 4096, PATIENCE)
        .await
        .unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    // Swift explains itself in a small page of HTML.
    let mut plain = String::new();
    let mut inside = false;
    for c in body.chars() {
        match c {
            '<' => inside = true,
            '>' => {
                inside = false;
                plain.push(' ');
            }
            c if !inside && !c.is_control() => plain.push(c),
            c if !inside && c.is_whitespace() => plain.push(' '),
            _ => {}
        }
    }
    let words: Vec<&str> = plain.split_whitespace().collect();
    let words: String = words.join(" ").chars().take(REASON).collect();
    match words.is_empty() {
        true => words,
        false => format!(" ({words})"),
    }
}

/// The bytes of a range, if that is what the answer is.
pub(crate) async fn ranged(
    place: &str,
    answer: Response,
    range: &Range<u64>,
) -> Result<(Bodies, Option<String>), StorageError> {
    let unusable = |reason: String| StorageError::Unusable {
        place: place.to_owned(),
        reason,
    };
    match answer.status().as_u16() {
        206 => {}
        404 => return Err(unusable("an object that is on record is gone".to_owned())),
        412 => {
            return Err(unusable(
                "an object that is being read was replaced by another".to_owned(),
            ));
        }
        200 => {
            return Err(unusable(
                "it sends a whole object where a range was asked for".to_owned(),
            ));
        }
        401 | 403 => {
            return Err(StorageError::Forbidden {
                place: place.to_owned(),
                remedy: "it does not let us read what we put there; give the user a role that may".to_owned(),
            });
        }
        status => return Err(unusable(format!("reading an object was answered with HTTP {status}"))),
    }
    let wanted = format!("bytes {}-{}/", range.start, range.end.saturating_sub(1));
    if text(answer.headers(), &CONTENT_RANGE).is_none_or(|got| !got.starts_with(&wanted)) {
        return Err(unusable("it sends another range than was asked for".to_owned()));
    }
    let etag = text(answer.headers(), &ETAG);
    Ok((bodies(answer), etag))
}

/// The bytes of an answer, without the URL in their errors: it may be signed.
fn bodies(answer: Response) -> Bodies {
    let pieces = answer.bytes_stream();
    pieces
        .map(|piece| piece.map_err(|error| error.without_url().to_string()))
        .boxed()
}

/// A header that stands there as text.
pub(crate) fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.trim().to_owned())
}

/// A header whose value is made of printable characters.
pub(crate) fn value(text: impl Into<String>) -> HeaderValue {
    HeaderValue::try_from(text.into()).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Asks for a range, and where a tag is given, of the object with that tag alone.
pub(crate) fn ask_range(headers: &mut HeaderMap, range: &Range<u64>, etag: Option<&str>) {
    let last = range.end.saturating_sub(1);
    headers.insert(reqwest::header::RANGE, value(format!("bytes={}-{last}", range.start)));
    if let Some(etag) = etag {
        headers.insert(reqwest::header::IF_MATCH, value(etag));
    }
}
