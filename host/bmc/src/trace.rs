//! Who listens in on a conversation with a BMC: one record for each request with what came back.

use std::time::{Duration, SystemTime};

/// Gets every exchange, secrets and all; whoever keeps one takes them out first, as [`crate::record::Recorder`] does.
pub trait Trace: Send + Sync {
    /// One request and its outcome. Called on the conversation's own task: it must not wait.
    fn exchange(&self, exchange: Exchange);
}

/// One request and what came back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// When the request was sent.
    pub at: SystemTime,
    /// How long it took until the answer was whole or the failure was known.
    pub took: Duration,
    /// How it travelled.
    pub form: Form,
    /// `GET`, `POST`…; `POST` for a document on the raw form.
    pub method: String,
    /// Path and query on the BMC's origin; `/ribcl` for the raw form.
    pub path: String,
    /// Headers that we chose; the client library adds `Host` and lengths.
    pub headers: Vec<(String, String)>,
    /// Body, where there is one.
    pub body: Option<String>,
    /// What came back.
    pub outcome: Outcome,
}

/// How a request travelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// HTTP.
    Http,
    /// An RIBCL document straight on TLS, as iLO 2 wants it.
    Raw,
}

/// What came back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// An answer.
    Reply {
        /// HTTP status; 200 on the raw form.
        status: u16,
        /// Headers.
        headers: Vec<(String, String)>,
        /// Body; bytes that are not UTF-8 are read as Latin-1.
        body: String,
    },
    /// None, and why.
    Failure(String),
}
