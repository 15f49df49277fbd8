//! How an image is answered over HTTP (RFC 9110): which status, which headers, which bytes. Pure; sockets are elsewhere.
//!
//! What BMCs need of a server: HEAD with a length, exact 206 and 416, numbers with any number of leading zeros (iLO 2 pads
//! to 20 digits), never a content or transfer coding, a strong entity tag that never changes, and nothing derived from `Host`.

use std::ops::Range;

/// More ranges than this in one request are answered with the whole image.
const MAX_RANGES: usize = 16;

/// What a request says about the image it names. A header that came more than once is given as `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions<'a> {
    /// `Range`.
    pub range: Option<&'a str>,
    /// `If-Range`.
    pub if_range: Option<&'a str>,
    /// `If-Match`.
    pub if_match: Option<&'a str>,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a str>,
}

/// The image itself.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'a> {
    /// Bytes of it.
    pub size: u64,
    /// Its strong entity tag, with its quotes.
    pub etag: &'a str,
    /// Its media type.
    pub content_type: &'a str,
}

/// What to answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// 200, 206, 304, 405, 412 or 416.
    pub status: u16,
    /// All headers but `Date` and `Connection`.
    pub headers: Vec<(&'static str, String)>,
    /// Bytes of the image to send as the body; empty for HEAD and where there is none.
    pub body: Range<u64>,
}

/// Decides the answer to one request for an image.
///
/// Preconditions come in the order of RFC 9110 §13.2.2. `Range` counts for GET alone (§14.2). A range that does not parse is
/// ignored, as §14.2 allows: a client that cannot write a range reads the whole image. Several ranges are answered by one
/// 206 where they touch or overlap; else by the whole image as 200, since no BMC has been seen to parse
/// `multipart/byteranges`, and a 206 with only the first range is taken for all of them by clients that do not look.
pub fn answer(method: &str, conditions: &Conditions<'_>, image: &Resource<'_>) -> Answer {
    if !matches!(method, "GET" | "HEAD") {
        let headers = vec![("allow", "GET, HEAD".to_owned()), length(0)];
        return bodiless(405, headers);
    }
    if let Some(wanted) = conditions.if_match
        && !listed(wanted, image.etag, Comparison::Strong)
    {
        return bodiless(412, vec![tag(image), length(0)]);
    }
    if let Some(known) = conditions.if_none_match
        && listed(known, image.etag, Comparison::Weak)
    {
        // A length here would be the image's (§8.6); leaving it out is what clients cope with best.
        return bodiless(304, vec![tag(image), caching()]);
    }
    let wanted = conditions
        .range
        .filter(|_| method == "GET")
        .filter(|_| conditions.if_range.is_none_or(|known| known.trim() == image.etag))
        .map_or(Wanted::Everything, |range| wanted(range, image.size));
    let mut headers = vec![("accept-ranges", "bytes".to_owned()), tag(image), caching()];
    match wanted {
        Wanted::Everything => {
            headers.push(("content-type", image.content_type.to_owned()));
            headers.push(length(image.size));
            let body = if method == "GET" { 0..image.size } else { 0..0 };
            Answer {
                status: 200,
                headers,
                body,
            }
        }
        Wanted::Part(body) => {
            let range = format!("bytes {}-{}/{}", body.start, body.end - 1, image.size);
            headers.push(("content-type", image.content_type.to_owned()));
            headers.push(("content-range", range));
            headers.push(length(body.end - body.start));
            Answer {
                status: 206,
                headers,
                body,
            }
        }
        Wanted::Nothing => {
            headers.push(("content-range", format!("bytes */{}", image.size)));
            headers.push(length(0));
            bodiless(416, headers)
        }
    }
}

fn bodiless(status: u16, headers: Vec<(&'static str, String)>) -> Answer {
    Answer {
        status,
        headers,
        body: 0..0,
    }
}

fn length(bytes: u64) -> (&'static str, String) {
    ("content-length", bytes.to_string())
}

fn tag(image: &Resource<'_>) -> (&'static str, String) {
    ("etag", image.etag.to_owned())
}

/// The URL is a secret and its bytes never change; a proxy between must neither keep nor recode them.
fn caching() -> (&'static str, String) {
    ("cache-control", "private, no-transform".to_owned())
}

#[derive(Clone, Copy)]
enum Comparison {
    Strong,
    Weak,
}

/// Whether a list of entity tags holds this strong one, or `*` (RFC 9110 §8.8.3.2). Our tags hold no comma, so a tag of
/// somebody else's that does is merely cut into parts that match nothing.
fn listed(list: &str, etag: &str, comparison: Comparison) -> bool {
    list.split(',').map(str::trim).any(|entry| {
        let opaque = match comparison {
            Comparison::Strong => entry,
            Comparison::Weak => entry.strip_prefix("W/").unwrap_or(entry),
        };
        entry == "*" || opaque == etag
    })
}

#[derive(PartialEq, Eq, Debug)]
enum Wanted {
    /// No range, one that does not parse, or several that lie apart.
    Everything,
    /// One stretch, not empty.
    Part(Range<u64>),
    /// Ranges that all lie past the end.
    Nothing,
}

/// Reads a `Range` header (RFC 9110 §14.1.2).
fn wanted(header: &str, size: u64) -> Wanted {
    let Some((unit, set)) = header.split_once('=') else {
        return Wanted::Everything;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Wanted::Everything;
    }
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut asked = 0;
    // Empty elements of a list are skipped (§5.6.1.2).
    for spec in set.split(',').map(str::trim).filter(|spec| !spec.is_empty()) {
        asked += 1;
        if asked > MAX_RANGES {
            return Wanted::Everything;
        }
        match one_range(spec, size) {
            Some(part) if part.is_empty() => {}
            Some(part) => parts.push(part),
            None => return Wanted::Everything,
        }
    }
    if asked == 0 {
        return Wanted::Everything;
    }
    parts.sort_by_key(|part| part.start);
    let mut parts = parts.into_iter();
    let Some(mut whole) = parts.next() else {
        return Wanted::Nothing;
    };
    for part in parts {
        if part.start > whole.end {
            return Wanted::Everything;
        }
        whole.end = whole.end.max(part.end);
    }
    Wanted::Part(whole)
}

/// One `first-last`, `first-` or `-suffix`, cut to the image; empty if it lies past the end, `None` if it does not parse.
fn one_range(spec: &str, size: u64) -> Option<Range<u64>> {
    let (first, last) = spec.split_once('-')?;
    let (first, last) = (first.trim_end(), last.trim_start());
    if first.is_empty() {
        let suffix = number(last)?;
        return Some(size.saturating_sub(suffix)..size);
    }
    let first = number(first)?;
    let end = match last {
        "" => size,
        last => {
            let last = number(last)?;
            if last < first {
                return None;
            }
            last.saturating_add(1).min(size)
        }
    };
    Some(first.min(end)..end)
}

/// Decimal digits, however many; a number beyond `u64` is as good as `u64::MAX` (§14.1.2 warns of overflow here).
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ETAG: &str = "\"sha256:00\"";

    fn image(size: u64) -> Resource<'static> {
        Resource {
            size,
            etag: ETAG,
            content_type: "application/octet-stream",
        }
    }

    fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
        let found = answer.headers.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.as_str())
    }

    fn ranged(range: &str, size: u64) -> Answer {
        let conditions = Conditions {
            range: Some(range),
            ..Conditions::default()
        };
        answer("GET", &conditions, &image(size))
    }

    /// Range header, status, body, Content-Range, for an image of 1000 bytes.
    #[test]
    fn ranges_are_answered_as_rfc_9110_says() {
        for (range, status, body, content_range) in [
            ("bytes=0-0", 206, 0..1, Some("bytes 0-0/1000")),
            ("bytes=0-", 206, 0..1000, Some("bytes 0-999/1000")),
            ("bytes=990-2000", 206, 990..1000, Some("bytes 990-999/1000")),
            ("bytes=-10", 206, 990..1000, Some("bytes 990-999/1000")),
            ("bytes=-5000", 206, 0..1000, Some("bytes 0-999/1000")),
            ("BYTES=1-2", 206, 1..3, Some("bytes 1-2/1000")),
            (
                "bytes=00000000000000000512-00000000000000000767",
                206,
                512..768,
                Some("bytes 512-767/1000"),
            ),
            (
                "bytes=0-99999999999999999999999999",
                206,
                0..1000,
                Some("bytes 0-999/1000"),
            ),
            ("bytes=1000-", 416, 0..0, Some("bytes */1000")),
            ("bytes=1000-1001", 416, 0..0, Some("bytes */1000")),
            ("bytes=-0", 416, 0..0, Some("bytes */1000")),
            ("bytes=99999999999999999999999999-", 416, 0..0, Some("bytes */1000")),
            ("bytes=5-2", 200, 0..1000, None),
            ("bytes=a-b", 200, 0..1000, None),
            ("bytes=+1-2", 200, 0..1000, None),
            ("bytes=-", 200, 0..1000, None),
            ("bytes=", 200, 0..1000, None),
            ("bytes", 200, 0..1000, None),
            ("lines=0-1", 200, 0..1000, None),
            // Several: touching ones become one, what lies past the end falls away, gaps make it the whole image.
            ("bytes=0-9,10-19", 206, 0..20, Some("bytes 0-19/1000")),
            ("bytes=10-19, 0-14", 206, 0..20, Some("bytes 0-19/1000")),
            ("bytes=0-9,5000-", 206, 0..10, Some("bytes 0-9/1000")),
            ("bytes=2000-,3000-", 416, 0..0, Some("bytes */1000")),
            ("bytes=0-9,20-29", 200, 0..1000, None),
            ("bytes=0-9,x", 200, 0..1000, None),
            ("bytes=,0-9,", 206, 0..10, Some("bytes 0-9/1000")),
        ] {
            let answer = ranged(range, 1000);
            assert_eq!(answer.status, status, "{range}");
            assert_eq!(answer.body, body, "{range}");
            assert_eq!(header(&answer, "content-range"), content_range, "{range}");
            let length = (body.end - body.start).to_string();
            assert_eq!(header(&answer, "content-length"), Some(&*length), "{range}");
        }
    }

    #[test]
    fn many_ranges_do_not_multiply_the_work() {
        let many = vec!["0-1"; 4000].join(",");
        let answer = ranged(&format!("bytes={many}"), 1000);
        assert_eq!((answer.status, answer.body), (200, 0..1000));
    }

    #[test]
    fn head_tells_the_whole_length_whatever_range_it_names() {
        let conditions = Conditions {
            range: Some("bytes=0-1"),
            ..Conditions::default()
        };
        let answer = answer("HEAD", &conditions, &image(1000));
        assert_eq!((answer.status, answer.body.clone()), (200, 0..0));
        assert_eq!(header(&answer, "content-length"), Some("1000"));
        assert_eq!(header(&answer, "accept-ranges"), Some("bytes"));
        assert_eq!(header(&answer, "etag"), Some(ETAG));
    }

    #[test]
    fn other_methods_are_refused_and_told_which_work() {
        let answer = answer("PUT", &Conditions::default(), &image(1));
        assert_eq!(answer.status, 405);
        assert_eq!(header(&answer, "allow"), Some("GET, HEAD"));
    }

    /// If-Range, If-Match, If-None-Match, status of `GET Range: bytes=0-1`.
    #[test]
    fn conditions_are_weighed_in_the_order_of_the_rfc() {
        let weak = format!("W/{ETAG}");
        let list = format!("\"x\", {ETAG}");
        for (if_range, if_match, if_none_match, status) in [
            (Some(ETAG), None, None, 206),
            (Some(weak.as_str()), None, None, 200),
            (Some("Tue, 15 Nov 1994 12:45:26 GMT"), None, None, 200),
            (None, Some(ETAG), None, 206),
            (None, Some("*"), None, 206),
            (None, Some(list.as_str()), None, 206),
            (None, Some("\"other\""), None, 412),
            (None, Some(weak.as_str()), None, 412),
            (None, None, Some(ETAG), 304),
            (None, None, Some(weak.as_str()), 304),
            (None, None, Some("*"), 304),
            (None, None, Some("\"other\""), 206),
            (None, Some("\"other\""), Some(ETAG), 412),
        ] {
            let conditions = Conditions {
                range: Some("bytes=0-1"),
                if_range,
                if_match,
                if_none_match,
            };
            let answer = answer("GET", &conditions, &image(1000));
            assert_eq!(answer.status, status, "{if_range:?} {if_match:?} {if_none_match:?}");
        }
    }

    #[test]
    fn no_answer_names_a_coding_of_the_content() {
        for range in ["bytes=0-1", "bytes=0-1,500-501", "bytes=5000-"] {
            for (name, _) in ranged(range, 1000).headers {
                assert!(!matches!(name, "content-encoding" | "transfer-encoding"));
            }
        }
    }

    proptest! {
        #[test]
        fn any_header_gets_an_answer_inside_the_image(range in ".{0,60}", size in 0..5000u64) {
            let answer = ranged(&range, size);
            prop_assert!(matches!(answer.status, 200 | 206 | 416));
            prop_assert!(answer.body.start <= answer.body.end && answer.body.end <= size);
        }

        #[test]
        fn a_satisfiable_range_is_answered_exactly(size in 1..10_000u64, a in 0..10_000u64, b in 0..10_000u64, pad in 1..25usize) {
            let first = a % size;
            let last = first + b;
            let answer = ranged(&format!("bytes={first:0pad$}-{last:0pad$}"), size);
            prop_assert_eq!(answer.status, 206);
            prop_assert_eq!(answer.body, first..(last + 1).min(size));
        }
    }
}
