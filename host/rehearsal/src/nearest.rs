//! "Did you mean …": the known name that is closest to an unknown one.

/// The candidate with the fewest edits, if it is close enough to be a slip.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer names are no slips of anything that is known; comparing them would only take time.
    if name.chars().count() > 64 {
        return None;
    }
    let most = (name.chars().count() / 3).max(2);
    known
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "`x` is unknown; did you mean `y`?", or what is known instead.
pub(crate) fn unknown(kind: &str, name: &str, known: &[&str]) -> String {
    let shown: String = name.chars().take(80).collect();
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("unknown {kind} `{shown}`; did you mean `{near}`?"),
        None => format!("unknown {kind} `{shown}`; known are: {}", known.join(", ")),
    }
}

/// Adds the nearest name to a message of serde's form "unknown field `x`, expected one of `a`, `b`".
pub(crate) fn with_hint(message: &str) -> String {
    let is_about_a_name = message.contains("unknown field") || message.contains("unknown variant");
    let name = message.split('`').nth(1);
    let known = message.split_once("expected ").map(|(_, known)| known);
    let near = name.zip(known).filter(|_| is_about_a_name).and_then(|(name, known)| {
        let known = known.trim_start_matches("one of ").split(", ");
        nearest(
            name,
            known
                .flat_map(|some| some.split(" or "))
                .map(|one| one.trim_matches('`')),
        )
    });
    match near {
        Some(near) => format!("{message}; did you mean `{near}`?"),
        None => message.to_owned(),
    }
}

/// Levenshtein's.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
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
    fn a_slip_is_told_from_another_word() {
        let known = ["outcome", "error", "never"];
        assert_eq!(nearest("outcom", known), Some("outcome"));
        assert_eq!(nearest("nevre", known), Some("never"));
        assert_eq!(nearest("storage", known), None);
        assert_eq!(distance("kitten", "sitting"), 3);
        let hint = with_hint("unknown field `exepct`, expected one of `call`, `expect`");
        assert!(hint.ends_with("did you mean `expect`?"), "{hint}");
        let hint = with_hint("unknown variant `orderd`, expected one of ordered, any-order");
        assert!(hint.ends_with("did you mean `ordered`?"), "{hint}");
        let hint = with_hint("unknown field `url`, expected `urls` or `uri`");
        assert!(hint.ends_with("did you mean `urls`?"), "{hint}");
        assert_eq!(with_hint("expected `x`"), "expected `x`");
    }
}
