//! Inserted images as network block devices: how a real machine under QEMU reads them through the simulated BMC.
//!
//! The server's half of the NBD protocol, fixed newstyle, read-only, simple replies (doc/proto.md of the NBD project).
//! Each block read becomes ranged reads of the image, so nothing is fetched that the guest does not read.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::media::Medium;

const GREETING: u64 = u64::from_be_bytes(*b"NBDMAGIC");
const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;

const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;
const HAS_FLAGS_READ_ONLY: u16 = 1 | 2;

const OPT_EXPORT_NAME: u32 = 1;
const OPT_ABORT: u32 = 2;
const OPT_LIST: u32 = 3;
const OPT_INFO: u32 = 6;
const OPT_GO: u32 = 7;

const REP_ACK: u32 = 1;
const REP_SERVER: u32 = 2;
const REP_INFO: u32 = 3;
const REP_ERR_UNSUP: u32 = (1 << 31) + 1;
const REP_ERR_INVALID: u32 = (1 << 31) + 3;
const REP_ERR_UNKNOWN: u32 = (1 << 31) + 6;
const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;

const CMD_READ: u16 = 0;
const CMD_DISC: u16 = 2;
const CMD_FLUSH: u16 = 3;
const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;

const SECTOR: u64 = 512;
/// Longest option in bytes; export names are short.
const OPTION_CAP: u32 = 4096;
/// Options that one client may send.
const OPTIONS: u32 = 64;
/// Longest read in bytes.
const READ_CAP: u32 = 32 << 20;
/// How long a client may take for its side of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(60);

/// Images by export name. Clones share the table.
#[derive(Clone, Default)]
pub(crate) struct Exports(Arc<Mutex<HashMap<String, Arc<Medium>>>>);

impl Exports {
    pub(crate) fn set(&self, name: &str, medium: Arc<Medium>) {
        self.lock().insert(name.to_owned(), medium);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    fn find(&self, name: &str) -> Option<Arc<Medium>> {
        self.lock().get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Medium>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves one client until it leaves or breaks the protocol.
pub(crate) async fn serve<S>(mut stream: S, exports: Exports) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let chosen = timeout(HANDSHAKE, handshake(&mut stream, &exports))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    match chosen {
        Some((medium, size)) => transmit(&mut stream, &medium, size).await,
        None => Ok(()),
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Negotiates until the client has chosen an export, or leaves.
async fn handshake<S>(stream: &mut S, exports: &Exports) -> io::Result<Option<(Arc<Medium>, u64)>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_u64(GREETING).await?;
    stream.write_u64(OPTION).await?;
    stream.write_u16(FIXED_NEWSTYLE | NO_ZEROES).await?;
    stream.flush().await?;
    let client_flags = stream.read_u32().await?;
    if client_flags & u32::from(FIXED_NEWSTYLE) == 0 {
        return Err(broken("the client does not speak fixed newstyle"));
    }
    for _ in 0..OPTIONS {
        if stream.read_u64().await? != OPTION {
            return Err(broken("an option without its magic"));
        }
        let option = stream.read_u32().await?;
        let length = stream.read_u32().await?;
        if length > OPTION_CAP {
            return Err(broken("an option that is too long"));
        }
        let mut data = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        stream.read_exact(&mut data).await?;
        match option {
            OPT_EXPORT_NAME => {
                let Some((medium, size)) = open(exports, &data).await else {
                    // This option has no error reply; the server hangs up.
                    return Ok(None);
                };
                stream.write_u64(size).await?;
                stream.write_u16(HAS_FLAGS_READ_ONLY).await?;
                if client_flags & u32::from(NO_ZEROES) == 0 {
                    stream.write_all(&[0; 124]).await?;
                }
                stream.flush().await?;
                return Ok(Some((medium, size)));
            }
            OPT_ABORT => {
                option_reply(stream, option, REP_ACK, &[]).await?;
                return Ok(None);
            }
            OPT_LIST => {
                for name in exports.names() {
                    let length = u32::try_from(name.len()).map_err(io::Error::other)?;
                    let data = [&length.to_be_bytes()[..], name.as_bytes()].concat();
                    option_reply(stream, option, REP_SERVER, &data).await?;
                }
                option_reply(stream, option, REP_ACK, &[]).await?;
            }
            OPT_INFO | OPT_GO => {
                let Some(name) = info_name(&data) else {
                    option_reply(stream, option, REP_ERR_INVALID, &[]).await?;
                    continue;
                };
                let Some((medium, size)) = open(exports, name).await else {
                    option_reply(stream, option, REP_ERR_UNKNOWN, b"no readable image there").await?;
                    continue;
                };
                let mut export = INFO_EXPORT.to_be_bytes().to_vec();
                export.extend_from_slice(&size.to_be_bytes());
                export.extend_from_slice(&HAS_FLAGS_READ_ONLY.to_be_bytes());
                option_reply(stream, option, REP_INFO, &export).await?;
                let mut blocks = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
                for value in [1, 4096, READ_CAP] {
                    blocks.extend_from_slice(&value.to_be_bytes());
                }
                option_reply(stream, option, REP_INFO, &blocks).await?;
                option_reply(stream, option, REP_ACK, &[]).await?;
                if option == OPT_GO {
                    return Ok(Some((medium, size)));
                }
            }
            _ => option_reply(stream, option, REP_ERR_UNSUP, &[]).await?,
        }
    }
    Err(broken("too many options"))
}

/// The export and its size in whole sectors; none if it is unknown or its size cannot be learnt.
async fn open(exports: &Exports, name: &[u8]) -> Option<(Arc<Medium>, u64)> {
    let medium = exports.find(std::str::from_utf8(name).ok()?)?;
    match medium.size().await {
        Ok(size) => Some((medium, size.checked_next_multiple_of(SECTOR)?)),
        Err(error) => {
            tracing::debug!(%error, "an inserted image cannot be read");
            None
        }
    }
}

/// The name in the data of `INFO` and `GO`: length, name, count of information requests, requests.
fn info_name(data: &[u8]) -> Option<&[u8]> {
    let length = u32::from_be_bytes(data.get(..4)?.try_into().ok()?);
    let end = usize::try_from(length).ok()?.checked_add(4)?;
    let name = data.get(4..end)?;
    let count = u16::from_be_bytes(data.get(end..end + 2)?.try_into().ok()?);
    (data.len() == end + 2 + 2 * usize::from(count)).then_some(name)
}

async fn option_reply<S>(stream: &mut S, option: u32, kind: u32, data: &[u8]) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let length = u32::try_from(data.len()).map_err(io::Error::other)?;
    let mut reply = OPTION_REPLY.to_be_bytes().to_vec();
    for word in [option, kind, length] {
        reply.extend_from_slice(&word.to_be_bytes());
    }
    reply.extend_from_slice(data);
    stream.write_all(&reply).await?;
    stream.flush().await
}

async fn transmit<S>(stream: &mut S, medium: &Medium, size: u64) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match stream.read_u32().await {
            Ok(REQUEST) => {}
            Ok(_) => return Err(broken("a request without its magic")),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
        let _flags = stream.read_u16().await?;
        let command = stream.read_u16().await?;
        let cookie = stream.read_u64().await?;
        let offset = stream.read_u64().await?;
        let length = stream.read_u32().await?;
        let result = match command {
            CMD_READ => read(medium, size, offset, length).await,
            CMD_DISC => return Ok(()),
            CMD_FLUSH => Ok(Vec::new()),
            // A write carries its data behind the request, so the stream is lost with it.
            1 => return Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            _ => Err(EPERM),
        };
        let (error, data) = match result {
            Ok(data) => (0, data),
            Err(error) => (error, Vec::new()),
        };
        let mut reply = REPLY.to_be_bytes().to_vec();
        reply.extend_from_slice(&error.to_be_bytes());
        reply.extend_from_slice(&cookie.to_be_bytes());
        reply.extend_from_slice(&data);
        stream.write_all(&reply).await?;
        stream.flush().await?;
    }
}

async fn read(medium: &Medium, size: u64, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
    let length = u64::from(length);
    let end = offset.checked_add(length).ok_or(EINVAL)?;
    if end > size || length > u64::from(READ_CAP) {
        return Err(EINVAL);
    }
    let real = medium.size().await.map_err(|_| EIO)?;
    let part = end.min(real).saturating_sub(offset);
    let mut data = if part == 0 {
        Vec::new()
    } else {
        medium.read_at(offset, part).await.map_err(|error| {
            tracing::debug!(%error, "media error");
            EIO
        })?
    };
    data.resize(usize::try_from(length).map_err(|_| EINVAL)?, 0);
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    use tokio::net::TcpListener;

    use crate::media::{ImageUrl, ReadRules};
    use crate::profile::Device;
    use crate::tls::{self, Trust};

    /// An image server for one image, ranged reads only.
    async fn image_server(bytes: Vec<u8>) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/x.iso", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let bytes = bytes.clone();
                tokio::spawn(async move {
                    let mut stream = tokio::io::BufStream::new(stream);
                    loop {
                        let mut head = String::new();
                        while !head.ends_with("\r\n\r\n") {
                            use tokio::io::AsyncBufReadExt;
                            if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                                return;
                            }
                        }
                        let range = head.split("bytes=").nth(1).unwrap();
                        let (a, b) = range.lines().next().unwrap().split_once('-').unwrap();
                        let (a, b): (usize, usize) = (a.parse().unwrap(), b.parse().unwrap());
                        let b = b.min(bytes.len() - 1);
                        let head = format!(
                            "HTTP/1.1 206 X\r\nContent-Length: {}\r\nContent-Range: bytes {a}-{b}/{}\r\n\r\n",
                            b - a + 1,
                            bytes.len()
                        );
                        stream.write_all(head.as_bytes()).await.unwrap();
                        stream.write_all(&bytes[a..=b]).await.unwrap();
                        stream.flush().await.unwrap();
                    }
                });
            }
        });
        url
    }

    fn medium(url: &str) -> Arc<Medium> {
        let rules = ReadRules {
            device: Device::Cd,
            shape: &crate::profile::Profile::by_name("ilo2").unwrap().media_client,
            deadline: Duration::from_secs(10),
            tls: tls::client(Trust::Anything).unwrap(),
            watch: None,
        };
        Arc::new(Medium::new(url, ImageUrl::parse(url).unwrap(), rules))
    }

    async fn nbd_server(exports: &Exports) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let exports = exports.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, exports.clone()));
            }
        });
        format!("nbd://{address}")
    }

    async fn qemu_img(args: Vec<String>) -> std::process::Output {
        tokio::task::spawn_blocking(move || {
            Command::new("qemu-img")
                .args(args)
                .output()
                .expect("the tool `qemu-img` is needed")
        })
        .await
        .unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn qemu_img_reads_the_image_that_the_http_server_has() {
        let bytes: Vec<u8> = (0..100_001_u32).map(|n| (n * 7 % 251) as u8).collect();
        let exports = Exports::default();
        let medium = medium(&image_server(bytes.clone()).await);
        exports.set("cd-1", Arc::clone(&medium));
        let url = format!("{}/cd-1", nbd_server(&exports).await);

        let info = qemu_img(vec!["info".into(), "-f".into(), "raw".into(), url.clone()]).await;
        let text = String::from_utf8_lossy(&info.stdout).into_owned();
        assert!(info.status.success(), "{}", String::from_utf8_lossy(&info.stderr));
        assert!(text.contains("(100352 bytes)"), "{text}");
        assert!(
            medium.record().snapshot().bytes < 10_000,
            "info reads no more than it must"
        );

        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let copied = qemu_img(
            ["convert", "-f", "raw", "-O", "raw", &url, &out.display().to_string()]
                .map(str::to_owned)
                .to_vec(),
        )
        .await;
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        let mut want = bytes;
        want.resize(100_352, 0);
        assert_eq!(std::fs::read(out).unwrap(), want);
        assert_eq!(medium.record().snapshot().ranges, [(0, 100_001)]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_unknown_or_dead_export_is_refused() {
        let exports = Exports::default();
        exports.set("dead", medium("http://127.0.0.1:1/x.iso"));
        let server = nbd_server(&exports).await;
        for name in ["dead", "none"] {
            let info = qemu_img(vec!["info".into(), format!("{server}/{name}")]).await;
            assert!(!info.status.success(), "{name}");
        }
        assert_eq!(exports.find("dead").unwrap().record().snapshot().errors, 1);
    }

    #[test]
    fn any_bytes_end_the_session_without_a_panic() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let exports = Exports::default();
        exports.set("dead", medium("http://127.0.0.1:1/x.iso"));
        proptest::proptest!(|(
            option in 0_u32..12,
            data in proptest::collection::vec(0_u8.., 0..40),
            rest in proptest::collection::vec(0_u8.., 0..200),
        )| {
            let mut input = 1_u32.to_be_bytes().to_vec();
            input.extend_from_slice(&OPTION.to_be_bytes());
            input.extend_from_slice(&option.to_be_bytes());
            input.extend_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes());
            input.extend_from_slice(&data);
            input.extend_from_slice(&rest);
            let stream = tokio::io::join(&input[..], tokio::io::sink());
            runtime.block_on(async {
                let _ = serve(stream, exports.clone()).await;
            });
        });
    }
}
