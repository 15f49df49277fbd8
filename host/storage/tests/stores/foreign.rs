//! Temporary URLs of objects that are not ours, as those of Glance's images are.

use std::time::{Duration, SystemTime};

use model::Secret;
use reqwest::{Method, StatusCode};
use storage::swift::{Foreign, ForeignConfig};

use crate::common::{Place, fetch, limits, shared};
use crate::peers::account;

const HOUR: Duration = Duration::from_secs(3600);
const KEY: &str = "x-account-meta-temp-url-key";

#[tokio::test]
async fn an_image_of_glance_is_fetched_by_a_temporary_url_however_its_account_is_named() {
    let (name, user, password) = account();
    let place = Place {
        auth_url: shared().auth_url(),
        user,
        password: password.to_owned(),
        limits: limits(),
    };
    let look = place.look(shared());
    let image = "01234567-89ab-cdef-4000-800000000001";
    for path in [&["glance"][..], &["glance", image]] {
        let put = look.with(Method::PUT, path, &[("content-length", "0")]).await;
        assert!(put.is_success(), "{path:?}: {put}");
    }
    let foreign = |account: Option<&str>, endpoint: bool, key: Option<&str>| {
        let mut identity = place.identity();
        let endpoint: Option<url::Url> = endpoint.then(|| format!("{}/v1", shared().root()).parse().unwrap());
        if let Some(url) = &endpoint {
            identity.endpoints.insert("object-store".to_owned(), url.clone());
        }
        Foreign::new(ForeignConfig {
            identity,
            endpoint,
            account: account.map(str::to_owned),
            account_prefix: "AUTH".to_owned(),
            key: key.map(Secret::new),
        })
    };
    // The account had no key; the first who signs without one of the site's gives it one.
    let url = async |foreign: Foreign| {
        let until = SystemTime::now() + HOUR;
        let url = foreign.sign("glance", image, until).await.unwrap();
        url.expose().to_owned()
    };
    let own = url(foreign(None, false, None)).await;
    let key = look.header(&[], KEY).await.unwrap();
    let named = url(foreign(Some(&name), false, Some(&key))).await;
    let placed = url(foreign(Some(&name), true, Some(&key))).await;
    for url in [&own, &named, &placed] {
        assert!(url.contains(&format!("/v1/{name}/glance/{image}?")), "{url}");
        assert!(!url.contains(&key), "the key is told");
        assert_eq!(fetch(Method::GET, url, None).await.status(), StatusCode::OK);
        assert_eq!(fetch(Method::HEAD, url, None).await.status(), StatusCode::OK);
    }
    // What the site sets is not looked up: Swift says whether it is right.
    let wrong = url(foreign(Some(&name), true, Some("another"))).await;
    assert_eq!(
        fetch(Method::GET, &wrong, None).await.status(),
        StatusCode::UNAUTHORIZED
    );
    // Without a name, the account is that of the project which the token is for; nobody has one without a token.
    let projects = url(foreign(None, true, Some(&key))).await;
    assert_eq!(
        fetch(Method::GET, &projects, None).await.status(),
        StatusCode::OK,
        "{projects}"
    );
}
