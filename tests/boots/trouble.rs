//! Image commands with what they cannot use: each says what, where and what to do, ends with the right code, and leaves
//! nothing behind.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::process::{Command, Stdio};

use crate::lab::Lab;
use crate::tool::{Folder, Ran, esp, farrier, iso_line, words};

const FAILED: Option<i32> = Some(1);
const USAGE: Option<i32> = Some(2);

/// Runs a command that must fail with this code, saying each of these, and leave the folder as it was.
fn refuse(folder: &Folder, line: &str, code: Option<i32>, says: &[&str]) {
    let before = folder.names();
    check(&farrier(words(line)), line, code, says);
    assert_eq!(folder.names(), before, "{line}");
}

fn check(ran: &Ran, line: &str, code: Option<i32>, says: &[&str]) {
    assert_eq!(ran.code, code, "{line}: {}", ran.stderr);
    assert_eq!(ran.stdout, "", "{line}");
    assert!(ran.stderr.starts_with("error: "), "{line}: {}", ran.stderr);
    for said in says {
        assert!(ran.stderr.contains(said), "{line}: `{said}` in: {}", ran.stderr);
    }
}

#[test]
fn inputs_that_are_not_there_or_no_files_are_named() {
    let (lab, folder) = (Lab::new(), Folder::new());
    let (kernel, out) = (lab.text("DEPLOY_KERNEL_CLOUD"), folder.at("o.iso"));
    let isolinux = format!("--isolinux {}", lab.text("ISOLINUX"));
    let pipe = folder.at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let missing = folder.at("missing");
    let shown = folder.path().display();
    for (kernel, ramdisk, says) in [
        (
            missing.as_str(),
            kernel.as_str(),
            [&missing, "(--kernel)", "No such file"],
        ),
        (
            &kernel,
            &missing,
            [&missing, "(--ramdisk)", "name a file that is there"],
        ),
        (
            &shown.to_string(),
            &kernel,
            [&shown.to_string(), "(--kernel)", "is a folder: name a file"],
        ),
        (&kernel, &pipe, [&pipe, "(--ramdisk)", "is a device or a pipe"]),
        (
            "/dev/zero",
            &kernel,
            ["/dev/zero", "(--kernel)", "is a device or a pipe"],
        ),
    ] {
        let line = format!("image iso --kernel {kernel} --ramdisk {ramdisk} {isolinux} -o {out}");
        refuse(&folder, &line, FAILED, &says);
    }
    let line = format!("image floppy --file {missing}:x -o {out}");
    refuse(&folder, &line, FAILED, &[&missing, "(--file)"]);
    let line = format!("image esp --efi {missing} -o {out}");
    refuse(&folder, &line, FAILED, &[&missing, "(--efi)"]);
    let empty = folder.write("empty", "");
    let line = format!("image iso --kernel {kernel} --ramdisk {empty} {isolinux} -o {out}");
    refuse(&folder, &line, FAILED, &["the ramdisk is empty"]);
}

#[test]
fn boot_loaders_that_are_missing_or_something_else_are_named() {
    let (lab, folder) = (Lab::new(), Folder::new());
    let (kernel, out) = (lab.text("DEPLOY_KERNEL_CLOUD"), folder.at("o.iso"));
    let (isolinux, grub) = (lab.text("ISOLINUX"), lab.text("GRUB_EFI"));
    let esp = esp(&lab, &folder).display().to_string();
    let pair = format!("image iso --kernel {kernel} --ramdisk {kernel} -o {out}");
    for (loaders, code, says) in [
        (String::new(), USAGE, &["--isolinux <FILE>", "--esp <FILE>"][..]),
        (
            format!("--firmware both --isolinux {isolinux}"),
            USAGE,
            &["--esp <FILE>"],
        ),
        (format!("--firmware both --esp {esp}"), USAGE, &["--isolinux <FILE>"]),
        (format!("--firmware bios --esp {esp}"), USAGE, &["--isolinux <FILE>"]),
        (format!("--firmware riscv --esp {esp}"), USAGE, &["bios, uefi, both"]),
        (format!("--ldlinux {kernel} --esp {esp}"), USAGE, &["--isolinux <FILE>"]),
        (format!("--isolinux {kernel}"), FAILED, &["isolinux.bin", "no isolinux"]),
        (
            format!("--esp {grub}"),
            FAILED,
            &[&grub, "no image of an EFI system partition", "farrier image esp"],
        ),
    ] {
        refuse(&folder, &format!("{pair} {loaders}"), code, says);
    }
    let floppy = folder.at("floppy.img");
    assert_eq!(farrier(words(&format!("image floppy -o {floppy}"))).code, Some(0));
    let line = format!("{pair} --esp {floppy}");
    refuse(
        &folder,
        &line,
        FAILED,
        &[&floppy, "no EFI/BOOT/BOOT<arch>.EFI", "farrier image esp"],
    );
    let line = format!("image esp --efi {grub}:EFI/BOOT/grubx64.efi -o {out}");
    refuse(&folder, &line, FAILED, &["EFI/BOOT/BOOT<arch>.EFI"]);
}

#[test]
fn a_parameter_that_its_reader_would_not_see_whole_is_refused_without_its_value() {
    let (lab, folder) = (Lab::new(), Folder::new());
    let out = folder.at("o");
    let esp = esp(&lab, &folder);
    let iso = iso_line(&lab, &esp, "DEPLOY_KERNEL_CLOUD", "DEPLOY_RAMDISK_CLOUD");
    for (line, parameter, says) in [
        ("image floppy", "token=hunter2 x", ["\"token\"", "a space", "encode it"]),
        (
            "image floppy",
            "token=hunter2\n",
            ["\"token\"", "line break", "encode it"],
        ),
        (&iso, "token=hunter2 x", ["\"token\"", "a space", "encode it"]),
        (&iso, "token='hunter2'", ["\"token\"", "`'`", "encode it"]),
        ("image floppy", "a key=1", ["\"a key\"", "a space", "letters, digits"]),
    ] {
        let before = folder.names();
        let ran = farrier(words(line).into_iter().chain(["--param", parameter, "-o", &out]));
        check(&ran, parameter, FAILED, &says);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
        assert_eq!(folder.names(), before, "{parameter}");
    }
    let twice = format!("image floppy --param a=1 --param a=2 -o {out}");
    refuse(
        &folder,
        &twice,
        FAILED,
        &["\"a\"", "given twice", "leave one of them out"],
    );
    refuse(
        &folder,
        &format!("image floppy --param a -o {out}"),
        USAGE,
        &["--param <K=V>", "KEY=VALUE"],
    );
    refuse(
        &folder,
        &format!("image floppy --file a -o {out}"),
        USAGE,
        &["--file <SRC:DST>", "expected SRC:DST"],
    );
    refuse(
        &folder,
        &format!("image floppy --size 100 -o {out}"),
        FAILED,
        &["100 bytes", "multiple of 512"],
    );
    refuse(
        &folder,
        &format!("image floppy --label twelve_chars -o {out}"),
        FAILED,
        &["twelve_chars", "at most 11"],
    );
    refuse(&folder, "image floppy", USAGE, &["--out <OUT>"]);
}

#[test]
fn a_place_that_no_image_can_be_put_in_is_named() {
    let folder = Folder::new();
    let nowhere = folder.at("nowhere/f.img");
    let line = format!("image floppy -o {nowhere}");
    refuse(&folder, &line, FAILED, &[&nowhere, "create the folder first"]);
    let file = folder.write("file", "mine");
    let line = format!("image floppy -o {file}/f.img");
    refuse(&folder, &line, FAILED, &[&file, "create the folder first"]);
    let here = folder.path().display().to_string();
    refuse(
        &folder,
        &format!("image floppy -o {here}"),
        FAILED,
        &[&here, "is a folder: name a file in it"],
    );
    // As root, a rename would put a file in its place.
    refuse(
        &folder,
        "image floppy -o /dev/null",
        FAILED,
        &["/dev/null", "device", "-o -"],
    );
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    refuse(
        &folder,
        &format!("image floppy -o {file}"),
        FAILED,
        &[&file, "is there already", "--force"],
    );
    let line = format!("image floppy --file {file}:x --force -o {file}");
    refuse(&folder, &line, FAILED, &[&file, "(--file)", "would be replaced"]);
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
    let link = folder.at("link");
    std::os::unix::fs::symlink(folder.at("gone"), &link).unwrap();
    refuse(
        &folder,
        &format!("image floppy -o {link}"),
        FAILED,
        &[&link, "a link that leads nowhere"],
    );
}

/// Mounts a tmpfs with these options over the folder `at`, where only the script sees it; runs the script, then lists the
/// folder.
fn with_mount(at: &str, options: &str, script: &str) -> (Ran, String) {
    let script = format!(
        "mount -t tmpfs -o {options} none {at} || exit 99
         {script}; code=$?
         echo LISTING; ls -A {at}; exit $code"
    );
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("unshare is needed (Debian package util-linux): {error}"));
    let mut ran = Ran::from(output);
    assert_ne!(
        ran.code,
        Some(99),
        "this machine lets nobody mount a tmpfs: {}",
        ran.stderr
    );
    let (stdout, listing) = ran.stdout.split_once("LISTING\n").expect("the script ran to its end");
    let listing = listing.to_owned();
    ran.stdout = stdout.to_owned();
    (ran, listing)
}

#[test]
fn a_full_or_read_only_disk_is_named_and_left_as_it_was() {
    let (lab, folder) = (Lab::new(), Folder::new());
    let disk = folder.at("disk");
    fs::create_dir(&disk).unwrap();
    let esp = esp(&lab, &folder);
    let line = iso_line(&lab, &esp, "DEPLOY_KERNEL_CLOUD", "DEPLOY_RAMDISK_CLOUD");
    let line = format!("{line} -o {disk}/boot.iso");
    let script = format!("{} {line}", env!("CARGO_BIN_EXE_farrier"));
    let (ran, listing) = with_mount(&disk, "size=4m", &script);
    check(
        &ran,
        &line,
        FAILED,
        &["no room", &disk, "it needs 1", "MiB", "No space left"],
    );
    assert_eq!(listing, "");
    let (ran, listing) = with_mount(&disk, "size=64m", &script);
    assert_eq!((ran.code, listing.as_str()), (Some(0), "boot.iso\n"), "{}", ran.stderr);
    let line = format!("image floppy -o {disk}/f.img");
    let script = format!("{} {line}", env!("CARGO_BIN_EXE_farrier"));
    let (ran, listing) = with_mount(&disk, "ro", &script);
    check(&ran, &line, FAILED, &[&disk, "make it writable", "Read-only"]);
    assert_eq!(listing, "");
}

#[test]
fn a_command_that_is_killed_while_it_writes_leaves_what_was_there() {
    let (lab, folder) = (Lab::new(), Folder::new());
    let disk = folder.at("disk");
    fs::create_dir(&disk).unwrap();
    // Takes longer to copy onto another file system than to be seen at it; a hole takes no room here.
    let ramdisk = folder.write("ramdisk", "");
    let file = fs::File::options().write(true).open(&ramdisk).unwrap();
    file.set_len(1 << 30).unwrap();
    // The image has its size from the first byte on.
    let script = format!(
        "echo before > {disk}/boot.iso
         {} image iso --kernel {} --ramdisk {ramdisk} --isolinux {} --force -o {disk}/boot.iso &
         farrier=$!
         while kill -0 $farrier; do
             for fd in /proc/$farrier/fd/*; do
                 case $(readlink $fd) in
                     {disk}/*) [ $(stat -Lc %s $fd) -eq 0 ] || {{ kill -KILL $farrier; echo KILLED; break 2; }} ;;
                 esac
             done
         done
         wait $farrier
         cat {disk}/boot.iso",
        env!("CARGO_BIN_EXE_farrier"),
        lab.text("DEPLOY_KERNEL_CLOUD"),
        lab.text("ISOLINUX"),
    );
    let (ran, listing) = with_mount(&disk, "size=2g", &script);
    assert_eq!(
        (ran.stdout.as_str(), listing.as_str()),
        ("KILLED\nbefore\n", "boot.iso\n"),
        "{}",
        ran.stderr
    );
}
