//! Images for disks that the ramdisk cannot fetch as they are, and images that are not what they are said to be.

use std::process::Command;

use serde_json::{Value, json};

use crate::client::assert_says;
use crate::site::{Site, sha256};

/// What replaces a node's image.
fn image(fields: &Value) -> Value {
    json!([{ "op": "replace", "path": "/instance_info", "value": fields }])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packed_images_files_and_checksum_files_reach_the_disk() {
    let site = Site::new(1).await;
    let alpha = site.start("alpha").await;
    let node = site.available(&alpha.api, 0, "agent_ilo", "alpha").await;
    let path = site.file("disk.img");
    std::fs::write(&path, &site.disk).expect("a file");
    let packed = Command::new("gzip").args(["-c", &path]).output();
    let packed = packed
        .unwrap_or_else(|error| panic!("this story needs gzip: {error}"))
        .stdout;
    let packed_url = site.images.put("disk.img.gz", &packed);
    let list = format!("{}  other.img\n{}  disk.img\n", sha256(b"other"), sha256(&site.disk));
    let list_url = site.images.put("SHA256SUMS", list.as_bytes());
    let direct = site.images.url("disk.img");
    for (fields, by_ramdisk) in [
        // Unpacked and served by the conductor; the digest is that of what is packed.
        (
            json!({ "image_source": packed_url, "image_checksum": sha256(&packed), "image_disk_format": "raw" }),
            0,
        ),
        // Only the conductor can read it.
        (json!({ "image_source": path }), 0),
        // The ramdisk fetches it, and is told the digest that the list has.
        (json!({ "image_source": direct, "image_checksum": list_url }), 1),
    ] {
        let before = site.images.gets("disk.img");
        let patch = image(&fields);
        alpha
            .api
            .patch(&format!("/v1/nodes/{node}"), &patch)
            .await
            .expect("a patch");
        let active = alpha.api.bring(&node, "active", "active").await;
        assert!(active["last_error"].is_null(), "{active}");
        site.assert_deployed(0);
        assert_eq!(site.images.gets("disk.img") - before, by_ramdisk, "{fields}");
        alpha.api.bring(&node, "deleted", "available").await;
    }
    assert_eq!(site.images.gets("disk.img.gz"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_is_not_what_it_is_said_to_be_touches_no_disk() {
    let site = Site::new(1).await;
    let alpha = site.start("alpha").await;
    let node = site.available(&alpha.api, 0, "agent_ilo", "alpha").await;
    let mut backed = vec![0; 65_536];
    // A qcow2 that names a backing file.
    backed[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
    backed[8..16].copy_from_slice(&512u64.to_be_bytes());
    backed[16..20].copy_from_slice(&11u32.to_be_bytes());
    backed[20..24].copy_from_slice(&16u32.to_be_bytes());
    backed[24..32].copy_from_slice(&(1u64 << 20).to_be_bytes());
    backed[100..104].copy_from_slice(&104u32.to_be_bytes());
    backed[512..523].copy_from_slice(b"/etc/shadow");
    let url = site.images.put("backed.img", &backed);
    for (format, said) in [
        ("raw", ["declared as raw", "qcow2"]),
        ("qcow2", ["another file", "backing file"]),
    ] {
        let fields = json!({ "image_source": url, "image_checksum": sha256(&backed), "image_disk_format": format });
        let patch = image(&fields);
        alpha
            .api
            .patch(&format!("/v1/nodes/{node}"), &patch)
            .await
            .expect("a patch");
        alpha.api.want(&node, "active").await;
        assert_says(&alpha.api.fails(&node, "deploy failed").await, &said);
        assert_eq!(site.images.gets("backed.img"), 0, "no ramdisk was told of it");
    }
    let usual = site.node(0, "agent_ilo", "alpha")["instance_info"].clone();
    alpha
        .api
        .patch(&format!("/v1/nodes/{node}"), &image(&usual))
        .await
        .expect("a patch");
    alpha.api.bring(&node, "active", "active").await;
    site.assert_deployed(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_of_glance_is_written_and_booted_with_the_kernel_and_ramdisk_that_glance_names() {
    let site = Site::new(1).await;
    let [disk, kernel, ramdisk] = [1, 2, 3].map(|number| format!("7f1a4b1e-0000-4000-8000-00000000000{number}"));
    let put = |id: &str, content: &[u8], more: Value| {
        let mut about = json!({
            "id": id, "status": "active", "size": content.len(), "disk_format": "raw",
            "os_hash_algo": "sha256", "os_hash_value": sha256(content),
        });
        about
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        site.images
            .put(&format!("v2/images/{id}"), about.to_string().as_bytes());
        site.images.put(&format!("v2/images/{id}/file"), content);
    };
    put(&disk, &site.disk, json!({ "kernel_id": kernel, "ramdisk_id": ramdisk }));
    put(
        &kernel,
        &std::fs::read(site.file("instance-vmlinuz")).expect("a file"),
        json!({}),
    );
    put(
        &ramdisk,
        &std::fs::read(site.file("instance-initrd")).expect("a file"),
        json!({}),
    );
    let mut settings = site.settings("alpha");
    settings["glance"] = json!({ "auth-type": "none", "endpoint": site.images.url("") });
    let alpha = site.start_with(&settings).await;
    for driver in ["agent_ilo", "iscsi_ilo"] {
        let mut wish = site.node(0, driver, "alpha");
        wish["instance_info"] = json!({ "image_source": format!("glance://{disk}") });
        let node = site.enrol(&alpha.api, 0, &wish).await;
        alpha.api.bring(&node, "manage", "manageable").await;
        alpha.api.bring(&node, "provide", "available").await;
        let active = alpha.api.bring(&node, "active", "active").await;
        assert!(active["last_error"].is_null(), "{active}");
        site.assert_deployed(0);
        assert_eq!(site.inserted(0, sim::Device::Cd).is_some(), driver == "iscsi_ilo");
        alpha.api.bring(&node, "deleted", "available").await;
        alpha.api.delete(&format!("/v1/nodes/{node}")).await.expect("it goes");
    }
    let fetched = |id: &str| site.images.gets(&format!("v2/images/{id}/file"));
    assert_eq!([fetched(&disk), fetched(&kernel), fetched(&ramdisk)], [1; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_of_glance_comes_from_the_swift_behind_it_where_site_or_node_say_so() {
    let site = Site::new(1).await;
    let id = "7f1a4b1e-0000-4000-8000-000000000009";
    let about = json!({
        "id": id, "status": "active", "size": site.disk.len(), "disk_format": "raw",
        "os_hash_algo": "sha256", "os_hash_value": sha256(&site.disk),
    });
    site.images
        .put(&format!("v2/images/{id}"), about.to_string().as_bytes());
    site.images.put(&format!("v2/images/{id}/file"), &site.disk);
    let object = format!("v1/AUTH_glance/images_{}/{id}", &id[..3]);
    site.images.put(&object, &site.disk);
    let mut settings = site.settings("alpha");
    settings["agent"]["image-download-source"] = json!("swift");
    settings["glance"] = json!({
        "auth-type": "none", "endpoint": site.images.url(""),
        "swift": {
            "endpoint": site.images.url(""), "account": "AUTH_glance", "container": "images", "containers-seed": 3,
            "temp-url-key": "a key of Glance's account",
        },
    });
    let alpha = site.start_with(&settings).await;
    let mut wish = site.node(0, "agent_ilo", "alpha");
    wish["instance_info"] = json!({ "image_source": id });
    let node = site.enrol(&alpha.api, 0, &wish).await;
    alpha.api.bring(&node, "manage", "manageable").await;
    alpha.api.bring(&node, "provide", "available").await;
    let fetched = || {
        let file = format!("v2/images/{id}/file");
        [site.images.gets(&object), site.images.gets(&file)]
    };
    for (source, expected) in [(None, [1, 0]), (Some("local"), [1, 1])] {
        let mut fields = json!({ "image_source": id });
        if let Some(source) = source {
            fields["image_download_source"] = json!(source);
        }
        let patch = image(&fields);
        alpha
            .api
            .patch(&format!("/v1/nodes/{node}"), &patch)
            .await
            .expect("a patch");
        let active = alpha.api.bring(&node, "active", "active").await;
        assert!(active["last_error"].is_null(), "{active}");
        site.assert_deployed(0);
        assert_eq!(fetched(), expected, "{source:?}");
        alpha.api.bring(&node, "deleted", "available").await;
    }
}
