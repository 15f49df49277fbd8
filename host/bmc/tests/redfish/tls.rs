//! Whose certificate is believed, and what an operator reads when it is not.

use crate::peer::*;
use bmc::redfish::RedfishBmc;
use bmc::{Bmc, BmcConfig, BmcError, Ca, Tls};

#[tokio::test]
async fn a_certificate_of_the_given_ca_is_trusted() {
    let (peer, ca, _) = Peer::start_tls(&["127.0.0.1"]).await;
    let peer = peer.into_ilo5();
    peer.trusting(&ca).power_state().await.unwrap();
}

#[tokio::test]
async fn the_bmcs_own_certificate_is_trusted_whatever_name_it_bears() {
    let (peer, _, own) = Peer::start_tls(&["ilo-factory.example"]).await;
    let peer = peer.into_ilo5();
    peer.trusting(&own).power_state().await.unwrap();
}

#[tokio::test]
async fn an_unknown_certificate_is_refused_with_the_remedy_and_no_password_is_sent() {
    let (peer, _, _) = Peer::start_tls(&["127.0.0.1"]).await;
    let peer = peer.into_ilo5();
    let (_other, other_ca, _) = Peer::start_tls(&["127.0.0.1"]).await;
    for bmc in [peer.client(), peer.trusting(&other_ca)] {
        let error = bmc.power_state().await.unwrap_err();
        assert!(matches!(error, BmcError::Settings { .. }), "{error}");
        assert!(error.to_string().contains("certificate is not trusted"), "{error}");
        assert!(error.to_string().contains("ilo_verify_ca"), "{error}");
    }
    assert_eq!(peer.lines(), [""; 0]);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused_with_the_remedy() {
    let (peer, ca, _) = Peer::start_tls(&["ilo.example"]).await;
    let peer = peer.into_ilo5();
    let error = peer.trusting(&ca).power_state().await.unwrap_err();
    assert!(error.to_string().contains("for another name"), "{error}");
    assert_eq!(peer.lines(), [""; 0]);
}

#[tokio::test]
async fn insecure_takes_any_certificate() {
    let (peer, _, _) = Peer::start_tls(&["ilo.example"]).await;
    let peer = peer.into_ilo5();
    let config = BmcConfig {
        tls: Tls::Insecure,
        ..peer.config()
    };
    RedfishBmc::new(config).unwrap().power_state().await.unwrap();
}

#[tokio::test]
async fn https_to_an_http_port_is_a_clear_error() {
    let peer = Peer::start().await.into_ilo5();
    let address = model::BmcAddress(peer.address.0.replace("http:", "https:"));
    let config = BmcConfig {
        address,
        tls: Tls::Insecure,
        ..peer.config()
    };
    let error = RedfishBmc::new(config).unwrap().power_state().await.unwrap_err();
    assert!(matches!(error, BmcError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("http instead of https"), "{error}");
}

#[test]
fn a_ca_that_is_none_is_refused_with_its_place() {
    for (ca, part) in [
        (Ca::Pem(String::new()), "no PEM certificate"),
        (Ca::Pem("-----BEGIN CERTIFICATE-----\nAAAA".into()), "`ca` text"),
        (Ca::File("/nonexistent/ca.pem".into()), "/nonexistent/ca.pem"),
        (Ca::File("/dev/zero".into()), "bigger than 1 MiB"),
    ] {
        let config = BmcConfig {
            tls: Tls::Verify { ca: Some(ca) },
            ..BmcConfig::new(model::BmcAddress("https://h".into()), "a", model::Secret::new("b"))
        };
        let error = RedfishBmc::new(config).unwrap_err();
        assert!(matches!(error, BmcError::Settings { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}
