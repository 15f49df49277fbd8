//! An image server as small as can be: one image of zeros, by ranges.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SIZE: usize = 1 << 20;

/// Starts one; the base of its URLs. It ends with the runtime.
pub(crate) async fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let base = format!("http://{}", listener.local_addr().expect("it is bound"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream));
        }
    });
    base
}

/// Answers one request after another until the client has had enough.
async fn connection(mut stream: TcpStream) -> Option<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).ok()?;
        let range = head.lines().find_map(|line| line.strip_prefix("Range: bytes="))?;
        let (first, last) = range.trim().split_once('-')?;
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        let last = last.min(SIZE - 1);
        let length = (last + 1).checked_sub(first)?;
        let reply = format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/{SIZE}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(reply.as_bytes()).await.ok()?;
        stream.write_all(&vec![0; length]).await.ok()?;
    }
}
