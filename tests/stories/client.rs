//! A client of one conductor's API, and what stories ask it about nodes.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::wait;

/// One conductor's API.
#[derive(Clone)]
pub(crate) struct Api {
    http: reqwest::Client,
    base: String,
}

/// An answer that is no success: its status and what it says.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Api {
    pub(crate) fn new(base: String) -> Self {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(30))
            .build()
            .expect("an HTTP client");
        Self { http, base }
    }

    /// Sends a request; the outer error is that nobody answered.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> reqwest::Result<Result<Value, Refusal>> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.base))
            .header("X-OpenStack-Ironic-API-Version", "latest");
        if let Some(body) = body {
            request = request.json(body);
        }
        let reply = request.send().await?;
        let status = reply.status();
        let text = reply.text().await?;
        if !status.is_success() {
            return Ok(Err(Refusal::read(status, &text)));
        }
        Ok(Ok(match text.as_str() {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
        }))
    }

    #[track_caller]
    fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> impl Future<Output = Result<Value, Refusal>> {
        let caller = std::panic::Location::caller();
        let answer = self.send(method.clone(), path, body);
        async move {
            let answer = answer.await;
            answer.unwrap_or_else(|error| panic!("{caller}: no answer to {method} {path}: {error}"))
        }
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> impl Future<Output = Value> {
        let caller = std::panic::Location::caller();
        let answer = self.ask(Method::GET, path, None);
        async move {
            let answer = answer.await;
            answer.unwrap_or_else(|refusal| panic!("{caller}: GET {path}: {refusal:?}"))
        }
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Refusal> {
        self.ask(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<Value, Refusal> {
        self.ask(Method::PUT, path, Some(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Result<Value, Refusal> {
        self.ask(Method::PATCH, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, Refusal> {
        self.ask(Method::DELETE, path, None).await
    }

    /// Asks for a verb.
    pub(crate) async fn ask_for(&self, node: &str, verb: &str) -> Result<Value, Refusal> {
        let path = format!("/v1/nodes/{node}/states/provision");
        self.put(&path, &json!({ "target": verb })).await
    }

    /// Asks for a verb, which must be taken.
    #[track_caller]
    pub(crate) fn want(&self, node: &str, verb: &str) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        let answer = self.ask_for(node, verb);
        async move {
            if let Err(refusal) = answer.await {
                panic!("{caller}: {verb} of {node}: {refusal:?}");
            }
        }
    }

    pub(crate) async fn node(&self, node: &str) -> Value {
        self.get(&format!("/v1/nodes/{node}")).await
    }

    /// Waits until the node is in that state and nothing is under way; a failure on the way ends the wait at once.
    #[track_caller]
    pub(crate) fn reaches(&self, node: &str, state: &str) -> impl Future<Output = Value> {
        let caller = std::panic::Location::caller();
        async move {
            let path = format!("/farrier/v1/nodes/{node}/progress");
            wait::until(&format!("{node} is `{state}` ({caller})"), async || {
                let now = self.get(&path).await;
                let current = now["provision_state"].as_str().unwrap_or_default();
                if !now["wish"].is_null() {
                    // What was asked for has not begun; the state is that of before.
                    return None;
                }
                let failed = current.ends_with("failed") || current == "error";
                let refused = !now["last_error"].is_null() && now["target_provision_state"].is_null();
                assert!(
                    current == state || !(failed || refused),
                    "{caller}: {node} is `{current}`, not `{state}`: {}",
                    now["last_error"]
                );
                (current == state).then_some(())
            })
            .await;
            self.node(node).await
        }
    }

    /// The verb is taken and leads to the state.
    #[track_caller]
    pub(crate) fn bring(&self, node: &str, verb: &str, state: &str) -> impl Future<Output = Value> {
        let (want, reaches) = (self.want(node, verb), self.reaches(node, state));
        async move {
            want.await;
            reaches.await
        }
    }

    /// Waits until the node is in that failed state; returns its last error.
    #[track_caller]
    pub(crate) fn fails(&self, node: &str, state: &str) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        async move {
            wait::until(&format!("{node} fails into `{state}` ({caller})"), async || {
                let now = self.get(&format!("/farrier/v1/nodes/{node}/progress")).await;
                let over = now["wish"].is_null() && !now["last_error"].is_null();
                let there = over && now["provision_state"] == state;
                there.then(|| now["last_error"].as_str().unwrap_or_default().to_owned())
            })
            .await
        }
    }

    /// What happened to the node, oldest first.
    pub(crate) async fn events(&self, node: &str) -> Vec<Value> {
        let answer = self.get(&format!("/farrier/v1/events?node={node}&limit=1000")).await;
        answer["events"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until that conductor has carried out its take-over of the node; returns what it says of it.
    #[track_caller]
    pub(crate) fn taken_over(&self, node: &str, by: &str) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        async move {
            wait::until(&format!("{by} takes {node} over ({caller})"), async || {
                let events = self.events(node).await;
                let done = events
                    .iter()
                    .find(|event| event["kind"] == "take-over" && event["conductor"] == by);
                done.map(|event| event["message"].as_str().unwrap_or_default().to_owned())
            })
            .await
        }
    }

    /// What is published for the node, as `kind backend digest`.
    pub(crate) async fn artefacts(&self, node: &str) -> Vec<String> {
        let answer = self.get(&format!("/farrier/v1/artefacts?node={node}")).await;
        let text = |artefact: &Value, key: &str| artefact[key].as_str().unwrap_or_default().to_owned();
        answer["artefacts"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|artefact| {
                let parts = ["kind", "backend", "digest"].map(|key| text(artefact, key));
                parts.join(" ")
            })
            .collect()
    }

    /// The node's journal, oldest first, as `action outcome`.
    pub(crate) async fn journal(&self, node: &str) -> Vec<String> {
        let answer = self.get(&format!("/farrier/v1/nodes/{node}/effects?limit=1000")).await;
        let mut effects: Vec<_> = answer["effects"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|effect| {
                let text = |key: &str| effect[key].as_str().unwrap_or_default().to_owned();
                format!("{} {}", text("action"), text("outcome"))
            })
            .collect();
        effects.reverse();
        effects
    }
}

impl Refusal {
    /// Ironic's clients expect JSON text inside JSON (`error_message`).
    fn read(status: StatusCode, text: &str) -> Self {
        let body: Value = serde_json::from_str(text).unwrap_or_default();
        let inner = match &body["error_message"] {
            Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str())),
            other => other.clone(),
        };
        let said = inner["faultstring"].as_str().or(inner.as_str()).unwrap_or(text);
        Self {
            status: status.as_u16(),
            text: said.to_owned(),
        }
    }
}

/// Asserts that an error says all of these.
#[track_caller]
pub(crate) fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}
