//! Scripts as an iLO reads them: tag by tag, so that everything up to an error is carried out and answered. Passwords are taken
//! as they stand, escaped or not, since clients send both.

/// Most tags of a script.
const TAGS_CAP: usize = 512;
/// Most attributes of a tag.
const ATTRIBUTES_CAP: usize = 32;
/// Longest attribute value that is kept whole in characters; what is longer is refused.
const VALUE_CAP: usize = 4096;

/// What a script is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Tag {
    /// `<?xml …?>`
    Declaration,
    /// `<NAME …>` or `<NAME …/>`
    Open(Element),
    /// `</NAME>`, and its line.
    Close(String, usize),
}

/// An opening tag.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Element {
    pub(crate) name: String,
    /// As they stand, entities and all.
    pub(crate) attributes: Vec<(String, String)>,
    /// Ends in `/>`.
    pub(crate) empty: bool,
    /// Line of the script, from 1.
    pub(crate) line: usize,
}

/// Where a script stops making sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Nonsense {
    /// The word that was not expected.
    pub(crate) near: String,
    /// Line of the script, from 1.
    pub(crate) line: usize,
}

impl Element {
    /// An attribute, its entities replaced; names in any case.
    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        self.raw(name).map(unescaped)
    }

    /// An attribute as it stands.
    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Reads the tags of a script up to where it stops making sense. Comments and text are passed over.
pub(crate) fn tags(text: &str) -> (Vec<Tag>, Option<Nonsense>) {
    let mut reader = Reader {
        text,
        at: 0,
        line: 1,
        counted: 0,
    };
    let mut found = Vec::new();
    loop {
        let near = match reader.next() {
            Ok(Some(_)) if found.len() == TAGS_CAP => "too many tags".to_owned(),
            Ok(Some(tag)) => {
                found.push(tag);
                continue;
            }
            Ok(None) => return (found, None),
            Err(near) => near,
        };
        let line = reader.line();
        return (found, Some(Nonsense { near, line }));
    }
}

/// Whether a password as it was sent is this one: as it stands, or escaped.
pub(crate) fn is_secret(sent: &str, secret: &str) -> bool {
    sent == secret || unescaped(sent) == secret
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    /// Up to here lines are counted.
    counted: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<Option<Tag>, String> {
        loop {
            let Some(start) = self.rest().find('<') else {
                return Ok(None);
            };
            self.at += start + 1;
            if self.rest().starts_with("!--") {
                self.past("-->")?;
            } else if self.rest().starts_with('?') {
                self.past("?>")?;
                return Ok(Some(Tag::Declaration));
            } else if self.rest().starts_with('/') {
                self.at += 1;
                let name = self.name()?;
                self.spaces();
                self.expect('>')?;
                return Ok(Some(Tag::Close(name, self.line())));
            } else {
                return self.open().map(|element| Some(Tag::Open(element)));
            }
        }
    }

    fn open(&mut self) -> Result<Element, String> {
        let mut element = Element {
            name: self.name()?,
            line: self.line(),
            ..Element::default()
        };
        loop {
            self.spaces();
            if self.take('>') {
                return Ok(element);
            }
            if self.take('/') {
                self.spaces();
                self.expect('>')?;
                element.empty = true;
                return Ok(element);
            }
            let name = self.name()?;
            self.spaces();
            self.expect('=')?;
            self.spaces();
            let quote = if self.take('"') { '"' } else { '\'' };
            if quote == '\'' {
                self.expect('\'')?;
            }
            let value = self.value(quote)?;
            if element.attributes.len() == ATTRIBUTES_CAP {
                return Err(name);
            }
            element.attributes.push((name, value));
        }
    }

    /// Up to the quote that closes the value: the first one that is followed by what may follow a value.
    fn value(&mut self, quote: char) -> Result<String, String> {
        let rest = self.rest();
        let mut first = None;
        for (at, _) in rest.match_indices(quote).take(64) {
            first.get_or_insert(at);
            let after = &rest[at + 1..];
            if ends_value(after) {
                first = Some(at);
                break;
            }
        }
        let end = first.ok_or("=")?;
        let value = &rest[..end];
        if value.chars().count() > VALUE_CAP {
            return Err("value too long".to_owned());
        }
        let value = value.to_owned();
        self.at += end + 1;
        Ok(value)
    }

    fn name(&mut self) -> Result<String, String> {
        let rest = self.rest();
        let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        if end == 0 || end > 64 {
            return Err(self.here());
        }
        let name = rest[..end].to_owned();
        self.at += end;
        Ok(name)
    }

    fn past(&mut self, end: &str) -> Result<(), String> {
        let found = self.rest().find(end).ok_or(end)?;
        self.at += found + end.len();
        Ok(())
    }

    fn spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take(&mut self, wanted: char) -> bool {
        let there = self.rest().starts_with(wanted);
        if there {
            self.at += wanted.len_utf8();
        }
        there
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.take(wanted) { Ok(()) } else { Err(self.here()) }
    }

    /// What is read next.
    fn here(&self) -> String {
        let rest = self.rest().trim_start();
        let word: String = rest.chars().take_while(|c| is_name(*c)).take(32).collect();
        if word.is_empty() {
            rest.chars().take(1).collect()
        } else {
            word
        }
    }

    fn line(&mut self) -> usize {
        let passed = &self.text[self.counted..self.at];
        self.line += passed.matches('\n').count();
        self.counted = self.at;
        self.line
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')
}

/// `>`, `/>`, or another attribute.
fn ends_value(after: &str) -> bool {
    let after = after.trim_start();
    if after.starts_with('>') || after.starts_with("/>") {
        return true;
    }
    let name = after.find(|c: char| !is_name(c)).unwrap_or(after.len());
    let after = after[name..].trim_start();
    name > 0 && after.starts_with('=') && after[1..].trim_start().starts_with(['"', '\''])
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = [
            ("&amp;", '&'),
            ("&lt;", '<'),
            ("&gt;", '>'),
            ("&quot;", '"'),
            ("&apos;", '\''),
        ];
        match known.iter().find(|(entity, _)| rest.starts_with(entity)) {
            Some((entity, c)) => {
                out.push(*c);
                rest = &rest[entity.len()..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opens(text: &str) -> Vec<Element> {
        let (tags, error) = tags(text);
        assert_eq!(error, None, "{text}");
        tags.into_iter()
            .filter_map(|tag| match tag {
                Tag::Open(element) => Some(element),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn both_quotes_spaces_and_unescaped_passwords_are_read() {
        for (sent, secret) in [
            ("p", "p"),
            ("a&b<c>d", "a&b<c>d"),
            ("a&amp;b", "a&b"),
            ("a\"b", "a\"b"),
            ("a' b=c", "a' b=c"),
            ("&quot;&lt;&gt;&apos;", "\"<>'"),
            ("&amp;amp;", "&amp;"),
        ] {
            let text = format!("<LOGIN USER_LOGIN = 'u' PASSWORD=\"{sent}\" >\r\n<A/></LOGIN>");
            let login = &opens(&text)[0];
            assert_eq!(login.raw("password"), Some(sent));
            assert!(is_secret(login.raw("PASSWORD").unwrap(), secret), "{sent}");
            assert_eq!(login.attribute("USER_LOGIN").as_deref(), Some("u"));
        }
        assert!(!is_secret("hunter2", "hunter3"));
    }

    #[test]
    fn what_makes_no_sense_ends_the_script_there_and_is_never_a_panic() {
        for (text, near, before) in [
            ("<RIBCL VERSION=\"2.0\"><", "", 1),
            ("<A/><B c>", ">", 1),
            ("<A/><B c=d>", "d", 1),
            ("<A b=\"c", "=", 0),
            ("<A><é/>", "é", 1),
            ("<!-- x", "-->", 0),
            ("<?xml", "?>", 0),
        ] {
            let (tags, error) = tags(text);
            assert_eq!(error.map(|error| error.near).as_deref(), Some(near), "{text}");
            assert_eq!(tags.len(), before, "{text}");
        }
        assert_eq!(tags(&"<A/>".repeat(600)).0.len(), TAGS_CAP);
        assert!(tags(&format!("<A b=\"{}\"/>", "x".repeat(5000))).1.is_some());
    }

    proptest::proptest! {
        #[test]
        fn no_script_is_a_panic(text in "[<>/=\"'&;?!a-zA-Z\\- \u{e9}\u{1}]{0,200}") {
            let _ = tags(&text);
        }
    }
}
