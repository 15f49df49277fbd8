//! A proxy in front of a real store, which does to chosen requests what networks and sick servers do.
//!
//! One request a connection: it reads a head, and answers, hangs, cuts, or passes it on with `Connection: close`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It is answered with this status, after its body was read, and never reaches the store.
    Status(u16),
    /// It is answered with this status before its body was read.
    EarlyStatus(u16),
    /// Nothing is read after its head, and nothing answered.
    Hang,
    /// The connection breaks when so many bytes of its body have reached the store.
    CutRequest(u64),
    /// The connection breaks when so many bytes of the answer's body have reached the client.
    CutAnswer(u64),
    /// The answer carries another entity tag than the store gave.
    OtherTag,
    /// It reaches the store, which does it; the answer is lost.
    LostAnswer,
}

/// Does a fault to the next `times` requests that fit.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) method: &'static str,
    /// Part of the path and query.
    pub(crate) path: String,
    pub(crate) times: usize,
    pub(crate) fault: Fault,
}

#[derive(Default)]
struct Shared {
    rules: Mutex<Vec<Rule>>,
    /// "METHOD path" of each request.
    seen: Mutex<Vec<String>>,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    pub(crate) async fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let of_task = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                open.spawn(serve(stream, upstream, Arc::clone(&of_task)));
            }
        });
        Self { port, shared, task }
    }

    pub(crate) fn root(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// In place of what was to happen before.
    pub(crate) fn rule(&self, method: &'static str, path: impl Into<String>, times: usize, fault: Fault) {
        self.clear();
        self.also(method, path, times, fault);
    }

    /// Beside what is to happen already.
    pub(crate) fn also(&self, method: &'static str, path: impl Into<String>, times: usize, fault: Fault) {
        self.shared.rules.lock().unwrap().push(Rule {
            method,
            path: path.into(),
            times,
            fault,
        });
    }

    pub(crate) fn clear(&self) {
        self.shared.rules.lock().unwrap().clear();
    }

    /// How often a request like this one came.
    pub(crate) fn count(&self, method: &str, path: &str) -> usize {
        let seen = self.shared.seen.lock().unwrap();
        seen.iter()
            .filter(|line| line.starts_with(method) && line.contains(path))
            .count()
    }
}

async fn serve(mut client: TcpStream, upstream: u16, shared: Arc<Shared>) {
    // A connection that breaks is what this is for.
    let _ = pass(&mut client, upstream, &shared).await;
}

async fn pass(client: &mut TcpStream, upstream: u16, shared: &Shared) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let text = String::from_utf8(head).expect("heads are text");
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    shared.seen.lock().unwrap().push(format!("{method} {path}"));
    let mut body = 0;
    let mut kept = format!("{first}\r\n");
    for line in lines.take_while(|line| !line.is_empty()) {
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        if key.eq_ignore_ascii_case("content-length") {
            body = value.trim().parse().unwrap_or(0);
        }
        if !key.eq_ignore_ascii_case("connection") {
            kept += &format!("{line}\r\n");
        }
    }
    kept += "Connection: close\r\n\r\n";
    let fault = {
        let mut rules = shared.rules.lock().unwrap();
        let fits = |rule: &&mut Rule| rule.times > 0 && rule.method == method && path.contains(&rule.path);
        rules.iter_mut().find(fits).map(|rule| {
            rule.times -= 1;
            rule.fault
        })
    };
    match fault {
        Some(Fault::Hang) => {
            tokio::time::sleep(Duration::from_secs(600)).await;
            return Ok(());
        }
        Some(Fault::EarlyStatus(status)) => return answer(client, status).await,
        Some(Fault::Status(status)) => {
            copy(client, &mut tokio::io::sink(), body).await?;
            return answer(client, status).await;
        }
        _ => {}
    }
    let mut store = TcpStream::connect(("127.0.0.1", upstream)).await?;
    store.write_all(kept.as_bytes()).await?;
    if let Some(Fault::CutRequest(after)) = fault {
        copy(client, &mut store, after.min(body)).await?;
        return Ok(());
    }
    copy(client, &mut store, body).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(store.read_u8().await?);
    }
    match fault {
        Some(Fault::LostAnswer) => return Ok(()),
        Some(Fault::OtherTag) => {
            let text = String::from_utf8(head).expect("heads are text");
            let other: Vec<String> = text
                .split("\r\n")
                .map(|line| match line.to_ascii_lowercase().starts_with("etag:") {
                    true => "Etag: 00000000000000000000000000000000".to_owned(),
                    false => line.to_owned(),
                })
                .collect();
            client.write_all(other.join("\r\n").as_bytes()).await?;
        }
        _ => client.write_all(&head).await?,
    }
    match fault {
        Some(Fault::CutAnswer(after)) => copy(&mut store, client, after).await?,
        _ => drop(tokio::io::copy(&mut store, client).await?),
    }
    client.shutdown().await
}

async fn answer(client: &mut TcpStream, status: u16) -> std::io::Result<()> {
    let text = format!("HTTP/1.1 {status} Made Up\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    client.write_all(text.as_bytes()).await?;
    client.shutdown().await
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    bytes: u64,
) -> std::io::Result<()> {
    let copied = tokio::io::copy(&mut from.take(bytes), to).await?;
    match copied == bytes {
        true => Ok(()),
        false => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}
