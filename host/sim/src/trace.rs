//! What happened: every BMC request, and every boot, in memory and as JSON lines in a file.
//!
//! Passwords, tokens and the credentials inside image URLs are removed before anything is kept.

pub(crate) mod reads;

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;

use crate::error::SimError;
use crate::server::Server;

/// Entries kept in memory per server; older ones are dropped.
const KEPT: usize = 20_000;

/// One request that a simulated BMC received.
#[derive(Clone, Debug, Serialize)]
pub struct Exchange {
    /// When it arrived, RFC 3339 in UTC.
    pub time: String,
    /// Index of the server.
    pub server: usize,
    /// HTTP method.
    pub method: String,
    /// Path as the client sent it.
    pub path: String,
    /// JSON body without secrets; text that is not JSON stands as its length only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// HTTP status of the reply; none if the connection was dropped.
    pub status: Option<u16>,
    /// Message id of the reply, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Name of the fault rule that was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// The record of one server.
#[derive(Debug)]
pub(crate) struct Trace {
    kept: Mutex<VecDeque<Exchange>>,
}

/// The trace file shared by all servers.
#[derive(Debug, Default)]
pub(crate) struct TraceFile {
    file: Option<Mutex<File>>,
}

impl TraceFile {
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, SimError> {
        let file = match path {
            None => None,
            Some(path) => Some(Mutex::new(
                File::options()
                    .create(true)
                    .append(true)
                    .open(path)
                    .map_err(|source| SimError::File {
                        path: path.to_owned(),
                        source,
                    })?,
            )),
        };
        Ok(Self { file })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Appends one line. A full disk must not stop the servers, so a failed write is only logged.
    pub(crate) fn write(&self, kind: &str, entry: &impl Serialize) {
        let Some(file) = &self.file else { return };
        let Ok(mut value) = serde_json::to_value(entry) else {
            return;
        };
        if let Some(object) = value.as_object_mut() {
            object.insert("kind".into(), kind.into());
        }
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(file, "{value}") {
            tracing::warn!(%error, "the trace file could not be written");
        }
    }
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self {
            kept: Mutex::new(VecDeque::new()),
        }
    }

    pub(crate) fn push(&self, exchange: Exchange) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(exchange);
    }

    pub(crate) fn snapshot(&self) -> Vec<Exchange> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().cloned().collect()
    }
}

/// Keeps one exchange, and writes it to the trace file with the answer's body, from which secrets are taken.
pub(crate) fn record(server: &Server, exchange: Exchange, answer: Option<&Value>) {
    #[derive(Serialize)]
    struct Entry<'a> {
        #[serde(flatten)]
        exchange: &'a Exchange,
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<Value>,
    }
    if server.trace_file.is_open() {
        let answer = answer.cloned().map(|mut answer| {
            scrub(&mut answer);
            answer
        });
        let exchange = &exchange;
        server.trace_file.write("request", &Entry { exchange, answer });
    }
    server.trace.push(exchange);
}

/// The time so many seconds from now, as HTTP writes it (RFC 9110 clause 5.6.7).
pub(crate) fn http_date(skew_seconds: i64) -> String {
    let span = jiff::SignedDuration::from_secs(skew_seconds);
    let time = jiff::Timestamp::now()
        .checked_add(span)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// RIBCL documents without the values of attributes whose name speaks of a secret.
pub(crate) fn scrub_xml(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('=') {
        let name_end = rest[..at].trim_end().len();
        let name_start = rest[..name_end]
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |at| at + 1);
        let name = rest.get(name_start..name_end).unwrap_or_default().to_ascii_lowercase();
        let after = &rest[at + 1..];
        let value = after.trim_start();
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''));
        let end = quote.and_then(|quote| value[1..].find(quote));
        clean.push_str(&rest[..=at]);
        rest = after;
        if let (Some(end), true) = (end, is_secret(&name)) {
            clean.push_str("\"***\"");
            rest = &value[end + 2..];
        }
    }
    clean.push_str(rest);
    clean
}

/// Whether what bears this name, in lower case, is kept from a trace.
fn is_secret(name: &str) -> bool {
    [
        "password",
        "token",
        "secret",
        "certificate",
        "license_key",
        "licensekey",
    ]
    .iter()
    .any(|word| name.contains(word))
}

/// The time now as RFC 3339 text.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// A request body as it may be kept.
pub(crate) fn scrub_body(body: &[u8]) -> Option<Value> {
    if body.is_empty() {
        return None;
    }
    match serde_json::from_slice::<Value>(body) {
        Ok(mut value) => {
            scrub(&mut value);
            Some(value)
        }
        Err(_) => Some(Value::String(format!("{} bytes that are not JSON", body.len()))),
    }
}

fn scrub(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                if is_secret(&key.to_ascii_lowercase()) {
                    *field = Value::String("***".into());
                } else {
                    scrub(field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(scrub),
        Value::String(text) => {
            if let Some(clean) = without_credentials(text) {
                *text = clean;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The URL without user and password, if `text` is a URL that has them.
pub(crate) fn without_credentials(text: &str) -> Option<String> {
    let mut url = url::Url::parse(text).ok()?;
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_tokens_and_url_credentials_are_not_kept() {
        let body = br#"{"UserName":"u","Password":"hunter2","Image":"http://a:hunter2@h/x.iso","n":[{"AgentToken":"hunter2"}]}"#;
        let kept = scrub_body(body).unwrap().to_string();
        assert!(!kept.contains("hunter2"), "{kept}");
        assert!(kept.contains("http://h/x.iso"), "{kept}");
        assert!(!scrub_body(b"Password=hunter2").unwrap().to_string().contains("hunter2"));
    }

    #[test]
    fn secrets_in_ribcl_are_not_kept_and_all_else_is() {
        let xml = "<A USER=\"x\" PASSWORD = 'hunter2'/>\r\n<B LICENSE_KEY=\"hunter2\" URL=\"http://h/?a=b\"/> 1=2";
        let kept = scrub_xml(xml);
        assert_eq!(
            kept,
            "<A USER=\"x\" PASSWORD =\"***\"/>\r\n<B LICENSE_KEY=\"***\" URL=\"http://h/?a=b\"/> 1=2"
        );
        for odd in ["PASSWORD='never ended", "PASSWORD=", "é PASSWORD=\"é\"=é", "="] {
            assert!(scrub_xml(odd).len() <= odd.len() + 3, "{odd}");
        }
    }

    #[test]
    fn a_date_is_written_as_http_writes_it() {
        let date = http_date(0);
        assert!(date.ends_with(" GMT") && date.len() == 29, "{date}");
        assert_ne!(http_date(86_400)[..16], date[..16]);
    }
}
