//! `farrier bmc probe`.

use anyhow::Result;
use bmc::probe::{Capabilities, Presence, Probe};
use model::ServerIdentity;
use serde_json::{Value, json};

use super::Target;
use super::connect::interruptible;
use super::verbs::{mode_name, settings_json, settings_text};
use crate::output::{self, Format};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(super) async fn run(args: Args, format: Format) -> Result<()> {
    let config = args.target.config()?;
    let found = interruptible(async { Ok(bmc::probe::probe(&config).await?) }).await?;
    match format {
        Format::Json => output::json(&as_json(&found)),
        Format::Table => {
            show(&found);
            Ok(())
        }
    }
}

fn show(found: &Probe) {
    let rows = found.findings.iter().map(|finding| {
        let (spoken, version, oem) = match &finding.presence {
            Presence::Spoken { version, oem } => (
                "yes",
                version.clone().unwrap_or_default(),
                oem.clone().unwrap_or_default(),
            ),
            Presence::Absent(why) => ("no", why.clone(), String::new()),
        };
        let best = if finding.transport == found.transport {
            "goes by this"
        } else {
            ""
        };
        [
            finding.transport.to_string(),
            spoken.to_owned(),
            version,
            oem,
            best.to_owned(),
        ]
    });
    output::table(["protocol", "spoken", "version, or why not", "vendor part", ""], rows);
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let can = |result: &Result<(), String>| match result {
        Ok(()) => "yes".to_owned(),
        Err(why) => format!("no: {why}"),
    };
    let Capabilities {
        cdrom,
        floppy,
        boot_once,
        server_certificate,
        boot_settings,
        boot_mode,
        secure_boot,
    } = &found.capabilities;
    let mut rows = identity_rows(&found.identity);
    rows.extend([
        ["virtual CD".to_owned(), can(cdrom)],
        ["virtual floppy".to_owned(), can(floppy)],
        ["media that boot once by themselves".to_owned(), yes(*boot_once)],
        [
            "takes the image server's certificate".to_owned(),
            yes(*server_certificate),
        ],
        ["boots from".to_owned(), told(boot_settings, settings_text)],
        [
            "boot mode".to_owned(),
            told(boot_mode, |mode| mode_name(*mode).to_owned()),
        ],
        [
            "secure boot".to_owned(),
            told(secure_boot, |on| if *on { "on" } else { "off" }.to_owned()),
        ],
    ]);
    output::table(["what", "value"], rows);
}

fn told<T>(result: &Result<T, String>, show: impl Fn(&T) -> String) -> String {
    match result {
        Ok(value) => show(value),
        Err(why) => format!("not told: {why}"),
    }
}

pub(super) fn identity_rows(identity: &ServerIdentity) -> Vec<[String; 2]> {
    let macs: Vec<String> = identity.macs.iter().map(ToString::to_string).collect();
    let rows = [
        ("vendor", identity.vendor.clone()),
        ("model", identity.model.clone()),
        ("serial number", identity.serial.clone()),
        ("BMC", identity.bmc_model.clone()),
        ("BMC firmware", identity.bmc_firmware.clone()),
        ("BMC licence", identity.bmc_license.clone()),
        ("network ports", Some(macs.join(", ")).filter(|macs| !macs.is_empty())),
    ];
    rows.into_iter()
        .map(|(name, value)| [name.to_owned(), value.unwrap_or_else(|| "not told".to_owned())])
        .collect()
}

fn as_json(found: &Probe) -> Value {
    fn of<T>(result: &Result<T, String>, value: impl Fn(&T) -> Value) -> Value {
        match result {
            Ok(told) => value(told),
            Err(why) => json!({"error": why}),
        }
    }
    let protocols: Vec<Value> = found
        .findings
        .iter()
        .map(|finding| match &finding.presence {
            Presence::Spoken { version, oem } => {
                json!({"protocol": finding.transport.as_str(), "spoken": true, "version": version, "oem": oem})
            }
            Presence::Absent(why) => json!({"protocol": finding.transport.as_str(), "spoken": false, "reason": why}),
        })
        .collect();
    let can = &found.capabilities;
    json!({
        "transport": found.transport.as_str(),
        "protocols": protocols,
        "identity": identity_json(&found.identity),
        "capabilities": {
            "cdrom": of(&can.cdrom, |()| json!(true)),
            "floppy": of(&can.floppy, |()| json!(true)),
            "boot_once": can.boot_once,
            "server_certificate": can.server_certificate,
            "boot_settings": of(&can.boot_settings, settings_json),
            "boot_mode": of(&can.boot_mode, |mode| json!(mode_name(*mode))),
            "secure_boot": of(&can.secure_boot, |on| json!(on)),
        },
    })
}

pub(super) fn identity_json(identity: &ServerIdentity) -> Value {
    json!({
        "vendor": identity.vendor, "model": identity.model, "serial": identity.serial,
        "bmc_model": identity.bmc_model, "bmc_generation": identity.bmc_generation,
        "bmc_firmware": identity.bmc_firmware, "bmc_license": identity.bmc_license,
        "macs": identity.macs.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
