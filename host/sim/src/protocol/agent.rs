//! The deploy agent's side that calls: lookup, then heartbeats, as ironic-python-agent does.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::protocol::agent_api;
use crate::protocol::commands::Commands;
use crate::protocol::floppy::Parameters;
use crate::server::Server;
use crate::tls::{self, Identity, Trust};

/// Version that the agent says it is.
pub(crate) const AGENT_VERSION: &str = "13.0.0";
/// Longest reply of a conductor in bytes.
const REPLY_CAP: usize = 1 << 20;
/// How long one request may take, as in the agent's own settings.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// How long the agent looks for its node unless `ipa-lookup-timeout` says otherwise.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(600);
/// The agent takes no shorter token.
const TOKEN_LENGTH: usize = 32;
/// How conductors show a token that they will not tell.
const HIDDEN_TOKEN: &str = "******";

/// How the agent ended.
pub(crate) enum End {
    /// It was told to switch the machine off.
    PoweredOff,
    GaveUp(String),
}

/// What lookup said.
struct Found {
    uuid: String,
    heartbeat_timeout: Duration,
}

pub(crate) async fn run(server: &Arc<Server>, boot: u64, parameters: &Parameters, inside: CancellationToken) -> End {
    match serve(server, boot, parameters, inside).await {
        Ok(end) => end,
        Err(reason) => End::GaveUp(reason),
    }
}

async fn serve(
    server: &Arc<Server>,
    boot: u64,
    parameters: &Parameters,
    inside: CancellationToken,
) -> Result<End, String> {
    let urls = api_urls(parameters.get("ipa-api-url").unwrap_or_default())?;
    let client = client(parameters)?;
    let mut token = parameters.get("ipa-agent-token").map(str::to_owned);
    wait_for_permission(server).await;
    sleep(server.config.timing.agent_delay).await;
    let deadline = parameters
        .get("ipa-lookup-timeout")
        .and_then(|text| text.parse().ok())
        .map_or(LOOKUP_DEADLINE, Duration::from_secs);
    let found = lookup(server, &client, &urls, &mut token, deadline).await?;
    let token = token.ok_or("lookup gave no agent token and none was in the parameters")?;
    if token.len() < TOKEN_LENGTH {
        return Err(format!("the agent token is shorter than {TOKEN_LENGTH} characters"));
    }

    let listener = TcpListener::bind(("127.0.0.1", 0))
        .await
        .map_err(|error| format!("cannot listen: {error}"))?;
    let port = listener
        .local_addr()
        .map_err(|error| format!("cannot listen: {error}"))?
        .port();
    let identity = if server.config.agent_tls {
        Some(Identity::self_signed().map_err(|error| error.to_string())?)
    } else {
        None
    };
    let scheme = if identity.is_some() { "https" } else { "http" };
    let callback = format!("{scheme}://127.0.0.1:{port}");
    server.state().agent_url = Some(callback.clone());
    let beat_now = Arc::new(Notify::new());
    let powered_off = CancellationToken::new();
    let commands = Arc::new(Commands::new(
        Arc::clone(server),
        boot,
        client.clone(),
        Arc::clone(&beat_now),
        powered_off.clone(),
        inside.clone(),
    ));
    let mut body = json!({
        "callback_url": callback,
        "agent_token": token,
        "agent_version": AGENT_VERSION,
    });
    let tls = identity.map(|identity| {
        body["agent_verify_ca"] = identity.ca_pem.into();
        TlsAcceptor::from(identity.server)
    });
    tokio::spawn(agent_api::run(listener, tls, commands, token, inside));

    tokio::select! {
        () = powered_off.cancelled() => {}
        () = heartbeats(server, &client, &urls, &found, &body, &beat_now) => {}
    }
    sleep(server.config.timing.shutdown).await;
    Ok(End::PoweredOff)
}

/// Returns at once, or when nobody holds the agent back any more.
async fn wait_for_permission(server: &Server) {
    let mut held = server.agent_held.subscribe();
    // The sender is a field of the server, which outlives this wait.
    let _ = held.wait_for(|held| !held).await;
}

/// The conductors' addresses. QEMU's user network shows the host as 10.0.2.2; this server is on the host itself.
fn api_urls(list: &str) -> Result<Vec<String>, String> {
    let urls: Result<Vec<String>, String> = list
        .split(',')
        .filter(|url| !url.is_empty())
        .map(|url| map_host(url).map(|url| url.trim_end_matches('/').to_owned()))
        .collect();
    let urls = urls?;
    if urls.is_empty() {
        return Err("ipa-api-url is empty".into());
    }
    Ok(urls)
}

/// `url` as this server reaches it.
pub(crate) fn map_host(url: &str) -> Result<String, String> {
    let mut url = Url::parse(url).map_err(|error| format!("bad URL {url:?}: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("bad URL scheme {:?}", url.scheme()));
    }
    if url.host_str() == Some("10.0.2.2") {
        url.set_host(Some("127.0.0.1")).map_err(|error| error.to_string())?;
    }
    Ok(url.into())
}

fn client(parameters: &Parameters) -> Result<Client, String> {
    let insecure = parameters
        .get("ipa-insecure")
        .is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes"));
    let trust = if insecure { Trust::Anything } else { Trust::Only("") };
    let tls = tls::client(trust).map_err(|error| error.to_string())?;
    Client::builder()
        .tls_backend_preconfigured((*tls).clone())
        .no_proxy()
        .connect_timeout(REQUEST_DEADLINE)
        .build()
        .map_err(|error| error.to_string())
}

/// Asks each conductor in turn, round after round, until one knows this machine.
async fn lookup(
    server: &Arc<Server>,
    client: &Client,
    urls: &[String],
    token: &mut Option<String>,
    deadline: Duration,
) -> Result<Found, String> {
    let end = Instant::now() + deadline;
    let mut last = String::new();
    loop {
        for url in urls {
            let asked = timeout_at(end, lookup_at(server, client, url)).await;
            match asked {
                Ok(Ok((found, offered))) => {
                    if token.is_none() {
                        *token = offered;
                    }
                    return Ok(found);
                }
                Ok(Err(reason)) => {
                    tracing::debug!(server = server.index, %reason, "lookup failed");
                    last = reason;
                }
                Err(_) => return Err(format!("no conductor knew this machine in time: {last}")),
            }
        }
        let pause = server.config.timing.heartbeat_cap.min(Duration::from_secs(10));
        if timeout_at(end, sleep(pause)).await.is_err() {
            return Err(format!("no conductor knew this machine in time: {last}"));
        }
    }
}

async fn lookup_at(server: &Arc<Server>, client: &Client, url: &str) -> Result<(Found, Option<String>), String> {
    // The agent asks for the versions first and goes on without an answer.
    let _ = send(client.get(format!("{url}/"))).await;
    let mut lookup = Url::parse(&format!("{url}/v1/lookup")).map_err(|error| error.to_string())?;
    lookup.query_pairs_mut().append_pair("addresses", &server.mac);
    let request = client
        .get(lookup)
        .header("X-OpenStack-Ironic-API-Version", "1.62")
        .header("Accept", "application/json");
    let (status, body) = send(request).await?;
    if status != StatusCode::OK {
        return Err(format!("lookup answered {status}"));
    }
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let uuid = text(body.get("node").and_then(|node| node.get("uuid")))
        .filter(|uuid| !uuid.is_empty() && uuid.len() <= 255 && !uuid.contains('/'))
        .ok_or("lookup answered without a node uuid")?;
    let config = body.get("config").ok_or("lookup answered without config")?;
    let seconds = config
        .get("heartbeat_timeout")
        .and_then(Value::as_u64)
        .filter(|seconds| *seconds > 0)
        .ok_or("lookup answered without heartbeat_timeout")?;
    let token = text(config.get("agent_token")).filter(|token| token != HIDDEN_TOKEN);
    let found = Found {
        uuid,
        heartbeat_timeout: Duration::from_secs(seconds),
    };
    Ok((found, token))
}

/// Never ends by itself; each beat goes to the first conductor that takes it.
async fn heartbeats(
    server: &Arc<Server>,
    client: &Client,
    urls: &[String],
    found: &Found,
    body: &Value,
    beat_now: &Notify,
) {
    loop {
        wait_for_permission(server).await;
        for url in urls {
            let request = client
                .post(format!("{url}/v1/heartbeat/{}", found.uuid))
                .header("X-OpenStack-Ironic-API-Version", "1.68")
                .json(body);
            match send(request).await {
                Ok((StatusCode::ACCEPTED, _)) => break,
                Ok((status, _)) => {
                    tracing::debug!(server = server.index, %status, "heartbeat refused")
                }
                Err(reason) => tracing::debug!(server = server.index, %reason, "heartbeat failed"),
            }
        }
        let share = rand::rng().random_range(0.3..0.6);
        let pause = found.heartbeat_timeout.mul_f64(share);
        tokio::select! {
            () = sleep(pause.min(server.config.timing.heartbeat_cap)) => {}
            () = beat_now.notified() => {}
        }
    }
}

/// Sends and reads a bounded JSON reply; a body that is not JSON reads as null.
async fn send(request: reqwest::RequestBuilder) -> Result<(StatusCode, Value), String> {
    let mut response = request
        .timeout(REQUEST_DEADLINE)
        .send()
        .await
        .map_err(|error| error.without_url().to_string())?;
    let mut body = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| error.without_url().to_string())?
    {
        if body.len() + chunk.len() > REPLY_CAP {
            return Err(format!("a reply of more than {REPLY_CAP} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok((response.status(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_as_guests_see_it_becomes_loopback() {
        assert_eq!(
            api_urls("http://10.0.2.2:6385,http://192.0.2.1:1/x/").unwrap(),
            ["http://127.0.0.1:6385", "http://192.0.2.1:1/x"]
        );
        assert!(api_urls("").is_err());
        assert!(api_urls("mdns").is_err());
    }
}
