//! Answers of every shape. All of them are written here, after what firmwares are known to do.

use proptest::prelude::*;

use super::*;

const OK: &str = "<?xml version=\"1.0\"?>\r\n<RIBCL VERSION=\"2.23\">\r\n<RESPONSE\r\n    STATUS=\"0x0000\"\r\n    MESSAGE='No error'\r\n     />\r\n</RIBCL>\r\n";

fn document(inside: &str) -> String {
    format!("<?xml version=\"1.0\"?>\n<RIBCL VERSION=\"2.23\">\n{inside}\n</RIBCL>\n")
}

fn status(code: &str, message: &str) -> String {
    format!("<RESPONSE STATUS=\"{code}\" MESSAGE='{message}'/>")
}

#[test]
fn the_payload_is_found_among_the_statuses() {
    let payload = r#"<GET_VM_STATUS VM_APPLET = "DISCONNECTED" DEVICE="CDROM" boot_option='NO_BOOT' IMAGE_URL=""/>"#;
    let text = [OK, OK, OK, &document(&(status("0x0000", "No error") + payload)), OK, OK].join("\r\n\r\n");
    let answer = Answer::read(&text).unwrap();
    assert_eq!(answer.statuses.len(), 6);
    assert_eq!(answer.failure(), None);
    assert_eq!(answer.payload.len(), 1);
    assert_eq!(answer.attribute("BOOT_OPTION"), Some("NO_BOOT"));
    assert_eq!(answer.attribute("IMAGE_URL"), None);
}

#[test]
fn a_failure_counts_although_successes_follow() {
    let text = [OK, &document(&status("0x005F", "Login failed.")), OK, OK].concat();
    let answer = Answer::read(&text).unwrap();
    let failure = answer.failure().unwrap();
    assert_eq!((failure.code, failure.message.as_str()), (0x5f, "Login failed."));
}

#[test]
fn malformed_documents_give_up_what_is_in_them() {
    let product = r#"<GET_PRODUCT_NAME><PRODUCT_NAME VALUE ="ProLiant BL460c G7"/></GET_PRODUCT_NAME>"#;
    let no_error = status("0x0000", "No error");
    for text in [
        // Closed where it opens, and closed again.
        format!("<?xml version=\"1.0\"?><RIBCL VERSION=\"2.22\"/>{no_error}{product}</RIBCL>"),
        // Never closed.
        format!("<?xml version=\"1.0\"?><RIBCL VERSION=\"2.22\">{no_error}{product}"),
        format!("<RIBCL VERSION=\"2.22\">{no_error}<RIBCL VERSION=\"2.22\">{no_error}{product}</RIBCL>"),
        // No declaration, odd case, bytes that XML forbids.
        format!("\u{1}\u{0}<ribcl version='2.22'>{no_error}{product}</Ribcl>\u{1}"),
        format!(
            "{OK}garbage before < and & after{}",
            document(&(no_error.clone() + product))
        ),
        document(&format!("<RESPONSE STATUS=\"0x0000\" MESSAGE='No error'>{product}")),
        document(&format!(
            "{no_error}<GET_PRODUCT_NAME><PRODUCT_NAME value='ProLiant BL460c G7'></GET_PRODUCT_NAME>"
        )),
        document(&format!("{no_error}</LOST></RIBCL>{product}")),
    ] {
        let answer = Answer::read(&text).unwrap();
        let name = answer.element("PRODUCT_NAME").and_then(Element::value);
        assert_eq!(name, Some("ProLiant BL460c G7"), "{text}");
    }
}

#[test]
fn remarks_are_no_payload() {
    let text = document(&(status("0x0000", "No error") + "<INFORM>Scripting utility should be updated.</INFORM>"));
    let answer = Answer::read(&text).unwrap();
    assert_eq!(answer.informs, ["Scripting utility should be updated."]);
    assert!(answer.payload.is_empty());
}

#[test]
fn a_status_that_cannot_be_read_is_no_success() {
    for text in [
        "",
        "<html><body>404</body></html>",
        "{\"error\":{}}",
        &document("<RESPONSE MESSAGE='No error'/>"),
        &document("<RESPONSE STATUS='0x' MESSAGE=''/>"),
        &document("<RESPONSE STATUS='zero'/>"),
        // The quote before it is never closed, so the rest could be a value.
        &document("<X A='<!-- <RESPONSE STATUS=\"0x005F\" MESSAGE=\"Login failed\"/> -->"),
        &(OK.to_owned() + "<!-- " + &document(&status("0x005F", "Login failed"))),
        &document(&"<A>".repeat(100)),
    ] {
        assert!(Answer::read(text).is_err(), "{text}");
    }
}

#[test]
fn a_payload_is_handed_on_as_xml_that_is_well_formed() {
    let payload = "<GET_FW_VERSION FIRMWARE_VERSION = '1.82' LICENSE_TYPE=\"iLO 3 \"Advanced\" edition\">tail & more<B value=1></GET_FW_VERSION>";
    let answer = Answer::read(&document(&(status("0x0000", "No error") + payload))).unwrap();
    let xml = answer.to_xml();
    assert!(
        xml.starts_with("<GET_FW_VERSION FIRMWARE_VERSION=\"1.82\" LICENSE_TYPE=\"iLO 3 &quot;Advanced&quot;"),
        "{xml}"
    );
    let again = Answer::read(&document(&(status("0x0000", "No error") + &xml))).unwrap();
    assert_eq!(again.payload, answer.payload);
}

#[test]
fn an_answer_on_an_open_connection_is_whole_between_documents_only() {
    let failed = document(&status("0x0001", "Syntax error"));
    let read = document(&(status("0x0000", "No error") + "<GET_HOST_POWER HOST_POWER=\"ON\"/>"));
    for (text, want) in [
        (String::new(), Whole::No),
        (OK[..OK.len() - 6].to_owned(), Whole::No),
        (OK.to_owned(), Whole::Early),
        (OK.repeat(4), Whole::Early),
        (OK.repeat(5), Whole::Likely),
        (OK.to_owned() + &failed, Whole::Likely),
        (OK.to_owned() + &read, Whole::Likely),
        (OK.to_owned() + &failed + "<?xml version=\"1.0\"?>\r\n", Whole::Perhaps),
        (
            OK.to_owned() + &read + "<?xml version=\"1.0\"?>\r\n<RIBCL VERSION=\"2.22\">",
            Whole::Perhaps,
        ),
        (OK.to_owned() + &read[..read.len() - 14], Whole::No),
    ] {
        assert_eq!(whole(&text), want, "{text}");
    }
}

/// One way or another to write the same element.
fn spelled(name: &str, attributes: &[(String, String)], style: u8) -> String {
    let quote = if style & 1 == 0 { '"' } else { '\'' };
    let space = if style & 2 == 0 { "" } else { " " };
    let between = if style & 4 == 0 { " " } else { "\r\n    " };
    let name = if style & 8 == 0 {
        name.to_owned()
    } else {
        name.to_ascii_lowercase()
    };
    let mut tag = format!("<{name}");
    for (key, value) in attributes {
        let value = value
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('"', "&quot;")
            .replace('\'', "&apos;");
        let key = if style & 16 == 0 {
            key.clone()
        } else {
            key.to_ascii_lowercase()
        };
        tag.push_str(&format!("{between}{key}{space}={space}{quote}{value}{quote}"));
    }
    tag + space + "/>"
}

proptest! {
    #[test]
    fn whatever_the_spelling_the_same_is_read(
        values in prop::collection::vec("[ -~é]{0,40}", 0..6),
        style in any::<u8>(),
        before in 0usize..4,
        after in 0usize..4,
    ) {
        let attributes: Vec<(String, String)> =
            values.iter().enumerate().map(|(at, value)| (format!("A{at}"), value.clone())).collect();
        let payload = spelled("GET_THING", &attributes, style);
        let text = OK.repeat(before) + &document(&(status("0x0000", "No error") + &payload)) + &OK.repeat(after);
        let answer = Answer::read(&text).unwrap();
        prop_assert_eq!(&answer.payload[0].attributes, &attributes);
        prop_assert_eq!(answer.statuses.len(), before + 1 + after);
    }

    #[test]
    fn no_failure_is_overlooked_wherever_it_stands(
        noise in prop::collection::vec("(<[A-Z]{1,3}( [A-Z]=\"[a-z']{0,5}\"?)?/?>|</[A-Z]{1,3}>|[ -~]{0,12}|\u{1}|<RIBCL VERSION=\"2.22\"/?>|<\\?xml version=\"1.0\"\\?>)", 0..12),
        place in 0usize..12,
    ) {
        let mut parts = noise;
        parts.insert(place.min(parts.len()), document(&status("0x0035", "Invalid option")));
        let text = OK.to_owned() + &parts.concat() + OK;
        if let Ok(answer) = Answer::read(&text) {
            prop_assert_eq!(answer.failure().map(|status| status.code), Some(0x35), "{}", text);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "(\\PC|<|>|\"|'|=|/|&|\\?|!|-|<RESPONSE STATUS=\"0x0000\"|<RIBCL|\u{0}|é|\r\n){0,300}") {
        let _ = whole(&text);
        if let Ok(answer) = Answer::read(&text) {
            let _ = answer.to_xml();
        }
    }
}
