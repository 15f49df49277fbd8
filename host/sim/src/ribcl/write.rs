//! Answers as an iLO writes them: a document for every tag of the script, run together, and the chunks that they travel in.

use crate::profile::{RibclFacts, SyntaxForm};

/// A status of RIBCL. What HP's guides list is here; where they give a text and no number, the number is [`UNLISTED`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Code(pub(crate) u16);

pub(crate) const SYNTAX: Code = Code(0x0001);
pub(crate) const UNKNOWN_USER: Code = Code(0x000A);
pub(crate) const INVALID_OPTION: Code = Code(0x0035);
pub(crate) const NO_IMAGE: Code = Code(0x0039);
pub(crate) const NOT_SUPPORTED: Code = Code(0x003C);
pub(crate) const LOGIN_FAILED: Code = Code(0x005F);
/// Any number but zero is a failure; this one stands for those that are not published.
pub(crate) const UNLISTED: Code = Code(0x00FF);

/// Texts of the codes that a fault rule can ask for by number alone.
const TEXTS: &[(u16, &str)] = &[
    (
        0x0001,
        "Syntax error: Line #0: syntax error near \"\" in the line: \"\"",
    ),
    (0x000A, "User NOT found."),
    (0x0023, "User does NOT have correct privilege for action."),
    (0x002E, "License key error."),
    (0x0035, "An invalid Virtual Media option has been given."),
    (0x0039, "No image present in the Virtual Media drive."),
    (0x003C, "Feature not supported"),
    (0x005F, "Login failed."),
    (0x006D, "Feature is not configured."),
    (
        0x0088,
        "The iLO subsystem is currently generating a Certificate Signing Request(CSR), run script after 10 minutes or more to receive the CSR.",
    ),
];

/// The usual text of a code.
pub(crate) fn text_of(code: Code) -> &'static str {
    let found = TEXTS.iter().find(|(number, _)| *number == code.0);
    found.map_or("Command failed.", |(_, text)| text)
}

/// An answer under way.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    facts: &'a RibclFacts,
    /// Each with its declaration.
    pub(crate) documents: Vec<String>,
    /// The first failure.
    pub(crate) failure: Option<(Code, String)>,
}

impl<'a> Answer<'a> {
    pub(crate) fn new(facts: &'a RibclFacts) -> Self {
        Self {
            facts,
            documents: Vec::new(),
            failure: None,
        }
    }

    /// A tag that was taken.
    pub(crate) fn fine(&mut self) {
        self.document(Code(0), "No error", "");
    }

    /// The same with something to say about it.
    pub(crate) fn remark(&mut self, message: &str) {
        self.document(Code(0), message, "");
    }

    /// What was asked for.
    pub(crate) fn payload(&mut self, xml: &str) {
        self.document(Code(0), "No error", xml);
    }

    /// A tag that was taken, with an `INFORM`.
    pub(crate) fn inform(&mut self, text: &str) {
        self.document(Code(0), "No error", &format!("<INFORM>{}</INFORM>\n", escaped(text)));
    }

    /// A tag that was refused. What comes after it is answered all the same.
    pub(crate) fn fail(&mut self, code: Code, message: &str) {
        self.failure.get_or_insert_with(|| (code, message.to_owned()));
        self.document(code, message, "");
    }

    /// A command that is not known here, or not in this wrapper. Nothing comes after it.
    pub(crate) fn syntax_error(&mut self, near: &str, line: usize) {
        let message = match self.facts.syntax {
            SyntaxForm::NoLine => format!("Syntax error: Line #0: syntax error near \"{near}\" in the line: \"\""),
            SyntaxForm::Line => format!("Error: Line #{line}: syntax error near \"{near}\"."),
        };
        self.fail(SYNTAX, &message);
    }

    /// The whole answer.
    pub(crate) fn text(&self) -> String {
        self.documents.concat()
    }

    /// What the trace says became of it.
    pub(crate) fn summary(&self) -> String {
        match &self.failure {
            None => "0x0000".to_owned(),
            Some((code, message)) => format!("0x{:04X} {message}", code.0),
        }
    }

    fn document(&mut self, code: Code, message: &str, payload: &str) {
        let facts = self.facts;
        // A message is written in single quotes, since it quotes with double ones.
        let message = escaped(message).replace("&quot;", "\"").replace('\'', "&apos;");
        let closed = if facts.closed_where_it_opens { "/" } else { "" };
        let indent = if code.0 == 0 { "     " } else { "    " };
        let mut text = format!(
            "<RIBCL VERSION=\"{}\"{closed}>\n<RESPONSE\n    STATUS=\"0x{:04X}\"\n    MESSAGE='{message}'\n{indent}/>\n{payload}</RIBCL>\n",
            facts.schema, code.0
        );
        if facts.blank_lines {
            text.push('\n');
        }
        if facts.crlf {
            text = text.replace('\n', "\r\n");
        }
        self.documents.push(format!("<?xml version=\"1.0\"?>\r\n{text}"));
    }
}

/// As it can stand in an attribute or between tags. An iLO answers in ASCII.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            ' '..='~' => out.push(c),
            _ => out.push('?'),
        }
    }
    out
}

/// Largest chunk in bytes: the buffer of these servers.
const CHUNK: usize = 0x1ff;

/// An answer over HTTP, byte for byte as the server in an iLO writes it: cut wherever its buffer was when it was sent, within
/// tags too, and with lengths of three digits. The same number cuts the same answer at the same places.
pub(crate) fn chunked(facts: &RibclFacts, text: &str, number: u64, date: &str) -> (String, Vec<Vec<u8>>) {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nDate: {date}\r\nCache-Control: no-cache\r\n\
         Expires: Thu, 26 Oct 1995 00:00:00 GMT\r\nTransfer-Encoding: chunked\r\nServer: {}\r\nConnection: close\r\n\r\n",
        facts.server
    );
    let mut rest = text.as_bytes();
    let mut chunks = Vec::new();
    let mut seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while !rest.is_empty() {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let size = match chunks.len() {
            // The first one ends in the middle of the first tag, as the recorded ones do.
            0 => 0x1d,
            _ => 3 + usize::try_from(seed % 0x1fd).unwrap_or(0),
        };
        let (chunk, after) = rest.split_at(size.min(CHUNK).min(rest.len()));
        let mut bytes = format!("{:03x}\r\n", chunk.len()).into_bytes();
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
        chunks.push(bytes);
        rest = after;
    }
    chunks.push(b"0\r\n\r\n".to_vec());
    (head, chunks)
}

/// The text in chunks of `size` bytes each.
pub(crate) fn chunks_of(text: &[u8], size: usize) -> Vec<u8> {
    let mut wire = Vec::new();
    for chunk in text.chunks(size.max(1)) {
        wire.extend_from_slice(format!("{:03x}\r\n", chunk.len()).as_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    wire
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_the_recorded_one_byte_for_byte() {
        let facts = RibclFacts {
            blank_lines: false,
            ..RibclFacts::default()
        };
        let mut answer = Answer::new(&facts);
        answer.fine();
        assert_eq!(answer.documents[0].len(), 0x74);
        answer.syntax_error("GET_FEDERATION_MULTICAST", 11);
        assert!(answer.text().ends_with(
            "    STATUS=\"0x0001\"\n    MESSAGE='Error: Line #11: syntax error near \"GET_FEDERATION_MULTICAST\".'\n    />\n</RIBCL>\n"
        ));
        assert!(answer.summary().starts_with("0x0001 Error"));
    }

    #[test]
    fn a_document_of_ilo_2_closes_twice_and_ends_its_lines_in_crlf() {
        let facts = RibclFacts {
            schema: "2.22".into(),
            closed_where_it_opens: true,
            crlf: true,
            syntax: SyntaxForm::NoLine,
            ..RibclFacts::default()
        };
        let mut answer = Answer::new(&facts);
        answer.syntax_error("GET_VM_STATUS", 5);
        assert!(answer.text().contains(
            "MESSAGE='Syntax error: Line #0: syntax error near \"GET_VM_STATUS\" in the line: \"\"'\r\n    />\r\n</RIBCL>\r\n"
        ));
        answer.documents.clear();
        answer.inform("it's <old>");
        let text = answer.text();
        assert!(
            text.starts_with("<?xml version=\"1.0\"?>\r\n<RIBCL VERSION=\"2.22\"/>\r\n<RESPONSE\r\n"),
            "{text}"
        );
        assert!(
            text.contains("<INFORM>it's &lt;old&gt;</INFORM>\r\n</RIBCL>\r\n"),
            "{text}"
        );
    }

    #[test]
    fn chunks_have_three_digits_split_tags_and_add_up() {
        let facts = RibclFacts::default();
        let mut answer = Answer::new(&facts);
        (0..7).for_each(|_| answer.fine());
        let text = answer.text();
        let mut splits = 0;
        for number in 0..50 {
            let (head, chunks) = chunked(&facts, &text, number, "Thu, 01 Jan 2026 00:00:00 GMT");
            assert!(head.contains("Server: Allegro-Software-RomPager/4.62\r\n"), "{head}");
            assert!(chunks[0].starts_with(b"01d\r\n<?xml version=\"1.0\"?>\r\n<RIBCL\r\n"));
            let mut whole = Vec::new();
            for chunk in &chunks[..chunks.len() - 1] {
                let size = std::str::from_utf8(&chunk[..3]).unwrap();
                let size = usize::from_str_radix(size, 16).unwrap();
                assert!(size <= CHUNK && chunk.len() == size + 7);
                whole.extend_from_slice(&chunk[5..5 + size]);
                let tag = whole.iter().rev().find(|byte| matches!(byte, b'<' | b'>'));
                splits += usize::from(tag == Some(&b'<'));
            }
            assert_eq!(whole, text.as_bytes());
            assert_eq!(chunks.last().unwrap(), b"0\r\n\r\n");
        }
        assert!(splits > 50, "{splits}");
    }
}
