//! An HTTP server with files of a story's own, which notes what was asked of it and can hold an answer back. It also serves a
//! folder by ranges, as the web server before a web root does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Serves until it is dropped.
pub(crate) struct ImageServer {
    base: String,
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Served under `/boot/`.
    folder: Mutex<Option<PathBuf>>,
    requests: Mutex<Vec<String>>,
    /// Whole bodies stop after half of their bytes while this is true.
    held: watch::Sender<bool>,
}

impl ImageServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("it is bound"));
        let shared = Arc::new(Shared {
            files: Mutex::default(),
            folder: Mutex::default(),
            requests: Mutex::default(),
            held: watch::Sender::new(false),
        });
        let task = tokio::spawn(serve(listener, Arc::clone(&shared))).abort_handle();
        Self { base, shared, task }
    }

    /// Puts a file there, in the place of one of that name; returns its URL.
    pub(crate) fn put(&self, name: &str, content: &[u8]) -> String {
        lock(&self.shared.files).insert(format!("/{name}"), content.to_vec());
        self.url(name)
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.base)
    }

    /// Serves what is in a folder under the returned URL.
    pub(crate) fn serve_folder(&self, folder: &Path) -> String {
        *lock(&self.shared.folder) = Some(folder.to_owned());
        self.url("boot")
    }

    /// Requests so far, as `GET /name`, or `GET /name bytes=0-9` for a part of it.
    pub(crate) fn requests(&self) -> Vec<String> {
        lock(&self.shared.requests).clone()
    }

    /// How often all of a file was asked for by GET.
    pub(crate) fn gets(&self, name: &str) -> usize {
        let wanted = format!("GET /{name}");
        self.requests().iter().filter(|request| **request == wanted).count()
    }

    /// Keeps the second half of every whole body back, or lets it go.
    pub(crate) fn hold(&self, held: bool) {
        self.shared.held.send_replace(held);
    }
}

impl Drop for ImageServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn find(&self, path: &str) -> Option<Vec<u8>> {
        let folder = lock(&self.folder).clone();
        match path.strip_prefix("/boot/").zip(folder) {
            Some((name, folder)) if !name.contains("..") => std::fs::read(folder.join(name)).ok(),
            _ => lock(&self.files).get(path).cloned(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, Arc::clone(&shared)));
        } else {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// One request a connection. Whatever goes wrong closes it.
async fn answer(mut stream: TcpStream, shared: Arc<Shared>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // Signatures are nobody's business here.
    let path = target.split('?').next().unwrap_or_default();
    let found = shared.find(path);
    // Field names have no case.
    let range = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("range").then(|| value.trim().to_owned())
    });
    let part = range.as_ref().map(|range| format!(" {range}")).unwrap_or_default();
    lock(&shared.requests).push(format!("{method} {path}{part}"));
    let range = range.as_deref().and_then(|range| range.strip_prefix("bytes="));
    let range = range.and_then(|range| {
        let (first, last) = range.trim().split_once('-')?;
        Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
    });
    let (status, body, extra) = match (found, range) {
        (Some(body), Some((first, last))) if first < body.len() => {
            let last = last.min(body.len() - 1);
            let extra = format!("Content-Range: bytes {first}-{last}/{}\r\n", body.len());
            ("206 Partial Content", body[first..=last].to_vec(), extra)
        }
        (Some(body), _) => ("200 OK", body, String::new()),
        (None, _) => ("404 Not Found", b"nothing here".to_vec(), String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{extra}Content-Type: application/octet-stream\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    if method == "GET" {
        let (first, second) = body.split_at(body.len() / 2);
        stream.write_all(first).await?;
        // Whoever asks for a part only looks.
        if part.is_empty() {
            let mut held = shared.held.subscribe();
            let _ = held.wait_for(|held| !held).await;
        }
        stream.write_all(second).await?;
    }
    stream.shutdown().await
}
