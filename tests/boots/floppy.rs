//! `farrier image floppy` and `esp`, read by dosfstools and mtools.

use std::fs;

use crate::lab::Lab;
use crate::tool::{Folder, esp, make, tool};

fn check(image: &str) {
    let text = tool("dosfstools", "fsck.vfat", &["-n", "-V", image]);
    assert!(!text.contains("differences") && !text.contains("Dirty"), "{text}");
}

#[test]
fn a_floppy_is_clean_and_holds_the_parameters_and_the_files() {
    let folder = Folder::new();
    let (out, extra) = (folder.at("f.img"), folder.write("user data", "#!/bin/sh\n"));
    let args = ["--param", "ipa-api-url=http://192.0.2.1:6387,http://192.0.2.2:6387"];
    let ran = crate::tool::farrier(["image", "floppy"].into_iter().chain(args).chain([
        "--param",
        "boot_method=vmedia",
        "--file",
        &format!("{extra}:openstack/latest/user data"),
        "-o",
        &out,
    ]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("1.4 MiB") && ran.stdout.contains("sha256:"),
        "{}",
        ran.stdout
    );
    assert_eq!(fs::metadata(&out).unwrap().len(), 1_474_560);
    check(&out);
    let root = tool("mtools", "mdir", &["-i", &out, "::"]);
    assert!(root.contains("Volume in drive : is ir-vfd-dev"), "{root}");
    assert!(root.contains("parameters.txt"), "{root}");
    assert_eq!(
        tool("mtools", "mtype", &["-i", &out, "::parameters.txt"]),
        "ipa-api-url=http://192.0.2.1:6387,http://192.0.2.2:6387\nboot_method=vmedia\n"
    );
    assert_eq!(
        tool("mtools", "mtype", &["-i", &out, "::openstack/latest/user data"]),
        "#!/bin/sh\n"
    );
}

#[test]
fn a_floppy_has_the_label_and_the_size_that_were_asked_for() {
    let folder = Folder::new();
    let out = folder.at("f.img");
    let made = make(&format!("image floppy --label METRICS_VOL --size 2949120 -o {out}"));
    assert_eq!(made["size"], 2_949_120);
    check(&out);
    let root = tool("mtools", "mdir", &["-i", &out, "::"]);
    assert!(root.contains("is METRICS_VOL"), "{root}");
}

#[test]
fn two_runs_give_the_same_floppy_and_other_parameters_another() {
    let folder = Folder::new();
    let build = |name: &str, value: &str| {
        let out = folder.at(name);
        let made = make(&format!("image floppy --param k={value} -o {out}"));
        assert_eq!(made["path"], out);
        (made["digest"].as_str().unwrap().to_owned(), fs::read(out).unwrap())
    };
    let first = build("a", "1");
    // FAT writes times in steps of two seconds.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    assert!(build("b", "1") == first);
    let other = build("c", "2");
    assert!(other.0 != first.0 && other.1 != first.1);
}

#[test]
fn an_esp_is_clean_and_starts_the_loader_that_was_given_first() {
    let (lab, folder) = (Lab::new(), Folder::new());
    let image = esp(&lab, &folder);
    let image = image.to_str().unwrap();
    check(image);
    let loader = folder.at("loader");
    tool("mtools", "mcopy", &["-i", image, "::EFI/BOOT/BOOTX64.EFI", &loader]);
    assert!(fs::read(loader).unwrap() == fs::read(lab.file("GRUB_EFI")).unwrap());
    let config = tool("mtools", "mtype", &["-i", image, "::EFI/debian/grub.cfg"]);
    assert!(config.contains("search ") && config.contains("configfile "), "{config}");
    let again = folder.at("again.img");
    make(&format!("image esp --efi {} -o {again}", lab.text("GRUB_EFI")));
    assert!(fs::read(again).unwrap() == fs::read(image).unwrap());
}

#[test]
fn a_signed_shim_and_its_grub_land_where_firmware_and_shim_look() {
    let folder = Folder::new();
    let shim = folder.write("shimx64.efi.signed", "MZ shim");
    let grub = folder.write("grubx64.efi.signed", "MZ grub");
    let other = folder.write("x", "MZ other");
    let out = folder.at("esp.img");
    make(&format!(
        "image esp --efi {shim} {grub} {other}:EFI/tools/shell.efi -o {out}"
    ));
    check(&out);
    let content = |path: &str| tool("mtools", "mtype", &["-i", &out, path]);
    assert_eq!(content("::EFI/BOOT/BOOTX64.EFI"), "MZ shim");
    assert_eq!(content("::EFI/BOOT/grubx64.efi"), "MZ grub");
    assert_eq!(content("::EFI/tools/shell.efi"), "MZ other");
}
