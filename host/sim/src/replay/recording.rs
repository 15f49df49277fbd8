//! The file of a recorded dialogue: a first line that names the format, then one exchange a line.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::SimError;

/// A recording may not be bigger than this; a recorder keeps 64 MiB, which JSON makes longer.
const FILE_CAP: u64 = 256 << 20;
/// The one version of the format.
const VERSION: u64 = 1;

/// A recorded dialogue, read and checked. Clones share it.
#[derive(Clone, Debug)]
pub struct Recording {
    exchanges: Arc<[Recorded]>,
}

/// One exchange.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recorded {
    #[serde(rename = "at_ms")]
    _at_ms: u64,
    #[serde(rename = "took_ms")]
    _took_ms: u64,
    pub(crate) form: Form,
    pub(crate) request: Request,
    pub(crate) reply: Option<Reply>,
    pub(crate) failure: Option<String>,
}

/// How a request travelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    Http,
    /// An RIBCL document straight on TLS.
    Raw,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(rename = "headers")]
    _headers: Vec<(String, String)>,
    pub(crate) body: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    #[serde(rename = "farrier-bmc-trace")]
    version: u64,
}

impl Recording {
    /// Reads a file of at most 256 MiB.
    pub fn load(path: &Path) -> Result<Self, SimError> {
        let file = path.display().to_string();
        let wrong = |reason: String| SimError::Recording {
            file: file.clone(),
            line: 0,
            reason,
        };
        let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if size > FILE_CAP {
            return Err(wrong(format!("{size} bytes; at most {FILE_CAP} are read")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        Self::parse(&file, &text)
    }

    /// Reads text; `file` is what errors call it.
    pub fn parse(file: &str, text: &str) -> Result<Self, SimError> {
        let wrong = |line: usize, reason: String| SimError::Recording {
            file: file.to_owned(),
            line,
            reason,
        };
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        let first = lines.next().map_or("", |(_, line)| line);
        let header: Header = serde_json::from_str(first).map_err(|_| {
            wrong(
                1,
                "the first line is not {\"farrier-bmc-trace\": 1}, so it is no recording of `farrier bmc record`"
                    .into(),
            )
        })?;
        if header.version != VERSION {
            return Err(wrong(
                1,
                format!("format {}; this program reads format {VERSION}", header.version),
            ));
        }
        let mut exchanges = Vec::new();
        for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let recorded: Recorded = serde_json::from_str(line).map_err(|error| wrong(number, error.to_string()))?;
            recorded.check().map_err(|reason| wrong(number, reason))?;
            exchanges.push(recorded);
        }
        if exchanges.is_empty() {
            return Err(wrong(1, "holds no exchange".into()));
        }
        Ok(Self {
            exchanges: exchanges.into(),
        })
    }

    /// How many exchanges it holds.
    pub fn exchanges(&self) -> usize {
        self.exchanges.len()
    }

    pub(crate) fn all(&self) -> &Arc<[Recorded]> {
        &self.exchanges
    }

    /// Whether it holds documents that came straight on TLS.
    pub(crate) fn speaks_raw(&self) -> bool {
        self.exchanges.iter().any(|exchange| exchange.form == Form::Raw)
    }
}

impl Recorded {
    fn check(&self) -> Result<(), String> {
        let request = &self.request;
        if request.method.is_empty() || !request.method.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Err(format!("{:?} is no method", request.method));
        }
        if !request.path.starts_with('/') {
            return Err(format!("path {:?} does not start with /", request.path));
        }
        match (&self.reply, &self.failure) {
            (Some(_), Some(_)) => return Err("has both a reply and a failure".into()),
            (None, None) => return Err("has neither a reply nor a failure".into()),
            (Some(reply), None) if !(200..600).contains(&reply.status) => {
                return Err(format!("status {} is not one that ends a request", reply.status));
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
        if self.form == Form::Raw && request.body.is_none() {
            return Err("the raw form is a document, and there is no body".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "{\"farrier-bmc-trace\": 1}\n";

    fn exchange(change: &str) -> String {
        let line = r#"{"at_ms":0,"took_ms":1,"form":"http","request":{"method":"GET","path":"/x","headers":[],"body":null},"reply":{"status":200,"headers":[],"body":""}}"#;
        match change.split_once(" => ") {
            Some((from, to)) => line.replace(from, to),
            None => line.to_owned(),
        }
    }

    #[test]
    fn a_recording_is_read() {
        let text = format!(
            "{FIRST}{}\n\n{}\n",
            exchange(""),
            exchange("http => raw").replace("null", "\"<RIBCL>\"")
        );
        let recording = Recording::parse("x", &text).unwrap();
        assert_eq!(recording.exchanges(), 2);
        assert!(recording.speaks_raw());
    }

    #[test]
    fn what_is_no_recording_is_refused_with_file_and_line() {
        for (text, line, reason) in [
            (String::new(), 1, "first line"),
            ("{}\n".into(), 1, "first line"),
            ("{\"farrier-bmc-trace\": 2}\n".into(), 1, "format 2"),
            (FIRST.into(), 1, "no exchange"),
            (format!("{FIRST}{{\"at_ms\":0"), 2, "EOF"),
            (format!("{FIRST}{}\nnonsense", exchange("")), 3, "expected"),
            (format!("{FIRST}{}", exchange("\"http\" => \"udp\"")), 2, "udp"),
            (format!("{FIRST}{}", exchange("\"GET\" => \"G T\"")), 2, "no method"),
            (format!("{FIRST}{}", exchange("\"/x\" => \"x\"")), 2, "does not start"),
            (format!("{FIRST}{}", exchange("200 => 99")), 2, "status 99"),
            (format!("{FIRST}{}", exchange("200 => 65536")), 2, "65536"),
            (
                format!("{FIRST}{}", exchange("\"reply\":{ => \"failure\":\"x\",\"reply\":{")),
                2,
                "both",
            ),
            (
                format!("{FIRST}{}", exchange("\"took_ms\":1 => \"took_ms\":-1")),
                2,
                "-1",
            ),
            (format!("{FIRST}{}", exchange("\"http\" => \"raw\"")), 2, "no body"),
            (
                format!("{FIRST}{}", exchange("\"at_ms\":0 => \"at_ms\":0,\"more\":1")),
                2,
                "more",
            ),
        ] {
            let error = Recording::parse("quirk.jsonl", &text).unwrap_err().to_string();
            assert!(error.contains(&format!("quirk.jsonl, line {line}")), "{text}: {error}");
            assert!(error.contains(reason), "{text}: {error}");
        }
        let error = Recording::load(Path::new("/nowhere/quirk.jsonl"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("/nowhere/quirk.jsonl"), "{error}");
    }
}
