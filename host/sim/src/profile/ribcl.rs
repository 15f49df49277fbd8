//! How a BMC speaks RIBCL, as data. Sources: HP's scripting guides, recorded answers of iLO 2 2.29 and iLO 3 1.82, and samples
//! of iLO 4 in public clients.

use serde::Deserialize;

/// How a BMC speaks RIBCL.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RibclFacts {
    /// `VERSION` of each document of an answer: the schema's, not the firmware's.
    pub schema: String,
    /// `MANAGEMENT_PROCESSOR` of `GET_FW_VERSION`.
    pub processor: String,
    /// `FIRMWARE_DATE` of `GET_FW_VERSION`.
    pub firmware_date: String,
    /// The `Server` header of an answer over HTTP.
    pub server: String,
    /// Lines end in CRLF; if not, only the one after an XML declaration does.
    pub crlf: bool,
    /// An empty line stands between two documents.
    pub blank_lines: bool,
    /// `<RIBCL VERSION="…"/>` is closed where it opens, and closed once more at its end, so that no document is XML.
    pub closed_where_it_opens: bool,
    /// The second document bears a remark that the client's utility is old.
    pub remark: bool,
    /// How a syntax error is worded.
    pub syntax: SyntaxForm,
    /// Which firmware modes it can tell and set.
    pub boot_modes: BootModes,
    /// How the boot order and the one-time boot are told.
    pub boot_form: BootForm,
}

/// What a BMC knows of its server's firmware modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootModes {
    /// There are no commands for it.
    Unknown,
    /// There are commands, which are not supported on its servers.
    Unsupported,
    /// Legacy BIOS and UEFI.
    Both,
}

/// How a syntax error is worded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyntaxForm {
    /// `Syntax error: Line #0: syntax error near "X" in the line: ""`, wherever it is.
    NoLine,
    /// `Error: Line #11: syntax error near "X".`
    Line,
}

/// How the boot order is written in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootForm {
    /// `<GET_PERSISTENT_BOOT CDROM = "1" … />`, and `<BOOT_TYPE DEVICE="NORMAL"/>`.
    Attributes,
    /// `<PERSISTENT_BOOT><DEVICE value="CDROM"/>…`, and `<BOOT_TYPE VALUE="Normal"/>`.
    Elements,
}

impl Default for RibclFacts {
    fn default() -> Self {
        Self {
            schema: "2.23".into(),
            processor: "iLO4".into(),
            firmware_date: "Jan 01 2015".into(),
            server: "Allegro-Software-RomPager/4.62".into(),
            crlf: false,
            blank_lines: true,
            closed_where_it_opens: false,
            remark: false,
            syntax: SyntaxForm::Line,
            boot_modes: BootModes::Both,
            boot_form: BootForm::Elements,
        }
    }
}
