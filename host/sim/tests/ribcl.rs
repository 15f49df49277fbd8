//! RIBCL as its clients meet it: documents, chunks, refusals, and iLO 2's form of it.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as its body may")]

mod support;

use std::pin::Pin;

use openssl::ssl::{Ssl, SslContext, SslMethod, SslVerifyMode, SslVersion};
use reqwest::{Method, StatusCode};
use sim::{Device, Profile};
use support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_openssl::SslStream;

const DECLARATION: &str = "<?xml version=\"1.0\"?>\r\n";

async fn ilo(profile: &str) -> Lab {
    lab(|config| config.profile = Profile::by_name(profile).unwrap()).await
}

fn script(password: &str, wrapper: &str, mode: &str, commands: &str) -> String {
    format!(
        "<RIBCL VERSION=\"2.0\">\r\n<LOGIN USER_LOGIN=\"{USER}\" PASSWORD=\"{password}\">\r\n<{wrapper} MODE=\"{mode}\">\r\n\
         {commands}\r\n</{wrapper}>\r\n</LOGIN>\r\n</RIBCL>\r\n"
    )
}

async fn post(lab: &Lab, script: &str) -> String {
    let reply = lab
        .client
        .post(lab.url("/ribcl"))
        .body(script.to_owned())
        .send()
        .await
        .unwrap();
    assert_eq!(reply.status(), StatusCode::OK);
    assert_eq!(reply.headers()["server"], "Allegro-Software-RomPager/4.62");
    assert_eq!(reply.headers()["transfer-encoding"], "chunked");
    assert_eq!(reply.headers()["content-type"], "text/xml");
    assert_eq!(reply.headers()["connection"], "close");
    assert!(!reply.headers().contains_key("content-length"));
    reply.text().await.unwrap()
}

async fn ask(lab: &Lab, wrapper: &str, mode: &str, commands: &str) -> String {
    post(
        lab,
        &(DECLARATION.to_owned() + &script(PASSWORD, wrapper, mode, commands)),
    )
    .await
}

/// Code and message of each document.
fn statuses(answer: &str) -> Vec<(u16, String)> {
    let documents = answer.split("<?xml").skip(1);
    documents
        .map(|document| {
            let code = document.split("STATUS=\"0x").nth(1).unwrap();
            let message = document.split("MESSAGE='").nth(1).unwrap();
            let message = message.split("'\n").next().unwrap().trim_end_matches("'\r");
            (u16::from_str_radix(&code[..4], 16).unwrap(), message.to_owned())
        })
        .collect()
}

fn codes(answer: &str) -> Vec<u16> {
    statuses(answer).into_iter().map(|(code, _)| code).collect()
}

#[tokio::test]
async fn each_tag_is_answered_by_a_document() {
    let lab = ilo("ilo4").await;
    let answer = ask(&lab, "SERVER_INFO", "read", "<GET_PRODUCT_NAME/>").await;
    assert_eq!(codes(&answer), [0; 7]);
    let fifth = answer.split("<?xml").nth(5).unwrap();
    assert!(
        fifth.contains("<PRODUCT_NAME VALUE =\"ProLiant DL360 Gen9\"/>"),
        "{answer}"
    );

    // Without a declaration there is one document less, and the payload is in the fourth.
    let answer = post(&lab, &script(PASSWORD, "SERVER_INFO", "read", "<GET_PRODUCT_NAME/>")).await;
    assert_eq!(codes(&answer), [0; 6]);
    assert!(
        answer.split("<?xml").nth(4).unwrap().contains("<PRODUCT_NAME "),
        "{answer}"
    );

    // A setting within a command is a tag of its own.
    let set = "<SET_VM_STATUS DEVICE=\"CDROM\"><VM_BOOT_OPTION VALUE=\"BOOT_ONCE\"/><VM_WRITE_PROTECT VALUE=\"YES\"/></SET_VM_STATUS>";
    assert_eq!(codes(&ask(&lab, "RIB_INFO", "write", set).await), [0; 9]);
}

#[tokio::test]
async fn an_error_is_followed_by_successes_and_a_syntax_error_ends_the_answer() {
    let lab = ilo("ilo4").await;
    for (wrapper, mode, command, want, rest) in [
        ("RIB_INFO", "read", "<GET_VM_STATUS DEVICE=\"TAPE\"/>", 0x35, 2),
        ("RIB_INFO", "write", "<EJECT_VIRTUAL_MEDIA DEVICE=\"CDROM\"/>", 0x39, 2),
        ("SERVER_INFO", "write", "<RESET_SERVER/>", 0xff, 2),
        ("SERVER_INFO", "read", "<RESET_SERVER/>", 0xff, 2),
        ("USER_INFO", "read", "<GET_USER USER_LOGIN=\"nobody\"/>", 0x0a, 2),
        // The wrong wrapper, after four stages that went well.
        ("SERVER_INFO", "read", "<GET_VM_STATUS DEVICE=\"CDROM\"/>", 0x01, 0),
        ("RIB_INFO", "read", "<get_fw_version/>", 0x01, 0),
        ("RIB_INFO", "read", "<GET_VM_STATUS/>", 0x01, 0),
        (
            "SERVER_INFO",
            "write",
            "<SET_HOST_POWER HOST_POWER=\"Perhaps\"/>",
            0x01,
            0,
        ),
        ("SERVER_INFO", "write", "<SET_ONE_TIME_BOOT VALUE=\"TAPE\"/>", 0x01, 0),
        (
            "SERVER_INFO",
            "write",
            "<SET_PERSISTENT_BOOT></SET_PERSISTENT_BOOT>",
            0x01,
            0,
        ),
        (
            "RIB_INFO",
            "write",
            "<SET_VM_STATUS DEVICE=\"CDROM\"><VM_BOOT VALUE=\"X\"/></SET_VM_STATUS>",
            0x01,
            0,
        ),
    ] {
        let answer = ask(&lab, wrapper, mode, command).await;
        let mut expected = vec![0; 4];
        expected.push(want);
        expected.extend(vec![0; rest]);
        assert_eq!(codes(&answer), expected, "{command}: {answer}");
        let trace = lab.running.trace(0).unwrap();
        let told = trace.last().unwrap();
        assert!(
            told.message.as_ref().unwrap().starts_with(&format!("0x{want:04X} ")),
            "{told:?}"
        );
    }
    let answer = ask(&lab, "SERVER_INFO", "read", "<GET_VM_STATUS DEVICE=\"CDROM\"/>").await;
    let message = &statuses(&answer)[4].1;
    assert_eq!(message, "Error: Line #5: syntax error near \"GET_VM_STATUS\".");
    let answer = ask(&lab, "SERVER_INFO", "write", "<SET_HOST_POWER HOST_POWER=\"No\"/>").await;
    assert_eq!(statuses(&answer)[4], (0, "Host power is already OFF.".to_owned()));
}

#[tokio::test]
async fn a_login_fails_at_its_own_stage_and_passwords_are_taken_escaped_or_not() {
    let lab = lab(|config| {
        config.profile = Profile::by_name("ilo4").unwrap();
        config.password = "a&b<\"c'>d".to_owned();
    })
    .await;
    for password in ["a&b<\"c'>d", "a&amp;b&lt;&quot;c&apos;&gt;d"] {
        let answer = post(&lab, &script(password, "RIB_INFO", "read", "<GET_FW_VERSION/>")).await;
        assert_eq!(codes(&answer), [0; 6], "{password}");
    }
    let answer = post(&lab, &script("wrong", "RIB_INFO", "read", "<GET_FW_VERSION/>")).await;
    assert_eq!(
        statuses(&answer),
        [(0, "No error".to_owned()), (0x5f, "Login failed.".to_owned())]
    );
    let kept = serde_json::to_string(&lab.running.trace(0).unwrap()).unwrap();
    assert!(
        !kept.contains("a&b") && !kept.contains("wrong") && !kept.contains("PASSWORD"),
        "{kept}"
    );
}

#[tokio::test]
async fn scripts_of_any_kind_are_answered_and_bounded() {
    let lab = ilo("ilo4").await;
    for nonsense in [
        "",
        "<",
        "hello",
        "<RIBCL>",
        "<RIBCL VERSION=\"2.0\"></RIBCL>",
        "<A/>",
        "<RIBCL VERSION=\"2.0\"><LOGIN>",
    ] {
        post(&lab, nonsense).await;
    }
    let many = "<GET_FW_VERSION/>".repeat(600);
    let answer = ask(&lab, "RIB_INFO", "read", &many).await;
    assert!(codes(&answer).len() <= 520 && codes(&answer).last() == Some(&1));
    let long = script(
        PASSWORD,
        "RIB_INFO",
        "write",
        &format!("<EJECT_VIRTUAL_MEDIA DEVICE=\"{}\"/>", "x".repeat(5000)),
    );
    assert!(codes(&post(&lab, &long).await).contains(&1));
    let huge = "x".repeat(70 << 10);
    let reply = lab.client.post(lab.url("/ribcl")).body(huge).send().await.unwrap();
    assert_eq!(reply.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let old = "<RIBCL VERSION=\"1.0\"><LOGIN USER_LOGIN=\"x\" PASSWORD=\"y\">";
    assert!(
        post(&lab, old)
            .await
            .contains("<INFORM>The RIBCL version is incorrect.")
    );
}

#[tokio::test]
async fn a_path_is_there_only_if_it_is_spoken() {
    let rest = ["/redfish/v1", "/rest/v1"];
    for (profile, there) in [("ilo4", &rest[..]), ("ilo4-ris", &rest[1..]), ("ilo5", &rest[..1])] {
        let lab = ilo(profile).await;
        for path in rest {
            let status = lab.request(Method::GET, path).send().await.unwrap().status().as_u16();
            assert_eq!(
                status,
                if there.contains(&path) { 200 } else { 404 },
                "{profile} {path}"
            );
        }
        let get = lab.request(Method::GET, "/ribcl").send().await.unwrap();
        assert_eq!(get.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}

#[tokio::test]
async fn a_reset_of_the_bmc_is_announced_and_loses_media() {
    let lab = ilo("ilo4").await;
    let insert = "<INSERT_VIRTUAL_MEDIA DEVICE=\"CDROM\" IMAGE_URL=\"http://127.0.0.1:9/a.iso\"/>";
    ask(&lab, "RIB_INFO", "write", insert).await;
    assert!(lab.running.inserted(0, Device::Cd).unwrap().is_some());
    assert_eq!(
        lab.running.media_reads(0, Device::Cd).unwrap()[0].errors,
        0,
        "an insert fetches nothing"
    );
    let answer = ask(&lab, "RIB_INFO", "write", "<RESET_RIB/>").await;
    assert!(answer.contains("<INFORM>Integrated Lights-Out will reset at the end of the script.</INFORM>"));
    assert_eq!(lab.running.inserted(0, Device::Cd).unwrap(), None);
}

/// A connection to an old BMC, with nothing newer than `newest`.
async fn old_tls(lab: &Lab, newest: SslVersion) -> Result<SslStream<TcpStream>, String> {
    let mut context = SslContext::builder(SslMethod::tls_client()).unwrap();
    context.set_security_level(0);
    context.set_min_proto_version(Some(SslVersion::TLS1)).unwrap();
    context.set_max_proto_version(Some(newest)).unwrap();
    context.set_cipher_list("ALL:@SECLEVEL=0").unwrap();
    context.set_ca_file(lab.running.ca_pem()).unwrap();
    context.set_verify(SslVerifyMode::PEER);
    let tcp = TcpStream::connect(lab.running.server(0).unwrap().address)
        .await
        .unwrap();
    let mut ssl = Ssl::new(&context.build()).unwrap();
    ssl.param_mut().set_ip("127.0.0.1".parse().unwrap()).unwrap();
    let mut stream = SslStream::new(ssl, tcp).unwrap();
    match Pin::new(&mut stream).connect().await {
        Ok(()) => Ok(stream),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn old_bmcs_offer_old_tls_and_nothing_newer() {
    for (profile, newest) in [("ilo2", SslVersion::TLS1), ("ilo3", SslVersion::TLS1_1)] {
        let lab = ilo(profile).await;
        let stream = old_tls(&lab, SslVersion::TLS1_2).await.unwrap();
        assert_eq!(stream.ssl().version2(), Some(newest), "{profile}");
        let cipher = stream.ssl().current_cipher().unwrap().name().to_owned();
        assert!(
            ["AES256-SHA", "AES128-SHA", "DES-CBC3-SHA", "RC4-SHA", "RC4-MD5"].contains(&cipher.as_str()),
            "{cipher}"
        );
        let certificate = stream.ssl().peer_certificate().unwrap();
        let bits = certificate.public_key().unwrap().bits();
        assert_eq!(bits, if profile == "ilo2" { 1024 } else { 2048 });
        let modern = lab.request(Method::GET, "/redfish/v1").send().await;
        assert!(modern.is_err(), "{profile}: a client of today gets no connection");
    }
    let lab = ilo("ilo4").await;
    assert!(
        old_tls(&lab, SslVersion::TLS1_1).await.is_err(),
        "an iLO 4 of late offers nothing older than TLS 1.2"
    );
}

async fn read_until(stream: &mut SslStream<TcpStream>, documents: usize) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while text.matches("</RIBCL>").count() < documents {
        let count = stream.read(&mut buffer).await.unwrap();
        assert_ne!(count, 0, "it ended after {text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    text
}

#[tokio::test]
async fn an_ilo_2_answers_the_declaration_by_itself_and_stays_connected() {
    let lab = ilo("ilo2").await;
    let mut stream = old_tls(&lab, SslVersion::TLS1_2).await.unwrap();
    stream.write_all(DECLARATION.as_bytes()).await.unwrap();
    let first = read_until(&mut stream, 1).await;
    assert!(
        first.starts_with("<?xml version=\"1.0\"?>\r\n<RIBCL VERSION=\"2.22\"/>\r\n"),
        "{first}"
    );
    let status = script(PASSWORD, "RIB_INFO", "read", "<GET_VM_STATUS DEVICE=\"CDROM\"/>");
    stream.write_all(status.as_bytes()).await.unwrap();
    let rest = read_until(&mut stream, 6).await;
    assert_eq!(codes(&rest), [0; 6]);
    assert!(
        rest.contains("<INFORM>Scripting utility should be updated to the latest version.</INFORM>"),
        "{rest}"
    );
    assert!(rest.contains("    WRITE_PROTECT=\"YES\"\r\n"), "{rest}");
    // It does not close; what ends is the test.
    let more = tokio::time::timeout(std::time::Duration::from_millis(300), stream.read_u8()).await;
    assert!(more.is_err(), "{more:?}");

    let wrong = script(PASSWORD, "SERVER_INFO", "read", "<GET_VM_STATUS DEVICE=\"CDROM\"/>");
    let mut stream = old_tls(&lab, SslVersion::TLS1_2).await.unwrap();
    stream.write_all(DECLARATION.as_bytes()).await.unwrap();
    stream.write_all(wrong.as_bytes()).await.unwrap();
    let answer = read_until(&mut stream, 5).await;
    assert_eq!(codes(&answer), [0, 0, 0, 0, 1]);
    assert!(
        answer.contains("'Syntax error: Line #0: syntax error near \"GET_VM_STATUS\" in the line: \"\"'"),
        "{answer}"
    );
}

#[tokio::test]
async fn an_ilo_2_trips_over_a_declaration_that_does_not_come_alone_and_has_no_ribcl_over_http() {
    let lab = ilo("ilo2").await;
    let mut stream = old_tls(&lab, SslVersion::TLS1_2).await.unwrap();
    let both = DECLARATION.to_owned() + &script(PASSWORD, "RIB_INFO", "read", "<GET_FW_VERSION/>");
    stream.write_all(both.as_bytes()).await.unwrap();
    let answer = read_until(&mut stream, 1).await;
    assert!(
        answer.contains("STATUS=\"0x0001\"") && answer.contains("near \"?&gt;\""),
        "{answer}"
    );

    let mut stream = old_tls(&lab, SslVersion::TLS1_2).await.unwrap();
    let request = "POST /ribcl HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    // However it ends.
    let _ = stream.read_to_end(&mut reply).await;
    assert!(
        reply.starts_with(b"HTTP/1.1 404 Not Found\r\n"),
        "{}",
        String::from_utf8_lossy(&reply)
    );
}
