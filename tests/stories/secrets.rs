//! What is secret stays so: in logs, in answers, in the journal, in the database, in what plugins are told.

use std::path::Path;

use serde_json::json;
use sim::Device;

use crate::site::{BMC_PASSWORD, Site, fetch, last_part, token_in};

/// Answers of the API that an operator would paste into a ticket.
const ANSWERS: [&str; 16] = [
    "/v1/nodes/detail",
    "/v1/nodes/n0",
    "/v1/nodes/n0/states",
    "/v1/nodes/n0/validate",
    "/v1/nodes/n1",
    "/v1/ports/detail",
    "/v1/conductors",
    "/farrier/v1/artefacts",
    "/farrier/v1/events?limit=1000",
    "/farrier/v1/conductors",
    "/farrier/v1/plugins",
    "/farrier/v1/plugins/calls?limit=1000",
    "/farrier/v1/nodes/n0/progress",
    "/farrier/v1/nodes/n0/effects?limit=1000",
    "/farrier/v1/nodes/n1/effects?limit=1000",
    "/metrics",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_password_token_or_name_of_an_artefact_is_told_or_kept_in_the_clear() {
    let site = Site::new(2).await;
    let mut settings = site.settings("alpha");
    let root = site.path("web-root");
    std::fs::create_dir(&root).expect("a folder");
    let url = site.images.serve_folder(&root);
    let trace = "trace,hyper=info,hyper_util=info,reqwest=info,rustls=info,h2=info,wasmtime=info,cranelift=info";
    let start = async |name: &str, settings: &serde_json::Value| {
        let toml = toml::to_string(settings).expect("TOML");
        let started = site.try_start_toml(name, &toml, &[("FARRIER_LOG", trace)]).await;
        started.unwrap_or_else(|ended| panic!("{}", ended.log))
    };
    let mut alpha = start("alpha", &settings).await;
    settings = site.settings("beta");
    settings["backend"] = json!([{ "id": "httpd", "kind": "web-root", "root": root.to_string_lossy(), "url": url }, { "id": "embedded", "kind": "embedded" }]);
    let mut beta = start("beta", &settings).await;
    let api = beta.api.clone();

    // One deployed in full by beta through the web root, with a config drive; one waiting at alpha and taken over.
    let first = site.available(&api, 1, "iscsi_ilo", "beta").await;
    let drive = "SGVyZUlzQVNlY3JldFRoYXROb2JvZHlTaGFsbFNlZQ==";
    let ask = json!({ "target": "active", "configdrive": drive });
    api.put(&format!("/v1/nodes/{first}/states/provision"), &ask)
        .await
        .expect("taken");
    api.reaches(&first, "active").await;
    let written = site
        .sim
        .server(1)
        .expect("such a server")
        .disk
        .with_file_name("configdrive.gz");
    assert!(written.exists(), "the config drive did not reach the agent");
    let node = site.waiting(&api, 0, "alpha").await;
    let mut secrets = vec![
        ("the BMC's password", BMC_PASSWORD.to_owned()),
        ("the config drive", drive.to_owned()),
        ("the config drive", "HereIsASecretThatNobodyShallSee".to_owned()),
    ];
    let mut name = |url: &str| {
        let name = last_part(url).split('.').next().unwrap_or_default().to_owned();
        assert!(name.len() >= 20, "{name}");
        secrets.push(("an artefact's name", name));
    };
    let floppy = site.inserted(0, Device::Floppy).expect("a floppy");
    for index in [0, 1] {
        for device in [Device::Floppy, Device::Cd] {
            for reads in site.sim.media_reads(index, device).expect("such a server") {
                name(&reads.url);
            }
        }
    }
    let token = token_in(&fetch(&floppy).await);
    secrets.push(("the agent's token", token));
    alpha.kill();
    api.taken_over(&node, "beta").await;
    site.sim.hold_agent(0, false).expect("such a server");
    api.reaches(&node, "active").await;

    let mut told = Vec::new();
    for path in ANSWERS {
        told.push((path.to_owned(), api.get(path).await.to_string().into_bytes()));
    }
    // The database while it is in use, its log, and what is left of both once it is closed.
    let database = ["farrier.db", "farrier.db-wal", "farrier.db-shm"];
    for file in database {
        told.push((
            format!("{file} in use"),
            std::fs::read(site.data().join(file)).expect("a file"),
        ));
    }
    beta.stop().await;
    told.push((
        "farrier.db".into(),
        std::fs::read(site.data().join("farrier.db")).expect("a file"),
    ));
    told.push(("the log of alpha".into(), alpha.log().into_bytes()));
    told.push(("the log of beta".into(), beta.log().into_bytes()));
    for (secret_kind, secret) in &secrets {
        for (place, content) in &told {
            assert!(
                !holds(content, secret),
                "{secret_kind} stands in {place}: {}",
                around(content, secret)
            );
        }
    }
    // A BMC is told the URL of its media, but nothing else that is secret; and no BMC tells us ours.
    let trace = std::fs::read(site.path("bmc-trace.jsonl")).expect("the trace");
    for (kind, secret) in secrets.iter().filter(|(kind, _)| *kind != "an artefact's name") {
        assert!(!holds(&trace, secret), "{kind} stands in the BMCs' trace");
    }
    // The search finds what is there.
    let log = beta.log();
    assert!(
        holds(log.as_bytes(), "taken") || holds(log.as_bytes(), "took over"),
        "{log}"
    );
    assert_private(&site.data().join("farrier.db"));
    assert_private(&site.path("secret.key"));
}

fn holds(content: &[u8], secret: &str) -> bool {
    position(content, secret).is_some()
}

fn position(content: &[u8], secret: &str) -> Option<usize> {
    content
        .windows(secret.len())
        .position(|window| window == secret.as_bytes())
}

fn around(content: &[u8], secret: &str) -> String {
    let at = position(content, secret).unwrap_or(0);
    let part = &content[at.saturating_sub(200)..(at + secret.len() + 50).min(content.len())];
    String::from_utf8_lossy(part).into_owned()
}

/// Only its owner may read it.
fn assert_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = path.metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
}
