//! The parameters floppy: what an agent mounts by its label and reads `parameters.txt` from.

use std::fmt;

use bytes::Bytes;

use crate::content::Content;
use crate::fat::{FatError, FatShape, FatSpec, volume};
use crate::layout::{Kind, Layout};
use crate::parameters::{ParameterError, Reader, check};

/// The label that ironic-python-agent looks for.
pub const FLOPPY_LABEL: &str = "ir-vfd-dev";
/// The file that it reads.
pub const PARAMETERS_FILE: &str = "parameters.txt";

/// A floppy to make.
#[derive(Clone)]
pub struct FloppySpec {
    /// Volume label; [`FLOPPY_LABEL`] by default.
    pub label: String,
    /// Lines of [`PARAMETERS_FILE`], in this order. Values may be secret.
    pub parameters: Vec<(String, String)>,
    /// Other files, by path.
    pub files: Vec<(String, Content)>,
    /// Bytes of the floppy; `None` = 1.44 MB, or larger if the files need it.
    pub size: Option<u64>,
}

impl Default for FloppySpec {
    fn default() -> Self {
        Self {
            label: FLOPPY_LABEL.to_owned(),
            parameters: Vec::new(),
            files: Vec::new(),
            size: None,
        }
    }
}

impl fmt::Debug for FloppySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.parameters.iter().map(|(key, _)| key).collect();
        f.debug_struct("FloppySpec")
            .field("label", &self.label)
            .field("parameters", &keys)
            .field("files", &self.files)
            .field("size", &self.size)
            .finish()
    }
}

/// Why a floppy cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FloppyError {
    /// A parameter that the agent would misread.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The volume cannot be made.
    #[error(transparent)]
    Fat(#[from] FatError),
}

/// Makes a floppy. [`PARAMETERS_FILE`] is there even without parameters, since an agent that finds the label opens it.
pub fn floppy(spec: &FloppySpec) -> Result<Layout, FloppyError> {
    check(&spec.parameters, Reader::File)?;
    let mut text = String::new();
    for (key, value) in &spec.parameters {
        text.extend([key, "=", value, "\n"]);
    }
    let mut files = vec![(PARAMETERS_FILE.to_owned(), Content::from(Bytes::from(text)))];
    files.extend(spec.files.iter().cloned());
    let fat = FatSpec {
        label: spec.label.clone(),
        files,
        size: spec.size,
        shape: FatShape::Floppy,
    };
    Ok(volume(&fat, Kind::Floppy)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::NoSources;
    use proptest::prelude::*;

    fn bytes(layout: &Layout) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(layout.size()).unwrap()];
        layout.read_at(&NoSources, 0, &mut bytes).unwrap();
        bytes
    }

    fn with(parameters: &[(&str, &str)]) -> FloppySpec {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        FloppySpec {
            parameters: parameters.iter().map(owned).collect(),
            ..FloppySpec::default()
        }
    }

    #[test]
    fn a_floppy_that_would_be_misread_is_refused_by_key() {
        let error = floppy(&with(&[("ok", "1"), ("ipa-agent-token", "hunter2 x")])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("ipa-agent-token") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn debug_shows_keys_but_no_value() {
        let text = format!("{:?}", with(&[("ipa-agent-token", "hunter2")]));
        assert!(text.contains("ipa-agent-token") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn files_that_do_not_fit_grow_the_floppy_or_are_refused_with_the_size_needed() {
        let large = Content::from(Bytes::from(vec![7; 2_000_000]));
        let mut spec = FloppySpec {
            files: vec![("large".into(), large)],
            ..FloppySpec::default()
        };
        assert_eq!(floppy(&spec).unwrap().size(), 2_949_120);
        spec.size = Some(1_474_560);
        let Err(FloppyError::Fat(FatError::TooSmall {
            size: 1_474_560,
            needed,
        })) = floppy(&spec)
        else {
            panic!("2 MB do not fit into 1.44 MB");
        };
        spec.size = Some(needed);
        assert_eq!(floppy(&spec).unwrap().size(), needed);
        for size in [0, 100_000, 512, u64::MAX, u64::MAX - 511] {
            spec.size = Some(size);
            assert!(
                matches!(floppy(&spec), Err(FloppyError::Fat(FatError::Size { .. }))),
                "{size}"
            );
        }
    }

    #[test]
    fn a_file_cannot_take_the_place_of_the_parameters() {
        for path in ["parameters.txt", "PARAMETERS.TXT"] {
            let spec = FloppySpec {
                files: vec![(path.into(), Bytes::new().into())],
                ..FloppySpec::default()
            };
            assert!(floppy(&spec).is_err(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn same_input_same_bytes_and_another_input_others(
            parameters in prop::collection::btree_map("[a-z-]{1,12}", "[!-~]{0,40}", 0..8),
            names in prop::collection::btree_map("[a-z]{1,20}", prop::collection::vec(any::<u8>(), 0..3000), 0..8),
        ) {
            let mut spec = FloppySpec {
                parameters: parameters.into_iter().collect(),
                files: names.into_iter().map(|(name, content)| (format!("d/{name}"), Bytes::from(content).into())).collect(),
                ..FloppySpec::default()
            };
            let first = floppy(&spec).unwrap();
            spec.files.reverse();
            let again = floppy(&spec).unwrap();
            prop_assert_eq!(first.digest(), again.digest());
            prop_assert!(bytes(&first) == bytes(&again));
            spec.parameters.push(("another".to_owned(), String::new()));
            prop_assert_ne!(first.digest(), floppy(&spec).unwrap().digest());
        }
    }
}
