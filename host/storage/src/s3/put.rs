//! Putting an artefact into the bucket: by one request, or in parts that become an object all at once.

use std::time::Duration;

use model::ArtefactName;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request};
use rusty_s3::S3Action;
use rusty_s3::actions::{CompleteMultipartUploadResponse, CreateMultipartUpload};
use url::Url;

use super::answer::{document, explanation, refused};
use super::unfinished::Abort;
use super::{DIGEST, S3, SIGNED_FOR};
use crate::objects::answer::{text, unusable, value};
use crate::objects::upload::{Stalled, Upload};
use crate::{Publication, StorageError};

/// Longest time that one request of an upload may take; what stalls ends long before.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Parts of one object. AWS takes ten times as many, others do not.
const MAX_PARTS: u64 = 1000;

impl S3 {
    pub(super) async fn put_whole(&self, publication: &Publication) -> Result<(), StorageError> {
        let size = publication.layout.size();
        if size > self.part_size {
            return self
                .put_parts(publication, self.part_size.max(size.div_ceil(MAX_PARTS)))
                .await;
        }
        let name = &publication.name;
        let digest = publication.layout.digest().to_string();
        let mut action = self.bucket.put_object(self.credentials(), name.expose());
        action.headers_mut().insert(DIGEST, digest.clone());
        let url = action.sign(SIGNED_FOR);
        let upload = Upload::new(publication, 0..size);
        let arrived = self.upload(url, &upload, &described(&digest)).await?;
        if !arrived.intact {
            self.delete(name).await?;
            return Err(self.not_what_was_sent());
        }
        Ok(())
    }

    async fn put_parts(&self, publication: &Publication, part_size: u64) -> Result<(), StorageError> {
        let name = &publication.name;
        let digest = publication.layout.digest().to_string();
        let mut action = self.bucket.create_multipart_upload(self.credentials(), name.expose());
        action.headers_mut().insert(DIGEST, digest.clone());
        let (url, headers) = (action.sign(SIGNED_FOR), described(&digest));
        let make = || {
            let mut request = Request::new(Method::POST, url.clone());
            *request.headers_mut() = headers.clone();
            request
        };
        let answer = self.send(make).await?;
        if !answer.status().is_success() {
            return Err(refused(&self.place, "beginning an upload in parts", answer).await);
        }
        let begun = document(&self.place, answer).await?;
        let begun = CreateMultipartUpload::parse_response(&begun)
            .map_err(|error| self.unusable(format!("it begins an upload in parts with nonsense ({error})")))?;
        let abort = Abort::new(self.clone(), name.clone(), begun.upload_id().to_owned());
        let done = self.send_parts(publication, part_size, begun.upload_id()).await;
        match done {
            Ok(()) => abort.done(),
            Err(_) => abort.now().await,
        }
        done
    }

    async fn send_parts(&self, publication: &Publication, part_size: u64, id: &str) -> Result<(), StorageError> {
        let name = &publication.name;
        let size = publication.layout.size();
        let mut etags = Vec::new();
        let mut at = 0;
        while at < size {
            let end = size.min(at.saturating_add(part_size));
            let number = u16::try_from(etags.len() + 1).unwrap_or(u16::MAX);
            let action = self.bucket.upload_part(self.credentials(), name.expose(), number, id);
            let upload = Upload::new(publication, at..end);
            let part = self.upload(action.sign(SIGNED_FOR), &upload, &HeaderMap::new()).await?;
            if !part.intact {
                return Err(self.not_what_was_sent());
            }
            let etag = part
                .etag
                .ok_or_else(|| self.unusable("it gives a part no entity tag"))?;
            etags.push(etag);
            at = end;
        }
        self.complete(name, id, &etags).await
    }

    async fn complete(&self, name: &ArtefactName, id: &str, etags: &[String]) -> Result<(), StorageError> {
        let tags = || etags.iter().map(String::as_str);
        let action = self
            .bucket
            .complete_multipart_upload(self.credentials(), name.expose(), id, tags());
        let (url, body) = (action.sign(SIGNED_FOR), action.body());
        let make = || {
            let mut request = Request::new(Method::POST, url.clone());
            *request.timeout_mut() = Some(LONGEST.min(self.patience * 10));
            *request.body_mut() = Some(body.clone().into());
            request
        };
        let answer = self.send(make).await?;
        if !answer.status().is_success() {
            return Err(refused(&self.place, "ending an upload in parts", answer).await);
        }
        // It answers 200 before it knows, and tells in the document how it went.
        let told = document(&self.place, answer).await?;
        match CompleteMultipartUploadResponse::parse(&told) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.unusable(format!(
                "an upload in parts could not be ended{}; try again",
                explanation(&told)
            ))),
        }
    }

    async fn upload(&self, url: Url, upload: &Upload, headers: &HeaderMap) -> Result<Arrived, StorageError> {
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
        let answer = answer.map_err(|error| unusable(&self.place, error))?;
        if !answer.status().is_success() {
            return Err(refused(&self.place, "an upload", answer).await);
        }
        let etag = text(answer.headers(), &ETAG);
        // Where the service encrypts with a key of its own, a tag is no checksum.
        let encrypted = answer.headers().contains_key("x-amz-server-side-encryption");
        let told = etag.as_deref().map(|etag| etag.trim_matches('"'));
        let intact = encrypted || told.is_none() || told == upload.md5().as_deref();
        Ok(Arrived { etag, intact })
    }

    fn not_what_was_sent(&self) -> StorageError {
        self.unusable("what arrived is not what was sent (its checksum differs), and was removed; try again")
    }
}

struct Arrived {
    etag: Option<String>,
    /// Its checksum is that of what was sent, as far as the service tells.
    intact: bool,
}

fn described(digest: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(HeaderName::from_static(DIGEST), value(digest));
    headers
}
