//! The keys under `world`, and the world that they describe. A case's keys stand in place of the suite's, one by one.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use model::{ArtefactKind, BootDevice, BootMode, Device};
use runtime::Candidate;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::machine::{Artefact, Machine, Medium, Slot};
use crate::nearest::unknown;
use crate::nouns::{Kind, Power};
use crate::reply::typed;

/// Longest POST.
const MAX_POST_S: u32 = 86_400;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
#[derive(Default)]
struct WorldFile {
    power: Option<Power>,
    boot_mode: Option<String>,
    secure_boot: Option<Json>,
    boot_device: Option<BootFile>,
    cdrom: Option<Json>,
    floppy: Option<Json>,
    post_s: u32,
    artefacts: BTreeMap<String, ArtefactFile>,
    state: BTreeMap<String, String>,
    missing_images: Vec<String>,
    secrets: Option<Vec<String>>,
    redfish: BTreeMap<String, Json>,
    ribcl: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BootFile {
    device: String,
    #[serde(default)]
    persistent: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct ArtefactFile {
    backend: Option<String>,
    digest: Option<String>,
    expires_in_s: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MediumFile {
    artefact: Option<Kind>,
    url: Option<String>,
}

/// The suite's `world` with the case's over it; both are mappings.
pub(super) fn merged(suite: Option<&Json>, case: Option<&Json>) -> Result<Json, String> {
    let mut all = Map::new();
    for given in [suite, case].into_iter().flatten() {
        let Json::Object(map) = given else {
            return Err("`world` is a mapping".to_owned());
        };
        all.extend(map.clone());
    }
    Ok(Json::Object(all))
}

/// The world as a file describes it.
pub(super) fn machine(file: Json, seed: u64, clock: SystemTime, backends: Vec<Candidate>) -> Result<Machine, String> {
    let file: WorldFile = typed(file)?;
    let default_backend = backends
        .first()
        .map_or("local", |backend| backend.id.as_str())
        .to_owned();
    let mut machine = Machine::new(seed, clock, backends);
    if let Some(power) = file.power {
        machine.power = power.0;
    }
    if let Some(mode) = file.boot_mode {
        machine.boot_mode = match mode.as_str() {
            "bios" => Some(BootMode::Bios),
            "uefi" => Some(BootMode::Uefi),
            "unsupported" => None,
            other => return Err(unknown("boot mode", other, &["bios", "uefi", "unsupported"])),
        };
    }
    if let Some(secure) = file.secure_boot {
        machine.secure_boot = match secure {
            Json::Bool(secure) => Some(secure),
            Json::String(word) if word == "unsupported" => None,
            _ => return Err("`secure-boot` is true, false or unsupported".to_owned()),
        };
    }
    if let Some(boot) = file.boot_device {
        machine.boot_device = Some((boot_device(&boot.device)?, boot.persistent));
    }
    if file.post_s > MAX_POST_S {
        return Err(format!("`post-s` is at most {MAX_POST_S}"));
    }
    machine.post_until = clock + Duration::from_secs(file.post_s.into());
    for (kind, about) in file.artefacts {
        let kind = typed::<Kind>(json!(kind))?.0;
        let name = machine.names.next();
        let backend = about.backend.unwrap_or_else(|| default_backend.clone());
        let artefact = Artefact {
            url: format!("http://{backend}.example/{name:016x}.{}", kind.extension()),
            digest: about.digest.unwrap_or_else(|| format!("digest-of-an-earlier-{kind}")),
            expires: about
                .expires_in_s
                .map(|seconds| clock + Duration::from_secs(seconds.into())),
            backend,
        };
        machine.artefacts.insert(kind, artefact);
    }
    if let Some(slot) = file.cdrom {
        machine.cdrom = filled(&machine, Device::Cdrom, slot)?;
    }
    if let Some(slot) = file.floppy {
        machine.floppy = filled(&machine, Device::Floppy, slot)?;
    }
    machine.kept = file.state;
    for source in &file.missing_images {
        let known = ["deploy", "rescue", "instance"];
        let is_reference = source.contains("://") || source.contains('/');
        if !is_reference && !known.contains(&source.as_str()) {
            return Err(unknown("source of a boot ISO", source, &known));
        }
    }
    machine.missing = file.missing_images.into_iter().collect();
    if let Some(secrets) = file.secrets {
        machine.secrets = secrets.into_iter().collect();
    }
    machine.redfish = file.redfish;
    machine.ribcl = file.ribcl;
    Ok(machine)
}

fn filled(machine: &Machine, device: Device, slot: Json) -> Result<Slot, String> {
    let name = device.as_str();
    let medium: MediumFile = match slot {
        Json::String(word) if word == "empty" => return Ok(Slot::Empty),
        Json::String(word) if word == "missing" => return Ok(Slot::Missing),
        slot @ Json::Object(_) => typed(slot)?,
        _ => return Err(format!("`{name}` is empty, missing, {{artefact: …}} or {{url: …}}")),
    };
    match (medium.artefact, medium.url) {
        (Some(Kind(kind)), None) => published(machine, kind, name),
        (None, Some(url)) => Ok(Slot::Holds(Medium {
            display: url.clone(),
            url,
        })),
        _ => Err(format!("`{name}` holds an `artefact` or a `url`")),
    }
}

fn published(machine: &Machine, kind: ArtefactKind, slot: &str) -> Result<Slot, String> {
    let artefact = machine
        .artefacts
        .get(&kind)
        .ok_or_else(|| format!("`{slot}` holds a {kind} that is not under `artefacts`"))?;
    Ok(Slot::Holds(Medium {
        url: artefact.url.clone(),
        display: format!("http://{}.example/***.{}", artefact.backend, kind.extension()),
    }))
}

fn boot_device(name: &str) -> Result<BootDevice, String> {
    Ok(match name {
        "cdrom" => BootDevice::Cdrom,
        "floppy" => BootDevice::Floppy,
        "disk" => BootDevice::Disk,
        "network" => BootDevice::Network,
        "uefi-http" => BootDevice::UefiHttp,
        other => {
            let known = ["cdrom", "floppy", "disk", "network", "uefi-http"];
            return Err(unknown("boot device", other, &known));
        }
    })
}
