//! How a backend has fared lately: kept beside it, so that who chooses a backend need not find out by failing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use model::ArtefactName;
use tokio::time::Instant;

use crate::{Backend, Publication, Published, Renewal, Stat, StorageError};

/// A backend that was well so recently is not asked again whether it is.
const STILL_WELL: Duration = Duration::from_secs(10);

/// How a backend has fared.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// When it last did what it was asked for.
    pub last_success: Option<SystemTime>,
    /// When it last failed at that, and why; without secrets.
    pub last_failure: Option<Failure>,
    /// When a publication last failed there, if none has succeeded since.
    pub publish_failed: Option<SystemTime>,
}

/// One failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// When.
    pub at: SystemTime,
    /// Why.
    pub reason: String,
}

/// A backend with a memory of how it fared.
pub struct Watched {
    backend: Arc<dyn Backend>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    health: Health,
    well_at: Option<Instant>,
}

impl Watched {
    /// Watches a backend from now on.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            memory: Mutex::default(),
        }
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        // Plain values, each written whole.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note<T>(&self, result: Result<T, StorageError>) -> Result<T, StorageError> {
        let now = SystemTime::now();
        let mut memory = self.memory();
        match &result {
            Ok(_) => {
                memory.health.last_success = Some(now);
                memory.well_at = Some(Instant::now());
            }
            Err(error) if is_its_own(error) => {
                memory.health.last_failure = Some(Failure {
                    at: now,
                    reason: error.to_string(),
                });
                memory.well_at = None;
            }
            Err(_) => {}
        }
        drop(memory);
        result
    }
}

/// An artefact that cannot be read, or whose name is taken, says nothing of the backend.
fn is_its_own(error: &StorageError) -> bool {
    !matches!(error, StorageError::Source(_) | StorageError::Conflict { .. })
}

#[async_trait]
impl Backend for Watched {
    async fn publish(&self, publication: &Publication, lifetime: Option<Duration>) -> Result<Published, StorageError> {
        let published = self.note(self.backend.publish(publication, lifetime).await);
        let mut memory = self.memory();
        match &published {
            Ok(_) => memory.health.publish_failed = None,
            Err(error) if is_its_own(error) => memory.health.publish_failed = Some(SystemTime::now()),
            Err(_) => {}
        }
        drop(memory);
        published
    }

    async fn withdraw(&self, name: &ArtefactName) -> Result<(), StorageError> {
        self.note(self.backend.withdraw(name).await)
    }

    async fn stat(&self, name: &ArtefactName) -> Result<Stat, StorageError> {
        self.note(self.backend.stat(name).await)
    }

    async fn renew(&self, name: &ArtefactName, lifetime: Duration) -> Result<Renewal, StorageError> {
        self.note(self.backend.renew(name, lifetime).await)
    }

    async fn check(&self) -> Result<(), StorageError> {
        let well_at = self.memory().well_at;
        match well_at {
            Some(at) if at.elapsed() < STILL_WELL => Ok(()),
            _ => self.note(self.backend.check().await),
        }
    }

    async fn names(&self) -> Result<Option<Vec<ArtefactName>>, StorageError> {
        self.note(self.backend.names().await)
    }

    fn health(&self) -> Health {
        self.memory().health.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embedded, EmbeddedConfig, NoRecords, Reader};
    use image::{Kind, Layout, NoSources};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Fails as it is told, and counts how often it is asked whether it is well.
    struct Moody {
        inner: Embedded,
        ill: Mutex<bool>,
        checks: AtomicUsize,
    }

    impl Moody {
        fn mood(&self) -> Result<(), StorageError> {
            match *self.ill.lock().unwrap() {
                true => Err(StorageError::Unusable {
                    place: "the moody one".into(),
                    reason: "in a mood".into(),
                }),
                false => Ok(()),
            }
        }
    }

    #[async_trait]
    impl Backend for Moody {
        async fn publish(&self, publication: &Publication, life: Option<Duration>) -> Result<Published, StorageError> {
            self.mood()?;
            self.inner.publish(publication, life).await
        }
        async fn withdraw(&self, name: &ArtefactName) -> Result<(), StorageError> {
            self.mood()?;
            self.inner.withdraw(name).await
        }
        async fn stat(&self, name: &ArtefactName) -> Result<Stat, StorageError> {
            self.inner.stat(name).await
        }
        async fn renew(&self, name: &ArtefactName, lifetime: Duration) -> Result<Renewal, StorageError> {
            self.inner.renew(name, lifetime).await
        }
        async fn check(&self) -> Result<(), StorageError> {
            self.checks.fetch_add(1, Ordering::SeqCst);
            self.mood()
        }
    }

    #[tokio::test]
    async fn successes_and_failures_are_remembered_and_a_healthy_backend_is_not_asked_again_at_once() {
        let inner = Embedded::new(EmbeddedConfig {
            base_url: "http://192.0.2.1".into(),
            recall: Arc::new(NoRecords),
        })
        .unwrap();
        let moody = Arc::new(Moody {
            inner,
            ill: Mutex::new(true),
            checks: AtomicUsize::new(0),
        });
        let watched = Watched::new(Arc::clone(&moody) as _);
        let iso = Publication {
            name: ArtefactName::parse(&format!("{:032}.iso", 1)).unwrap(),
            layout: Arc::new(Layout::from_extents(Kind::BootIso, vec![image::Extent::Zero(2048)]).unwrap()),
            sources: Arc::new(NoSources),
            reader: Reader::default(),
        };
        assert_eq!(watched.health(), Health::default());
        watched.publish(&iso, None).await.unwrap_err();
        let health = watched.health();
        assert!(health.last_success.is_none() && health.publish_failed.is_some());
        assert!(health.last_failure.unwrap().reason.contains("in a mood"));

        *moody.ill.lock().unwrap() = false;
        for _ in 0..5 {
            watched.check().await.unwrap();
        }
        assert_eq!(moody.checks.load(Ordering::SeqCst), 1);
        // Being well is no proof that publishing works.
        assert!(watched.health().publish_failed.is_some());
        watched.publish(&iso, None).await.unwrap();
        let health = watched.health();
        assert!(
            health.publish_failed.is_none() && health.last_success >= health.last_failure.map(|failure| failure.at)
        );

        // A failure is believed at once.
        *moody.ill.lock().unwrap() = true;
        watched.withdraw(&iso.name).await.unwrap_err();
        watched.check().await.unwrap_err();
    }
}
