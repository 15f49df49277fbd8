//! Takes out of a recorded dialogue what tells whose it was: secrets, serial numbers, addresses, names. The same thing becomes
//! the same stand-in everywhere, of the same shape, so that the dialogue still makes sense and can be played back.
//!
//! Bodies are changed as text, not parsed and written again: what a firmware gets wrong is why somebody records it.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use crate::ribcl::tags;

/// Shortest value that is looked for everywhere; shorter ones would be found in all sorts of words.
const LEAST: usize = 4;
/// Values that tell nothing.
const SAID_OF_ALL: [&str; 8] = [
    "none",
    "null",
    "unknown",
    "localhost",
    "true",
    "false",
    "not set",
    "(null)",
];

/// What kind of thing a value is, by which its stand-in is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Password,
    Token,
    User,
    Serial,
    Host,
    Asset,
    Image,
    Blob,
    Uuid,
    Mac,
    Ipv4,
    Ipv6,
    Key,
}

/// Names of JSON properties and RIBCL attributes whose value is replaced, in lower case.
static NAMED: &[(&str, Kind)] = &[
    ("password", Kind::Password),
    ("x-auth-token", Kind::Token),
    ("sessiontoken", Kind::Token),
    ("username", Kind::User),
    ("user_login", Kind::User),
    ("user_name", Kind::User),
    ("loginname", Kind::User),
    ("serialnumber", Kind::Serial),
    ("serial_number", Kind::Serial),
    ("serial number", Kind::Serial),
    ("assettag", Kind::Asset),
    ("asset_tag", Kind::Asset),
    ("hostname", Kind::Host),
    ("host_name", Kind::Host),
    ("fqdn", Kind::Host),
    ("dns_name", Kind::Host),
    ("domainname", Kind::Host),
    ("domain_name", Kind::Host),
    ("server_name", Kind::Host),
    ("server_fqdn", Kind::Host),
    ("licensekey", Kind::Key),
    ("license_key", Kind::Key),
    ("image", Kind::Image),
    ("image_url", Kind::Image),
    ("httpbooturi", Kind::Image),
    ("urlbootfile", Kind::Image),
    ("b64_data", Kind::Blob),
    ("certificate", Kind::Blob),
    ("certificatestring", Kind::Blob),
];

/// Stand-ins, the same for the same thing.
#[derive(Default)]
pub(crate) struct Scrubber {
    stand_ins: HashMap<String, String>,
    counts: HashMap<Kind, usize>,
    /// What is looked for as text, with its stand-in; longest first once sorted.
    texts: Vec<(String, String)>,
}

impl Scrubber {
    pub(crate) fn password(&mut self, value: &str) {
        self.note(value, Kind::Password);
    }

    pub(crate) fn user(&mut self, value: &str) {
        self.note(value, Kind::User);
    }

    pub(crate) fn host(&mut self, value: &str) {
        if value.parse::<Ipv4Addr>().is_err() {
            self.note(value, Kind::Host);
        }
    }

    pub(crate) fn token(&mut self, value: &str) {
        self.note(value, Kind::Token);
    }

    /// Learns from a body what is to be replaced everywhere.
    pub(crate) fn learn(&mut self, body: &str) {
        if let Ok(json) = serde_json::from_str::<Value>(body) {
            self.learn_json("", &json, 0);
        } else if body.contains('<') {
            for (_, attributes) in tags(body) {
                self.learn_attributes(&attributes);
            }
        }
    }

    fn learn_json(&mut self, name: &str, value: &Value, depth: usize) {
        match value {
            Value::Object(object) if depth < 64 => {
                for (name, value) in object {
                    self.learn_json(name, value, depth + 1);
                }
            }
            Value::Array(values) if depth < 64 => {
                for value in values {
                    self.learn_json(name, value, depth + 1);
                }
            }
            Value::String(text) => self.learn_named(name, text),
            _ => {}
        }
    }

    fn learn_attributes(&mut self, attributes: &[(String, String)]) {
        let of = |name: &str| {
            attributes
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.as_str())
        };
        for (name, value) in attributes {
            self.learn_named(name, value);
        }
        // `<FIELD NAME="Serial Number" VALUE="…"/>`
        if let (Some(name), Some(value)) = (of("NAME"), of("VALUE")) {
            self.learn_named(name, value);
        }
    }

    fn learn_named(&mut self, name: &str, value: &str) {
        let name = name.to_ascii_lowercase();
        if let Some((_, kind)) = NAMED.iter().find(|(known, _)| *known == name) {
            self.note(value, *kind);
        }
    }

    fn note(&mut self, value: &str, kind: Kind) {
        let value = value.trim();
        let lower = value.to_ascii_lowercase();
        if value.len() < LEAST || SAID_OF_ALL.contains(&lower.as_str()) || value.starts_with('*') {
            return;
        }
        if self.texts.iter().any(|(known, _)| known == value) {
            return;
        }
        let stand_in = self.stand_in(value, kind);
        // As JSON and XML spell it.
        let json = Value::from(value).to_string();
        let json = json.trim_matches('"').to_owned();
        let xml = value
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;");
        let apostrophe = xml.replace('\'', "&apos;");
        let slashes = json.replace('/', "\\/");
        for spelling in [value.to_owned(), json, slashes, xml, apostrophe] {
            if !self.texts.iter().any(|(known, _)| *known == spelling) {
                self.texts.push((spelling, stand_in.clone()));
            }
        }
        self.texts.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
    }

    /// The stand-in of a value; the same for the same value, whatever its case.
    fn stand_in(&mut self, value: &str, kind: Kind) -> String {
        let key = value.to_ascii_lowercase();
        if let Some(known) = self.stand_ins.get(&key) {
            return known.clone();
        }
        let count = self.counts.entry(kind).or_insert(0);
        *count += 1;
        let made = made_up(kind, *count, value);
        self.stand_ins.insert(key, made.clone());
        made
    }

    /// A text with everything replaced that was learnt or that has the form of an address.
    pub(crate) fn scrub(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (known, stand_in) in &self.texts {
            if text.contains(known.as_str()) {
                text = text.replace(known.as_str(), stand_in);
            }
        }
        self.addresses(&text)
    }

    fn addresses(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = ' ';
        while let Some(c) = rest.chars().next() {
            let found = if before.is_ascii_alphanumeric() || before == '.' {
                None
            } else {
                found(rest)
            };
            match found {
                Some((kind, len)) if !(kind == Kind::Ipv4 && follows_version(&out)) => {
                    let value = &rest[..len];
                    let known = self.stand_ins.values().any(|stand_in| stand_in == value);
                    let stand_in = if known {
                        value.to_owned()
                    } else {
                        self.stand_in(value, kind)
                    };
                    out.push_str(&stand_in);
                    before = 'x';
                    rest = &rest[len..];
                }
                _ => {
                    out.push(c);
                    before = c;
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        out
    }
}

fn made_up(kind: Kind, count: usize, value: &str) -> String {
    // Of the length of the real one, for firmwares and clients that check it.
    let numbered = |prefix: &str| {
        let width = value.len().saturating_sub(prefix.len());
        format!("{prefix}{count:0width$}")
    };
    let low = count % 256;
    match kind {
        Kind::Password => format!("password-{count}"),
        Kind::Token => format!("token-{count}"),
        Kind::User => format!("user-{count}"),
        Kind::Serial => numbered("SN"),
        Kind::Key => numbered("KEY"),
        Kind::Asset => format!("asset-{count}"),
        Kind::Host => format!("host-{count}.example"),
        Kind::Blob => "AAAA".to_owned(),
        Kind::Image => {
            let ending = value
                .rsplit('.')
                .next()
                .filter(|ending| ending.len() <= 4 && !ending.contains('/'));
            format!("http://192.0.2.254/image-{count}.{}", ending.unwrap_or("iso"))
        }
        Kind::Uuid => format!("00000000-0000-4000-8000-{count:012x}"),
        Kind::Mac => {
            let separator = if value.contains('-') { "-" } else { ":" };
            [
                "02",
                "00",
                "00",
                "00",
                &format!("{:02x}", count / 256 % 256),
                &format!("{low:02x}"),
            ]
            .join(separator)
        }
        // Three networks that are for documentation (RFC 5737), and one for benchmarks behind them (RFC 2544).
        Kind::Ipv4 => match count {
            1..=253 => format!("192.0.2.{count}"),
            254..=507 => format!("198.51.100.{}", count - 253),
            508..=761 => format!("203.0.113.{}", count - 507),
            _ => format!("198.18.{}.{low}", count / 256 % 256),
        },
        Kind::Ipv6 => format!("2001:db8::{count:x}"),
    }
}

/// What begins here: a UUID, a MAC or IP address, and its length.
fn found(text: &str) -> Option<(Kind, usize)> {
    let run = |pass: fn(u8) -> bool| text.bytes().take(64).take_while(|byte| pass(*byte)).count();
    let ends = |len: usize| !text.as_bytes().get(len).is_some_and(u8::is_ascii_alphanumeric);
    let hex = run(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if hex >= 36 && is_uuid(&text[..36]) && ends(36) {
        return Some((Kind::Uuid, 36));
    }
    let spaced = run(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'-'));
    if spaced >= 17 && is_mac(&text[..17]) && ends(17) && text.as_bytes().get(17) != Some(&b':') {
        return Some((Kind::Mac, 17));
    }
    let dotted = run(|byte| byte.is_ascii_digit() || byte == b'.');
    let dotted = text[..dotted].trim_end_matches('.').len();
    if let Ok(address) = text[..dotted].parse::<Ipv4Addr>()
        && ends(dotted)
    {
        // Net masks, "any" and loopback tell nothing.
        let plain = address.octets()[0] == 255 || address.is_unspecified() || address.is_loopback();
        return (!plain).then_some((Kind::Ipv4, dotted));
    }
    let colons = run(|byte| byte.is_ascii_hexdigit() || byte == b':');
    let colons = if text[..colons].ends_with("::") {
        colons
    } else {
        text[..colons].trim_end_matches(':').len()
    };
    let address: Ipv6Addr = text[..colons].parse().ok()?;
    let plain = address.is_unspecified() || address.is_loopback();
    (!plain && ends(colons)).then_some((Kind::Ipv6, colons))
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    let separator = bytes[2];
    matches!(separator, b':' | b'-')
        && bytes.iter().enumerate().all(|(at, byte)| match at % 3 {
            2 => *byte == separator,
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Four numbers behind a property that tells a version are one.
fn follows_version(before: &str) -> bool {
    let from = before.len().saturating_sub(48);
    let from = (from..=before.len())
        .find(|at| before.is_char_boundary(*at))
        .unwrap_or(0);
    let near = &before[from..];
    let near = near.rsplit([',', '\n', '{', '<']).next().unwrap_or(near);
    near.to_ascii_lowercase().contains("version")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubber() -> Scrubber {
        let mut scrubber = Scrubber::default();
        scrubber.password("hunter2\"&/");
        scrubber.user("operator");
        scrubber
    }

    #[test]
    fn the_same_thing_becomes_the_same_stand_in_wherever_it_stands() {
        let mut scrubber = scrubber();
        scrubber.learn(r#"{"SerialNumber": "CZJ12345AB", "HostName": "ILOCZJ12345AB", "Oem": [{"AssetTag": "rack-7"}], "Name": "x"}"#);
        let text = scrubber.scrub(
            "CZJ12345AB ILOCZJ12345AB rack-7 10.1.2.3 10.1.2.4 10.1.2.3 aa:bb:cc:00:00:01 AA-BB-CC-00-00-01 fe80::1 \
             37383638-3330-4D32-3238-333830343438 operator hunter2\"&/",
        );
        assert_eq!(
            text,
            "SN00000001 host-1.example asset-1 192.0.2.1 192.0.2.2 192.0.2.1 02:00:00:00:00:01 02-00-00-00-00-02 2001:db8::1 \
             00000000-0000-4000-8000-000000000001 user-1 password-1"
        );
        assert_eq!(scrubber.scrub("10.1.2.4"), "192.0.2.2");
    }

    #[test]
    fn a_password_is_found_however_json_and_xml_spell_it() {
        let mut scrubber = scrubber();
        for text in [
            r#"{"Password":"hunter2\"&/"}"#,
            r#"{"Password":"hunter2\"&\/"}"#,
            "PASSWORD=\"hunter2&quot;&amp;/\"",
        ] {
            let out = scrubber.scrub(text);
            assert!(out.contains("password-1") && !out.contains("hunter2"), "{out}");
        }
    }

    #[test]
    fn attributes_and_fields_of_ribcl_are_learnt() {
        let mut scrubber = scrubber();
        let text = "<RIBCL><LOGIN USER_LOGIN=\"root\" PASSWORD=\"calvin\"><FIELD NAME=\"Serial Number\" VALUE = 'CZJ777'/>\
                    <SMBIOS_RECORD B64_DATA=\"Q1pKNzc3\"/><INSERT IMAGE_URL=\"http://10.0.0.1/v/t0k3n/boot.img\"/>";
        scrubber.learn(text);
        let out = scrubber.scrub(text);
        for secret in ["root", "calvin", "CZJ777", "Q1pKNzc3", "t0k3n", "10.0.0.1"] {
            assert!(!out.contains(secret), "{secret}: {out}");
        }
        assert!(out.contains(".img"), "{out}");
    }

    #[test]
    fn versions_times_masks_and_words_stay() {
        let mut scrubber = scrubber();
        for text in [
            r#""FirmwareVersion": "5.10.50.00""#,
            r#""BiosVersion":"2.8.1.9""#,
            "<GET_FW_VERSION FIRMWARE_VERSION = \"1.2.3.4\"/>",
            "2024-01-01T12:34:56Z",
            "255.255.255.0 0.0.0.0 127.0.0.1 :: ::1",
            "ab:cd v1.2.3.4 x10.0.0.1",
            "#VirtualMedia.v1_3_0.VirtualMedia",
        ] {
            assert_eq!(scrubber.scrub(text), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic_and_twice_is_once(text in "(\\PC|[0-9a-f]{1,4}[:.-]|10\\.0\\.0\\.1|<A B=\"|\\{\"|é){0,60}") {
            let mut scrubber = scrubber();
            scrubber.learn(&text);
            let once = scrubber.scrub(&text);
            proptest::prop_assert_eq!(scrubber.scrub(&once), once);
        }
    }
}
