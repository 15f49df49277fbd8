//! A web server of few words, which does whatever a test tells it to, over plain connections or TLS.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What is sent for one request before the connection closes.
#[derive(Clone)]
pub(crate) enum Answer {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These bytes, and then the connection stays open in silence.
    ThenSilence(Vec<u8>),
    /// These bytes after a while.
    Later(Duration, Vec<u8>),
    /// These bytes, and then one more for each of such spans, for ever.
    Drip(Vec<u8>, Duration),
    /// These pieces, with a pause before each.
    Pieces(Vec<Vec<u8>>, Duration),
    /// What the request calls for.
    For(Arc<dyn Fn(&str) -> Answer + Send + Sync>),
}

impl Answer {
    pub(crate) fn to(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        Self::For(Arc::new(answer))
    }
}

pub(crate) fn head(status: u16, headers: &[&str], body: &[u8]) -> Answer {
    Answer::Bytes(bytes(status, headers, body))
}

pub(crate) fn bytes(status: u16, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n");
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    [text.as_bytes(), body].concat()
}

/// A whole answer with its length.
pub(crate) fn ok(headers: &[&str], body: &[u8]) -> Answer {
    let length = format!("content-length: {}", body.len());
    let mut all = vec![length.as_str()];
    all.extend(headers);
    head(200, &all, body)
}

/// The value of a header of a request, in lower case.
pub(crate) fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let lines = request.lines().filter_map(|line| line.split_once(": "));
    lines
        .into_iter()
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value)
}

#[derive(Default)]
struct State {
    script: HashMap<String, VecDeque<Answer>>,
    requests: Vec<String>,
}

pub(crate) struct Server {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1").await
    }

    pub(crate) async fn start_at(address: &str) -> Self {
        Self::listen(address, None).await
    }

    pub(crate) async fn start_tls(tls: rustls::ServerConfig) -> Self {
        Self::listen("127.0.0.1", Some(TlsAcceptor::from(Arc::new(tls)))).await
    }

    async fn listen(address: &str, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, state) = (tls.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, state).await,
                        // A client that does not trust us is part of some tests.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, state).await;
                            }
                        }
                    }
                });
            }
        });
        Self { url, state, task }
    }

    /// What to answer to a path, in order; the last one stays. Replaces what was there.
    pub(crate) fn on(&self, path: &str, answers: impl IntoIterator<Item = Answer>) -> String {
        let mut state = self.state.lock().unwrap();
        state.script.insert(path.to_owned(), answers.into_iter().collect());
        format!("{}{path}", self.url)
    }

    /// Requests so far: head in lower case, then the body as it came.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<Mutex<State>>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0; 1];
        // A client that goes away is part of many tests.
        if stream.read(&mut byte).await.unwrap_or(0) == 0 {
            return;
        }
        request.push(byte[0]);
    }
    let head = String::from_utf8(request).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let mut request = head.to_lowercase();
    let mut body = vec![0; header(&request, "content-length").map_or(0, |length| length.parse().unwrap())];
    if stream.read_exact(&mut body).await.is_err() {
        return;
    }
    request.push_str(&String::from_utf8(body).unwrap());
    let mut answer = {
        let mut state = state.lock().unwrap();
        state.requests.push(request.clone());
        match state.script.get_mut(&path) {
            Some(answers) if answers.len() > 1 => answers.pop_front().unwrap(),
            Some(answers) => answers[0].clone(),
            None => self::head(404, &["content-length: 0"], b""),
        }
    };
    while let Answer::For(answers) = answer {
        answer = answers(&request);
    }
    // A client that goes away ends it.
    let _gone = send(&mut stream, answer).await;
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), answer: Answer) -> std::io::Result<()> {
    match answer {
        Answer::Bytes(bytes) => stream.write_all(&bytes).await?,
        Answer::ThenSilence(bytes) => {
            stream.write_all(&bytes).await?;
            stream.flush().await?;
            std::future::pending::<()>().await;
        }
        Answer::Later(wait, bytes) => {
            tokio::time::sleep(wait).await;
            stream.write_all(&bytes).await?;
        }
        Answer::Drip(bytes, span) => {
            stream.write_all(&bytes).await?;
            loop {
                tokio::time::sleep(span).await;
                stream.write_all(b"x").await?;
                stream.flush().await?;
            }
        }
        Answer::Pieces(pieces, span) => {
            for piece in pieces {
                tokio::time::sleep(span).await;
                stream.write_all(&piece).await?;
                stream.flush().await?;
            }
        }
        Answer::For(_) => {}
    }
    stream.shutdown().await
}
