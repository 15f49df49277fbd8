//! The name that was probably meant.

/// The known name nearest to `text`, if one is near enough to be a slip: at most a third of its letters differ.
pub(crate) fn nearest<'a>(text: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace('_', "-");
    let normal = plain(text);
    let rank = |name: &&'a str| (distance(&normal, &plain(name)), *name);
    let (changes, name) = known.iter().map(rank).min()?;
    let tolerated = (name.len().max(normal.len()) / 3).max(1);
    (changes <= tolerated).then_some(name)
}

/// Letters to insert, remove or replace (Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let known = ["listen", "auth", "htpasswd", "lease-s"];
        for (text, meant) in [
            ("lisen", Some("listen")),
            ("lease_s", Some("lease-s")),
            ("LISTEN", Some("listen")),
            ("htpaswd", Some("htpasswd")),
            ("port", None),
            ("", None),
        ] {
            assert_eq!(nearest(text, &known), meant, "{text}");
        }
        assert_eq!(nearest("x", &[]), None);
    }
}
