//! The command line's HTTP client for the API: one request, one typed error, nothing kept.

use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use model::Secret;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use url::Url;

/// The API's own version header, and the version that this client speaks.
const VERSION: (&str, &str) = ("X-OpenStack-Ironic-API-Version", "latest");

/// Longest reply: pages of five hundred nodes, each as big as the API takes them.
const MAX_REPLY: usize = 512 << 20;
/// Longest file with a password.
const MAX_PASSWORD_FILE: u64 = 64 << 10;

/// Where the API is and how to log in there.
#[derive(clap::Args, Clone)]
pub(crate) struct ApiArgs {
    /// Base URL of the API
    // Ids of options that every verb takes must not be those of any verb's own arguments.
    #[arg(
        id = "api",
        long = "api",
        value_name = "URL",
        value_parser = api_url,
        env = "FARRIER_API",
        default_value = "http://127.0.0.1:6385",
        global = true
    )]
    url: Url,
    /// User for http_basic
    #[arg(
        long = "api-user",
        env = "FARRIER_API_USER",
        requires = "password_file",
        global = true
    )]
    user: Option<String>,
    /// File that holds the user's password in its first line
    #[arg(
        id = "password_file",
        long = "api-password-file",
        env = "FARRIER_API_PASSWORD_FILE",
        global = true
    )]
    password_file: Option<PathBuf>,
    /// PEM certificate of the authority that signed the API's certificate
    #[arg(long = "api-ca", env = "FARRIER_API_CA", global = true)]
    ca: Option<PathBuf>,
}

fn api_url(text: &str) -> Result<Url, String> {
    let url: Url = text
        .parse()
        .map_err(|error| format!("{error}; write it like http://127.0.0.1:6385"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it must begin with http:// or https://".to_owned());
    }
    Ok(url)
}

/// A client for one API.
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    login: Option<(String, Secret)>,
}

impl Client {
    pub(crate) fn new(args: &ApiArgs) -> Result<Self> {
        let mut http = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(Duration::from_secs(5))
            .timeout(Duration::from_secs(60));
        if let Some(path) = &args.ca {
            let pem = std::fs::read(path).with_context(|| format!("could not read --api-ca {}", path.display()))?;
            let certificate = reqwest::Certificate::from_pem(&pem)
                .with_context(|| format!("{} holds no PEM certificate", path.display()))?;
            http = http.tls_certs_only([certificate]);
        }
        let login = match (&args.user, &args.password_file) {
            (Some(user), Some(path)) => Some((user.clone(), first_line(path)?)),
            _ => None,
        };
        let http = http.build().context("could not set up the HTTP client")?;
        Ok(Self {
            http,
            base: args.url.clone(),
            login,
        })
    }

    /// A client for a local API without login.
    pub(crate) fn local(base: Url) -> Result<Self> {
        Self::new(&ApiArgs {
            url: base,
            user: None,
            password_file: None,
            ca: None,
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::PUT, path, Some(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::PATCH, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value> {
        self.send(Method::DELETE, path, None).await
    }

    /// Sends one request; `path` starts with `/` and is appended to the base URL's own path.
    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let url = format!("{}{path}", self.base.as_str().trim_end_matches('/'));
        let mut request = self.http.request(method.clone(), &url).header(VERSION.0, VERSION.1);
        if let Some((user, password)) = &self.login {
            request = request.basic_auth(user, Some(password.expose()));
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut reply = request.send().await.with_context(|| {
            format!(
                "no answer from the API at {} (is `farrier serve` running there?)",
                self.base
            )
        })?;
        let status = reply.status();
        let mut text = Vec::new();
        while let Some(part) = reply
            .chunk()
            .await
            .with_context(|| format!("{method} {path}: reply cut short"))?
        {
            ensure!(
                text.len() + part.len() <= MAX_REPLY,
                "{method} {path}: the reply is longer than {MAX_REPLY} bytes; is this a Farrier API?"
            );
            text.extend_from_slice(&part);
        }
        let text = String::from_utf8_lossy(&text);
        if !status.is_success() {
            bail!("{}", refusal(&self.base, status, &text));
        }
        if text.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text)
            .map_err(|e| anyhow!("{method} {path}: the reply is not JSON ({e}); is this a Farrier API?"))
    }
}

/// What an error body says. Ironic's clients expect JSON text inside JSON (`error_message.faultstring`).
fn refusal(base: &Url, status: StatusCode, text: &str) -> String {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let inner = match &body["error_message"] {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str())),
        other => other.clone(),
    };
    let fault = inner["faultstring"].as_str().or(inner.as_str());
    match fault {
        Some(fault) => fault.to_owned(),
        None if status == StatusCode::UNAUTHORIZED => {
            "the API wants a login: give --api-user and --api-password-file".to_owned()
        }
        None => format!("{base} answered {status} and nothing that explains it; is this a Farrier API?"),
    }
}

/// First line of a file that holds a password.
pub(crate) fn first_line(path: &std::path::Path) -> Result<Secret> {
    let mut text = String::new();
    // Not just of regular files: a shell's `<(…)` is a pipe. What it holds may have no end.
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_PASSWORD_FILE + 1).read_to_string(&mut text))
        .with_context(|| format!("could not read the password file {}", path.display()))?;
    ensure!(
        text.len() as u64 <= MAX_PASSWORD_FILE,
        "{} is longer than {MAX_PASSWORD_FILE} bytes and so no password file",
        path.display()
    );
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        bail!("the password file {} is empty", path.display());
    }
    Ok(Secret::new(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_show_the_fault_string_in_either_nesting() {
        let base: Url = "http://192.0.2.1:6385".parse().unwrap();
        let refusal = |status, text: &str| refusal(&base, status, text);
        let nested = r#"{"error_message":"{\"faultstring\":\"node busy\",\"faultcode\":\"Client\"}"}"#;
        assert_eq!(refusal(StatusCode::CONFLICT, nested), "node busy");
        let flat = r#"{"error_message":{"faultstring":"no such node"}}"#;
        assert_eq!(refusal(StatusCode::NOT_FOUND, flat), "no such node");
        assert!(refusal(StatusCode::UNAUTHORIZED, "").contains("--api-user"));
        let stranger = refusal(StatusCode::BAD_GATEWAY, "<html>");
        assert!(
            stranger.contains("502") && stranger.contains("192.0.2.1") && stranger.contains("Farrier API?"),
            "{stranger}"
        );
    }

    #[test]
    fn a_password_is_the_first_line_of_a_file_that_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        std::fs::write(&path, "s3cret\nmore\n").unwrap();
        assert_eq!(first_line(&path).unwrap().expose(), "s3cret");
        std::fs::write(&path, "").unwrap();
        assert!(first_line(&path).is_err());
        let endless = first_line(std::path::Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(endless.contains("no password file"), "{endless}");
    }
}
