//! What fuzzers feed: the parsers of what BMCs say, and what must hold of whatever they make of it. A panic is a finding.
//!
//! Targets in `host/bmc/fuzz` call these; every input that ever was one is in `host/bmc/fuzz/corpus` and read again by a test.

use crate::scrub::Scrubber;

/// A secret that inputs may hold: it must not come out again.
const SECRET: &str = "t0k3n-s3cr3t";

/// An RIBCL answer as it came from a connection.
pub fn ribcl(bytes: &[u8]) {
    let text = crate::http::text_of(bytes);
    crate::ribcl::exercise(&text);
    scrubbed(&text);
}

/// The body of a Redfish answer, the first byte of which chooses the HTTP status.
pub fn redfish(bytes: &[u8]) {
    let (status, body) = match bytes.split_first() {
        Some((first, body)) => (400 + u16::from(*first) % 200, body),
        None => (400, bytes),
    };
    crate::redfish::exercise(status, body, SECRET);
    scrubbed(&crate::http::text_of(body));
}

/// A recording of the text holds neither the secret nor anything that is not text.
fn scrubbed(text: &str) {
    let mut scrubber = Scrubber::default();
    scrubber.password(SECRET);
    scrubber.learn(text);
    let clean = scrubber.scrub(text);
    assert!(!clean.contains(SECRET), "a secret is left in {clean:?}");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_corpora_are_read_without_a_panic() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (name, target) in [("ribcl", super::ribcl as fn(&[u8])), ("redfish", super::redfish)] {
            let mut inputs = 0;
            for corpus in [
                folder.join("fuzz/corpus").join(name),
                folder.join("tests/corpus").join(name),
            ] {
                let entries =
                    std::fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
                for entry in entries {
                    target(&std::fs::read(entry.unwrap().path()).unwrap());
                    inputs += 1;
                }
            }
            assert!(inputs >= 10, "{name}: {inputs} inputs");
        }
    }
}
