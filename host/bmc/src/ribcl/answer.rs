//! RIBCL answers: five to nine documents run together, each with a status, one of them with what was asked for. Successes follow
//! an error, so every status counts.

use super::scan::{Scanner, Token, decoded};

/// Most elements that are kept.
const ELEMENTS_CAP: usize = 20_000;
/// Deepest nesting that is kept.
const DEPTH_CAP: usize = 32;
/// Longest text of an element that is kept.
const TEXT_CAP: usize = 64 << 10;
/// Statuses before the one of the command itself: of the document, the login, the wrapper.
const STAGES: usize = 5;

/// An answer, read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Answer {
    /// Of every document, in order.
    pub(super) statuses: Vec<Status>,
    /// What was asked for.
    pub(super) payload: Vec<Element>,
    /// Remarks beside it.
    pub(super) informs: Vec<String>,
}

/// What one document says became of its stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Status {
    /// 0 is success.
    pub(super) code: u32,
    /// In the firmware's words.
    pub(super) message: String,
}

/// An element; names in upper case.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) children: Vec<Element>,
    pub(super) text: String,
}

impl Element {
    /// An attribute that is not empty.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// Its `VALUE`.
    pub(super) fn value(&self) -> Option<&str> {
        self.attribute("VALUE")
    }

    /// All elements from here down, this one first.
    pub(super) fn all(&self) -> Vec<&Self> {
        let mut found = vec![self];
        let mut next = 0;
        while let Some(element) = found.get(next).copied() {
            found.extend(&element.children);
            next += 1;
        }
        found
    }

    /// As well-formed XML, whatever it was before.
    fn write(&self, out: &mut String) {
        out.push_str(&format!("<{}", self.name));
        for (name, value) in &self.attributes {
            out.push_str(&format!(" {name}=\"{}\"", escaped(value)));
        }
        let text = self.text.trim();
        if self.children.is_empty() && text.is_empty() {
            out.push_str("/>");
            return;
        }
        out.push('>');
        out.push_str(&escaped(text));
        for child in &self.children {
            child.write(out);
        }
        out.push_str(&format!("</{}>", self.name));
    }
}

impl Answer {
    /// Reads an answer. The error says what is wrong with it.
    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        let mut builder = Builder::default();
        for token in Scanner::new(text) {
            builder.take(token);
        }
        builder.finish(text)
    }

    /// The first status that is not a success.
    pub(super) fn failure(&self) -> Option<&Status> {
        self.statuses.iter().find(|status| status.code != 0)
    }

    /// All elements of the payload, at whatever depth.
    pub(super) fn elements(&self) -> impl Iterator<Item = &Element> {
        self.payload.iter().flat_map(Element::all)
    }

    /// The first element by this name, at whatever depth.
    pub(super) fn element(&self, name: &str) -> Option<&Element> {
        self.elements().find(|element| element.name == name)
    }

    /// The first attribute by this name, at whatever depth.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.elements().find_map(|element| element.attribute(name))
    }

    /// The payload as well-formed XML.
    pub(super) fn to_xml(&self) -> String {
        let mut out = String::new();
        for element in &self.payload {
            element.write(&mut out);
        }
        out
    }
}

/// Whether what has arrived on a connection that is not closed may be all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whole {
    /// Within a tag.
    No,
    /// Between tags, and before the command's own document: the connection may not end here.
    Early,
    /// Between tags, after that.
    Perhaps,
    /// A document has just ended, and the command's own one, or an error, is there.
    Likely,
}

/// See [`Whole`].
pub(super) fn whole(text: &str) -> Whole {
    let text = text.trim_end_matches(|c: char| c.is_whitespace() || c.is_control());
    if !text.ends_with('>') {
        return Whole::No;
    }
    let Ok(answer) = Answer::read(text) else {
        return Whole::No;
    };
    let told = answer.failure().is_some() || !answer.payload.is_empty() || answer.statuses.len() >= STAGES;
    if !told {
        return Whole::Early;
    }
    let last = &text.as_bytes()[text.len().saturating_sub("</RIBCL>".len())..];
    if last.eq_ignore_ascii_case(b"</RIBCL>") {
        Whole::Likely
    } else {
        Whole::Perhaps
    }
}

/// Puts tokens together.
#[derive(Default)]
struct Builder {
    answer: Answer,
    /// Elements that are open, outermost first.
    open: Vec<Element>,
    elements: usize,
    /// Of a document whose status makes no sense.
    broken: bool,
}

impl Builder {
    fn take(&mut self, token: Token<'_>) {
        match token {
            // A new document: whatever the last one left open ends here.
            Token::Declaration => self.close_to(0),
            Token::Open {
                name,
                attributes,
                empty,
            } => self.open(name, attributes, empty),
            Token::Close(name) => {
                if let Some(depth) = self.open.iter().rposition(|element| element.name == name) {
                    self.close_to(depth);
                }
            }
            Token::Text(text) => {
                if let Some(element) = self.open.last_mut()
                    && element.text.len() < TEXT_CAP
                {
                    element.text.extend(decoded(text).chars().take(TEXT_CAP));
                }
            }
        }
    }

    fn open(&mut self, name: String, attributes: Vec<(String, String)>, empty: bool) {
        match name.as_str() {
            // It never stands in itself; and it is often "closed" where it opens, and closed again at its end.
            "RIBCL" => self.close_to(0),
            // It holds nothing, closed or not.
            "RESPONSE" => self.status(&attributes),
            _ => {
                self.elements += 1;
                if self.elements > ELEMENTS_CAP || self.open.len() >= DEPTH_CAP {
                    self.broken = true;
                    return;
                }
                self.open.push(Element {
                    name,
                    attributes,
                    ..Element::default()
                });
                if empty {
                    self.close_to(self.open.len() - 1);
                }
            }
        }
    }

    fn status(&mut self, attributes: &[(String, String)]) {
        let of = |name: &str| {
            attributes
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.trim())
        };
        let digits = of("STATUS").and_then(|status| status.strip_prefix("0x").or(status.strip_prefix("0X")));
        match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => self.answer.statuses.push(Status {
                code,
                message: of("MESSAGE").unwrap_or_default().to_owned(),
            }),
            None => self.broken = true,
        }
    }

    fn close_to(&mut self, depth: usize) {
        while self.open.len() > depth {
            let Some(element) = self.open.pop() else { return };
            match self.open.last_mut() {
                Some(parent) => parent.children.push(element),
                None if element.name == "INFORM" => self.answer.informs.push(element.text),
                None => self.answer.payload.push(element),
            }
        }
    }

    fn finish(mut self, text: &str) -> Result<Answer, &'static str> {
        self.close_to(0);
        // A status that was overlooked might be the error.
        let told = occurrences(text, "<RESPONSE");
        if self.broken || told != self.answer.statuses.len() {
            return Err("one of its documents cannot be read");
        }
        if self.answer.statuses.is_empty() {
            return Err("it is not RIBCL: no document in it has a status");
        }
        Ok(self.answer)
    }
}

fn occurrences(text: &str, part: &str) -> usize {
    let part = part.as_bytes();
    let windows = text.as_bytes().windows(part.len());
    windows.filter(|window| window.eq_ignore_ascii_case(part)).count()
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
