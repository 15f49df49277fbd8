//! TLS as old BMCs offer it: TLS 1.0 and 1.1 with CBC ciphers and no forward secrecy, by the machine's OpenSSL. RC4 and 3DES, which
//! they offer as well, are there only where that library still has them.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;

use openssl::asn1::{Asn1Integer, Asn1Time};
use openssl::bn::BigNum;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::ssl::{Ssl, SslContext, SslMethod, SslVersion};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509Name, X509NameBuilder};
use tokio_openssl::SslStream;

use crate::profile::TlsOffer;

/// What the linked library lacks of these is passed over. RSA key exchange alone, as on iLO 2 and 3.
const CIPHERS: &str = "AES256-SHA:AES128-SHA:DES-CBC3-SHA:RC4-SHA:RC4-MD5:@SECLEVEL=0";
const DAYS: u32 = 3650;

/// A CA, and a server's context with a certificate of it for the loopback names and `extra`.
pub(super) fn generate(offer: TlsOffer, extra: Option<IpAddr>) -> Result<(String, SslContext), ErrorStack> {
    let ca_key = PKey::from_rsa(Rsa::generate(2048)?)?;
    let ca_name = name("Simulated iLO CA")?;
    let mut builder = certificate(&ca_name, &ca_name, &ca_key, 1)?;
    builder.append_extension(BasicConstraints::new().critical().ca().build()?)?;
    builder.sign(&ca_key, MessageDigest::sha256())?;
    let ca = builder.build();

    // An iLO 2's own certificate has a key of 1024 bits.
    let bits = if offer == TlsOffer::Oldest { 1024 } else { 2048 };
    let key = PKey::from_rsa(Rsa::generate(bits)?)?;
    let mut builder = certificate(&name("Simulated iLO")?, &ca_name, &key, 2)?;
    let mut names = SubjectAlternativeName::new();
    names.dns("localhost").ip("127.0.0.1").ip("::1");
    if let Some(extra) = extra.filter(|extra| !extra.is_loopback()) {
        names.ip(&extra.to_string());
    }
    let names = names.build(&builder.x509v3_context(Some(&ca), None))?;
    builder.append_extension(names)?;
    builder.sign(&ca_key, MessageDigest::sha1())?;
    let leaf = builder.build();

    let newest = match offer {
        TlsOffer::Oldest => SslVersion::TLS1,
        TlsOffer::Legacy | TlsOffer::Modern => SslVersion::TLS1_1,
    };
    let mut context = SslContext::builder(SslMethod::tls_server())?;
    context.set_security_level(0);
    context.set_min_proto_version(Some(SslVersion::TLS1))?;
    context.set_max_proto_version(Some(newest))?;
    context.set_cipher_list(CIPHERS)?;
    context.set_certificate(&leaf)?;
    context.set_private_key(&key)?;
    let pem = String::from_utf8_lossy(&ca.to_pem()?).into_owned();
    Ok((pem, context.build()))
}

fn certificate(
    subject: &X509Name,
    issuer: &X509Name,
    key: &PKey<Private>,
    serial: u32,
) -> Result<X509Builder, ErrorStack> {
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    let serial: Asn1Integer = BigNum::from_u32(serial)?.to_asn1_integer()?;
    builder.set_serial_number(&serial)?;
    builder.set_subject_name(subject)?;
    builder.set_issuer_name(issuer)?;
    builder.set_pubkey(key)?;
    let (from, until) = (Asn1Time::days_from_now(0)?, Asn1Time::days_from_now(DAYS)?);
    builder.set_not_before(&from)?;
    builder.set_not_after(&until)?;
    Ok(builder)
}

fn name(common: &str) -> Result<X509Name, ErrorStack> {
    let mut name = X509NameBuilder::new()?;
    name.append_entry_by_text("CN", common)?;
    Ok(name.build())
}

/// Does the handshake.
pub(super) async fn accept<S: super::Stream>(context: &SslContext, tcp: S) -> io::Result<SslStream<S>> {
    let ssl = Ssl::new(context).map_err(io::Error::other)?;
    let mut stream = SslStream::new(ssl, tcp).map_err(io::Error::other)?;
    Pin::new(&mut stream).accept().await.map_err(io::Error::other)?;
    Ok(stream)
}
