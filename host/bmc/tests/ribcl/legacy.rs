//! TLS 1.0 as iLO 2 and iLO 3 speak it: who is believed, what is offered only on demand, and iLO 2's raw form.

use std::time::{Duration, Instant};

use crate::peer::*;
use bmc::ribcl::RibclBmc;
use bmc::trace::Form;
use bmc::{Bmc, BmcConfig, BmcError, Ca, Protocols, Tls};
use model::PowerState;
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::ssl::{SslContext, SslMethod, SslVersion};
use openssl::x509::extension::SubjectAlternativeName;
use openssl::x509::{X509, X509NameBuilder};

/// A certificate as a factory makes it: signed by itself.
pub(crate) struct Identity {
    key: PKey<Private>,
    certificate: X509,
}

impl Identity {
    /// For this address, good until this many days from now.
    pub(crate) fn new(ip: &str, days: i64) -> Self {
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        let mut name = X509NameBuilder::new().unwrap();
        name.append_entry_by_text("CN", "ILOCZJ1").unwrap();
        let name = name.build();
        let mut builder = X509::builder().unwrap();
        builder.set_version(2).unwrap();
        builder
            .set_serial_number(&BigNum::from_u32(7).unwrap().to_asn1_integer().unwrap())
            .unwrap();
        builder.set_subject_name(&name).unwrap();
        builder.set_issuer_name(&name).unwrap();
        builder.set_pubkey(&key).unwrap();
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let now = i64::try_from(now.as_secs()).unwrap();
        let at = |days: i64| Asn1Time::from_unix(now + days * 86_400).unwrap();
        builder.set_not_before(&at(-400)).unwrap();
        builder.set_not_after(&at(days)).unwrap();
        let names = SubjectAlternativeName::new()
            .ip(ip)
            .build(&builder.x509v3_context(None, None))
            .unwrap();
        builder.append_extension(names).unwrap();
        builder.sign(&key, MessageDigest::sha1()).unwrap();
        Self {
            certificate: builder.build(),
            key,
        }
    }

    pub(crate) fn pem(&self) -> String {
        String::from_utf8(self.certificate.to_pem().unwrap()).unwrap()
    }

    /// A server that speaks TLS 1.0 alone, with this suite alone.
    fn server(&self, suite: &str) -> SslContext {
        let mut builder = SslContext::builder(SslMethod::tls_server()).unwrap();
        builder.set_security_level(0);
        builder.set_min_proto_version(Some(SslVersion::TLS1)).unwrap();
        builder.set_max_proto_version(Some(SslVersion::TLS1)).unwrap();
        builder.set_cipher_list(&format!("{suite}:@SECLEVEL=0")).unwrap();
        builder.set_certificate(&self.certificate).unwrap();
        builder.set_private_key(&self.key).unwrap();
        builder.build()
    }
}

pub(crate) fn trusting(peer: &Peer, pem: &str) -> BmcConfig {
    let ca = Some(Ca::Pem(pem.to_owned()));
    BmcConfig {
        tls: Tls::Verify { ca },
        ..peer.config()
    }
}

pub(crate) async fn start(raw: bool, identity: &Identity) -> Peer {
    let context = identity.server("AES128-SHA");
    let peer = Peer::start(if raw {
        Speech::Raw(context)
    } else {
        Speech::Https(context)
    })
    .await;
    peer.on("GET_HOST_POWER_STATUS", [power("ON")]);
    peer
}

#[tokio::test]
async fn tls_1_0_is_spoken_where_it_is_allowed_and_one_connection_serves_many_commands() {
    let identity = Identity::new("127.0.0.1", 400);
    let peer = start(false, &identity).await;
    let bmc = RibclBmc::new(trusting(&peer, &identity.pem()), Form::Http).unwrap();
    for _ in 0..3 {
        assert_eq!(bmc.power_state().await.unwrap(), PowerState::On);
    }
    assert_eq!(peer.connections(), 1);
    let host = peer.address.0.trim_start_matches("https://").to_owned();
    assert!(
        peer.letters()[0]
            .to_lowercase()
            .contains(&format!("\r\nhost: {host}\r\n")),
        "{:?}",
        peer.letters()
    );
}

#[tokio::test]
async fn a_connection_that_the_bmc_closed_is_opened_anew() {
    let identity = Identity::new("127.0.0.1", 400);
    let peer = start(false, &identity).await;
    let Answer::Say(text) = power("ON") else { unreachable!() };
    let bmc = RibclBmc::new(trusting(&peer, &identity.pem()), Form::Http).unwrap();
    bmc.power_state().await.unwrap();
    peer.on("GET_HOST_POWER_STATUS", [Answer::Drop, Answer::Cut(text), power("OFF")]);
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::Off);
    assert_eq!(peer.connections(), 3);
}

#[tokio::test]
async fn it_is_not_spoken_unless_allowed_and_the_error_says_how_to_allow_it() {
    let identity = Identity::new("127.0.0.1", 400);
    let peer = start(false, &identity).await;
    let config = BmcConfig {
        protocols: Protocols::Modern,
        ..trusting(&peer, &identity.pem())
    };
    let error = RibclBmc::new(config, Form::Http)
        .unwrap()
        .power_state()
        .await
        .unwrap_err();
    assert!(matches!(error, BmcError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("bmc_tls"), "{error}");
    assert_eq!(peer.seen(), [""; 0]);
}

#[tokio::test]
async fn an_unknown_certificate_is_refused_and_no_password_is_sent() {
    let identity = Identity::new("127.0.0.1", 400);
    let other = Identity::new("127.0.0.1", 400);
    for raw in [false, true] {
        let peer = start(raw, &identity).await;
        for config in [peer.config(), trusting(&peer, &other.pem())] {
            let error = RibclBmc::new(config, peer.form)
                .unwrap()
                .power_state()
                .await
                .unwrap_err();
            assert!(matches!(error, BmcError::Settings { .. }), "{error}");
            assert!(error.to_string().contains("ilo_verify_ca"), "{error}");
        }
        assert_eq!(peer.seen(), [""; 0]);
        let insecure = BmcConfig {
            tls: Tls::Insecure,
            ..peer.config()
        };
        RibclBmc::new(insecure, peer.form).unwrap().power_state().await.unwrap();
    }
}

#[tokio::test]
async fn the_bmcs_own_certificate_is_trusted_whatever_name_and_dates_it_bears() {
    for identity in [Identity::new("192.0.2.1", 400), Identity::new("127.0.0.1", -1)] {
        let peer = start(false, &identity).await;
        let bmc = RibclBmc::new(trusting(&peer, &identity.pem()), Form::Http).unwrap();
        bmc.power_state().await.unwrap();
    }
}

#[tokio::test]
async fn old_suites_are_offered() {
    let identity = Identity::new("127.0.0.1", 400);
    for suite in ["AES256-SHA", "ECDHE-RSA-AES128-SHA"] {
        let peer = Peer::start(Speech::Https(identity.server(suite))).await;
        peer.on("GET_HOST_POWER_STATUS", [power("ON")]);
        let bmc = RibclBmc::new(trusting(&peer, &identity.pem()), Form::Http).unwrap();
        bmc.power_state().await.unwrap();
    }
}

#[tokio::test]
async fn a_port_that_speaks_no_tls_is_unreachable() {
    let peer = Peer::http().await;
    let config = BmcConfig {
        address: model::BmcAddress(peer.address.0.replace("http:", "https:")),
        protocols: Protocols::Legacy,
        ..peer.config()
    };
    let error = RibclBmc::new(config, Form::Http)
        .unwrap()
        .power_state()
        .await
        .unwrap_err();
    assert!(matches!(error, BmcError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn the_raw_form_writes_the_declaration_apart_and_ends_although_the_bmc_does_not_close() {
    let identity = Identity::new("127.0.0.1", 400);
    let peer = start(true, &identity).await;
    let bmc = RibclBmc::new(trusting(&peer, &identity.pem()), Form::Raw).unwrap();
    let start = Instant::now();
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::On);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let reads = peer.reads();
    assert_eq!(reads[0], DECLARATION);
    assert!(reads[1].starts_with("<RIBCL VERSION=\"2.0\">"), "{reads:?}");
}

#[tokio::test]
async fn a_raw_answer_that_trickles_is_waited_for() {
    let identity = Identity::new("127.0.0.1", 400);
    let peer = start(true, &identity).await;
    let Answer::Say(text) = power("OFF") else {
        unreachable!()
    };
    let letters: Vec<char> = text.chars().collect();
    let parts = letters.chunks(11).map(|part| part.iter().collect()).collect();
    peer.on("GET_HOST_POWER_STATUS", [Answer::Chunks(parts)]);
    let bmc = RibclBmc::new(trusting(&peer, &identity.pem()), Form::Raw).unwrap();
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::Off);
}

#[tokio::test]
async fn a_raw_answer_that_stops_midway_is_no_success() {
    let identity = Identity::new("127.0.0.1", 400);
    let peer = start(true, &identity).await;
    let bmc = RibclBmc::new(
        BmcConfig {
            deadlines: bmc::Deadlines {
                request: Duration::from_secs(2),
                ..quick()
            },
            ..trusting(&peer, &identity.pem())
        },
        Form::Raw,
    )
    .unwrap();
    for answer in [
        Answer::Drop,
        Answer::Hang,
        Answer::Say("<?xml version=\"1.0\"?>\r\n<RIBCL VERSI".into()),
    ] {
        peer.on("GET_HOST_POWER_STATUS", [answer]);
        let error = bmc.power_state().await.unwrap_err();
        assert!(
            matches!(error, BmcError::Unreachable { .. } | BmcError::Timeout { .. }),
            "{error}"
        );
    }
}

#[tokio::test]
async fn the_raw_form_wants_legacy_tls() {
    let identity = Identity::new("127.0.0.1", 400);
    let peer = start(true, &identity).await;
    let config = BmcConfig {
        protocols: Protocols::Modern,
        ..peer.config()
    };
    let error = RibclBmc::new(config, Form::Raw).unwrap_err();
    assert!(matches!(error, BmcError::Settings { .. }), "{error}");
    assert!(error.to_string().contains("bmc_tls"), "{error}");
}
