//! Tags out of text that is nearly XML. Firmwares answer with stray quotes inside values, control bytes, tags that are never
//! closed and documents run together; an XML parser, however lenient, stops at the first of these or loses what follows, and
//! what follows may be the error. This scanner never fails: what makes no sense is passed over.
//!
//! Time is linear in the text, since a quote is looked at once (see `Scanner::closing`).

/// Longest name of a tag or attribute that is kept.
const NAME_CAP: usize = 64;
/// Most attributes of one tag that are kept.
const ATTRIBUTES_CAP: usize = 64;

/// What the text is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token<'a> {
    /// `<?xml …?>`
    Declaration,
    /// `<NAME A="b">`; names in upper case.
    Open {
        name: String,
        attributes: Vec<(String, String)>,
        /// Ends in `/>`.
        empty: bool,
    },
    /// `</NAME>`
    Close(String),
    /// Between tags.
    Text(&'a str),
}

/// Walks over a text.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// For `"` and for `'`: up to here no quote can close a value.
    closes_after: [usize; 2],
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            closes_after: [0; 2],
        }
    }

    fn byte(&self, at: usize) -> u8 {
        // NUL stands for the end; in the text it is passed over like any control byte.
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    fn is_over(&self, at: usize) -> bool {
        at >= self.text.len()
    }

    fn past(&self, mut at: usize, pass: impl Fn(u8) -> bool) -> usize {
        while !self.is_over(at) && pass(self.byte(at)) {
            at += 1;
        }
        at
    }

    /// Where `part` stands, from here.
    fn seek(&self, from: usize, part: &str) -> Option<usize> {
        self.text.get(from..)?.find(part).map(|at| from + at)
    }

    fn name(&self, from: usize) -> (String, usize) {
        let end = self.past(from, is_name);
        let name = self.text[from..end].chars().take(NAME_CAP).collect::<String>();
        (name.to_ascii_uppercase(), end)
    }

    fn is_markup(&self, at: usize) -> bool {
        self.byte(at) == b'<' && matches!(self.byte(at + 1), b'A'..=b'Z' | b'a'..=b'z' | b'/' | b'?' | b'!' | b'_')
    }

    fn open(&mut self) -> Token<'a> {
        let (name, mut at) = self.name(self.at + 1);
        let mut attributes = Vec::new();
        let mut empty = false;
        loop {
            at = self.past(at, |byte| !is_name(byte) && !matches!(byte, b'>' | b'/' | b'<'));
            match self.byte(at) {
                b'>' => {
                    at += 1;
                    break;
                }
                b'/' => {
                    let end = self.past(at + 1, is_space);
                    if self.byte(end) == b'>' {
                        empty = true;
                        at = end + 1;
                        break;
                    }
                    at += 1;
                }
                b'<' if self.is_markup(at) => break,
                _ if self.is_over(at) => break,
                b'<' => at += 1,
                _ => {
                    let (attribute, end) = self.name(at);
                    let (value, end) = self.value(end);
                    at = end;
                    if attributes.len() < ATTRIBUTES_CAP {
                        attributes.push((attribute, value));
                    }
                }
            }
        }
        self.at = at;
        Token::Open {
            name,
            attributes,
            empty,
        }
    }

    /// The value after an attribute's name, and where it ends.
    fn value(&mut self, from: usize) -> (String, usize) {
        let sign = self.past(from, is_space);
        if self.byte(sign) != b'=' {
            return (String::new(), from);
        }
        let start = self.past(sign + 1, is_space);
        let quote = self.byte(start);
        if !matches!(quote, b'"' | b'\'') {
            let end = self.past(start, |byte| !is_space(byte) && !matches!(byte, b'>' | b'<'));
            let text = &self.text[start..end];
            let text = text
                .strip_suffix('/')
                .filter(|_| self.byte(end) == b'>')
                .unwrap_or(text);
            return (decoded(text), start + text.len());
        }
        let start = start + 1;
        let (end, next) = match self.closing(start, quote) {
            Some(end) => (end, end + 1),
            // Never closed: it ends with its tag.
            None => {
                let end = self.past(start, |byte| byte != b'>' && byte != b'<');
                let text = self.text[start..end].trim_end();
                let end = start + text.strip_suffix('/').unwrap_or(text).trim_end().len();
                (end, end)
            }
        };
        (decoded(&self.text[start..end]), next)
    }

    /// The quote that closes a value: the first that is followed by what may follow a value. Where there is none before the
    /// next tag, the first quote does. What was found not to close here does not close later either, so it is not looked at
    /// again.
    fn closing(&mut self, start: usize, quote: u8) -> Option<usize> {
        let memory = usize::from(quote == b'\'');
        let mut first = None;
        let mut at = start;
        let known = self.closes_after[memory];
        while !self.is_over(at) && !self.is_markup(at) {
            if self.byte(at) == quote {
                if at >= known && self.may_end_value(at + 1) {
                    return Some(at);
                }
                first.get_or_insert(at);
                if at < known {
                    // All of it was looked at before.
                    return first;
                }
            }
            at += 1;
        }
        self.closes_after[memory] = self.closes_after[memory].max(at);
        first
    }

    /// `>`, `/>`, `?>`, or another attribute.
    fn may_end_value(&self, at: usize) -> bool {
        let at = self.past_few(at, is_space);
        match self.byte(at) {
            b'>' => true,
            b'/' | b'?' => self.byte(self.past_few(at + 1, is_space)) == b'>',
            byte if is_name(byte) => {
                let end = self.past_few(self.past_few(at, is_name), is_space);
                self.byte(end) == b'=' && matches!(self.byte(self.past_few(end + 1, is_space)), b'"' | b'\'')
            }
            _ => false,
        }
    }

    /// Like `past`, for no more than a name's length, so that each look ahead is short.
    fn past_few(&self, from: usize, pass: impl Fn(u8) -> bool) -> usize {
        let mut at = from;
        while at < from + NAME_CAP && !self.is_over(at) && pass(self.byte(at)) {
            at += 1;
        }
        at
    }

    fn special(&mut self) -> Option<Token<'a>> {
        let rest = &self.text[self.at..];
        let past = |scanner: &Self, opening: &str, closing: &str| {
            let found = scanner.seek(scanner.at + opening.len(), closing);
            found.map_or(scanner.text.len(), |at| at + closing.len())
        };
        if rest.starts_with("<!--") {
            self.at = past(self, "<!--", "-->");
            return None;
        }
        if rest.starts_with("<![CDATA[") {
            let start = self.at + "<![CDATA[".len();
            let end = self.seek(start, "]]>").unwrap_or(self.text.len());
            self.at = self.text.len().min(end + "]]>".len());
            return Some(Token::Text(&self.text[start..end]));
        }
        let declares = rest.len() >= 5 && rest.as_bytes()[..5].eq_ignore_ascii_case(b"<?xml");
        // To the end of the tag, or to the next one if it has none.
        let mut at = self.past(self.at + 2, |byte| byte != b'>' && byte != b'<');
        if self.byte(at) == b'>' {
            at += 1;
        }
        self.at = at;
        declares.then_some(Token::Declaration)
    }
}

impl<'a> Iterator for Scanner<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        while !self.is_over(self.at) {
            if !self.is_markup(self.at) {
                let start = self.at;
                self.at += 1;
                while !self.is_over(self.at) && !self.is_markup(self.at) {
                    self.at += 1;
                }
                return Some(Token::Text(&self.text[start..self.at]));
            }
            match self.byte(self.at + 1) {
                b'?' | b'!' => {
                    if let Some(token) = self.special() {
                        return Some(token);
                    }
                }
                b'/' => {
                    let (name, end) = self.name(self.at + 2);
                    let end = self.past(end, |byte| byte != b'>' && byte != b'<');
                    self.at = if self.byte(end) == b'>' { end + 1 } else { end };
                    return Some(Token::Close(name));
                }
                _ => return Some(self.open()),
            }
        }
        None
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte.is_ascii_control()
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':')
}

/// Entities replaced; what is none stays as it stands, and control characters become spaces.
pub(super) fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.bytes().take(12).position(|byte| byte == b';');
        let known = end.and_then(|end| entity(&rest[1..end]).map(|c| (c, end + 1)));
        let (c, taken) = known.unwrap_or(('&', 1));
        out.push(c);
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn entity(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let digits = name.strip_prefix('#')?;
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(tag: &str) -> Vec<(String, String)> {
        match Scanner::new(tag).next() {
            Some(Token::Open { attributes, .. }) => attributes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_survive_whatever_their_quotes() {
        for (tag, want) in [
            (r#"<R A="1" B='2'/>"#, vec![("A", "1"), ("B", "2")]),
            ("<R a = \"1\"\r\n\tb='2' />", vec![("A", "1"), ("B", "2")]),
            (r#"<R A="1"B="2">"#, vec![("A", "1"), ("B", "2")]),
            (r#"<R A='User's name' B="x"/>"#, vec![("A", "User's name"), ("B", "x")]),
            (
                r#"<R A="Port "A" of 2" B="x"/>"#,
                vec![("A", "Port \"A\" of 2"), ("B", "x")],
            ),
            (r#"<R A="a > b" B="x"/>"#, vec![("A", "a > b"), ("B", "x")]),
            (r#"<R A=1 B C="3">"#, vec![("A", "1"), ("B", ""), ("C", "3")]),
            (r#"<R A="never closed/>"#, vec![("A", "never closed")]),
            (r#"<R A="never closed <X B="1"/>"#, vec![("A", "never closed")]),
            ("<R A=\"a\u{1}b\" \u{1}B=\"\"/>", vec![("A", "a b"), ("B", "")]),
            (r#"<R A="&lt;&amp;&#65;&#x42;&bogus;&" />"#, vec![("A", "<&AB&bogus;&")]),
            ("<R", vec![]),
        ] {
            let want: Vec<(String, String)> = want.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            assert_eq!(attributes(tag), want, "{tag}");
        }
    }

    #[test]
    fn tags_are_told_from_text() {
        let open = |name: &str, empty| Token::Open {
            name: name.to_owned(),
            attributes: vec![],
            empty,
        };
        let tokens: Vec<Token<'_>> =
            Scanner::new("<?xml?>a<b>1 < 2</B ><!-- <c/> --><d / ><![CDATA[<e>]]></").collect();
        assert_eq!(
            tokens,
            [
                Token::Declaration,
                Token::Text("a"),
                open("B", false),
                Token::Text("1 < 2"),
                Token::Close("B".to_owned()),
                open("D", true),
                Token::Text("<e>"),
                Token::Close(String::new()),
            ]
        );
    }

    #[test]
    fn a_megabyte_of_quotes_is_read_in_no_time() {
        let start = std::time::Instant::now();
        for part in [
            "a='1 ",
            "a=\"' ",
            "'",
            "\"=",
            "a='<",
            "<a b='",
            "&",
            "<!--",
            "<![CDATA[",
            "a=' b=x",
        ] {
            let text = format!("<x {}", part.repeat((1 << 20) / part.len()));
            assert!(Scanner::new(&text).count() > 0);
        }
        // A quadratic scan takes minutes.
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
}
