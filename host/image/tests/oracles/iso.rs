//! xorriso, isoinfo and blkid on ISOs, and their recipes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use image::{
    BootIsoSpec, Content, EspSpec, FileSource, Firmware, IsoSpec, KERNEL_PATH, NoSources, RAMDISK_PATH, Recipe,
    SourceMap, boot_iso, esp, iso,
};

use crate::{Written, efi_binaries, file_of, pattern, run, sha256, source, sources, write};

struct Inputs {
    kernel: Bytes,
    ramdisk: Bytes,
    sources: SourceMap,
    spec: BootIsoSpec,
}

fn inputs(firmware: Firmware) -> Inputs {
    let kernel = pattern(20, 5_000_001);
    let ramdisk = pattern(21, 9_000_123);
    let mut spec = BootIsoSpec::new(source(&kernel), source(&ramdisk), firmware);
    if firmware != Firmware::Uefi {
        spec.isolinux = Some(file_of("isolinux", "/usr/lib/ISOLINUX/isolinux.bin").into());
        spec.ldlinux = Some(file_of("syslinux-common", "/usr/lib/syslinux/modules/bios/ldlinux.c32").into());
    }
    if firmware != Firmware::Bios {
        spec.esp = Some(esp(&EspSpec { files: efi_binaries() }).unwrap().into());
    }
    spec.parameters = vec![("ipa-api-url".into(), "http://192.0.2.1:6385".into())];
    spec.kernel_arguments = "nofb vga=normal console=ttyS0,115200n8".into();
    spec.files = vec![
        (
            "openstack/latest/network_data.json".into(),
            Bytes::from_static(b"{\"links\": []}").into(),
        ),
        (
            "etc/ironic-python-agent.d/ironic-tls.conf".into(),
            Bytes::from_static(b"[DEFAULT]\n").into(),
        ),
        (
            format!("names/{}.txt", "long name ".repeat(22)),
            Bytes::from_static(b"long").into(),
        ),
        (
            format!("names/{}", "l".repeat(255)),
            Bytes::from_static(b"longest").into(),
        ),
        ("names/ünïcödé ☃.txt".into(), Bytes::from_static(b"unicode").into()),
        ("names/empty".into(), Bytes::new().into()),
    ];
    Inputs {
        sources: sources(&[kernel.clone(), ramdisk.clone()]),
        kernel,
        ramdisk,
        spec,
    }
}

/// Where isolinux.cfg or a grub.cfg says its kernel line, as its reader sees it.
fn extract(image: &Written, path: &str) -> Bytes {
    let out = image.path.with_extension("out");
    let _ = fs::remove_file(&out);
    run(
        "xorriso",
        "xorriso",
        &[
            "-abort_on",
            "WARNING",
            "-osirrox",
            "on",
            "-indev",
            image.path(),
            "-extract",
            path,
            out.to_str().unwrap(),
        ],
    );
    fs::read(out).unwrap().into()
}

#[test]
fn xorriso_finds_both_boot_images_and_reads_every_file_back() {
    let inputs = inputs(Firmware::Both);
    let layout = boot_iso(&inputs.spec).unwrap();
    let image = write(&layout, &inputs.sources);
    let report = run(
        "xorriso",
        "xorriso",
        &[
            "-abort_on",
            "WARNING",
            "-indev",
            image.path(),
            "-report_el_torito",
            "plain",
        ],
    );
    let boot: Vec<Vec<&str>> = report
        .lines()
        .filter(|line| line.starts_with("El Torito boot img"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(boot.len(), 2, "{report}");
    // Columns after the colon: number, platform, bootable, emulation, load segment, hard-disk type, load size, LBA.
    assert_eq!(
        boot[0][5..=11],
        ["1", "BIOS", "y", "none", "0x0000", "0x00", "4"],
        "{report}"
    );
    assert_eq!(boot[1][6..=8], ["UEFI", "y", "none"], "{report}");
    assert!(
        report.contains("El Torito img path :   1  /isolinux/isolinux.bin"),
        "{report}"
    );
    assert!(report.contains("El Torito img opts :   1  boot-info-table"), "{report}");
    assert!(
        report.contains("El Torito img path :   2  /boot/grub/efiboot.img"),
        "{report}"
    );
    assert!(report.contains("El Torito cat path : /boot/boot.cat"), "{report}");
    assert!(report.contains("Volume id    : 'VMEDIA_BOOT_ISO'"), "{report}");

    assert!(extract(&image, KERNEL_PATH) == inputs.kernel);
    assert!(extract(&image, RAMDISK_PATH) == inputs.ramdisk);
    for (path, content) in &inputs.spec.files {
        let Content::Literal(expected) = content else {
            panic!("{path} is a literal")
        };
        assert!(extract(&image, &format!("/{path}")) == expected, "{path}");
    }
    let line = "boot_method=vmedia ipa-api-url=http://192.0.2.1:6385 nofb vga=normal console=ttyS0,115200n8";
    let isolinux = String::from_utf8(extract(&image, "/isolinux/isolinux.cfg").to_vec()).unwrap();
    assert!(
        isolinux.contains(&format!("append initrd=/boot/initrd {line}\n")),
        "{isolinux}"
    );
    assert!(isolinux.starts_with("serial 0 115200\n"), "{isolinux}");
    for path in ["/boot/grub/grub.cfg", "/EFI/debian/grub.cfg"] {
        let grub = String::from_utf8(extract(&image, path).to_vec()).unwrap();
        let quoted = line.split(' ').map(|word| format!(" '{word}'")).collect::<String>();
        assert!(grub.contains(&format!("linux /boot/vmlinuz{quoted}\n")), "{grub}");
    }
    let esp = extract(&image, "/boot/grub/efiboot.img");
    let Some(Content::Layout(given)) = &inputs.spec.esp else {
        panic!("the ESP is a layout")
    };
    let mut expected = vec![0; esp.len()];
    given.read_at(&NoSources, 0, &mut expected).unwrap();
    assert!(esp == expected);
}

#[test]
fn grub_takes_the_configuration_whatever_legal_characters_the_parameters_have() {
    let mut inputs = inputs(Firmware::Both);
    inputs.spec.parameters = vec![
        ("odd".into(), "$a${b};{c}|&d!~(e)[f]^*g@h+i=j:k%l<m>_n.o-p`q#r".into()),
        ("-.x".into(), String::new()),
    ];
    inputs.spec.kernel_arguments = "}; echo {".into();
    let image = write(&boot_iso(&inputs.spec).unwrap(), &inputs.sources);
    let config = image.path.with_extension("cfg");
    fs::write(&config, extract(&image, "/boot/grub/grub.cfg")).unwrap();
    run("grub-common", "grub-script-check", &[config.to_str().unwrap()]);
}

#[test]
fn one_firmware_alone_has_one_boot_image() {
    for (firmware, platform) in [(Firmware::Bios, "BIOS"), (Firmware::Uefi, "UEFI")] {
        let inputs = inputs(firmware);
        let image = write(&boot_iso(&inputs.spec).unwrap(), &inputs.sources);
        let report = run(
            "xorriso",
            "xorriso",
            &[
                "-abort_on",
                "WARNING",
                "-indev",
                image.path(),
                "-report_el_torito",
                "plain",
            ],
        );
        let boot: Vec<&str> = report
            .lines()
            .filter(|line| line.starts_with("El Torito boot img"))
            .collect();
        assert_eq!(boot.len(), 1, "{report}");
        assert!(boot[0].contains(platform), "{report}");
    }
}

#[test]
fn isoinfo_lists_rock_ridge_and_joliet_names() {
    let inputs = inputs(Firmware::Both);
    let image = write(&boot_iso(&inputs.spec).unwrap(), &inputs.sources);
    let long = "long name ".repeat(22);
    let rock_ridge = run("genisoimage", "isoinfo", &["-R", "-l", "-i", image.path()]);
    for name in [
        "vmlinuz",
        "initrd",
        "isolinux.cfg",
        "network_data.json",
        &format!("{long}.txt"),
        &"l".repeat(255),
    ] {
        assert!(rock_ridge.contains(name), "{name} in {rock_ridge}");
    }
    let joliet = run("genisoimage", "isoinfo", &["-J", "-l", "-i", image.path()]);
    for name in ["vmlinuz", "initrd", "isolinux.cfg", "network_data.json", &long[..50]] {
        assert!(joliet.contains(name), "{name} in {joliet}");
    }
    let utf8 = [
        "-charset",
        "UTF-8",
        "-read_fs",
        "norock",
        "-indev",
        image.path(),
        "-find",
    ];
    let joliet = run("xorriso", "xorriso", &utf8);
    assert!(joliet.contains("'./names/ünïcödé ☃.txt'"), "{joliet}");
    let plain = run("genisoimage", "isoinfo", &["-l", "-i", image.path()]);
    for name in [
        "VMLINUZ.;1",
        "INITRD.;1",
        "ISOLINUX.CFG;1",
        "LDLINUX.C32;1",
        "NETWORK_DATA.JSON;1",
    ] {
        assert!(plain.contains(name), "{name} in {plain}");
    }
    let read = |view: &[&str]| {
        let mut command = Command::new("isoinfo");
        let output = command.args(view).args(["-i", image.path()]).output().unwrap();
        output.stdout
    };
    assert!(read(&["-R", "-x", "/boot/initrd"]) == inputs.ramdisk);
    assert!(read(&["-J", "-x", "/boot/initrd;1"]) == inputs.ramdisk);
    assert!(read(&["-x", "/BOOT/INITRD.;1"]) == inputs.ramdisk);
    let label = run("util-linux", "blkid", &["-p", "-o", "export", image.path()]);
    assert!(
        label.contains("LABEL=VMEDIA_BOOT_ISO") && label.contains("TYPE=iso9660"),
        "{label}"
    );
}

#[test]
fn a_config_drive_of_many_directories_is_read_back_whole() {
    let mut files: Vec<(String, Content)> = Vec::new();
    for i in 0..700u64 {
        files.push((
            format!("d{}/e{}/file with a rather long name {i}.json", i % 37, i % 5),
            pattern(i, 100).into(),
        ));
    }
    let layout = iso(&IsoSpec {
        label: "config-2".into(),
        files: files.clone(),
    })
    .unwrap();
    let image = write(&layout, &SourceMap::default());
    let out = image.path.with_extension("tree");
    run(
        "xorriso",
        "xorriso",
        &[
            "-abort_on",
            "WARNING",
            "-osirrox",
            "on",
            "-indev",
            image.path(),
            "-extract",
            "/",
            out.to_str().unwrap(),
        ],
    );
    let read = |path: &str| fs::read(Path::new(&out).join(path)).unwrap();
    for (path, content) in &files {
        let Content::Literal(expected) = content else {
            panic!("{path} is a literal")
        };
        assert!(read(path) == *expected, "{path}");
    }
    let joliet = run("genisoimage", "isoinfo", &["-J", "-f", "-i", image.path()]);
    assert_eq!(
        joliet.lines().filter(|line| line.ends_with(".json;1")).count(),
        700,
        "{joliet}"
    );
    // xorriso leaves directories without write permission, which a temporary directory cannot remove as a plain user.
    run("coreutils", "chmod", &["-R", "u+w", out.to_str().unwrap()]);
}

#[test]
fn a_recorded_iso_is_replayed_byte_for_byte_without_the_boot_loaders() {
    let inputs = inputs(Firmware::Both);
    let layout = boot_iso(&inputs.spec).unwrap();
    let reference = |content: &Bytes| (sha256(content), "https://192.0.2.1/x".to_owned());
    let references = [reference(&inputs.kernel), reference(&inputs.ramdisk)].into();
    let json = Recipe::of(&layout, &references).unwrap().to_json().unwrap();
    let replayed = Recipe::from_json(&json).unwrap().layout().unwrap();
    assert_eq!(replayed.digest(), layout.digest());
    let first = fs::read(write(&layout, &inputs.sources).path()).unwrap();
    assert!(fs::read(write(&replayed, &inputs.sources).path()).unwrap() == first);
}

#[test]
fn boot_loaders_that_are_sources_leave_a_small_recipe_and_the_same_bytes() {
    let mut inputs = inputs(Firmware::Both);
    let literal = boot_iso(&inputs.spec).unwrap();
    let mut contents = vec![inputs.kernel.clone(), inputs.ramdisk.clone()];
    let Some(isolinux) = &mut inputs.spec.isolinux else {
        panic!("isolinux is there")
    };
    isolinux.kept_as = Some(sha256(&isolinux.bytes));
    contents.push(isolinux.bytes.clone());
    let Some(Content::Literal(ldlinux)) = inputs.spec.ldlinux.clone() else {
        panic!("ldlinux is a literal")
    };
    inputs.spec.ldlinux = Some(source(&ldlinux).into());
    let esp = fs::read(write(&esp(&EspSpec { files: efi_binaries() }).unwrap(), &SourceMap::default()).path()).unwrap();
    inputs.spec.esp = Some(source(&esp.clone().into()).into());
    contents.extend([ldlinux, esp.into()]);
    let layout = boot_iso(&inputs.spec).unwrap();
    let references = contents
        .iter()
        .map(|content| (sha256(content), "x".to_owned()))
        .collect();
    let json = Recipe::of(&layout, &references).unwrap().to_json().unwrap();
    assert!(json.len() < 40_000, "{}", json.len());
    let written = fs::read(write(&layout, &sources(&contents)).path()).unwrap();
    let other = fs::read(write(&literal, &inputs.sources).path()).unwrap();
    // Aligned sources push later files on, so the images differ; what is in them does not.
    for path in ["/isolinux/ldlinux.c32", "/boot/grub/efiboot.img", KERNEL_PATH] {
        let dir = tempfile::tempdir().unwrap();
        let image = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            Written {
                path,
                _dir: tempfile::tempdir().unwrap(),
            }
        };
        assert!(
            extract(&image("a", &written), path) == extract(&image("b", &other), path),
            "{path}"
        );
    }
}

#[test]
fn files_on_disk_are_materialised_like_bytes_in_memory() {
    let inputs = inputs(Firmware::Bios);
    let layout = boot_iso(&inputs.spec).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut on_disk = SourceMap::default();
    for content in [&inputs.kernel, &inputs.ramdisk] {
        let path = dir.path().join(sha256(content).to_string());
        fs::write(&path, content).unwrap();
        on_disk.insert(sha256(content), Arc::new(FileSource::open(&path).unwrap()));
    }
    let first = fs::read(write(&layout, &inputs.sources).path()).unwrap();
    assert!(fs::read(write(&layout, &on_disk).path()).unwrap() == first);
    let mut at_once = vec![0; first.len()];
    layout.read_at(&on_disk, 0, &mut at_once).unwrap();
    assert!(at_once == first);
}
