//! Which pieces belong together: the pieces of one content, told by a validator that changes with every byte of it.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::Response;
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_RANGE, DATE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_RANGE, LAST_MODIFIED, RANGE,
};

/// Longest validator that is kept.
const VALIDATOR_CAP: usize = 1024;
/// A date in seconds tells two contents apart if it lies so far back when it is given (RFC 9110, 8.8.2.2).
const STRONG_AFTER: Duration = Duration::from_secs(60);

/// By what a server knows a content again.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct Validators {
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
}

/// The content that a first answer began to send.
pub(super) struct Known {
    pub(super) validators: Validators,
    pub(super) total: Option<u64>,
    /// For `If-Range`: strong, or none.
    strong: Option<HeaderValue>,
}

/// A question for the rest.
pub(super) struct Rest<'a>(&'a HeaderValue);

impl Known {
    pub(super) fn of(response: &Response) -> Self {
        let validators = validators(response.headers());
        let strong = strong(&validators, response.headers());
        Self {
            total: response.content_length(),
            validators,
            strong,
        }
    }

    /// How to ask for the rest; `None` if pieces of two contents could not be told apart.
    pub(super) fn range(&self) -> Option<Rest<'_>> {
        self.strong.as_ref().map(Rest)
    }

    /// A part says how long the whole is, where the first answer did not.
    pub(super) fn learn_total(&mut self, response: &Response) {
        let total = content_range(response.headers()).and_then(|(_, _, total)| total);
        self.total = self.total.or(total);
    }

    /// Whether a 206 is the rest of this content from `have` on.
    pub(super) fn continues(&self, response: &Response, have: u64) -> bool {
        let Some((first, last, total)) = content_range(response.headers()) else {
            return false;
        };
        let now = validators(response.headers());
        let same = |before: &Option<String>, now: &Option<String>| now.is_none() || before == now;
        first == have
            && last >= first
            && total.is_none_or(|total| last < total && self.total.is_none_or(|before| before == total))
            && self.total.is_none_or(|total| last < total)
            && same(&self.validators.etag, &now.etag)
            && same(&self.validators.last_modified, &now.last_modified)
    }
}

impl Rest<'_> {
    pub(super) fn headers(&self, have: u64) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Ok(range) = HeaderValue::from_str(&format!("bytes={have}-")) {
            headers.insert(RANGE, range);
            headers.insert(IF_RANGE, self.0.clone());
        }
        headers
    }
}

fn validators(headers: &HeaderMap) -> Validators {
    let text = |name: HeaderName| {
        let value = headers.get(name)?.to_str().ok()?;
        (value.len() <= VALIDATOR_CAP).then(|| value.to_owned())
    };
    Validators {
        etag: text(ETAG),
        last_modified: text(LAST_MODIFIED),
    }
}

fn strong(validators: &Validators, headers: &HeaderMap) -> Option<HeaderValue> {
    if let Some(etag) = &validators.etag {
        // A server that has only a weak one does not vouch for bytes.
        return etag.starts_with('"').then(|| HeaderValue::from_str(etag).ok())?;
    }
    let modified = validators.last_modified.as_ref()?;
    let (then, now) = (date(modified)?, date(headers.get(DATE)?.to_str().ok()?)?);
    let age = now.as_second().checked_sub(then.as_second())?;
    let settled = u64::try_from(age).is_ok_and(|age| age >= STRONG_AFTER.as_secs());
    settled.then(|| HeaderValue::from_str(modified).ok())?
}

fn date(text: &str) -> Option<Timestamp> {
    Some(rfc2822::parse(text).ok()?.timestamp())
}

/// `bytes FIRST-LAST/TOTAL`, where the total may be `*`.
fn content_range(headers: &HeaderMap) -> Option<(u64, u64, Option<u64>)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let total = match total.trim() {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let pair = |(name, value): &(HeaderName, &str)| (name.clone(), HeaderValue::from_str(value).unwrap());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_what_changes_with_every_byte_joins_pieces() {
        let (old, date) = ("Mon, 30 Nov 2026 00:00:00 GMT", "Mon, 30 Nov 2026 00:01:00 GMT");
        for (given, is_strong) in [
            (vec![(ETAG, "\"v1\"")], true),
            (vec![(ETAG, "W/\"v1\"")], false),
            (vec![(ETAG, "v1")], false),
            (vec![(ETAG, "W/\"v1\""), (LAST_MODIFIED, old), (DATE, date)], false),
            (vec![(LAST_MODIFIED, old), (DATE, date)], true),
            (
                vec![(LAST_MODIFIED, old), (DATE, "Mon, 30 Nov 2026 00:00:59 GMT")],
                false,
            ),
            (vec![(LAST_MODIFIED, date), (DATE, old)], false),
            (vec![(LAST_MODIFIED, old)], false),
            (vec![(LAST_MODIFIED, "yesterday"), (DATE, date)], false),
            (vec![], false),
        ] {
            let given = headers(&given);
            assert_eq!(strong(&validators(&given), &given).is_some(), is_strong, "{given:?}");
        }
    }

    #[test]
    fn a_content_range_is_read_or_refused() {
        let read = |text: &str| content_range(&headers(&[(CONTENT_RANGE, text)]));
        assert_eq!(read("bytes 5-9/10"), Some((5, 9, Some(10))));
        assert_eq!(read("bytes 5-9/*"), Some((5, 9, None)));
        for wrong in [
            "bytes */10",
            "bytes 5-/10",
            "5-9/10",
            "bytes 5-9",
            "bytes a-b/c",
            "bytes -5-9/10",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
