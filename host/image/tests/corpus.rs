//! What fuzzers were given, and what they once found, is read without a panic. Targets and corpora are in `host/image/fuzz`.

#[path = "../fuzz/exercise.rs"]
#[cfg(test)]
mod exercise;

use std::path::Path;

#[test]
fn every_input_of_the_corpora_is_an_image_or_an_error() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, target) in [("fat", exercise::fat as fn(&[u8])), ("iso", exercise::iso)] {
        let corpus = corpora.join(name);
        let entries = std::fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
        let mut inputs = 0;
        for entry in entries {
            target(&std::fs::read(entry.unwrap().path()).unwrap());
            inputs += 1;
        }
        assert!(inputs >= 10, "{name}: {inputs} inputs");
    }
}
