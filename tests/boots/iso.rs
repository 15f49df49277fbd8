//! `farrier image iso`, read by xorriso and isoinfo.

use std::fs;
use std::process::{Command, Stdio};

use crate::lab::Lab;
use crate::tool::{Folder, esp, farrier, iso_line, make, tool, words};

fn line(lab: &Lab, folder: &Folder) -> String {
    let esp = esp(lab, folder);
    iso_line(lab, &esp, "DEPLOY_KERNEL_CLOUD", "DEPLOY_RAMDISK_CLOUD")
}

#[test]
fn a_boot_iso_has_a_bios_and_a_uefi_entry_and_two_views_of_its_files() {
    let (lab, folder) = (Lab::new(), Folder::new());
    let (out, note) = (folder.at("boot.iso"), folder.write("note", "hello"));
    let line = line(&lab, &folder);
    let made = make(&format!(
        "{line} --param ipa-api-url=http://192.0.2.1:6387 --append quiet --label BOOT_ISO \
         --file {note}:openstack/latest/a-rather-long-name.json -o {out}"
    ));
    assert_eq!(made["size"], fs::metadata(&out).unwrap().len());
    let report = tool(
        "xorriso",
        "xorriso",
        &["-abort_on", "WARNING", "-indev", &out, "-report_el_torito", "plain"],
    );
    assert!(report.contains("Volume id    : 'BOOT_ISO'"), "{report}");
    let entries: Vec<Vec<&str>> = report
        .lines()
        .filter_map(|line| line.strip_prefix("El Torito boot img :"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    // Number, platform, bootable, emulation, …
    assert_eq!(entries.len(), 2, "{report}");
    assert_eq!(entries[0][..4], ["1", "BIOS", "y", "none"], "{report}");
    assert_eq!(entries[1][..4], ["2", "UEFI", "y", "none"], "{report}");
    assert!(report.contains("El Torito img opts :   1  boot-info-table"), "{report}");

    let rock_ridge = tool("genisoimage", "isoinfo", &["-R", "-l", "-i", &out]);
    let joliet = tool("genisoimage", "isoinfo", &["-J", "-l", "-i", &out]);
    for name in [
        "vmlinuz",
        "initrd",
        "isolinux.bin",
        "grub.cfg",
        "a-rather-long-name.json",
    ] {
        assert!(
            rock_ridge.contains(name) && joliet.contains(name),
            "{name}\n{rock_ridge}\n{joliet}"
        );
    }
    let extract = |path: &str| {
        let to = folder.at("extracted");
        tool(
            "xorriso",
            "xorriso",
            &["-osirrox", "on", "-indev", &out, "-extract_single", path, &to],
        );
        let bytes = fs::read(&to).unwrap();
        fs::remove_file(to).unwrap();
        bytes
    };
    assert!(extract("/boot/vmlinuz") == fs::read(lab.file("DEPLOY_KERNEL_CLOUD")).unwrap());
    assert!(extract("/boot/initrd") == fs::read(lab.file("DEPLOY_RAMDISK_CLOUD")).unwrap());
    assert!(extract("/boot/grub/efiboot.img") == fs::read(folder.at("esp.img")).unwrap());
    assert_eq!(extract("/openstack/latest/a-rather-long-name.json"), b"hello");
    for config in ["/isolinux/isolinux.cfg", "/boot/grub/grub.cfg"] {
        let config = String::from_utf8(extract(config)).unwrap();
        for word in ["boot_method=vmedia", "ipa-api-url=http://192.0.2.1:6387", "quiet"] {
            assert!(config.contains(word), "{word}: {config}");
        }
    }
}

#[test]
fn two_runs_give_the_same_iso_whatever_its_name_and_however_it_is_written() {
    let (lab, folder) = (Lab::new(), Folder::new());
    let line = line(&lab, &folder);
    let first = make(&format!("{line} -o {}", folder.at("a.iso")));
    let bytes = fs::read(folder.at("a.iso")).unwrap();
    // The second of each run differs; the images do not.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let link = folder.at("link.iso");
    let target = folder.write("target.iso", "what was there before");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let second = make(&format!("{line} --force -o {link}"));
    assert_eq!(first["digest"], second["digest"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "a link stays a link");
    assert!(fs::read(&target).unwrap() == bytes);

    let piped = Command::new(env!("CARGO_BIN_EXE_farrier"))
        .args(words(&line))
        .args(["-o", "-", "--format", "json"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(piped.stderr).unwrap();
    assert!(piped.status.success(), "{said}");
    assert!(piped.stdout == bytes);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["digest"], first["digest"]);
}

#[test]
fn the_boot_loaders_that_are_given_decide_which_firmware_boots_it() {
    let (lab, folder) = (Lab::new(), Folder::new());
    let esp = esp(&lab, &folder);
    let pair = format!(
        "image iso --kernel {} --ramdisk {}",
        lab.text("DEPLOY_KERNEL_CLOUD"),
        lab.text("DEPLOY_RAMDISK_CLOUD")
    );
    let isolinux = format!("--isolinux {}", lab.text("ISOLINUX"));
    let esp = format!("--esp {}", esp.display());
    for (loaders, platforms) in [
        (isolinux.clone(), &["BIOS"][..]),
        (esp.clone(), &["UEFI"]),
        (format!("{isolinux} {esp} --firmware uefi"), &["UEFI"]),
        (format!("{isolinux} {esp} --firmware bios"), &["BIOS"]),
        (format!("{isolinux} {esp} --firmware both"), &["BIOS", "UEFI"]),
    ] {
        let out = folder.at("one.iso");
        make(&format!("{pair} {loaders} --force -o {out}"));
        let report = tool("xorriso", "xorriso", &["-indev", &out, "-report_el_torito", "plain"]);
        let found: Vec<&str> = report
            .lines()
            .filter_map(|line| line.strip_prefix("El Torito boot img :")?.split_whitespace().nth(1))
            .collect();
        assert_eq!(found, platforms, "{loaders}");
    }
}

#[test]
fn a_hybrid_iso_has_an_efi_system_partition_and_the_loaders_own_code_in_its_first_sector() {
    let (lab, folder) = (Lab::new(), Folder::new());
    let pair = format!(
        "image iso --kernel {} --ramdisk {}",
        lab.text("DEPLOY_KERNEL_CLOUD"),
        lab.text("DEPLOY_RAMDISK_CLOUD")
    );
    let (isolinux, grub) = (lab.text("ISOLINUX"), lab.text("GRUB_BIOS"));
    for (bios, mbr) in [
        (format!("--isolinux {isolinux}"), "ISOLINUX_MBR"),
        (
            format!("--grub-bios {grub} --mbr {}", lab.text("GRUB_BIOS_MBR")),
            "GRUB_BIOS_MBR",
        ),
    ] {
        let out = folder.at("hybrid.iso");
        let efi = lab.text("GRUB_EFI");
        make(&format!("{pair} {bios} --efi {efi} --hybrid --force -o {out}"));
        let told = farrier(["image", "inspect", &out, "-o", "json"]);
        let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        let platforms: Vec<_> = told["boot"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| &entry["platform"])
            .collect();
        assert_eq!(platforms, ["BIOS", "UEFI"], "{told}");
        let kinds = told["partitions"]["gpt"]
            .as_array()
            .unwrap()
            .iter()
            .map(|partition| &partition["kind"]);
        assert!(kinds.into_iter().any(|kind| kind == "EFI system"), "{told}");
        let code = fs::read(lab.file(mbr)).unwrap();
        let first = fs::read(&out).unwrap();
        // GRUB's has fields that are filled in from byte 0x1B0 on; both leave the first bytes as they are.
        assert!(first[..0x5A] == code[..0x5A], "{bios}");
        let loader = farrier(["image", "cat", &out, "--esp", "EFI/BOOT/BOOTX64.EFI"]);
        assert_eq!(loader.code, Some(0), "{}", loader.stderr);
        let table = tool("fdisk", "sfdisk", &["-l", &out]);
        assert!(
            table.contains("Disklabel type: gpt") && table.contains("EFI System"),
            "{table}"
        );
    }
    let refused = farrier(words(&format!(
        "{pair} --isolinux {isolinux} --grub-bios {grub} -o {}",
        folder.at("x")
    )));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
}

#[test]
fn progress_is_shown_on_a_terminal() {
    let (lab, folder) = (Lab::new(), Folder::new());
    let line = format!(
        "{} {} -o {}",
        env!("CARGO_BIN_EXE_farrier"),
        line(&lab, &folder),
        folder.at("a.iso")
    );
    let terminal = tool("bsdutils", "script", &["-qec", &line, "/dev/null"]);
    assert!(
        terminal.contains("reading ") && terminal.contains("vmlinuz"),
        "{terminal:?}"
    );
    assert!(terminal.contains("made in"), "{terminal:?}");
    let refused = farrier(["image", "floppy", "-o", "-"]);
    assert_eq!(refused.code, Some(0), "a pipe takes an image");
    let line = format!("{} image floppy -o -", env!("CARGO_BIN_EXE_farrier"));
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing for a terminal"), "{said}");
}
