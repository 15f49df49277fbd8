//! Paths inside an image, checked once, and the tree of directories that they make.

use std::collections::BTreeMap;

use crate::content::Content;

/// Longest name of one file or directory, in bytes (Linux takes no longer one).
const MAX_NAME: usize = 255;
/// Directories below the root that a path may pass through, plus the file. ECMA-119 §6.8.2.1 allows eight levels with the
/// root as the first; one rule for every kind of image keeps a set of files portable between them.
const MAX_DEPTH: usize = 8;
/// Files of one image.
const MAX_FILES: usize = 20_000;

/// Why a file cannot be put where it was asked to go.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// Not a relative path of plain names.
    #[error("{path:?} is no path inside an image: {reason}")]
    Invalid {
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Two files have one path, or paths that this kind of image cannot tell apart.
    #[error("{path:?} is there twice; leave one of them out")]
    Duplicate {
        /// The path.
        path: String,
    },
    /// One file lies below another file.
    #[error("{path:?} lies below a file; rename one of them")]
    BelowFile {
        /// The path.
        path: String,
    },
    /// More files than an image takes.
    #[error("an image takes at most {MAX_FILES} files")]
    TooMany,
}

/// A directory: what lies in it, by name.
#[derive(Debug, Default)]
pub(crate) struct Dir<'a>(pub(crate) BTreeMap<String, Node<'a>>);

#[derive(Debug)]
pub(crate) enum Node<'a> {
    Dir(Dir<'a>),
    File(&'a Content),
}

/// The tree that these files make. The order in which they come does not matter.
pub(crate) fn tree<'a>(files: impl IntoIterator<Item = (&'a str, &'a Content)>) -> Result<Dir<'a>, PathError> {
    let mut root = Dir::default();
    for (count, (path, content)) in files.into_iter().enumerate() {
        if count >= MAX_FILES {
            return Err(PathError::TooMany);
        }
        insert(&mut root, path, content)?;
    }
    Ok(root)
}

fn insert<'a>(root: &mut Dir<'a>, path: &str, content: &'a Content) -> Result<(), PathError> {
    let names = names(path)?;
    let (file, dirs) = names.split_last().expect("a checked path has a name");
    let mut dir = root;
    for name in dirs {
        let node = dir
            .0
            .entry((*name).to_owned())
            .or_insert_with(|| Node::Dir(Dir::default()));
        match node {
            Node::Dir(next) => dir = next,
            Node::File(_) => {
                return Err(PathError::BelowFile { path: path.to_owned() });
            }
        }
    }
    if dir.0.contains_key(*file) {
        return Err(PathError::Duplicate { path: path.to_owned() });
    }
    dir.0.insert((*file).to_owned(), Node::File(content));
    Ok(())
}

/// The names of a path; one leading slash is taken as the image's root.
fn names(path: &str) -> Result<Vec<&str>, PathError> {
    let invalid = |reason| {
        let path = path.chars().take(MAX_NAME).collect();
        PathError::Invalid { path, reason }
    };
    let names: Vec<&str> = path
        .strip_prefix('/')
        .unwrap_or(path)
        .split('/')
        .take(MAX_DEPTH + 1)
        .collect();
    if names.len() > MAX_DEPTH {
        return Err(invalid("it passes through more than seven directories"));
    }
    for name in &names {
        let reason = match *name {
            "" => "a name is empty",
            "." | ".." => "`.` and `..` are no names",
            name if name.len() > MAX_NAME => "a name is longer than 255 bytes",
            name if name.chars().any(char::is_control) => "a name holds a control character",
            _ => continue,
        };
        return Err(invalid(reason));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn check(paths: &[&str]) -> Result<(), PathError> {
        let content = Content::from(Bytes::new());
        tree(paths.iter().map(|path| (*path, &content))).map(|_| ())
    }

    #[test]
    fn only_relative_paths_of_plain_names_are_taken() {
        for good in ["a", "/a", "a/b/c", "a b/ü.txt", "1/2/3/4/5/6/7/8"] {
            assert_eq!(check(&[good]), Ok(()), "{good}");
        }
        let long = "x".repeat(256);
        for bad in [
            "",
            "/",
            "a//b",
            "a/",
            "../a",
            "a/./b",
            "a\nb",
            "a\0",
            &long,
            "1/2/3/4/5/6/7/8/9",
            "//a",
        ] {
            assert!(matches!(check(&[bad]), Err(PathError::Invalid { .. })), "{bad}");
        }
    }

    #[test]
    fn one_place_holds_one_file() {
        let path = |path: &str| path.to_owned();
        assert_eq!(check(&["a/b", "a/c", "b"]), Ok(()));
        assert_eq!(
            check(&["a/b", "/a/b"]),
            Err(PathError::Duplicate { path: path("/a/b") })
        );
        assert_eq!(check(&["a", "a/b"]), Err(PathError::BelowFile { path: path("a/b") }));
        assert_eq!(check(&["a/b", "a"]), Err(PathError::Duplicate { path: path("a") }));
    }
}
