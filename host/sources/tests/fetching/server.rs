//! A web server of few words.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is sent for one request before the connection closes.
#[derive(Clone)]
pub(crate) enum Answer {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These bytes, and then the connection stays open in silence.
    ThenSilence(Vec<u8>),
    /// These bytes after a while.
    Later(Duration, Vec<u8>),
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
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
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

    /// Requests so far, head and all, in lower case.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0; 1];
        // A client that goes away is part of many tests.
        if stream.read(&mut byte).await.unwrap_or(0) == 0 {
            return;
        }
        request.push(byte[0]);
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap().to_owned();
    let answer = {
        let mut state = state.lock().unwrap();
        state.requests.push(request.to_lowercase());
        match state.script.get_mut(&path) {
            Some(answers) if answers.len() > 1 => answers.pop_front().unwrap(),
            Some(answers) => answers[0].clone(),
            None => head(404, &["content-length: 0"], b""),
        }
    };
    let (bytes, silence) = match answer {
        Answer::Bytes(bytes) => (bytes, false),
        Answer::ThenSilence(bytes) => (bytes, true),
        Answer::Later(wait, bytes) => {
            tokio::time::sleep(wait).await;
            (bytes, false)
        }
    };
    let sent = stream.write_all(&bytes).await;
    if silence && sent.is_ok() {
        std::future::pending::<()>().await;
    }
}
