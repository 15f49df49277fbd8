//! A store that is damaged is not taken for an empty one.

use std::io::{Seek, SeekFrom, Write};

use crate::client::assert_says;
use crate::site::Site;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_database_is_refused_with_what_to_do_and_left_as_it_is() {
    let site = Site::new(1).await;
    let mut alpha = site.start("alpha").await;
    let node = site.available(&alpha.api, 0, "agent_ilo", "alpha").await;
    alpha.stop().await;
    // All of the database: the file, and its log where that was not folded in.
    let files = ["farrier.db", "farrier.db-wal", "farrier.db-shm"].map(|name| site.data().join(name));
    let backup: Vec<_> = files.iter().map(|path| std::fs::read(path).ok()).collect();
    let path = &files[0];
    for log in &files[1..] {
        // Not there, as a rule.
        let _ = std::fs::remove_file(log);
    }

    let mut file = std::fs::File::options().write(true).open(path).expect("the database");
    file.seek(SeekFrom::Start(0)).expect("a file");
    file.write_all(&[0x5a; 4096]).expect("a file");
    let damaged = std::fs::read(path).expect("the database");
    let said = site.refuses_to_start(&site.settings("alpha")).await;
    assert_says(&said, &["farrier.db", "backup"]);
    assert!(std::fs::read(path).expect("the database") == damaged, "it was changed");

    for (path, content) in files.iter().zip(backup) {
        if let Some(content) = content {
            std::fs::write(path, content).expect("the backup");
        }
    }
    let alpha = site.start("alpha").await;
    alpha.api.bring(&node, "active", "active").await;
    site.assert_deployed(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_ten_times_in_the_middle_of_its_work_it_loses_nothing_that_it_said_yes_to() {
    let site = Site::new(1).await;
    let mut names = Vec::new();
    for round in 0..10 {
        let mut alpha = site.start("alpha").await;
        let mut made = Vec::new();
        for place in 0..4 {
            let mut node = site.node(0, "agent_ilo", "alpha");
            node["name"] = format!("r{round}-{place}").into();
            let api = alpha.api.clone();
            made.push(tokio::spawn(async move {
                api.send(reqwest::Method::POST, "/v1/nodes", Some(&node)).await
            }));
        }
        // The first yes is waited for; the others are cut off wherever they are.
        let first = made
            .remove(0)
            .await
            .expect("a task")
            .expect("an answer")
            .expect("a node");
        names.push(first["name"].clone());
        alpha.kill();
        for task in made {
            if let Ok(Ok(Ok(node))) = task.await {
                names.push(node["name"].clone());
            }
        }
    }
    let alpha = site.start("alpha").await;
    let listed = alpha.api.get("/v1/nodes").await;
    let listed: Vec<_> = listed["nodes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|node| &node["name"])
        .collect();
    for name in &names {
        assert!(listed.contains(&name), "{name} is lost");
    }
}
