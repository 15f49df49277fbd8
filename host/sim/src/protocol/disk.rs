//! What the deploy agent does to the disk: writes an image, erases, syncs.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Client, Response};
use serde_json::Value;
use sha2::{Digest, Sha256, Sha512};
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, SeekFrom};
use tokio::time::timeout;

use crate::protocol::agent::map_host;
use crate::protocol::commands::CommandError;

/// How long the image server may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest checksum file and config drive in bytes.
const CHECKSUM_CAP: usize = 1 << 20;
const CONFIG_DRIVE_CAP: usize = 64 << 20;
/// Length of what erasing the metadata overwrites at both ends.
const METADATA: u64 = 33 << 10;

/// `image_info` of `prepare_image`.
pub(crate) struct Image {
    pub(crate) id: String,
    urls: Vec<String>,
    hash: Hash,
    authorization: Option<String>,
}

enum Hash {
    Known(Algorithm, String),
    /// A file that names the checksum.
    At(String),
}

#[derive(Clone, Copy)]
enum Algorithm {
    Sha256,
    Sha512,
}

impl Image {
    pub(crate) fn parse(params: &Value) -> Result<Self, CommandError> {
        let wrong = |details: String| CommandError {
            code: 400,
            ..CommandError::new("InvalidCommandParamsError", "Invalid command parameters", details)
        };
        let info = params
            .get("image_info")
            .and_then(Value::as_object)
            .ok_or_else(|| wrong("image_info is missing".into()))?;
        let text = |name: &str| info.get(name).and_then(Value::as_str).map(str::to_owned);
        let id = text("id").ok_or_else(|| wrong("image_info has no id".into()))?;
        let urls: Vec<String> = info
            .get("urls")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        if urls.is_empty() {
            return Err(wrong("image_info has no urls".into()));
        }
        match text("disk_format").as_deref() {
            Some("raw") | None => {}
            Some(other) => {
                return Err(CommandError::new(
                    "InvalidImage",
                    "Image is invalid",
                    format!("disk format {other} cannot be written here, only raw can"),
                ));
            }
        }
        let hash = match (text("os_hash_algo"), text("os_hash_value"), text("checksum")) {
            (Some(name), Some(value), _) => {
                let algorithm =
                    Algorithm::named(&name).ok_or_else(|| wrong(format!("hash algorithm {name} is not available")))?;
                Hash::Known(algorithm, value.to_ascii_lowercase())
            }
            (_, _, Some(checksum)) if checksum.contains("://") => Hash::At(checksum),
            (_, _, Some(checksum)) => {
                let algorithm = Algorithm::of_length(&checksum)
                    .ok_or_else(|| wrong("the checksum is not SHA-256 or SHA-512; MD5 is switched off".into()))?;
                Hash::Known(algorithm, checksum.to_ascii_lowercase())
            }
            _ => return Err(wrong("image_info has no checksum".into())),
        };
        Ok(Self {
            id,
            urls,
            hash,
            authorization: text("image_request_authorization")
                .and_then(|encoded| STANDARD.decode(encoded).ok())
                .and_then(|bytes| String::from_utf8(bytes).ok()),
        })
    }
}

impl Algorithm {
    fn named(name: &str) -> Option<Self> {
        match name {
            "sha256" => Some(Self::Sha256),
            "sha512" => Some(Self::Sha512),
            _ => None,
        }
    }

    fn of_length(checksum: &str) -> Option<Self> {
        match checksum.len() {
            64 => Some(Self::Sha256),
            128 => Some(Self::Sha512),
            _ => None,
        }
    }
}

/// Downloads the image onto the disk and checks it; returns its length.
pub(crate) async fn write_image(
    client: &Client,
    image: &Image,
    disk: &Path,
    progress: impl Fn(u64),
) -> Result<u64, CommandError> {
    let (algorithm, wanted) = match &image.hash {
        Hash::Known(algorithm, value) => (*algorithm, value.clone()),
        Hash::At(url) => checksum_at(client, url, image).await?,
    };
    let mut last = None;
    for url in &image.urls {
        match download(client, url, image, algorithm, disk, &progress).await {
            Ok((length, found)) if found == wanted => return Ok(length),
            Ok((_, found)) => {
                last = Some(CommandError::new(
                    "ImageChecksumError",
                    "Error verifying image checksum",
                    format!(
                        "Image failed to verify against checksum. image ID: {}; image checksum: {wanted}; verification checksum: {found}",
                        image.id
                    ),
                ));
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| download_error("no URL")))
}

fn download_error(details: impl std::fmt::Display) -> CommandError {
    CommandError::new("ImageDownloadError", "Error downloading image", details.to_string())
}

fn disk_error(error: std::io::Error) -> CommandError {
    CommandError::new("ImageWriteError", "Error writing image to device", error.to_string())
}

async fn get(client: &Client, url: &str, authorization: Option<&str>) -> Result<Response, CommandError> {
    let url = map_host(url).map_err(download_error)?;
    let mut request = client.get(url);
    if let Some(value) = authorization {
        request = request.header("Authorization", value);
    }
    let response = timeout(SILENCE, request.send())
        .await
        .map_err(|_| download_error("the image server does not answer"))?
        .map_err(|error| download_error(error.without_url()))?;
    if response.status() != reqwest::StatusCode::OK {
        return Err(download_error(format!(
            "Received status code {} from the image server, expected 200",
            response.status()
        )));
    }
    Ok(response)
}

async fn next_chunk(response: &mut Response) -> Result<Option<bytes::Bytes>, CommandError> {
    timeout(SILENCE, response.chunk())
        .await
        .map_err(|_| download_error("the image server fell silent"))?
        .map_err(|error| download_error(error.without_url()))
}

async fn small(client: &Client, url: &str, authorization: Option<&str>, cap: usize) -> Result<Vec<u8>, CommandError> {
    let mut response = get(client, url, authorization).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = next_chunk(&mut response).await? {
        if bytes.len() + chunk.len() > cap {
            return Err(download_error(format!("more than {cap} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The checksum in a file that holds it alone, or in lines of `checksum  name`.
async fn checksum_at(client: &Client, url: &str, image: &Image) -> Result<(Algorithm, String), CommandError> {
    let bytes = small(client, url, image.authorization.as_deref(), CHECKSUM_CAP).await?;
    let text = String::from_utf8_lossy(&bytes);
    let names: Vec<&str> = image.urls.iter().filter_map(|url| url.rsplit('/').next()).collect();
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let sum = words.next()?;
            let fits = match words.next() {
                None => true,
                Some(name) => names.contains(&name.trim_start_matches('*')),
            };
            fits.then_some(sum)
        })
        .find_map(|sum| Some((Algorithm::of_length(sum)?, sum.to_ascii_lowercase())))
        .ok_or_else(|| download_error("the checksum file does not name this image"))
}

async fn download(
    client: &Client,
    url: &str,
    image: &Image,
    algorithm: Algorithm,
    path: &Path,
    progress: &impl Fn(u64),
) -> Result<(u64, String), CommandError> {
    let mut response = get(client, url, image.authorization.as_deref()).await?;
    let mut file = OpenOptions::new().write(true).open(path).await.map_err(disk_error)?;
    let capacity = file.metadata().await.map_err(disk_error)?.len();
    let promised = response.content_length();
    let mut sha256 = Sha256::new();
    let mut sha512 = Sha512::new();
    let mut written = 0_u64;
    while let Some(chunk) = next_chunk(&mut response).await? {
        written += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        if written > capacity {
            return Err(CommandError::new(
                "ImageWriteError",
                "Error writing image to device",
                format!("the image does not fit on a disk of {capacity} bytes"),
            ));
        }
        match algorithm {
            Algorithm::Sha256 => sha256.update(&chunk),
            Algorithm::Sha512 => sha512.update(&chunk),
        }
        file.write_all(&chunk).await.map_err(disk_error)?;
        progress(written);
    }
    file.flush().await.map_err(disk_error)?;
    if promised.is_some_and(|promised| promised != written) {
        return Err(download_error(format!("{written} bytes came of {promised:?}")));
    }
    let found = match algorithm {
        Algorithm::Sha256 => hex(&sha256.finalize()),
        Algorithm::Sha512 => hex(&sha512.finalize()),
    };
    Ok((written, found))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Keeps the config drive beside the disk, decoded from base64 or fetched from its URL, still compressed.
/// No partition is made for it: nothing here would read one.
pub(crate) async fn write_config_drive(client: &Client, drive: &str, folder: &Path) -> Result<(), CommandError> {
    let bytes = if drive.starts_with("http://") || drive.starts_with("https://") {
        small(client, drive, None, CONFIG_DRIVE_CAP).await?
    } else {
        let packed: String = drive.chars().filter(|c| !c.is_whitespace()).collect();
        STANDARD
            .decode(packed)
            .map_err(|error| download_error(format!("the config drive is not base64: {error}")))?
    };
    tokio::fs::write(folder.join("configdrive.gz"), bytes)
        .await
        .map_err(disk_error)
}

/// The MBR's disk identifier.
pub(crate) async fn identifier(path: &Path) -> Result<String, CommandError> {
    let mut file = File::open(path).await.map_err(disk_error)?;
    let mut sector = [0; 512];
    file.read_exact(&mut sector).await.map_err(disk_error)?;
    let id = u32::from_le_bytes([sector[440], sector[441], sector[442], sector[443]]);
    Ok(format!("0x{id:08x}"))
}

pub(crate) async fn sync(path: &Path) -> Result<(), CommandError> {
    let file = OpenOptions::new().write(true).open(path).await.map_err(disk_error)?;
    file.sync_all().await.map_err(disk_error)
}

/// Overwrites both ends of the disk, where partition tables are.
pub(crate) async fn erase_metadata(path: &Path) -> Result<(), CommandError> {
    let mut file = OpenOptions::new().write(true).open(path).await.map_err(disk_error)?;
    let length = file.metadata().await.map_err(disk_error)?.len();
    let part = METADATA.min(length);
    let zeros = vec![0; usize::try_from(part).unwrap_or(0)];
    for at in [0, length - part] {
        file.seek(SeekFrom::Start(at)).await.map_err(disk_error)?;
        file.write_all(&zeros).await.map_err(disk_error)?;
    }
    file.flush().await.map_err(disk_error)
}

/// Leaves a disk of zeros of the same size.
pub(crate) async fn erase(path: &Path) -> Result<(), CommandError> {
    let file = OpenOptions::new().write(true).open(path).await.map_err(disk_error)?;
    let length = file.metadata().await.map_err(disk_error)?.len();
    file.set_len(0).await.map_err(disk_error)?;
    file.set_len(length).await.map_err(disk_error)
}
