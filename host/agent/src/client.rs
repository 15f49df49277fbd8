//! One agent's command API over HTTP.

use std::fmt;
use std::time::Duration;

use model::Secret;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};
use url::Url;

use crate::command::{self, CommandStatus, StepList, short};
use crate::{AgentError, AgentStep, CallbackPolicy, CommandState, ImageInfo, tls};

/// Deadline of a request that the agent answers at once.
const PROMPT: Duration = Duration::from_secs(30);
/// Deadline of making a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Size of the biggest reply, apart from what we sent ourselves and the agent repeats.
const REPLY_BYTES: usize = 1 << 20;

/// How to reach one agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentAddress {
    /// `callback_url` of its heartbeat.
    pub callback_url: String,
    /// PEM certificate of its first heartbeat; `None` = one that the system's authorities vouch for, or plain http.
    pub certificate: Option<String>,
    /// The token that we gave it.
    pub token: Secret,
}

/// Client of one agent. `Debug` shows only where it is.
#[derive(Clone)]
pub struct AgentClient {
    http: reqwest::Client,
    commands: Url,
    host: String,
    token: Secret,
    reply_bytes: usize,
}

impl fmt::Debug for AgentClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentClient")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl AgentClient {
    /// A client, if the site's policy lets us call there.
    pub fn new(address: &AgentAddress, policy: &CallbackPolicy) -> Result<Self, AgentError> {
        let url = policy.check(&address.callback_url).map_err(AgentError::NotAllowed)?;
        let port = url.port_or_known_default().unwrap_or(0);
        let host = format!("{}:{port}", url.host_str().unwrap_or_default());
        let unusable = |reason| AgentError::Certificate {
            host: host.clone(),
            reason,
        };
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(1);
        if let Some(pem) = &address.certificate {
            builder = builder.tls_backend_preconfigured(tls::pinned(pem).map_err(unusable)?);
        }
        let http = builder
            .build()
            .map_err(|error| unusable(reason(&error.without_url())))?;
        let mut commands = url.clone();
        commands.set_path(&format!("{}/v1/commands/", url.path().trim_end_matches('/')));
        Ok(Self {
            http,
            commands,
            host,
            token: address.token.clone(),
            reply_bytes: REPLY_BYTES,
        })
    }

    /// Allows replies to be bigger by what the agent repeats of our own parameters (a config drive in `prepare_image`).
    pub fn expecting_echo_of(mut self, bytes: usize) -> Self {
        self.reply_bytes = REPLY_BYTES.saturating_add(bytes);
        self
    }

    /// Gives a command. `wait`: how long the agent may take to finish before it answers; `None` = it answers at once and
    /// the command goes on.
    pub async fn command(
        &self,
        name: &str,
        params: Value,
        wait: Option<Duration>,
    ) -> Result<CommandStatus, AgentError> {
        let mut url = self.commands.clone();
        url.query_pairs_mut()
            .append_pair("wait", if wait.is_some() { "true" } else { "false" })
            .append_pair("agent_token", self.token.expose());
        let body = json!({"name": name, "params": params});
        let reply = self
            .request(Method::POST, url, Some(body), name, wait.unwrap_or(PROMPT))
            .await?;
        command::parse(&reply).map_err(|reason| self.protocol(name, reason))
    }

    /// All commands that the agent remembers, oldest first.
    pub async fn commands(&self) -> Result<Vec<CommandStatus>, AgentError> {
        const ACTION: &str = "the list of commands";
        let mut url = self.commands.clone();
        url.query_pairs_mut().append_pair("agent_token", self.token.expose());
        let reply = self.request(Method::GET, url, None, ACTION, PROMPT).await?;
        let list = reply.get("commands").and_then(Value::as_array);
        let list = list.ok_or_else(|| self.protocol(ACTION, "there is no array `commands`".to_owned()))?;
        list.iter()
            .map(|entry| command::parse(entry).map_err(|reason| self.protocol(ACTION, reason)))
            .collect()
    }

    /// Steps that the ramdisk offers for a deployment.
    pub async fn get_deploy_steps(&self, node: &Value, ports: &Value) -> Result<StepList, AgentError> {
        self.steps("deploy.get_deploy_steps", "deploy_steps", node, ports).await
    }

    /// Steps that the ramdisk offers for cleaning.
    pub async fn get_clean_steps(&self, node: &Value, ports: &Value) -> Result<StepList, AgentError> {
        self.steps("clean.get_clean_steps", "clean_steps", node, ports).await
    }

    /// Starts one clean step.
    pub async fn execute_clean_step(
        &self,
        step: &AgentStep,
        version: &Value,
        node: &Value,
        ports: &Value,
    ) -> Result<CommandStatus, AgentError> {
        let params = json!({"step": step.raw, "node": node, "ports": ports, "clean_version": version});
        self.command("clean.execute_clean_step", params, None).await
    }

    /// Starts writing an image to the disk.
    pub async fn prepare_image(
        &self,
        image: &ImageInfo,
        config_drive: Option<&Secret>,
    ) -> Result<CommandStatus, AgentError> {
        let mut params = Map::new();
        params.insert("image_info".into(), image.to_params());
        if let Some(drive) = config_drive {
            params.insert("configdrive".into(), json!(drive.expose()));
        }
        self.command("standby.prepare_image", Value::Object(params), None).await
    }

    /// Flushes the disk caches; returns when that is done.
    pub async fn sync(&self, wait: Duration) -> Result<(), AgentError> {
        let status = self.command("standby.sync", json!({}), Some(wait)).await?;
        self.done("standby.sync", status).map(|_| ())
    }

    /// Asks the ramdisk to power the server off. The connection may break before the answer comes.
    pub async fn power_off(&self) -> Result<(), AgentError> {
        self.command("standby.power_off", json!({}), None).await.map(|_| ())
    }

    async fn steps(&self, name: &'static str, key: &str, node: &Value, ports: &Value) -> Result<StepList, AgentError> {
        let params = json!({"node": node, "ports": ports});
        let status = self.command(name, params, Some(2 * PROMPT)).await?;
        let status = self.done(name, status)?;
        StepList::parse(&status.result, key).map_err(|reason| self.protocol(name, reason))
    }

    /// The status of a command that was waited for, if it ended well.
    fn done(&self, name: &str, status: CommandStatus) -> Result<CommandStatus, AgentError> {
        let reason = match &status.state {
            CommandState::Succeeded => return Ok(status),
            CommandState::Failed(failure) => failure.to_string(),
            CommandState::VersionMismatch => "its hardware managers changed meanwhile".to_owned(),
            CommandState::Running => {
                let reason = "it answered before the command was done, although told to wait".to_owned();
                return Err(self.protocol(name, reason));
            }
        };
        Err(AgentError::Refused {
            host: self.host.clone(),
            command: name.to_owned(),
            reason,
        })
    }

    async fn request(
        &self,
        method: Method,
        url: Url,
        body: Option<Value>,
        action: &str,
        deadline: Duration,
    ) -> Result<Value, AgentError> {
        let exchange = self.exchange(method, url, body, action);
        match tokio::time::timeout(deadline, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => Err(AgentError::Timeout {
                host: self.host.clone(),
                command: action.to_owned(),
                after: deadline,
            }),
        }
    }

    async fn exchange(&self, method: Method, url: Url, body: Option<Value>, action: &str) -> Result<Value, AgentError> {
        let unreachable = |error: reqwest::Error| AgentError::Unreachable {
            host: self.host.clone(),
            command: action.to_owned(),
            // The URL holds the token.
            reason: self.scrub(&reason(&error.without_url())),
        };
        let mut request = self.http.request(method, url);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let mut reply = request.send().await.map_err(unreachable)?;
        let status = reply.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = reply.chunk().await.map_err(unreachable)? {
            if bytes.len() + chunk.len() > self.reply_bytes {
                return Err(self.protocol(action, format!("more than {} bytes", self.reply_bytes)));
            }
            bytes.extend_from_slice(&chunk);
        }
        // From here on nothing that the agent repeats to us holds the token.
        let text = self.scrub(&String::from_utf8_lossy(&bytes));
        if status.is_success() {
            return serde_json::from_str(&text)
                .map_err(|error| self.protocol(action, format!("not JSON: {}", short(&error.to_string()))));
        }
        Err(self.refusal(status, &text, action))
    }

    /// An answer that is not a success, as an error. Agents before 2021 say that they are busy with a 500.
    fn refusal(&self, status: StatusCode, body: &str, action: &str) -> AgentError {
        let host = self.host.clone();
        let command = action.to_owned();
        let said: Value = serde_json::from_str(body).unwrap_or_default();
        let failure = command::failure(&said);
        let busy = |text: &str| text.to_ascii_lowercase().contains("agent is busy");
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => AgentError::Token { host, command },
            StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                AgentError::Busy { host, command }
            }
            _ if busy(&failure.message) || busy(&failure.details) => AgentError::Busy { host, command },
            _ if status.is_redirection() => self.protocol(
                action,
                format!("HTTP {}: a redirect, which is not followed", status.as_u16()),
            ),
            _ => {
                let reason = format!("HTTP {}: {failure}", status.as_u16());
                AgentError::Refused { host, command, reason }
            }
        }
    }

    fn protocol(&self, command: &str, reason: String) -> AgentError {
        AgentError::Protocol {
            host: self.host.clone(),
            command: command.to_owned(),
            reason,
        }
    }

    /// An agent may repeat what it was sent, and an HTTP client names the URL that failed.
    fn scrub(&self, text: &str) -> String {
        match self.token.expose() {
            "" => text.to_owned(),
            token => text.replace(token, "***"),
        }
    }
}

/// An error with its causes on one line.
fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    short(&text)
}
