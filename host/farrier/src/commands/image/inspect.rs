//! `farrier image inspect`.

use anyhow::{Context, Result};
use image::{FatVolume, IsoVolume, MARKER_PATH, Partition, partitions};
use serde_json::{Value, json};

use super::opened::{ImageArgs, Opened};
use super::volume::{Kind, Names, Volume};
use crate::output::{self, Format, OutputArgs};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let opened = args.image.open()?;
    let found = match args.image.volume(&opened) {
        Ok(volume) => of_volume(&opened, &volume)?,
        Err(error) => {
            // A disk is no volume, and its partitions are what there is to say.
            let tables = tables(&opened)?;
            if tables.is_null() {
                return Err(error);
            }
            json!({ "format": "disk", "partitions": tables })
        }
    };
    let mut told = json!({ "image": opened.name, "size": opened.source.len() });
    if let Some((kind, digest)) = &opened.recipe {
        told["recipe"] = json!({ "kind": kind, "digest": digest.to_string() });
    }
    if let (Some(told), Value::Object(found)) = (told.as_object_mut(), found) {
        told.extend(found);
    }
    match args.output.format {
        Format::Json => output::json(&told),
        Format::Table => {
            print(&told, "");
            Ok(())
        }
    }
}

fn of_volume(opened: &Opened, volume: &Volume<'_>) -> Result<Value> {
    let entries = volume
        .entries()
        .with_context(|| format!("could not read {}", opened.name))?;
    let count = |kind: &Kind| entries.iter().filter(|entry| entry.kind == *kind).count();
    let content: u64 = entries.iter().fold(0, |sum: u64, entry| sum.saturating_add(entry.len));
    let mut told = match volume {
        Volume::Fat(volume) => fat(volume)?,
        Volume::Iso { volume, .. } => iso(volume)?,
    };
    told["files"] = json!(count(&Kind::File));
    told["folders"] = json!(count(&Kind::Folder));
    told["content"] = json!(content);
    if let Some(lacking) = volume.lacking() {
        told["lacking"] = json!(lacking);
    }
    // What begins as a boot sector of FAT may be taken for a table.
    if matches!(volume, Volume::Iso { .. }) {
        let tables = tables(opened)?;
        if !tables.is_null() {
            told["partitions"] = tables;
        }
        let marker = MARKER_PATH.trim_start_matches('/');
        told["farrier-boot-iso"] = json!(entries.iter().any(|entry| entry.path == marker));
    }
    Ok(told)
}

fn fat(volume: &FatVolume<'_>) -> Result<Value> {
    let serial = volume.serial();
    Ok(json!({
        "format": format!("FAT{}", volume.fat_bits()),
        "label": volume.label()?,
        "volume-size": volume.size(),
        "cluster-size": volume.cluster_bytes(),
        "clusters": volume.clusters(),
        "free": volume.free_clusters()? * volume.cluster_bytes(),
        "uuid": serial.map(|serial| format!("{:04X}-{:04X}", serial >> 16, serial & 0xFFFF)),
    }))
}

fn iso(volume: &IsoVolume<'_>) -> Result<Value> {
    let names: Vec<&str> = volume.names().into_iter().map(Names::told).collect();
    let boot: Vec<Value> = volume
        .boot_entries()?
        .into_iter()
        .map(|entry| {
            json!({
                "platform": entry.platform.to_string(), "bootable": entry.bootable, "emulation": entry.emulation,
                "offset": entry.at, "load-size": entry.load_bytes, "path": entry.path,
            })
        })
        .collect();
    Ok(json!({
        "format": "ISO 9660", "label": volume.label(), "volume-size": volume.size(), "names": names, "boot": boot,
    }))
}

/// The partition tables, or null if there are none.
fn tables(opened: &Opened) -> Result<Value> {
    let tables =
        partitions(&*opened.source).with_context(|| format!("could not read the partitions of {}", opened.name))?;
    let list = |table: &[Partition]| -> Vec<Value> {
        let told = |partition: &Partition| {
            json!({
                "number": partition.number, "kind": partition.kind.to_string(), "offset": partition.at,
                "size": partition.len, "bootable": partition.bootable, "name": partition.name,
            })
        };
        table.iter().map(told).collect()
    };
    Ok(match (tables.mbr.is_empty(), tables.gpt.is_empty()) {
        (true, true) => Value::Null,
        _ => json!({ "mbr": list(&tables.mbr), "gpt": list(&tables.gpt) }),
    })
}

/// One line a value, indented by what it belongs to; byte counts are told in two ways.
fn print(value: &Value, indent: &str) {
    let Some(fields) = value.as_object() else { return };
    for (key, value) in fields {
        match value {
            Value::Null => {}
            Value::Object(_) => {
                output::say(format_args!("{indent}{key}:"));
                print(value, &format!("{indent}  "));
            }
            Value::Array(items) if items.iter().all(Value::is_object) => {
                for item in items {
                    output::say(format_args!("{indent}{key}: {}", line(item)));
                }
            }
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(plain).collect();
                output::say(format_args!("{indent}{key}: {}", items.join(", ")));
            }
            _ => output::say(format_args!("{indent}{key}: {}", sized(key, value))),
        }
    }
}

fn line(item: &Value) -> String {
    let fields = item.as_object().into_iter().flatten();
    let parts = fields.filter(|(_, value)| !value.is_null() && value.as_str() != Some(""));
    let parts: Vec<String> = parts
        .map(|(key, value)| format!("{key} {}", sized(key, value)))
        .collect();
    parts.join(", ")
}

fn sized(key: &str, value: &Value) -> String {
    let is_bytes = matches!(
        key,
        "size" | "volume-size" | "cluster-size" | "free" | "content" | "lacking" | "load-size"
    );
    match value.as_u64() {
        Some(bytes) if is_bytes && bytes >= 1024 => format!("{bytes} ({})", output::bytes(bytes)),
        _ => plain(value),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}
