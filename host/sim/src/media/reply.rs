//! An image server's reply, as a BMC can read it: an exact 206, a HEAD's 200, or a whole file, each with its length.

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::media::MediaError;

/// Longest reply head in bytes.
const HEAD_CAP: usize = 16 << 10;

/// The bytes of one range, or none of a HEAD, and what came with them.
pub(crate) struct Reply {
    pub(crate) body: Vec<u8>,
    /// Size of the whole image.
    pub(crate) total: u64,
    /// Whether the connection can carry the next request.
    pub(crate) keep_alive: bool,
}

/// A reply's head, understood.
struct Head {
    length: Option<u64>,
    range: Option<String>,
    accept_ranges: Option<String>,
    keep_alive: bool,
}

/// Reads the answer to a request for the bytes `first` to `last`.
pub(super) async fn read_range(
    stream: &mut (impl AsyncRead + Unpin + ?Sized),
    first: u64,
    last: u64,
) -> Result<Reply, MediaError> {
    let (head, mut body) = read_head(stream).await?;
    let head = parse(&head, 206)?;
    let length = head.length.ok_or_else(|| bad("no usable Content-Length"))?;
    let range = head.range.ok_or_else(|| bad("206 without Content-Range"))?;
    let (start, end, total) = content_range(&range).ok_or_else(|| bad(format!("Content-Range {:?}", short(&range))))?;
    let wanted_end = last.min(total.saturating_sub(1));
    if start != first || end != wanted_end || length != end - start + 1 {
        return Err(bad(format!(
            "asked for bytes {first}-{last}, got {start}-{end} of {total} with length {length}"
        )));
    }
    let length = usize::try_from(length).map_err(|_| bad(format!("{length} bytes in one read")))?;
    if body.len() > length {
        return Err(bad(format!("{} bytes past the body", body.len() - length)));
    }
    let have = body.len();
    body.resize(length, 0);
    stream.read_exact(&mut body[have..]).await.map_err(MediaError::Broken)?;
    Ok(Reply {
        body,
        total,
        keep_alive: head.keep_alive,
    })
}

/// Reads the answer to a HEAD: the image's size.
pub(super) async fn read_head_only(stream: &mut (impl AsyncRead + Unpin + ?Sized)) -> Result<Reply, MediaError> {
    let (head, body) = read_head(stream).await?;
    let head = parse(&head, 200)?;
    if !body.is_empty() {
        return Err(bad("a body behind the answer to HEAD"));
    }
    if head
        .accept_ranges
        .is_some_and(|value| value.eq_ignore_ascii_case("none"))
    {
        return Err(bad("Accept-Ranges: none"));
    }
    Ok(Reply {
        body: Vec::new(),
        total: head.length.ok_or_else(|| bad("no usable Content-Length"))?,
        keep_alive: head.keep_alive,
    })
}

/// Reads the head of an answer that is the whole image: its size, and the first bytes of it.
pub(super) async fn read_whole(stream: &mut (impl AsyncRead + Unpin + ?Sized)) -> Result<(u64, Vec<u8>), MediaError> {
    let (head, body) = read_head(stream).await?;
    let head = parse(&head, 200)?;
    let length = head.length.ok_or_else(|| bad("no usable Content-Length"))?;
    if u64::try_from(body.len()).unwrap_or(u64::MAX) > length {
        return Err(bad("more bytes than Content-Length"));
    }
    Ok((length, body))
}

fn bad(reason: impl Into<String>) -> MediaError {
    MediaError::Reply(reason.into())
}

fn parse(head: &str, wanted: u16) -> Result<Head, MediaError> {
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let mut words = status.split(' ');
    let version = words.next().unwrap_or_default();
    let code: u16 = words
        .next()
        .and_then(|code| code.parse().ok())
        .filter(|_| version.starts_with("HTTP/1."))
        .ok_or_else(|| bad(format!("status line {:?}", short(status))))?;
    if code != wanted {
        return Err(MediaError::Status { got: code, wanted });
    }
    let mut parsed = Head {
        length: None,
        range: None,
        accept_ranges: None,
        keep_alive: version == "HTTP/1.1",
    };
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| bad(format!("header line {:?}", short(line))))?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => parsed.length = value.parse::<u64>().ok(),
            "content-range" => parsed.range = Some(value.to_owned()),
            "accept-ranges" => parsed.accept_ranges = Some(value.to_owned()),
            "transfer-encoding" => {
                return Err(bad(format!("Transfer-Encoding {:?}", short(value))));
            }
            "content-encoding" if !value.eq_ignore_ascii_case("identity") => {
                return Err(bad(format!("Content-Encoding {:?}", short(value))));
            }
            "connection" => {
                parsed.keep_alive = value.eq_ignore_ascii_case("keep-alive")
                    || (parsed.keep_alive && !value.eq_ignore_ascii_case("close"));
            }
            _ => {}
        }
    }
    Ok(parsed)
}

/// The reply's head as text, and what came behind it.
async fn read_head(stream: &mut (impl AsyncRead + Unpin + ?Sized)) -> Result<(String, Vec<u8>), MediaError> {
    let mut buffer = Vec::with_capacity(1024);
    loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = buffer.split_off(at + 4);
            let head = String::from_utf8(buffer).map_err(|_| MediaError::Reply("head is not text".into()))?;
            return Ok((head, body));
        }
        if buffer.len() >= HEAD_CAP {
            return Err(MediaError::Reply(format!("head longer than {HEAD_CAP} bytes")));
        }
        let mut chunk = [0; 1024];
        let got = stream.read(&mut chunk).await.map_err(MediaError::Broken)?;
        if got == 0 {
            return Err(MediaError::Broken(std::io::ErrorKind::UnexpectedEof.into()));
        }
        buffer.extend_from_slice(&chunk[..got]);
    }
}

/// `bytes 0-511/1024` with first ≤ last < total.
fn content_range(value: &str) -> Option<(u64, u64, u64)> {
    let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, total) = (first.parse().ok()?, last.parse().ok()?, total.parse().ok()?);
    (first <= last && last < total).then_some((first, last, total))
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn reply(text: &[u8]) -> Result<(Vec<u8>, u64), MediaError> {
        let mut stream = text;
        let reply = read_range(&mut stream, 0, 3).await?;
        Ok((reply.body, reply.total))
    }

    #[tokio::test]
    async fn only_an_exact_206_is_read() {
        let good = b"HTTP/1.1 206 Partial Content\r\ncontent-length: 4\r\nContent-Range: bytes 0-3/9\r\n\r\nabcd";
        assert_eq!(reply(good).await.unwrap(), (b"abcd".to_vec(), 9));
        let short = b"HTTP/1.1 206 x\r\ncontent-length: 2\r\nContent-Range: bytes 0-1/2\r\n\r\nab";
        assert_eq!(reply(short).await.unwrap(), (b"ab".to_vec(), 2));
        for bad in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd"[..],
            b"HTTP/1.1 206 x\r\nContent-Length: 4\r\n\r\nabcd",
            b"HTTP/1.1 206 x\r\nContent-Length: 4\r\nContent-Range: bytes 1-4/9\r\n\r\nabcd",
            b"HTTP/1.1 206 x\r\nContent-Length: 4\r\nContent-Range: bytes 0-3/*\r\n\r\nabcd",
            b"HTTP/1.1 206 x\r\nContent-Length: 99999999999\r\nContent-Range: bytes 0-99999999998/99999999999\r\n\r\nabcd",
            b"HTTP/1.1 206 x\r\nTransfer-Encoding: chunked\r\nContent-Range: bytes 0-3/9\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
            b"HTTP/1.1 206 x\r\nContent-Length: 4\r\nContent-Range: bytes 0-3/9\r\n\r\nabcdEXTRA",
            b"HTTP/1.1 206 x\r\nContent-Length: 4\r\nContent-Range: bytes 0-3/9\r\n\r\nab",
            b"HTTP/1.1 206 x\r\nnonsense\r\n\r\n",
            b"GARBAGE\r\n\r\n",
            b"",
        ] {
            assert!(reply(bad).await.is_err(), "{}", String::from_utf8_lossy(bad));
        }
        assert!(reply(&vec![b'a'; HEAD_CAP * 2]).await.is_err());
    }

    #[tokio::test]
    async fn a_head_and_a_whole_file_must_tell_their_length() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nAccept-Ranges: bytes\r\n\r\n";
        assert_eq!(read_head_only(&mut &head[..]).await.unwrap().total, 9);
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
        assert_eq!(read_whole(&mut &whole[..]).await.unwrap(), (9, b"abc".to_vec()));
        for bad in [
            &b"HTTP/1.1 200 OK\r\n\r\n"[..],
            b"HTTP/1.1 404 x\r\nContent-Length: 9\r\n\r\n",
            b"HTTP/1.1 302 x\r\nContent-Length: 0\r\nLocation: /y\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(read_head_only(&mut &bad[..]).await.is_err());
            assert!(read_whole(&mut &bad[..]).await.is_err());
        }
        let none = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nAccept-Ranges: none\r\n\r\n";
        assert!(read_head_only(&mut &none[..]).await.is_err());
    }
}
