//! What each Redfish profile takes, refuses and does, request by request.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as its body may")]

mod support;

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use sim::{BootOutcome, BootTarget, Device, Profile};
use support::*;

/// How a CD goes into one model, and how it is booted once.
struct Model {
    name: &'static str,
    system: &'static str,
    cd: &'static str,
    /// Method, last part of the path, members beside `Image`.
    insert: (Method, &'static str, Value),
    eject: (Method, &'static str, Value),
    /// Path below the service root, and the body, of a boot from the virtual CD.
    boot: (&'static str, Value),
}

const ACTION: &str = "/Actions/VirtualMedia.InsertMedia";
const EJECT: &str = "/Actions/VirtualMedia.EjectMedia";

fn boot(target: &str) -> Value {
    json!({"Boot": {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": "Once"}})
}

fn models() -> Vec<Model> {
    let post = |action| (Method::POST, action, json!({}));
    let plain = |name, cd| Model {
        name,
        system: "Systems/1",
        cd,
        insert: post(ACTION),
        eject: post(EJECT),
        boot: ("Systems/1", boot("Cd")),
    };
    let ami = json!({
        "TransferProtocolType": "HTTP", "TransferMethod": "Stream", "UserName": "none", "Password": "none",
    });
    vec![
        Model {
            insert: post("/Actions/Oem/Hp/HpiLOVirtualMedia.InsertVirtualMedia"),
            eject: post("/Actions/Oem/Hp/HpiLOVirtualMedia.EjectVirtualMedia"),
            ..plain("ilo4", "Managers/1/VirtualMedia/2")
        },
        plain("ilo5", "Managers/1/VirtualMedia/2"),
        plain("ilo6", "Managers/1/VirtualMedia/2"),
        plain("ilo7", "Managers/1/VirtualMedia/2"),
        plain("generic", "Managers/1/VirtualMedia/Cd"),
        Model {
            system: "Systems/System.Embedded.1",
            boot: (
                "Managers/iDRAC.Embedded.1/Attributes",
                json!({"Attributes": {"ServerBoot.1.BootOnce": "Enabled", "ServerBoot.1.FirstBootDevice": "VCD-DVD"}}),
            ),
            ..plain("dell", "Managers/iDRAC.Embedded.1/VirtualMedia/CD")
        },
        Model {
            boot: ("Systems/1", boot("UsbCd")),
            ..plain("supermicro", "Managers/1/VirtualMedia/VirtualMedia1")
        },
        Model {
            insert: (Method::PATCH, "", json!({"Inserted": true, "WriteProtected": true})),
            eject: (Method::PATCH, "", json!({"Image": null, "Inserted": false})),
            boot: ("Systems/1/Pending", boot("Cd")),
            ..plain("lenovo", "Managers/1/VirtualMedia/EXT1")
        },
        Model {
            system: "Systems/Self",
            insert: (Method::POST, ACTION, ami),
            boot: ("Systems/Self/SD", boot("Cd")),
            ..plain("ami", "Managers/Self/VirtualMedia/CD1")
        },
    ]
}

fn path(rest: &str) -> String {
    format!("/redfish/v1/{rest}")
}

impl Model {
    async fn lab(&self) -> Lab {
        lab(|config| config.profile = Profile::by_name(self.name).unwrap()).await
    }

    /// Status and message id.
    async fn send(&self, lab: &Lab, method: &Method, rest: &str, body: &Value) -> (u16, String) {
        let request = lab.request(method.clone(), &path(rest)).header("If-Match", "*");
        outcome(request.json(body).send().await.unwrap()).await
    }

    async fn insert(&self, lab: &Lab, url: &str) -> (u16, String) {
        let (method, rest, mut body) = self.insert.clone();
        body["Image"] = url.into();
        self.send(lab, &method, &format!("{}{rest}", self.cd), &body).await
    }

    async fn eject(&self, lab: &Lab) -> (u16, String) {
        let (method, rest, body) = &self.eject;
        self.send(lab, method, &format!("{}{rest}", self.cd), body).await
    }

    async fn done(&self, lab: &Lab, method: Method, rest: &str, body: &Value) {
        let (status, id) = self.send(lab, &method, rest, body).await;
        assert!((200..300).contains(&status), "{} {rest}: {status} {id}", self.name);
    }

    async fn reset(&self, lab: &Lab, kind: &str) {
        let rest = format!("{}/Actions/ComputerSystem.Reset", self.system);
        self.done(lab, Method::POST, &rest, &json!({"ResetType": kind})).await;
    }
}

fn bootable_disk(lab: &Lab) {
    let mut sector = vec![0; 512];
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(&lab.running.server(0).unwrap().disk, sector).unwrap();
}

#[tokio::test]
async fn each_model_boots_its_virtual_cd_once_and_in_its_own_shape() {
    let iso = iso("quiet");
    for model in models() {
        let images = Http::images(&[("/a.iso", iso.clone())]).await;
        let lab = model.lab().await;
        bootable_disk(&lab);
        let (status, id) = model.insert(&lab, &images.url("/a.iso")).await;
        assert!((200..300).contains(&status), "{}: {status} {id}", model.name);
        assert!(images.seen().is_empty(), "{}: an insert reads nothing", model.name);
        let (rest, body) = &model.boot;
        model.done(&lab, Method::PATCH, rest, body).await;
        model.reset(&lab, "On").await;
        let first = lab.boot_number(1).await;
        assert_eq!(
            (first.device, &first.outcome),
            (Some(BootTarget::Cd), &BootOutcome::BootedFromCd),
            "{}",
            model.name
        );
        check_shape(model.name, &images, iso.len());
        if !model.name.starts_with("ilo") {
            // Without the choice, its disk comes first.
            model.reset(&lab, "ForceRestart").await;
            assert_eq!(lab.boot_number(2).await.device, Some(BootTarget::Hdd), "{}", model.name);
        }
        lab.running.stop().await;
    }
}

/// What every request of a model's image client looked like.
fn check_shape(name: &str, images: &Http, size: usize) {
    let seen = images.seen();
    let port = images.address.port();
    let lines = |seen: &Seen| -> Vec<String> { seen.head.lines().skip(1).map(str::to_owned).collect() };
    let names = |seen: &Seen| -> Vec<String> {
        let lines = lines(seen);
        let names = lines.iter().filter_map(|line| line.split_once(':'));
        names.map(|(name, _)| name.to_owned()).collect()
    };
    let host = header(&seen[0].head, "host").unwrap();
    assert_eq!(
        host.ends_with(&format!(":{port}")),
        !name.starts_with("ilo") && name != "dell",
        "{name}: {host}"
    );
    let ranges: Vec<&str> = seen.iter().filter_map(|seen| header(&seen.head, "range")).collect();
    let width = |range: &str| -> (usize, usize) {
        let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        (first.parse().unwrap(), last.parse().unwrap())
    };
    match name {
        "generic" => {
            assert_eq!((seen.len(), ranges.len()), (1, 0), "the whole file at once");
            assert_eq!(names(&seen[0]), ["Host", "Accept-Encoding", "Accept", "Connection"]);
        }
        "dell" => {
            assert!(seen[0].head.starts_with("HEAD /a.iso HTTP/1.1\r\n"), "{}", seen[0].head);
            assert_eq!(ranges.len(), seen.len() - 1);
            for range in &ranges {
                let (first, last) = width(range);
                assert_eq!(first % 4096, 0, "{range}");
                assert!((last + 1) % 4096 == 0 || last + 1 == size, "{range}");
                assert!(last - first < 131_072, "{range}");
            }
            assert_eq!(names(&seen[1]), ["Host", "User-Agent", "Range"]);
        }
        "supermicro" | "ami" => {
            assert!(seen[0].head.starts_with("HEAD "), "{}", seen[0].head);
            assert_eq!(ranges.len(), seen.len() - 1);
        }
        _ => {
            assert_eq!(ranges.len(), seen.len(), "{name} reads ranges alone");
            for (one, range) in seen.iter().zip(&ranges) {
                assert_eq!(names(one), ["Host", "Range"], "{name}");
                let padded = range.len() == "bytes=".len() + 41;
                assert_eq!(padded, name.starts_with("ilo"), "{name}: {range}");
            }
        }
    }
    let read: usize = ranges
        .iter()
        .map(|range| width(range))
        .map(|(first, last)| last + 1 - first)
        .sum();
    assert!(
        read < size || name == "generic" || name == "dell",
        "{name} read {read} of {size}"
    );
}

#[tokio::test]
async fn the_target_cd_is_the_drive_in_the_chassis_of_some() {
    for (name, system) in [("dell", "Systems/System.Embedded.1"), ("supermicro", "Systems/1")] {
        let model = models().into_iter().find(|model| model.name == name).unwrap();
        let lab = model.lab().await;
        bootable_disk(&lab);
        let (status, id) = model.insert(&lab, "http://127.0.0.1:1/a.iso").await;
        assert!((200..300).contains(&status), "{status} {id}");
        model.done(&lab, Method::PATCH, system, &boot("Cd")).await;
        model.reset(&lab, "On").await;
        assert_eq!(lab.boot_number(1).await.device, Some(BootTarget::Hdd), "{name}");
    }
}

#[tokio::test]
async fn a_slot_that_holds_something_refuses_another_image_where_it_does() {
    for model in models() {
        let lab = model.lab().await;
        let (first, _) = model.insert(&lab, "http://127.0.0.1:1/a.iso").await;
        assert!((200..300).contains(&first), "{}", model.name);
        let (status, id) = model.insert(&lab, "http://127.0.0.1:1/b.iso").await;
        let held = lab.running.inserted(0, Device::Cd).unwrap().unwrap();
        let refused = match model.name {
            "generic" | "lenovo" | "ami" => None,
            "dell" => Some((500, "IDRAC.2.4.VRM0012")),
            "supermicro" => Some((400, "Base.1.4.ResourceInUse")),
            "ilo4" => Some((400, "iLO.0.10.MaxVirtualMediaConnectionEstablished")),
            "ilo5" => Some((400, "iLO.2.14.MaxVirtualMediaConnectionEstablished")),
            "ilo6" => Some((400, "iLO.2.33.MaxVirtualMediaConnectionEstablished")),
            _ => Some((400, "iLO.2.37.MaxVirtualMediaConnectionEstablished")),
        };
        match refused {
            Some(wanted) => {
                assert_eq!((status, id.as_str()), wanted, "{}", model.name);
                assert!(held.ends_with("/a.iso"), "{}: {held}", model.name);
            }
            None => assert!(held.ends_with("/b.iso"), "{}: {status} {id}: {held}", model.name),
        }
        let (status, id) = model.eject(&lab).await;
        assert!((200..300).contains(&status), "{}: {status} {id}", model.name);
        assert!(lab.running.inserted(0, Device::Cd).unwrap().is_none(), "{}", model.name);
    }
}

#[tokio::test]
async fn what_a_slot_shows_after_an_eject_is_what_that_model_shows() {
    for model in models() {
        let lab = model.lab().await;
        let cd = path(model.cd);
        let before = lab.get(&cd).await;
        model.insert(&lab, "http://127.0.0.1:1/a.iso").await;
        assert_eq!(lab.get(&cd).await["Inserted"], true, "{}", model.name);
        model.eject(&lab).await;
        let after = lab.get(&cd).await;
        assert_eq!(after["Inserted"], model.name == "dell", "{} still says so", model.name);
        let stale = matches!(model.name, "dell" | "supermicro");
        assert_eq!(
            after["Image"] == "http://127.0.0.1:1/a.iso",
            stale,
            "{}: {after}",
            model.name
        );
        let lists = |slot: &Value, action: &str| slot["Actions"][format!("#VirtualMedia.{action}")].is_object();
        let actions = !matches!(model.name, "lenovo" | "ilo4");
        assert_eq!(lists(&before, "InsertMedia"), actions, "{}", model.name);
        assert_eq!(
            lists(&before, "EjectMedia"),
            actions && model.name != "supermicro",
            "{}",
            model.name
        );
        assert_eq!(
            before["Oem"]["Hp"].is_object() || before["Oem"]["Hpe"].is_object(),
            model.name.starts_with("ilo"),
            "{}",
            model.name
        );
    }
}

#[tokio::test]
async fn each_complaint_about_an_insert_has_that_models_words() {
    let image = "http://127.0.0.1:1/a.iso";
    let rows: &[(&str, &str, Value, (u16, &str))] = &[
        (
            "ilo4",
            "Managers/1/VirtualMedia/2/Actions/Oem/Hp/HpiLOVirtualMedia.InsertVirtualMedia",
            json!({"Image": image, "Inserted": true}),
            (400, "Base.0.10.PropertyUnknown"),
        ),
        (
            "ilo4",
            "Managers/1/VirtualMedia/2/Actions/VirtualMedia.InsertMedia",
            json!({"Image": image}),
            (404, "Base.0.10.ResourceMissingAtURI"),
        ),
        (
            "ilo5",
            "Managers/1/VirtualMedia/2/Actions/VirtualMedia.InsertMedia",
            json!({"Image": image, "TransferMethod": "Stream"}),
            (400, "Base.1.4.ActionParameterUnknown"),
        ),
        (
            "ilo5",
            "Managers/1/VirtualMedia/2/Actions/VirtualMedia.InsertMedia",
            json!({"Image": image, "UserName": "u"}),
            (400, "Base.1.4.ActionParameterUnknown"),
        ),
        (
            "ilo5",
            "Systems/1/VirtualMedia/2/Actions/VirtualMedia.InsertMedia",
            json!({"Image": image}),
            (404, "Base.1.4.ResourceMissingAtURI"),
        ),
        (
            "dell",
            "Managers/iDRAC.Embedded.1/VirtualMedia/CD/Actions/VirtualMedia.InsertMedia",
            json!({"Image": image, "WriteProtected": false}),
            (400, "IDRAC.2.4.SYS458"),
        ),
        (
            "supermicro",
            "Managers/1/VirtualMedia/VirtualMedia1/Actions/VirtualMedia.InsertMedia",
            json!({"Image": image, "Inserted": true}),
            (400, "Base.1.4.PropertyUnknown"),
        ),
        (
            "supermicro",
            "Managers/1/VirtualMedia/VirtualMedia1/Actions/VirtualMedia.InsertMedia",
            json!({"Image": image, "WriteProtected": true}),
            (400, "Base.1.4.PropertyUnknown"),
        ),
        (
            "supermicro",
            "Managers/1/VirtualMedia/VirtualMedia1/Actions/VirtualMedia.InsertMedia",
            json!({"Image": "http://h/a?sig=1&f=.iso"}),
            (400, "Base.1.4.ActionParameterValueFormatError"),
        ),
        (
            "supermicro",
            "Managers/1/VirtualMedia/VirtualMedia1/Actions/VirtualMedia.EjectMedia",
            json!({}),
            (400, "Base.1.4.ActionNotSupported"),
        ),
        (
            "lenovo",
            "Managers/1/VirtualMedia/EXT1/Actions/VirtualMedia.InsertMedia",
            json!({"Image": image}),
            (404, "Base.1.8.ResourceMissingAtURI"),
        ),
        (
            "ami",
            "Managers/Self/VirtualMedia/CD1/Actions/VirtualMedia.InsertMedia",
            json!({"Image": image}),
            (400, "Base.1.5.ActionParameterMissing"),
        ),
    ];
    for (name, rest, body, (status, id)) in rows {
        let lab = lab(|config| config.profile = Profile::by_name(name).unwrap()).await;
        let got = lab.post(&path(rest), body.clone()).await;
        assert_eq!((got.0, got.1.as_str()), (*status, *id), "{name} {rest} {body}");
        assert!(lab.running.inserted(0, Device::Cd).unwrap().is_none(), "{name} {body}");
    }
}

#[tokio::test]
async fn an_ami_complains_step_by_step_and_of_credentials_together() {
    let lab = lab(|config| config.profile = Profile::by_name("ami").unwrap()).await;
    let insert = path("Managers/Self/VirtualMedia/CD1/Actions/VirtualMedia.InsertMedia");
    let mut body = json!({"Image": "http://127.0.0.1:1/a.iso"});
    for (missing, value) in [
        (&["TransferProtocolType"][..], "HTTP"),
        (&["TransferMethod"], "Stream"),
        (&["UserName", "Password"], "none"),
    ] {
        let reply = lab.request(Method::POST, &insert).json(&body).send().await.unwrap();
        assert_eq!(reply.status(), 400);
        let error: Value = reply.json().await.unwrap();
        let told = error["error"]["@Message.ExtendedInfo"].as_array().unwrap();
        let args: Vec<Value> = told.iter().map(|info| info["MessageArgs"].clone()).collect();
        let wanted: Vec<Value> = missing.iter().map(|name| json!([insert, name])).collect();
        assert_eq!(args, wanted);
        assert_eq!(told[0]["RelatedProperties"], json!([format!("#/{}", missing[0])]));
        assert!(told[0]["Message"].as_str().unwrap().contains(missing[0]));
        for name in missing {
            body[*name] = value.into();
        }
    }
    assert_eq!(lab.post(&insert, body).await.0, 204);
}

#[tokio::test]
async fn a_lenovo_wants_the_tag_and_only_its_ext_slots_fetch() {
    let lab = lab(|config| config.profile = Profile::by_name("lenovo").unwrap()).await;
    let body = json!({"Image": "http://127.0.0.1:1/a.iso", "Inserted": true, "WriteProtected": true});
    let slot = path("Managers/1/VirtualMedia/EXT1");
    is(
        &lab.patch(&slot, body.clone()).await,
        428,
        "Base.1.8.PreconditionRequired",
    );
    let reply = lab.request(Method::GET, &slot).send().await.unwrap();
    let tag = reply.headers()["etag"].clone();
    let patch = async |slot: &str, tag: &str| {
        let request = lab.request(Method::PATCH, slot).header("If-Match", tag).json(&body);
        outcome(request.send().await.unwrap()).await
    };
    is(&patch(&slot, "\"0\"").await, 412, "Base.1.8.PreconditionFailed");
    assert_eq!(patch(&slot, tag.to_str().unwrap()).await.0, 204);
    let refused = patch(&path("Managers/1/VirtualMedia/RDOC1"), "*").await;
    is(&refused, 400, "Base.1.8.ActionNotSupported");
    let system = patch(&path("Systems/1"), "*").await;
    assert_eq!(system.0, 400, "the boot override is at Pending");
    let collection = lab.get(&path("Managers/1/VirtualMedia")).await;
    assert_eq!(collection["Members@odata.count"], 10);
}

#[tokio::test]
async fn an_ami_says_yes_at_the_system_and_means_its_settings() {
    let lab = lab(|config| config.profile = Profile::by_name("ami").unwrap()).await;
    let patch = async |rest: &str| {
        let request = lab.request(Method::PATCH, &path(rest)).header("If-Match", "*");
        request.json(&boot("Cd")).send().await.unwrap().status().as_u16()
    };
    assert_eq!(patch("Systems/Self").await, 204);
    assert_eq!(
        lab.get(&path("Systems/Self")).await["Boot"]["BootSourceOverrideTarget"],
        "None"
    );
    assert_eq!(patch("Systems/Self/SD").await, 204);
    assert_eq!(
        lab.get(&path("Systems/Self")).await["Boot"]["BootSourceOverrideTarget"],
        "Cd"
    );
}

#[tokio::test]
async fn a_supermicro_makes_a_task_that_is_missing_at_first() {
    let model = models().into_iter().find(|model| model.name == "supermicro").unwrap();
    let lab = model.lab().await;
    let insert = path(&format!("{}{ACTION}", model.cd));
    let body = json!({"Image": "http://127.0.0.1:1/a.iso"});
    let reply = lab.request(Method::POST, &insert).json(&body).send().await.unwrap();
    assert_eq!(reply.status(), 202);
    let task = reply.headers()["location"].to_str().unwrap().to_owned();
    let look = || lab.request(Method::GET, &task).send();
    assert_eq!(look().await.unwrap().status(), 404);
    let done: Value = look().await.unwrap().json().await.unwrap();
    assert_eq!(
        (&done["TaskState"], &done["TaskStatus"]),
        (&json!("Completed"), &json!("OK"))
    );
}

#[tokio::test]
async fn without_its_licence_an_ilo_takes_no_media() {
    for name in ["ilo4", "ilo5", "ilo6", "ilo7"] {
        let model = models().into_iter().find(|model| model.name == name).unwrap();
        let lab = lab(|config| {
            config.profile = Profile::by_name(name).unwrap();
            config.unlicensed = true;
        })
        .await;
        let (status, id) = model.insert(&lab, "http://127.0.0.1:1/a.iso").await;
        assert_eq!(status, 403, "{name}");
        assert!(id.ends_with(".LicenseKeyRequired"), "{name}: {id}");
        let manager = lab.get(&path("Managers/1")).await;
        let (oem, licence) = match name {
            "ilo4" => ("Hp", "iLO 4 Standard"),
            _ => ("Hpe", "iLO Standard"),
        };
        assert_eq!(manager["Oem"][oem]["License"]["LicenseString"], licence, "{name}");
    }
}

#[tokio::test]
async fn an_early_ilo5_wants_the_trailing_slash() {
    let early = Profile::parse("like = 'ilo5'\nname = 'early'\n[redfish]\nslash = 'redirect'").unwrap();
    let lab = lab(|config| config.profile = early).await;
    let client = reqwest::Client::builder()
        .tls_certs_only([reqwest::Certificate::from_pem(&std::fs::read(lab.running.ca_pem()).unwrap()).unwrap()])
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .unwrap();
    let reply = client.get(lab.url(SYSTEM)).send().await.unwrap();
    assert_eq!(reply.status(), 308);
    assert_eq!(reply.headers()["location"], format!("{SYSTEM}/").as_str());
    // Who follows it with method and body gets there.
    let eject = format!("{CD}{EJECT}");
    is(
        &lab.post(&eject, json!({})).await,
        400,
        "iLO.2.14.NoVirtualMediaConnectionAvailable",
    );
}

#[tokio::test]
async fn registries_refuse_a_client_that_takes_identity_alone() {
    let lab = lab(|_| {}).await;
    for (encoding, status) in [("identity", 406), ("gzip, identity", 200)] {
        for (rest, wanted) in [("Registries/", status), ("Systems/1", 200)] {
            let request = lab
                .request(Method::GET, &path(rest))
                .header("Accept-Encoding", encoding);
            assert_eq!(request.send().await.unwrap().status(), wanted, "{rest} {encoding}");
        }
    }
}

#[tokio::test]
async fn tags_are_strong_weak_empty_or_missing() {
    for (kind, header, shown) in [
        ("strong", "\"", "\""),
        ("weak", "W/\"", "W/\""),
        ("empty", "", ""),
        ("missing", "-", ""),
    ] {
        let own = format!("like = 'generic'\nname = 'tags'\n[redfish]\netag = '{kind}'");
        let profile = Profile::parse(&own).unwrap();
        let lab = lab(|config| config.profile = profile).await;
        let reply = lab.request(Method::GET, SYSTEM).send().await.unwrap();
        let tag = reply
            .headers()
            .get("etag")
            .map_or("-", |tag| tag.to_str().unwrap())
            .to_owned();
        assert!(
            tag.starts_with(header) && tag.is_empty() == header.is_empty(),
            "{kind}: {tag}"
        );
        let body: Value = reply.json().await.unwrap();
        assert!(
            body["@odata.etag"].as_str().unwrap_or_default().starts_with(shown),
            "{kind}"
        );
        let patch = async |tag: &str| {
            let request = lab.request(Method::PATCH, SYSTEM).header("If-Match", tag);
            request.json(&boot("Cd")).send().await.unwrap().status().as_u16()
        };
        assert_eq!(patch("\"other\"").await, 412, "{kind}");
        assert_eq!(patch("*").await, 204, "{kind}");
    }
}

#[tokio::test]
async fn a_late_complaint_comes_after_the_deed() {
    let own = "like = 'generic'\nname = 'late'\n[redfish]\nif-match = 'required-late'";
    let profile = Profile::parse(own).unwrap();
    let lab = lab(|config| config.profile = profile).await;
    is(&lab.patch(SYSTEM, boot("Cd")).await, 412, "Base.1.8.PreconditionFailed");
    assert_eq!(lab.get(SYSTEM).await["Boot"]["BootSourceOverrideTarget"], "Cd");
}

#[tokio::test]
async fn media_and_boot_settings_can_live_with_the_system() {
    let own = "like = 'dell'\nname = 'idrac10'\nfirmware = '1.20.25.00'\n[redfish]\nmedia-under = ['systems']\n[redfish.boot]\nplace = 'settings-only'";
    let profile = Profile::parse(own).unwrap();
    let lab = lab(|config| config.profile = profile).await;
    let system = lab.get(&path("Systems/System.Embedded.1")).await;
    assert_eq!(system["Boot"], json!({}));
    let media = system["VirtualMedia"]["@odata.id"].as_str().unwrap().to_owned();
    assert!(lab.get(&path("Managers/iDRAC.Embedded.1")).await["VirtualMedia"].is_null());
    let insert = format!("{media}/CD{ACTION}");
    assert_eq!(
        lab.post(&insert, json!({"Image": "http://127.0.0.1:1/a.iso"})).await.0,
        204
    );
    let settings = system["@Redfish.Settings"]["SettingsObject"]["@odata.id"]
        .as_str()
        .unwrap();
    assert_eq!(lab.patch(settings, boot("Pxe")).await.0, 204);
    assert_eq!(lab.get(settings).await["Boot"]["BootSourceOverrideTarget"], "Pxe");
}

#[tokio::test]
async fn a_full_session_table_is_worded_as_that_model_words_it() {
    for (name, cap, status, id) in [
        ("dell", 8, 400, "IDRAC.2.4.RAC0218"),
        ("ilo6", 16, 400, "Base.1.18.CreateLimitReachedForResource"),
        ("generic", 16, 400, "Base.1.8.CreateLimitReachedForResource"),
    ] {
        let lab = lab(|config| config.profile = Profile::by_name(name).unwrap()).await;
        let body = json!({"UserName": USER, "Password": PASSWORD});
        for _ in 0..cap {
            assert_eq!(
                lab.post(&path("SessionService/Sessions"), body.clone()).await.0,
                201,
                "{name}"
            );
        }
        is(&lab.post(&path("SessionService/Sessions"), body).await, status, id);
        assert_eq!(lab.running.sessions(0).unwrap(), cap);
    }
}

#[tokio::test]
async fn bios_names_of_the_boot_mode_are_each_vendors_own() {
    for (name, settings, attribute, legacy) in [
        ("ilo5", "Systems/1/Bios/Settings", "BootMode", "LegacyBios"),
        ("dell", "Systems/System.Embedded.1/Bios/Settings", "BootMode", "Bios"),
        ("supermicro", "Systems/1/Bios/Settings", "BootModeSelect", "Legacy"),
        (
            "lenovo",
            "Systems/1/Bios/Pending",
            "BootModes_SystemBootMode",
            "LegacyMode",
        ),
    ] {
        let lab = lab(|config| config.profile = Profile::by_name(name).unwrap()).await;
        let patch = async |value: &str| {
            let request = lab.request(Method::PATCH, &path(settings)).header("If-Match", "*");
            let body = json!({"Attributes": {attribute: value}});
            request.json(&body).send().await.unwrap().status().as_u16()
        };
        assert_eq!(patch("No such mode").await, 400, "{name}");
        assert!(matches!(patch(legacy).await, 200 | 204), "{name}");
        assert_eq!(
            lab.get(&path(settings)).await["Attributes"][attribute],
            legacy,
            "{name}"
        );
    }
    let lab = lab(|config| config.profile = Profile::by_name("ilo4").unwrap()).await;
    let flat = lab.get(&path("Systems/1/Bios")).await;
    assert_eq!(flat["BootMode"], "Uefi");
    assert_eq!(flat["links"]["Settings"]["href"], "/redfish/v1/Systems/1/Bios/Settings");
    let changed = lab
        .patch(&path("Systems/1/Bios/Settings"), json!({"BootMode": "LegacyBios"}))
        .await;
    is(&changed, 200, "iLO.0.10.SystemResetRequired");
}

#[tokio::test]
async fn every_link_of_every_model_leads_to_a_resource_that_says_what_it_is() {
    for model in models() {
        let lab = model.lab().await;
        model.insert(&lab, "http://127.0.0.1:1/a.iso").await;
        let mut open = vec!["/redfish/v1/".to_owned()];
        let mut seen: Vec<String> = Vec::new();
        while let Some(next) = open.pop() {
            let at = next.trim_end_matches('/').to_owned();
            if seen.contains(&at) {
                continue;
            }
            let mut body = lab.get(&next).await;
            // A task may be missing at first.
            assert_eq!(body["@odata.id"].as_str().unwrap(), at, "{}", model.name);
            for member in ["@odata.type", "Name"] {
                assert!(body[member].is_string(), "{}: {at} has no {member}", model.name);
            }
            assert!(
                body["Id"].is_string() || body["Members"].is_array(),
                "{}: {at} has no Id",
                model.name
            );
            links(&mut body, &mut open);
            seen.push(at);
        }
        assert!(seen.len() >= 14, "{}: {seen:?}", model.name);
    }
}

fn links(value: &mut Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match member.as_str() {
                    Some(link) if key == "@odata.id" => found.push(link.to_owned()),
                    _ => links(member, found),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| links(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn a_bmc_reset_loses_what_that_model_loses() {
    for (own, kept) in [
        ("like = 'ilo5'\nname = 'loses'", false),
        (
            "like = 'ilo5'\nname = 'keeps'\n[redfish]\nbmc-reset-keeps-media = true",
            true,
        ),
    ] {
        let profile = Profile::parse(own).unwrap();
        let lab = lab(|config| {
            config.profile = profile;
            config.timing.bmc_reset = Duration::from_millis(50);
        })
        .await;
        lab.insert(CD, "http://127.0.0.1:1/a.iso").await;
        let reset = path("Managers/1/Actions/Manager.Reset");
        is(&lab.post(&reset, json!({})).await, 200, "iLO.2.14.ResetInProgress");
        assert_eq!(lab.running.inserted(0, Device::Cd).unwrap().is_some(), kept);
    }
}
