//! One request as a vendor extension gives it, kept under `/redfish/v1` (RIS: `/rest/v1`) on the BMC's own origin.

use reqwest::Method;
use serde_json::Value;

use super::turn::Turn;
use crate::{BmcError, RawReply, text};

/// Biggest body that is sent.
const REQUEST_CAP: usize = 64 << 10;
/// Headers that would hand out the conversation's own credentials.
const SECRET_HEADERS: [&str; 4] = ["x-auth-token", "set-cookie", "authorization", "www-authenticate"];

impl Turn {
    pub(super) async fn raw(&mut self, method: &str, path: &str, body: Option<&str>) -> Result<RawReply, BmcError> {
        let method = match method {
            "GET" => Method::GET,
            "HEAD" => Method::HEAD,
            "POST" => Method::POST,
            "PATCH" => Method::PATCH,
            "PUT" => Method::PUT,
            "DELETE" => Method::DELETE,
            other => {
                let shown = text::fit(other, &self.hide);
                return Err(self.says_no(format!("`{shown}` is none of GET, HEAD, POST, PATCH, PUT, DELETE")));
            }
        };
        let path = self.raw_path(path)?;
        let body = match body {
            Some(body) if body.len() > REQUEST_CAP => {
                return Err(self.says_no("the body is bigger than 64 KiB"));
            }
            Some(body) => Some(
                serde_json::from_str::<Value>(body)
                    .map_err(|error| self.says_no(format!("the body is not JSON: {error}")))?,
            ),
            None => None,
        };
        let reply = self.send(method, &path, body.as_ref(), &[]).await?;
        let headers = reply
            .headers
            .iter()
            .filter(|(name, _)| !SECRET_HEADERS.contains(&name.as_str()))
            .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
            .collect();
        let body = String::from_utf8(reply.body).map_err(|_| self.protocol("the answer is not UTF-8"))?;
        Ok(RawReply {
            status: reply.status.as_u16(),
            headers,
            body,
        })
    }

    /// Dots are resolved before the prefix is looked at; an encoded slash or backslash is not taken, since BMCs differ in
    /// what they make of it.
    fn raw_path(&self, path: &str) -> Result<String, BmcError> {
        let refuse = || {
            let shown = text::fit(path, &self.hide);
            let root = self.bmc.dialect.root().trim_end_matches('/');
            self.says_no(format!("`{shown}` is not a path under {root}"))
        };
        if !path.starts_with('/') || path.contains(['\\', '#']) || path.chars().any(char::is_control) {
            return Err(refuse());
        }
        let url = self.resolve(path).map_err(|_| refuse())?;
        let clean = url.path();
        let lower = clean.to_ascii_lowercase();
        let root = self.bmc.dialect.root().trim_end_matches('/');
        let rest = clean.strip_prefix(root);
        let inside = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if !inside || lower.contains("%2f") || lower.contains("%5c") || lower.contains("//") {
            return Err(refuse());
        }
        Ok(match url.query() {
            Some(query) => format!("{clean}?{query}"),
            None => clean.to_owned(),
        })
    }
}
