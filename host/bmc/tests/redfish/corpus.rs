//! Refusals of every shape, kept as files: whatever a fuzzer or a user finds becomes one more. The status stands in the name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::peer::*;
use bmc::redfish::RedfishBmc;
use bmc::{Bmc, BmcConfig, BmcError, Deadlines, InsertMedia};
use model::{Device, Secret};

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
async fn every_refusal_of_the_corpus_ends_in_its_kind_of_error() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/redfish");
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
    for name in files {
        let code: u16 = name.split('.').nth(1).unwrap().parse().unwrap();
        let body = std::fs::read(folder.join(&name)).unwrap();
        let answer = Answer::Bytes(code, body);
        let peer = Peer::start().await.into_ilo5();
        for request in [INSERT, OEM_INSERT, EJECT] {
            peer.on(request, [answer.clone()]);
        }
        let deadlines = Deadlines {
            verb: Duration::from_secs(2),
            // A last try that a busy machine answers too late would end as a time-out.
            least_window: Duration::from_millis(800),
            ..quick()
        };
        let bmc = RedfishBmc::new(BmcConfig {
            deadlines,
            ..peer.config()
        })
        .unwrap();
        let image = InsertMedia {
            url: Secret::new("http://10.0.0.1/t0k3n/x.iso"),
            boot_once: false,
            server_certificate: None,
        };
        let error = bmc.insert_media(Device::Cdrom, &image).await.unwrap_err();
        assert_eq!(kind(&error), expected[name.as_str()].trim(), "{name}: {error}");
        assert!(
            error.to_string().chars().count() < 2000 && !error.to_string().contains("t0k3n"),
            "{error}"
        );
    }
}
