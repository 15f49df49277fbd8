//! sgdisk, fdisk and xorriso on ISOs that boot from a USB stick too.

use std::fs;

use image::{BootIsoSpec, EspSpec, Firmware, Hybrid, SourceMap, boot_iso, esp};

use crate::{Written, efi_binaries, file_of, pattern, run, source, sources, write};

fn spec(firmware: Firmware) -> (BootIsoSpec, SourceMap) {
    let (kernel, ramdisk) = (pattern(20, 3_000_001), pattern(21, 5_000_123));
    let mut spec = BootIsoSpec::new(source(&kernel), source(&ramdisk), firmware);
    if firmware != Firmware::Uefi {
        spec.isolinux = Some(file_of("isolinux", "/usr/lib/ISOLINUX/isolinux.bin").into());
        spec.ldlinux = Some(file_of("syslinux-common", "/usr/lib/syslinux/modules/bios/ldlinux.c32").into());
    }
    if firmware != Firmware::Bios {
        spec.esp = Some(esp(&EspSpec { files: efi_binaries() }).unwrap().into());
    }
    spec.hybrid = Some(Hybrid {
        mbr: (firmware != Firmware::Uefi).then(|| file_of("isolinux", "/usr/lib/ISOLINUX/isohdpfx.bin")),
    });
    (spec, sources(&[kernel, ramdisk]))
}

fn made(firmware: Firmware) -> Written {
    let (spec, sources) = spec(firmware);
    write(&boot_iso(&spec).unwrap(), &sources)
}

#[test]
fn sgdisk_finds_no_problem_and_both_partitions() {
    for (firmware, partitions) in [(Firmware::Both, 2), (Firmware::Uefi, 2), (Firmware::Bios, 1)] {
        let image = made(firmware);
        let verified = run("gdisk", "sgdisk", &["-v", image.path()]);
        assert!(verified.contains("No problems found"), "{verified}");
        let shown = run("gdisk", "sgdisk", &["-p", image.path()]);
        let lines: Vec<Vec<&str>> = shown
            .lines()
            .skip_while(|line| !line.starts_with("Number"))
            .skip(1)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines.len(), partitions, "{shown}");
        assert_eq!(lines[0][5..], ["0700", "ISO9660"], "{shown}");
        if partitions == 2 {
            assert_eq!(lines[1][5..], ["EF00", "ESP"], "{shown}");
        }
    }
}

#[test]
fn fdisk_sees_a_gpt_and_its_esp_is_the_one_that_was_given() {
    let image = made(Firmware::Both);
    let shown = run("fdisk", "fdisk", &["-l", "-o", "Start,Sectors,Type", image.path()]);
    assert!(shown.contains("Disklabel type: gpt"), "{shown}");
    let line = shown.lines().find(|line| line.ends_with("EFI System")).expect(&shown);
    let numbers: Vec<usize> = line
        .split_whitespace()
        .take(2)
        .map(|word| word.parse().unwrap())
        .collect();
    let bytes = fs::read(image.path()).unwrap();
    let partition = &bytes[numbers[0] * 512..(numbers[0] + numbers[1]) * 512];
    let expected = write(&esp(&EspSpec { files: efi_binaries() }).unwrap(), &SourceMap::default());
    assert!(partition == fs::read(expected.path()).unwrap());
    // What firmware does with the partition.
    let cut = image.path.with_extension("esp");
    fs::write(&cut, partition).unwrap();
    run("dosfstools", "fsck.vfat", &["-n", cut.to_str().unwrap()]);
}

#[test]
fn xorriso_sees_a_protective_mbr_a_gpt_and_the_same_boot_entries() {
    let image = made(Firmware::Both);
    let report = run(
        "xorriso",
        "xorriso",
        &[
            "-abort_on",
            "WARNING",
            "-indev",
            image.path(),
            "-report_system_area",
            "plain",
            "-report_el_torito",
            "plain",
        ],
    );
    for expected in [
        "System area summary: MBR isohybrid cyl-align-off GPT",
        "MBR partition      :   1   0x00  0xee",
        "MBR partition      :   2   0x80  0x00",
        "GPT partition name :   1  490053004f0039003600360030",
        "GPT partition path :   2  /boot/grub/efiboot.img",
        "El Torito img path :   1  /isolinux/isolinux.bin",
        "El Torito img path :   2  /boot/grub/efiboot.img",
    ] {
        assert!(report.contains(expected), "{expected}\n{report}");
    }
    for problem in ["GPT CRC should be", "GPT backup problems"] {
        assert!(!report.contains(problem), "{report}");
    }
    assert!(report.contains("isohybrid-suitable"), "{report}");
}
