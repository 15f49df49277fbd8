//! The shape of a BMC's image client, as data.

use serde::Deserialize;

/// How a BMC reads an inserted image over HTTP.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct MediaClient {
    /// How it learns the image's size.
    pub first: FirstRead,
    /// How it writes a range.
    pub range: RangeForm,
    /// Whether `Host` names the port too.
    pub host_port: bool,
    /// Headers beside `Host` and `Range`, in order.
    pub headers: Vec<(String, String)>,
    /// Smallest ranged read in bytes. Reads begin and end at multiples of it, but for the image's own end.
    pub least: u64,
    /// Largest ranged read in bytes.
    pub most: u64,
    /// Whether an https server must be trusted even if no certificate came with the insert.
    pub verify: bool,
}

impl Default for MediaClient {
    fn default() -> Self {
        Self {
            first: FirstRead::Range,
            range: RangeForm::Plain,
            host_port: true,
            headers: Vec::new(),
            least: 1,
            most: 65_536,
            verify: false,
        }
    }
}

/// How the first look at an image is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstRead {
    /// A ranged GET, whose `Content-Range` tells the size.
    Range,
    /// A HEAD, whose `Content-Length` tells it and whose `Accept-Ranges` must allow what follows.
    Head,
    /// One GET of the whole file, when the machine first reads; ranges are then served from that copy.
    Whole,
}

/// How a range is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RangeForm {
    /// `bytes=0-511`.
    Plain,
    /// Both ends with 20 digits.
    Padded,
}
