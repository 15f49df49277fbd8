//! The image listener: what BMCs fetch artefacts from.
//!
//! What is answered is decided by [`storage::serve`], and to whom by the artefact; here are the sockets. The only part of a
//! request that counts besides its conditions is its path: an artefact's name, or a name that a part of one has for itself.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use storage::serve::{Answer, Conditions, answer};
use storage::{Content, Embedded, RecallError, Served};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::listen::{self, Limits};

mod body;

use body::ImageBody;

/// How often artefacts are checked against their records.
const SWEEP_EVERY: Duration = Duration::from_secs(300);

/// Serves the artefacts of `embedded` until `stop`.
pub async fn serve(listener: TcpListener, limits: Limits, embedded: Embedded, stop: CancellationToken) {
    let readers = Arc::new(AtomicUsize::new(0));
    let sweeper = sweep(embedded.clone(), stop.clone());
    let answer = move |peer: SocketAddr| {
        let (embedded, readers) = (embedded.clone(), Arc::clone(&readers));
        service_fn(move |request: Request<Incoming>| {
            let (embedded, readers) = (embedded.clone(), Arc::clone(&readers));
            async move {
                let response = respond(&embedded, &request, peer.ip(), readers).await;
                Ok::<_, std::convert::Infallible>(response)
            }
        })
    };
    tokio::join!(listen::serve(listener, limits, answer, stop), sweeper);
}

async fn sweep(embedded: Embedded, stop: CancellationToken) {
    while tokio::time::timeout(SWEEP_EVERY, stop.cancelled()).await.is_err() {
        embedded.sweep().await;
    }
}

async fn respond<B>(
    embedded: &Embedded,
    request: &Request<B>,
    reader: IpAddr,
    readers: Arc<AtomicUsize>,
) -> Response<ImageBody> {
    let (served, part) = match find(embedded, request.uri().path()).await {
        Ok(Some((served, part))) if served.may_be_read_by(reader) => (served, part),
        Ok(Some((served, _))) => {
            tracing::warn!(artefact = %served.name, from = %reader, "asked for by another than the node's BMC; refused");
            return plain(StatusCode::NOT_FOUND, "there is no image of that name");
        }
        Ok(None) => return plain(StatusCode::NOT_FOUND, "there is no image of that name"),
        Err(error) => {
            tracing::warn!(from = %reader, %error, "could not look up an artefact that is asked for");
            return later();
        }
    };
    let headers = request.headers();
    let conditions = Conditions {
        range: once(headers, header::RANGE),
        if_range: once(headers, header::IF_RANGE),
        if_match: once(headers, header::IF_MATCH),
        if_none_match: once(headers, header::IF_NONE_MATCH),
    };
    let tag = part.as_ref().map(|part| served.part_etag(part));
    let resource = match (&part, &tag) {
        (Some(part), Some(tag)) => served.part(part, tag),
        _ => served.resource(),
    };
    let answer = answer(request.method().as_str(), &conditions, &resource);
    let name = &served.name;
    tracing::debug!(
        artefact = %name, from = %reader, method = %request.method(), status = answer.status,
        start = answer.body.start, end = answer.body.end, "image request"
    );
    // Where a part begins in the whole; its own range was checked against the whole's size.
    let shift = part.map_or(0, |part| part.start);
    let stretch = answer.body.start + shift..answer.body.end + shift;
    let mut body = ImageBody::new(stretch, served.clone(), reader, readers);
    if !answer.body.is_empty() {
        served.reads.request(reader);
        // The first block is read before the head goes out, so that a lost source is an error and no broken answer.
        if let Err(reason) = body.prime().await {
            tracing::error!(artefact = %name, %reason, "an artefact cannot be read");
            if matches!(served.content, Content::Remote(_)) {
                // The store may be back in a moment; a BMC that asks again then goes on.
                return later();
            }
            return plain(StatusCode::INTERNAL_SERVER_ERROR, "the image cannot be read");
        }
    }
    head(answer, body)
}

/// The artefact that a path names, or the part of one.
async fn find(embedded: &Embedded, path: &str) -> Result<Option<(Served, Option<Range<u64>>)>, RecallError> {
    match embedded.name_in(path) {
        Some(name) => Ok(embedded.lookup(&name).await?.map(|served| (served, None))),
        None => Ok(embedded.part(path).await?.map(|(served, part)| (served, Some(part)))),
    }
}

/// The value of a header that came exactly once and is text.
fn once(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok();
    first.filter(|_| values.next().is_none())
}

fn head(answer: Answer, body: ImageBody) -> Response<ImageBody> {
    let mut response = Response::new(body);
    // The decider's statuses and headers are always legal.
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

fn later() -> Response<ImageBody> {
    let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, "try again");
    let soon = HeaderValue::from_static("1");
    response.headers_mut().insert(header::RETRY_AFTER, soon);
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<ImageBody> {
    let mut response = Response::new(ImageBody::text(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
