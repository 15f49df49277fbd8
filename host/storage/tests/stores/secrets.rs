//! Passwords, keys, tokens, signatures and names stand in no error, no `Debug` text and no log line.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::Secret;
use reqwest::Method;
use storage::s3::{AccessKey, S3Config, s3};
use storage::{Backend, Delivery};
use tracing_subscriber::fmt::MakeWriter;

use crate::common::{CONTAINER, Place, embedded, limits, name, publication, shared};
use crate::proxy::{Fault, Proxy};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;
    fn make_writer(&self) -> Self {
        self.clone()
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn nothing_that_is_told_holds_a_secret() {
    let log = Log::default();
    let filter = "trace,hyper=info,hyper_util=info,reqwest=info,rustls=info,h2=info";
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    // With one dispatcher alone, the thread that comes to a place in the code first decides whether it is logged for all: another
    // test's, which has none.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    // Of this thread, which is all that the test's runtime has.
    let _logging = tracing::subscriber::set_default(subscriber);
    let place = Place::shared();
    let look = place.look(shared());
    let key = "account-key-hunter2";
    assert!(
        look.with(Method::POST, &[], &[("x-account-meta-temp-url-key", key)])
            .await
            .is_success()
    );
    let proxy = Proxy::start(shared().port).await;
    let mut through = Place {
        auth_url: format!("{}/auth/v1.0", proxy.root()),
        ..place
    };
    through.limits.attempts = 2;
    let mut told = String::new();
    let (floppy, _) = publication(name("img"), 100_000);
    let backend = through.backend(Delivery::Direct);
    let published = backend.publish(&floppy, Some(HOUR)).await.unwrap();
    told += &format!("{published:?}");
    let signature = published.url.expose().split_once("temp_url_sig=").unwrap().1[..64].to_owned();
    let names = [floppy.name.expose().to_owned()];
    for (method, fault) in [
        ("HEAD", Fault::Status(503)),
        ("HEAD", Fault::Status(403)),
        ("HEAD", Fault::CutRequest(0)),
        ("PUT", Fault::Status(500)),
        ("PUT", Fault::CutRequest(10)),
        ("PUT", Fault::OtherTag),
        ("PUT", Fault::Status(401)),
        ("DELETE", Fault::Status(409)),
        ("POST", Fault::Status(404)),
    ] {
        proxy.rule(method, CONTAINER, 99, fault);
        let (other, _) = publication(name("img"), 100_000);
        let errors = [
            backend.publish(&other, Some(HOUR)).await.err(),
            backend.stat(&floppy.name).await.err(),
            backend.renew(&floppy.name, HOUR * 9).await.err(),
            backend.withdraw(&other.name).await.err(),
        ];
        for error in errors.into_iter().flatten() {
            told += &format!("{error}\n{error:?}\n");
        }
        assert!(!told.contains(other.name.expose()), "{fault:?}: {told}");
        proxy.clear();
    }
    let s3_key = AccessKey {
        id: through.user.clone(),
        secret: Secret::new("s3-hunter3"),
        session: Some(Secret::new("session-hunter4")),
    };
    told += &format!("{s3_key:?}");
    let s3 = s3(S3Config {
        endpoint: shared().root(),
        bucket: "farrier".to_owned(),
        region: "us-east-1".to_owned(),
        key: Some(s3_key),
        path_style: true,
        part_size: 1 << 30,
        ca: None,
        limits: limits(),
        delivery: Delivery::Direct,
        relay: embedded(),
    })
    .unwrap();
    for error in [s3.check().await.err(), s3.publish(&floppy, None).await.err()]
        .into_iter()
        .flatten()
    {
        told += &format!("{error}\n{error:?}\n");
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.len() > 100 && told.len() > 1000, "nothing was told at all");
    let mut secrets = vec![
        key.to_owned(),
        signature,
        "s3-hunter3".to_owned(),
        "session-hunter4".to_owned(),
    ];
    secrets.extend(["testing", "AUTH_tk", "Signature="].map(str::to_owned));
    secrets.extend(names);
    for secret in &secrets {
        for text in [&told, &log] {
            let at = text.find(secret.as_str());
            let around = at.map(|at| text.get(at.saturating_sub(120)..(at + 60).min(text.len())));
            assert!(at.is_none(), "{secret:?} is told: {around:?}");
        }
    }
}
