//! A conductor whose settings are only an `ironic.conf`: images in Swift, or on a web server by each way to say so, for both
//! drivers.

use std::path::Path;

use sim::Device;

use crate::conductor::Conductor;
use crate::peers::{Keystone, Nginx, lab};
use crate::site::{Site, last_part, text};

/// What a laboratory on loopback is allowed, for which Ironic has no option.
const LABORATORY: &str = "[agent]\ncallback-networks = [\"127.0.0.0/8\"]\n[security]\nallow-local-addresses = true\n";

/// Of the user at Keystone.
const PASSWORD: &str = "ironic-password";

/// Starts alpha with these options beside the ones that every conductor has.
async fn start(site: &Site, options: &str) -> Conductor {
    let api = site.api_url("alpha");
    let address = api.trim_start_matches("http://").trim_end_matches(":6385");
    let common = format!(
        "[DEFAULT]\nhost = alpha\nstate_path = {state}\nenabled_hardware_types = ilo\nisolinux_bin = {isolinux}\n\
         [api]\nhost_ip = {address}\n\
         [service_catalog]\nendpoint_override = {api}\n\
         [agent]\nrequire_tls = False\n\
         [conductor]\nautomated_clean = False\nheartbeat_timeout = 3\nsync_power_state_interval = 1\n\
         deploy_kernel = file://{kernel}\ndeploy_ramdisk = file://{ramdisk}\nfile_url_allowed_paths = {files}\n",
        state = text(&site.data()),
        isolinux = site.file("isolinux.bin"),
        kernel = site.file("vmlinuz"),
        ramdisk = site.file("initrd"),
        files = text(&site.path("files")),
    );
    let ironic = site.path("ironic.conf");
    std::fs::write(&ironic, format!("{common}{options}")).expect("ironic.conf");
    let wrapper = format!("exec \"$0\" \"$@\" --ironic-conf '{}'", ironic.display());
    match site.try_start_in_namespace("alpha", LABORATORY, &wrapper).await {
        Ok(conductor) => conductor,
        Err(ended) => panic!("the conductor ended ({}):\n{}", ended.status, ended.log),
    }
}

/// `agent_ilo` reaches `active` and goes back, `iscsi_ilo` reaches `active`; returns the latter, and the boot ISO that it runs
/// from.
async fn both_drivers_deploy(site: &Site, alpha: &Conductor) -> (String, String) {
    let api = &alpha.api;
    let agent = site.active(api, 0, "agent_ilo", "alpha").await;
    site.assert_deployed(0);
    api.bring(&agent, "deleted", "available").await;
    assert_eq!(api.artefacts(&agent).await, [""; 0]);
    let iscsi = site.active(api, 1, "iscsi_ilo", "alpha").await;
    site.assert_deployed(1);
    (iscsi, site.inserted(1, Device::Cd).expect("the boot ISO"))
}

/// The objects in the iLO drivers' container, by Swift's own client.
async fn objects(keystone: &Keystone) -> Vec<String> {
    let program = lab("OPENSTACK_PYTHON").with_file_name("swift");
    let output = tokio::process::Command::new(program)
        .args(["--auth-version", "3", "--os-auth-url", &keystone.auth_url])
        .args([
            "--os-username",
            "ironic",
            "--os-password",
            PASSWORD,
            "--os-project-name",
            "service",
        ])
        .args([
            "--os-user-domain-name",
            "Default",
            "--os-project-domain-name",
            "Default",
        ])
        .args(["list", "ironic_ilo_container"])
        .output()
        .await
        .expect("Swift's client");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ironic_conf_with_swift_deploys_both_drivers() {
    let site = Site::new(2).await;
    let keystone = tokio::task::spawn_blocking(Keystone::start).await.expect("Keystone");
    let options = format!(
        "[swift]\nauth_type = password\nauth_url = {}\nusername = ironic\npassword = {PASSWORD}\n\
         project_name = service\nuser_domain_name = Default\nproject_domain_name = Default\n",
        keystone.auth_url
    );
    let alpha = start(&site, &options).await;
    let (node, iso) = both_drivers_deploy(&site, &alpha).await;
    assert_eq!(objects(&keystone).await, [last_part(&iso)]);
    alpha.api.bring(&node, "deleted", "available").await;
    assert_eq!(objects(&keystone).await, [""; 0]);
    assert!(!alpha.log().contains(PASSWORD));
}

/// Images go into the web server's folder, and BMCs are told its URL with its path.
async fn on_a_web_server(options: impl FnOnce(&Path, &str) -> String) {
    let site = Site::new(2).await;
    let root = site.path("httpboot");
    std::fs::create_dir(&root).expect("a folder");
    let served = root.clone();
    let nginx = tokio::task::spawn_blocking(move || Nginx::start(&served))
        .await
        .expect("nginx");
    let url = format!("http://127.0.0.1:{}/images", nginx.port);
    let alpha = start(&site, &options(&root, &url)).await;
    let (node, iso) = both_drivers_deploy(&site, &alpha).await;
    assert!(iso.starts_with(&format!("{url}/")), "{iso}");
    assert!(root.join(last_part(&iso)).exists(), "{iso}");
    alpha.api.bring(&node, "deleted", "available").await;
    let left: Vec<_> = std::fs::read_dir(&root).expect("the folder").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ironic_conf_with_the_web_server_in_its_former_section_deploys_both_drivers() {
    on_a_web_server(|root, url| {
        let root = root.display();
        format!("[ilo]\nuse_http_web_server_for_images = True\n[pxe]\nhttp_root = {root}\nhttp_url = {url}\n")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ironic_conf_with_the_designs_own_names_deploys_both_drivers() {
    on_a_web_server(|root, url| {
        let root = root.display();
        format!(
            "[ilo]\nuse_http_web_server_for_images = True\n[deploy]\nhttp_server_root = {root}\nhttp_server_url = {url}/\n"
        )
    })
    .await;
}
