//! A network card with iPXE: what DHCP names is fetched and run, in both firmwares, as iPXE would.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as its body may")]

mod support;

use std::collections::HashMap;

use sim::{BootMode, BootOutcome, BootTarget};
use support::*;

const MAC: &str = "52-54-00-10-00-00";

/// A web server with these files, and a machine that is told to boot `/boot.ipxe` from it once.
async fn netboot(mode: BootMode, files: &[(&str, String)]) -> (Lab, Http) {
    let files: HashMap<String, Vec<u8>> = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.clone().into_bytes()))
        .collect();
    let web = Http::start(move |seen| range_answer(&files, seen)).await;
    let port = web.address.port();
    let lab = lab(|config| {
        config.boot_mode = Some(mode);
        // Guests see the host there.
        config.bootfile = Some(format!("http://10.0.2.2:{port}/boot.ipxe"));
    })
    .await;
    lab.boot_once("Pxe").await;
    lab.reset("On").await;
    (lab, web)
}

fn fetched(web: &Http) -> Vec<String> {
    web.seen().iter().map(|seen| seen.target().to_owned()).collect()
}

fn reason(outcome: BootOutcome) -> String {
    match outcome {
        BootOutcome::Failed { reason } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_chained_script_boots_kernel_and_ramdisk_named_beside_it() {
    for mode in [BootMode::Uefi, BootMode::LegacyBios] {
        let conductor = conductor().await;
        let line = format!(
            "ipa-api-url=http://10.0.2.2:{} ipa-agent-token={TOKEN}",
            conductor.address.port()
        );
        let (lab, web) = netboot(
            mode,
            &[
                ("/boot.ipxe", "#!ipxe\nchain nothing ||\nchain cards/${mac:hexhyp} ||\nexit 1\n".into()),
                (
                    &format!("/cards/{MAC}"),
                    format!("#!ipxe\nimgfree\nkernel ../n/kernel initrd=r {line} || exit 1\ninitrd --name r ../n/ramdisk\nboot\n"),
                ),
                ("/n/kernel", "k".repeat(100_000)),
                ("/n/ramdisk", "r".repeat(300_000)),
            ],
        )
        .await;
        callback(&conductor).await;
        let boot = lab.boot_number(1).await;
        assert_eq!((boot.device, boot.outcome), (Some(BootTarget::Pxe), BootOutcome::Agent));
        let cards = format!("/cards/{MAC}");
        assert_eq!(
            fetched(&web),
            ["/boot.ipxe", "/nothing", &cards, "/n/kernel", "/n/ramdisk"]
        );
    }
}

#[tokio::test]
async fn a_script_that_ends_gives_the_firmware_its_next_device() {
    let (lab, _web) = netboot(
        BootMode::Uefi,
        &[(
            "/boot.ipxe",
            "#!ipxe\niseq ${platform} efi && exit 1 ||\nsanboot --no-describe --drive 0x80\n".into(),
        )],
    )
    .await;
    let why = reason(lab.boot_number(1).await.outcome);
    assert!(
        why.contains("pxe: the script ended with status 1; cd: no medium"),
        "{why}"
    );

    let lab = self::lab(|config| config.boot_mode = Some(BootMode::LegacyBios)).await;
    lab.boot_once("Pxe").await;
    lab.reset("On").await;
    let why = reason(lab.boot_number(1).await.outcome);
    assert!(why.starts_with("pxe: no answer; "), "{why}");
}

#[tokio::test]
async fn a_bios_boots_its_disk_from_a_script() {
    let files = HashMap::from([(
        "/boot.ipxe".to_owned(),
        b"#!ipxe\nsanboot --no-describe --drive 0x80 || exit 1\n".to_vec(),
    )]);
    let web = Http::start(move |seen| range_answer(&files, seen)).await;
    let lab = lab(|config| {
        config.boot_mode = Some(BootMode::LegacyBios);
        config.bootfile = Some(web.url("/boot.ipxe"));
    })
    .await;
    let disk = lab.running.server(0).unwrap().disk.clone();
    let mut image = vec![0; 1 << 20];
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(disk, image).unwrap();
    lab.boot_once("Pxe").await;
    lab.reset("On").await;
    let boot = lab.boot_number(1).await;
    assert_eq!(
        (boot.device, boot.outcome),
        (Some(BootTarget::Pxe), BootOutcome::BootedFromDisk)
    );
}

#[tokio::test]
async fn what_ipxe_would_not_do_fails_here_too() {
    let kernel = |rest: &str| format!("#!ipxe\nkernel kernel {rest}\ninitrd --name r kernel\nboot\n");
    for (script, why) in [
        ("no script".to_owned(), "exec format error"),
        ("#!ipxe\nfrobnicate\n".into(), "command not found"),
        ("#!ipxe\ngoto nowhere\n".into(), "no label"),
        ("#!ipxe\n:a\ngoto a\n".into(), "circle"),
        ("#!ipxe\nchain boot.ipxe\n".into(), "without end"),
        ("#!ipxe\nboot\n".into(), "no kernel"),
        ("#!ipxe\nkernel missing\n".into(), "404"),
        ("#!ipxe\nkernel --mystery kernel\n".into(), "unrecognised option"),
        ("#!ipxe\nkernel kernel\nboot\n".into(), "no ramdisk"),
        ("#!ipxe\nkernel https://10.0.2.2/kernel\n".into(), "knows no https"),
        (kernel("initrd=other"), "no ramdisk called other"),
        // A comment swallows the rest of the line.
        ("#!ipxe\nchain #x\n".into(), "takes one script"),
        ("#!ipxe\nisset ${nothing}\n".into(), "empty"),
    ] {
        let files = [("/boot.ipxe", script.clone()), ("/kernel", "k".into())];
        let (lab, _web) = netboot(BootMode::Uefi, &files).await;
        let got = reason(lab.boot_number(1).await.outcome);
        assert!(got.contains(why), "{script}: {got}");
    }
    let (lab, _web) = netboot(
        BootMode::Uefi,
        &[
            ("/boot.ipxe", kernel("initrd=r a=${mac:hexhyp} # b=c")),
            ("/kernel", "k".into()),
        ],
    )
    .await;
    assert_eq!(lab.boot_number(1).await.outcome, BootOutcome::BootedFromNetwork);
}
