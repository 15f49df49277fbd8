//! What Python does with text, where the format rests on it.

/// `str.isspace`: Unicode's white space, and the four separators of ASCII that Unicode does not count.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `str.strip`
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `str.rstrip`
pub(super) fn rstrip(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// `str.lstrip`
pub(super) fn lstrip(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

/// `int(text)` of a text without space around it: a sign, digits, single underscores between digits. Unlike Python, only
/// ASCII digits and 64 bits.
pub(super) fn int(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain = between_digits(digits)?;
    let sign = if text.starts_with('-') { "-" } else { "" };
    format!("{sign}{plain}").parse().ok()
}

/// `float(text)` of a text without space around it.
pub(super) fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if ["inf", "infinity", "nan"].contains(&unsigned.to_ascii_lowercase().as_str()) {
        return text.parse().ok();
    }
    // Rust takes what Python does, but for the underscores.
    let legal = |c: char| c.is_ascii_digit() || "eE+-._".contains(c);
    if !unsigned.chars().all(legal) {
        return None;
    }
    let mut plain = String::new();
    for (place, part) in text.split('_').enumerate() {
        let joins = place == 0
            || (plain.ends_with(|c: char| c.is_ascii_digit()) && part.starts_with(|c: char| c.is_ascii_digit()));
        if !joins {
            return None;
        }
        plain.push_str(part);
    }
    plain.parse().ok()
}

fn between_digits(text: &str) -> Option<String> {
    let groups: Vec<&str> = text.split('_').collect();
    let legal = |group: &&str| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit());
    groups.iter().all(legal).then(|| groups.concat())
}

/// `repr(text)`: what a list shows of a text in it.
pub(super) fn repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut shown = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => shown.push_str("\\\\"),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if c == quote => {
                shown.push('\\');
                shown.push(c);
            }
            c if c.is_control() || (is_space(c) && c != ' ') => {
                let code = u32::from(c);
                let escaped = match code {
                    0..=0xff => format!("\\x{code:02x}"),
                    _ => format!("\\u{code:04x}"),
                };
                shown.push_str(&escaped);
            }
            c => shown.push(c),
        }
    }
    shown.push(quote);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_python_takes_them() {
        for (text, number) in [
            ("5", Some(5)),
            ("+5", Some(5)),
            ("-1_000", Some(-1000)),
            ("007", Some(7)),
            ("0644", Some(644)),
            ("0o644", None),
            ("1__0", None),
            ("_1", None),
            ("1_", None),
            ("", None),
            ("-", None),
            ("- 1", None),
            ("1.0", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(int(text), number, "{text}");
        }
        for (text, number) in [
            ("1", Some(1.0)),
            ("-.5e1", Some(-5.0)),
            ("1_0.0_1", Some(10.01)),
            ("1_.0", None),
            ("0x1", None),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("", None),
            ("e1", None),
        ] {
            assert_eq!(float(text), number, "{text}");
        }
    }

    #[test]
    fn a_text_in_a_list_is_shown_as_python_shows_it() {
        for (text, shown) in [
            ("a", "'a'"),
            ("it's", "\"it's\""),
            ("\"'", "'\"\\''"),
            ("a\\b\n\u{7f}\u{a0}é", "'a\\\\b\\n\\x7f\\xa0é'"),
        ] {
            assert_eq!(repr(text), shown);
        }
    }
}
