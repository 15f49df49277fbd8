//! A conductor is killed at any moment of a publication: nothing is half-published, what it left goes by itself or with the
//! next withdrawal, and publishing again works.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use model::ArtefactName;
use reqwest::Method;
use storage::swift::{SwiftConfig, swift};
use storage::{Backend, Delivery, ObjectBackend};

use crate::common::{CONTAINER, MIB, Place, name, publication, shared};

const SIZE: u64 = 7 * MIB + 1;
const AUTH: &str = "FARRIER_TEST_AUTH_URL";
const USER: &str = "FARRIER_TEST_USER";

fn backend(place: &Place) -> ObjectBackend {
    swift(SwiftConfig {
        segment_size: MIB,
        ..place.config(Delivery::Relay)
    })
    .unwrap()
}

/// Publishes one artefact after the other, telling the name of each beforehand.
#[tokio::test]
#[ignore = "a child of the test below"]
async fn publish_until_killed() {
    let place = Place {
        auth_url: std::env::var(AUTH).expect("run by the test below"),
        user: std::env::var(USER).expect("run by the test below"),
        password: "testing".to_owned(),
        limits: crate::common::limits(),
    };
    let backend = backend(&place);
    backend.check().await.unwrap();
    // Whatever becomes of the parent, a child does not stay.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    println!();
    loop {
        let (iso, _) = publication(name("iso"), SIZE);
        println!("publishing {}", iso.name.expose());
        backend.publish(&iso, None).await.unwrap();
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn killed_at_any_moment_of_a_publication_nothing_is_half_published_and_the_next_attempt_works() {
    let place = Place::shared();
    let look = place.look(shared());
    let backend = backend(&place);
    for round in 0..8u64 {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["killed::publish_until_killed", "--exact", "--ignored", "--nocapture"])
            .env(AUTH, &place.auth_url)
            .env(USER, &place.user)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Killed(child);
        let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let mut names = lines
            .map_while(Result::ok)
            .filter_map(|line| ArtefactName::parse(line.strip_prefix("publishing ")?));
        let first = names.next().expect("it begins to publish");
        // At a moment that nobody has chosen, and another one each time.
        tokio::time::sleep(Duration::from_millis(37 * round + rand::random_range(0..40))).await;
        drop(child);
        let last = names.last().unwrap_or(first);

        let (again, bytes) = publication(last.clone(), SIZE);
        let mut whole = 0;
        for object in look.objects().await {
            let path: Vec<&str> = std::iter::once(CONTAINER).chain(object.split('/')).collect();
            if ArtefactName::parse(&object).is_some() {
                // Whole, or it would not be there; all of them have the same bytes.
                let found = look.ask(Method::GET, &path, None).await.bytes().await.unwrap();
                assert!(found == bytes, "round {round}: half of an artefact is published");
                whole += 1;
            }
        }
        backend.publish(&again, None).await.unwrap();
        let path = [CONTAINER, last.expose()];
        let published = look.ask(Method::GET, &path, None).await.bytes().await.unwrap();
        assert!(published == bytes, "round {round}, {whole} whole");

        // All that was left is found by its name, and goes.
        for left in backend.names().await.unwrap().unwrap() {
            backend.withdraw(&left).await.unwrap();
        }
        assert_eq!(look.objects().await, Vec::<String>::new(), "round {round}");
    }
}

#[tokio::test]
async fn segments_without_a_manifest_go_by_themselves() {
    let place = Place::shared();
    let look = place.look(shared());
    let proxy = crate::proxy::Proxy::start(shared().port).await;
    let through = Place {
        auth_url: format!("{}/auth/v1.0", proxy.root()),
        ..place
    };
    let backend = backend(&through);
    let (iso, _) = publication(name("iso"), 3 * MIB);
    // Neither the manifest nor the clean-up comes through, as if the process had been killed.
    proxy.rule("PUT", "multipart-manifest", 99, crate::proxy::Fault::Status(503));
    proxy.also("DELETE", "", 99, crate::proxy::Fault::Status(503));
    backend.publish(&iso, None).await.unwrap_err();
    let left = look.objects().await;
    assert_eq!(left.len(), 3);
    for object in left {
        let path: Vec<&str> = std::iter::once(CONTAINER).chain(object.split('/')).collect();
        let end = look.header(&path, "x-delete-at").await.expect("it ends by itself");
        let end = std::time::UNIX_EPOCH + Duration::from_secs(end.parse().unwrap());
        assert!(end < std::time::SystemTime::now() + Duration::from_secs(2 * 86_400));
    }
}
