//! An iLO 2 and an iLO 3 are found out by what they answer.

use crate::legacy::{Identity, start, trusting};
use crate::peer::*;
use bmc::probe::{Presence, Transport, probe};
use bmc::{Bmc, BmcConfig, BmcError, ProbedBmc, Protocols};
use model::PowerState;

fn answers(peer: &Peer, processor: &str) {
    peer.on(
        "GET_FW_VERSION",
        [says(&format!(
            "<GET_FW_VERSION FIRMWARE_VERSION=\"2.29\" MANAGEMENT_PROCESSOR=\"{processor}\"/>"
        ))],
    );
    peer.on("GET_VM_STATUS", [vm(None, "NO_BOOT")]);
}

#[tokio::test]
async fn an_ilo_2_is_spoken_to_in_its_raw_form() {
    let identity = Identity::new("127.0.0.1", 400);
    let peer = start(true, &identity).await;
    answers(&peer, "iLO2");
    let config = trusting(&peer, &identity.pem());
    let found = probe(&config).await.unwrap();
    assert_eq!(found.transport, Transport::RibclRaw);
    assert_eq!(found.identity.bmc_generation, Some(2));
    let spoken: Vec<bool> = found
        .findings
        .iter()
        .map(|finding| matches!(finding.presence, Presence::Spoken { .. }))
        .collect();
    assert_eq!(spoken, [false, false, false, true]);
    assert_eq!(
        (&found.capabilities.cdrom, &found.capabilities.floppy),
        (&Ok(()), &Ok(()))
    );
    assert!(found.capabilities.secure_boot.is_err());
    let bmc = ProbedBmc::new(config, None).unwrap();
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::On);
    assert_eq!(bmc.session_uri(), None);
    bmc.close().await;
}

#[tokio::test]
async fn an_ilo_3_is_spoken_to_by_https() {
    let identity = Identity::new("127.0.0.1", 400);
    let peer = start(false, &identity).await;
    answers(&peer, "iLO3");
    let bmc = ProbedBmc::new(trusting(&peer, &identity.pem()), None).unwrap();
    assert_eq!(bmc.transport().await.unwrap(), Transport::Ribcl);
    assert_eq!(bmc.identity().await.unwrap().bmc_model.as_deref(), Some("iLO 3"));
}

#[tokio::test]
async fn legacy_tls_that_is_not_allowed_is_named_as_the_reason() {
    let identity = Identity::new("127.0.0.1", 400);
    let peer = start(true, &identity).await;
    let config = BmcConfig {
        protocols: Protocols::Modern,
        ..trusting(&peer, &identity.pem())
    };
    let error = probe(&config).await.unwrap_err();
    assert!(matches!(error, BmcError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("bmc_tls"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_ends_the_search_after_one_login() {
    let peer = Peer::http().await;
    peer.on("GET_FW_VERSION", [fails(0x005F, "Login failed.")]);
    let error = probe(&peer.config()).await.unwrap_err();
    assert!(matches!(error, BmcError::Login { .. }), "{error}");
    assert_eq!(
        peer.seen().iter().filter(|command| command.contains("GET_FW")).count(),
        1
    );
}
