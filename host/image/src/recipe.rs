//! What an image is made of, on record: replaying it gives the same bytes on any conductor, or an error, never others.
//!
//! A recipe holds literals as they are, secrets included; whoever stores it seals it.

use std::collections::BTreeMap;
use std::fmt;

use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::{Digest, Sha256};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::layout::{Extent, Kind, Layout, LayoutError};

/// The version that this build's recipes carry. It changes when the identity of a layout is computed in another way.
pub const WRITER_VERSION: u32 = 1;

/// Longest recipe in JSON.
const MAX_JSON: usize = 128 << 20;
/// Most extents of one image: a FAT volume of 20,000 files needs two for each.
const MAX_EXTENTS: usize = 262_144;
/// Most sources of one image.
const MAX_SOURCES: usize = 65_536;
/// Longest reference to a source.
const MAX_REFERENCE: usize = 4096;

/// Why a recipe cannot be made or replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// Nobody said where a source comes from, so it could not be fetched again.
    #[error("source {0} has no reference to fetch it from again")]
    NoReference(Sha256),
    /// More than a recipe may hold.
    #[error("a recipe holds at most {max} {what}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// What is allowed.
        max: usize,
    },
    /// The text is no recipe. What stands there is not quoted, since it may be a secret.
    #[error("this is no recipe: damaged or of another kind at line {line}, column {column}")]
    Malformed {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A newer (or broken) Farrier wrote it.
    #[error(
        "the recipe has version {found}, and this Farrier replays version {WRITER_VERSION}: replay it with the release that wrote it"
    )]
    Version {
        /// The version on record.
        found: u32,
    },
    /// Its extents are no image.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Its extents give another image than the one on record.
    #[error("the recipe gives image {computed} and {recorded} is on record: it was damaged or changed")]
    Changed {
        /// The identity on record.
        recorded: Digest,
        /// What the extents give.
        computed: Digest,
    },
}

/// Where a source can be fetched again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRef {
    /// A reference as `sources` reads it (a URL or a path). It may hold credentials, so `Debug` does not show it.
    pub reference: String,
}

impl fmt::Debug for SourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceRef(…)")
    }
}

/// The recipe of one image. `Debug` shows neither literals nor references.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    writer: u32,
    kind: Kind,
    size: u64,
    #[serde(with = "as_text")]
    digest: Digest,
    #[serde(deserialize_with = "bounded_sources")]
    sources: BTreeMap<HexSha256, SourceRef>,
    #[serde(deserialize_with = "bounded_extents")]
    extents: Vec<RecipeExtent>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RecipeExtent {
    Literal(#[serde(with = "as_base64")] Bytes),
    Source(RecipeRange),
    Zero(u64),
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeRange {
    sha256: HexSha256,
    offset: u64,
    len: u64,
}

impl Recipe {
    /// Records a layout. `references` says for each of its sources where it can be fetched again.
    pub fn of(layout: &Layout, references: &BTreeMap<Sha256, String>) -> Result<Self, RecipeError> {
        at_most(layout.extents().len(), MAX_EXTENTS, "extents")?;
        let mut sources = BTreeMap::new();
        for sha256 in layout.sources() {
            let reference = references.get(&sha256).ok_or(RecipeError::NoReference(sha256))?.clone();
            at_most(reference.len(), MAX_REFERENCE, "bytes of one reference")?;
            sources.insert(HexSha256(sha256), SourceRef { reference });
        }
        at_most(sources.len(), MAX_SOURCES, "sources")?;
        let extents = layout.extents().iter().map(|extent| match extent {
            Extent::Literal(bytes) => RecipeExtent::Literal(bytes.clone()),
            Extent::Source { sha256, offset, len } => RecipeExtent::Source(RecipeRange {
                sha256: HexSha256(*sha256),
                offset: *offset,
                len: *len,
            }),
            Extent::Zero(len) => RecipeExtent::Zero(*len),
        });
        Ok(Self {
            writer: WRITER_VERSION,
            kind: layout.kind(),
            size: layout.size(),
            digest: layout.digest(),
            sources,
            extents: extents.collect(),
        })
    }

    /// Replays it: the layout that was recorded, checked against the recorded identity.
    pub fn layout(&self) -> Result<Layout, RecipeError> {
        if self.writer != WRITER_VERSION {
            return Err(RecipeError::Version { found: self.writer });
        }
        for extent in &self.extents {
            if let RecipeExtent::Source(range) = extent
                && !self.sources.contains_key(&range.sha256)
            {
                return Err(RecipeError::NoReference(range.sha256.0));
            }
        }
        let extents = self.extents.iter().map(|extent| match extent {
            RecipeExtent::Literal(bytes) => Extent::Literal(bytes.clone()),
            RecipeExtent::Source(range) => Extent::Source {
                sha256: range.sha256.0,
                offset: range.offset,
                len: range.len,
            },
            RecipeExtent::Zero(len) => Extent::Zero(*len),
        });
        let layout = Layout::from_extents(self.kind, extents.collect())?;
        if layout.digest() != self.digest || layout.size() != self.size {
            return Err(RecipeError::Changed {
                recorded: self.digest,
                computed: layout.digest(),
            });
        }
        Ok(layout)
    }

    /// What the image is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Identity of the image; [`Recipe::layout`] verifies it.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Bytes of the image; [`Recipe::layout`] verifies it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The sources that have to be kept or fetched again, and from where.
    pub fn sources(&self) -> impl Iterator<Item = (Sha256, &SourceRef)> {
        self.sources.iter().map(|(sha256, reference)| (sha256.0, reference))
    }

    /// The recipe as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, RecipeError> {
        let json = serde_json::to_vec(self).map_err(malformed)?;
        at_most(json.len(), MAX_JSON, "bytes of JSON")?;
        Ok(json)
    }

    /// Reads what [`Recipe::to_json`] wrote. Memory is bounded by the text's length and by fixed counts.
    pub fn from_json(json: &[u8]) -> Result<Self, RecipeError> {
        at_most(json.len(), MAX_JSON, "bytes of JSON")?;
        serde_json::from_slice(json).map_err(malformed)
    }
}

impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Recipe({:?}, version {}, {} bytes, {} extents, {} sources, {})",
            self.kind,
            self.writer,
            self.size,
            self.extents.len(),
            self.sources.len(),
            self.digest
        )
    }
}

fn malformed(error: serde_json::Error) -> RecipeError {
    RecipeError::Malformed {
        line: error.line(),
        column: error.column(),
    }
}

fn at_most(count: usize, max: usize, what: &'static str) -> Result<(), RecipeError> {
    if count > max {
        Err(RecipeError::TooLarge { what, max })
    } else {
        Ok(())
    }
}

/// A digest as hexadecimal text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct HexSha256(Sha256);

impl Serialize for HexSha256 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for HexSha256 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        as_text::deserialize(deserializer).map(Self)
    }
}

/// What prints and parses, as that text.
mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Bytes as base64 text.
mod as_base64 {
    use base64::Engine as _;
    use serde::de::Error as _;

    use super::{Bytes, Deserialize as _, Deserializer, STANDARD, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD
            .decode(text)
            .map(Bytes::from)
            .map_err(|_| D::Error::custom("a literal is no base64"))
    }
}

fn bounded_extents<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RecipeExtent>, D::Error> {
    struct Extents;
    impl<'de> Visitor<'de> for Extents {
        type Value = Vec<RecipeExtent>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX_EXTENTS} extents")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut extents = Vec::new();
            while let Some(extent) = items.next_element()? {
                if extents.len() == MAX_EXTENTS {
                    return Err(A::Error::invalid_length(MAX_EXTENTS + 1, &self));
                }
                extents.push(extent);
            }
            Ok(extents)
        }
    }
    deserializer.deserialize_seq(Extents)
}

fn bounded_sources<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<HexSha256, SourceRef>, D::Error> {
    let sources = BTreeMap::<HexSha256, SourceRef>::deserialize(deserializer)?;
    if sources.len() > MAX_SOURCES {
        return Err(D::Error::custom(format!("a recipe has at most {MAX_SOURCES} sources")));
    }
    if sources.values().any(|source| source.reference.len() > MAX_REFERENCE) {
        return Err(D::Error::custom(format!(
            "a reference has at most {MAX_REFERENCE} bytes"
        )));
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::LayoutBuilder;
    use base64::Engine as _;
    use proptest::prelude::*;

    fn layout() -> Layout {
        let mut builder = LayoutBuilder::new(Kind::Floppy);
        builder.literal(&b"token=hunter2\n"[..]);
        builder.zeros(1000);
        builder.source(Sha256([7; 32]), 512, 4096);
        builder.finish().unwrap()
    }

    fn references() -> BTreeMap<Sha256, String> {
        BTreeMap::from([(Sha256([7; 32]), "http://user:pass@192.0.2.1/vmlinuz".to_owned())])
    }

    fn json() -> String {
        String::from_utf8(Recipe::of(&layout(), &references()).unwrap().to_json().unwrap()).unwrap()
    }

    #[test]
    fn a_replayed_recipe_is_the_same_layout() {
        let recipe = Recipe::from_json(json().as_bytes()).unwrap();
        assert_eq!(recipe, Recipe::of(&layout(), &references()).unwrap());
        let replayed = recipe.layout().unwrap();
        assert_eq!(replayed, layout());
        assert_eq!(replayed.digest(), layout().digest());
        assert_eq!(
            recipe.sources().map(|(sha256, _)| sha256).collect::<Vec<_>>(),
            [Sha256([7; 32])]
        );
    }

    #[test]
    fn a_recipe_records_where_each_source_is_fetched() {
        assert!(matches!(
            Recipe::of(&layout(), &BTreeMap::new()),
            Err(RecipeError::NoReference(_))
        ));
        let without = json().replace(
            &format!(
                "\"{}\":{{\"reference\":\"http://user:pass@192.0.2.1/vmlinuz\"}}",
                Sha256([7; 32])
            ),
            "",
        );
        assert_ne!(without, json());
        let recipe = Recipe::from_json(without.as_bytes()).unwrap();
        assert!(matches!(recipe.layout(), Err(RecipeError::NoReference(_))));
    }

    #[test]
    fn a_changed_recipe_is_never_replayed() {
        for (from, to) in [
            ("\"zero\":1000", "\"zero\":1001"),
            ("\"offset\":512", "\"offset\":513"),
            ("\"len\":4096", "\"len\":18446744073709551615"),
            ("\"size\":5110", "\"size\":5111"),
            ("\"zero\":1000", "\"zero\":18446744073709551615"),
            ("\"writer\":1", "\"writer\":2"),
            (&STANDARD.encode("token=hunter2\n"), &STANDARD.encode("token=hunter3\n")),
        ] {
            let changed = json().replace(from, to);
            assert_ne!(changed, json(), "{from}");
            let replayed = Recipe::from_json(changed.as_bytes()).unwrap().layout();
            assert!(replayed.is_err(), "{from}: {replayed:?}");
        }
    }

    #[test]
    fn what_is_no_recipe_is_refused() {
        for (from, to) in [
            ("\"kind\":\"floppy\"", "\"kind\":\"tape\""),
            ("\"writer\":1", "\"writer\":1,\"extra\":1"),
            ("\"offset\":512", "\"offset\":-1"),
            ("\"digest\":\"sha256:", "\"digest\":\"md5:"),
            ("{\"zero\":1000}", "{}"),
            ("{\"zero\":1000}", "{\"zero\":\"secret\"}"),
            ("{\"zero\":1000}", "{\"secret\":1000}"),
            (&STANDARD.encode("token=hunter2\n"), "secret*"),
        ] {
            let changed = json().replace(from, to);
            assert_ne!(changed, json(), "{from}");
            let error = Recipe::from_json(changed.as_bytes()).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(!text.contains("secret"), "{text}");
        }
        let long = json().replace("http://", &"x".repeat(MAX_REFERENCE));
        assert!(Recipe::from_json(long.as_bytes()).is_err());
        let many = "{\"zero\":1},".repeat(MAX_EXTENTS + 1);
        let many = json().replace("{\"zero\":1000},", &many);
        assert!(Recipe::from_json(many.as_bytes()).is_err());
    }

    #[test]
    fn debug_shows_no_secret() {
        let recipe = Recipe::of(&layout(), &references()).unwrap();
        let sources: Vec<_> = recipe.sources().collect();
        let text = format!("{recipe:?} {sources:?}");
        let secret = STANDARD.encode("token=hunter2\n");
        assert!(
            !text.contains("hunter2") && !text.contains(&secret) && !text.contains("pass"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), with in any::<u8>()) {
            let _ = Recipe::from_json(&bytes).map(|recipe| recipe.layout());
            let mut damaged = json().into_bytes();
            let at = at.index(damaged.len());
            damaged[at] = with;
            if let Ok(replayed) = Recipe::from_json(&damaged).and_then(|recipe| recipe.layout()) {
                prop_assert_eq!(replayed.digest(), layout().digest());
            }
        }
    }
}
