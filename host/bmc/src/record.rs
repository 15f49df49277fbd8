//! Keeps a dialogue with a BMC and hands it out as lines of JSON, scrubbed: what an operator sends along with a report, and what
//! a simulator can play back.
//!
//! The first line is `{"farrier-bmc-trace": 1}`. Each further line is one exchange:
//! `at_ms` since the first, `took_ms`, `form` (`http` or `raw`), `request` (`method`, `path`, `headers` as pairs, `body`), and
//! either `reply` (`status`, `headers`, `body`) or `failure`.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::BmcConfig;
use crate::access;
use crate::scrub::Scrubber;
use crate::trace::{Exchange, Form, Outcome, Trace};

/// Most bytes that are kept.
const CAP: usize = 64 << 20;
/// Headers whose value is a secret.
const SECRET_HEADERS: [&str; 4] = ["authorization", "x-auth-token", "cookie", "set-cookie"];

/// Keeps exchanges until it is asked for them.
#[derive(Default)]
pub struct Recorder {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    exchanges: Vec<Exchange>,
    bytes: usize,
    lost: usize,
}

impl Trace for Recorder {
    fn exchange(&self, exchange: Exchange) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = size(&exchange);
        if kept.bytes + bytes > CAP {
            kept.lost += 1;
            return;
        }
        kept.bytes += bytes;
        kept.exchanges.push(exchange);
    }
}

fn size(exchange: &Exchange) -> usize {
    let reply = match &exchange.outcome {
        Outcome::Reply { body, .. } => body.len(),
        Outcome::Failure(reason) => reason.len(),
    };
    exchange.path.len() + exchange.body.as_ref().map_or(0, String::len) + reply + 512
}

impl Recorder {
    /// How many exchanges did not fit into 64 MiB.
    pub fn lost(&self) -> usize {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).lost
    }

    /// What was recorded with this configuration, scrubbed, one line of JSON each. The error: something secret would have
    /// been left in, and nothing is handed out.
    pub fn lines(&self, config: &BmcConfig) -> Result<Vec<String>, &'static str> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scrubber = Scrubber::default();
        scrubber.password(config.password.expose());
        scrubber.user(&config.user);
        if let Ok(origin) = access::origin(&config.address) {
            scrubber.host(origin.host_str().unwrap_or_default());
        }
        for exchange in &kept.exchanges {
            learn(&mut scrubber, exchange);
        }
        let start = kept.exchanges.first().map(|exchange| exchange.at);
        let mut lines = vec![json!({"farrier-bmc-trace": 1}).to_string()];
        for exchange in &kept.exchanges {
            let at = start
                .and_then(|start| exchange.at.duration_since(start).ok())
                .unwrap_or_default();
            lines.push(line(&mut scrubber, exchange, at).to_string());
        }
        let password = config.password.expose();
        if password.len() >= 4 && lines.iter().any(|line| line.contains(password)) {
            return Err("the password still stands in the scrubbed trace, which is therefore not handed out");
        }
        Ok(lines)
    }
}

fn learn(scrubber: &mut Scrubber, exchange: &Exchange) {
    let mut headers: Vec<&(String, String)> = exchange.headers.iter().collect();
    if let Some(body) = &exchange.body {
        scrubber.learn(body);
    }
    if let Outcome::Reply {
        headers: more, body, ..
    } = &exchange.outcome
    {
        headers.extend(more);
        scrubber.learn(body);
    }
    for (name, value) in headers {
        if SECRET_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            scrubber.token(value);
        }
    }
}

fn line(scrubber: &mut Scrubber, exchange: &Exchange, at: Duration) -> Value {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let request = json!({
        "method": exchange.method,
        "path": scrubber.scrub(&exchange.path),
        "headers": headers(scrubber, &exchange.headers),
        "body": exchange.body.as_ref().map(|body| scrubber.scrub(body)),
    });
    let mut line = json!({
        "at_ms": millis(at),
        "took_ms": millis(exchange.took),
        "form": match exchange.form {
            Form::Http => "http",
            Form::Raw => "raw",
        },
        "request": request,
    });
    match &exchange.outcome {
        Outcome::Reply {
            status,
            headers: said,
            body,
        } => {
            line["reply"] = json!({
                "status": status,
                "headers": headers(scrubber, said),
                "body": scrubber.scrub(body),
            });
        }
        Outcome::Failure(reason) => line["failure"] = json!(scrubber.scrub(reason)),
    }
    line
}

fn headers(scrubber: &mut Scrubber, headers: &[(String, String)]) -> Vec<(String, String)> {
    let headers = headers.iter();
    headers
        .map(|(name, value)| {
            let value = scrubber.scrub(value);
            // The account in it is not its own text, but its encoding.
            let basic = name.eq_ignore_ascii_case("authorization");
            (name.clone(), if basic { "***".to_owned() } else { value })
        })
        .collect()
}
