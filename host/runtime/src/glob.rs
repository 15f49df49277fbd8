//! Patterns over paths and URLs: `*` matches within a segment, `**` across segments, all else itself.

/// Whether `text` as a whole matches. A text that could be read in two ways (dot segments, escapes of dots or slashes, `@`,
/// control characters) matches nothing.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    if is_ambiguous(text) {
        return false;
    }
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    // `reach[i]`: the pattern read so far can end at byte `i` of the text. Time is bounded by the product of the lengths.
    let mut reach = vec![false; text.len() + 1];
    reach[0] = true;
    let mut at = 0;
    while at < pattern.len() {
        let mut next = vec![false; text.len() + 1];
        let deep = pattern[at..].starts_with(b"**");
        if pattern[at] == b'*' {
            let mut open = false;
            for end in 0..=text.len() {
                if end > 0 && !deep && text[end - 1] == b'/' {
                    open = false;
                }
                open |= reach[end];
                next[end] = open;
            }
        } else {
            for end in 1..=text.len() {
                next[end] = reach[end - 1] && text[end - 1] == pattern[at];
            }
        }
        at += if deep { 2 } else { 1 };
        reach = next;
    }
    reach[text.len()]
}

/// Whether `wider` matches what `narrower` matches, as far as samples of it tell: a pattern's stars stand for nothing, for a
/// word, and two of them for a path as well. Good enough to warn by; a text is always held against both.
pub(crate) fn covers(wider: &str, narrower: &str) -> bool {
    wider == narrower
        || [("", ""), ("x", "x"), ("x", "x/y"), ("xy", "x/y/z/z/y")]
            .iter()
            .all(|(one, two)| matches(wider, &narrower.replace("**", two).replace('*', one)))
}

fn is_ambiguous(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let dots = |segment: &str| segment == "." || segment == "..";
    lower.len() > 4096
        || lower.contains(['@', '\\'])
        || lower.bytes().any(|byte| byte <= b' ' || byte == 0x7f)
        || ["%2e", "%2f", "%5c", "%40", "%00"]
            .iter()
            .any(|escape| lower.contains(escape))
        || lower.split(['/', '?', '#']).any(dots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_within_its_segment_and_two_do_not() {
        for (pattern, text, expected) in [
            ("/a/*/c", "/a/b/c", true),
            ("/a/*/c", "/a/b/b/c", false),
            ("/a/**", "/a/b/b/c", true),
            ("/a/**/c", "/a/b/b/c", true),
            ("/a/*", "/a/", true),
            ("/a", "/a/", false),
            ("https://images.example/**", "https://images.example/x.iso", true),
            ("https://images.example/**", "https://images.example.evil/x.iso", false),
            ("https://*.example/x", "https://a.example/x", true),
            ("https://*.example/x", "https://evil/.example/x", false),
            ("", "", true),
            ("**", "anything/at/all", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_wider_pattern_covers_a_narrower_one() {
        for (wider, narrower, expected) in [
            ("/a/**", "/a/*", true),
            ("/a/**", "/a/b/**", true),
            ("/a/*", "/a/**", false),
            ("/a/*/*", "/a/**", false),
            ("/a/x", "/a/*", false),
            ("/a/*", "/a/x", true),
            ("/a/../b", "/a/../b", true),
        ] {
            assert_eq!(covers(wider, narrower), expected, "{wider} {narrower}");
        }
    }

    #[test]
    fn a_text_that_could_mean_two_things_matches_nothing() {
        for text in [
            "/a/../b",
            "/a/%2E%2e/b",
            "/a/./b",
            "/a\\b",
            "/a b",
            "https://a@b/",
            "/a/..?x",
            "/a\n",
        ] {
            assert!(!matches("**", text), "{text:?}");
        }
    }
}
