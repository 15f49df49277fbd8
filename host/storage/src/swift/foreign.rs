//! Temporary URLs of objects that somebody else keeps: Glance's images in the Swift behind it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use model::Secret;
use sources::openstack::{Client, Identity, IdentityConfig};
use tokio::sync::OnceCell;
use url::Url;

use super::account::Account;
use super::{SERVICE, seconds, temp_url};
use crate::StorageError;
use crate::objects::answer::unusable;

/// Whose objects, and how their URLs are signed.
#[derive(Clone)]
pub struct ForeignConfig {
    /// As whom Keystone and Swift are asked.
    pub identity: IdentityConfig,
    /// URL of Swift with its version, without an account; `None` = the catalogue's, which has one.
    pub endpoint: Option<Url>,
    /// The account; `None` = that of the catalogue's URL, or else of the project that the identity is for.
    pub account: Option<String>,
    /// Before a project's identifier in an account's name.
    pub account_prefix: String,
    /// Signs URLs, and nobody is asked whether it is the account's; `None` = the account's own key, made if it has none.
    pub key: Option<Secret>,
}

/// Signs temporary URLs for objects of an account that holds more than ours.
pub struct Foreign {
    config: ForeignConfig,
    place: Arc<str>,
    /// Found when it is first needed.
    found: OnceCell<(Client, Account)>,
}

impl Foreign {
    /// Asks nobody yet.
    pub fn new(config: ForeignConfig) -> Self {
        Self {
            config,
            place: "the Swift behind Glance".into(),
            found: OnceCell::new(),
        }
    }

    /// The URL of an object, good for GET and HEAD until then. Whether there is such an object is not looked at.
    pub async fn sign(&self, container: &str, object: &str, until: SystemTime) -> Result<Secret, StorageError> {
        let (client, account) = self.found.get_or_try_init(|| self.find()).await?;
        let algorithm = account
            .info()
            .await?
            .algorithm()
            .ok_or_else(|| self.unusable("it offers no temporary URLs; have `tempurl` put into its pipeline"))?;
        let key = match &self.config.key {
            Some(key) => key.clone(),
            None => account.key().await?,
        };
        let request = client
            .request(SERVICE, reqwest::Method::GET, &[container, object])
            .await;
        let request = request.map_err(|error| unusable(&self.place, error))?;
        let until = until.duration_since(UNIX_EPOCH).unwrap_or_default();
        let url = temp_url::bare(request.url(), &key, algorithm, seconds(until));
        Ok(Secret::new(url))
    }

    async fn find(&self) -> Result<(Client, Account), StorageError> {
        let url = self.account_url().await?;
        let mut config = self.config.identity.clone();
        config.endpoints.insert(SERVICE.to_owned(), url);
        let client = Client::new(Identity::new(config).map_err(|error| unusable(&self.place, error))?);
        let account = Account::new(client.clone(), Arc::clone(&self.place), self.config.key.clone());
        Ok((client, account))
    }

    async fn account_url(&self) -> Result<Url, StorageError> {
        let identity = Identity::new(self.config.identity.clone()).map_err(|error| unusable(&self.place, error))?;
        let Some(endpoint) = &self.config.endpoint else {
            let mut url = identity
                .endpoint(SERVICE)
                .await
                .map_err(|error| unusable(&self.place, error))?;
            if let Some(account) = &self.config.account {
                let mut parts = url
                    .path_segments_mut()
                    .map_err(|()| self.unusable("its URL has no path"))?;
                parts.pop_if_empty().pop().push(account);
            }
            return Ok(url);
        };
        let account = match &self.config.account {
            Some(account) => account.clone(),
            None => {
                let token = identity.token().await.map_err(|error| unusable(&self.place, error))?;
                let project = token.project_id().ok_or_else(|| {
                    self.unusable("nobody says which account is Glance's: set account ([glance] swift_account)")
                })?;
                match self.config.account_prefix.as_str() {
                    "" => project.to_owned(),
                    // Version 1 authentication tells the account itself.
                    prefix if project.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('_')) => {
                        project.to_owned()
                    }
                    prefix => format!("{prefix}_{project}"),
                }
            }
        };
        let mut url = endpoint.clone();
        url.path_segments_mut()
            .map_err(|()| self.unusable("its URL has no path"))?
            .pop_if_empty()
            .push(&account);
        Ok(url)
    }

    fn unusable(&self, reason: &str) -> StorageError {
        StorageError::Unusable {
            place: self.place.to_string(),
            reason: reason.to_owned(),
        }
    }
}
