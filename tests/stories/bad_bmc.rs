//! BMCs that refuse, hang, break off or are somebody else's: the record says why, and the node goes on once that is over.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::assert_says;
use crate::site::{BMC_PASSWORD, Site, text};
use crate::wait;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_by_the_bmcs_address_and_a_right_one_helps() {
    let site = Site::new(1).await;
    let alpha = site.start("alpha").await;
    let api = &alpha.api;
    let mut wrong = site.node(0, "agent_ilo", "alpha");
    wrong["driver_info"]["ilo_password"] = "not-this-one".into();
    let node = site.enrol(api, 0, &wrong).await;
    api.want(&node, "manage").await;
    let said = api.fails(&node, "enroll").await;
    let address = wrong["driver_info"]["ilo_address"].as_str().expect("an address");
    assert_says(&said, &[address, "refused the login", "password"]);
    assert!(!said.contains("not-this-one"), "{said}");
    let logins = site
        .trace(0)
        .iter()
        .filter(|exchange| exchange.method == "POST")
        .count();
    assert!(logins < 3, "{logins} logins would lock the account");

    let right = json!([{ "op": "replace", "path": "/driver_info/ilo_password", "value": BMC_PASSWORD }]);
    api.patch(&format!("/v1/nodes/{node}"), &right).await.expect("a patch");
    let record = api.bring(&node, "manage", "manageable").await;
    assert!(record["last_error"].is_null(), "{record}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bmc_that_another_authority_signed_is_not_spoken_to() {
    let site = Site::new(1).await;
    let other = Site::new(1).await;
    let alpha = site.start("alpha").await;
    let api = &alpha.api;
    let mut stranger = site.node(0, "agent_ilo", "alpha");
    stranger["driver_info"]["ilo_verify_ca"] = text(other.sim.ca_pem()).into();
    let node = site.enrol(api, 0, &stranger).await;
    api.want(&node, "manage").await;
    let said = api.fails(&node, "enroll").await;
    let address = stranger["driver_info"]["ilo_address"].as_str().expect("an address");
    assert_says(&said, &[address, "certificate", "ilo_verify_ca"]);
    assert!(site.trace(0).is_empty(), "it was asked: {:?}", site.trace(0));

    let path = format!("/v1/nodes/{node}");
    let missing = json!([{ "op": "replace", "path": "/driver_info/ilo_verify_ca", "value": "/no/such/ca.pem" }]);
    api.patch(&path, &missing).await.expect("a patch");
    api.want(&node, "manage").await;
    wait::until("the missing CA file is named", async || {
        let record = api.node(&node).await;
        let said = record["last_error"].as_str().unwrap_or_default().to_owned();
        (record["provision_state"] == "enroll" && said.contains("/no/such/ca.pem")).then_some(())
    })
    .await;
    let right = json!([{ "op": "replace", "path": "/driver_info/ilo_verify_ca", "value": text(site.sim.ca_pem()) }]);
    api.patch(&path, &right).await.expect("a patch");
    api.bring(&node, "manage", "manageable").await;
}

/// Deploys a node whose BMC does that for a while, and sees that nothing was done twice.
async fn deploys_in_spite_of(rule: &str, says: &[&str]) {
    let site = Site::new(2).await;
    let alpha = site.start("alpha").await;
    let api = &alpha.api;
    let mut node = site.node(0, "agent_ilo", "alpha");
    node["driver_info"]["client_timeout"] = 1.into();
    let node = site.enrol(api, 0, &node).await;
    api.bring(&node, "manage", "manageable").await;
    api.bring(&node, "provide", "available").await;
    site.sim
        .faults()
        .add(&format!("[[rule]]\nname = \"trouble\"\nserver = 0\n{rule}"))
        .expect("a rule");
    api.want(&node, "active").await;
    // While its work is tried again, somebody who looks is told why.
    wait::until("the reason is told", async || {
        let events = api.events(&node).await;
        let told = events.iter().map(|event| event["message"].as_str().unwrap_or_default());
        let mut told = told.filter(|message| says.iter().all(|part| message.contains(part)));
        told.next().is_some().then_some(())
    })
    .await;
    // The other servers do not wait for it.
    let other = site.active(api, 1, "agent_ilo", "alpha").await;
    assert_eq!(api.node(&other).await["provision_state"], "active");
    assert_eq!(api.node(&node).await["provision_state"], "deploying");
    site.sim.faults().clear();
    api.reaches(&node, "active").await;
    site.assert_deployed(0);
    let done = site.done_to(0);
    let done: Vec<_> = done.iter().filter(|change| !change.ends_with("(refused)")).collect();
    assert_eq!(
        done.iter().filter(|change| *change == &"power On").count(),
        2,
        "{done:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bmc_that_hangs_holds_up_its_own_node_only_until_it_answers_again() {
    deploys_in_spite_of("path = \"*VirtualMedia*\"\nhang = true", &["did not", "within"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bmc_that_drops_connections_holds_up_its_own_node_only_until_it_answers_again() {
    deploys_in_spite_of("path = \"*VirtualMedia*\"\ndrop = true", &["could not be reached"]).await;
}

/// A BMC that does that for ever, and what an operator asks for then.
async fn is_stopped_in_spite_of(rule: &str, verb: &str, state: &str, seconds: u64) {
    let site = Site::new(1).await;
    let alpha = site.start("alpha").await;
    let api = &alpha.api;
    let mut node = site.node(0, "agent_ilo", "alpha");
    node["driver_info"]["client_timeout"] = 5.into();
    let node = site.enrol(api, 0, &node).await;
    api.bring(&node, "manage", "manageable").await;
    api.bring(&node, "provide", "available").await;
    site.sim.faults().add(&format!("[[rule]]\n{rule}")).expect("a rule");
    api.want(&node, "active").await;
    wait::until("the record says why it does not get on", async || {
        let record = api.node(&node).await;
        let said = record["last_error"].as_str().unwrap_or_default();
        said.starts_with("trying again: ").then_some(())
    })
    .await;
    assert_eq!(api.node(&node).await["provision_state"], "deploying");
    let began = Instant::now();
    api.want(&node, verb).await;
    let said = wait::until("it is stopped", async || {
        let record = api.node(&node).await;
        (record["provision_state"] == state).then(|| record["last_error"].clone())
    })
    .await;
    assert!(
        began.elapsed() < Duration::from_secs(seconds),
        "after {:?}",
        began.elapsed()
    );
    if verb == "abort" {
        assert_says(said.as_str().unwrap_or_default(), &["aborted by an operator; last: "]);
        let artefacts = api.artefacts(&node).await;
        let floppy = artefacts.iter().any(|artefact| artefact.starts_with("floppy"));
        assert!(!floppy, "the floppy with the token is left published: {artefacts:?}");
    }
    site.sim.faults().clear();
    api.reaches(&node, if verb == "abort" { state } else { "available" })
        .await;
    // And it works again once the BMC does; what was to be deployed went with the instance.
    let instance = site.node(0, "agent_ilo", "alpha")["instance_info"].clone();
    let patch = json!([{ "op": "replace", "path": "/instance_info", "value": instance }]);
    api.patch(&format!("/v1/nodes/{node}"), &patch).await.expect("a patch");
    api.bring(&node, "active", "active").await;
    site.assert_deployed(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_that_a_broken_bmc_holds_up_is_stopped_at_once() {
    is_stopped_in_spite_of("path = \"*VirtualMedia*\"\ndrop = true", "abort", "deploy failed", 25).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_that_a_hanging_bmc_holds_up_is_stopped_at_once() {
    is_stopped_in_spite_of("path = \"*VirtualMedia*\"\nhang = true", "abort", "deploy failed", 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_a_broken_bmc_holds_up_can_be_torn_down() {
    is_stopped_in_spite_of("path = \"*VirtualMedia*\"\ndrop = true", "deleted", "deleting", 15).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_that_a_bmc_refuses_fails_the_deployment_and_leaves_nothing_in_the_other_slot() {
    let site = Site::new(1).await;
    let alpha = site.start("alpha").await;
    let api = &alpha.api;
    let node = site.available(api, 0, "agent_ilo", "alpha").await;
    let cd = "/redfish/v1/Managers/1/VirtualMedia/2/Actions/VirtualMedia.InsertMedia";
    let rule = format!(
        "[[rule]]\nmethod = \"POST\"\npath = \"{cd}\"\nstatus = 403\nmessage = \"iLO.2.14.LicenseKeyRequired\""
    );
    site.sim.faults().add(&rule).expect("a rule");
    api.want(&node, "active").await;
    let said = api.fails(&node, "deploy failed").await;
    assert_says(&said, &["licence", "iLO Advanced"]);
    assert_eq!(site.inserted(0, sim::Device::Floppy), None);
    assert_eq!(api.artefacts(&node).await, [""; 0]);
    assert!(!site.is_on(0));
    site.sim.faults().clear();
    api.bring(&node, "active", "active").await;
    site.assert_deployed(0);
}
