//! What an agent is told to write to the disk.

use std::fmt;

use model::NodeId;
use serde_json::{Map, Value, json};

/// A whole-disk image by URL, with its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct ImageInfo {
    /// How the image is called in messages.
    pub id: String,
    /// Where the agent fetches it; tried in turn.
    pub urls: Vec<String>,
    /// Algorithm and value (`sha256`, hexadecimal digits).
    pub os_hash: Option<(String, String)>,
    /// The older bare checksum, or the URL of a checksum file, where that is all there is.
    pub checksum: Option<String>,
    /// What the bytes are.
    pub format: DiskFormat,
    /// For which node.
    pub node: NodeId,
}

/// How an agent treats an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskFormat {
    /// Streamed to the disk, byte for byte, and not looked into.
    Raw,
    /// QEMU's copy-on-write format: checked once more, and converted.
    Qcow2,
}

impl DiskFormat {
    /// `raw`, `qcow2`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

impl ImageInfo {
    /// The `image_info` of `standby.prepare_image`.
    pub(crate) fn to_params(&self) -> Value {
        let mut info = Map::new();
        info.insert("id".into(), json!(self.id));
        info.insert("urls".into(), json!(self.urls));
        if let Some((algorithm, value)) = &self.os_hash {
            info.insert("os_hash_algo".into(), json!(algorithm));
            info.insert("os_hash_value".into(), json!(value));
        }
        if let Some(checksum) = &self.checksum {
            info.insert("checksum".into(), json!(checksum));
        }
        info.insert("disk_format".into(), json!(self.format.as_str()));
        info.insert("image_type".into(), json!("whole-disk-image"));
        // What is not raw is fetched into the ramdisk's memory and converted from there.
        info.insert("stream_raw_images".into(), json!(self.format == DiskFormat::Raw));
        info.insert("node_uuid".into(), json!(self.node.to_string()));
        Value::Object(info)
    }
}

/// URLs of images may be signed, so only their number is shown.
impl fmt::Debug for ImageInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageInfo")
            .field("urls", &self.urls.len())
            .field("os_hash", &self.os_hash)
            .field("format", &self.format)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}
