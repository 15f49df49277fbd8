//! Whom the client trusts: a CA file of the site's own, which may be replaced while it runs.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use sources::{SourceError, Sources, SourcesConfig};

use crate::Site;
use crate::server::{Server, ok};

/// A CA's certificate, and a server's set-up that it vouches for.
fn authority() -> (String, rustls::ServerConfig) {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &ca).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    (ca.pem(), config)
}

fn trusting(site: &Site, pem: &str) -> (Sources, std::path::PathBuf) {
    let path = site.folder.path().join("ca.pem");
    std::fs::write(&path, pem).unwrap();
    let sources = Sources::new(SourcesConfig {
        ca: Some(path.clone()),
        revalidate_after: std::time::Duration::ZERO,
        ..site.config()
    });
    (sources.unwrap(), path)
}

#[tokio::test]
async fn a_server_is_trusted_by_the_sites_ca_and_not_without_it() {
    let site = Site::new();
    let (pem, config) = authority();
    let server = Server::start_tls(config).await;
    let url = server.on("/image", [ok(&[], b"x")]);
    let (sources, _) = trusting(&site, &pem);
    assert_eq!(sources.fetch(&url, None).await.unwrap().len, 1);
    let site = Site::new();
    let error = site.sources().fetch(&url, None).await.unwrap_err();
    assert!(matches!(error, SourceError::Unreachable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("certificate") && text.contains("CA file"), "{text}");
    // Each thing is said once, however many layers repeat it.
    assert_eq!(text.matches("certificate").count(), 1, "{text}");
    assert_eq!(text.matches(&url).count(), 1, "{text}");
}

#[tokio::test]
async fn a_ca_file_that_is_replaced_is_read_again() {
    let site = Site::new();
    let ((old, old_config), (new, new_config)) = (authority(), authority());
    let (before, after) = (Server::start_tls(old_config).await, Server::start_tls(new_config).await);
    let (old_url, new_url) = (
        before.on("/image", [ok(&[], b"x")]),
        after.on("/image", [ok(&[], b"y")]),
    );
    let (sources, path) = trusting(&site, &old);
    sources.fetch(&old_url, None).await.unwrap();
    sources.fetch(&new_url, None).await.unwrap_err();
    // In place, and as an editor does it: a new file under the old name.
    std::fs::write(&path, &new).unwrap();
    sources.fetch(&new_url, None).await.unwrap();
    sources.fetch(&old_url, None).await.unwrap_err();
    let other = path.with_extension("new");
    std::fs::write(&other, &old).unwrap();
    std::fs::rename(&other, &path).unwrap();
    sources.fetch(&old_url, None).await.unwrap();
    sources.fetch(&new_url, None).await.unwrap_err();
}

#[tokio::test]
async fn while_a_ca_file_is_being_written_the_last_one_counts() {
    let site = Site::new();
    let (pem, config) = authority();
    let server = Server::start_tls(config).await;
    let url = server.on("/image", [ok(&[], b"x")]);
    let (sources, path) = trusting(&site, &pem);
    for half in ["", &pem[..pem.len() / 2], "no certificate"] {
        std::fs::write(&path, half).unwrap();
        sources.fetch(&url, None).await.unwrap();
    }
    std::fs::remove_file(&path).unwrap();
    sources.fetch(&url, None).await.unwrap();
}

#[tokio::test]
async fn a_ca_file_that_cannot_be_used_at_the_start_is_an_error_that_names_it() {
    let site = Site::new();
    let path = site.folder.path().join("ca.pem");
    for (text, said) in [
        (None, "cannot be read"),
        (Some(""), "no PEM certificate"),
        (Some("not PEM"), "no PEM certificate"),
        (Some("-----BEGIN CERTIFICATE-----\nx\n"), "is not PEM"),
    ] {
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let ca = Some(path.clone());
        let error = Sources::new(SourcesConfig { ca, ..site.config() })
            .unwrap_err()
            .to_string();
        assert!(error.contains(said), "{text:?}: {error}");
        assert_eq!(error.matches("ca.pem").count(), 1, "{error}");
    }
}
