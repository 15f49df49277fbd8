//! Sockets of a replay: TLS, HTTP/1.1 or documents straight on the connection, and the trace.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, TRANSFER_ENCODING};
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use super::Player;
use super::dialogue::Key;
use super::recording::{Form, Recorded, Reply};
use crate::faults::Delivery;
use crate::faults::deliver::{self, Body, Breaker};
use crate::ribcl::http::{Instead, Tap};
use crate::tls::{Service, Stream};
use crate::trace::{self, Exchange};

/// Longest request body in bytes.
const BODY_CAP: usize = 1 << 20;
/// A handshake or a request that takes longer ends the connection.
const CLIENT_DEADLINE: Duration = Duration::from_secs(30);
/// Bytes of a chunk, where the recorded answer came in chunks.
const CHUNK: usize = 0x1d;
/// Headers that belong to a connection and not to an answer, or that are written anew.
const OWN: [&str; 6] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
];

/// Accepts connections until the replay stops.
pub(super) async fn run(player: Arc<Player>, listener: TcpListener, tls: Service, tasks: TaskTracker) {
    loop {
        let accepted = tokio::select! {
            () = player.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let tcp = match accepted {
            Ok((tcp, _)) => tcp,
            Err(error) => {
                tracing::warn!(server = player.index, %error, "accept failed");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (player, tls) = (Arc::clone(&player), tls.clone());
        tasks.spawn(async move {
            let stop = player.stop.clone();
            tokio::select! {
                () = stop.cancelled() => {}
                () = connection(player, tls, tcp) => {}
            }
        });
    }
}

async fn connection(player: Arc<Player>, tls: Service, tcp: TcpStream) {
    if tcp.set_nodelay(true).is_err() {
        return;
    }
    let Ok(Ok(mut stream)) = timeout(CLIENT_DEADLINE, tls.accept(tcp)).await else {
        return;
    };
    let mut before = Vec::new();
    if player.speaks_raw {
        // The first record tells what is spoken.
        let mut record = vec![0; 16 << 10];
        let Ok(Ok(count)) = timeout(CLIENT_DEADLINE, stream.read(&mut record)).await else {
            return;
        };
        record.truncate(count);
        if record.first() == Some(&b'<') {
            if let Err(error) = raw(&player, &mut stream, record).await {
                tracing::debug!(%error, "connection ended");
            }
            return;
        }
        before = record;
    }
    let tap = Tap::new(stream, before, Instead::default());
    let service = service_fn(move |request| {
        let player = Arc::clone(&player);
        async move { serve(&player, request).await }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CLIENT_DEADLINE)
        .serve_connection(TokioIo::new(tap), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended");
    }
}

/// A document, and the answer's bytes; the connection stays open until the client ends it.
async fn raw(player: &Player, stream: &mut Box<dyn Stream>, first: Vec<u8>) -> io::Result<()> {
    let read = async {
        let mut document = first;
        let mut buffer = [0; 4096];
        while !document.windows(8).any(|window| window == b"</RIBCL>") {
            let count = stream.read(&mut buffer).await?;
            if count == 0 || document.len() > BODY_CAP {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            document.extend_from_slice(&buffer[..count]);
        }
        Ok(document)
    };
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let document: Vec<u8> = timeout(CLIENT_DEADLINE, read).await.map_err(late)??;
    let document = String::from_utf8_lossy(&document);
    let reply = match answer(
        player,
        &Key::new(Form::Raw, "POST", "/ribcl", &document),
        &document,
        None,
    ) {
        Answer::Reply(reply) => reply.body,
        Answer::Failure => return Ok(()),
        Answer::Missing(reason) => format!(
            "<?xml version=\"1.0\"?>\r\n<RIBCL VERSION=\"2.0\">\r\n<RESPONSE STATUS=\"0x0001\" MESSAGE='{}'/>\r\n</RIBCL>\r\n",
            reason.replace(['\'', '<', '&'], " ")
        ),
    };
    stream.write_all(reply.as_bytes()).await?;
    stream.flush().await?;
    let mut buffer = [0; 1024];
    while timeout(CLIENT_DEADLINE, stream.read(&mut buffer))
        .await
        .map_err(late)??
        > 0
    {}
    Ok(())
}

/// One request. An `Err` makes hyper close the connection without a reply.
async fn serve(player: &Player, request: hyper::Request<Incoming>) -> Result<Response<Body>, io::Error> {
    let (parts, body) = request.into_parts();
    let body = timeout(CLIENT_DEADLINE, Limited::new(body, BODY_CAP).collect()).await;
    let Ok(Ok(body)) = body else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let body = body.to_bytes();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let text = String::from_utf8_lossy(&body);
    let key = Key::new(Form::Http, parts.method.as_str(), path, &text);
    match answer(player, &key, &text, trace::scrub_body(&body)) {
        Answer::Reply(reply) => Ok(response(reply)),
        Answer::Failure => Err(io::ErrorKind::ConnectionReset.into()),
        Answer::Missing(reason) => {
            let body = json!({"error": {"code": "Base.1.0.GeneralError", "message": reason}}).to_string();
            let mut response = Response::new(deliver::whole(body.into()));
            *response.status_mut() = StatusCode::NOT_IMPLEMENTED;
            let kind = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            Ok(response)
        }
    }
}

enum Answer {
    Reply(Reply),
    /// None came when it was recorded.
    Failure,
    /// It was not recorded, or not so often.
    Missing(String),
}

fn answer(player: &Player, key: &Key, text: &str, body: Option<Value>) -> Answer {
    let found = {
        let mut dialogue = player.dialogue.lock().unwrap_or_else(PoisonError::into_inner);
        dialogue.next(key, text)
    };
    let (answer, status, message) = match found {
        Some(Recorded { reply: Some(reply), .. }) => {
            let status = reply.status;
            (Answer::Reply(reply), Some(status), None)
        }
        Some(Recorded { failure, .. }) => (Answer::Failure, None, failure),
        None => {
            let reason = format!("the recording has no (further) answer to {}", key.shown());
            (Answer::Missing(reason.clone()), Some(501), Some(reason))
        }
    };
    let (method, path) = key.line();
    let exchange = Exchange {
        time: trace::now(),
        server: player.index,
        method: method.to_owned(),
        path: path.to_owned(),
        body,
        status,
        message,
        fault: None,
    };
    player.trace_file.write("replay", &exchange);
    player.trace.push(exchange);
    answer
}

fn response(reply: Reply) -> Response<Body> {
    let chunked = reply.headers.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case(TRANSFER_ENCODING.as_str()) && value.eq_ignore_ascii_case("chunked")
    });
    let delivery = Delivery {
        split: chunked.then_some(CHUNK),
        ..Delivery::default()
    };
    let mut response = Response::new(deliver::body(Bytes::from(reply.body), delivery, &Breaker::default()));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in reply.headers {
        if OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            continue;
        }
        let value = match name.eq_ignore_ascii_case(LOCATION.as_str()) {
            true => local(&value),
            false => value,
        };
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// A place on the recorded BMC as a place here.
fn local(location: &str) -> String {
    match url::Url::parse(location) {
        Ok(url) => match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        },
        Err(_) => location.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_leads_here() {
        assert_eq!(local("https://192.0.2.7:8443/redfish/v1/x?y=z"), "/redfish/v1/x?y=z");
        assert_eq!(local("/redfish/v1/x"), "/redfish/v1/x");
    }
}
