//! Uploads in parts that never came to their end: nobody sees them, but they take room, so they are aborted.

use std::time::Duration;

use instant_xml::FromXml;
use model::ArtefactName;
use reqwest::Method;
use rusty_s3::S3Action;
use tokio::time::timeout;

use super::answer::{document, refused};
use super::{S3, SIGNED_FOR};
use crate::StorageError;

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";
/// How long what failed may take to be aborted.
const ABORT: Duration = Duration::from_secs(60);
/// Uploads of one artefact that are aborted in one go.
const MAX: usize = 1000;

/// Aborts an upload, unless it is told that it is done. Dropped half-way (its caller ran out of time), it goes on in a task of
/// its own.
pub(super) struct Abort {
    s3: S3,
    name: ArtefactName,
    id: Option<String>,
}

impl Abort {
    pub(super) fn new(s3: S3, name: ArtefactName, id: String) -> Self {
        Self { s3, name, id: Some(id) }
    }

    pub(super) fn done(mut self) {
        self.id = None;
    }

    pub(super) async fn now(mut self) {
        if let Some(id) = self.id.take() {
            abort(&self.s3, &self.name, &id).await;
        }
    }
}

impl Drop for Abort {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else {
            return;
        };
        let (s3, name) = (self.s3.clone(), self.name.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { abort(&s3, &name, &id).await });
        }
    }
}

async fn abort(s3: &S3, name: &ArtefactName, id: &str) {
    let reason = match timeout(ABORT, s3.abort(name, id)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("it took longer than {} s", ABORT.as_secs()),
    };
    tracing::warn!(artefact = %name, place = %s3.place, %reason, "an unfinished upload stays until it is aborted");
}

#[derive(FromXml)]
#[xml(rename = "ListMultipartUploadsResult", ns(NAMESPACE))]
struct Uploads {
    uploads: Vec<Unfinished>,
}

#[derive(FromXml)]
#[xml(rename = "Upload", ns(NAMESPACE))]
struct Unfinished {
    #[xml(rename = "Key")]
    key: String,
    #[xml(rename = "UploadId")]
    id: String,
}

impl S3 {
    async fn abort(&self, name: &ArtefactName, id: &str) -> Result<(), StorageError> {
        let action = self
            .bucket
            .abort_multipart_upload(self.credentials(), name.expose(), id);
        let answer = self.ask(Method::DELETE, action.sign(SIGNED_FOR)).await?;
        match answer.status().as_u16() {
            200..=299 | 404 => Ok(()),
            _ => Err(refused(&self.place, "aborting an upload", answer).await),
        }
    }

    /// Aborts what attempts that were cut short have left of an artefact.
    pub(super) async fn abort_unfinished(&self, name: &ArtefactName) -> Result<(), StorageError> {
        let uploads = self.unfinished(name.expose()).await?;
        let ours = uploads.iter().filter(|upload| upload.key == name.expose());
        for upload in ours.take(MAX) {
            self.abort(name, &upload.id).await?;
        }
        Ok(())
    }

    /// Artefacts that have unfinished uploads.
    pub(super) async fn unfinished_names(&self) -> Result<Vec<ArtefactName>, StorageError> {
        let uploads = self.unfinished("").await?;
        Ok(uploads
            .iter()
            .filter_map(|upload| ArtefactName::parse(&upload.key))
            .collect())
    }

    /// A service that lists no uploads has none to abort, or removes them itself.
    async fn unfinished(&self, prefix: &str) -> Result<Vec<Unfinished>, StorageError> {
        let mut action = self.bucket.list_objects_v2(self.credentials());
        let query = action.query_mut();
        query.remove("list-type");
        query.insert("uploads", "");
        query.insert("prefix", prefix.to_owned());
        let answer = self.ask(Method::GET, action.sign(SIGNED_FOR)).await?;
        match answer.status().as_u16() {
            200..=299 => {}
            400 | 404 | 405 | 501 => return Ok(Vec::new()),
            _ => return Err(refused(&self.place, "listing uploads", answer).await),
        }
        let listed = document(&self.place, answer).await?;
        match instant_xml::from_str::<Uploads>(&listed) {
            Ok(listed) => Ok(listed.uploads),
            Err(error) => {
                tracing::debug!(place = %self.place, %error, "a listing of uploads is in a form that is not known");
                Ok(Vec::new())
            }
        }
    }
}
