//! The segments of an object: their names, how they are found again, and how they go with it.
//!
//! They lie in the artefact's own container under `.segments/NAME/ATTEMPT/`, so they are told apart from those of any other
//! artefact and any other attempt. Only what lies there is ever removed as a segment.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::ArtefactName;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use tokio::time::timeout;

use super::answer::refused;
use super::{DELETE_AT, DIGEST, MANIFEST, STATIC, Swift, seconds};
use crate::StorageError;
use crate::objects::answer::{text, unusable, value};

const FOLDER: &str = ".segments";
/// Largest listing or manifest that is read: a thousand names of two hundred bytes, or what describes them.
const LISTING_CAP: usize = 8 << 20;
/// How long reading one may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pages of a listing that are read in one go; whoever removes them comes back for the rest.
const MAX_PAGES: usize = 100;
/// How long what failed may take to be undone; the rest goes by itself.
const UNDO: Duration = Duration::from_secs(60);
/// Segments outlive their manifest by this.
const GRACE: Duration = Duration::from_secs(60 * 60);

/// One segment of one attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    attempt: String,
    index: String,
}

impl Segment {
    pub(super) fn new(attempt: &str, index: usize) -> Self {
        Self {
            attempt: attempt.to_owned(),
            // In the order of their names they make the object.
            index: format!("{index:08}"),
        }
    }

    /// Its path in the container.
    pub(super) fn path<'a>(&'a self, name: &'a ArtefactName) -> [&'a str; 4] {
        [FOLDER, name.expose(), &self.attempt, &self.index]
    }

    pub(super) fn full_path(&self, container: &str, name: &ArtefactName) -> String {
        format!("/{container}/{}", self.path(name).join("/"))
    }

    /// What a dynamic manifest names.
    pub(super) fn prefix(container: &str, name: &ArtefactName, attempt: &str) -> String {
        format!("{container}/{}{attempt}/", all_of(name))
    }

    /// From a path in the container; `None` if it is no segment of this artefact.
    fn parse(path: &str, name: &ArtefactName) -> Option<Self> {
        let (attempt, index) = path.strip_prefix(&all_of(name))?.split_once('/')?;
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric());
        (plain(attempt) && plain(index)).then(|| Self {
            attempt: attempt.to_owned(),
            index: index.to_owned(),
        })
    }
}

/// What the paths of an artefact's segments begin with.
fn all_of(name: &ArtefactName) -> String {
    format!("{FOLDER}/{}/", name.expose())
}

/// Takes back what an attempt has put there, unless it is told that the attempt succeeded. Dropped half-way (its caller ran
/// out of time), it goes on in a task of its own.
pub(super) struct Undo {
    swift: Swift,
    name: ArtefactName,
    segments: Vec<Segment>,
    manifest: bool,
}

impl Undo {
    pub(super) fn new(swift: Swift, name: ArtefactName) -> Self {
        Self {
            swift,
            name,
            segments: Vec::new(),
            manifest: false,
        }
    }

    pub(super) fn add(&mut self, segment: Segment) {
        self.segments.push(segment);
    }

    /// From here on there may be a manifest.
    pub(super) fn with_manifest(&mut self) {
        self.manifest = true;
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(super) fn keep(mut self) {
        self.segments.clear();
        self.manifest = false;
    }

    pub(super) async fn now(mut self) {
        let (segments, manifest) = (std::mem::take(&mut self.segments), std::mem::take(&mut self.manifest));
        take_back(&self.swift, &self.name, &segments, manifest).await;
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let segments = std::mem::take(&mut self.segments);
        let manifest = std::mem::take(&mut self.manifest);
        if segments.is_empty() && !manifest {
            return;
        }
        let (swift, name) = (self.swift.clone(), self.name.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { take_back(&swift, &name, &segments, manifest).await });
        }
    }
}

async fn take_back(swift: &Swift, name: &ArtefactName, segments: &[Segment], manifest: bool) {
    let all = async {
        if manifest {
            swift.delete(&[name.expose()]).await?;
        }
        for segment in segments {
            swift.delete(&segment.path(name)).await?;
        }
        Ok::<_, StorageError>(())
    };
    let reason = match timeout(UNDO, all).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("it took longer than {} s", UNDO.as_secs()),
    };
    tracing::warn!(artefact = %name, place = %swift.place, %reason, "segments of a failed upload stay until they expire");
}

/// An object, or with a delimiter what several have in common.
#[derive(Deserialize)]
struct Listed {
    name: Option<String>,
    subdir: Option<String>,
}

impl Swift {
    /// Removes an object with its segments, and those that attempts left which never came to a manifest. The object goes
    /// first: what remains then is what the next call finds.
    pub(super) async fn remove_whole(&self, name: &ArtefactName) -> Result<(), StorageError> {
        let found = self.head(name).await?;
        let mut segments = match &found {
            Some(headers) if is_static(headers) => self.segments_of(name).await?,
            _ => Vec::new(),
        };
        if found.is_some() {
            self.delete(&[name.expose()]).await?;
        }
        segments.extend(self.listed(name).await?);
        for segment in segments {
            self.delete(&segment.path(name)).await?;
        }
        Ok(())
    }

    /// Moves the end of an object and of its segments.
    pub(super) async fn keep_whole(&self, name: &ArtefactName, until: Option<SystemTime>) -> Result<(), StorageError> {
        let gone = || StorageError::Unusable {
            place: self.place.to_string(),
            reason: "the object ended before its life could be extended; publish it again".to_owned(),
        };
        let found = self.head(name).await?.ok_or_else(gone)?;
        let manifest = text(&found, &MANIFEST);
        let segments = match (is_static(&found), &manifest) {
            (true, _) => self.segments_of(name).await?,
            (false, Some(_)) => self.listed(name).await?,
            (false, None) => Vec::new(),
        };
        let mut of_segments = HeaderMap::new();
        if let Some(until) = until {
            of_segments.insert(DELETE_AT, at(until + GRACE));
        }
        for segment in segments {
            self.post(&segment.path(name), of_segments.clone()).await?;
        }
        let mut headers = HeaderMap::new();
        for (key, kept) in [(DIGEST, text(&found, &DIGEST)), (MANIFEST, manifest)] {
            if let Some(kept) = kept {
                headers.insert(key, value(kept));
            }
        }
        if let Some(until) = until {
            headers.insert(DELETE_AT, at(until));
        }
        self.post(&[name.expose()], headers).await
    }

    /// The segments that a static manifest names.
    async fn segments_of(&self, name: &ArtefactName) -> Result<Vec<Segment>, StorageError> {
        let query = Some("multipart-manifest=get");
        let request = self.request(Method::GET, &[name.expose()], query).await?;
        let answer = self.send(request).await?;
        if !answer.status().is_success() {
            return Err(refused(&self.place, "reading a manifest", answer).await);
        }
        let container = format!("/{}/", self.container);
        let named = self.names(answer).await?;
        let inside = named.iter().filter_map(|path| path.strip_prefix(&container));
        Ok(inside.filter_map(|path| Segment::parse(path, name)).collect())
    }

    /// The segments that the container's listing shows; it may be a little behind.
    async fn listed(&self, name: &ArtefactName) -> Result<Vec<Segment>, StorageError> {
        let paths = self.list(&format!("prefix={}", all_of(name))).await?;
        Ok(paths.iter().filter_map(|path| Segment::parse(path, name)).collect())
    }

    /// Artefacts that are there, and those of which only segments are.
    pub(super) async fn artefacts(&self) -> Result<Vec<ArtefactName>, StorageError> {
        let whole = self.list("delimiter=/").await?;
        let in_segments = self.list(&format!("prefix={FOLDER}/&delimiter=/")).await?;
        let of_segments = in_segments
            .iter()
            .filter_map(|path| path.strip_prefix(FOLDER)?.strip_prefix('/'));
        let names = whole.iter().map(String::as_str).chain(of_segments);
        let mut names: Vec<ArtefactName> = names
            .filter_map(|name| ArtefactName::parse(name.trim_end_matches('/')))
            .collect();
        names.sort_unstable_by(|one, other| one.expose().cmp(other.expose()));
        names.dedup();
        Ok(names)
    }

    /// What a listing of the container shows. What is asked for needs no escaping.
    async fn list(&self, which: &str) -> Result<Vec<String>, StorageError> {
        let (mut found, mut marker) = (Vec::new(), String::new());
        for _ in 0..MAX_PAGES {
            let query = format!("format=json&{which}&marker={marker}");
            let request = self.request(Method::GET, &[], Some(&query)).await?;
            let answer = self.send(request).await?;
            match answer.status().as_u16() {
                200..=299 => {}
                404 => break,
                _ => return Err(refused(&self.place, "listing the container", answer).await),
            }
            let names = self.names(answer).await?;
            let Some(last) = names.last() else {
                break;
            };
            // Others may have put something there under any name.
            marker = url::form_urlencoded::byte_serialize(last.as_bytes()).collect();
            found.extend(names);
        }
        Ok(found)
    }

    async fn names(&self, answer: reqwest::Response) -> Result<Vec<String>, StorageError> {
        let body = sources::openstack::read(answer, LISTING_CAP, PATIENCE).await;
        let body = body.map_err(|error| unusable(&self.place, error))?;
        if body.is_empty() {
            return Ok(Vec::new());
        }
        let listed: Vec<Listed> = serde_json::from_slice(&body).map_err(|error| StorageError::Unusable {
            place: self.place.to_string(),
            reason: format!("its listing is no JSON that we know ({error})"),
        })?;
        Ok(listed
            .into_iter()
            .filter_map(|listed| listed.name.or(listed.subdir))
            .collect())
    }
}

fn is_static(headers: &HeaderMap) -> bool {
    text(headers, &STATIC).is_some_and(|word| word.eq_ignore_ascii_case("true"))
}

fn at(time: SystemTime) -> reqwest::header::HeaderValue {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    value(seconds(since).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_artefacts_segments_are_taken_for_them() {
        let name = ArtefactName::parse(&format!("{:032}.iso", 1)).unwrap();
        let other = ArtefactName::parse(&format!("{:032}.iso", 2)).unwrap();
        let segment = Segment::new("00ff", 7);
        let path = segment.path(&name).join("/");
        assert_eq!(Segment::parse(&path, &name), Some(segment));
        assert_eq!(Segment::parse(&path, &other), None);
        for wrong in [
            name.expose().to_owned(),
            format!(".segments/{}", name.expose()),
            format!(".segments/{}/a", name.expose()),
            format!(".segments/{}/../b", name.expose()),
            format!(".segments/{}/a/b/c", name.expose()),
            format!(".segments/{}//b", name.expose()),
        ] {
            assert_eq!(Segment::parse(&wrong, &name), None, "{wrong}");
        }
    }
}
