//! Hostile texts made fit for errors and logs: short, printable, and without the secret parts of URLs.

/// Longest text of a BMC that is repeated.
const CAP: usize = 300;

/// `text` without control characters, with every URL reduced to its scheme and host and every word of `hide` starred,
/// cut to a sane length.
pub(crate) fn fit(text: &str, hide: &[String]) -> String {
    // What is cut off is never looked at, so a huge text costs nothing.
    let mut text: String = text.chars().take(8 * CAP).collect();
    for word in hide.iter().filter(|word| !word.is_empty()) {
        text = text.replace(word.as_str(), "***");
    }
    let mut text: String = without_url_secrets(&text)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if let Some((cut, _)) = text.char_indices().nth(CAP) {
        text.truncate(cut);
        text.push('…');
    }
    text.trim().to_owned()
}

/// Every `scheme://user:password@host/path` becomes `scheme://host/***`.
fn without_url_secrets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after
            .find(|c: char| c.is_whitespace() || "\"'<>".contains(c))
            .unwrap_or(after.len());
        let (url, tail) = after.split_at(end);
        let (authority, path) = url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()));
        out.push_str(authority.rsplit('@').next().unwrap_or_default());
        if path.len() > 1 {
            out.push_str("/***");
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_urls_do_not_survive() {
        for (text, want) in [
            ("plain", "plain"),
            ("no http://u:p@h:80/a/b.iso here", "no http://h:80/*** here"),
            ("'https://h/x?sig=1'.", "'https://h/***'."),
            ("http://h and http://h/", "http://h and http://h"),
            ("a\r\nb\u{7}", "a  b"),
        ] {
            assert_eq!(fit(text, &[]), want);
        }
        assert_eq!(
            fit("the path /t0k3n/x is bad", &["/t0k3n/x".into()]),
            "the path *** is bad"
        );
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = fit(&"é".repeat(100_000), &[]);
        assert_eq!(text.chars().count(), CAP + 1);
        assert!(text.ends_with('…'));
    }
}
