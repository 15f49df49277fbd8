//! Swift with version 1 authentication: what is published, how it is fetched, and when it ends.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::{Method, StatusCode};
use storage::{Backend, Delivery, Renewal, Stat, StorageError, UrlRules};

use crate::common::{CONTAINER, MIB, Place, fetch, name, publication, read_relayed, shared};
use crate::peers::Swift;

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_floppy_is_fetched_by_its_temporary_url_in_every_way_and_is_gone_once_withdrawn() {
    let place = Place::shared();
    let look = place.look(shared());
    let backend = place.backend(Delivery::Direct);
    backend.check().await.unwrap();
    let (floppy, bytes) = publication(name("img"), 300_000);
    let published = backend.publish(&floppy, Some(HOUR)).await.unwrap();
    let url = published.url.expose();
    assert!(url.len() <= 255 && url.ends_with(".img"), "{} characters", url.len());
    let expires = published.expires.unwrap();
    assert!(expires >= SystemTime::now() + HOUR - Duration::from_secs(60));

    let head = fetch(Method::HEAD, url, None).await;
    assert_eq!(head.status(), StatusCode::OK);
    assert_eq!(head.headers()["content-length"], "300000");
    let whole = fetch(Method::GET, url, None).await.bytes().await.unwrap();
    assert!(whole == bytes);
    let part = fetch(
        Method::GET,
        url,
        Some("bytes=00000000000000000512-00000000000000001023"),
    )
    .await;
    assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
    assert!(part.bytes().await.unwrap() == bytes[512..1024]);

    // It goes by itself if nobody withdraws it, though not before its URL does.
    let end = look
        .header(&[CONTAINER, floppy.name.expose()], "x-delete-at")
        .await
        .unwrap();
    let end = UNIX_EPOCH + Duration::from_secs(end.parse().unwrap());
    assert!(end >= expires && end < expires + HOUR);
    assert_eq!(backend.stat(&floppy.name).await.unwrap(), Stat::Present(300_000));

    for _ in 0..2 {
        backend.withdraw(&floppy.name).await.unwrap();
        assert_eq!(backend.stat(&floppy.name).await.unwrap(), Stat::Absent);
    }
    assert_eq!(fetch(Method::GET, url, None).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(look.objects().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_boot_iso_until_it_is_withdrawn_never_expires_and_goes_through_us_unless_told_otherwise() {
    let place = Place::shared();
    let look = place.look(shared());
    let (iso, bytes) = publication(name("iso"), 2 * MIB);
    let mut config = place.config(Delivery::Auto);
    let relay = config.relay.clone();
    config.least = Some(HOUR);
    let backend = storage::swift::swift(config).unwrap();
    let published = backend.publish(&iso, None).await.unwrap();
    assert_eq!(published.url, relay.url(&iso.name));
    assert_eq!(published.expires, None);
    assert!(read_relayed(&relay, &iso.name, 2048 * 34).await.unwrap() == bytes);
    assert_eq!(look.header(&[CONTAINER, iso.name.expose()], "x-delete-at").await, None);
    backend.withdraw(&iso.name).await.unwrap();
    assert!(relay.lookup(&iso.name).await.unwrap().is_none());

    let direct = place.backend(Delivery::Direct);
    let published = direct.publish(&iso, None).await.unwrap();
    assert_eq!(published.expires, None);
    assert!(
        fetch(Method::GET, published.url.expose(), None)
            .await
            .bytes()
            .await
            .unwrap()
            == bytes
    );
    direct.withdraw(&iso.name).await.unwrap();
    assert_eq!(look.objects().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_signed_url_stops_working_when_its_time_is_over() {
    let place = Place::shared();
    let backend = place.backend(Delivery::Direct);
    let (floppy, _) = publication(name("img"), 2048);
    let published = backend.publish(&floppy, Some(Duration::from_secs(5))).await.unwrap();
    let start = std::time::Instant::now();
    // It worked when it was published, or publishing would have failed.
    while fetch(Method::GET, published.url.expose(), None).await.status() != StatusCode::UNAUTHORIZED {
        assert!(start.elapsed() < Duration::from_secs(60), "it still works");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(SystemTime::now() >= published.expires.unwrap());
    // The object outlives its URL, so that it can be renewed.
    let renewal = backend.renew(&floppy.name, HOUR).await.unwrap();
    let Renewal::UrlChanged(renewed) = renewal else {
        panic!("{renewal:?}");
    };
    assert_ne!(renewed.url, published.url);
    assert!(renewed.expires.unwrap() > SystemTime::now() + HOUR / 2);
    assert_eq!(
        fetch(Method::GET, renewed.url.expose(), None).await.status(),
        StatusCode::OK
    );
    backend.withdraw(&floppy.name).await.unwrap();
    let gone = backend.renew(&floppy.name, HOUR).await.unwrap();
    assert!(matches!(gone, Renewal::Unsupported), "{gone:?}");
}

#[tokio::test]
async fn renewing_moves_the_objects_end_and_leaves_what_it_is_alone() {
    let place = Place::shared();
    let look = place.look(shared());
    let backend = place.backend(Delivery::Relay);
    let (floppy, _) = publication(name("img"), 4096);
    backend.publish(&floppy, Some(HOUR)).await.unwrap();
    let path = [CONTAINER, floppy.name.expose()];
    let before: u64 = look.header(&path, "x-delete-at").await.unwrap().parse().unwrap();
    let noted = look.header(&path, "x-object-meta-farrier-digest").await.unwrap();
    let Renewal::Extended(Some(expires)) = backend.renew(&floppy.name, HOUR * 5).await.unwrap() else {
        panic!("a relayed artefact keeps its URL");
    };
    assert!(expires > SystemTime::now() + HOUR * 4);
    let after: u64 = look.header(&path, "x-delete-at").await.unwrap().parse().unwrap();
    assert!(after >= before + 3 * 3600, "{before} {after}");
    assert_eq!(look.header(&path, "x-object-meta-farrier-digest").await.unwrap(), noted);
    // A shorter wish takes nothing away.
    backend.renew(&floppy.name, Duration::from_secs(60)).await.unwrap();
    let still: u64 = look.header(&path, "x-delete-at").await.unwrap().parse().unwrap();
    assert_eq!(still, after);
}

#[tokio::test]
async fn publishing_again_sends_nothing_again_and_other_bytes_are_a_conflict() {
    let place = Place::shared();
    let proxy = crate::proxy::Proxy::start(shared().port).await;
    let through = Place {
        auth_url: format!("{}/auth/v1.0", proxy.root()),
        ..place
    };
    let backend = through.backend(Delivery::Relay);
    let (iso, _) = publication(name("iso"), 10_000);
    let (other, _) = publication(iso.name.clone(), 10_001);
    backend.publish(&iso, Some(HOUR)).await.unwrap();
    let uploads = proxy.count("PUT", iso.name.expose());
    backend.publish(&iso, Some(HOUR)).await.unwrap();
    assert_eq!(proxy.count("PUT", iso.name.expose()), uploads);
    let conflict = backend.publish(&other, Some(HOUR)).await.unwrap_err();
    assert!(matches!(conflict, StorageError::Conflict { .. }), "{conflict}");
    assert_eq!(backend.stat(&iso.name).await.unwrap(), Stat::Present(10_000));
}

#[tokio::test]
async fn lifetimes_are_raised_to_what_the_site_sets_and_never_lowered() {
    let place = Place::shared();
    let mut config = place.config(Delivery::Direct);
    config.least = Some(HOUR);
    let backend = storage::swift::swift(config).unwrap();
    for (asked, at_least) in [(Duration::from_secs(10), HOUR), (HOUR * 3, HOUR * 3)] {
        let (floppy, _) = publication(name("img"), 2048);
        let published = backend.publish(&floppy, Some(asked)).await.unwrap();
        let lives = published.expires.unwrap().duration_since(SystemTime::now()).unwrap();
        assert!(
            lives > at_least - Duration::from_secs(60) && lives < at_least + HOUR,
            "{lives:?}"
        );
        backend.withdraw(&floppy.name).await.unwrap();
    }
}

#[tokio::test]
async fn a_bmc_that_refuses_queries_or_long_urls_is_served_through_us() {
    let place = Place::shared();
    let config = place.config(Delivery::Auto);
    let relay = config.relay.clone();
    let backend = storage::swift::swift(config).unwrap();
    let rules = |queries, longest| UrlRules { queries, longest };
    for (rules, direct) in [
        (UrlRules::default(), true),
        (rules(false, 255), false),
        (rules(true, 120), false),
    ] {
        let (mut floppy, _) = publication(name("img"), 2048);
        floppy.reader.urls = rules;
        let published = backend.publish(&floppy, Some(HOUR)).await.unwrap();
        assert_eq!(published.url != relay.url(&floppy.name), direct, "{rules:?}");
        assert!(rules.allow(published.url.expose()) || !rules.queries);
        assert!(published.expires.is_some());
        backend.withdraw(&floppy.name).await.unwrap();
    }
}

#[tokio::test]
async fn the_accounts_key_is_made_once_and_shared_by_all_conductors() {
    let place = Place::shared();
    let look = place.look(shared());
    let key = "x-account-meta-temp-url-key";
    assert_eq!(look.header(&[], key).await, None);
    let (floppy, _) = publication(name("img"), 2048);
    let one = place.backend(Delivery::Direct);
    one.publish(&floppy, Some(HOUR)).await.unwrap();
    let made = look.header(&[], key).await.unwrap();
    assert!(made.len() >= 32, "{} characters", made.len());
    let other = place.backend(Delivery::Direct);
    let (second, _) = publication(name("img"), 2048);
    other.publish(&second, Some(HOUR)).await.unwrap();
    assert_eq!(look.header(&[], key).await.as_ref(), Some(&made));

    // Somebody changes it: the next URL is signed with the new one.
    let changed = look
        .with(Method::POST, &[], &[("x-account-meta-temp-url-key", "changed")])
        .await;
    assert!(changed.is_success());
    let (third, _) = publication(name("img"), 2048);
    let published = one.publish(&third, Some(HOUR)).await.unwrap();
    assert_eq!(
        fetch(Method::HEAD, published.url.expose(), None).await.status(),
        StatusCode::OK
    );
    assert_eq!(look.header(&[], key).await.as_deref(), Some("changed"));
}

#[tokio::test]
async fn a_key_that_is_not_the_accounts_is_refused_before_any_bmc_is_given_a_url() {
    let place = Place::shared();
    let look = place.look(shared());
    assert!(
        look.with(Method::POST, &[], &[("x-account-meta-temp-url-key", "theirs")])
            .await
            .is_success()
    );
    let mut config = place.config(Delivery::Direct);
    config.temp_url_key = Some(model::Secret::new("hunter2"));
    let backend = storage::swift::swift(config).unwrap();
    let (floppy, _) = publication(name("img"), 2048);
    let error = backend.publish(&floppy, Some(HOUR)).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StorageError::Forbidden { .. }), "{text}");
    assert!(text.contains("temp-url-key") && !text.contains("hunter2"), "{text}");
    assert_eq!(look.objects().await, Vec::<String>::new());
}

#[tokio::test]
async fn urls_are_signed_with_the_best_digest_that_the_cluster_allows() {
    for (digests, digits) in [("sha1", 40), ("sha512 sha1", 128)] {
        let swift = tokio::task::spawn_blocking(move || Swift::start(&["--digests", digests]))
            .await
            .unwrap();
        let place = Place::at(&swift);
        let backend = place.backend(Delivery::Direct);
        let (floppy, bytes) = publication(name("img"), 2048);
        let published = backend.publish(&floppy, Some(HOUR)).await.unwrap();
        let url = published.url.expose();
        let signature = url.split_once("temp_url_sig=").unwrap().1.split('&').next().unwrap();
        assert_eq!(signature.len(), digits, "{digests}");
        assert!(fetch(Method::GET, url, None).await.bytes().await.unwrap() == bytes);
    }
}

#[tokio::test]
async fn a_cluster_without_temporary_urls_relays_or_says_why_it_cannot_deliver() {
    let swift = tokio::task::spawn_blocking(|| Swift::start(&["--without", "tempurl"]))
        .await
        .unwrap();
    let place = Place::at(&swift);
    let (floppy, _) = publication(name("img"), 2048);
    let error = place
        .backend(Delivery::Direct)
        .publish(&floppy, Some(HOUR))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("delivery = \"relay\""), "{error}");
    let config = place.config(Delivery::Auto);
    let relay = config.relay.clone();
    let published = storage::swift::swift(config)
        .unwrap()
        .publish(&floppy, Some(HOUR))
        .await
        .unwrap();
    assert_eq!(published.url, relay.url(&floppy.name));
}
