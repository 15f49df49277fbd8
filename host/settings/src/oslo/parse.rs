//! Typed values, as oslo.config's `types` has them.

use std::net::{IpAddr, Ipv6Addr};

use super::option::Kind;
use super::python::{float, int, repr, strip};

/// A value of an option.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    /// Nobody set it and it has no default; or a number that is set to nothing.
    Null,
    /// A text, also a choice, a URI or a host.
    Text(String),
    /// A truth.
    Boolean(bool),
    /// A whole number.
    Whole(i64),
    /// A number.
    Fraction(f64),
    /// Several values.
    List(Vec<Self>),
    /// Names and their values, in the order of the file.
    Dict(Vec<(String, String)>),
}

impl Value {
    /// What takes the place of a `$` reference to it: what Python's `str` makes of it.
    pub(crate) fn in_text(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Text(text) => text.clone(),
            other => other.repr(),
        }
    }

    fn repr(&self) -> String {
        match self {
            Self::Null => "None".to_owned(),
            Self::Text(text) => repr(text),
            Self::Boolean(true) => "True".to_owned(),
            Self::Boolean(false) => "False".to_owned(),
            Self::Whole(number) => number.to_string(),
            Self::Fraction(number) => format!("{number:?}"),
            Self::List(values) => {
                let shown: Vec<_> = values.iter().map(Self::repr).collect();
                format!("[{}]", shown.join(", "))
            }
            Self::Dict(pairs) => {
                let shown = pairs
                    .iter()
                    .map(|(key, value)| format!("{}: {}", repr(key), repr(value)));
                format!("{{{}}}", shown.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// The value of one assignment. The error says what it must be, and not what it is: it may be a password.
pub(crate) fn parse(kind: Kind, text: &str) -> Result<Value, String> {
    match kind {
        Kind::Text | Kind::Texts => Ok(Value::Text(text.to_owned())),
        Kind::Choice(words) => match words.contains(&text) {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(format!("must be one of: {}", words.join(", "))),
        },
        Kind::Boolean => boolean(text).map(Value::Boolean),
        Kind::Whole(least, most) => whole(text, least, most),
        Kind::Fraction(least) => fraction(text, least),
        Kind::Uri => uri(text).map(Value::Text),
        Kind::Host => host(text).map(Value::Text),
        Kind::List(words) => list(text, words).map(Value::List),
        Kind::Dict | Kind::Dicts => dict(text).map(Value::Dict),
    }
}

fn boolean(text: &str) -> Result<bool, String> {
    match text.to_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => Ok(true),
        "false" | "0" | "off" | "no" => Ok(false),
        _ => Err("must be True or False".to_owned()),
    }
}

fn whole(text: &str, least: Option<i64>, most: Option<i64>) -> Result<Value, String> {
    let text = strip(text);
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let within = |number: &i64| least.is_none_or(|least| *number >= least) && most.is_none_or(|most| *number <= most);
    int(text)
        .filter(within)
        .map(Value::Whole)
        .ok_or_else(|| match (least, most) {
            (Some(least), Some(most)) => format!("must be a whole number from {least} to {most}"),
            (Some(least), None) => format!("must be a whole number, {least} or more"),
            (None, Some(most)) => format!("must be a whole number, {most} or less"),
            (None, None) => "must be a whole number".to_owned(),
        })
}

fn fraction(text: &str, least: Option<i64>) -> Result<Value, String> {
    let text = strip(text);
    if text.is_empty() {
        return Ok(Value::Null);
    }
    #[expect(clippy::cast_precision_loss, reason = "the bounds of options are small numbers")]
    let within = |number: &f64| least.is_none_or(|least| number.is_nan() || *number >= least as f64);
    float(text)
        .filter(within)
        .map(Value::Fraction)
        .ok_or_else(|| match least {
            Some(least) => format!("must be a number, {least} or more"),
            None => "must be a number".to_owned(),
        })
}

/// RFC 3986 with a scheme and a host. What follows the host is not looked at, as oslo.config does not.
fn uri(text: &str) -> Result<String, String> {
    let wrong = || "must be a URL like http://10.0.0.1:8080/path".to_owned();
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match host.rfind(']') {
        Some(end) => host.split_at(end + 1),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    match is_scheme && is_host(host) && is_port {
        true => Ok(text.to_owned()),
        false => Err(wrong()),
    }
}

/// A registered name, an IPv4 address, or an IPv6 one in brackets.
fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=%".contains(c);
    !host.is_empty() && host.chars().all(legal)
}

fn host(text: &str) -> Result<String, String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let mut labels = name.split('.');
    let is_label = |label: &str| {
        let legal = label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        legal && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    let top = name.rsplit('.').next().unwrap_or_default();
    let is_name = (1..=253).contains(&text.len())
        && labels.all(is_label)
        && top.contains(|c: char| c.is_ascii_alphabetic() || c == '-');
    match is_name || text.parse::<IpAddr>().is_ok() {
        true => Ok(text.to_owned()),
        false => Err("must be an IP address or a host name".to_owned()),
    }
}

/// A word that is none of the known ones goes on over the next comma, as oslo.config has it; so it never becomes one.
fn list(text: &str, words: &[&str]) -> Result<Vec<Value>, String> {
    let text = strip(text).trim_end_matches(',');
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let items: Vec<&str> = text.split(',').map(strip).collect();
    match items.iter().all(|item| words.is_empty() || words.contains(item)) {
        true => Ok(items.into_iter().map(|item| Value::Text(item.to_owned())).collect()),
        false => Err(format!("must be a list of: {}", words.join(", "))),
    }
}

/// A part without a colon goes on over the next comma.
fn dict(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let text = strip(text);
    if text.is_empty() {
        return Ok(pairs);
    }
    let mut rest = text.split(',');
    while let Some(first) = rest.next() {
        let mut pair = first.to_owned();
        while !pair.contains(':') {
            let Some(next) = rest.next() else {
                return Err("must be pairs like name:value, separated by commas".to_owned());
            };
            pair.push(',');
            pair.push_str(next);
        }
        let (key, value) = pair.split_once(':').unwrap_or_default();
        let key = strip(key);
        if key.is_empty() {
            return Err("must be pairs like name:value, and one of them has no name".to_owned());
        }
        if pairs.iter().any(|(known, _)| known == key) {
            return Err("must be pairs like name:value, and one name is there twice".to_owned());
        }
        pairs.push((key.to_owned(), strip(value).to_owned()));
    }
    Ok(pairs)
}
