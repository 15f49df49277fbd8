//! Putting an artefact into the container: as one object, or in segments under a manifest.

use std::time::Duration;

use model::ArtefactName;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request};

use super::answer::refused;
use super::segments::{Segment, Undo};
use super::{DELETE_AFTER, DIGEST, MANIFEST, Swift, seconds};
use crate::objects::answer::{text, unusable, value};
use crate::objects::upload::{Stalled, Upload};
use crate::{Publication, StorageError};

/// Longest time that one request of an upload may take, whatever its size; what stalls ends long before.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Segments whose manifest never appears go by themselves after this.
const UNFINISHED: Duration = Duration::from_secs(24 * 60 * 60);
/// Segments outlive their manifest by this: a manifest without its segments would be half an artefact.
const SEGMENT_GRACE: Duration = Duration::from_secs(60 * 60);

/// How often, and how far apart, it is looked whether an object is whole.
const LOOKS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(500);
const CONTAINER_USED: HeaderName = HeaderName::from_static("x-container-bytes-used");
const CONTAINER_QUOTA: HeaderName = HeaderName::from_static("x-container-meta-quota-bytes");
const ACCOUNT_USED: HeaderName = HeaderName::from_static("x-account-bytes-used");
const ACCOUNT_QUOTA: HeaderName = HeaderName::from_static("x-account-meta-quota-bytes");

#[derive(PartialEq, Eq)]
enum Container {
    /// And it was made.
    WasMissing,
    IsThere,
}

impl Swift {
    pub(super) async fn put_whole(
        &self,
        publication: &Publication,
        keep: Option<Duration>,
    ) -> Result<(), StorageError> {
        let info = self.account.info().await?;
        let size = publication.layout.size();
        let most = self.segment_size.min(info.max_file_size);
        if size > most {
            let pieces = size.div_ceil(most);
            let piece = match info.max_segments {
                Some(allowed) if pieces > allowed => size.div_ceil(allowed),
                _ => most,
            };
            if piece > info.max_file_size {
                return Err(StorageError::Full {
                    place: self.place.to_string(),
                    remedy: format!(
                        "the cluster takes no artefact of {size} bytes, not even in segments; use another backend"
                    ),
                });
            }
            return self
                .put_segments(publication, keep, piece, info.max_segments.is_some())
                .await;
        }
        let upload = Upload::new(publication, 0..size);
        let object = [publication.name.expose()];
        self.put_object(&object, &upload, &headers(publication, keep)).await?;
        Ok(())
    }

    /// One object, checked against what was sent; its MD5.
    async fn put_object(&self, object: &[&str], upload: &Upload, headers: &HeaderMap) -> Result<String, StorageError> {
        let mut container_seen = false;
        loop {
            let blank = self.request(Method::PUT, object, None).await?;
            let url = blank.url().clone();
            let make = || {
                let mut request = Request::new(Method::PUT, url.clone());
                *request.headers_mut() = headers.clone();
                request.headers_mut().insert(CONTENT_LENGTH, upload.len().into());
                *request.timeout_mut() = Some(LONGEST);
                *request.body_mut() = Some(upload.body());
                request
            };
            let sent = upload.watch(self.patience, self.client.send_with(make)).await;
            let answer = match sent {
                Ok(answer) => answer,
                Err(Stalled) => {
                    return Err(StorageError::Timeout {
                        place: self.place.to_string(),
                        action: "an upload",
                        after: self.patience,
                    });
                }
            };
            // Not the store's fault, though it is the one that complains.
            if let Some(error) = upload.read_error() {
                return Err(StorageError::Source(error));
            }
            let answer = match answer {
                Ok(answer) => answer,
                // A server that refuses an upload before it has read it often breaks the connection before its answer is
                // seen. Then it is asked for what it may have refused it.
                Err(error) => match self.explained(upload.len()).await? {
                    Container::WasMissing if !container_seen => {
                        container_seen = true;
                        continue;
                    }
                    _ => return Err(unusable(&self.place, error)),
                },
            };
            match answer.status().as_u16() {
                200..=299 => {}
                404 if !container_seen => {
                    self.make_container().await?;
                    container_seen = true;
                    continue;
                }
                _ => return Err(refused(&self.place, "an upload", answer).await),
            }
            let md5 = upload.md5().unwrap_or_default();
            let told = text(answer.headers(), &ETAG).map(|etag| etag.trim_matches('"').to_owned());
            if told.as_ref().is_none_or(|told| *told == md5) {
                return Ok(md5);
            }
            self.delete(object).await?;
            return Err(StorageError::Unusable {
                place: self.place.to_string(),
                reason: "what arrived is not what was sent (its checksum differs), and was removed; try again"
                    .to_owned(),
            });
        }
    }

    /// Why an upload of so many bytes may have been refused; the error is what it was.
    async fn explained(&self, bytes: u64) -> Result<Container, StorageError> {
        let container = self.request(Method::HEAD, &[], None).await?;
        let account = self.account.request(Method::HEAD).await?;
        for (request, used, quota) in [
            (container, &CONTAINER_USED, &CONTAINER_QUOTA),
            (account, &ACCOUNT_USED, &ACCOUNT_QUOTA),
        ] {
            let answer = self.send(request).await?;
            match answer.status().as_u16() {
                200..=299 => {}
                404 => {
                    self.make_container().await?;
                    return Ok(Container::WasMissing);
                }
                _ => return Err(refused(&self.place, "an upload", answer).await),
            }
            let number = |name| text(answer.headers(), name).and_then(|text| text.parse::<u64>().ok());
            if let (Some(used), Some(quota)) = (number(used), number(quota))
                && used.saturating_add(bytes) > quota
            {
                return Err(StorageError::Full {
                    place: self.place.to_string(),
                    remedy: format!(
                        "{used} bytes of a quota of {quota} are used, and {bytes} more do not fit; raise the quota, or make room"
                    ),
                });
            }
        }
        Ok(Container::IsThere)
    }

    async fn put_segments(
        &self,
        publication: &Publication,
        keep: Option<Duration>,
        piece: u64,
        has_static: bool,
    ) -> Result<(), StorageError> {
        let name = &publication.name;
        let mut undo = Undo::new(self.clone(), name.clone());
        let done = self
            .put_under_manifest(publication, keep, piece, has_static, &mut undo)
            .await;
        match done {
            Ok(()) => undo.keep(),
            Err(_) => undo.now().await,
        }
        done
    }

    async fn put_under_manifest(
        &self,
        publication: &Publication,
        keep: Option<Duration>,
        piece: u64,
        has_static: bool,
        undo: &mut Undo,
    ) -> Result<(), StorageError> {
        let name = &publication.name;
        let size = publication.layout.size();
        let attempt = format!("{:016x}", rand::random::<u64>());
        let mut of_segments = HeaderMap::new();
        let kept = keep.map_or(UNFINISHED, |keep| keep.max(UNFINISHED) + SEGMENT_GRACE);
        of_segments.insert(DELETE_AFTER, value(seconds(kept).to_string()));
        let mut manifest = Vec::new();
        let mut at = 0;
        while at < size {
            let end = size.min(at.saturating_add(piece));
            let segment = Segment::new(&attempt, manifest.len());
            undo.add(segment.clone());
            let upload = Upload::new(publication, at..end);
            let md5 = self.put_object(&segment.path(name), &upload, &of_segments).await?;
            manifest.push(serde_json::json!({
                "path": segment.full_path(&self.container, name),
                "etag": md5,
                "size_bytes": end - at,
            }));
            at = end;
        }
        let mut headers = headers(publication, keep);
        let (query, body) = if has_static {
            let body = serde_json::Value::Array(manifest).to_string();
            (Some("multipart-manifest=put"), body)
        } else {
            let prefix = Segment::prefix(&self.container, name, &attempt);
            headers.insert(MANIFEST, value(prefix));
            (None, String::new())
        };
        undo.with_manifest();
        let mut request = self.request(Method::PUT, &[name.expose()], query).await?;
        headers.insert(CONTENT_LENGTH, body.len().into());
        *request.headers_mut() = headers;
        *request.body_mut() = Some(body.into());
        let answer = self.send(request).await?;
        if !answer.status().is_success() {
            return Err(refused(&self.place, "putting a manifest", answer).await);
        }
        if keep.is_none() {
            for segment in undo.segments() {
                self.post(&segment.path(name), HeaderMap::new()).await?;
            }
        }
        self.whole(name, size).await
    }

    /// A dynamic manifest means what the container's listing shows, which may come a little late; a store that knows no
    /// manifests takes one for an empty object.
    async fn whole(&self, name: &ArtefactName, size: u64) -> Result<(), StorageError> {
        for tries in 0..LOOKS {
            if tries > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let found = self.head(name).await?;
            let length = found.and_then(|headers| text(&headers, &CONTENT_LENGTH));
            if length.is_some_and(|length| length == size.to_string()) {
                return Ok(());
            }
        }
        Err(StorageError::Unusable {
            place: self.place.to_string(),
            reason: "the cluster knows no large objects, or does not see their segments yet; raise segment-size above the size of a boot ISO, or try again".to_owned(),
        })
    }

    /// Replaces the metadata of an object, and with it its end.
    pub(super) async fn post(&self, object: &[&str], headers: HeaderMap) -> Result<(), StorageError> {
        let mut request = self.request(Method::POST, object, None).await?;
        *request.headers_mut() = headers;
        let answer = self.send_again(request).await?;
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(refused(&self.place, "changing when an object ends", answer).await),
        }
    }

    /// Removes an object; absent is a success.
    pub(super) async fn delete(&self, object: &[&str]) -> Result<(), StorageError> {
        let request = self.request(Method::DELETE, object, None).await?;
        let answer = self.send(request).await?;
        match answer.status().as_u16() {
            200..=299 | 404 => Ok(()),
            _ => Err(refused(&self.place, "removing an object", answer).await),
        }
    }
}

fn headers(publication: &Publication, keep: Option<Duration>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(DIGEST, value(publication.layout.digest().to_string()));
    if let Some(keep) = keep {
        headers.insert(DELETE_AFTER, value(seconds(keep).to_string()));
    }
    headers
}
