//! RIBCL straight on the connection, as iLO 2 speaks it: the XML declaration is a document of its own, which has to arrive by
//! itself and is answered at once; and after the answer the connection stays open until the client has had enough.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use super::write::Answer;
use super::{Outcome, take};
use crate::faults::deliver::Breaker;
use crate::server::Server;
use crate::trace::{self, Exchange};

/// Longest script in bytes.
const SCRIPT_CAP: usize = 64 << 10;
/// A script that takes longer to arrive ends the connection.
const SCRIPT_DEADLINE: Duration = Duration::from_secs(30);
/// Silence after an answer that ends the connection.
const IDLE: Duration = Duration::from_secs(10);

/// Talks on a connection whose first record is `first`.
pub(crate) async fn talk(
    server: &Arc<Server>,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    first: &[u8],
    breaker: &Breaker,
) -> io::Result<()> {
    let facts = &server.config.profile.ribcl;
    if !is_declaration(first) {
        // More than a declaration in the first record: the parser trips over the end of it.
        let mut answer = Answer::new(facts);
        answer.syntax_error("?>", 0);
        note(server, &answer);
        send(stream, answer.text().as_bytes()).await?;
        return linger(stream).await;
    }
    let mut answer = Answer::new(facts);
    answer.fine();
    send(stream, answer.text().as_bytes()).await?;
    let Some(script) = script(stream).await? else {
        return Ok(());
    };
    let script = String::from_utf8_lossy(&script);
    match take(server, "RAW", &script).await {
        Outcome::Documents(documents, delivery) => {
            let whole = documents.concat();
            if let Some(cut) = delivery.cut {
                send(stream, &whole.as_bytes()[..cut.min(whole.len())]).await?;
                if delivery.reset {
                    breaker.trip();
                }
                return Ok(());
            }
            match delivery.split {
                Some(size) => {
                    for piece in whole.as_bytes().chunks(size.max(1)) {
                        send(stream, piece).await?;
                        tokio::task::yield_now().await;
                    }
                }
                None => {
                    for document in documents {
                        send(stream, document.as_bytes()).await?;
                    }
                }
            }
        }
        Outcome::Http(_, text, _) => send(stream, text.as_bytes()).await?,
        Outcome::Break => {
            breaker.trip();
            return Ok(());
        }
        Outcome::Drop => return Ok(()),
        Outcome::Hang => return std::future::pending().await,
    }
    linger(stream).await
}

fn is_declaration(record: &[u8]) -> bool {
    let record = record.trim_ascii();
    record.starts_with(b"<?xml") && record.ends_with(b"?>") && record.iter().filter(|byte| **byte == b'<').count() == 1
}

/// Up to the end of its outermost tag; none if the client ends first.
async fn script(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let end = Instant::now() + SCRIPT_DEADLINE;
    let mut script = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = timeout_at(end, stream.read(&mut buffer)).await;
        let count = read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        if count == 0 {
            return Ok(None);
        }
        // The end may have been split between two records.
        let from = script.len().saturating_sub(16);
        script.extend_from_slice(&buffer[..count]);
        let closing = b"</RIBCL>";
        if script[from..].windows(closing.len()).any(|window| window == closing) {
            return Ok(Some(script));
        }
        if script.len() > SCRIPT_CAP {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

async fn linger(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        let idle = Instant::now() + IDLE;
        match timeout_at(idle, stream.read(&mut buffer)).await {
            Ok(Ok(count)) if count > 0 => {}
            Ok(Ok(_)) | Err(_) => return Ok(()),
            Ok(Err(error)) => return Err(error),
        }
    }
}

/// A script that was never read is in the trace all the same.
fn note(server: &Arc<Server>, answer: &Answer<'_>) {
    let exchange = Exchange {
        time: trace::now(),
        server: server.index,
        method: "RAW".to_owned(),
        path: "/ribcl".to_owned(),
        body: None,
        status: Some(200),
        message: Some(answer.summary()),
        fault: None,
    };
    trace::record(server, exchange, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_is_one_only_by_itself() {
        assert!(is_declaration(b"<?xml version=\"1.0\"?>\r\n"));
        for other in [
            &b"<?xml version=\"1.0\"?>\r\n<RIBCL VERSION=\"2.0\">"[..],
            b"<RIBCL>",
            b"<?xml",
            b"GET / HTTP/1.1",
        ] {
            assert!(!is_declaration(other));
        }
    }
}
