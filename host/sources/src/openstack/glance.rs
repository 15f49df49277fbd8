//! What Glance says of an image, and where its bytes are.

use bytes::Bytes;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use uuid::Uuid;

use super::{Client, OpenStackError, read};
use crate::Checksum;
use crate::reference::shown;

/// The service's type in the catalogue.
pub(crate) const IMAGE: &str = "image";
/// Largest description of an image.
const CAP: usize = 1 << 20;

/// An image as Glance describes it (Image API v2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GlanceImage {
    /// Bytes, where Glance tells.
    pub len: Option<u64>,
    /// What its bytes must have; Glance's old MD5 is none.
    pub checksum: Option<Checksum>,
    /// "raw", "qcow2", …
    pub disk_format: Option<String>,
    /// The image that is its kernel, for images that need one.
    pub kernel: Option<String>,
    /// The image that is its ramdisk.
    pub ramdisk: Option<String>,
    /// The boot ISO that goes with it: another image, or a URL.
    pub boot_iso: Option<String>,
}

#[derive(Deserialize)]
struct Description {
    status: String,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    os_hash_algo: Option<String>,
    #[serde(default)]
    os_hash_value: Option<String>,
    #[serde(default)]
    disk_format: Option<String>,
    #[serde(default)]
    kernel_id: Option<String>,
    #[serde(default)]
    ramdisk_id: Option<String>,
    #[serde(default)]
    boot_iso: Option<String>,
}

/// Asks for the description; `None` if there is no such image.
pub(crate) async fn describe(client: &Client, id: Uuid) -> Result<Option<GlanceImage>, OpenStackError> {
    let path = path(client, id, None).await?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let request = client.request(IMAGE, Method::GET, &path).await?;
    let url = shown(request.url());
    let answer = client.send(request).await?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(None),
        status => {
            return Err(OpenStackError::Status {
                url,
                status: status.as_u16(),
                reason: String::new(),
            });
        }
    }
    let within = client.identity().inner().config.limits.answer;
    let image = parse(&read(answer, CAP, within).await?);
    image
        .map(Some)
        .map_err(|reason| OpenStackError::Malformed { url, reason })
}

/// Path of an image, or of its bytes, under the endpoint, which may or may not name the version.
pub(crate) async fn path(client: &Client, id: Uuid, part: Option<&str>) -> Result<Vec<String>, OpenStackError> {
    let endpoint = client.identity().endpoint(IMAGE).await?;
    let versioned = endpoint.path().trim_end_matches('/').ends_with("/v2");
    let id = id.to_string();
    let parts = (!versioned)
        .then_some("v2")
        .into_iter()
        .chain(["images", &id])
        .chain(part);
    Ok(parts.map(str::to_owned).collect())
}

fn parse(text: &Bytes) -> Result<GlanceImage, String> {
    let found: Description = serde_json::from_slice(text).map_err(|error| {
        format!(
            "an image is described otherwise (line {}, column {})",
            error.line(),
            error.column()
        )
    })?;
    if found.status != "active" {
        let status: String = found.status.chars().filter(|c| !c.is_control()).take(40).collect();
        return Err(format!(
            "the image is `{status}`, not active: upload it, or activate it again"
        ));
    }
    let checksum = match (&found.os_hash_algo, &found.os_hash_value) {
        // An algorithm that we do not know says nothing; it is Glance's to choose.
        (Some(algorithm), Some(value)) => Checksum::parse(value, Some(algorithm)).ok(),
        _ => None,
    };
    Ok(GlanceImage {
        len: found.size,
        checksum,
        disk_format: found.disk_format,
        kernel: found.kernel_id,
        ramdisk: found.ramdisk_id,
        boot_iso: found.boot_iso,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_with_the_digest_that_vouches() {
        let text = format!(
            r#"{{"status": "active", "size": 7, "checksum": "{}", "os_hash_algo": "sha512", "os_hash_value": "{}",
                "disk_format": "raw", "kernel_id": "k", "x": {{}}}}"#,
            "a".repeat(32),
            "b".repeat(128)
        );
        let image = parse(&text.into()).unwrap();
        assert_eq!(
            (image.len, image.kernel.as_deref(), image.ramdisk),
            (Some(7), Some("k"), None)
        );
        assert_eq!(image.checksum.unwrap().algorithm(), "sha512");
        let old = parse(&Bytes::from(format!(
            r#"{{"status": "active", "checksum": "{}", "os_hash_algo": "sha3_512", "os_hash_value": "00"}}"#,
            "a".repeat(32)
        )));
        assert_eq!(old.unwrap().checksum, None);
    }

    #[test]
    fn an_image_without_its_bytes_is_none() {
        for (text, said) in [
            (r#"{"status": "queued"}"#, "queued"),
            (r#"{"status": "deactivated"}"#, "activate"),
            (r#"{"size": 7}"#, "otherwise"),
            ("<html>", "otherwise"),
        ] {
            let error = parse(&Bytes::from(text)).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
