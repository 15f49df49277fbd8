//! A BMC that says to each command exactly what a test tells it to say, byte for byte.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bmc::ribcl::RibclBmc;
use bmc::trace::Form;
use bmc::{BmcConfig, Deadlines, Protocols};
use model::{BmcAddress, Secret};
use openssl::ssl::{Ssl, SslContext};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_openssl::SslStream;

pub(crate) const DECLARATION: &str = "<?xml version=\"1.0\"?>\r\n";

/// What the peer does with one command.
#[derive(Clone)]
pub(crate) enum Answer {
    /// These documents.
    Say(String),
    /// These bytes.
    Bytes(Vec<u8>),
    /// These documents, each part a chunk of its own.
    Chunks(Vec<String>),
    /// An HTTP status and no document.
    Status(u16),
    /// Nothing, ever.
    Hang,
    /// The connection ends without an answer.
    Drop,
    /// The connection ends in the middle of this.
    Cut(String),
}

/// One document that went well, with or without something in it.
pub(crate) fn fine(inside: &str) -> String {
    failed(0, "No error", inside)
}

pub(crate) fn failed(code: u32, message: &str, inside: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\r\n<RIBCL VERSION=\"2.23\">\r\n<RESPONSE\r\n    STATUS=\"0x{code:04X}\"\r\n    MESSAGE='{message}'\r\n     />\r\n{inside}\r\n</RIBCL>\r\n\r\n"
    )
}

/// The stages before a command and after it, and the command's own document.
pub(crate) fn says(inside: &str) -> Answer {
    Answer::Say([fine("").repeat(4), fine(inside), fine("")].concat())
}

/// A failure, followed by successes as firmwares do.
pub(crate) fn fails(code: u32, message: &str) -> Answer {
    Answer::Say([fine("").repeat(4), failed(code, message, ""), fine("").repeat(2)].concat())
}

pub(crate) fn power(state: &str) -> Answer {
    says(&format!("<GET_HOST_POWER\r\n    HOST_POWER=\"{state}\"\r\n    />"))
}

/// `GET_VM_STATUS` of a device that holds this URL, or nothing.
pub(crate) fn vm(url: Option<&str>, option: &str) -> Answer {
    let inserted = if url.is_some() { "YES" } else { "NO" };
    let url = url.unwrap_or_default();
    says(&format!(
        "<GET_VM_STATUS\r\n VM_APPLET=\"DISCONNECTED\"\r\n DEVICE=\"CDROM\"\r\n BOOT_OPTION=\"{option}\"\r\n WRITE_PROTECT=\"YES\"\r\n IMAGE_INSERTED=\"{inserted}\"\r\n IMAGE_URL=\"{url}\"\r\n />"
    ))
}

#[derive(Default)]
struct State {
    /// Answers by command, used up in order; the last one stays.
    script: HashMap<String, VecDeque<Answer>>,
    /// The commands' own elements.
    seen: Vec<String>,
    /// Whole requests, as they arrived.
    letters: Vec<String>,
    /// What each read of a raw connection brought.
    reads: Vec<String>,
    connections: usize,
}

pub(crate) struct Peer {
    pub(crate) address: BmcAddress,
    pub(crate) form: Form,
    state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How the peer speaks.
#[derive(Clone)]
pub(crate) enum Speech {
    Http,
    Https(SslContext),
    Raw(SslContext),
}

impl Peer {
    pub(crate) async fn start(speech: Speech) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (scheme, form) = match &speech {
            Speech::Http => ("http", Form::Http),
            Speech::Https(_) => ("https", Form::Http),
            Speech::Raw(_) => ("https", Form::Raw),
        };
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                tokio::spawn(connection(stream, speech.clone(), Arc::clone(&shared)));
            }
        });
        Self {
            address: BmcAddress(format!("{scheme}://127.0.0.1:{port}")),
            form,
            state,
            task,
        }
    }

    pub(crate) async fn http() -> Self {
        Self::start(Speech::Http).await
    }

    /// What to say to a command, in order; the last answer stays. Replaces what was said before.
    pub(crate) fn on(&self, command: &str, answers: impl IntoIterator<Item = Answer>) {
        let mut state = self.state.lock().unwrap();
        state.script.insert(command.to_owned(), answers.into_iter().collect());
    }

    /// The elements of all commands, in order.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.state.lock().unwrap().seen.clone()
    }

    /// The elements of the commands that change something.
    pub(crate) fn changes(&self) -> Vec<String> {
        let seen = self.seen().into_iter();
        seen.filter(|command| !command.starts_with("<GET_")).collect()
    }

    pub(crate) fn letters(&self) -> Vec<String> {
        self.state.lock().unwrap().letters.clone()
    }

    pub(crate) fn reads(&self) -> Vec<String> {
        self.state.lock().unwrap().reads.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    pub(crate) fn config(&self) -> BmcConfig {
        BmcConfig {
            deadlines: quick(),
            protocols: match self.address.0.starts_with("https") {
                true => Protocols::Legacy,
                false => Protocols::Modern,
            },
            ..BmcConfig::new(self.address.clone(), "admin", Secret::new("hunter2&\"<"))
        }
    }

    pub(crate) fn client(&self) -> RibclBmc {
        RibclBmc::new(self.config(), self.form).unwrap()
    }
}

/// Short enough for a test, long enough for a busy machine.
pub(crate) fn quick() -> Deadlines {
    Deadlines {
        connect: Duration::from_secs(5),
        request: Duration::from_secs(10),
        verb: Duration::from_secs(30),
        settle: Duration::from_millis(300),
        poll: Duration::from_millis(5),
        pause: Duration::from_millis(5),
        quiet: Duration::from_millis(300),
        rest: Duration::ZERO,
        least_window: Duration::from_millis(50),
    }
}

async fn connection(stream: TcpStream, speech: Speech, state: Arc<Mutex<State>>) {
    // A client that gives up is part of many tests.
    let _ = match speech {
        Speech::Http => posted(stream, state).await,
        Speech::Https(context) => match accepted(stream, &context).await {
            Some(stream) => posted(stream, state).await,
            None => None,
        },
        Speech::Raw(context) => match accepted(stream, &context).await {
            Some(stream) => raw(stream, state).await,
            None => None,
        },
    };
}

async fn accepted(stream: TcpStream, context: &SslContext) -> Option<SslStream<TcpStream>> {
    let mut stream = SslStream::new(Ssl::new(context).unwrap(), stream).unwrap();
    std::pin::Pin::new(&mut stream).accept().await.ok()?;
    Some(stream)
}

/// Requests by HTTP, one after another; `None`: the connection ends.
async fn posted(mut stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<Mutex<State>>) -> Option<()> {
    loop {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(request).unwrap();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse().unwrap())
        });
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await.ok()?;
        let body = String::from_utf8(body).unwrap();
        let answer = noted(&state, &head, &body);
        let plain = |status: u16, body: &str| {
            format!(
                "HTTP/1.1 {status} X\r\nContent-Type: text/xml\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let reply = match answer {
            Answer::Bytes(body) => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                stream.write_all(head.as_bytes()).await.ok()?;
                stream.write_all(&body).await.ok()?;
                stream.flush().await.ok()?;
                continue;
            }
            Answer::Say(text) => plain(200, &text),
            Answer::Status(status) => plain(status, ""),
            Answer::Chunks(parts) => {
                // As the servers of that age write it: lengths with a leading zero.
                let chunks: String = parts
                    .iter()
                    .filter(|part| !part.is_empty())
                    .map(|part| format!("0{:x}\r\n{part}\r\n", part.len()))
                    .collect();
                let head =
                    "HTTP/1.1 200 OK\r\nServer: Allegro-Software-RomPager/4.62\r\nTransfer-Encoding: chunked\r\n\r\n";
                format!("{head}{chunks}00\r\n\r\n")
            }
            Answer::Cut(text) => {
                let whole = plain(200, &text);
                stream
                    .write_all(&whole.as_bytes()[..whole.len() - text.len() / 2])
                    .await
                    .ok()?;
                stream.flush().await.ok()?;
                return None;
            }
            Answer::Hang => std::future::pending().await,
            Answer::Drop => return None,
        };
        stream.write_all(reply.as_bytes()).await.ok()?;
        stream.flush().await.ok()?;
    }
}

/// One document on a connection that this side does not close.
async fn raw(mut stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<Mutex<State>>) -> Option<()> {
    let mut request = String::new();
    let mut buffer = [0; 4096];
    while !request.contains("</RIBCL>") {
        let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        let text = String::from_utf8(buffer[..count].to_vec()).unwrap();
        state.lock().unwrap().reads.push(text.clone());
        request.push_str(&text);
        // To HTTP it says, in HTTP, that it has nothing there.
        if request.starts_with("GET ") || request.starts_with("POST ") {
            let no = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(no.as_bytes()).await.ok()?;
            stream.flush().await.ok()?;
            return None;
        }
    }
    match noted(&state, "", &request) {
        Answer::Say(text) => stream.write_all(text.as_bytes()).await.ok()?,
        Answer::Bytes(bytes) => stream.write_all(&bytes).await.ok()?,
        Answer::Chunks(parts) => {
            for part in parts {
                stream.write_all(part.as_bytes()).await.ok()?;
                stream.flush().await.ok()?;
                tokio::task::yield_now().await;
            }
        }
        Answer::Cut(text) => {
            stream.write_all(&text.as_bytes()[..text.len() / 2]).await.ok()?;
            stream.flush().await.ok()?;
            return None;
        }
        Answer::Status(_) | Answer::Hang => std::future::pending().await,
        Answer::Drop => return None,
    }
    stream.flush().await.ok()?;
    // It stays open until the other side has had enough.
    while stream.read(&mut buffer).await.ok().filter(|count| *count > 0).is_some() {}
    None
}

fn noted(state: &Mutex<State>, head: &str, body: &str) -> Answer {
    let mut state = state.lock().unwrap();
    let element = body
        .split("MODE=")
        .nth(1)
        .and_then(|rest| rest.split("\r\n").nth(1))
        .unwrap_or("?");
    let name: String = element
        .trim_start_matches('<')
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    state.letters.push(format!("{head}{body}"));
    state.seen.push(element.to_owned());
    match state.script.get_mut(&name) {
        Some(answers) if answers.len() > 1 => answers.pop_front().unwrap(),
        Some(answers) => answers.front().cloned().unwrap(),
        None => fails(
            0x0001,
            "Syntax error: Line #0: syntax error near \"&gt;\" in the line: \"\"",
        ),
    }
}
