//! Answers of every shape, kept as files: whatever a fuzzer or a user finds becomes one more.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::peer::*;
use bmc::{Bmc, BmcError};

fn kind(error: &BmcError) -> &'static str {
    match error {
        BmcError::Login { .. } => "login",
        BmcError::License { .. } => "license",
        BmcError::Busy { .. } => "busy",
        BmcError::Unsupported { .. } => "unsupported",
        BmcError::Refused { .. } => "refused",
        BmcError::Protocol { .. } => "protocol",
        _ => "something else",
    }
}

#[tokio::test]
async fn every_answer_of_the_corpus_brings_what_is_expected() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/ribcl");
    let expected = std::fs::read_to_string(folder.join("EXPECTED")).unwrap();
    let expected: BTreeMap<&str, &str> = expected
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(':').unwrap())
        .collect();
    let mut files: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "EXPECTED")
        .collect();
    files.sort();
    assert!(
        files.iter().map(String::as_str).eq(expected.keys().copied()),
        "EXPECTED lists every file once"
    );
    let peer = Peer::http().await;
    let device = [("DEVICE".to_owned(), "CDROM".to_owned())];
    for name in files {
        let body = std::fs::read(folder.join(&name)).unwrap();
        peer.on("GET_VM_STATUS", [Answer::Bytes(body)]);
        let got = match peer.client().raw_ribcl("GET_VM_STATUS", &device).await {
            Ok(xml) => xml,
            Err(error) => kind(&error).to_owned(),
        };
        assert_eq!(got, expected[name.as_str()].trim(), "{name}");
    }
}
